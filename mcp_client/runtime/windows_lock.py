"""A lock on one byte of an open file, which is what Windows has in place of ``flock``.

The byte lies beyond any content, because what is locked cannot be read through another handle.
``LockFileEx`` takes the place of the byte as it is; ``msvcrt.locking`` takes it from the position
of the file, which would have to be moved, and knows no shared lock. Tried under Wine 8.0, by two
processes, and never on Windows.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

__all__ = ["LOCKED_BYTE", "lock_byte", "unlock_byte"]

LOCKED_BYTE = 1 << 40
_FAIL_IMMEDIATELY = 1
_EXCLUSIVE = 2
_LOCKED_BY_OTHERS = (33, 997)
"""ERROR_LOCK_VIOLATION, and ERROR_IO_PENDING of a handle that was opened to be overlapped."""


class _Overlapped(ctypes.Structure):
    _fields_ = (
        ("internal", ctypes.c_size_t),
        ("internal_high", ctypes.c_size_t),
        ("offset", ctypes.c_uint32),
        ("offset_high", ctypes.c_uint32),
        ("event", ctypes.c_void_p),
    )


def lock_byte(handle: int, shared: bool, system: Any = None) -> bool:
    """Whether the byte could be locked now.

    ``system``: the functions of kernel32. Raises ``OSError``.
    """
    system = system or _system()
    how = _FAIL_IMMEDIATELY | (0 if shared else _EXCLUSIVE)
    if system.LockFileEx(handle, how, 0, 1, 0, ctypes.byref(_place())):
        return True
    error = system.last_error()
    if error in _LOCKED_BY_OTHERS:
        return False
    raise OSError(0, f"it cannot be locked (error {error})")


def unlock_byte(handle: int, system: Any = None) -> None:
    """Raise ``OSError``."""
    system = system or _system()
    if not system.UnlockFileEx(handle, 0, 1, 0, ctypes.byref(_place())):
        raise OSError(0, f"it cannot be unlocked (error {system.last_error()})")


def _place() -> _Overlapped:
    return _Overlapped(offset=LOCKED_BYTE & 0xFFFF_FFFF, offset_high=LOCKED_BYTE >> 32)


_kernel: Any = None


def _system() -> Any:
    global _kernel
    if sys.platform != "win32":
        raise OSError("this lock exists on Windows only")
    if _kernel is None:
        kernel: Any = ctypes.WinDLL("kernel32", use_last_error=True)
        handle, number, place = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p
        kernel.LockFileEx.argtypes = [handle, number, number, number, number, place]
        kernel.UnlockFileEx.argtypes = [handle, number, number, number, place]
        kernel.last_error = ctypes.get_last_error
        _kernel = kernel
    return _kernel
