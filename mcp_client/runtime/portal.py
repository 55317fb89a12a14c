"""A thread with an event loop, for programs that have none: ``portal().run(function)``.

There is one portal in a process, started at its first use. Its thread is a daemon: a program that
ends does not wait for it. Objects that must be closed before the program ends are registered with
``lease``. A forked child has no such thread, so an object that was opened in its parent raises
there, and the child's end closes nothing.

Python raises ``KeyboardInterrupt`` in the main thread alone. A thread pool in a ``with`` block then
joins its threads before anything around it can close, so what these threads wait for has to be
cancelled when the signal arrives. As ``asyncio.run`` does, ``CtrlC`` replaces Python's own handler
of SIGINT, and no other: a handler that the program has set stays.

asyncio is used here and not anyio's blocking portal, which costs five times the CPU (93 us a call
against 21 us) and cannot wait for a call to end after it was cancelled by Ctrl-C.
"""

from __future__ import annotations

import atexit
import inspect
import logging
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from types import FrameType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from ..errors import CallCancelled, CallWithdrawn, McpError, NotSent
from .daemon_thread import NoThread, start_thread

if TYPE_CHECKING:
    import asyncio

    from .watch import Watch

__all__ = [
    "Blocking",
    "BlockingWatch",
    "Lease",
    "Portal",
    "described_by",
    "portal",
    "replaced_by",
    "waits",
    "watches",
]

_log = logging.getLogger("mcp_client")
_CANCEL_SECONDS = 5.0
"""The seconds that a call has to end after Ctrl-C: time to notify the server."""
_CLOSE_SECONDS = 15.0
"""Seconds that everything still open has to close when the program ends."""
_SECONDS_TO_UNWIND = 1.0
"""Seconds after Ctrl-C in which ``KeyboardInterrupt`` counts as being on its way: between two
frames it is not visible from another thread."""

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
U = TypeVar("U")
F = TypeVar("F", bound=Callable[..., Any])
_END: Any = object()


class Portal:
    """An event loop in a thread of its own, in which other threads run coroutine functions."""

    def __init__(self) -> None:
        import asyncio  # which takes a while to load: at the first use of the portal

        self._forked = False
        self._ending = self._stopping = False
        self._closers: dict[object, Callable[[], Awaitable[object]]] = {}
        self._dropped: set[asyncio.Future[object]] = set()
        self._waiting: set[_Call[Any]] = set()
        self._ctrl_c = CtrlC(self._cancel_other_threads)
        self._loop = asyncio.new_event_loop()
        try:
            self._thread = start_thread(self._main, "mcp_client portal")
        except NoThread:
            self._loop.close()
            raise

    def run(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Await ``function(*args, **kwargs)`` in the portal's loop, and return what it returns.

        An exception that interrupts the waiting thread, such as ``KeyboardInterrupt``, cancels the
        function and is raised once it has ended. Ctrl-C cancels the functions of other threads too,
        which raise ``CallCancelled``, or ``CallWithdrawn`` if they were not begun. Raises
        ``NotSent`` where waiting would block the loop itself, and in a process forked from the
        portal's.
        """
        call = _Call(lambda: function(*args, **kwargs))
        self._waiting.add(call)
        try:
            if self._ctrl_c.ends_this_thread:
                raise call.interruption()
            return self._outcome_of(call)
        finally:
            self._waiting.discard(call)

    def finish(
        self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """``run`` for what closes or is soon done: Ctrl-C cancels it in the main thread only."""
        return self._outcome_of(_Call(lambda: function(*args, **kwargs)))

    def _outcome_of(self, call: _Call[T]) -> T:
        if self._forked:
            raise NotSent(
                "a forked process cannot use the sessions of its parent process. "
                "Connect again in this process"
            )
        if threading.get_ident() == self._thread.ident:
            raise NotSent(
                "cannot make a blocking call in the event loop that serves it. An async "
                "hook, handler or on_progress callback cannot use mcp_client.sync; a plain "
                "function can, for approval and handlers, because it runs in its own thread"
            )
        try:
            self._loop.call_soon_threadsafe(call.start, self._loop)
            call.ended.acquire()
        except RuntimeError as error:
            raise NotSent("mcp_client.sync is closed, because the program is ending") from error
        except BaseException:
            self._loop.call_soon_threadsafe(call.cancel)
            call.ended.acquire(timeout=_CANCEL_SECONDS)
            raise
        if self._ending and call.error is not None and threading.current_thread().daemon:
            # The program is ending and stops this thread. An error would only be printed.
            time.sleep(_CLOSE_SECONDS)
        return call.result()

    def lease(self, key: object, close: Callable[[], Awaitable[object]], name: str) -> Lease:
        """Await ``close()`` when the lease is dropped, or at the latest when the program ends.

        ``forget(key)`` prevents it. ``name`` is its name in a warning.
        """
        self._closers[key] = close
        self._ctrl_c.listen()
        return Lease(self, key, name)

    def forget(self, key: object) -> None:
        """Do not close ``key`` at the end of the program: it is closed."""
        self._closers.pop(key, None)
        if not self._closers:
            self._ctrl_c.leave()

    def close(self) -> None:
        """Close what is still open, within bounds, and end the thread."""
        self._ending = True
        try:
            if self._closers:
                self.finish(self._close_all)
        finally:
            self._ctrl_c.leave()
            self._stopping = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=2.0)

    def close_dropped(self, key: object, name: str) -> None:
        """Close what no one can use any more, without waiting, and warn about it.

        From any thread, the garbage collector's included.
        """
        close = self._closers.pop(key, None)
        if close is None or self._forked or self._ending:
            return

        def start() -> None:
            import asyncio

            task = asyncio.ensure_future(close())
            self._dropped.add(task)
            task.add_done_callback(self._dropped.discard)

        self._loop.call_soon_threadsafe(start)
        what = f"{name} was dropped without being closed; its servers are ended now"
        warnings.warn(f"{what}. Use 'with', or call close()", ResourceWarning, stacklevel=2)

    def forked(self) -> None:
        """Raise from now on, and close nothing: this is a forked process."""
        self._forked = True
        self._closers.clear()
        self._ctrl_c.leave()

    def _cancel_other_threads(self) -> None:
        """Cancel what they wait for. From a signal handler."""
        main = threading.main_thread().ident
        waiting = [call for call in list(self._waiting) if call.thread != main]

        def cancel() -> None:
            for call in waiting:  # not those begun since: the program may have gone on
                call.interrupt()

        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(cancel)

    async def _close_all(self) -> None:
        import asyncio

        closers, self._closers = list(self._closers.values()), {}
        tasks = [asyncio.ensure_future(close()) for close in closers]
        _, slow = await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
        for task in slow:
            task.cancel()
        if slow:
            await asyncio.wait(slow, timeout=1.0)
            _log.warning("%d sessions did not close within %g s", len(slow), _CLOSE_SECONDS)

    def _main(self) -> None:
        import asyncio

        asyncio.set_event_loop(self._loop)
        while not self._stopping:
            try:
                self._loop.run_forever()
            except BaseException:  # noqa: BLE001 - SystemExit in one callback must not end the rest
                _log.exception("an exception in the loop of mcp_client.sync, which continues")
        self._loop.close()


class _Call(Generic[T]):
    """A function that runs in the loop for a thread that waits for it."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self.thread = threading.get_ident()
        self.ended = threading.Lock()
        self.ended.acquire()
        self._function = function
        self._context = copy_context()
        self._task: asyncio.Task[None] | None = None
        self._cancelled = self._interrupted = False
        self.error: BaseException | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._cancelled:
            self.ended.release()
        else:
            self._task = loop.create_task(self._run(), context=self._context)

    def cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def interrupt(self) -> None:
        """Cancel it because of Ctrl-C: the thread that waits is given ``interruption()``."""
        self._interrupted = True
        self.cancel()

    def interruption(self) -> McpError:
        """Return the error for the thread that waits for a call cancelled by Ctrl-C."""
        if self._task is None:
            return CallWithdrawn("cancelled by Ctrl-C before it was sent", reason="Ctrl-C")
        return CallCancelled("cancelled by Ctrl-C; it may have run", reason="Ctrl-C", server="")

    async def _run(self) -> None:
        try:
            self._value = await self._function()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self.error = error
        finally:
            self.ended.release()

    def result(self) -> T:
        import asyncio

        error, self.error = self.error, None
        if self._interrupted and (self._task is None or isinstance(error, asyncio.CancelledError)):
            raise self.interruption() from None
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error  # the traceback refers to this frame


_portal: Portal | None = None
_starting = threading.Lock()


def portal() -> Portal:
    """Return the portal of this process, started at first use."""
    global _portal
    with _starting:
        if _portal is None:
            _portal = Portal()
        return _portal


def _in_forked_child() -> None:
    global _portal, _starting
    _starting = threading.Lock()
    left, _portal = _portal, None
    if left is not None:
        left.forked()


def _at_exit() -> None:
    if _portal is not None:
        _portal.close()


# What ``weakref.finalize`` ends at exit, the servers' processes, has to be ended after the portal:
# else a host sees its servers go and starts them again. Functions of ``atexit`` run in reverse
# order, and the first finalizer registers that of ``weakref``.
weakref.finalize(Portal, int).atexit = False
atexit.register(_at_exit)
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_in_forked_child)


class Lease:
    """The portal, for the objects of one session or host, which is closed when all are dropped.

    Everything that blocks for the session (its tasks, views, watches) shares the lease, so the
    session is open as long as any of them can be used.
    """

    def __init__(self, portal: Portal, key: object, name: str) -> None:
        self._leased = portal
        weakref.finalize(self, portal.close_dropped, key, name).atexit = False

    def run(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an async function in the event loop of the portal, and wait for it."""
        return self._leased.run(function, *args, **kwargs)

    def finish(
        self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """``Portal.finish``."""
        return self._leased.finish(function, *args, **kwargs)

    def forget(self, key: object) -> None:
        """Close nothing at the end of the program for what was registered as ``key``."""
        self._leased.forget(key)

    def lease(self, key: object, close: object, name: str) -> Self:
        """Return this one, for what is opened twice."""
        return self


class Blocking(Generic[A_co]):
    """A blocking proxy of an async object of the portal's event loop."""

    _async: A_co
    _portal: Portal | Lease

    def _run(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.run(function, *args, **kwargs)

    def _finish(
        self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return self._portal.finish(function, *args, **kwargs)

    def _wait_for(self, function: Callable[[Any], Awaitable[T]]) -> T:
        """Await what ``function`` makes of the async object; ``Toolset.run`` does."""
        return self._portal.run(function, self._async)

    def _in_loop(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function in the event loop."""

        async def call() -> T:
            return function(*args, **kwargs)

        return self._portal.finish(call)


def waits(
    method: Callable[Concatenate[A, P], Awaitable[T]],
) -> Callable[Concatenate[Blocking[A], P], T]:
    """Return the async method, waited for: same parameters, same documentation."""

    def blocking(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.run(method, self._async, *args, **kwargs)

    return described_by(method, blocking)


def replaced_by(method: T) -> Callable[[object], T]:
    """Return a decorator of a method that replaces ``method``, for a type checker's protocol."""
    return lambda _: method


class BlockingWatch(Blocking["Watch[U]"], Generic[U]):
    """An iterator over changes, which ends with its object; and a context manager to close it."""

    def __init__(self, portal: Portal | Lease, watch: Watch[U]) -> None:
        self._portal = portal
        self._async = watch

    def __enter__(self) -> Self:
        self._run(self._async.__aenter__)
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> U:
        found: U = self._wait_for(lambda watch: anext(watch, _END))
        if found is _END:
            raise StopIteration
        return found

    def close(self) -> None:
        """Stop watching. A thread that waits for the next change gets ``StopIteration``."""
        self._finish(self._async.aclose)


def watches(
    method: Callable[Concatenate[A, P], Watch[U]],
) -> Callable[Concatenate[Blocking[A], P], BlockingWatch[U]]:
    """Return the method that returns an async iterator, with a plain one."""

    def blocking(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> BlockingWatch[U]:
        return BlockingWatch(self._portal, self._in_loop(method, self._async, *args, **kwargs))

    return described_by(method, blocking)


def described_by(source: Callable[..., Any], function: F) -> F:
    """Return ``function`` with the name, the documentation and the parameters of ``source``."""
    described: Any = function
    for name in ("__name__", "__qualname__", "__doc__"):
        setattr(described, name, getattr(source, name))
    described.__signature__ = inspect.signature(source)
    return function


class CtrlC:
    """Calls ``cancel`` in the main thread when Ctrl-C is pressed, before ``KeyboardInterrupt``."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._pressed_at: float | None = None
        self._handler = self._handle  # one object, to recognize it by

    def listen(self) -> None:
        """Begin, if this is the main thread and Python's own handler is in place."""
        import signal

        if _in_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handler)

    def leave(self) -> None:
        """Put Python's own handler back, unless the program has set another one by now."""
        import signal

        if _in_main_thread() and signal.getsignal(signal.SIGINT) is self._handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @property
    def ends_this_thread(self) -> bool:
        """Whether this is another thread than the main one, which is ending because of Ctrl-C.

        Once the program has handled ``KeyboardInterrupt``, its threads go on.
        """
        if self._pressed_at is None or _in_main_thread():
            return False
        if time.monotonic() - self._pressed_at < _SECONDS_TO_UNWIND or _main_thread_unwinds():
            return True
        self._pressed_at = None
        return False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._pressed_at = time.monotonic()
        self._cancel()
        raise KeyboardInterrupt  # as Python's own handler does


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _main_thread_unwinds() -> bool:
    """Whether the main thread handles ``KeyboardInterrupt``.

    It then is in an ``except`` or ``finally`` block, or at the end of a ``with`` block.
    """
    found = sys._current_exceptions().get(threading.main_thread().ident or 0)
    error: object = found[1] if isinstance(found, tuple) else found  # before Python 3.12
    while isinstance(error, BaseException):
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False
