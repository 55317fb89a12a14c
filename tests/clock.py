"""The clock of a test's event loop, which the test may stop and move forward.

A wait that ends by the clock is tried without waiting, however long it is and wherever its length
is kept: ``jump`` past it. A wait that must not end by the clock is tried while the clock is
stopped: what happens then happened for another reason.

Only the event loop's clock is moved. Threads, processes and ``time.monotonic`` are as ever.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - its clock is replaced
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
import anyio.to_thread
from trio.lowlevel import TrioToken, current_clock, current_trio_token
from trio.testing import MockClock

__all__ = ["Clock", "clock_of_the_loop", "quickly"]

BOUND = 30.0
"""Seconds of real time that a clock may be stopped."""
HOUR = 3_600.0


class Clock(Protocol):
    def jump(self, seconds: float) -> None:
        """Move the clock forward at once."""

    def stop(self, bound: float = BOUND, then: float = HOUR) -> None:
        """Let no time pass but by ``jump``: a sleep does not end.

        After ``bound`` seconds of real time the clock jumps by an hour, so that a test that would
        wait for ever fails.
        """

    def resume(self) -> None: ...


def clock_of_the_loop() -> Clock:
    """The clock of the running event loop. On trio it has to be a ``MockClock(rate=1)``."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        clock = current_clock()
        assert isinstance(clock, MockClock)
        return _TrioClock(clock, current_trio_token())
    return _AsyncioClock(loop)


class _AsyncioClock:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._time = loop.time
        self._ahead = 0.0
        self._stopped: float | None = None
        self._watchdog: threading.Timer | None = None
        loop.time = self._now  # type: ignore[method-assign]

    def _now(self) -> float:
        return (self._time() if self._stopped is None else self._stopped) + self._ahead

    def jump(self, seconds: float) -> None:
        self._ahead += seconds

    def stop(self, bound: float = BOUND, then: float = HOUR) -> None:
        self._stopped = self._time()
        if self._watchdog is not None:  # it is stopped a second time
            self._watchdog.cancel()
        self._watchdog = threading.Timer(bound, self._loop.call_soon_threadsafe, [self.jump, then])
        self._watchdog.start()

    def resume(self) -> None:
        if self._stopped is not None and self._watchdog is not None:
            self._watchdog.cancel()
            self._ahead -= self._time() - self._stopped
            self._stopped = None


class _TrioClock:
    def __init__(self, clock: MockClock, token: TrioToken) -> None:
        self._clock = clock
        self._token = token
        self._watchdog: threading.Timer | None = None
        self.jump = clock.jump

    def stop(self, bound: float = BOUND, then: float = HOUR) -> None:
        self._clock.rate = 0.0
        if self._watchdog is not None:  # it is stopped a second time
            self._watchdog.cancel()
        self._watchdog = threading.Timer(bound, self._token.run_sync_soon, [self.jump, then])
        self._watchdog.start()

    def resume(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._clock.rate = 1.0


@asynccontextmanager
async def quickly(clock: Clock) -> AsyncIterator[None]:
    """Let ten times as much time pass meanwhile, also on a clock that is stopped."""

    async def tick() -> None:
        before = time.monotonic()
        while True:
            await anyio.to_thread.run_sync(time.sleep, 0.005)
            now = time.monotonic()
            clock.jump(10 * (now - before))
            before = now

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        yield
        tasks.cancel_scope.cancel()
