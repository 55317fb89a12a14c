"""Locks on open files that end with the process that holds them: ``flock``, or on Windows a byte
(see ``windows_lock``)."""

from __future__ import annotations

import sys
import time

from .backoff import doubled

__all__ = ["lock", "unlock"]

_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.0001, 0.005


def lock(file: int, seconds: float, *, shared: bool = False) -> bool:
    """Lock an open file or directory, and whether that worked within ``seconds``.

    The lock belongs to this opening of the file, so threads take turns as processes do. It ends
    with ``unlock`` or when the descriptor is closed. Raises ``OSError``.
    """
    until = time.monotonic() + seconds
    tries = 0
    while not _try(file, shared):
        if time.monotonic() >= until:
            return False
        time.sleep(doubled(_PAUSE_SECONDS, tries, _MAX_PAUSE_SECONDS))
        tries += 1
    return True


if sys.platform == "win32":
    import msvcrt

    from .windows_lock import lock_byte, unlock_byte

    def _try(file: int, shared: bool) -> bool:
        return lock_byte(msvcrt.get_osfhandle(file), shared)

    def unlock(file: int) -> None:
        unlock_byte(msvcrt.get_osfhandle(file))

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
