"""Locks on open files that end with the process that holds them: ``flock``, or on Windows a byte.

On Windows the byte lies beyond any content, as what is locked cannot be read elsewhere; and a
shared lock is an exclusive one.
"""

from __future__ import annotations

import os
import sys
import time

__all__ = ["lock", "unlock"]

_PAUSES = (0.0001, 0.005)
_LOCKED_BYTE = 1 << 40


def lock(file: int, seconds: float, *, shared: bool = False) -> bool:
    """Lock an open file or directory, and whether that worked within ``seconds``.

    The lock belongs to this opening of the file, so threads take turns as processes do. It ends
    with ``unlock`` or when the descriptor is closed. Raises ``OSError``.
    """
    until = time.monotonic() + seconds
    pause, longest = _PAUSES
    while not _try(file, shared):
        if time.monotonic() >= until:
            return False
        time.sleep(pause)
        pause = min(pause * 2, longest)
    return True


if sys.platform == "win32":
    import msvcrt

    def _try(file: int, shared: bool) -> bool:
        try:
            _at_the_byte(file, msvcrt.LK_NBLCK)
        except PermissionError:
            return False
        return True

    def unlock(file: int) -> None:
        _at_the_byte(file, msvcrt.LK_UNLCK)

    def _at_the_byte(file: int, how: int) -> None:
        before = os.lseek(file, 0, os.SEEK_CUR)
        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(file, how, 1)
        finally:
            os.lseek(file, before, os.SEEK_SET)

else:
    import fcntl

    def _try(file: int, shared: bool) -> bool:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
