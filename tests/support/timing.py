"""The event loop's clock, how long the loop was blocked, and how work grows with its size.

``clock_of_the_loop`` returns a clock that a test stops and moves forward. To test a wait that ends
by the clock, ``jump`` past its end. To test a wait that must not end by the clock, stop the clock:
what happens then has another reason. Threads, processes and ``time.monotonic`` are not affected.

``loop_lag`` and ``grows_linearly`` measure in units that load does not change. The first counts the
CPU time of the loop's own thread between two turns of a task that does nothing else, in units of a
fixed piece of work. The second compares one large input with as many small ones as make up its
size: both take equally long if the time is linear, and one undisturbed try out of many is enough.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - its clock is replaced
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio
import anyio.to_thread
from trio.lowlevel import TrioToken, current_clock, current_trio_token
from trio.testing import MockClock

__all__ = ["Clock", "LoopLag", "clock_of_the_loop", "grows_linearly", "loop_lag", "quickly"]

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


_TRIES = 8


def grows_linearly(prepare: Callable[[int], Callable[[], Any]], small: int, times: int) -> bool:
    """Whether the work that ``prepare(small * times)`` returns takes less than a quarter of
    ``times`` as long as the work of ``times`` calls of ``prepare(small)``."""
    assert times >= 12
    large_seconds = small_seconds = float("inf")
    for _ in range(_TRIES):
        small_seconds = min(small_seconds, _seconds([prepare(small) for _ in range(times)]))
        large_seconds = min(large_seconds, _seconds([prepare(small * times)]))
        if large_seconds < times / 4 * small_seconds:
            return True
    return False


def _seconds(works: Sequence[Callable[[], Any]]) -> float:
    gc.disable()
    try:
        began = time.thread_time()
        for work in works:
            work()
        return time.thread_time() - began
    finally:
        gc.enable()


def _unit() -> float:
    """CPU seconds of a million trivial steps: some 20 to 60 ms, judged by a tenth of them."""
    best = 1e9
    for _ in range(5):
        before = time.thread_time()
        for _ in range(100_000):
            pass
        best = min(best, time.thread_time() - before)
    return best * 10


class LoopLag:
    def __init__(self) -> None:
        self.worst = 0.0
        """The longest stop, in millions of trivial steps."""
        self._unit = _unit()
        self._seconds = 0.0
        self._before = time.thread_time()

    def sample(self) -> None:
        now = time.thread_time()
        self._seconds = max(self._seconds, now - self._before)
        self._before = now

    def end(self) -> None:
        self.sample()  # the loop may have been stopped up to here
        # A processor that is shared with other programs may have become slower on the way.
        self.worst = self._seconds / max(self._unit, _unit())


@asynccontextmanager
async def loop_lag() -> AsyncIterator[LoopLag]:
    # A full collection takes as long as the test run has objects, which is not what is measured:
    # what is there already is left out of it.
    gc.freeze()
    lag = LoopLag()

    async def keep_sampling() -> None:
        while True:
            await anyio.sleep(0.005)
            lag.sample()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_sampling)
        try:
            yield lag
        finally:
            lag.end()
            gc.unfreeze()
            tasks.cancel_scope.cancel()
