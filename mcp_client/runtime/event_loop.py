"""The event loop, asked directly: asyncio and trio side by side, and nowhere else.

Everything that waits in the caller's own task uses anyio. What is here is what anyio cannot give:
work that belongs to a session and not to a task (so that any task may open it and any other close
it), and a waiter and file watches cheap enough for the way of every call.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

    import trio

__all__ = ["Backend", "Handle", "Stoppable", "Waiter", "being_cancelled", "current"]

_log = logging.getLogger("mcp_client")


class Waiter(Protocol):
    """One task waits, anybody wakes it, once."""

    def done(self) -> bool: ...
    def set_result(self, result: None, /) -> None: ...
    def __await__(self) -> Generator[Any, Any, None]: ...


class Handle(Protocol):
    """Something that goes on until it is cancelled; cancelling twice is harmless."""

    def cancel(self) -> object: ...


class Stoppable(Protocol):
    """A stretch of the current task that anybody may end early, as a context manager: what was
    stopped inside ends here, unless the task itself is to end."""

    def stop(self) -> None:
        """End it, once at most, and only while the task is inside."""

    def __enter__(self) -> object: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> bool: ...


class Backend(Protocol):
    def now(self) -> float:
        """Seconds on the loop's own clock."""

    def waiter(self) -> Waiter: ...

    def stoppable(self) -> Stoppable: ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Handle: ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back once the tasks that can run now have run; or at once, where that costs more."""

    def spawn(self, function: Callable[[], Awaitable[None]]) -> Handle:
        """Run ``function`` outside any task's scope. It contains its own exceptions."""

    def on_readable(self, fd: int, callback: Callable[[], None]) -> Handle:
        """Call back whenever ``fd`` can be read; cancel before ``fd`` is closed."""

    def on_writable(self, fd: int, callback: Callable[[], None]) -> Handle: ...


def current() -> Backend:
    """The backend of the running loop."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        return _Trio()
    import asyncio  # only now: a host on trio need not load it

    return _Asyncio(asyncio.get_running_loop())


def being_cancelled() -> bool:
    """Whether the current task is to be cancelled from outside."""
    import anyio

    if anyio.current_effective_deadline() == -math.inf:
        return True
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or isinstance(current(), _Trio):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class _Asyncio:
    __slots__ = ("_loop", "call_soon", "now", "waiter")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now: Callable[[], float] = loop.time
        self.waiter: Callable[[], Any] = loop.create_future
        self.call_soon: Callable[[Callable[[], None]], Any] = loop.call_soon

    def stoppable(self) -> Stoppable:
        return _StoppableTask()

    def call_at(self, when: float, callback: Callable[[], None]) -> Handle:
        return self._loop.call_at(when, callback)

    def spawn(self, function: Callable[[], Awaitable[None]]) -> Handle:
        async def run() -> None:
            try:
                await function()
            except Exception:  # noqa: BLE001 - nobody awaits it
                _log.exception("an error in a task of mcp_client's own")

        return _kept(self._loop.create_task(run()))

    def on_readable(self, fd: int, callback: Callable[[], None]) -> Handle:
        self._loop.add_reader(fd, callback)
        return _Watch(self._loop.remove_reader, fd)

    def on_writable(self, fd: int, callback: Callable[[], None]) -> Handle:
        self._loop.add_writer(fd, callback)
        return _Watch(self._loop.remove_writer, fd)


class _StoppableTask:
    """At a fifth of what an ``anyio.CancelScope`` costs: every call has one."""

    __slots__ = ("_stopped", "_task")

    def __init__(self) -> None:
        self._task = sys.modules["asyncio"].current_task()
        self._stopped = False

    def stop(self) -> None:
        if self._task is not None and not self._stopped:
            self._stopped = True
            self._task.cancel("stopped by mcp_client")

    def __enter__(self) -> object:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        task, self._task = self._task, None
        if not self._stopped or task is None:
            return False
        import anyio

        others = task.uncancel()
        if not isinstance(error, anyio.get_cancelled_exc_class()):
            return False
        # An outer scope of anyio that is cancelled says so again at the next checkpoint, and its
        # own cancellation is the one it knows; a task cancelled from outside says it only once.
        return not others or anyio.current_effective_deadline() == -math.inf


_running: set[asyncio.Task[None]] = set()


def _kept(task: asyncio.Task[None]) -> asyncio.Task[None]:
    # The loop itself keeps only weak references to its tasks.
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


class _Watch:
    __slots__ = ("_fd", "_remove")

    def __init__(self, remove: Callable[[int], Any], fd: int) -> None:
        self._remove = remove
        self._fd: int | None = fd

    def cancel(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            self._remove(fd)


class _Trio:
    __slots__ = ()

    def now(self) -> float:
        import trio

        return trio.current_time()

    def waiter(self) -> Waiter:
        return _TrioWaiter()

    def stoppable(self) -> Stoppable:
        return _StoppableScope()

    def call_soon(self, callback: Callable[[], None]) -> None:
        callback()

    def call_at(self, when: float, callback: Callable[[], None]) -> Handle:
        import trio

        async def ring() -> None:
            if when < math.inf:
                await trio.sleep_until(when)
                _contained(callback)

        return self.spawn(ring)

    def spawn(self, function: Callable[[], Awaitable[None]]) -> Handle:
        return self._spawn(function)

    def _spawn(self, function: Callable[[], Awaitable[None]]) -> trio.CancelScope:
        import trio

        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                try:
                    await function()
                except Exception:  # noqa: BLE001 - it would bring down the whole of trio
                    _log.exception("an error in a task of mcp_client's own")

        trio.lowlevel.spawn_system_task(run)
        return scope

    def on_readable(self, fd: int, callback: Callable[[], None]) -> Handle:
        import trio

        return self._watch(trio.lowlevel.wait_readable, fd, callback)

    def on_writable(self, fd: int, callback: Callable[[], None]) -> Handle:
        import trio

        return self._watch(trio.lowlevel.wait_writable, fd, callback)

    def _watch(
        self, ready: Callable[[int], Awaitable[None]], fd: int, callback: Callable[[], None]
    ) -> Handle:
        async def watch() -> None:
            # Checked on both sides of the wait: once cancelled, ``fd`` may be closed or reused.
            while not scope.cancel_called:
                await ready(fd)
                if not scope.cancel_called:
                    _contained(callback)

        scope = self._spawn(watch)
        return scope


def _contained(callback: Callable[[], None]) -> None:
    """What asyncio does for its callbacks: an error in one is told, and the loop goes on."""
    try:
        callback()
    except Exception:  # noqa: BLE001 - it would bring down the whole of trio
        _log.exception("an error in a callback of mcp_client's own")


class _StoppableScope:
    __slots__ = ("_scope",)

    def __init__(self) -> None:
        import trio

        self._scope = trio.CancelScope()

    def stop(self) -> None:
        self._scope.cancel()

    def __enter__(self) -> object:
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        return bool(self._scope.__exit__(kind, error, traceback))


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
