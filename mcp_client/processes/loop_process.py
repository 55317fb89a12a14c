"""A process whose pipes the event loop watches: the way on POSIX systems.

All three pipes are read and written without blocking and without a task or a thread. So is the exit
where the system has a descriptor for it (Linux); elsewhere (macOS) a thread waits for it. The exit
is observed without reaping: as long as the zombie exists, its process id cannot be reused, so its
group can be signalled safely. (macOS before Python 3.13 has no ``waitid``, and reaps it.)
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import IO, Any

from ..runtime.event_loop import Handle
from .process import CHUNK_BYTES, Pending, Process, bytes_unread, exit_code_of

__all__ = ["LoopProcess"]

_MAX_CHUNKS_AT_ONCE = 16
_MAX_LINES_AT_ONCE = 256  # systems take 1,024, and a pipe has room for so many


class LoopProcess(Process):
    """A process whose pipes the event loop watches."""

    backlog: int = 0
    _arrived: Callable[[int], list[tuple[int, int]]]
    """Lists the output that can be read, after a time in milliseconds."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._watches: dict[int, Handle] = {}
        self._unwritten: deque[Pending] = deque()
        self._gathered: list[bytes] = []
        self._flusher: Handle | None = None
        self._pidfd: int | None = None
        self._unclosed: weakref.finalize[Any, Any] | None = None

    def _started(self) -> None:
        popen = self._popen
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        self._stdin, self._stdout, self._stderr_fd = (
            popen.stdin.fileno(),
            popen.stdout.fileno(),
            popen.stderr.fileno(),
        )
        for fd in (self._stdin, self._stdout, self._stderr_fd):
            _do_not_block(fd)
        if sys.platform != "win32":
            output = select.poll()
            output.register(self._stdout, select.POLLIN)
            self._arrived = output.poll
        self._watch(self._stdout, self._read_output)
        self._watch(self._stderr_fd, self._read_stderr)
        self._watch_exit()
        self._close_if_dropped()

    # ----------------------------------------------------------------- input

    def _watch(self, fd: int, callback: Callable[[], object]) -> None:
        self._watches[fd] = self._backend.on_readable(fd, callback)

    def _unwatch(self, fd: int) -> None:
        watch = self._watches.pop(fd, None)
        if watch is not None:
            watch.cancel()

    def _read_output(self) -> bool:
        """Pass on what has arrived, and return whether there may be more."""
        data = _read(self._stdout)
        if data:
            self._output(data)
        elif data is not None:
            self._unwatch(self._stdout)
            self._end()
        return bool(data)

    def read_arrived(self) -> bool:
        """Pass on the output that has arrived. Always possible here."""
        for _ in range(_MAX_CHUNKS_AT_ONCE):
            # A read of nothing costs three times as much as ``poll``.
            is_open = self._stdout in self._watches
            if not (is_open and self._arrived(0) and self._read_output()):
                break
        return True

    def _read_stderr(self) -> None:
        data = _read(self._stderr_fd)
        if data:
            self._stderr.feed(data)
        elif data is not None:
            self._unwatch(self._stderr_fd)

    async def drain(self, seconds: float) -> None:
        """Read the rest of the output, for so many seconds."""
        for fd, take in ((self._stdout, self._output), (self._stderr_fd, self._stderr.feed)):
            for _ in range(1024):  # without waiting; bounded, as it may never end
                data = _read(fd) if fd in self._watches else None
                if not data:
                    break
                take(data)

    # ----------------------------------------------------------------- writing

    def write(self, data: bytes, crowded: bool = False) -> Pending | None:
        """Write a line, and return it if it could not leave at once."""
        if self._closing is not None:
            raise BrokenPipeError
        if self._unwritten:
            return self._queue(data, 0)
        if self._gathered or crowded:
            self._gathered.append(data)
            if len(self._gathered) == 1:
                self._backend.call_soon(self._write_gathered)
            return None
        return self._write_now(data)

    def withdraw(self, pending: Pending) -> bool:
        """Remove a line if nothing of it has been written, and return whether that was so."""
        if pending.begun or pending not in self._unwritten:
            return False
        self._unwritten.remove(pending)
        self.backlog -= len(pending.rest)
        if not self._unwritten:
            self._stop_flusher()
        return True

    def _write_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        if self._closing is None and gathered:
            with contextlib.suppress(OSError):  # ``_end`` was called
                self._write_now(b"".join(gathered))

    def _write_now(self, data: bytes) -> Pending | None:
        try:
            written = os.write(self._stdin, data)
        except BlockingIOError:
            written = 0
        except OSError:
            self._end()  # a server that cannot be written to is of no use, even if it runs
            raise
        if written == len(data):
            return None
        self._flusher = self._backend.on_writable(self._stdin, self._flush)
        return self._queue(data, written)

    def _queue(self, data: bytes, written: int) -> Pending:
        pending = Pending(memoryview(data)[written:], written > 0)
        self._unwritten.append(pending)
        self.backlog += len(pending.rest)
        return pending

    def _flush(self) -> None:
        if sys.platform == "win32":  # where processes have threads
            return
        # Many lines at once, and not one by one: the bench's row "1,000 in flight".
        unwritten = self._unwritten
        while unwritten:
            lines = [pending.rest for pending in islice(unwritten, _MAX_LINES_AT_ONCE)]
            try:
                written = os.writev(self._stdin, lines)
            except BlockingIOError:
                return
            except OSError:
                self._drop_unwritten()
                self._end()
                return
            self.backlog -= written
            for line in lines:
                if not written:
                    return
                pending = unwritten[0]
                pending.begun = True
                pending.rest = line[written:]
                if pending.rest:
                    return
                written -= len(line)
                unwritten.popleft()
                pending.over.set()
        self._stop_flusher()

    def _drop_unwritten(self) -> None:
        self._stop_flusher()
        self.backlog = 0
        while self._unwritten:
            self._unwritten.popleft().over.set()

    def _stop_flusher(self) -> None:
        flusher, self._flusher = self._flusher, None
        if flusher is not None:
            flusher.cancel()

    def unread(self) -> int | None:
        """Return the number of sent bytes that the server has not read yet."""
        if self._closing is not None:
            return None
        count = bytes_unread(self._stdin)
        return None if count is None else count + self.backlog

    # ------------------------------------------------------------------- ending

    def _watch_exit(self) -> None:
        if sys.platform == "linux":
            with contextlib.suppress(OSError, AttributeError):
                self._pidfd = os.pidfd_open(self.pid)
                self._watch(self._pidfd, self._look_for_exit)
                return
        self._watch_exit_in_thread()

    def _look_for_exit(self) -> None:
        ended, code = exit_code_of(self.pid)
        if ended:
            self._unwatch_exit()
            self._notice_exit(code)

    def _unwatch_exit(self) -> None:
        pidfd, self._pidfd = self._pidfd, None
        if pidfd is not None:
            self._unwatch(pidfd)
            os.close(pidfd)
            self._close_if_dropped()

    def _close_if_dropped(self) -> None:
        """Close the descriptors if this object is unclosed when it is collected.

        That happens after the end of its event loop, or at the end of the program. Then a host in
        the loop of a daemon thread does not see the server end, and starts no other one.
        """
        popen = self._popen
        if self._unclosed is not None:
            self._unclosed.detach()
        pipes = [pipe for pipe in (popen.stdout, popen.stderr, popen.stdin) if pipe is not None]
        args = self.name, pipes, self._pidfd, os.getpid()
        self._unclosed = weakref.finalize(self, _close_unclosed, *args)

    def _close_stdin(self) -> None:
        self._drop_unwritten()
        if self._popen.stdin is not None:
            self._popen.stdin.close()

    def _release(self) -> None:
        self._unwatch_exit()
        for fd in list(self._watches):
            self._unwatch(fd)
        for pipe in (self._popen.stdout, self._popen.stderr):
            if pipe is not None:
                pipe.close()
        if self._unclosed is not None:
            self._unclosed.detach()


def _close_unclosed(name: str, pipes: list[IO[bytes]], pidfd: int | None, owner: int) -> None:
    # Standard input last: the server ends then, and a loop in another thread must not see that.
    if pidfd is not None:
        with contextlib.suppress(OSError):  # such a loop may have closed it
            os.close(pidfd)
    for pipe in pipes:
        pipe.close()
    if os.getpid() == owner:  # else a forked process, whose parent has the session
        warnings.warn(
            f"session {name!r} was still open when its event loop ended; its server is ended now. "
            "Use 'async with', or await aclose()",
            ResourceWarning,
            stacklevel=2,
        )


def _do_not_block(fd: int) -> None:
    if sys.platform != "win32":
        os.set_blocking(fd, False)


def _read(fd: int) -> bytes | None:
    """Return what can be read now: empty at the end of the file, None if there is nothing yet."""
    try:
        return os.read(fd, CHUNK_BYTES)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""
