"""How long the event loop was kept from its other work, in units that load does not change.

Wall-clock time counts what other programs do, too. What is counted here is the CPU time of the
loop's own thread between two turns of a task that does nothing else, and the unit is what a fixed
piece of work costs in the same test.
"""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

__all__ = ["LoopLag", "loop_lag"]


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
