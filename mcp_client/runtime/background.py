"""Work that belongs to a connection and not to a task, and a lock for tasks of any event loop.

Any task or loop callback starts background work, and any other ends it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import RunVar

from .event_loop import Backend

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

__all__ = ["BackgroundTask", "BackgroundTasks", "CrossLoopLock", "plain_task_group", "side_by_side"]

N = TypeVar("N")

_log = logging.getLogger("mcp_client")


class BackgroundTask:
    """A piece of background work, to be cancelled from anywhere in its event loop.

    Its cancel scope is created inside the task that runs the work: ``BackgroundTasks.start`` is
    also called from loop callbacks, where anyio cannot create one (see ``event_loop``).
    """

    __slots__ = ("_scope", "cancel_called", "done")

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None
        self.cancel_called: bool = False
        self.done: bool = False

    def cancel(self) -> None:
        """End the work.

        Work that has not begun is begun and cancelled at its first wait, so that its clean-up runs.
        """
        self.cancel_called = True
        if self._scope is not None:
            self._scope.cancel()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work`` within the scope."""
        try:
            with anyio.CancelScope() as self._scope:
                if self.cancel_called:
                    self._scope.cancel()
                await work()
        finally:
            self.done = True
            self._scope = None


class BackgroundTasks:
    """The background work of one connection. What a task raises is logged and ends that task."""

    def __init__(self, backend: Backend, server: str) -> None:
        self._backend = backend
        self._server = server
        self._tasks: set[BackgroundTask] = set()
        self._none_left: anyio.Event | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Callable[[], Awaitable[None]]) -> BackgroundTask:
        """Start ``work``, from a task or from a loop callback."""
        task = BackgroundTask()
        self._tasks.add(task)

        async def run() -> None:
            try:
                await task.run(work)
            except Exception:  # noqa: BLE001 - no caller is left to notify
                _log.warning("%s: a background task failed", self._server, exc_info=True)
            finally:
                self._tasks.discard(task)
                if not self._tasks and self._none_left is not None:
                    self._none_left.set()

        self._backend.spawn(run)
        return task

    async def none_left(self) -> None:
        """Wait until every task has ended, without cancelling any."""
        if self._tasks:
            await self._emptied().wait()

    async def aclose(self, within: float) -> None:
        """Cancel every task, and wait until they have ended, ``within`` seconds at most."""
        if not self._tasks:
            return
        emptied = self._emptied()
        for task in list(self._tasks):
            task.cancel()
        with anyio.move_on_after(within, shield=True):
            await emptied.wait()

    def _emptied(self) -> anyio.Event:
        if self._none_left is None or self._none_left.is_set():
            self._none_left = anyio.Event()
        return self._none_left


@asynccontextmanager
async def plain_task_group() -> AsyncIterator[TaskGroup]:
    """Open a task group that raises its first exception, and never a group of exceptions."""
    try:
        async with anyio.create_task_group() as group:
            yield group
    except BaseExceptionGroup as several:
        first: BaseException = several
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


async def side_by_side(
    make: Callable[[N], Coroutine[Any, Any, None]], numbers: Sequence[N]
) -> None:
    """Run ``make`` for each of ``numbers``, each in its own task."""
    async with plain_task_group() as group:
        for number in numbers:
            group.start_soon(make, number)


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
