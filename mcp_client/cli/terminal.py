"""The terminal at which a person is asked."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

__all__ = ["find_terminal"]


def find_terminal(options: argparse.Namespace) -> None:
    """Set ``options.terminal``: whether a person can be asked.

    The terminal is ``/dev/tty`` if standard input or standard error is a pipe or a file. Input from
    a pipe is never a decision.
    """
    options.terminal = False
    if getattr(options, "no_input", False):
        return
    if _is_terminal(sys.stdin) and _is_terminal(sys.stderr):
        options.terminal = True
        return
    try:
        fd = os.open(_terminal_name(), os.O_RDWR | getattr(os, "O_NOCTTY", 0))
    except OSError:
        return
    from ..runtime.console import ask_at

    encoding = sys.stderr.encoding if sys.stderr is not None else "utf-8"
    input = open(fd, encoding=encoding, errors="replace", closefd=False)  # noqa: SIM115
    screen = open(fd, "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    ask_at(input, screen)
    options.terminal = True


def _terminal_name() -> str:
    if sys.platform == "win32":
        raise OSError("a console has another name for its input than for its output")
    os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))  # whether there is one that controls us
    for stream in (sys.stdin, sys.stderr, sys.stdout):
        if _is_terminal(stream):  # macOS cannot wait for /dev/tty by that name
            return os.ttyname(stream.fileno())
    return "/dev/tty"


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False
