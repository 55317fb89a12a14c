"""The processes of a server in a sandbox: how they start, are asked to end, and are gone."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..runtime.process_tree import PosixGroup

if TYPE_CHECKING:
    from .engine import Launch

__all__ = ["ConfinedGroup"]


class ConfinedGroup(PosixGroup):
    """The processes of a ``Launch``."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._end = launch.end

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None, memory: int | None
    ) -> subprocess.Popen[bytes]:
        launch = self._launch
        try:
            popen = self._popen(launch.argv, launch.env, launch.cwd, launch.pass_fds)
        except BaseException:
            self.close()
            raise
        finally:
            for fd in launch.pass_fds:
                os.close(fd)
        return popen

    def close(self) -> None:
        super().close()
        end, self._end = self._end, None  # the interpreter may end while a session is closed
        if end is not None:
            os.close(end)
        if self._launch.folder is not None:
            shutil.rmtree(self._launch.folder, ignore_errors=True)

    def is_empty(self) -> bool:
        if self._end is not None:
            try:
                os.read(self._end, 1)
            except BlockingIOError:
                return False
        # Where nothing reaps orphans, as in many containers, a dead one stays in the group.
        return super().is_empty() or not any(_living(self._pid))

    def ask_to_end(self) -> None:
        if not self._launch.asked_inside:
            super().ask_to_end()
            return
        for pid in _living(self._pid):
            if pid != self._pid:
                _ask_to_end(pid, self._pid)


def _living(group: int) -> Iterator[int]:
    """The processes of a group that have not ended."""
    if sys.platform != "linux":
        yield group
        return
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, _, of = file.read().rpartition(b")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state not in (b"Z", b"X"):
            yield int(name)


def _ask_to_end(pid: int, group: int) -> None:
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)  # its number is no other's from now on
        try:
            if os.getpgid(pid) == group:
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)
