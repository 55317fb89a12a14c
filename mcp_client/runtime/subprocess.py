"""A server's process: started without a shell, read until its end, and never left behind.

The process leads a session and group of its own, so that one signal reaches its children too,
and so that Ctrl-C in the host's terminal does not. Ending it is the specification's sequence
(2026-07-28 ``basic/transports/stdio``, shutdown): close its input, wait, SIGTERM, wait, SIGKILL.
The exit is observed without reaping: as long as the zombie exists, its process id cannot be reused,
so the group can be signalled safely even after the leader has exited. A descendant that leaves the
group on purpose (``setsid``) cannot be reached.

All three pipes are read and written without blocking and without a task, by callbacks of the event
loop. Standard error is always drained, into a ring that keeps its end: a full pipe would stop the
server.

POSIX only. On other systems ``start`` raises ``ConnectError``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import anyio

from ..errors import ConnectError
from .event_loop import Backend, Handle, LoopEvent

__all__ = ["Pending", "Process", "Ring"]

_CHUNK = 64 * 1024
_POLL = 0.05
_STRAGGLERS = 0.5


class Ring:
    """The last ``size`` bytes of standard error; ``listener`` gets each line of it."""

    def __init__(self, size: int, listener: Callable[[str], None] | None) -> None:
        self._size = size
        self._kept = bytearray()
        self._cut = False
        self._line = bytearray()
        self._listener = listener

    def feed(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > self._size:
            del self._kept[: -self._size]
            self._cut = True
        if self._listener is None:
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._pass_on(bytes(self._line) + line)
            self._line.clear()
        self._line += rest
        if len(self._line) > self._size:
            self._pass_on(bytes(self._line))
            self._line.clear()

    def _pass_on(self, line: bytes) -> None:
        if self._listener is not None:
            with contextlib.suppress(Exception):  # a fault of the host's callback ends nothing
                self._listener(line.decode(errors="replace").rstrip("\r"))

    def tail(self) -> str:
        """The kept bytes as text, in whole lines where there are any: a secret cut in two would
        not be recognized by those who mask secrets."""
        start = self._kept.find(b"\n") + 1 if self._cut else 0
        return self._kept[start:].decode(errors="replace").strip()


class Pending:
    """A line that has not been written to the pipe completely."""

    __slots__ = ("begun", "over", "rest")

    def __init__(self, rest: memoryview, begun: bool) -> None:
        self.rest = rest
        self.begun = begun
        """Whether some of it has been written."""
        self.over = LoopEvent()
        """Set once all of it is written, or will never be."""


class Process:
    """One process. ``output`` is called with its standard output, and ``over`` once, when its
    output or the process itself has ended."""

    def __init__(
        self,
        backend: Backend,
        stderr: Ring,
        output: Callable[[bytes], None],
        over: Callable[[], None],
    ) -> None:
        self._backend = backend
        self._stderr = stderr
        self._output = output
        self._over: Callable[[], None] | None = over
        self._watches: dict[int, Handle] = {}
        self._unwritten: deque[Pending] = deque()
        self.backlog = 0
        self._gathered: list[bytes] = []
        self._flusher: Handle | None = None
        self._poller: Handle | None = None
        self._pidfd: int | None = None
        self._exited = anyio.Event()
        self._closing: anyio.Event | None = None
        self.exit_code: int | None = None

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> None:
        if not hasattr(os, "waitid"):
            raise ConnectError("servers over stdio need a POSIX system")
        try:
            self._popen = subprocess.Popen(  # noqa: S603 - no shell; the host chose the command
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env),
                cwd=cwd,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise ConnectError(f"cannot start {argv[0]!r}: {reason}") from None
        popen = self._popen
        self.pid = popen.pid
        # Should nothing else end it, the group ends with this object or the interpreter.
        self._last_resort = weakref.finalize(self, _kill_group, popen)
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        self._stdin, self._stdout, self._stderr_fd = (
            popen.stdin.fileno(),
            popen.stdout.fileno(),
            popen.stderr.fileno(),
        )
        for fd in (self._stdin, self._stdout, self._stderr_fd):
            os.set_blocking(fd, False)
        self._watch(self._stdout, self._read_output)
        self._watch(self._stderr_fd, self._read_stderr)
        self._watch_exit()

    # ----------------------------------------------------------------- reading

    def _watch(self, fd: int, callback: Callable[[], None]) -> None:
        self._watches[fd] = self._backend.on_readable(fd, callback)

    def _unwatch(self, fd: int) -> None:
        watch = self._watches.pop(fd, None)
        if watch is not None:
            watch.cancel()

    def _read_output(self) -> None:
        data = _read(self._stdout)
        if data:
            self._output(data)
        elif data is not None:
            self._unwatch(self._stdout)
            self._end()

    def _read_stderr(self) -> None:
        data = _read(self._stderr_fd)
        if data:
            self._stderr.feed(data)
        elif data is not None:
            self._unwatch(self._stderr_fd)

    def drain(self) -> None:
        """Read what is already in the pipes, without waiting; bounded, as it may never end."""
        for fd, take in ((self._stdout, self._output), (self._stderr_fd, self._stderr.feed)):
            for _ in range(1024):
                data = _read(fd) if fd in self._watches else None
                if not data:
                    break
                take(data)

    def _end(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            over()

    # ----------------------------------------------------------------- writing

    def write(self, data: bytes, crowded: bool = False) -> Pending | None:
        """Write without waiting. Returns what the pipe did not take at once, to wait for.

        The rest is written in order as the pipe takes it, even if the writer is cancelled, so that
        lines are never interleaved. ``crowded``: others are likely to write in this iteration of
        the loop too, and all of it is gathered into one write. Raises ``OSError`` where the pipe
        is broken.
        """
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
        """Remove a line of which nothing has been written yet, and return whether that was so."""
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
        unwritten = self._unwritten
        while unwritten:
            pending = unwritten[0]
            try:
                written = os.write(self._stdin, pending.rest)
            except BlockingIOError:
                return
            except OSError:
                self._drop_unwritten()
                self._end()
                return
            pending.begun = True
            pending.rest = pending.rest[written:]
            self.backlog -= written
            if pending.rest:
                return
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
        """Bytes in the input pipe that the process has not read; None where that is unknown."""
        if self._closing is not None:
            return None
        try:
            import fcntl
            import struct
            import termios

            answer = fcntl.ioctl(self._stdin, termios.FIONREAD, b"\0" * 4)
            (count,) = struct.unpack("i", answer)
        except (ImportError, OSError):
            return None
        return int(count) + self.backlog

    # ------------------------------------------------------------------- ending

    def _watch_exit(self) -> None:
        if sys.platform == "linux":
            try:
                self._pidfd = os.pidfd_open(self.pid)
            except OSError:
                pass
            else:
                self._watch(self._pidfd, self._notice_exit)
                return
        self._poller = self._backend.spawn(self._poll_exit)

    async def _poll_exit(self) -> None:
        while not self._exited.is_set():
            self._notice_exit()
            await anyio.sleep(_POLL)

    def _notice_exit(self) -> None:
        try:
            state = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            state = None  # something else in this program reaped it: its exit code is lost
        else:
            if state is None:
                return
        if state is not None:
            exited = state.si_code == os.CLD_EXITED
            self.exit_code = state.si_status if exited else -state.si_status
        self._unwatch_exit()
        self._exited.set()
        self._end()

    def _unwatch_exit(self) -> None:
        pidfd, self._pidfd = self._pidfd, None
        if pidfd is not None:
            self._unwatch(pidfd)
            os.close(pidfd)

    async def exited(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the process to end, and return whether it has."""
        with anyio.move_on_after(seconds):
            await self._exited.wait()
        return self._exited.is_set()

    def kill(self) -> None:
        """Send SIGKILL to the process and its group. ``aclose`` has to be called all the same."""
        if not self._exited.is_set():
            self._signal(signal.SIGKILL)

    async def aclose(self, grace: float) -> None:
        """End the process and its group, each step within ``grace`` seconds. From any task.

        A task of its own does the work: the caller may be cancelled, however often asyncio's
        ``Task.cancel`` is called, and the process still ends.
        """
        if self._closing is None:
            self._closing = anyio.Event()
            self._over = None  # only an end that was not asked for is reported
            self._close_stdin()
            self._backend.spawn(lambda: self._close(grace))
        with anyio.CancelScope(shield=True):
            await self._closing.wait()

    async def _close(self, grace: float) -> None:
        assert self._closing is not None
        try:
            with anyio.CancelScope(shield=True):
                if not await self.exited(grace):
                    self._signal(signal.SIGTERM)
                    if not await self.exited(grace):
                        self._signal(signal.SIGKILL)
                        await self.exited(grace)
                await self._end_stragglers(grace)
        except BaseException:
            # The event loop is being closed, and this task with it: waiting is not possible.
            self._signal(signal.SIGKILL)
            self._popen.wait()
            raise
        finally:
            self._release()
            self._closing.set()

    def _close_stdin(self) -> None:
        self._drop_unwritten()
        if self._popen.stdin is not None:
            self._popen.stdin.close()

    async def _end_stragglers(self, grace: float) -> None:
        if not self._exited.is_set():
            return
        self._signal(signal.SIGTERM)
        self._popen.poll()  # reaps the leader: from now on an empty group does not exist
        with anyio.move_on_after(min(grace, _STRAGGLERS)):
            while _group_lives(self.pid):  # noqa: ASYNC110 - no event tells when a group is empty
                await anyio.sleep(0.01)
            return
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _release(self) -> None:
        self._unwatch_exit()
        for fd in list(self._watches):
            self._unwatch(fd)
        if self._poller is not None:
            self._poller.cancel()
        self._last_resort.detach()
        for pipe in (self._popen.stdout, self._popen.stderr):
            if pipe is not None:
                pipe.close()
        self._popen.poll()


def _read(fd: int) -> bytes | None:
    """What can be read now: empty at the end of the file, None where there is nothing yet."""
    try:
        return os.read(fd, _CHUNK)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""


def _group_lives(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _kill_group(popen: subprocess.Popen[bytes]) -> None:
    if popen.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
