"""The time of the next attempt after a failure: later each time.

``Backoff`` is for a server that is started again. One that never comes up is started after about 1,
2, 4, ... seconds, at most every minute. A server that started and then exited is started again
immediately the first time, and with pauses after that. After ``STABLE_SECONDS`` of running it
counts as good again. So a crash loop costs at most a handful of starts in its first seconds, and a
start a minute for the rest of its life.
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["STABLE_SECONDS", "Backoff", "NoticePace", "chance", "doubled", "spread"]

STABLE_SECONDS = 30.0
"""The seconds of being up after which earlier failures no longer count."""
_FIRST_SECONDS = 1.0
_MAX_SECONDS = 60.0
_MAX_ASKED_SECONDS = 3600.0
_FREE_FETCHES, _CALM_SECONDS = 3, 10.0
_FIRST_NOTICE_SECONDS, _MAX_NOTICE_SECONDS = 0.5, 5.0


def doubled(first: float, times: int, most: float = math.inf) -> float:
    """``first`` seconds, doubled so many ``times``, and ``most`` at most."""
    return min(first * 2.0 ** min(max(times, 0), 32), most)


def chance() -> float:
    """Return a random number from 0 to 1, for ``spread``."""
    import random  # only now: few programs ever come here

    return random.random()  # noqa: S311 - spreads, hides nothing


def spread(
    seconds: float, least: float = 0.5, most: float = 1.5, jitter: Callable[[], float] = chance
) -> float:
    """Return a pause of ``least`` to ``most`` times ``seconds``: the one jitter of this package.

    Many clients then do not come at once.
    """
    return seconds * (least + (most - least) * jitter())


class NoticePace:
    """The pace at which a list is fetched again that its server reports as changed.

    Three fetches in a row are not delayed. Later ones wait longer each time, until the server was
    calm for ten seconds: some servers announce a change whenever their list is fetched.
    """

    def __init__(self) -> None:
        self._fetches = 0
        self._last = -math.inf

    def wait(self, now: float) -> float:
        """Return the seconds until the list may be fetched; 0 if it may be now."""
        later = self._fetches - _FREE_FETCHES
        if later < 0 or now - self._last > _CALM_SECONDS:
            return 0.0
        pause = doubled(_FIRST_NOTICE_SECONDS, later, _MAX_NOTICE_SECONDS)
        return max(0.0, self._last + pause - now)

    def fetched(self, now: float) -> None:
        """Note that it was fetched because of a notice."""
        self._fetches = 1 if now - self._last > _CALM_SECONDS else self._fetches + 1
        self._last = now


class Backoff:
    """The backoff of one server. All times are of one clock, in seconds."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        """``jitter`` gives a number from 0 to 1, which spreads the starts of many servers."""
        self._jitter = jitter
        self._starts = 0
        self._came_up = False
        self._up_since = math.inf
        self._next = -math.inf

    def wait(self, now: float) -> float:
        """Return the seconds until it may be started; 0 if it may be now."""
        return max(0.0, self._next - now)

    def started(self) -> None:
        """Note a start."""
        self._starts += 1
        self._up_since = math.inf

    def abandoned(self) -> None:
        """Note that the last start was given up before it could come up."""
        self._starts = max(0, self._starts - 1)

    def up(self, now: float) -> None:
        """Note that it is up."""
        self._up_since, self._came_up = now, True

    def down(self, now: float, at_least: float | None = None) -> None:
        """Note that it failed to start, or has ended; ``at_least``: seconds it asks for."""
        if now - self._up_since >= STABLE_SECONDS:
            self._starts = 1
        self._up_since = math.inf
        pause = self._pause()
        if at_least is not None and at_least > pause:
            pause = min(at_least, _MAX_ASKED_SECONDS)
        self._next = now + pause

    def reset(self) -> None:
        """Forget what was: it may be started now."""
        self._starts, self._next, self._came_up = 0, -math.inf, False

    def _pause(self) -> float:
        tries = self._starts - (1 if self._came_up else 0)
        if tries < 1:
            return 0.0
        pause = doubled(_FIRST_SECONDS, tries - 1, _MAX_SECONDS)
        return spread(pause, most=1.0, jitter=self._jitter)
