"""A timer for deadlines of what others are to send, which lets the loop read before it rings.

A process may be stopped (SIGSTOP, ``docker pause``, a laptop that sleeps), and its event loop may
be blocked. When it continues, deadlines have passed, and data that arrived in time has not been
read. A ``select`` that the stop interrupted reports nothing, so the loop calls its timers first.

The rule: a timer that is called late waits again for as long as it was late, at most a second. The
loop reads meanwhile. It is late if it is so by the loop's clock and by real time: the clocks of
tests and simulations jump.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["DeadlineTimer"]

_LATE_SECONDS = 0.02
"""A loop that is only busy is not so late."""
_MAX_PATIENCE_SECONDS = 1.0


class _Handle(Protocol):
    def cancel(self) -> object: ...


class _Loop(Protocol):
    def now(self) -> float: ...
    def call_at(self, when: float, callback: Callable[[], None], /) -> _Handle: ...


class DeadlineTimer:
    """Calls ``ring`` in the event loop at the time that was set last, once.

    Times are the loop's own, in seconds.
    """

    __slots__ = ("_due", "_handle", "_loop", "_ring", "_when", "at", "patient_until")

    def __init__(self, loop: _Loop, ring: Callable[[], object]) -> None:
        self.at: float = math.inf
        """The time when it rings; infinity if it is not set."""
        self.patient_until: float = -math.inf
        """The time before which no deadline counts as passed."""
        self._loop = loop
        self._ring = ring
        self._handle: _Handle | None = None
        self._due = self._when = math.inf

    def set(self, when: float) -> None:
        """Ring at ``when`` and not at the time that was set before."""
        self.stop()
        self.at = when
        if when < math.inf:
            self._call_at(max(when, self.patient_until))

    def stop(self) -> None:
        """Do not ring."""
        handle, self._handle = self._handle, None
        self.at = math.inf
        if handle is not None:
            handle.cancel()

    def _call_at(self, when: float) -> None:
        now = self._loop.now()
        self._when = max(when, now)
        self._due = time.monotonic() + self._when - now
        self._handle = self._loop.call_at(when, self._called)

    def _called(self) -> None:
        now = self._loop.now()
        late = min(now - self._when, time.monotonic() - self._due)
        if late > _LATE_SECONDS and self.at > self.patient_until:  # else it has waited already
            self.patient_until = now + min(late, _MAX_PATIENCE_SECONDS)
            self._call_at(self.patient_until)
            return
        self.at, self._handle = math.inf, None
        self._ring()
