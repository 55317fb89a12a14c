"""The open file of a log, and the turn of its threads. A forked process has its own of both."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakSet

__all__ = ["OpenedFile", "Turn"]

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_FLAGS |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_QUIETLY = getattr(os, "O_NOATIME", 0)
"""With it a read does not set the file's time of access, which costs more than the read."""


class OpenedFile:
    """Used by one append at a time, and closed with the object.

    It stays open between appends because a call has two (the bench's row "audit").
    """

    __slots__ = ("__weakref__", "number", "place")

    def __init__(self, path: str) -> None:
        """Open the file; create it if it does not exist."""
        self.number: int = -1
        try:
            self.number = os.open(path, _FLAGS | _QUIETLY, 0o600)
        except PermissionError:  # only the owner of a file may ask for that
            self.number = os.open(path, _FLAGS, 0o600)
        here = os.fstat(self.number)
        self.place: tuple[int, int] = here.st_dev, here.st_ino
        _all_opened.add(self)

    def close(self) -> None:
        """Close it, once."""
        number, self.number = self.number, -1
        if number >= 0:
            os.close(number)

    __del__ = close


_all_opened: WeakSet[OpenedFile] = WeakSet()


def _close_all() -> None:
    """Close all files: a process that was forked must not hold the locks of its parent."""
    for each in list(_all_opened):
        each.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)


class Turn:
    """A lock between the threads that write a log, made again in a forked process."""

    def __init__(self, seconds: float, busy: Callable[[], Exception]) -> None:
        """Wait ``seconds`` at most in a thread, then raise ``busy()``."""
        self._seconds = seconds
        self._busy = busy
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the file, for one thread at a time."""
        if self._pid != os.getpid():
            self._begin()
        lock = self._lock
        if not lock.acquire(timeout=self._seconds):
            raise self._busy()
        try:
            yield
        finally:
            lock.release()
