"""Lives of a client in a simulated world: see ``world``. Here are as many as take some seconds."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from mcp_client import errors

from .life import Options, live, lives
from .mutations import MUTATIONS
from .sometimes import MANY, NOT_SIMULATED, REACHED, unreached
from .world import FAULTS

LIVES = 200
FIRST = 2_200
"""The first of ``MANY`` seeds in which also what is rare happens."""
FOUND = Path(__file__).with_name("found.txt")
OTHER_PYTHONS = os.environ.get("MCP_CLIENT_TESTS_PYTHONS", "").split()
"""Other versions of Python with the same packages, to be compared as well: the part ``versions`` of
``.ci/run`` names one."""
_TIMELINES = """
from tests.simulation.life import Options, live
for seed in range(5):
    for backend in ("trio", "asyncio"):
        print(*live(seed, Options(backend=backend, messages=True)).trace, sep="\\n")
"""


def found() -> list[tuple[int, frozenset[str]]]:
    """The seeds of ``FOUND``, and the kinds of faults that their lives are lived without."""
    lines = re.findall(r"^(\d+) (?:\[(.*?)\] )?", FOUND.read_text(), re.MULTILINE)
    return [(int(seed), frozenset(kinds.split(","))) for seed, kinds in lines]


@pytest.mark.parametrize(("seed", "dropped"), found(), ids=lambda each: str(each)[:9])
def test_what_was_found_once_is_right(seed: int, dropped: frozenset[str]) -> None:
    assert dropped - {""} <= {*FAULTS, "rare focus", "newer focus", "rarest focus"}
    for backend in ("", "trio", "asyncio"):
        assert live(seed, Options(dropped, backend=backend)).wrong == []


@pytest.mark.parametrize("part", range(4))
def test_every_promise_holds_in_each_life(part: int) -> None:
    seeds = range(part, LIVES, 4)
    assert {seed: wrong for seed, _, wrong in lives(seeds) if wrong} == {}


def test_each_class_of_errors_is_one_that_happens_or_one_that_cannot() -> None:
    classes = {name for name in errors.__all__ if inspect.isclass(getattr(errors, name))}
    excused = {name for names in NOT_SIMULATED for name in names.split(", ")}
    assert classes == excused | REACHED
    assert excused & REACHED == set()


def test_without_a_life_no_fault_is_reached() -> None:
    assert {f"fault: {kind}" for kind in FAULTS} <= unreached(Counter())


@pytest.mark.slow
def test_each_kind_of_fault_and_error_and_branch_of_the_gate_is_reached() -> None:
    happened, wrong = Counter[str](), dict[int, list[str]]()
    for seed, found, broken in lives(range(FIRST, FIRST + MANY)):
        happened.update(found)
        if broken:
            wrong[seed] = broken
    assert wrong == {}
    assert unreached(happened) == set()


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_mistake_can_be_made(name: str) -> None:
    mutation = MUTATIONS[name]
    assert mutation.source.count(mutation.before) == 1
    assert mutation.before != mutation.after


def test_a_mistake_is_noticed() -> None:
    words = ["-m", "tests.simulation.mutations", "--most=100", "what is not a decision allows"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert (done.returncode, "was sent without an approval" in done.stdout) == (0, True), done


def test_the_same_seed_gives_the_same_timeline_in_another_process() -> None:
    def timelines(python: str, hash_seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        words = [python, "-c", _TIMELINES]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        return done.stdout

    here = timelines(sys.executable, "1")
    with redirect_stdout(StringIO()) as printed:  # in a process that has lived other lives
        exec(_TIMELINES, {})
    assert printed.getvalue() == here
    for python in (sys.executable, *OTHER_PYTHONS):
        assert timelines(python, "2") == here, python
