"""Starting threads, and running plain functions in them.

Everything of this package that needs a thread starts it here, so that a process in which none can
be started gets one error, ``NoThread``, in place of a bare ``RuntimeError``.

A *daemon* thread is one that a program does not wait for when it ends. Hooks and handlers of the
host may wait for a person at ``input()``. The threads that anyio starts on asyncio are not daemons,
so such a hook would keep the program alive after Ctrl-C until somebody presses Enter. On trio, and
on asyncio in a daemon thread, anyio's threads are daemons already.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from ..errors import ConnectError
from .event_loop import current

__all__ = ["NoThread", "in_daemon_thread", "limiter_of", "run_in_thread", "start_thread"]

T = TypeVar("T")


class NoThread(ConnectError):
    """No thread can be started, so what needs one was not begun."""

    retryable = True

    def __init__(self, reason: object) -> None:
        super().__init__(
            f"cannot start a thread: {reason}. Raise the limit on processes and threads "
            "(ulimit -u, the pids limit of a container), or use the main interpreter"
        )


def start_thread(target: Callable[..., object], name: str, *args: Any) -> threading.Thread:
    """Start a daemon thread. Raises ``NoThread``."""
    try:
        thread = threading.Thread(target=target, name=name, args=args, daemon=True)
        thread.start()
    except RuntimeError as error:
        raise NoThread(error) from None
    return thread


async def run_in_thread(
    function: Callable[..., T],
    *args: Any,
    abandon_on_cancel: bool = False,
    limiter: anyio.CapacityLimiter | None = None,
) -> T:
    """Return ``function(*args)`` from a thread of anyio's. Raises ``NoThread``."""
    begun = False

    def run() -> T:
        nonlocal begun
        begun = True
        return function(*args)

    try:
        return await anyio.to_thread.run_sync(
            run, abandon_on_cancel=abandon_on_cancel, limiter=limiter
        )
    except RuntimeError as error:
        if begun:
            raise
        raise NoThread(error) from None


async def in_daemon_thread(
    function: Callable[..., T], *args: Any, limiter: anyio.CapacityLimiter | None = None
) -> T:
    """Return ``function(*args)`` from a daemon thread, which goes on if the caller is cancelled.

    ``limiter`` bounds the threads; by default anyio's own does. Raises ``NoThread``.
    """
    backend = current()
    if backend.has_daemon_threads:
        return await run_in_thread(
            _holding_stdin, function, *args, abandon_on_cancel=True, limiter=limiter
        )
    outcome: list[T] = []
    errors: list[BaseException] = []
    waiter, context = backend.waiter(), copy_context()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def run() -> None:
        try:
            with _as_worker_of_anyio(backend.loop, scope):
                outcome.append(context.run(_holding_stdin, function, *args))
        except BaseException as error:  # noqa: BLE001 - raised in the task that waits
            errors.append(error)
        backend.run_soon(wake)

    async with limiter or anyio.to_thread.current_default_thread_limiter():
        with anyio.CancelScope() as scope:
            start_thread(run, "mcp_client hook")
            await waiter
    if errors:
        try:
            raise errors.pop()
        finally:
            del errors  # the traceback refers to this frame
    return outcome.pop()


def _holding_stdin(function: Callable[..., T], *args: Any) -> T:
    # A program that ends closes standard input when the last reference goes, and is aborted
    # ("Fatal Python error: _enter_buffered_busy") if a thread is reading from it. The references
    # of this frame stay, since the thread never continues.
    stdin = sys.stdin
    held = stdin, getattr(stdin, "buffer", None)
    try:
        return function(*args)
    finally:
        del held


@contextmanager
def _as_worker_of_anyio(loop: object, scope: anyio.CancelScope) -> Iterator[None]:
    """Let ``anyio.from_thread`` find its event loop and scope here, as in a thread of anyio's.

    anyio has no public way to do this. Without the private one, ``anyio.from_thread`` raises.
    """
    private = sys.modules.get("anyio._core._eventloop")
    backend = getattr(sys.modules.get("anyio._backends._asyncio"), "AsyncIOBackend", None)
    claim = getattr(private, "claim_worker_thread", None)
    local = getattr(private, "threadlocals", None)
    if claim is None or backend is None or local is None:
        yield
        return
    with claim(backend, loop):
        local.current_cancel_scope = scope
        try:
            yield
        finally:
            del local.current_cancel_scope


def limiter_of(variable: RunVar[anyio.CapacityLimiter], threads: int) -> anyio.CapacityLimiter:
    """Return the limiter of the running event loop in ``variable``, made with ``threads``."""
    try:
        return variable.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(threads)
        variable.set(limiter)
        return limiter
