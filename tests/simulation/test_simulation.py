"""Lives of a client in a simulated world: see ``world``. Here are as many as take some seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import IN_CI

from .life import Options, live

LIVES = 2_400 if IN_CI else 200
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


def test_the_same_seed_gives_the_same_timeline_in_another_process() -> None:
    def timelines(hash_seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        words = [sys.executable, "-c", _TIMELINES]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        return done.stdout

    here = "".join(f"{line}\n" for seed in range(6) for line in live(seed).trace)
    assert here == timelines("1") == timelines("2")
