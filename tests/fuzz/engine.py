"""A small search for inputs that reach new branches, for where atheris is not installed.

An input that takes the program from one line to another in a way that none before it did is stored,
and changed further. Deterministic for a seed and a number of executions.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import mcp_client

if TYPE_CHECKING:
    from .targets import Target

__all__ = ["Found", "search"]

_ROOT = str(Path(mcp_client.__file__).parent)
_LONGEST = 2_000
_WORDS: Sequence[bytes] = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b",",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"NaN",
    b"9" * 40,
    b"\\ud800",
    b"\xff",
    b"\x00",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"data:",
    b"id:",
    b"${",
    b"{}",
    b"[]",
    b'""',
    b'"id"',
    b'"jsonrpc":"2.0"',
)


@dataclass
class Found:
    executions: int = 0
    seconds: float = 0.0
    branches: int = 0
    stored: int = 0
    failing: bytes | None = None
    error: BaseException | None = None


def search(
    target: Target, *, seed: int, executions: int | None = None, seconds: float | None = None
) -> Found:
    """Until an input fails, or there were so many executions, or the time is up."""
    rng, found, seen = random.Random(seed), Found(), set[tuple[str, int, int]]()
    corpus = list(target.seeds)
    waiting = list(target.seeds)
    covered = tuple(f"{_ROOT}/{name}" for name in target.covers)
    began = time.monotonic()
    while executions is None or found.executions < executions:
        if seconds is not None and time.monotonic() - began > seconds:
            break
        data = waiting.pop() if waiting else _changed(rng, corpus)
        found.executions += 1
        reached, error = _traced(target.run, data, covered)
        if error is not None:
            found.failing, found.error = data, error
            break
        if not reached <= seen:
            seen |= reached
            corpus.append(data)
    found.seconds = time.monotonic() - began
    found.branches, found.stored = len(seen), len(corpus) - len(target.seeds)
    return found


def _traced(
    run: Callable[[bytes], None], data: bytes, covered: tuple[str, ...]
) -> tuple[set[tuple[str, int, int]], BaseException | None]:
    reached: set[tuple[str, int, int]] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if file not in covered:
            return None
        before = frame.f_lineno

        def lines(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal before
            if event == "line":
                reached.add((file, before, frame.f_lineno))
                before = frame.f_lineno
            return lines

        return lines

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        run(data)
    except Exception as error:
        return reached, error
    finally:
        sys.settrace(earlier)
    return reached, None


def _changed(rng: random.Random, corpus: list[bytes]) -> bytes:
    data = bytearray(rng.choice(corpus))
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0:
                data[at:at] = rng.choice(_WORDS)
            case 1:
                del data[at : at + rng.randrange(1, 9)]
            case 2:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 3:
                piece = data[at : at + rng.randrange(1, 30)]
                there = rng.randrange(len(data) + 1)
                data[there:there] = piece
            case 4:
                other = rng.choice(corpus)
                start = rng.randrange(len(other) + 1)
                data[at:] = other[start:]
            case 5:
                data[at : at + rng.randrange(1, 9)] = rng.choice(_WORDS)
            case _:
                if at < len(data):
                    data[at] ^= 1 << rng.randrange(8)
    return bytes(data[:_LONGEST])
