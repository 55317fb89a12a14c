"""The killable judge: a worker process for what may take longer than the event loop can wait.

Nothing else ends a pattern that has run away: a thread cannot be killed, and ``re`` does not let
go of the interpreter. So the worker is a process, started when it is first needed, used again for
the next value, killed when a judgement's budget ends. It is the session's: at most two at a time,
none left once the session is closed. A judgement under way then is brought to its end, for a few
seconds. A worker that has not been asked for half a minute goes by itself.

The budget counts twice at most: once for handing the value over, once for judging it. Starting a
worker has a clock of its own. A large value is packed in pieces, between which the loop runs.
"""

from __future__ import annotations

import itertools
import json
import marshal
import os
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel

from ..errors import ConnectError
from ..runtime.event_loop import current
from ..runtime.subprocess import Process, Ring
from . import engine
from .value_size import has_at_most

__all__ = ["WorkerFailed", "WorkerPool"]

_MOST = 2
_START = 15.0
_GRACE = 1.0
_PATIENCE = 5.0
_QUEUE = 20
_KNOWN = 64
_ANSWER_BYTES = 64 * 1024
_PIECE_VALUES = 4_096
_SLICE = 256
_BATCH_BYTES = 64 * 1024
_KEPT_ENV = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "SYSTEMROOT")

# The child loads four modules of this package, not all of it: a fraction of the time and memory.
_CHILD = """\
import sys, types
package = types.ModuleType({package!r})
package.__path__ = [{folder!r}]
sys.modules[{package!r}] = package
sys.path[:] = {path!r}
from {package}.{module} import main
main()
"""


class WorkerFailed(Exception):
    """No verdict; the text says why."""


class WorkerPool:
    """The worker processes of one session."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._at_work: set[_Worker] = set()
        self._turn: anyio.Semaphore | None = None  # made in the loop it is for
        self._closed = False
        self._busy = 0
        self._quiet: anyio.Event | None = None

    async def ask(self, id: int, schema: Any, value: Any, has_value: bool, budget: float) -> Any:
        """What ``engine.main`` answers. Raises ``WorkerFailed``."""
        if self._turn is None:
            self._turn = anyio.Semaphore(_MOST)
        self._busy += 1
        try:
            with anyio.move_on_after(_QUEUE * budget) as queueing:
                await self._turn.acquire()
            if queueing.cancelled_caught:
                raise WorkerFailed("too many values are waiting to be checked")
            try:
                return await self._ask(id, schema, value, has_value, budget)
            finally:
                self._turn.release()
        finally:
            self._busy -= 1
            if not self._busy and self._quiet is not None:
                self._quiet.set()
                self._quiet = None

    async def _ask(self, id: int, schema: Any, value: Any, has_value: bool, budget: float) -> Any:
        for _ in range(2):
            used = bool(self._idle)
            worker = self._idle.pop() if used else _Worker()
            settled = False
            self._at_work.add(worker)
            try:
                await worker.start()
                answer = await worker.ask(id, schema, value, has_value, budget)
                settled = True
            except _Gone:
                # One that has just gone for want of work says nothing about the question.
                if used:
                    continue
                raise WorkerFailed("the worker process that checked it died") from None
            finally:
                self._at_work.discard(worker)
                if settled and not self._closed:
                    self._idle.append(worker)
                else:
                    await worker.end(kill=not settled)
            return answer
        raise WorkerFailed("the worker process that checked it died")

    async def aclose(self) -> None:
        """Let what is under way settle, then leave no process. Any task, any number of times."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_PATIENCE):
                while self._busy:
                    self._quiet = self._quiet or anyio.Event()
                    await self._quiet.wait()
            for worker in self._at_work:
                worker.kill()
            while self._idle:
                await self._idle.pop().end(kill=True)


class _Gone(Exception):
    pass


class _Worker:
    def __init__(self) -> None:
        self._process: Process | None = None
        self._known: set[int] = set()
        self._answers: list[bytes] = []
        self._partial = b""
        self._over = False
        self._news = anyio.Event()

    async def start(self) -> None:
        if self._process is not None:
            return
        if not sys.executable or getattr(sys, "frozen", False):
            raise WorkerFailed("it takes a worker process to check it, and there is no interpreter")
        env = {name: os.environ[name] for name in _KEPT_ENV if name in os.environ}
        process = Process(current(), Ring(4096, None), self._take, self._end)
        try:
            process.start([sys.executable, "-I", "-W", "ignore", "-c", _code()], env, None)
        except ConnectError as error:
            raise WorkerFailed(f"it takes a worker process to check it: {error}") from None
        self._process = process
        with anyio.move_on_after(_START):
            await self._line()
            return
        raise WorkerFailed(f"the worker process that checks it did not start within {_START:g} s")

    async def ask(self, id: int, schema: Any, value: Any, has_value: bool, budget: float) -> Any:
        question = {
            "id": id,
            "has_value": has_value,
            "forget": len(self._known) >= _KNOWN,
            # The kernel ends the child should this process be gone or stopped by then.
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
                answer = json.loads(await self._line())
                if "gave_up" in answer:
                    self._known.clear()
                    raise WorkerFailed(answer["gave_up"])
                if "unusable" not in answer:
                    self._known.add(id)
                return answer
        raise WorkerFailed(f"there was no verdict within {budget:g} s (Timeouts.validation)")

    async def _send(self, frames: Iterator[bytes]) -> None:
        assert self._process is not None
        for data in _batched(frames):
            try:
                pending = self._process.write(data)
                if pending is not None:
                    await pending.over.wait()
            except OSError:
                raise _Gone from None
            await anyio.lowlevel.checkpoint()

    async def _line(self) -> bytes:
        while not self._answers:
            if self._over:
                raise _Gone
            self._news = anyio.Event()
            await self._news.wait()
        return self._answers.pop(0)

    def _take(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._answers += lines
        if len(self._partial) > _ANSWER_BYTES:
            self._over = True
        self._news.set()

    def _end(self) -> None:
        self._over = True
        self._news.set()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    async def end(self, kill: bool) -> None:
        process, self._process = self._process, None
        if process is not None:
            if kill:
                process.kill()
            await process.aclose(_GRACE)


def _code() -> str:
    return _CHILD.format(
        package="mcp_client_worker",
        module=engine.__name__.rpartition(".")[2],
        folder=os.path.dirname(os.path.abspath(engine.__file__)),
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
    """What ``engine._value`` puts together again."""
    if has_at_most(value, _PIECE_VALUES):
        yield "whole", value
    elif type(value) is dict:
        yield "open", {}
        items = iter(value.items())
        while some := dict(itertools.islice(items, _SLICE)):
            if has_at_most(some, _PIECE_VALUES):
                yield "part", some
                continue
            for key, item in some.items():
                yield "key", key
                yield from _pieces(item)
        yield ("close",)
    else:
        yield "open", []
        for start in range(0, len(value), _SLICE):
            some = value[start : start + _SLICE]
            if has_at_most(some, _PIECE_VALUES):
                yield "part", some
                continue
            for item in some:
                yield from _pieces(item)
        yield ("close",)
