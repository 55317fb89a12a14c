"""End the processes of this program, if the program itself is killed and cannot.

``guard_orphans`` forks a small process that waits at a pipe, which only this program holds open. It
is notified of each ``PosixGroup``, and kills those that are left when the pipe is closed. That
happens at the end of the ``with`` block, or when the program ends, even by SIGKILL. On Windows the
job object does the same.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from . import process

__all__ = ["guard_orphans"]

_SECONDS_TO_END = 1.0


@contextmanager
def guard_orphans() -> Iterator[None]:
    """Enter it before there are threads and open files, which the fork would share."""
    if sys.platform == "win32":
        yield
        return
    reader, writer = os.pipe()
    try:
        child = os.fork()
    except OSError:  # too many processes
        child = -1
    if not child:
        _watch(reader)
    os.close(reader)

    def notify(sign: str, group: int) -> None:
        try:
            os.write(writer, f"{sign}{group}\n".encode())
        except OSError:  # the guard was killed
            return

    process.notify_guard = notify if child > 0 else None
    try:
        yield
    finally:
        process.notify_guard = None
        os.close(writer)
        if child > 0:
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _watch(pipe: int) -> NoReturn:
    if sys.platform == "win32":
        raise AssertionError
    groups: set[int] = set()
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.dup2(pipe, 0)
        os.closerange(1, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") > 0 else 4096)
        text = b""
        while more := os.read(0, 4096):
            *lines, text = (text + more).split(b"\n")
            for line in lines:
                (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
        _signal(groups, signal.SIGTERM)
        end = time.monotonic() + _SECONDS_TO_END
        while groups and time.monotonic() < end:
            time.sleep(0.02)
            _signal(groups, 0)
        _signal(groups, signal.SIGKILL)
    finally:
        os._exit(0)


def _signal(groups: set[int], number: int) -> None:
    """Signal those that exist; the others are forgotten."""
    if sys.platform == "win32":
        return
    for group in [*groups]:
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            groups.discard(group)
        except PermissionError:
            continue
