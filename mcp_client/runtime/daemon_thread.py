"""Running a plain function in a daemon thread: one that a program does not wait for when it ends.

Hooks and handlers of the host may wait for a person at ``input()``. The threads that anyio starts
on asyncio are not daemons, so such a hook would keep the program alive after Ctrl-C until somebody
presses Enter. On trio, and on asyncio in a daemon thread, anyio's threads are daemons already.
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

from .event_loop import current

__all__ = ["in_daemon_thread"]

T = TypeVar("T")


async def in_daemon_thread(
    function: Callable[..., T], *args: Any, limiter: anyio.CapacityLimiter | None = None
) -> T:
    """Return ``function(*args)`` from a daemon thread, which goes on if the caller is cancelled.

    ``limiter`` bounds the threads; by default anyio's own does. Raises ``RuntimeError`` if no
    thread can be started.
    """
    backend = current()
    if backend.has_daemon_threads:
        return await anyio.to_thread.run_sync(
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
            threading.Thread(target=run, name="mcp_client hook", daemon=True).start()
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
