"""Worker processes that check values which may take longer than the event loop can wait.

Nothing but a process will do: a regular expression that runs away holds the interpreter lock, and a
thread cannot be killed. A worker is started when it is first needed, used again for later values,
and killed when the time for a check is up. Each session has at most two; closing it waits a few
seconds for checks under way and leaves no process. A worker exits after 30 seconds without work.

The time limit applies twice at most: to sending the value, and to checking it. Starting a worker
has a time limit of its own. A large value is sent in pieces, between which the event loop runs.
"""

from __future__ import annotations

import itertools
import json
import marshal
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from ..errors import ConnectError
from ..processes.new_process import new_process
from ..runtime.event_loop import current
from . import engine
from .known_cost import has_at_most

if TYPE_CHECKING:
    from ..processes.process import Process

__all__ = ["WorkerFailed", "WorkerPool"]

_MAX_WORKERS = 2
_IDLE_SECONDS = 30.0
_START_SECONDS = 15.0
_END_SECONDS = 1.0
_CLOSE_SECONDS = 5.0
_QUEUE_BUDGETS = 20
_MAX_SCHEMAS = 64
_MAX_RESPONSE_BYTES = 64 * 1024
_PIECE_VALUES = 4_096
_SLICE_ITEMS = 256
_BATCH_BYTES = 64 * 1024
_PASSED_ENV = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "SYSTEMROOT")

# The child loads four modules of this package, not all of it: a fraction of the time and memory.
_CHILD = """\
import sys, types
package = types.ModuleType({package!r})
package.__path__ = [{directory!r}]
sys.modules[{package!r}] = package
sys.path[:] = {path!r}
from {package}.{module} import main
main({idle!r})
"""


class WorkerFailed(Exception):
    """The value could not be checked; the text is the reason."""


class WorkerPool:
    """The worker processes of one session, which exit after ``idle`` seconds without work."""

    def __init__(self, *, idle: float = _IDLE_SECONDS) -> None:
        self._idle_seconds = idle
        self._idle: list[_Worker] = []
        self._working: set[_Worker] = set()
        self._slots: anyio.Semaphore | None = None  # made inside the event loop
        self._closed = False
        self._busy = 0
        self._all_done: anyio.Event | None = None

    async def ask(self, id: int, schema: Any, value: Any, has_value: bool, budget: float) -> Any:
        """Return the response of ``engine.main``. Raises ``WorkerFailed``."""
        if self._slots is None:
            self._slots = anyio.Semaphore(_MAX_WORKERS)
        self._busy += 1
        try:
            with anyio.move_on_after(_QUEUE_BUDGETS * budget) as queueing:
                await self._slots.acquire()
            if queueing.cancelled_caught:
                raise WorkerFailed("too many values are waiting to be checked")
            try:
                return await self._ask(id, schema, value, has_value, budget)
            finally:
                self._slots.release()
        finally:
            self._busy -= 1
            if not self._busy and self._all_done is not None:
                self._all_done.set()
                self._all_done = None

    async def _ask(self, id: int, schema: Any, value: Any, has_value: bool, budget: float) -> Any:
        for _ in range(2):
            used = bool(self._idle)
            worker = self._idle.pop() if used else _Worker(self._idle_seconds)
            settled = False
            self._working.add(worker)
            try:
                await worker.start()
                response = await worker.ask(id, schema, value, has_value, budget)
                settled = True
            except _Exited:
                # An idle worker may have exited just now, which proves nothing about this value.
                if used:
                    continue
                raise WorkerFailed("the worker process exited during the check") from None
            finally:
                self._working.discard(worker)
                if settled and not self._closed:
                    self._idle.append(worker)
                else:
                    await worker.end(kill=not settled)
            return response
        raise WorkerFailed("the worker process exited during the check")

    async def aclose(self) -> None:
        """Wait for checks under way, then end all workers. From any task, any number of times."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_CLOSE_SECONDS):
                while self._busy:
                    self._all_done = self._all_done or anyio.Event()
                    await self._all_done.wait()
            for worker in self._working:
                worker.kill()
            while self._idle:
                await self._idle.pop().end(kill=True)


class _Exited(Exception):
    """The worker process has ended."""


class _Worker:
    def __init__(self, idle: float) -> None:
        self._idle_seconds = idle
        self._process: Process | None = None
        self._known: set[int] = set()
        self._answers: list[bytes] = []
        self._partial = b""
        self._ended = False
        self._changed = anyio.Event()

    async def start(self) -> None:
        if self._process is not None:
            return
        if not sys.executable or getattr(sys, "frozen", False):
            raise WorkerFailed(
                "the check needs a worker process, and no Python interpreter was found"
            )
        from ..processes.process import StderrTail  # only where a process is started

        env = {name: os.environ[name] for name in _PASSED_ENV if name in os.environ}
        process = new_process(current(), StderrTail(4096, None), self._take, self._end)
        try:
            code = _code(self._idle_seconds)
            argv = [sys.executable, "-I", "-W", "ignore", "-c", code]
            process.start(argv, env, None, memory=engine.MEMORY_BYTES)
        except ConnectError as error:
            raise WorkerFailed(f"cannot start a worker process for the check: {error}") from None
        self._process = process
        with anyio.move_on_after(_START_SECONDS):
            await self._line()
            return
        raise WorkerFailed(
            f"the worker process for the check did not start within {_START_SECONDS:g} s"
        )

    async def ask(self, id: int, schema: Any, value: Any, has_value: bool, budget: float) -> Any:
        question = {
            "id": id,
            "has_value": has_value,
            "forget": len(self._known) >= _MAX_SCHEMAS,
            # The kernel ends the child then, in case this process has ended or is stopped.
            "seconds": budget * 3 + 5,
        }
        if question["forget"]:
            self._known.clear()
        if id not in self._known:
            question["schema"] = schema
        with anyio.move_on_after(budget) as handing_over:
            await self._send(_frames(question, value))
        if not handing_over.cancelled_caught:
            with anyio.move_on_after(budget):
                response = json.loads(await self._line())
                if "gave_up" in response:
                    self._known.clear()
                    raise WorkerFailed(response["gave_up"])
                if "unusable" not in response:
                    self._known.add(id)
                return response
        raise WorkerFailed(f"the check did not end within {budget:g} s (Timeouts.validation)")

    async def _send(self, frames: Iterator[bytes]) -> None:
        assert self._process is not None
        for data in _batched(frames):
            try:
                pending = self._process.write(data)
                if pending is not None:
                    await pending.over.wait()
            except OSError:
                raise _Exited from None
            await anyio.lowlevel.checkpoint()

    async def _line(self) -> bytes:
        while not self._answers:
            if self._ended:
                raise _Exited
            self._changed = anyio.Event()
            await self._changed.wait()
        return self._answers.pop(0)

    def _take(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._answers += lines
        if len(self._partial) > _MAX_RESPONSE_BYTES:
            self._ended = True
        self._changed.set()

    def _end(self) -> None:
        self._ended = True
        self._changed.set()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    async def end(self, kill: bool) -> None:
        process, self._process = self._process, None
        if process is not None:
            if kill:
                process.kill()
            await process.aclose(_END_SECONDS)


def _code(idle: float = _IDLE_SECONDS) -> str:
    return _CHILD.format(
        idle=idle,
        package="mcp_client_worker",
        module=engine.__name__.rpartition(".")[2],
        directory=os.path.dirname(os.path.abspath(engine.__file__)),
        path=[entry for entry in sys.path if os.path.isabs(entry)],
    )


# ---------------------------------------------------------------------- packing


def _frames(question: dict[str, Any], value: Any) -> Iterator[bytes]:
    yield _frame(question)
    if question["has_value"]:
        for piece in _pieces(value):
            yield _frame(piece)


def _frame(item: Any) -> bytes:
    data = marshal.dumps(item)
    return len(data).to_bytes(4, "big") + data


def _batched(frames: Iterator[bytes]) -> Iterator[bytes]:
    batch: list[bytes] = []
    size = 0
    for frame in frames:
        batch.append(frame)
        size += len(frame)
        if size >= _BATCH_BYTES:
            yield b"".join(batch)
            batch, size = [], 0
    if batch:
        yield b"".join(batch)


def _pieces(value: Any) -> Iterator[Any]:
    """Yield the pieces of a value, which ``engine._value`` assembles again.

    They are ("whole", a value), or ("open", its kind), ("part", some of its items or members) and
    pieces of others, ("close",).
    """
    if has_at_most(value, _PIECE_VALUES):
        yield "whole", value
        return
    yield "open", "object" if type(value) is dict else "array"
    items = map(list, value.items()) if type(value) is dict else iter(value)
    while some := list(itertools.islice(items, _SLICE_ITEMS)):
        if has_at_most(some, _PIECE_VALUES):
            yield "part", some
        else:
            for item in some:
                yield from _pieces(item)
    yield ("close",)
