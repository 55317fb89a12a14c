"""``shell TARGET``: one session for many commands, a line each."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import AsyncIterator
from typing import Any

from ..errors import McpError
from ..runtime.console import open_console, why_no_terminal
from . import calling
from .exits import DONE, USAGE, UsageError, exit_code
from .output import note, print_text
from .session import open_session
from .words import parsed

__all__ = ["shell"]

_OWN = frozenset({"--json", "--save", "--limit", "--help"})
"""Options of a line; all others are about the session, which is open already."""
_HELP = "commands: {}; help, quit. Arguments as at the command line, without TARGET."


async def shell(options: argparse.Namespace) -> int:
    """Run the commands that are typed, or that come through a pipe, until ``quit`` or the end.

    A command that fails ends nothing, Ctrl-C during one ends the shell. The exit code is that of
    the last command that failed.
    """
    if options.json:
        raise UsageError("shell: give --json to a command in the shell")
    code = DONE
    async with open_session(options) as session:
        async for line in _lines():
            try:
                words = shlex.split(line)
                if words and words[0] in ("quit", "exit"):
                    break
                if words:
                    code = await _run(words, options, session) or code
            except ValueError as error:
                note(f"the line cannot be read: {error}")
                code = USAGE
            except McpError as error:
                note(error.message if exit_code(error) == USAGE else error)
                code = exit_code(error)
            sys.stdout.flush()
    return code


async def _lines() -> AsyncIterator[str]:
    """Typed at the terminal; of a pipe, which is read to its end first."""
    if sys.stdin.isatty() and why_no_terminal() is None:
        while True:
            async with open_console() as console:
                line = await console.ask("mcp> ")
            if line is None:
                return
            yield line
    for line in sys.stdin.buffer.read().decode(errors="replace").splitlines():
        if not line.lstrip().startswith("#"):
            yield line


async def _run(words: list[str], options: argparse.Namespace, session: Any) -> int:
    name, *rest = words
    if name == "help":
        print_text(_HELP.format(", ".join(calling.__all__)))
        return DONE
    if name not in calling.__all__:
        raise UsageError(f"unknown command {name!r}: help lists them")
    for word in rest:
        if word.startswith("--") and word.partition("=")[0] not in _OWN:
            raise UsageError(f"{word.partition('=')[0]} is about the session: give it to 'shell'")
    try:
        line = parsed([name, options.target, *rest])
    except SystemExit:  # after --help
        return DONE
    line.session, line.terminal = session, options.terminal
    code: int = await getattr(calling, name)(line)
    return code
