"""Lines from the person at the terminal."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import anyio

__all__ = ["forget_what_was_typed", "line_from_terminal", "person_is_there"]


def person_is_there() -> bool:
    """Whether both standard input and standard error, where questions are shown, are a terminal."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):  # none, or closed
        return False


def forget_what_was_typed() -> None:
    """A line typed before the question was shown is no answer to it."""
    try:
        import termios
    except ImportError:  # Windows
        return
    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def line_from_terminal() -> str:
    if sys.platform == "win32":
        return await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    # Not in a thread: a thread that reads cannot be called off, and would keep the program alive.
    # A descriptor of our own, so that a reader the host has on standard input stays in place.
    fd = os.dup(sys.stdin.fileno())
    try:
        await anyio.wait_readable(fd)
        return os.read(fd, 4096).decode(errors="replace")
    finally:
        os.close(fd)
