"""Lives of a client in a simulated world: see ``world``. Here are as many as take some seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .life import Options, live
from .mutations import MUTATIONS
from .observer import DENIALS
from .world import FAULTS

LIVES, MANY = 200, 2_000
OUTCOMES = (
    "CallCancelled",
    "CallDenied",
    "CallPending",
    "CallTimeout",
    "CallWithdrawn",
    "ConnectError",
    "ConnectionLost",
    "InvalidArguments",
    "InvalidResult",
    "OutcomeUnknown",
    "ProtocolViolation",
    "ServerError",
    "StateError",
    "ToolResult",
    "Unanswered",
    "UnknownTool",
    "cancelled",
    "what a model reads",
)
FOUND = Path(__file__).with_name("found.txt")
_TIMELINES = """
from tests.simulation.life import live
for seed in range(6):
    print(*live(seed).trace, sep="\\n")
"""


def found() -> list[int]:
    lines = FOUND.read_text().splitlines()
    return [int(line.split()[0]) for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("seed", found())
def test_what_was_found_once_is_right(seed: int) -> None:
    for backend in ("", "trio", "asyncio"):
        assert live(seed, Options(backend=backend)).wrong == []


@pytest.mark.parametrize("part", range(4))
def test_every_promise_is_kept_in_each_life(part: int) -> None:
    wrong = {seed: live(seed).wrong for seed in range(part, LIVES, 4)}
    assert {seed: what for seed, what in wrong.items() if what} == {}


@pytest.mark.slow
def test_each_kind_of_fault_error_and_denial_happens_in_some_life() -> None:
    happened, wrong = Counter[str](), dict[int, list[str]]()
    for seed in range(LIVES, LIVES + MANY):
        world = live(seed)
        happened += world.happened
        if world.wrong:
            wrong[seed] = world.wrong
    assert wrong == {}
    sometimes = {
        *(f"fault: {kind}" for kind in FAULTS),
        *(f"denied: {why}" for why in DENIALS),
        *(f"outcome: {kind}" for kind in OUTCOMES),
    }
    assert sometimes - {*happened} == set()


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_mistake_can_be_made(name: str) -> None:
    mutation = MUTATIONS[name]
    assert mutation.source.count(mutation.before) == 1
    assert mutation.before != mutation.after


def test_a_mistake_is_noticed() -> None:
    words = ["-m", "tests.simulation.mutations", "--most=100", "an answer that is none allows"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert (done.returncode, "was sent without an approval" in done.stdout) == (0, True), done


def test_the_same_seed_gives_the_same_timeline_in_another_process() -> None:
    def timelines(hash_seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        words = [sys.executable, "-c", _TIMELINES]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        return done.stdout

    here = "".join(f"{line}\n" for seed in range(6) for line in live(seed).trace)
    assert here == timelines("1") == timelines("2")
