"""What is wrong in a config file, and the members of a server read with that in mind."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..runtime.safe_text import safe_text
from .config_files import Unset
from .config_places import Scope
from .config_programs import Program
from .config_text import Document, KeyPath
from .interpolation import Expanded, Variables, expand

__all__ = ["ConfigProblem", "Fields", "Reading"]

_MOST_PROBLEMS = 1_000
_MOST_ITEMS = 10_000
"""Arguments, variables or headers of one server."""
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,80}")
_LONGEST_KEY = 40
_MOST_GUESSES = 100
_OTHER_WORDS = {
    "cmd": "command",
    "executable": "command",
    "program": "command",
    "argv": "args",
    "arguments": "args",
    "parameters": "args",
    "environment": "env",
    "uri": "url",
    "endpoint": "url",
    "address": "url",
    "directory": "cwd",
    "folder": "cwd",
    "workingdirectory": "cwd",
    "working_directory": "cwd",
}
"""What people write instead of a field that every program has."""
_LONGEST_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """Something in a config file that is wrong or has no effect here.

    A server with something wrong is left out of ``Config.servers``; the others are not. No value of
    a variable, a header or an environment is in the text.
    """

    path: Path
    line: int | None
    """Counted from 1; None where the problem is with the file as a whole."""
    key: str
    """The member it is about: ``mcpServers.github.env.TOKEN``; empty for the whole file."""
    message: str
    """What is wrong, and what to do."""
    left_out: bool = False
    """Whether servers were left out for it; otherwise what it is about only has no effect."""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else str(self.path)
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


@dataclass(slots=True)
class Reading:
    """One file while it is read."""

    path: Path
    scope: Scope
    program: Program
    document: Document
    variables: Variables
    base: Path
    """The folder that a server runs in, and that relative paths are relative to."""
    inputs: dict[str, Any] = field(default_factory=dict)
    """The inputs that the file defines, by id."""
    unusable_inputs: dict[str, str] = field(default_factory=dict)
    """Why, by id."""
    problems: list[ConfigProblem] = field(default_factory=list)

    def note(self, path: KeyPath, message: str, *, left_out: bool = False) -> None:
        if len(self.problems) == _MOST_PROBLEMS:
            message = "there are more problems than are told: mend these first"
        if len(self.problems) <= _MOST_PROBLEMS:
            line = self.document.line(path)
            problem = ConfigProblem(self.path, line, shown_key(path), message, left_out)
            self.problems.append(problem)


def shown_key(path: KeyPath) -> str:
    """``mcpServers.github.args[1]``; names of other characters stand in quotes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _PLAIN.fullmatch(part) else repr(safe_text(part, 80))
            text += f".{name}" if text else name
    return text


class Fields:
    """The members of one server, or of an object in it, by our names for them."""

    def __init__(
        self, reading: Reading, path: KeyPath, members: Mapping[str, Any], names: Mapping[str, str]
    ) -> None:
        """``names``: the file's names of fields, and ours. Unknown ones are reported here."""
        self.reading = reading
        self.path = path
        self.failed = False
        """Whether something is so wrong that the server cannot be used."""
        self._members = members
        self._written: dict[str, str] = {}
        for name, ours in names.items():
            if name not in members or not ours:
                continue
            if ours in self._written:
                self.note(name, f"has no effect beside {self._written[ours]!r}: remove one")
            else:
                self._written[ours] = name

    def report_unknown(self, names: Mapping[str, str], title: str) -> None:
        for name in self._members:
            if name not in names:
                meant = self._near(name, names)
                self.note(
                    name,
                    f"is not a field that {title} documents, and has no effect here"
                    + (f"; did you mean {meant!r}?" if meant else ""),
                )

    def _near(self, name: str, names: Mapping[str, str]) -> str | None:
        """The field that ``name`` may be a misspelling of, unless that one is there."""
        if len(self.reading.problems) > _MOST_GUESSES:
            return None  # comparing takes time, and a file may have any number of fields
        known = {each.lower(): each for each, ours in names.items() if ours}
        wanted = name[:_LONGEST_KEY].lower()
        other = _OTHER_WORDS.get(wanted, wanted)
        near = [other] if other in known else difflib.get_close_matches(wanted, known, 1, 0.7)
        found = known[near[0]] if near else None
        return None if found is None or found in self._members else found

    def __contains__(self, ours: str) -> bool:
        return ours in self._written

    def raw(self, ours: str) -> Any:
        name = self._written.get(ours)
        return None if name is None else self._members[name]

    def where(self, ours: str, *parts: str | int) -> KeyPath:
        return (*self.path, self._written.get(ours, ours), *parts)

    def note(self, name: str, message: str) -> None:
        self.reading.note((*self.path, name), message)

    def wrong(self, ours: str, message: str, *parts: str | int) -> None:
        """A problem for which the server is left out."""
        self.failed = True
        self.reading.note(
            self.where(ours, *parts), f"{message}; the server is left out", left_out=True
        )

    def flag(self, ours: str) -> bool | None:
        value = self.raw(ours)
        if value is None or type(value) is bool:
            return value
        self.wrong(ours, "is not true or false: write one of them, without quotes")
        return None

    def text(self, ours: str, *, shows_files: bool = False) -> Expanded | None:
        value = self.raw(ours)
        return None if value is None else self.expanded(value, ours, shows_files=shows_files)

    def words(self, ours: str) -> tuple[Expanded, ...]:
        """Texts that are words of a command: what files bring is shown in them."""
        items = self._array(ours)
        found = [
            self.expanded(item, ours, number, shows_files=True) for number, item in enumerate(items)
        ]
        return tuple(item for item in found if item is not None)

    def pairs(self, ours: str) -> dict[str, Expanded]:
        """Names and texts. A number counts as text, null as absent."""
        found: dict[str, Expanded] = {}
        for name, value in self.object(ours).items():
            if value is None:
                continue
            if type(value) in (int, float):
                value = str(value)
            item = self.expanded(value, ours, name)
            if item is not None and self._usable(name, ours, name):
                found[name] = item
        return found

    def object(self, ours: str) -> Mapping[str, Any]:
        value = self.raw(ours)
        if value is None or (isinstance(value, dict) and len(value) <= _MOST_ITEMS):
            return value or {}
        self.wrong(ours, self._no_collection(value, "an object: write names and values in braces"))
        return {}

    def names(self, ours: str) -> tuple[str, ...] | None:
        """Texts without references; None where the field is not there."""
        if ours not in self:
            return None
        items = self._array(ours)
        good = [item for item in items if isinstance(item, str) and item]
        if len(good) != len(items):
            self.wrong(ours, "has an item that is not a text: write each in double quotes")
        return tuple(good)

    def seconds(self, ours: str, unit: float = 1.0) -> float | None:
        """A time that is written in units of so many seconds; anything else has no effect."""
        value = self.raw(ours)
        if value is None:
            return None
        if type(value) in (int, float) and value > 0 and math.isfinite(value):
            return float(min(value * unit, _LONGEST_SECONDS))
        self.reading.note(self.where(ours), "is not a time above 0, and has no effect")
        return None

    def expanded(
        self, value: Any, ours: str, *parts: str | int, shows_files: bool = False
    ) -> Expanded | None:
        """A text with its references put in; None, and a problem, where that cannot be."""
        if not isinstance(value, str):
            self.wrong(ours, "is not a text: write it in double quotes", *parts)
            return None
        reading = self.reading
        try:
            found = expand(
                value, reading.program.syntax, reading.variables, shows_files=shows_files
            )
        except Unset as error:
            self.wrong(ours, self._why_unset(value, str(error)), *parts)
            return None
        return found if self._usable(found.value, ours, *parts) else None

    def _why_unset(self, text: str, why: str) -> str:
        for name, reason in self.reading.unusable_inputs.items():
            if f"${{input:{name}}}" in text:
                return reason
        return why

    def _usable(self, text: str, ours: str, *parts: str | int) -> bool:
        try:
            usable = b"\0" not in os.fsencode(text)
        except UnicodeEncodeError:  # half of a pair of surrogates
            usable = False
        if not usable:
            self.wrong(ours, "has a character that no command or header can carry", *parts)
        return usable

    def _array(self, ours: str) -> list[Any]:
        value = self.raw(ours)
        if value is None or (isinstance(value, list) and len(value) <= _MOST_ITEMS):
            return value or []
        self.wrong(
            ours, self._no_collection(value, "a list: write it in brackets, one item a word")
        )
        return []

    def _no_collection(self, value: Any, wanted: str) -> str:
        if isinstance(value, dict | list) and len(value) > _MOST_ITEMS:
            return f"has more than {_MOST_ITEMS:,} items"
        return f"is not {wanted}"


def listed(names: Iterable[str], most: int = 8) -> str:
    shown = [repr(safe_text(name, 60)) for name in names]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more
