"""The time of one connection, which is paused while a person is asked.

Deadlines are times of this clock, so that a login that takes a minute does not use up the timeouts
of the requests that wait for it. ``stopped`` may be entered several times at once: the clock runs
again when the last one has left. One timer (``deadline_timer``) serves all scopes. A script has
such a clock, too, which its calls pause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import anyio

from .deadline_timer import DeadlineTimer
from .event_loop import current

__all__ = ["PausableClock", "asking", "script_clock"]

_MIN_WAIT_SECONDS = 0.5
"""Seconds after which a wait without a scope checks whether the clock runs again."""
_TIMER_SECONDS = 0.01


class PausableClock:
    """The clock of one connection: see above."""

    __slots__ = ("_loop", "_lost", "_people", "_scopes", "_since", "_timer", "pauses", "time")

    def __init__(self, loop: Callable[[], float]) -> None:
        self.time: Callable[[], float] = loop
        """The same as ``now``, and cheaper: the loop's own function until the first pause. Look it
        up each time, for it is replaced."""
        self._loop = loop
        self._lost = 0.0
        self._since = 0.0
        self._people = 0
        self.pauses: int = 0
        """The number of people who have been asked so far."""
        self._scopes: dict[anyio.CancelScope, float] = {}
        self._timer: DeadlineTimer | None = None

    def now(self) -> float:
        """Seconds, without those during which a person was asked."""
        return (self._since if self._people else self._loop()) - self._lost

    def on_the_loop(self, until: float) -> float:
        """Return the time of ``until`` on the loop's clock, or when to check again."""
        if not self._people:
            return until + self._lost
        return self._loop() + max(until - self.now(), _MIN_WAIT_SECONDS)

    @contextmanager
    def scope(self, until: float) -> Iterator[anyio.CancelScope]:
        """Open a scope that is cancelled at ``until`` of this clock."""
        timer = self._timer
        if timer is None:
            timer = self._timer = DeadlineTimer(current(), self._ring)
        deadline = math.inf if self._people else until + self._lost
        with anyio.CancelScope() as scope:
            self._scopes[scope] = until
            if deadline < timer.at:
                if max(deadline, timer.patient_until) > self._loop():
                    timer.set(deadline)
                else:
                    scope.cancel()
            try:
                yield scope
            finally:
                del self._scopes[scope]

    def rest(self) -> None:
        """Leave no timer behind if no scope needs it. The clock may be used again."""
        if self._timer is not None and all(scope.cancel_called for scope in self._scopes):
            self._timer.stop()

    def _ring(self) -> None:
        now, ahead = self._loop(), math.inf
        for scope, until in self._scopes.items():
            if scope.cancel_called:
                continue
            if until + self._lost <= now:
                scope.cancel()
            else:
                ahead = min(ahead, until + self._lost)
        if self._timer is not None and ahead < math.inf:
            self._timer.set(max(ahead, now + _TIMER_SECONDS))

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Pause the clock within the block."""
        self.stop()
        try:
            yield
        finally:
            self.go()

    @property
    def is_paused(self) -> bool:
        """Whether the clock is paused."""
        return self._people > 0

    def stop(self) -> None:
        """Pause the clock: a person is asked. It continues when as many have answered."""
        self._people += 1
        self.pauses += 1
        self.time = self.now
        if self._people == 1:
            self._since = self._loop()
            if self._timer is not None:
                self._timer.stop()

    def go(self) -> None:
        """Undo one ``stop``."""
        self._people -= 1
        if not self._people:
            self._lost += self._loop() - self._since
            if self._scopes and self._timer is not None:
                self._timer.set(min(self._scopes.values()) + self._lost)


script_clock: ContextVar[PausableClock | None] = ContextVar("mcp_client.script_clock", default=None)
"""The clock of the script that makes the calls of this context."""


def asking() -> AbstractContextManager[object]:
    """Pause the clock of the script, if any, while a person is asked about a call of it."""
    clock = script_clock.get()
    return nullcontext() if clock is None else clock.stopped()
