"""The stories under each event loop a host may use, with and without ``sniffio`` installed."""

from __future__ import annotations

import pytest

from tests.journeys.asking_story import CATALOGUE, ERAS, tell
from tests.runners import CASES, Case, run_apart

EVERY_ONE = [name for name in CATALOGUE if not name.startswith("library")]
NEWEST = [
    f"library, {transport}, {revision}"
    for transport in ("memory", "stdio", "http")
    for revision in ("2025-11-25", "2026-07-28")
]


@pytest.mark.parametrize("era", ERAS)
async def test_the_story_of_a_server_that_asks_back(era: str) -> None:
    await tell(era)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_stories_are_the_same_under_every_event_loop(case: Case) -> None:
    if case.missing is not None:
        pytest.skip(case.missing)
    outcomes = run_apart(case, "tests.journeys.asking_story:CATALOGUE", [*EVERY_ONE, *NEWEST])
    problems = [f"{outcome.journey}: {outcome.problem}" for outcome in outcomes if outcome.problem]
    assert not problems, "\n\n".join(problems)
