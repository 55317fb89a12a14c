"""A server's process and all that it started: started without a shell, and never left behind.

There are two ways to run one, with one interface (``Process``):

- ``loop_process``: the event loop watches the pipes. Linux and macOS.
- ``thread_process``: threads read and write them. For Windows, where no loop can watch a pipe.
  Elsewhere it is used if the environment variable ``MCP_CLIENT_STDIO`` is ``threads``, for an event
  loop without ``add_reader`` and for the tests.

What both have in common is here: the end of a process, and the stored part of its output.

Ending a process is the specification's sequence (2026-07-28 ``basic/transports/stdio``, shutdown):
close its input, wait, ask it and all it started to end, wait, kill them. ``ProcessTree`` defines
how a system does the last two. On POSIX it is a session and process group that the process leads.
So one signal reaches its children, too, and Ctrl-C in the host's terminal does not reach them. A
descendant that leaves the group on purpose (``setsid``) cannot be reached. On Windows it is a job:
see ``windows_job``. A process that is not closed ends with its ``Process`` object or with the
interpreter.

Standard error is always drained, into a ring that keeps both ends of it: a full pipe would stop the
server.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import anyio

from ..errors import ConnectError
from ..runtime.daemon_thread import NoThread, start_thread
from ..runtime.event_loop import Backend, LoopEvent

__all__ = [
    "CHUNK_BYTES",
    "Pending",
    "PosixGroup",
    "Process",
    "ProcessTree",
    "StderrTail",
    "bytes_unread",
    "exit_code_of",
    "new_tree",
]

notify_guard: Callable[[str, int], None] | None = None
"""A function that gets "+" and "-" with the number of each group that begins and ends: see
``orphan_guard``."""


class ProcessTree(Protocol):
    """A protocol: a process and all that it started."""

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None, memory: int | None
    ) -> subprocess.Popen[bytes]:
        """Start the process, with pipes for its three streams. Raises ``OSError``."""

    def wait(self, popen: subprocess.Popen[bytes]) -> int | None:
        """Block until the process has exited, and return its exit code; None if that is lost."""

    def ask_to_end(self) -> None:
        """Ask the processes to end."""

    def kill(self) -> None:
        """Kill the processes."""

    def is_empty(self) -> bool:
        """Whether all processes have ended."""

    def close(self) -> None:
        """Release what belongs to the system. The tree is not used afterwards."""


def new_tree() -> ProcessTree:
    """Return a process tree of this system."""
    if sys.platform == "win32":
        from .windows_job import WindowsJob

        return WindowsJob()
    return PosixGroup()


class PosixGroup:
    """A process group on POSIX systems."""

    _pid = 0

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None, memory: int | None
    ) -> subprocess.Popen[bytes]:
        """Start the process in a group of its own."""
        return self._popen(argv, env, cwd)

    def _popen(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        popen = subprocess.Popen(  # noqa: S603 - no shell; the host chose the command
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            bufsize=0,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        self._pid = popen.pid
        if notify_guard is not None:
            notify_guard("+", self._pid)
        return popen

    def wait(self, popen: subprocess.Popen[bytes]) -> int | None:
        """Block until the process has exited, and return its exit code; None if that is lost."""
        if hasattr(os, "waitid"):
            return exit_code_of(popen.pid, wait=True)[1]
        # It is reaped now, and its number may be used again once its group is empty: what signals
        # the group afterwards does so at once.
        return popen.wait()

    def ask_to_end(self) -> None:
        """Send SIGTERM to the group."""
        if sys.platform != "win32":
            import signal

            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the group."""
        if sys.platform != "win32":
            import signal

            self._signal(signal.SIGKILL)

    def is_empty(self) -> bool:
        """Whether all processes of the group have ended."""
        if sys.platform != "win32":
            try:
                os.killpg(self._pid, 0)
            except ProcessLookupError:
                return True
            except PermissionError:
                return False
        return False

    def close(self) -> None:
        """Release the group."""
        if notify_guard is not None and self._pid:
            notify_guard("-", self._pid)

    def _signal(self, number: int) -> None:
        if sys.platform != "win32" and self._pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, number)


def exit_code_of(pid: int, *, wait: bool = False) -> tuple[bool, int | None]:
    """Return whether the process has exited, and its code. It is not reaped here.

    The code is None if other code of this program has reaped it.
    """
    if sys.platform != "win32" and (sys.platform != "darwin" or sys.version_info >= (3, 13)):
        how = os.WEXITED | os.WNOWAIT
        try:
            state = os.waitid(os.P_PID, pid, how if wait else how | os.WNOHANG)
        except ChildProcessError:
            return True, None
        if state is not None:
            exited = state.si_code == os.CLD_EXITED
            return True, state.si_status if exited else -state.si_status
    return False, None


def bytes_unread(pipe: int) -> int | None:
    """Return the bytes in ``pipe`` that were not read yet; None if the system does not report it.

    Only Linux reports it at the end that is written to: macOS counts what this end could read, 0.
    """
    if sys.platform == "linux":
        try:
            import fcntl
            import struct
            import termios

            (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
        except (ImportError, OSError):
            return None
        return int(count)
    return None


CHUNK_BYTES = 64 * 1024
"""Bytes that are read or written at once."""
_HEAD_BYTES, _CUT = 2_000, b"[...]\n"
_STRAGGLER_SECONDS = 0.5
_POLL_SECONDS = 0.01


class StderrTail:
    """The end of a server's standard error, and its first lines.

    It stores ``size`` bytes; ``listener`` gets each line.
    """

    def __init__(self, size: int, listener: Callable[[str], None] | None) -> None:
        self._size = size
        self._data = bytearray()
        self._head = b""
        self._cut = False
        self._line = bytearray()
        self._listener = listener

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._data += data
        if len(self._data) > self._size:
            if not self._cut:
                first = self._data[: min(self._size // 4, _HEAD_BYTES)]
                self._head = bytes(first[: first.rfind(b"\n") + 1])
            self._cut = True
            del self._data[: -self._size]
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
        """Return the stored bytes as text, in whole lines if possible.

        A secret cut in two would not be recognized by those who mask secrets.
        """
        if not self._cut:
            return self._data.decode(errors="replace").strip()
        head = self._head and self._head + _CUT
        last = self._data[len(head) :]
        return (head + last[last.find(b"\n") + 1 :]).decode(errors="replace").strip()


class Pending:
    """A line that has not been written to the pipe completely."""

    __slots__ = ("begun", "over", "rest")

    def __init__(self, rest: memoryview, begun: bool) -> None:
        self.rest: memoryview[int] = rest
        self.begun: bool = begun
        """Whether some of it has been written."""
        self.over: LoopEvent = LoopEvent()
        """Set once all of it is written, or will never be."""


class Process:
    """A process of a server.

    ``output`` is called with its standard output, and ``over`` once, when its output or the process
    itself has ended; both in the event loop.
    """

    def __init__(
        self,
        backend: Backend,
        stderr: StderrTail,
        output: Callable[[bytes], None],
        over: Callable[[], None],
        *,
        tree: ProcessTree | None = None,
        name: str = "",
    ) -> None:
        """``name`` is the name of the session in warnings."""
        self.name: str = name
        self._backend = backend
        self._stderr = stderr
        self._output = output
        self._over: Callable[[], None] | None = over
        self._tree = tree or new_tree()
        self._exited = LoopEvent()
        self._closing: anyio.Event | None = None
        self._blocking_grace = 0.0
        self.exit_code: int | None = None

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        memory: int | None = None,
    ) -> None:
        """Start it without a shell; ``argv`` begins with an absolute path.

        ``memory``: bytes it may use, on systems on which it cannot limit itself. Raises
        ``ConnectError``.
        """
        try:
            self._popen = self._tree.start(argv, env, cwd, memory)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            if isinstance(error, FileNotFoundError) and os.path.exists(argv[0]):
                reason = "its interpreter, which its first line ('#!...') names, is not there"
            raise ConnectError(f"cannot start {argv[0]!r}: {reason}") from None
        self.pid: int = self._popen.pid
        # Should nothing else end it, it ends with this object or the interpreter.
        self._last_resort = weakref.finalize(self, _kill, self._tree, self._popen)
        try:
            self._started()
        except (NoThread, RuntimeError, OSError) as error:  # too many descriptors; no add_reader
            self._last_resort.detach()
            _kill(self._tree, self._popen)
            self._release()
            for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
                if pipe is not None:
                    pipe.close()
            reason = str(error) or type(error).__name__
            raise ConnectError(f"cannot run {argv[0]!r}: {reason}", retryable=True) from None

    # ------------------------------------------------------- what the ways of running it differ in

    @property
    def backlog(self) -> int:
        """Bytes that wait to be written."""
        raise NotImplementedError

    def write(self, data: bytes, crowded: bool = False) -> Pending | None:
        """Write without waiting. Returns what the pipe did not take at once, to wait for.

        The rest is written in order as the pipe takes it, even if the writer is cancelled, so that
        lines are never interleaved. ``crowded``: others are likely to write in this iteration of
        the loop too, and all of it is gathered into one write. Raises ``OSError`` if the pipe is
        broken.
        """
        raise NotImplementedError

    def withdraw(self, pending: Pending) -> bool:
        """Remove a line if nothing of it has been written, and return whether that was so."""
        raise NotImplementedError

    def unread(self) -> int | None:
        """Return the bytes in the input pipe that the process has not read; None if unknown."""
        raise NotImplementedError

    def read_arrived(self) -> bool:
        """Pass on the output that has arrived, and return whether that is possible here."""
        return False

    async def drain(self, seconds: float) -> None:
        """Read what an ended process has left in the pipes, for at most ``seconds``."""
        raise NotImplementedError

    def _started(self) -> None:
        raise NotImplementedError

    def _close_stdin(self) -> None:
        raise NotImplementedError

    def _release(self) -> None:
        raise NotImplementedError

    # ------------------------------------------------------------------- ending

    def _end(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            over()

    def _notice_exit(self, code: int | None) -> None:
        self.exit_code = code
        self._exited.set()
        self._end()

    def _watch_exit_in_thread(self) -> None:
        name = f"mcp_client exit of {self.pid}"
        noticed = weakref.WeakMethod(self._notice_exit)
        start_thread(_wait_for_exit, name, self._tree, self._popen, self._backend.run_soon, noticed)

    async def exited(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the process to end, and return whether it has."""
        with anyio.move_on_after(seconds):
            await self._exited.wait()
        return self._exited.is_set()

    def kill(self) -> None:
        """Kill the process and all it started. ``aclose`` still has to be called."""
        if not self._exited.is_set():
            self._tree.kill()

    async def aclose(self, grace: float) -> None:
        """End the process and all it started, each step within ``grace`` seconds. From any task.

        A task of its own does the work: the caller may be cancelled, however often asyncio's
        ``Task.cancel`` is called, and the process still ends.
        """
        closing = self._begin_to_close(grace)
        with anyio.CancelScope(shield=True):
            await closing.wait()

    def abandon(self, grace: float) -> None:
        """Do as ``aclose``, and do not wait.

        If the event loop is closed before, it waits instead, for ``grace`` seconds.
        """
        self._blocking_grace = grace
        self._begin_to_close(grace)

    def _begin_to_close(self, grace: float) -> anyio.Event:
        if self._closing is None:
            self._closing = anyio.Event()
            self._over = None  # only an end that was not asked for is reported
            self._close_stdin()
            self._backend.spawn(lambda: self._close(grace))
        return self._closing

    async def _close(self, grace: float) -> None:
        assert self._closing is not None
        try:
            with anyio.CancelScope(shield=True):
                if not await self.exited(grace):
                    self._tree.ask_to_end()
                    if not await self.exited(grace):
                        self._tree.kill()
                        await self.exited(grace)
                await self._end_stragglers(grace)
        except BaseException:
            # The event loop is being closed, and this task with it: only blocking it is possible.
            until = time.monotonic() + self._blocking_grace
            while time.monotonic() < until:
                if self._exited.is_set() or exit_code_of(self._popen.pid)[0]:
                    break
                time.sleep(_POLL_SECONDS)  # noqa: ASYNC251 - it ends with this
            self._tree.kill()
            self._popen.wait()
            raise
        finally:
            self._last_resort.detach()
            self._release()
            if self._popen.poll() is None:  # killed, and slow to end: it is reaped when it has
                with contextlib.suppress(NoThread):
                    start_thread(self._popen.wait, f"mcp_client end of {self.pid}")
            self._tree.close()
            self._closing.set()

    async def _end_stragglers(self, grace: float) -> None:
        if not self._exited.is_set():
            return
        self._tree.ask_to_end()
        self._popen.poll()  # reaps the leader: from now on an empty group does not exist
        with anyio.move_on_after(min(grace, _STRAGGLER_SECONDS)):
            while not self._tree.is_empty():  # noqa: ASYNC110 - no event reports when that changes
                await anyio.sleep(0.01)
            return
        self._tree.kill()


def _wait_for_exit(
    tree: ProcessTree,
    popen: subprocess.Popen[bytes],
    run_soon: Callable[[Callable[[], None]], None],
    noticed: Callable[[], Callable[[int | None], None] | None],
) -> None:
    """Wait for the exit in a thread of its own, which does not own the ``Process``."""
    code = tree.wait(popen)

    def notify() -> None:
        notice = noticed()
        if notice is not None:
            notice(code)

    run_soon(notify)


def _kill(tree: ProcessTree, popen: subprocess.Popen[bytes]) -> None:
    if popen.poll() is None:
        tree.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            popen.wait(5)
    tree.close()
