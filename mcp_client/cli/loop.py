"""``shell TARGET``: one session for many commands, a line each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import McpError
from ..runtime.console import open_console, why_no_terminal
from ..runtime.executables import split_words
from ..session.session import Session
from . import calling
from .candidates import Known, known_of
from .completing import keep_names
from .exits import DONE, USAGE, UsageError, exit_code
from .output import note, print_text
from .prompt import line_reader
from .session import open_session
from .state_folder import state_file
from .words import parsed

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

__all__ = ["shell"]

_OWN = frozenset({"--json", "--save", "--limit", "--help"})
"""Options of a line; all others are about the session, which is open already."""
_HERE = ("help", "quit")
_PROMPT = "mcp> "
_LISTING = (["tools"], ["prompts"], ["resources"])
"""Commands after which there may be other names to complete."""
_TO_LIST = 5.0
"""Seconds that the prompt waits for names to complete."""
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
        async for line in _lines(session, options):
            try:
                words = split_words(line)
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


async def _lines(session: Session, options: argparse.Namespace) -> AsyncIterator[str]:
    """Typed at the terminal; of a pipe, which is read to its end first."""
    if sys.stdin.isatty() and why_no_terminal() is None:
        async for line in _typed(session, options):
            yield line
        return
    for line in sys.stdin.buffer.read().decode(errors="replace").splitlines():
        if not line.lstrip().startswith("#"):
            yield line


async def _typed(session: Session, options: argparse.Namespace) -> AsyncIterator[str]:
    """Lines of the terminal, each within a dialogue of its own: a server's question waits."""
    known = Known()
    reader = line_reader(_history(), [*calling.__all__, *_HERE], lambda: known)
    line: str | None = None
    while True:
        if reader is None:
            async with open_console() as console:
                line = await console.ask(_PROMPT)
        else:
            if line is None or line.split()[:1] in _LISTING:
                known = await _known(session)
                keep_names(options, known, "tools", "prompts")
            async with open_console():
                line = await _edited(reader)
        if line is None:
            return
        yield line


def _history() -> Path | None:
    try:
        return state_file("shell_history")
    except UsageError as error:  # such as a home that is read-only
        note(error.message)
        return None


async def _edited(reader: PromptSession[str]) -> str | None:
    """One line; None at its end (Ctrl-D). Ctrl-C drops what was typed."""
    while True:
        try:
            # SIGTERM and SIGHUP arrive as SIGINT (see ``signals``) and end the shell as ever.
            return await reader.prompt_async(_PROMPT, handle_sigint=False)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return None


async def _known(session: Session) -> Known:
    """What there is to complete; what a server does not list is not offered."""
    found: dict[str, Any] = {}
    declared = session.capabilities
    with anyio.move_on_after(_TO_LIST):
        for name, feature, list_all in (
            ("tools", "tools", session.list_tools),
            ("prompts", "prompts", session.list_prompts),
            ("resources", "resources", session.list_resources),
            ("templates", "resources", session.list_resource_templates),
        ):
            if feature in declared:
                with suppress(McpError):
                    found[name] = await list_all()
    uris = [one.uri for one in found.get("resources", ())]
    uris += [one.uri_template for one in found.get("templates", ())]
    return known_of(found.get("tools", ()), found.get("prompts", ()), uris)


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
