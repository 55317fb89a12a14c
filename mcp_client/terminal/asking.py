"""Asking the person at the terminal.

The question goes to standard error and the answer comes from standard input, and both must be a
terminal. Everything a server had a hand in is shown through ``safe_text``.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import Any

import anyio

from .approval import Allow, Answer, Deny
from .display import safe_text
from .tool import ToolCall

__all__ = ["ask_on_terminal"]


async def ask_on_terminal(call: ToolCall) -> Answer:
    """Ask the person at the terminal; without a terminal, refuse and say what to do.

    The question goes to standard error and the answer comes from standard input, and both must be
    a terminal. Everything a server had a hand in is shown through ``safe_text``.
    """
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
        return Deny(
            "there is no terminal to ask at; pass approval= to connect(): a function that decides, "
            "or mcp_client.allow_all if every call may run"
        )
    _forget_what_was_typed()
    print(_question(call), end="", file=sys.stderr, flush=True)
    answer = (await _line_from_terminal()).strip().lower()
    if answer in ("y", "yes"):
        return Allow(source="person")
    return Deny("the person at the terminal said no", source="person")


def _question(call: ToolCall) -> str:
    hints, said = call.hints, call.hints.said
    words = [
        f"{'read-only' if hints.read_only else 'may change things'}",
        f"{'destructive' if hints.destructive else 'not destructive'}",
        f"{'can be repeated' if hints.idempotent else 'repeating it repeats its effect'}",
        f"{'reaches outside' if hints.open_world else 'stays inside'}",
    ]
    source = "the server's word, which you trust" if said else "assumed, nobody trusted says"
    arguments = json.dumps(call.arguments, indent=2, ensure_ascii=False)
    shown = safe_text(arguments, 2_000, lines=True).replace("\n", "\n    ")
    lines = [
        "",
        f"  Server     {safe_text(call.server, 80)}",
        f"  Tool       {safe_text(call.tool.name, 128)}",
        f"  It is      {', '.join(words)} ({source})",
        *(f"  Note       {safe_text(finding, 300)}" for finding in call.findings),
        f"  Arguments\n    {shown}",
        "  Run it? [y/N] ",
    ]
    return "\n".join(lines)


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _forget_what_was_typed() -> None:
    """A line typed before the question was shown is no answer to it."""
    try:
        import termios
    except ImportError:  # Windows
        return
    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def _line_from_terminal() -> str:
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
