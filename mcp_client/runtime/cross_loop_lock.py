"""A lock for tasks of any event loop in the process, without blocking a loop."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import RunVar

__all__ = ["CrossLoopLock"]

_POLL_SECONDS = 0.05


class CrossLoopLock:
    """First come, first served within one event loop; between loops, whichever finds it free."""

    def __init__(self) -> None:
        self._held = threading.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Hold the lock; the value is whether another task held it first."""
        lock = self._of_this_loop()
        waited = lock.locked()
        async with lock:
            while not self._held.acquire(blocking=False):  # no event spans event loops
                waited = True
                await anyio.sleep(_POLL_SECONDS)
            try:
                yield waited
            finally:
                self._held.release()

    def _of_this_loop(self) -> anyio.Lock:
        try:
            locks = _locks.get()
        except LookupError:
            locks = WeakKeyDictionary()
            _locks.set(locks)
        lock = locks.get(self)
        if lock is None:
            lock = locks[self] = anyio.Lock()
        return lock


_locks: RunVar[WeakKeyDictionary[CrossLoopLock, anyio.Lock]] = RunVar("mcp_client.locks")
