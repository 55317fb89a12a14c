"""The line of ``mcp-client shell``, with history and completion by ``prompt_toolkit``.

That is the extra ``cli``; without it, at a dumb terminal and in a pipe, lines are read plainly.

The history is a file for its owner alone (0600), ``shell_history`` in the user's state folder. A
line that begins with a space is not kept there, nor one that seems to hold a secret: by the name of
an argument, by its looks, or by the tool's schema.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..audit.redaction import Redaction
from ..errors import ConfigError
from ..runtime.atomic_file import OwnFile
from ..runtime.console import terminal
from ..runtime.executables import split_words
from .candidates import Known, following
from .output import note
from .plain_words import is_plain

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

__all__ = ["History", "line_reader", "may_be_kept", "suggestions"]

_MOST_LINES = 1_000
_LONGEST = 4_000


def line_reader(
    path: Path | None, commands: Iterable[str], known: Callable[[], Known]
) -> PromptSession[str] | None:
    """What reads a line with history and completion; None where lines are read plainly.

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
    """What the last word of a line may become, and how many characters of it that replaces.

    Only names that need no quoting: others are typed by hand.
    """
    words = typed.split()
    if not words or typed[-1].isspace():
        words.append("")
    last = words[-1]
    if len(words) == 1:
        found = [each for each in commands if each.startswith(last)]
    else:
        found = following(words[0], words[1:], known)
    return [(each, len(last)) for each in found if is_plain(each)]


class History:
    """The lines that were typed, as JSON strings in a file, one a line.

    Where the file cannot be used, which is said once, lines are kept as long as the shell runs.
    """

    def __init__(self, path: Path, known: Callable[[], Known]) -> None:
        self._file = OwnFile(path, "shell history", "delete it to begin another", private=True)
        self._known = known
        self._usable = True

    def lines(self) -> list[str]:
        """Those that are kept, the newest last."""
        try:
            return self._read()
        except ConfigError as error:
            self._stop(error)
            return []

    def add(self, line: str) -> None:
        """Keep a line that was typed, unless it may hold a secret."""
        if not self._usable or not may_be_kept(line, self._known()):
            return
        try:
            with self._file.locked():
                kept = [*self._read(), line][-_MOST_LINES:]
                self._file.replace("".join(f"{json.dumps(each)}\n" for each in kept))
        except ConfigError as error:
            self._stop(error)

    def _read(self) -> list[str]:
        found = self._file.read()
        try:
            lines = [] if found is None else [json.loads(each) for each in found[1].splitlines()]
        except (ValueError, RecursionError):
            raise self._file.unusable("it is not a history of this shell") from None
        return [each for each in lines if isinstance(each, str)][-_MOST_LINES:]

    def _stop(self, error: ConfigError) -> None:
        self._usable = False
        note(error)


def may_be_kept(line: str, known: Known) -> bool:
    """Whether a line may be written down: it is short, wanted, and holds no secret we can see."""
    if not line.strip() or line.startswith(" ") or len(line) > _LONGEST:
        return False
    redaction = Redaction()
    if redaction.show(line).count:
        return False
    try:
        words = split_words(line)
    except ValueError:
        return False
    if words[:1] == ["call"] and set(words[1:]) & known.secret:
        return False
    parts = [re.split(":?=", word, maxsplit=1) for word in words]
    given = [(each[0], each[1]) for each in parts if len(each) == 2]
    return not any(redaction.show({name: value}).count for name, value in given)
