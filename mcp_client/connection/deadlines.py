"""The timeouts of one request, and when they are paused.

Each sign of life restarts the ``idle`` timeout; ``total`` is never restarted (2026-07-28
``basic/patterns/cancellation``, timeouts). While the server waits for the client's response to a
request, it cannot be expected to send anything, so both are paused.

In the handshake era such a request does not state which call it belongs to. So the timeouts of all
calls under way are paused. Those of later calls are not paused: otherwise a handler that calls the
same server could be blocked by its own request. A call is paused for at most ``Timeouts.approval``
seconds in total, so that a server that keeps asking cannot block it forever.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ..runtime.limits import Timeouts
from ..runtime.pausable_clock import PausableClock, script_clock

__all__ = ["RequestDeadline", "RequestDeadlines"]

_PAUSED_POLL_SECONDS = 0.25
"""Seconds between two looks whether the clocks go on."""


@dataclass(slots=True, eq=False)
class RequestDeadline:
    """The deadline of one request. Times are the loop's own, in seconds."""

    _timeouts: Timeouts
    _started: float
    _last_sign: float = field(default=-math.inf, init=False)
    """When the server last gave a sign of life."""
    _questions: int = field(default=0, init=False)
    """The number of the server's requests that wait for a response."""
    _paused_at: float = field(default=0.0, init=False)
    _paused_seconds: float = field(default=0.0, init=False)
    _script: PausableClock | None = field(default_factory=script_clock.get, init=False)
    """The clock of the script that makes the call, if one does: it is paused as well."""

    def sign(self, now: float) -> None:
        """Note a sign of life, or that none is expected before that time."""
        self._last_sign = max(self._last_sign, now)

    def allows(self, until: float) -> bool:
        """Return whether the total timeout permits waiting until then."""
        return until < self._started + self._timeouts.total + self._paused_seconds

    def until(self, now: float) -> float:
        """Return the next time to check; the deadline has passed if it is not after ``now``."""
        timeouts = self._timeouts
        latest = self._started + timeouts.total
        if not self._questions:
            since = max(self._last_sign, self._started)
            return min(latest + self._paused_seconds, since + timeouts.idle)
        latest += self._credit(now)
        return max(latest, now + _PAUSED_POLL_SECONDS) if latest > now else latest

    def ran_out(self, now: float) -> str:
        """Return the name of the timeout that expired."""
        spent = now - self._started - self._credit(now)
        return "total" if spent >= self._timeouts.total else "idle"

    def pause(self, now: float) -> None:
        """Pause the timeouts."""
        if not self._questions:
            self._paused_at = now
        self._questions += 1
        if self._script is not None:
            self._script.stop()

    def resume(self, now: float) -> None:
        """Resume the timeouts."""
        self._paused_seconds = self._credit(now)
        self._paused_at = self._last_sign = now
        self._questions -= 1
        if self._script is not None:
            self._script.go()

    def _credit(self, now: float) -> float:
        thought = self._paused_seconds + (now - self._paused_at if self._questions else 0.0)
        return min(thought, self._timeouts.approval)


class RequestDeadlines(set[RequestDeadline]):
    """The timeouts of all requests under way on one connection."""

    __slots__ = ("_lost", "_now", "_paused_at", "_pauses")

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._pauses = 0
        self._paused_at = self._lost = 0.0

    @property
    def paused(self) -> float:
        """Seconds in which some request of the server waited for a response."""
        return self._lost + (self._now() - self._paused_at if self._pauses else 0.0)

    def pause(self) -> Callable[[], None]:
        """Pause the timeouts of all requests under way, and return a function that resumes them."""
        stopped, now = tuple(self), self._now()
        for clock in stopped:
            clock.pause(now)
        if not self._pauses:
            self._paused_at = now
        self._pauses += 1

        def resume() -> None:
            now = self._now()
            for clock in stopped:
                clock.resume(now)
            self._pauses -= 1
            if not self._pauses:
                self._lost += now - self._paused_at

        return resume
