"""The journeys under each event loop a host may use, with and without ``sniffio`` installed.

A journey with a real server that is not installed is left out; the journeys' own tests report it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.journeys import catalogue
from tests.journeys.asking_story import ERAS, play
from tests.support.runners import CASES, Case, run_apart

AS_HOSTS_DO = Case("asyncio", True)
"""How most programs run that also use a model provider's SDK."""


@pytest.mark.parametrize("era", ERAS)
async def test_a_session_with_a_server_that_asks_back(era: str) -> None:
    await play(era)


@pytest.mark.slow
def test_a_server_that_asks_back_is_answered_in_the_program_of_a_host() -> None:
    _check(AS_HOSTS_DO, "OURS", [f"asking, {era}" for era in ERAS])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_journeys_with_our_own_servers_pass_under_every_event_loop(case: Case) -> None:
    _check(case, "OURS", list(catalogue.OURS))


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize(
    "case",  # the tests of the journeys themselves run under anyio's own runner
    [case for case in CASES if case.runner != "anyio"],
    ids=str,
)
def test_journeys_with_real_servers_pass_under_every_event_loop(case: Case) -> None:
    _check(case, "REAL", catalogue.FEWER_REAL)


def _check(case: Case, name: str, journeys: Sequence[str]) -> None:
    if case.missing is not None:
        pytest.skip(case.missing)
    outcomes = run_apart(case, f"tests.journeys.catalogue:{name}", journeys)
    problems = [f"{outcome.journey}: {outcome.problem}" for outcome in outcomes if outcome.problem]
    assert not problems, "\n\n".join(problems)
