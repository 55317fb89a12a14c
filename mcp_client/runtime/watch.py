"""Notify tasks of any event loop, and threads, of changes; and the objects for those who wait."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Self, TypeVar

import anyio

from ..errors import ConfigError, McpError
from .event_loop import current, in_event_loop

__all__ = ["Notifier", "Watch"]

T_co = TypeVar("T_co", covariant=True)


class Notifier:
    """``notify`` wakes all that wait, from any thread. It carries no value.

    Note ``count``, look at what may have changed, and wait for another count only if it has not:
    then no notification in between is missed.
    """

    def __init__(self) -> None:
        self.count: int = 0
        """The number of notifications so far."""
        self._lock = threading.Lock()
        self._waiting: dict[Callable[[], None], None] = {}

    def notify(self) -> None:
        """Notify all who wait."""
        # Called from a reader's callback too, outside any task, where an anyio.Event cannot be set.
        with self._lock:
            self.count += 1
            waiting = tuple(self._waiting)
        for wake in waiting:
            wake()

    async def wait(self, seconds: float | None = None, *, noted: int | None = None) -> None:
        """Wait for a notification, for ``seconds`` at most.

        It returns at once if there was one since ``noted`` was the count.
        """
        backend = current()
        waiter = backend.waiter()

        def done() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def wake() -> None:
            if backend.running_loop() is backend.loop:
                done()
            else:
                backend.run_soon(done)

        with self._added(wake):
            if noted is not None and noted != self.count:
                return
            if seconds is None:
                await waiter
                return
            with anyio.move_on_after(seconds):
                await waiter

    def wait_in_thread(self, seconds: float | None, noted: int) -> None:
        """Wait like ``wait``, blocking the thread."""
        event = threading.Event()
        with self._added(event.set):
            if noted == self.count:
                event.wait(seconds)

    @contextmanager
    def _added(self, wake: Callable[[], None]) -> Iterator[None]:
        with self._lock:
            self._waiting[wake] = None
        try:
            yield
        finally:
            with self._lock:
                self._waiting.pop(wake, None)


class Watch(ABC, Generic[T_co]):
    """Changes of something, one after another: an async iterator that can be closed.

    ``async with session.tool_changes() as changes:`` receives every change from the first line of
    the block to its end; ``async for changes in session.tool_changes():`` from soon after the call
    to ``aclose``. Changes that were not taken yet may come as one. What is raised does not end it:
    the next ``anext`` tries again. It ends when what it watches is closed.

    ``ApprovalQueue.changes()`` may also be used with ``for`` and ``with``, in a thread.
    """

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        """Notified whenever there may be a change to take."""
        self._look_again_after: float | None = None
        """The seconds between looks; None if a notification reports every change."""
        self._closed = False
        self._has_begun = False

    # ------------------------------------------------------------ what each kind of watch defines

    @property
    def _is_over(self) -> bool:
        """Whether there will be no more changes than those that can be taken now."""
        return self._closed

    async def _begin(self) -> None:
        """Begin to watch, or continue after an earlier attempt has raised."""

    @abstractmethod
    async def _take(self) -> T_co | None:
        """Return the next change, if there is one."""

    def _take_in_thread(self) -> T_co | None:
        """Return the next change, if there is one, in a thread that may be blocked."""
        raise ConfigError(
            "this watch belongs to an event loop: use 'async for', or mcp_client.sync in a thread"
        )

    def _end(self) -> None:
        """Watch no longer."""

    # ---------------------------------------------------------------------------- in a task

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            self._end()  # __aexit__ is not called for what was not entered
            raise
        return self

    async def _start(self) -> None:
        if not self._closed:
            await self._begin()
            self._has_begun = True

    async def __aexit__(self, *raised: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T_co:
        try:
            if not self._has_begun:
                await self._start()
            while not self._closed:
                noted = self._notifier.count
                found = await self._take()
                if found is not None:
                    return found
                if self._is_over:
                    break
                await self._notifier.wait(self._look_again_after, noted=noted)
        except McpError:
            if not self._is_over:
                raise
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop watching. A task that waits for the next change gets ``StopAsyncIteration``."""
        self.close()

    # -------------------------------------------------------------------------- in a thread

    def __enter__(self) -> Self:
        """Enter a watch whose ``for`` works, which has nothing to begin."""
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T_co:
        while not self._is_over:
            noted = self._notifier.count
            found = self._take_in_thread()
            if found is not None:
                return found
            if in_event_loop():
                raise ConfigError("'for' would block this event loop: use 'async for'")
            if not self._is_over:
                self._notifier.wait_in_thread(self._look_again_after, noted)
        raise StopIteration

    def close(self) -> None:
        """Stop watching. Those who wait for the next change get the end of the iteration."""
        self._closed = True
        self._end()
        self._notifier.notify()
