"""Direct access to the event loop, asyncio or trio. No other module imports either.

Code that waits in the caller's own task uses anyio. This module provides what anyio does not. Work
can belong to a session and not to a task, so one task may open the session and another close it.
Waiters, timers and file watches are cheap enough for every call.

*No anyio object is created outside a task.* The callbacks of ``call_at``, ``call_soon``,
``on_readable`` and ``on_writable`` run in no task on asyncio. There, anyio asks ``sniffio`` (where
it is installed) which loop is running; ``sniffio`` looks for a current task, finds none and
concludes that no loop runs. So ``anyio.CancelScope()`` raises there in a program started with
``asyncio.run``, although it works under ``anyio.run``, which informs ``sniffio`` beforehand. Code
that such a callback can reach uses ``Backend`` and ``LoopEvent`` instead, and ``BackgroundTasks``,
which creates its scopes inside the tasks. Setting an ``anyio.Event`` or cancelling a scope that a
task created is fine anywhere.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol

from .deadline_timer import DeadlineTimer

if TYPE_CHECKING:
    import asyncio

    import trio

__all__ = [
    "Backend",
    "Handle",
    "LoopEvent",
    "LoopLock",
    "Waiter",
    "being_cancelled",
    "cancel_requests",
    "current",
    "in_event_loop",
]

_log = logging.getLogger("mcp_client")


class Waiter(Protocol):
    """A protocol: one task awaits it, until any code in the loop wakes the task, once."""

    def done(self) -> bool:
        """Whether the task was woken, or is being cancelled."""

    def set_result(self, result: None, /) -> None:
        """Wake the task."""

    def __await__(self) -> Generator[Any, Any, None]: ...


class Handle(Protocol):
    """Ends what it was returned for. ``cancel`` may be called more than once."""

    def cancel(self) -> object:
        """End it."""


class CountsCancellations(Protocol):
    """A protocol: a task that counts the requests to cancel it."""

    def cancelling(self) -> int:
        """Return how many requests to cancel the task are open, if the event loop counts them."""


class Backend(Protocol):
    """A protocol: an event loop."""

    def now(self) -> float:
        """Seconds on the loop's own clock."""

    def waiter(self) -> Waiter:
        """Return a new waiter, for a task of this event loop."""

    def current_task(self) -> CountsCancellations:
        """Return the task that calls."""

    @property
    def running_loop(self) -> Callable[[], object]:
        """A function that returns the event loop of the caller; None outside loops of this kind."""

    @property
    def loop(self) -> object:
        """The result of ``running_loop`` in this event loop."""

    @property
    def has_daemon_threads(self) -> bool:
        """Whether all threads that anyio starts here are daemons."""

    def effective_deadline(self) -> float:
        """Return the earliest deadline around the caller; ``-inf`` in a cancelled scope."""

    def time_limit(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """Cancel the block after ``seconds``, and raise ``TimeoutError`` then.

        See ``deadline_timer`` for a process that was stopped.
        """

    def run_soon(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` in this event loop, from any thread: at once if that is the caller's.

        If the loop has ended, it is not called.
        """

    def call_at(self, when: float, callback: Callable[[], None]) -> Handle:
        """Call ``callback`` when the loop's clock shows ``when``."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once the tasks that can run now have run.

        On trio it is called at once, where waiting costs more than it saves.
        """

    def spawn(self, function: Callable[[], Awaitable[None]]) -> Handle:
        """Run ``function`` outside any task's scope, and not before this returns.

        An exception that it raises is logged.
        """

    def on_readable(self, fd: int, callback: Callable[[], object]) -> Handle:
        """Call ``callback`` whenever ``fd`` can be read. Cancel it before ``fd`` is closed."""

    def on_writable(self, fd: int, callback: Callable[[], object]) -> Handle:
        """Call ``callback`` whenever ``fd`` can be written. Cancel it before ``fd`` is closed."""


def current() -> Backend:
    """Return the backend of the running loop."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        return _Trio()
    import asyncio  # only now: a host on trio need not load it

    return _Asyncio(asyncio.get_running_loop())


def in_event_loop() -> bool:
    """Whether this thread runs an event loop now, so that blocking it would stop its tasks."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        return True
    return "trio" in sys.modules and _trio_token() is not None


def being_cancelled(before: int = 0) -> bool:
    """Whether the current task has been cancelled by other code.

    ``before`` is the value of ``cancel_requests()`` at an earlier time: earlier requests do not
    count.
    """
    import anyio

    return anyio.current_effective_deadline() == -math.inf or cancel_requests() > before


def cancel_requests() -> int:
    """Return how many requests to cancel the current task are open; 0 if they are not counted."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return 0
    try:
        task = asyncio.current_task()
    except RuntimeError:  # on trio
        return 0
    return 0 if task is None else task.cancelling()


class LoopEvent:
    """An event like ``anyio.Event``, which may also be created in a loop callback."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[Waiter] = []

    def is_set(self) -> bool:
        """Whether the event has happened."""
        return self._is_set

    def set(self) -> None:
        """Wake all tasks that wait, and let later ones not wait."""
        self._is_set = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until the event is set."""
        if not self._is_set:
            waiter = current().waiter()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)


class LoopLock:
    """A lock for the tasks of one event loop, in order, without anyio or a wait if it is free."""

    __slots__ = ("_holder", "_is_held", "_waiters")

    def __init__(self) -> None:
        self._is_held = False
        self._holder: Waiter | None = None
        self._waiters: list[Waiter] = []  # an empty deque takes ten times the memory

    async def __aenter__(self) -> None:
        if not self._is_held:
            self._is_held = True
            return
        waiter = current().waiter()
        self._waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            if self._holder is waiter:  # it was given the lock, and cancelled before it ran
                self._release()
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    async def __aexit__(self, *raised: object) -> None:
        self._release()

    def _release(self) -> None:
        self._holder = None
        while self._waiters:
            waiter = self._waiters.pop(0)
            if not waiter.done():  # else its task is being cancelled
                self._holder = waiter
                waiter.set_result(None)
                return
        self._is_held = False


class _Asyncio:
    __slots__ = ("call_soon", "current_task", "loop", "now", "running_loop", "waiter")
    has_daemon_threads = False

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.running_loop: Callable[[], object] = sys.modules["asyncio"]._get_running_loop
        self.current_task: Callable[[], Any] = sys.modules["asyncio"].current_task
        self.now: Callable[[], float] = loop.time
        self.waiter: Callable[[], Any] = loop.create_future
        self.call_soon: Callable[[Callable[[], None]], Any] = loop.call_soon

    # It replaces itself by a function of anyio's backend. That is large: a program that uses
    # asyncio alone gets its first result without it (the row "fresh process to first result").
    @staticmethod
    def effective_deadline() -> float:
        private = sys.modules.get("anyio._backends._asyncio")
        if private is None:
            return math.inf
        deadline: Any = private.AsyncIOBackend.current_effective_deadline
        _Asyncio.effective_deadline = deadline  # type: ignore[method-assign]
        return float(deadline())

    @asynccontextmanager
    async def time_limit(self, seconds: float) -> AsyncIterator[object]:
        if "anyio._backends._asyncio" in sys.modules:
            import anyio

            # A scope around this may be cancelled. asyncio's timeout knows no scopes: if it expired
            # during the clean-up, the scope would not recognize the cancellation as its own.
            with anyio.fail_after(seconds) as scope:
                yield scope
            return
        async with sys.modules["asyncio"].timeout(None) as limit:
            timer = DeadlineTimer(self, lambda: limit.reschedule(self.now()))
            timer.set(self.now() + seconds)
            try:
                yield limit
            finally:
                timer.stop()

    def run_soon(self, callback: Callable[[], None]) -> None:
        if self.running_loop() is self.loop:
            callback()
            return
        try:
            self.loop.call_soon_threadsafe(callback)
        except RuntimeError:
            _log.debug("nothing is left to cancel: the event loop has ended")

    def call_at(self, when: float, callback: Callable[[], None]) -> Handle:
        return self.loop.call_at(when, callback)

    def spawn(self, function: Callable[[], Awaitable[None]]) -> Handle:
        async def run() -> None:
            try:
                await function()
            except Exception:  # noqa: BLE001 - no code awaits it
                _log.exception("an internal task of mcp_client failed")

        # Not ``create_task``: with an eager task factory (Python 3.12) the work would run before
        # the caller has the handle that ends it.
        task = sys.modules["asyncio"].Task(run(), loop=self.loop)
        _running.add(task)  # the loop itself has only weak references to its tasks
        task.add_done_callback(_running.discard)
        return task  # type: ignore[no-any-return]

    def on_readable(self, fd: int, callback: Callable[[], object]) -> Handle:
        self.loop.add_reader(fd, callback)
        return _Watch(self.loop.remove_reader, fd)

    def on_writable(self, fd: int, callback: Callable[[], object]) -> Handle:
        self.loop.add_writer(fd, callback)
        return _Watch(self.loop.remove_writer, fd)


_running: set[asyncio.Task[None]] = set()


class _Watch:
    __slots__ = ("_fd", "_remove")

    def __init__(self, remove: Callable[[int], Any], fd: int) -> None:
        self._remove = remove
        self._fd: int | None = fd

    def cancel(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            self._remove(fd)


def _trio_token() -> Any:
    import trio

    return trio.lowlevel.current_trio_token() if trio.lowlevel.in_trio_run() else None


class _Trio:
    __slots__ = ("loop", "running_loop")
    has_daemon_threads = True

    def __init__(self) -> None:
        self.running_loop = _trio_token
        self.loop = _trio_token()

    def now(self) -> float:
        import trio

        return trio.current_time()

    def waiter(self) -> Waiter:
        return _TrioWaiter()

    def current_task(self) -> CountsCancellations:
        return self  # nothing is counted: trio cancels scopes and not tasks

    def cancelling(self) -> int:
        return 0

    def effective_deadline(self) -> float:
        return float(sys.modules["trio"].current_effective_deadline())

    @asynccontextmanager
    async def time_limit(self, seconds: float) -> AsyncIterator[object]:
        import trio

        with trio.CancelScope() as scope:
            timer = DeadlineTimer(self, scope.cancel)
            timer.set(self.now() + seconds)
            try:
                yield scope
            finally:
                timer.stop()
        if scope.cancelled_caught:
            raise TimeoutError

    def run_soon(self, callback: Callable[[], None]) -> None:
        import trio

        if _trio_token() is self.loop:
            callback()
            return
        try:
            self.loop.run_sync_soon(callback)
        except trio.RunFinishedError:
            _log.debug("nothing is left to cancel: the event loop has ended")

    def call_soon(self, callback: Callable[[], None]) -> None:
        callback()

    def call_at(self, when: float, callback: Callable[[], None]) -> Handle:
        import trio

        async def ring() -> None:
            if when < math.inf:
                await trio.sleep_until(when)
                _contained(callback)

        return self.spawn(ring)

    def spawn(self, function: Callable[[], Awaitable[None]]) -> trio.CancelScope:
        import trio

        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                try:
                    await function()
                except Exception:  # noqa: BLE001 - it would bring down the whole of trio
                    _log.exception("an internal task of mcp_client failed")

        # As asyncio does it: what the host's functions find in context variables is the caller's.
        trio.lowlevel.spawn_system_task(run, context=copy_context())
        return scope

    def on_readable(self, fd: int, callback: Callable[[], object]) -> Handle:
        import trio

        return self._watch(trio.lowlevel.wait_readable, fd, callback)

    def on_writable(self, fd: int, callback: Callable[[], object]) -> Handle:
        import trio

        return self._watch(trio.lowlevel.wait_writable, fd, callback)

    def _watch(
        self, ready: Callable[[int], Awaitable[None]], fd: int, callback: Callable[[], object]
    ) -> Handle:
        async def watch() -> None:
            # Checked on both sides of the wait: once cancelled, ``fd`` may be closed or reused.
            while not scope.cancel_called:
                await ready(fd)
                if not scope.cancel_called:
                    _contained(callback)

        scope = self.spawn(watch)
        return scope


def _contained(callback: Callable[[], object]) -> None:
    """Call ``callback``, and log an exception, as asyncio does."""
    try:
        callback()
    except Exception:  # noqa: BLE001 - it would bring down the whole of trio
        _log.exception("an internal callback of mcp_client failed")


class _TrioWaiter:
    __slots__ = ("_done", "_task")

    def __init__(self) -> None:
        self._done = False
        self._task: Any = None

    def done(self) -> bool:
        return self._done

    def set_result(self, result: None, /) -> None:
        import trio

        self._done = True
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def __await__(self) -> Generator[Any, Any, None]:
        import trio

        if self._done:
            return
        self._task = trio.lowlevel.current_task()

        def abort(_raise_cancel: Any) -> Any:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        yield from trio.lowlevel.wait_task_rescheduled(abort).__await__()  # noqa: ASYNC105
