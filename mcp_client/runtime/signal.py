"""Telling tasks of any event loop, and threads, that something changed."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import anyio

from .event_loop import LoopEvent, current

__all__ = ["Signal", "TaskListener", "ThreadListener"]


class Signal:
    """``notify`` wakes every listener, from any thread. It carries no value.

    Begin to listen, look at what may have changed, and wait only if it has not: then no
    notification in between is missed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[_Listener] = set()

    def notify(self) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener._wake()

    def task_listener(self) -> TaskListener:
        """For the current task; ``with`` it."""
        return TaskListener(self)

    def thread_listener(self) -> ThreadListener:
        """For the current thread, which it may block; ``with`` it."""
        return ThreadListener(self)


class _Listener:
    def __init__(self, signal: Signal) -> None:
        self._signal = signal

    def _wake(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        with self._signal._lock:
            self._signal._listeners.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._signal._lock:
            self._signal._listeners.discard(self)


class TaskListener(_Listener):
    def __init__(self, signal: Signal) -> None:
        super().__init__(signal)
        self._run_soon = current().run_soon
        self._event = LoopEvent()

    def _wake(self) -> None:
        self._run_soon(self._event.set)

    async def wait(self, seconds: float | None = None) -> None:
        """Until a notification since ``__enter__``, or for so many seconds."""
        if seconds is None:
            await self._event.wait()
            return
        with anyio.move_on_after(seconds):
            await self._event.wait()


class ThreadListener(_Listener):
    def __init__(self, signal: Signal) -> None:
        super().__init__(signal)
        self._event = threading.Event()

    def _wake(self) -> None:
        self._event.set()

    def wait(self, seconds: float | None = None) -> None:
        """Until a notification since ``__enter__``, or for so many seconds."""
        self._event.wait(seconds)
