"""``shell TARGET``: one session for many commands, a line each.

With the extra ``cli`` the line has history and completion, by ``prompt_toolkit``. Without it, at a
dumb terminal and in a pipe, lines are read plainly.

The history is a file for its owner alone (0600), ``shell_history`` in the user's state directory. A
line that begins with a space is not stored there, nor one that seems to hold a secret: by the name
of an argument, by its looks, or by the tool's schema.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import redirect_stdout, suppress
from functools import partial
from io import StringIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from ..audit.redaction import Redaction
from ..errors import ConfigError, McpError
from ..processes.commands import split_words
from ..runtime.atomic_file import OwnFile
from ..runtime.console import open_console, terminal, why_no_terminal
from ..runtime.safe_text import close_names, near, safe_text
from ..session.session import Session
from . import session_commands
from .completion import Known, is_plain, keep_names, known_of, offered
from .exits import DONE, INTERRUPTED, Interrupted, UsageError
from .output import note, print_document, print_json
from .parser import parsed, place_of_command, session_options
from .session import open_session, state_file
from .session_commands import numbered
from .signals import stdin_bytes, until_ctrl_c

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

__all__ = ["History", "line_reader", "may_be_stored", "shell", "suggestions"]

_COMMANDS = session_commands.__all__
_HERE = ("help", "quit")
_PROMPT = "mcp> "
_TARGET_HELP = "the session that is open"
_LISTING = (["tools"], ["prompts"], ["resources"])
"""Commands after which there may be other names to complete."""
_LIST_SECONDS = 5.0
"""The seconds for which the prompt waits for names to complete."""
_HELP = "commands: {}; help, quit. Arguments as at the command line, without TARGET."
_MAX_HISTORY_LINES = 1_000
_MAX_LINE_CHARS = 4_000


async def shell(options: argparse.Namespace) -> int:
    """Run the commands that are typed, or that come through a pipe, until ``quit`` or the end.

    A command that fails ends nothing. At a terminal, Ctrl-C cancels the running command; two in a
    row leave the shell. The exit code is that of the last command that failed. With ``--json``,
    every line of a pipe prints one JSON document with the number of the line.
    """
    code = DONE
    async with open_session(options) as session:
        typed, now = _is_typed(), DONE
        lines = _typed(session, options, lambda: now == INTERRUPTED) if typed else _piped()
        async for number, line in lines:
            if line.split()[:1] in (["quit"], ["exit"]):
                break
            run = partial(_run, line, options, session)
            if typed:
                run = partial(_cancelled_by_ctrl_c, run)
            now = await numbered(None if typed else number, run, as_json=options.json)
            code = now or code
    return code


async def _cancelled_by_ctrl_c(run: Callable[[], Awaitable[int]]) -> int:
    code = await until_ctrl_c(run)
    if code is None:
        note("cancelled; what was sent may have run; Ctrl-C again leaves")
        return INTERRUPTED
    return code


def _is_typed() -> bool:
    return sys.stdin.isatty() and why_no_terminal() is None


async def _piped() -> AsyncIterator[tuple[int, str]]:
    """Yield the lines of a pipe with their numbers. The pipe is read to its end first."""
    lines = (await stdin_bytes()).decode("utf-8-sig", "replace").splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


async def _typed(
    session: Session, options: argparse.Namespace, cancelled: Callable[[], bool]
) -> AsyncIterator[tuple[int, str]]:
    """Yield lines of the terminal, each within its own dialogue: a server's question waits.

    ``cancelled`` is whether Ctrl-C ended the last command.
    """
    known = Known()
    reader = line_reader(_history(), [*_COMMANDS, *_HERE], lambda: known)
    line: str | None = None
    for number in count(1):
        if reader is None:
            async with open_console() as console:
                line = await console.ask(_PROMPT)
        else:
            if line is None or line.split()[:1] in _LISTING:
                known = await _known(session)
                keep_names(options, known, "tools", "prompts")
            async with open_console():
                line = await _edited(reader, cancelled())
        if line is None:
            return
        if line.strip():
            yield number, line


def _history() -> Path | None:
    try:
        return state_file("shell_history")
    except UsageError as error:  # such as a home that is read-only
        note(error.message)
        return None


async def _edited(reader: PromptSession[str], again: bool) -> str | None:
    """Return one line; None at the end of the input (Ctrl-D).

    Ctrl-C drops the typed text. Raises ``Interrupted`` if it comes ``again`` and nothing was typed.
    """
    while True:
        try:
            return await reader.prompt_async(_PROMPT, handle_sigint=False)
        except KeyboardInterrupt:
            empty = not reader.default_buffer.text
            if empty and again:
                raise Interrupted("interrupted") from None
            again = empty
        except EOFError:
            return None


async def _known(session: Session) -> Known:
    """Return the names to complete. A list that the server does not have is not offered."""
    found: dict[str, Any] = {}
    declared = session.capabilities
    with anyio.move_on_after(_LIST_SECONDS):
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


async def _run(text: str, options: argparse.Namespace, session: Any) -> int:
    try:
        words = split_words(text)
    except ValueError as error:
        raise UsageError(f"the line cannot be read: {error}") from None
    at = place_of_command(words) or 0
    name, rest = words[at], [*words[:at], *words[at + 1 :]]
    if name == "help":
        print_document(options, {"commands": [*_COMMANDS]}, _HELP.format(", ".join(_COMMANDS)))
        return DONE
    if name not in _COMMANDS:
        raise UsageError(f"unknown command {name!r}: {await _meant(name, session)}")
    for word in rest[: rest.index("--")] if "--" in rest else rest:
        option = word.partition("=")[0]
        if option in session_options():
            raise UsageError(f"{option} is about the session: give it to 'shell'")
    about = StringIO()
    try:
        with redirect_stdout(about if options.json else sys.stdout):
            line = parsed([name, options.target, *rest])
    except SystemExit:  # after --help
        if options.json:
            print_json({"help": about.getvalue()})
        return DONE
    line.session, line.terminal, line.json = session, options.terminal, line.json or options.json
    code: int = await getattr(session_commands, name)(line)
    return code


async def _meant(name: str, session: Session) -> str:
    """Return the advice for a first word that is not a command: it may be a tool's name."""
    known = [*_COMMANDS, *_HERE]
    with suppress(McpError):  # such as a server without tools
        names = [tool.name for tool in await session.list_tools()]
        near_tools = [] if close_names(name, known) else close_names(name, names)[:1]
        for meant in [name] if name in names else near_tools:
            return f"did you mean 'call {safe_text(meant, 80)} ...'? 'help' lists the commands"
    return f"'help' lists the commands{near(name, known)}"


# ------------------------------------------------------------------ the line that is typed


def line_reader(
    path: Path | None, commands: Iterable[str], known: Callable[[], Known]
) -> PromptSession[str] | None:
    """Return a reader of lines with history and completion; None if lines are read plainly.

    Without a ``path`` the history lasts as long as the shell.
    """
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return None
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import CompleteEvent, Completer, Completion
        from prompt_toolkit.document import Document
        from prompt_toolkit.history import History as Kept
        from prompt_toolkit.output import create_output
    except ImportError:
        return None

    words = sorted(commands)

    class Names(Completer):
        def get_completions(
            self, document: Document, complete_event: CompleteEvent
        ) -> Iterable[Completion]:
            typed = document.text_before_cursor
            for found, back in suggestions(typed, words, known()):
                yield Completion(found, start_position=-back)

    class Lines(Kept):
        def load_history_strings(self) -> Iterable[str]:
            return reversed(history.lines() if history else [])

        def store_string(self, string: str) -> None:
            if history:
                history.add(string)

    history = None if path is None else History(path, known)
    return PromptSession(
        history=Lines(),
        completer=Names(),
        complete_while_typing=False,
        enable_history_search=True,
        output=create_output(stdout=terminal().output),
    )


def suggestions(typed: str, commands: Iterable[str], known: Known) -> list[tuple[str, int]]:
    """Return the completions of the last word of a line, with the characters each replaces.

    Only names that need no quoting are offered; others are typed by hand.
    """
    words = typed.split()
    if not words or typed[-1].isspace():
        words.append("")
    command, *rest = words
    if rest:
        found = offered([command, _TARGET_HELP, *rest], lambda target, config: known)
    else:
        found = [each for each in commands if each.startswith(command)]
    return [(each, len(words[-1])) for each in found if is_plain(each)]


class History:
    """The lines that were typed, as JSON strings in a file, one a line.

    If the file cannot be used, which is reported once, lines are stored as long as the shell runs.
    """

    def __init__(self, path: Path, known: Callable[[], Known]) -> None:
        self._file = OwnFile(path, "shell history", "delete it to begin another", private=True)
        self._known = known
        self._usable = True

    def lines(self) -> list[str]:
        """Return the stored lines, the newest last."""
        try:
            return self._read()
        except ConfigError as error:
            self._stop(error)
            return []

    def add(self, line: str) -> None:
        """Store a line that was typed, unless it may hold a secret."""
        if not self._usable or not may_be_stored(line, self._known()):
            return
        try:
            with self._file.locked():
                lines = [*self._read(), line][-_MAX_HISTORY_LINES:]
                self._file.replace("".join(f"{json.dumps(each)}\n" for each in lines))
        except ConfigError as error:
            self._stop(error)

    def _read(self) -> list[str]:
        found = self._file.read()
        try:
            lines = [] if found is None else [json.loads(each) for each in found[1].splitlines()]
        except (ValueError, RecursionError):
            raise self._file.unusable("it is not a history of this shell") from None
        return [each for each in lines if isinstance(each, str)][-_MAX_HISTORY_LINES:]

    def _stop(self, error: ConfigError) -> None:
        self._usable = False
        note(error)


def may_be_stored(line: str, known: Known) -> bool:
    """Whether a line may be written down: it is short, wanted, and holds no secret we can see."""
    if not line.strip() or line.startswith(" ") or len(line) > _MAX_LINE_CHARS:
        return False
    redaction = Redaction()
    if redaction.show(line).count:
        return False
    try:
        words = split_words(line)
    except ValueError:
        return False
    if "call" in words and set(words) & known.secret:
        return False
    parts = [re.split(":?=", word, maxsplit=1) for word in words]
    pairs = [(each[0], each[1]) for each in parts if len(each) == 2]
    return not any(redaction.show({name: value}).count for name, value in pairs)
