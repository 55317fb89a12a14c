"""When a server that failed is started again: later each time, and at once after a long good run.

A server that never comes up is started after about 1, 2, 4, ... seconds, at most every minute. One
that came up and died is started again at once, the first time, and then likewise; having been up
for ``STABLE`` seconds makes it a good server again. So a crash loop costs at most a handful of
starts in its first seconds, and a start a minute for the rest of its life.
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["STABLE", "Backoff"]

STABLE = 30.0
"""Seconds of being up after which earlier failures no longer count."""
_FIRST = 1.0
_LONGEST = 60.0
_LONGEST_ASKED_FOR = 3600.0


class Backoff:
    """One server's. All times are of one clock, in seconds."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        """``jitter`` gives a number from 0 to 1, which spreads the starts of many servers."""
        self._jitter = jitter
        self._starts = 0
        self._came_up = False
        self._up_since = math.inf
        self._next = -math.inf

    def wait(self, now: float) -> float:
        """Seconds until it may be started; 0 if it may be now."""
        return max(0.0, self._next - now)

    def started(self, now: float) -> None:
        self._starts += 1
        self._up_since = math.inf

    def abandoned(self) -> None:
        """What was started last was given up before it could come up."""
        self._starts = max(0, self._starts - 1)

    def up(self, now: float) -> None:
        self._up_since, self._came_up = now, True

    def down(self, now: float, at_least: float | None = None) -> None:
        """It failed to start, or what was up has ended; ``at_least``: seconds it asks for."""
        if now - self._up_since >= STABLE:
            self._starts = 1
        self._up_since = math.inf
        pause = self._pause()
        if at_least is not None and at_least > pause:
            pause = min(at_least, _LONGEST_ASKED_FOR)
        self._next = now + pause

    def reset(self) -> None:
        """Forget what was: it may be started now."""
        self._starts, self._next, self._came_up = 0, -math.inf, False

    def _pause(self) -> float:
        tries = self._starts - (1 if self._came_up else 0)
        if tries < 1:
            return 0.0
        longest = min(_LONGEST, _FIRST * 2.0 ** min(tries - 1, 16))
        return longest * (0.5 + self._jitter() / 2)
