"""A process and all that it started, which end together.

On POSIX it is a session and process group that the process leads. So one signal reaches its
children, too, and Ctrl-C in the host's terminal does not reach them. A descendant that leaves the
group on purpose (``setsid``) cannot be reached. On Windows it is a job: see ``windows_job``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

__all__ = ["PosixGroup", "ProcessTree", "bytes_unread", "exit_code_of", "new_tree"]


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
