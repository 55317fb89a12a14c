"""Start threads, and run plain functions in them.

All threads of this package are started here. If a process cannot start a thread, ``NoThread`` is
raised in place of a bare ``RuntimeError``.

A *daemon* thread is one that a program does not wait for when it ends. Hooks and handlers of the
host may wait for a person at ``input()``. The threads that anyio starts on asyncio are not daemons,
so after Ctrl-C such a hook would delay the end of the program until Enter is pressed. On trio,
anyio's threads are daemons already.

Starting a thread costs more than a call of a tool. So a daemon thread waits ``_IDLE_SECONDS`` for
the next function of its event loop before it ends.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from typing import Any, ClassVar, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar, checkpoint_if_cancelled

from ..errors import ConnectError
from .event_loop import current

__all__ = ["NoThread", "in_daemon_thread", "limiter_of", "run_in_thread", "start_thread"]

T = TypeVar("T")
_Job: TypeAlias = "tuple[Callable[[], None], Callable[[], None], anyio.CancelScope]"
_IDLE_SECONDS = 10.0


class NoThread(ConnectError):
    """An error: no thread can be started, so the work was not begun."""

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
    function: Callable[..., T],
    *args: Any,
    limiter: anyio.CapacityLimiter | None = None,
    scope: anyio.CancelScope | None = None,
) -> T:
    """Return ``function(*args)`` from a daemon thread, which goes on if the caller is cancelled.

    ``limiter`` bounds the threads; by default anyio's own does. ``scope`` is the innermost scope of
    the caller, if it knows it. Raises ``NoThread``.
    """
    backend = current()
    if backend.has_daemon_threads:
        return await run_in_thread(
            _holding_stdin, function, *args, abandon_on_cancel=True, limiter=limiter
        )
    outcome: list[T] = []
    errors: list[BaseException] = []
    waiter, context = backend.waiter(), copy_context()

    def run() -> None:
        try:
            outcome.append(context.run(_holding_stdin, function, *args))
        except BaseException as error:  # noqa: BLE001 - raised in the task that waits
            errors.append(error)

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    limiter = limiter or anyio.to_thread.current_default_thread_limiter()
    await checkpoint_if_cancelled()
    try:  # without a turn of the loop if there is room
        limiter.acquire_on_behalf_of_nowait(waiter)
    except anyio.WouldBlock:
        await limiter.acquire_on_behalf_of(waiter)
    try:
        with nullcontext(scope) if scope is not None else anyio.CancelScope() as scope:
            _Worker.run(backend.loop, (run, lambda: backend.run_soon(wake), scope))
            await waiter
    finally:
        limiter.release_on_behalf_of(waiter)
    if errors:
        try:
            raise errors.pop()
        finally:
            del errors  # the traceback refers to this frame
    return outcome.pop()


class _Worker:
    """A daemon thread that runs the functions of one event loop, one at a time."""

    _idle: ClassVar[WeakKeyDictionary[object, list[_Worker]]] = WeakKeyDictionary()

    def __init__(self, loop: object, job: _Job, idle: list[_Worker]) -> None:
        import queue  # only now: few programs have plain hooks

        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._jobs.put(job)
        start_thread(self._work, "mcp_client hook", loop, idle)

    @classmethod
    def run(cls, loop: object, job: _Job) -> None:
        """Run ``job`` in a thread that has nothing to do, or in a new one. Raises ``NoThread``."""
        idle = cls._idle.setdefault(loop, [])
        if idle:
            idle.pop()._jobs.put(job)
        else:
            cls(loop, job, idle)

    def _work(self, loop: object, idle: list[_Worker]) -> None:
        from queue import Empty

        with _as_worker_of_anyio(loop) as local:
            while True:
                try:
                    run, wake, local.current_cancel_scope = self._jobs.get(timeout=_IDLE_SECONDS)
                except Empty:
                    try:
                        idle.remove(self)
                    except ValueError:
                        continue  # a job is on its way
                    return
                run()
                del run, local.current_cancel_scope
                idle.append(self)  # first, for the task that is woken may have the next job
                wake()
                del wake


if hasattr(os, "register_at_fork"):  # a forked process has none of the threads
    os.register_at_fork(after_in_child=_Worker._idle.clear)


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
def _as_worker_of_anyio(loop: object) -> Iterator[Any]:
    """Let ``anyio.from_thread`` find its event loop here, as in a thread of anyio's.

    Its scope is ``current_cancel_scope`` of what this yields.

    anyio has no public way to do this. Without the private one, ``anyio.from_thread`` raises.
    """
    private = sys.modules.get("anyio._core._eventloop")
    backend = getattr(sys.modules.get("anyio._backends._asyncio"), "AsyncIOBackend", None)
    claim = getattr(private, "claim_worker_thread", None)
    local = getattr(private, "threadlocals", None)
    if claim is None or backend is None or local is None:
        yield threading.local()
        return
    with claim(backend, loop):
        yield local


def limiter_of(variable: RunVar[anyio.CapacityLimiter], threads: int) -> anyio.CapacityLimiter:
    """Return the limiter of the running event loop in ``variable``, made with ``threads``."""
    try:
        return variable.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(threads)
        variable.set(limiter)
        return limiter
