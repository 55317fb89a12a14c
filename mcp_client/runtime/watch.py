"""Telling tasks of any event loop, and threads, that something changed; and what is handed out to
those who want to know."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Generic, Self, TypeVar

import anyio

from ..errors import ConfigError, McpError
from .event_loop import current, in_event_loop

__all__ = ["Notifier", "TaskListener", "ThreadListener", "Watch"]

T_co = TypeVar("T_co", covariant=True)


class Notifier:
    """``notify`` wakes every listener, from any thread. It carries no value.

    Begin to listen, look at what may have changed, and wait only if it has not: then no
    notification in between is missed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[_Listener] = set()

    def notify(self) -> None:
        # Called from a reader's callback too, outside any task, where an anyio.Event cannot be set.
        if self._listeners:
            with self._lock:
                listeners = tuple(self._listeners)
            for listener in listeners:
                listener._wake()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait for the next notification, for ``seconds`` at most."""
        with self.task_listener() as listener:
            await listener.wait(seconds)

    def task_listener(self) -> TaskListener:
        """For the current task; ``with`` it."""
        return TaskListener(self)

    def thread_listener(self) -> ThreadListener:
        """For the current thread, which it may block; ``with`` it."""
        return ThreadListener(self)


class _Listener(ABC):
    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    @abstractmethod
    def _wake(self) -> None: ...

    def __enter__(self) -> Self:
        with self._notifier._lock:
            self._notifier._listeners.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._notifier._lock:
            self._notifier._listeners.discard(self)


class TaskListener(_Listener):
    def __init__(self, notifier: Notifier) -> None:
        super().__init__(notifier)
        self._backend = current()
        self._waiter = self._backend.waiter()

    def _wake(self) -> None:
        if self._backend.running_loop() is self._backend.loop:
            self._set()
        else:
            self._backend.run_soon(self._set)

    def _set(self) -> None:
        if not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float | None = None) -> None:
        """Until a notification since ``__enter__``, or for so many seconds. Once."""
        if seconds is None:
            await self._waiter
            return
        with anyio.move_on_after(seconds):
            await self._waiter


class ThreadListener(_Listener):
    def __init__(self, notifier: Notifier) -> None:
        super().__init__(notifier)
        self._event = threading.Event()

    def _wake(self) -> None:
        self._event.set()

    def wait(self, seconds: float | None = None) -> None:
        """Until a notification since ``__enter__``, or for so many seconds."""
        self._event.wait(seconds)


class Watch(ABC, Generic[T_co]):
    """Changes of something, one after another: an async iterator that can be closed.

    ``async with session.tool_changes() as changes:`` receives every change from the first line of
    the block to its end; ``async for changes in session.tool_changes():`` from its first step to
    ``aclose``. Changes that were not taken yet may come as one. What is raised does not end it: the
    next ``anext`` tries again. It ends when what it watches is closed.

    ``ApprovalQueue.changes()`` may also be used with ``for`` and ``with``, in a thread.
    """

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        """Notified whenever there may be a change to take."""
        self._look_again_after: float | None = None
        """Seconds; None where a notification tells of every change."""
        self._closed = False

    # ------------------------------------------------------------ what each kind of watch says

    @property
    def _is_over(self) -> bool:
        """Whether there will be no more changes."""
        return self._closed

    async def _begin(self) -> None:
        """Watch, unless that is done already."""

    @abstractmethod
    async def _take(self) -> T_co | None:
        """The next change, if there is one."""

    def _take_in_thread(self) -> T_co | None:
        """The next change, if there is one, in a thread that may be blocked."""
        raise ConfigError(
            "this watch belongs to an event loop: use 'async for', or mcp_client.sync in a thread"
        )

    def _end(self) -> None:
        """Watch no longer."""

    # ---------------------------------------------------------------------------- in a task

    async def __aenter__(self) -> Self:
        try:
            if not self._closed:
                await self._begin()
        except BaseException:
            self._end()  # __aexit__ is not called for what was not entered
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T_co:
        try:
            if not self._closed:
                await self._begin()
            while not self._is_over:
                with self._notifier.task_listener() as listener:
                    found = await self._take()
                    if found is not None:
                        return found
                    if not self._is_over:
                        await listener.wait(self._look_again_after)
        except McpError:
            if not self._is_over:
                raise
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop watching. A task that waits for the next change gets ``StopAsyncIteration``."""
        self.close()

    # -------------------------------------------------------------------------- in a thread

    def __enter__(self) -> Self:
        """For a watch whose ``for`` works, which has nothing to begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T_co:
        while not self._is_over:
            with self._notifier.thread_listener() as listener:
                found = self._take_in_thread()
                if found is not None:
                    return found
                if in_event_loop():
                    raise ConfigError("'for' would block this event loop: use 'async for'")
                if not self._is_over:
                    listener.wait(self._look_again_after)
        raise StopIteration

    def close(self) -> None:
        """Stop watching. Whoever waits for the next change gets the end of the iteration."""
        self._closed = True
        self._end()
        self._notifier.notify()
