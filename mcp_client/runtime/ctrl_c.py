"""Ctrl-C for the threads of a program that has no event loop.

Python raises ``KeyboardInterrupt`` in the main thread alone. A thread pool in a ``with`` block then
joins its threads before anything around it can close, so what these threads wait for has to be
cancelled when the signal arrives. As ``asyncio.run`` does, ``CtrlC`` replaces Python's own handler
of SIGINT, and no other: a handler that the program has set stays. The handler cancels, and does
what Python's own does.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

__all__ = ["CtrlC"]

_SECONDS_TO_UNWIND = 1.0
"""Seconds after Ctrl-C in which ``KeyboardInterrupt`` counts as being on its way: between two
frames it is not visible from another thread."""


class CtrlC:
    """Calls ``cancel`` in the main thread when Ctrl-C is pressed, before ``KeyboardInterrupt``."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._pressed_at: float | None = None
        self._handler = self._hear  # one object, to recognize it by

    def listen(self) -> None:
        """Begin, if this is the main thread and Python's own handler is in place."""
        if _in_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handler)

    def leave(self) -> None:
        """Put Python's own handler back, unless the program has set another one by now."""
        if _in_main_thread() and signal.getsignal(signal.SIGINT) is self._handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @property
    def ends_this_thread(self) -> bool:
        """Whether this is another thread than the main one, which is ending because of Ctrl-C.

        Once the program has handled ``KeyboardInterrupt``, its threads go on.
        """
        if self._pressed_at is None or _in_main_thread():
            return False
        if time.monotonic() - self._pressed_at < _SECONDS_TO_UNWIND or _main_thread_unwinds():
            return True
        self._pressed_at = None
        return False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._pressed_at = time.monotonic()
        self._cancel()
        signal.default_int_handler(number, frame)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _main_thread_unwinds() -> bool:
    """Whether the main thread handles ``KeyboardInterrupt``.

    It then is in an ``except`` or ``finally`` block, or at the end of a ``with`` block.
    """
    found = sys._current_exceptions().get(threading.main_thread().ident or 0)
    error: object = found[1] if isinstance(found, tuple) else found  # before Python 3.12
    while isinstance(error, BaseException):
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False
