"""A process whose pipes threads read and write: the way where an event loop cannot watch a pipe.

Four threads: one for each of the three pipes and one that waits for the exit. They are daemons, end
with the process, and do not keep its ``Process`` alive. Each closes its own pipe when it ends,
because closing a descriptor does not end a read or write of another thread. So a descendant that
cannot be ended (see ``process``) keeps the two readers until it exits.

A reader is at most ``_MAX_PIECES_AHEAD`` ahead of the event loop, so what a server floods us with
stays in the pipe.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import IO, Any, TypeAlias

import anyio

from ..runtime.daemon_thread import start_thread
from .process import CHUNK_BYTES, Pending, Process, bytes_unread

__all__ = ["ThreadProcess"]

RunSoon: TypeAlias = Callable[[Callable[[], None]], None]

_MAX_PIECES_AHEAD = 4


class ThreadProcess(Process):
    """A process whose pipes threads read and write."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._read_to_end = anyio.Event()
        self._open_pipes = 2

    def _started(self) -> None:
        popen, run_soon = self._popen, self._backend.run_soon
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        self._writer = _Writer(popen.stdin, run_soon, weakref.WeakMethod(self._broken))
        output, error = weakref.WeakMethod(self._read_output), weakref.WeakMethod(self._read_stderr)
        for name, target in (
            ("stdin", self._writer.run),
            ("stdout", _Reader(popen.stdout, run_soon, output).run),
            ("stderr", _Reader(popen.stderr, run_soon, error).run),
        ):
            start_thread(target, f"mcp_client {name} of {self.pid}")
        self._watch_exit_in_thread()

    # ----------------------------------------------------------------- input

    def _read_output(self, data: bytes) -> None:
        if not data:
            self._pipe_ended()
            self._end()
        elif self._closing is None:
            self._output(data)

    def _read_stderr(self, data: bytes) -> None:
        if not data:
            self._pipe_ended()
        else:
            self._stderr.feed(data)

    def _pipe_ended(self) -> None:
        self._open_pipes -= 1
        if not self._open_pipes:
            self._read_to_end.set()

    async def drain(self, seconds: float) -> None:
        """Read the rest of the output, for so many seconds."""
        with anyio.move_on_after(seconds):
            await self._read_to_end.wait()

    # ----------------------------------------------------------------- writing

    @property
    def backlog(self) -> int:
        """The bytes that wait to be written."""
        return self._writer.backlog

    def write(self, data: bytes, crowded: bool = False) -> Pending | None:
        """Write a line, and return it if it could not leave at once."""
        if self._closing is not None or self._writer.broken:
            raise BrokenPipeError
        return self._writer.put(data)

    def withdraw(self, pending: Pending) -> bool:
        """Remove a line if nothing of it has been written, and return whether that was so."""
        return self._writer.withdraw(pending)

    def unread(self) -> int | None:
        """Return the number of sent bytes that the server has not read yet."""
        if self._closing is not None:
            return None
        return self._writer.unread()

    def _broken(self) -> None:
        self._end()  # a server that cannot be written to is of no use, even if it runs

    # ------------------------------------------------------------------- ending

    def _close_stdin(self) -> None:
        self._writer.close()

    def _release(self) -> None:
        return  # each thread closes its own pipe


class _Reader:
    """Reads one pipe to its end.

    ``take`` is a weak reference to what gets each piece in the event loop, and b"" at the end.
    """

    def __init__(
        self, pipe: IO[bytes], run_soon: RunSoon, take: Callable[[], Callable[[bytes], None] | None]
    ) -> None:
        self._pipe = pipe
        self._run_soon = run_soon
        self._take = take
        self._room = threading.BoundedSemaphore(_MAX_PIECES_AHEAD)

    def run(self) -> None:
        with self._pipe:
            fd = self._pipe.fileno()
            while True:
                if not self._wait_for_room():
                    return
                try:
                    data = os.read(fd, CHUNK_BYTES)
                except OSError:
                    data = b""
                self._hand_over(data)
                if not data:
                    return

    def _wait_for_room(self) -> bool:
        # If the event loop has ended, what it was given is never taken: look whether it is wanted.
        while not self._room.acquire(timeout=1.0):
            if self._take() is None:
                return False
        return True

    def _hand_over(self, data: bytes) -> None:
        def take() -> None:
            self._room.release()
            taker = self._take()
            if taker is not None:
                taker(data)

        self._run_soon(take)


class _Writer:
    """Writes lines to one pipe in their order.

    ``broken_pipe`` is a weak reference to what is called when that fails.
    """

    def __init__(
        self,
        pipe: IO[bytes],
        run_soon: RunSoon,
        broken_pipe: Callable[[], Callable[[], None] | None],
    ) -> None:
        self._pipe = pipe
        self._run_soon = run_soon
        self._broken_pipe = broken_pipe
        self._changed = threading.Condition()
        self._lines: deque[Pending] = deque()
        self._closed = False
        self.broken = False
        self.backlog = 0

    def put(self, data: bytes) -> Pending:
        pending = Pending(memoryview(data), False)
        with self._changed:
            self._lines.append(pending)
            self.backlog += len(data)
            self._changed.notify()
        return pending

    def withdraw(self, pending: Pending) -> bool:
        with self._changed:
            if pending in self._lines:
                self._lines.remove(pending)
                self.backlog -= len(pending.rest)
            return not pending.begun  # after the pipe broke, it is not in the list

    def unread(self) -> int | None:
        with self._changed:  # the pipe is closed under it, too
            count = None if self._closed or self.broken else bytes_unread(self._pipe.fileno())
            return None if count is None else count + self.backlog

    def close(self) -> None:
        """Write nothing more, and close the pipe as soon as no write is under way."""
        with self._changed:
            self._closed = True
            dropped = self._drop()
            self._changed.notify()
        _settle(dropped)

    def run(self) -> None:
        while batch := self._next():
            try:
                self._write(batch)
            except OSError:
                with self._changed:
                    self.broken = True
                    batch += self._drop()
                self._run_soon(self._report_broken)
            self._run_soon(lambda batch=batch: _settle(batch))  # type: ignore[misc]
        with self._changed:
            self.broken = True
            try:
                self._pipe.close()
            except OSError:
                pass

    def _next(self) -> list[Pending]:
        """Return the bytes to write next; empty if the pipe is to be closed."""
        with self._changed:
            while not (self._lines or self._closed or self.broken):
                self._changed.wait()
            batch: list[Pending] = []
            size = 0
            while self._lines and size < CHUNK_BYTES and not (self._closed or self.broken):
                pending = self._lines.popleft()
                pending.begun = True
                size += len(pending.rest)
                batch.append(pending)
            return batch

    def _write(self, batch: list[Pending]) -> None:
        rest = memoryview(b"".join([pending.rest for pending in batch]))
        begun = False
        while rest:
            try:
                written = os.write(self._pipe.fileno(), rest[:CHUNK_BYTES])
            except OSError:
                for pending in batch:
                    pending.begun = begun
                raise
            begun = True
            rest = rest[written:]
            with self._changed:
                self.backlog -= written
        for pending in batch:
            pending.rest = rest

    def _drop(self) -> list[Pending]:
        dropped = list(self._lines)
        self._lines.clear()
        self.backlog = 0
        return dropped

    def _report_broken(self) -> None:
        notify = self._broken_pipe()
        if notify is not None:
            notify()


def _settle(batch: list[Pending]) -> None:
    for pending in batch:
        pending.over.set()
