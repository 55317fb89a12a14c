"""Telling a host's callback: in order, one thing at a time, and at nobody's expense.

What is said to a callback that waits is queued, at most ``Limits.notices`` of it with the oldest
dropped and counted, and told by one task that ends when there is no more to tell. So a slow
callback holds up neither reading nor a call, a flood costs no task each, and what a callback raises
is logged and ends nothing.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from .background import BackgroundTasks
from .event_loop import Backend, current
from .stats import Stats

__all__ = ["CallbackQueue", "ProgressNotifier", "invoke_callback", "is_async"]

_log = logging.getLogger("mcp_client")
_ENDING = 0.1
"""Seconds a callback has to end that is called off."""


class CallbackQueue:
    """Tells one callback. Used by the tasks of one event loop."""

    def __init__(
        self, callback: Callable[..., Any], what: str, server: str, backend: Backend, most: int,
        stats: Stats,
    ) -> None:  # fmt: skip
        self._callback = callback
        self._what = what
        self._server = server
        self._most = most
        self._stats = stats
        self._jobs = BackgroundTasks(backend, server)
        self._waiting: deque[tuple[Any, ...]] = deque()
        self._raised = 0
        self._busy = self._closed = False

    def tell(self, *said: Any) -> None:
        if self._closed:
            return
        if len(self._waiting) >= self._most:
            _drop(self._waiting.popleft())
            self._stats.dropped_notices += 1
        self._waiting.append(said)
        if not self._busy:
            self._busy = True
            self._jobs.start(self._tell)

    async def _tell(self) -> None:
        try:
            while self._waiting:
                said = self._waiting.popleft()
                try:
                    await invoke_callback(self._callback, *said)
                except Exception:  # noqa: BLE001 - a callback's fault is nobody else's
                    self.raised()
        finally:
            self._busy = False

    def raised(self) -> None:
        """Log what is being handled; once with all of it, and then briefly."""
        self._raised += 1
        level, whole = (logging.WARNING, True) if self._raised == 1 else (logging.DEBUG, False)
        _log.log(level, "%s: %s raised; all goes on", self._server, self._what, exc_info=whole)

    async def aclose(self, within: float = 0.0) -> None:
        """Tell the rest, for ``within`` seconds at most, and be silent from then on."""
        self._closed = True
        try:
            with anyio.move_on_after(within):
                while self._busy and within:
                    await self._jobs.none_left()
        finally:
            while self._waiting:
                _drop(self._waiting.popleft())
            await self._jobs.aclose(_ENDING)


class ProgressNotifier:
    """Tells one call's progress: in place to a plain function, which must not wait, and through a
    ``CallbackQueue`` to one that is async or turns out to be."""

    def __init__(
        self, on_progress: Callable[..., Any], server: str, most: int, stats: Stats
    ) -> None:
        self._on_progress = on_progress
        self._async = is_async(on_progress)
        callback = on_progress if self._async else _finish
        self._teller = CallbackQueue(callback, "on_progress", server, current(), most, stats)

    def tell(self, *said: Any) -> None:
        if self._async:
            self._teller.tell(*said)
            return
        try:
            answer = self._on_progress(*said)
        except Exception:  # noqa: BLE001 - a callback's fault is not the call's
            self._teller.raised()
        else:
            if inspect.isawaitable(answer):
                self._teller.tell(answer)

    async def aclose(self, within: float = 0.0) -> None:
        await self._teller.aclose(within)


async def _finish(begun: Awaitable[Any]) -> None:
    await begun


def _drop(said: tuple[Any, ...]) -> None:
    for item in said:
        if inspect.iscoroutine(item):
            item.close()


async def invoke_callback(
    callback: Callable[..., Any], *args: Any, limiter: anyio.CapacityLimiter | None = None
) -> Any:
    """What ``callback`` answers: awaited where it is async, and else run in a thread.

    ``limiter`` bounds the threads; by default anyio's own does, which the host uses too.
    """
    if is_async(callback):
        return await callback(*args)
    given: list[Any] = []
    left = False

    def run() -> None:
        given.append(callback(*args))
        if left:
            _drop(tuple(given))

    try:
        await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limiter)
    except BaseException:
        left = True  # the thread goes on, and a coroutine it may give back is for nobody
        _drop(tuple(given))
        raise
    return await given[0] if inspect.isawaitable(given[0]) else given[0]


def is_async(callback: Any) -> bool:
    while isinstance(callback, functools.partial):
        callback = callback.func
    call = getattr(type(callback), "__call__", None)  # noqa: B004 - the method is wanted
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(call)
