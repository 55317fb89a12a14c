"""Event loops of a simulated life: virtual time, order by the seed, and nothing real.

On trio the seed orders the tasks that can run, which trio lets be any order, and a ``MockClock``
jumps to the next deadline when no task can run. On asyncio a selector jumps instead. There, the
order of ``call_soon`` is kept, because asyncio promises it, and the order of timers that are due
at the same time is drawn.

Threads are simulated: what would run in one runs in the event loop, at a time that is drawn, and
its caller is told at another. Whatever else is real makes the life fail: an audit hook of Python
reports sockets, processes, threads, files and sleeps.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - its loop is replaced
import gc
import heapq
import logging
import math
import os
import pkgutil
import random
import re
import selectors
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import copy_context
from importlib import import_module
from typing import Any

import anyio
import anyio.to_thread
import trio
from trio._core import _run as trio_run
from trio._core._mock_clock import MockClock

import mcp_client
from mcp_client.catalog import call_values
from mcp_client.catalog import tools as catalog_tools
from mcp_client.connection import establish
from mcp_client.runtime import callbacks
from mcp_client.runtime.event_loop import LoopEvent, current
from mcp_client.validation import checker, engine

from .world import World

__all__ = ["BACKENDS", "Hung", "own_task", "replace", "run", "spawn"]

BACKENDS = ("trio", "asyncio")
EPOCH = 1_800_000_000.0
"""What ``time.time()`` is at the beginning of a life."""
MOST_STEPS = 400_000
"""Turns of the event loop in one life: more is a loop that never waits."""
MOST_SECONDS = 100_000.0
"""Of virtual time: a life that takes longer has hung."""
_LINGERS = 150.0
"""Seconds in which whatever may end behind its caller has ended; threads take two latencies."""
_ESCAPES = (
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "subprocess.Popen",
    "os.posix_spawn",
    "os.fork",
    "os.system",
    "_thread.start_new_thread",
    "time.sleep",
    "open",
)
_CODE = re.compile(r"\.(py|pyc|so|pyd)(\.\d+)?$|\.dist-info/|^<.*>$")
"""What an import reads and writes, and what a traceback looks for: ``<unknown>`` is no file."""
_UNUSED = re.compile(r"windows|-|__|\.(auth|cli|desk|sandbox|stubs)(\.|$)|postgres|database_log")
"""Modules of the package that no life imports: what they need takes a third of the time."""
_world: World | None = None


class Hung(BaseException):
    """A life that does not end."""


def run(world: World, backend: str, life: Callable[[], Awaitable[None]]) -> None:
    """Live ``life`` in ``world``. What is wrong is in ``world.wrong``."""
    with _simulated(world):
        try:
            (_run_trio if backend == "trio" else _run_asyncio)(world, life)
        except Hung as error:
            world.fail(f"the life does not end: {error}")
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            world.fail(f"the life raised {_text(error)}")


def spawn(world: World, function: Callable[[], Awaitable[None]]) -> Callable[[], object]:
    """Run ``function`` beside the life, until it ends, the life does, or what is returned is
    called."""
    cancel = current().spawn(function).cancel
    world.ends.append(cancel)
    return cancel


def own_task(calling: Coroutine[Any, Any, Any]) -> Any:
    """A task for ``calling``, which may be cancelled as such; None on trio, which has no such way,
    and then nothing is done."""
    try:
        return asyncio.get_running_loop().create_task(calling)
    except RuntimeError:
        return None


# ------------------------------------------------------------------------ trio


def _clock() -> Any:
    """Return a clock that jumps to the next deadline when no task can run."""
    clock: Any = MockClock(autojump_threshold=0)
    now, turns = 0.0, 0

    def current_time() -> float:
        return now

    def deadline_to_sleep_time(deadline: float) -> float:
        nonlocal turns
        turns += 1
        if turns > MOST_STEPS:
            raise Hung(f"more than {MOST_STEPS:,} turns of the event loop")
        return math.inf if deadline > now else 0.0

    def jump() -> None:
        nonlocal now
        deadline = trio_run.GLOBAL_RUN_CONTEXT.runner.deadlines.next_deadline()
        if now < deadline < math.inf:  # the difference may be too small to be added
            now = max(now + (deadline - now), math.nextafter(now, math.inf))

    clock.current_time = current_time
    clock.deadline_to_sleep_time = deadline_to_sleep_time
    clock._autojump = jump
    return clock


class _Events(trio_run.TheIOManager):  # type: ignore[misc, name-defined]
    """Nothing real ever happens, but for what wakes the event loop itself."""

    def get_events(self, timeout: float) -> Any:
        is_woken = trio_run.GLOBAL_RUN_CONTEXT.runner.entry_queue.size()
        return super().get_events(0) if is_woken else []


def _run_trio(world: World, life: Callable[[], Awaitable[None]]) -> None:
    clock = _clock()
    world.now = clock.current_time
    trio_run._r.seed(world.seed)

    async def main() -> None:
        with trio.move_on_after(MOST_SECONDS) as scope:
            await life()
        if scope.cancelled_caught:
            raise Hung(f"it lasts for more than {MOST_SECONDS:,.0f} s")
        await _end(world)
        runner: Any = trio_run.GLOBAL_RUN_CONTEXT.runner
        kept = [task for task in runner.tasks if "event_loop" in str(task.coro.cr_code.co_filename)]
        if kept:
            world.fail(f"{len(kept)} task(s) are left: {sorted(task.name for task in kept)}")

    trio.run(main, clock=clock, strict_exception_groups=True)


# --------------------------------------------------------------------- asyncio


class _Selector(selectors.BaseSelector):
    """Selects nothing, and lets time pass instead."""

    def __init__(self) -> None:
        self.loop: Any = None
        self.now = 0.0
        self.steps = 0
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def get_map(self) -> Any:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Hung(f"more than {MOST_STEPS:,} turns of the event loop")
        if timeout is None:
            raise Hung("nothing is left that could wake any task")
        if timeout > 0:
            self.now = self.loop._scheduled[0]._when
            if self.now > MOST_SECONDS:
                raise Hung(f"it lasts for more than {MOST_SECONDS:,.0f} s")
        return []


class _Timer(asyncio.TimerHandle):
    """A timer that is ordered by ``tie`` among those of the same time."""

    tie = 0
    _when: float

    def __lt__(self, other: Any) -> bool:
        if self._when == other._when:
            return bool(self.tie < other.tie)
        return bool(self._when < other._when)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, world: World) -> None:
        self.virtual = selector = _Selector()
        super().__init__(selector)
        selector.loop = self
        self._world = world

    @property
    def _clock_resolution(self) -> float:  # no timer rings early
        return math.ulp(self.virtual.now)

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None: ...

    def time(self) -> float:
        return self.virtual.now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        timer: Any = _Timer(when, callback, args, self, context)
        timer.tie = self._world.number("tie")
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True
        return timer


def _run_asyncio(world: World, life: Callable[[], Awaitable[None]]) -> None:
    loop = _Loop(world)
    world.now = loop.time

    async def main() -> None:
        await life()
        await _end(world)
        kept = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        names = [task.get_coro().__qualname__ for task in kept]  # type: ignore[union-attr]
        if names:
            world.fail(f"{len(names)} task(s) are left: {sorted(names)}")
        timers = [each for each in loop._scheduled if not each._cancelled]  # type: ignore[attr-defined]
        callbacks = sorted(str(getattr(each._callback, "__qualname__", "?")) for each in timers)
        if callbacks:
            world.fail(f"{len(callbacks)} timer(s) are left: {callbacks}")

    loop.set_exception_handler(lambda _, found: world.fail(f"the event loop: {found['message']}"))
    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(main())
    finally:
        asyncio.set_event_loop(None)
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()


# ------------------------------------------------------------------ both loops


async def _end(world: World) -> None:
    """End what the world has running, and let end what may end behind its caller."""
    world.calm = True
    await anyio.sleep(_LINGERS)
    for end in world.ends:
        end()
    await anyio.sleep(_LINGERS)
    for check in world.checks:
        check()


def replace(stack: ExitStack, where: Any, name: str, value: Any) -> None:
    """Replace what a module or a class has under ``name`` until ``stack`` is closed."""
    stack.callback(setattr, where, name, vars(where)[name])
    setattr(where, name, value)


@contextmanager
def _simulated(world: World) -> Iterator[None]:
    """Let time, chance and threads be the world's own."""
    global _world
    for memory in (checker._checkers, establish._wants_initialize, call_values._marks):
        memory.clear()  # other lives may have filled it
    rng = random.Random(world.seed)
    state = random.getstate()
    random.seed(world.seed)

    def wall() -> float:
        return EPOCH + world.now()

    def elapsed() -> float:
        return world.now()

    with ExitStack() as stack:
        for where, name, value in (
            (time, "time", wall),
            (time, "monotonic", elapsed),
            (time, "perf_counter", elapsed),
            (catalog_tools, "perf_counter", elapsed),
            (os, "urandom", rng.randbytes),
            (random, "_urandom", rng.randbytes),
            (trio_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
            (trio_run, "TheIOManager", _Events),
            (anyio.to_thread, "run_sync", _thread_of(world)),
            (callbacks, "in_daemon_thread", _daemon_thread_of(world)),
        ):
            replace(stack, where, name, value)
        handler = _Records(world)
        logger = logging.getLogger("mcp_client")
        level, propagates = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        enabled, modules = gc.isenabled(), sys.modules.keys() | ()
        gc.disable()
        _world = world
        try:
            yield
        finally:
            _world = None
            late = sorted(name for name in sys.modules.keys() - modules if "mcp_client" in name)
            if late:
                world.fail(f"modules were first imported in a life, see _UNUSED: {late}")
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagates
            random.setstate(state)
            if enabled:
                gc.enable()


class _Records(logging.Handler):
    """What the package logs as an exception of its own is a fault of the package."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and "an internal " in text:
            self._world.fail(f"{text}: {_text(record.exc_info[1])}")


def _thread_of(world: World) -> Callable[..., Awaitable[Any]]:
    async def run_sync(
        function: Callable[..., Any],
        *args: Any,
        abandon_on_cancel: bool = False,
        limiter: Any = None,
        **_: Any,
    ) -> Any:
        outcome: list[tuple[Any, BaseException | None]] = []
        done, context = LoopEvent(), copy_context()

        async def thread() -> None:
            await anyio.sleep(world.latency("thread"))
            try:
                outcome.append((context.run(function, *args), None))
            except BaseException as error:
                outcome.append((None, error))
            await anyio.sleep(world.latency("thread ends"))
            done.set()

        await anyio.lowlevel.checkpoint_if_cancelled()
        async with limiter or nullcontext():
            current().spawn(thread)
            with anyio.CancelScope(shield=not abandon_on_cancel):
                await done.wait()
        result, error = outcome[0]
        if error is not None:
            raise error
        return result

    return run_sync


def _daemon_thread_of(world: World) -> Callable[..., Awaitable[Any]]:
    run_sync = _thread_of(world)

    async def in_daemon_thread(
        function: Any, *args: Any, limiter: Any = None, scope: Any = None
    ) -> Any:
        return await run_sync(function, *args, abandon_on_cancel=True, limiter=limiter)

    return in_daemon_thread


def _watch_for_escapes(event: str, args: tuple[Any, ...]) -> None:
    world = _world
    if world is None or event not in _ESCAPES:
        return
    if event == "open" and (isinstance(args[0], int) or _CODE.search(str(args[0]))):
        return
    what = f" {args[0]!r}" if event in ("open", "socket.getaddrinfo") else ""
    world.fail(f"something real was used: {event}{what}")


sys.addaudithook(_watch_for_escapes)
for _module in pkgutil.walk_packages(mcp_client.__path__, "mcp_client."):
    # One that is first imported in a life would keep its clocks.
    if not _UNUSED.search(_module.name):
        with suppress(ImportError):
            import_module(_module.name)
engine.load()  # jsonschema reads its files when it is first used
engine.build_validator({"type": "object", "properties": {"a": {"pattern": "a"}}})


def _text(error: BaseException | None) -> str:
    if isinstance(error, BaseExceptionGroup):
        return f"[{', '.join(_text(each) for each in error.exceptions)}]"
    return f"{type(error).__name__}: {error}"
