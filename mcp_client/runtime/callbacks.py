"""Call a host's callbacks in order, one at a time, and without holding up anything else.

Calls of a callback that waits are queued and made by one task, which ends when the queue is empty.
At most ``Limits.notices`` are queued; then the oldest is dropped and counted. So a slow callback
delays neither the parsing nor a call, and a flood of notifications does not cost a task each. An
exception of a callback is logged and ends nothing.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import RunVar

from .background import BackgroundTasks
from .daemon_thread import in_daemon_thread, limiter_of, run_in_thread
from .event_loop import Backend, current
from .session_context import Stats

__all__ = [
    "CallbackQueue",
    "ProgressNotifier",
    "in_thread",
    "invoke_callback",
    "invoke_hook",
    "invoke_plain_hook",
    "is_async",
]

T = TypeVar("T")

_log = logging.getLogger("mcp_client")
_HOOK_THREADS = 256
_OTHER_THREADS = 16
_CANCEL_SECONDS = 0.1
"""Seconds that a cancelled callback has to end."""


class CallbackQueue:
    """The queued calls of one callback. Used by the tasks of one event loop."""

    def __init__(
        self,
        callback: Callable[..., Any],
        what: str,
        server: str,
        *,
        backend: Backend,
        most: int,
        stats: Stats,
    ) -> None:
        """``what`` is the callback's name in logs; ``most`` calls may be queued."""
        self._callback = callback
        self._what = what
        self._server = server
        self._most = most
        self._stats = stats
        self._tasks = BackgroundTasks(backend, server)
        self._queue: deque[tuple[Any, ...]] = deque()
        self._raised = 0
        self._busy = self._closed = False

    def notify(self, *args: Any) -> None:
        """Call the callback with ``args``, after the calls that are queued already."""
        if self._closed:
            return
        if len(self._queue) >= self._most:
            _close_coroutines(self._queue.popleft())
            self._stats.dropped_notices += 1
        self._queue.append(args)
        if not self._busy:
            self._busy = True
            self._tasks.start(self._run)

    async def _run(self) -> None:
        try:
            while self._queue:
                args = self._queue.popleft()
                try:
                    await invoke_callback(self._callback, *args)
                except Exception:  # noqa: BLE001 - a fault of the host's callback ends nothing else
                    self.raised()
        finally:
            self._busy = False

    def raised(self) -> None:
        """Log the exception being handled: the first with its traceback, later ones briefly."""
        self._raised += 1
        level, whole = (logging.WARNING, True) if self._raised == 1 else (logging.DEBUG, False)
        _log.log(level, "%s: %s raised; ignored", self._server, self._what, exc_info=whole)

    async def aclose(self, within: float = 0.0) -> None:
        """Make the queued calls, within so many seconds, and none after that."""
        self._closed = True
        try:
            with anyio.move_on_after(within):
                while self._busy and within:
                    await self._tasks.none_left()
        finally:
            while self._queue:
                _close_coroutines(self._queue.popleft())
            await self._tasks.aclose(_CANCEL_SECONDS)


class ProgressNotifier:
    """A caller of one call's ``on_progress``.

    A plain function is called at once, and must not wait. A function that is async or returns
    something to await is called through a ``CallbackQueue``.
    """

    def __init__(
        self, on_progress: Callable[..., Any], server: str, most: int, stats: Stats
    ) -> None:
        self._on_progress = on_progress
        self._is_async = is_async(on_progress)
        self._queue = CallbackQueue(
            on_progress if self._is_async else _await,
            "on_progress",
            server,
            backend=current(),
            most=most,
            stats=stats,
        )

    def notify(self, *args: Any) -> None:
        """Call ``on_progress``."""
        if self._is_async:
            self._queue.notify(*args)
            return
        try:
            returned = self._on_progress(*args)
        except Exception:  # noqa: BLE001 - a fault of the host's callback does not end the call
            self._queue.raised()
        else:
            if inspect.isawaitable(returned):
                self._queue.notify(returned)

    async def aclose(self, within: float = 0.0) -> None:
        """End the queue, within bounded time."""
        await self._queue.aclose(within)


async def _await(awaitable: Awaitable[Any]) -> None:
    await awaitable


def _close_coroutines(args: tuple[Any, ...]) -> None:
    """Close coroutines that are never awaited: they would warn when they are collected."""
    for item in args:
        if inspect.iscoroutine(item):
            item.close()


async def invoke_callback(callback: Callable[..., Any], *args: Any) -> Any:
    """Call ``callback`` and return its result: async ones are awaited, others run in a thread.

    anyio's own limiter bounds the threads, which the host uses too.
    """
    return await (callback(*args) if is_async(callback) else _called_in_thread(callback, *args))


async def _called_in_thread(
    callback: Callable[..., Any],
    *args: Any,
    limiter: anyio.CapacityLimiter | None = None,
    scope: anyio.CancelScope | None = None,
) -> Any:
    answers: list[Any] = []
    abandoned = False

    def run() -> None:
        answers.append(callback(*args))
        if abandoned:
            _close_coroutines(tuple(answers))

    try:
        await in_daemon_thread(run, limiter=limiter, scope=scope)
    except BaseException:
        # A thread cannot be cancelled: it goes on, and nothing awaits what it may return.
        abandoned = True
        _close_coroutines(tuple(answers))
        raise
    return await answers[0] if inspect.isawaitable(answers[0]) else answers[0]


def is_async(callback: Any) -> bool:
    """Whether ``callback`` is an async function."""
    while isinstance(callback, functools.partial):
        callback = callback.func
    call = getattr(type(callback), "__call__", None)  # noqa: B004 - the method is wanted
    if inspect.isfunction(callback) and type(callback.__code__.co_flags) is not int:
        return False  # a ``Mock(spec=function)``, which has a Mock for its flags
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(call)


# Approval hooks and files have threads of their own: sync hooks that never return would otherwise
# take all of anyio's, and every later call would wait for one.


async def invoke_hook(hook: Callable[..., Any], *args: Any) -> Any:
    """Return the result of an approval hook, awaited, or from a thread of its own."""
    return await (hook(*args) if is_async(hook) else invoke_plain_hook(hook, *args))


def invoke_plain_hook(
    hook: Callable[..., Any], *args: Any, scope: anyio.CancelScope | None = None
) -> Coroutine[Any, Any, Any]:
    """Return the result of a hook that is not async.

    ``scope`` is the caller's innermost one, if known.
    """
    limiter = limiter_of(_hook_threads, _HOOK_THREADS)
    return _called_in_thread(hook, *args, limiter=limiter, scope=scope)


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """``function(*args)`` in a thread, which is left to itself if the caller is cancelled."""
    limiter = limiter_of(_other_threads, _OTHER_THREADS)
    return await run_in_thread(function, *args, abandon_on_cancel=True, limiter=limiter)


_hook_threads: RunVar[anyio.CapacityLimiter] = RunVar("mcp_client.hooks")
_other_threads: RunVar[anyio.CapacityLimiter] = RunVar("mcp_client.others")
