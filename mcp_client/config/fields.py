"""The problems of a config file, and the members of a server, parsed with them in mind."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..runtime.safe_text import safe_text
from .programs import UNUSED, Program, Scope
from .text import Document, KeyPath
from .values import SECRET_IN_TEXT, SPELLED, Expanded, Misspelled, Unset, Variables, expand

__all__ = ["ConfigProblem", "Fields", "ParsedFile"]

_MAX_PROBLEMS = 1_000
_MAX_ITEMS = 10_000
"""Arguments, variables or headers of one server."""
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,80}")
_SIGNS = re.compile(r"[$%{]")
_DOUBLE = re.compile(r"\$\{\{\s*(?:\w+\.)?(\w+)\s*\}\}")
_MAX_GUESSED_CHARS = 40
_MAX_GUESSES = 100
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
"""The words that people write instead of a field that every program has."""
_MAX_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """Something in a config file that is wrong or has no effect here.

    A server with something wrong is left out of ``Config.servers``; the others are not. No value of
    a variable, a header or an environment is in the text.
    """

    path: Path
    """The config file."""
    line: int | None
    """The line, counted from 1; None if the problem is with the file as a whole."""
    key: str
    """The member it is about: ``mcpServers.github.env.TOKEN``; empty for the whole file."""
    message: str
    """The problem, and what to do."""
    left_out: bool = False
    """Whether servers were left out for it; otherwise what it is about only has no effect."""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else str(self.path)
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


@dataclass(slots=True)
class ParsedFile:
    """A config file, its parsed document, and the problems found so far."""

    path: Path
    scope: Scope
    program: Program
    document: Document
    variables: Variables
    base: Path
    """The directory that a server runs in, and that relative paths are relative to."""
    inputs: dict[str, Any] = field(default_factory=dict)
    """The inputs that the file defines, by id."""
    unusable_inputs: dict[str, str] = field(default_factory=dict)
    """The reasons, by id."""
    problems: list[ConfigProblem] = field(default_factory=list)
    failed: bool = False
    """Whether something is so wrong that the server that is being read cannot be used."""

    def note(self, path: KeyPath, message: str, *, left_out: bool = False) -> None:
        """Note a problem at ``path``."""
        self.failed = self.failed or left_out
        if len(self.problems) == _MAX_PROBLEMS:
            message = "there are more problems than are listed: fix these first"
        if len(self.problems) <= _MAX_PROBLEMS:
            line = self.document.line(path)
            problem = ConfigProblem(self.path, line, shown_key(path), message, left_out)
            self.problems.append(problem)

    def leave_out(self, path: KeyPath, message: str) -> None:
        """Note a problem at ``path`` for which the server is left out."""
        self.note(path, f"{message}; the server is left out", left_out=True)


def shown_key(path: KeyPath) -> str:
    """Return ``mcpServers.github.args[1]``; other names are in quotation marks."""
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
        self,
        parsed: ParsedFile,
        path: KeyPath,
        members: Mapping[str, Any],
        names: Mapping[str, str],
        *,
        title: str,
    ) -> None:
        """Parse the members of an object.

        ``names``: the file's names of fields, and ours, as in ``Program.fields``. Any other member
        is reported as one that ``title`` does not document.
        """
        self.parsed = parsed
        self._path = path
        self._members = members
        self._written: dict[str, str] = {}
        for name, ours in names.items():
            if name not in members or not ours:
                continue
            if ours == UNUSED:
                self.note(name, f"has no effect here: only {title} honours it")
            elif ours in self._written:
                self.note(name, f"has no effect together with {self._written[ours]!r}: remove one")
            else:
                self._written[ours] = name
        for name in members:
            if name not in names:
                meant = self._near(name, names)
                advice = f"; did you mean {meant!r}?" if meant else ""
                why = f"is not a field that {title} documents, and has no effect here"
                self.note(name, f"{why}{advice}")

    def _near(self, name: str, names: Mapping[str, str]) -> str | None:
        """Return the field that ``name`` may be a misspelling of, unless that one is there."""
        if len(self.parsed.problems) > _MAX_GUESSES:
            return None  # comparing takes time, and a file may have any number of fields
        known = {each.lower(): each for each, ours in names.items() if ours not in ("", UNUSED)}
        wanted = name[:_MAX_GUESSED_CHARS].lower()
        other = _OTHER_WORDS.get(wanted, wanted)
        near = [other] if other in known else difflib.get_close_matches(wanted, known, 1, 0.7)
        found = known[near[0]] if near else None
        return None if found is None or found in self._members else found

    def inside(self, ours: str, names: Mapping[str, str], title: str) -> Fields:
        """Return the members of the object that this field is."""
        path = (*self._path, self._written.get(ours, ours))
        return Fields(self.parsed, path, self.object(ours), names, title=title)

    def read(self, readers: Mapping[str, Callable[[Fields, str], Any]]) -> dict[str, Any]:
        """Return the values of fields, by our names for them, each as its reader has it."""
        return {name: reader(self, name) for name, reader in readers.items()}

    def has(self, ours: str) -> bool:
        """Whether the field exists."""
        return ours in self._written

    def raw(self, ours: str) -> Any:
        """Return the value; None also if the field does not exist, as with the methods below."""
        name = self._written.get(ours)
        return None if name is None else self._members[name]

    def note(self, name: str, message: str) -> None:
        """Something without effect, by the file's own name for it."""
        self.parsed.note((*self._path, name), message)

    def unused(self, names: Iterable[str], message: str) -> None:
        """Note a problem for each of these fields that has a value."""
        for name in names:
            if self.raw(name) not in (None, "", [], {}):
                self.note(self._written[name], f"has no effect: {message}")

    def wrong(self, ours: str, message: str, *parts: str | int) -> None:
        """Note a problem for which the server is left out."""
        path = (*self._path, self._written.get(ours, ours), *parts)
        self.parsed.leave_out(path, message)

    def unusable(self, message: str) -> None:
        """Note a problem with all of it."""
        self.parsed.leave_out(self._path, message)

    def flag(self, ours: str) -> bool | None:
        """Return a boolean."""
        value = self.raw(ours)
        if value is None or type(value) is bool:
            return value
        self.wrong(ours, "is not true or false: write one of them, without quotes")
        return None

    def text(self, ours: str) -> Expanded | None:
        """Return a text with its references replaced."""
        value = self.raw(ours)
        return None if value is None else self._expanded(value, ours)

    def secret(self, ours: str) -> Expanded | None:
        """Return a text that secrets may be put into."""
        value = self.raw(ours)
        return None if value is None else self._expanded(value, ours, secrets=True)

    def words(self, ours: str) -> tuple[Expanded, ...]:
        """Return a list of texts with their references replaced."""
        found = [self._expanded(item, ours, at) for at, item in enumerate(self._array(ours))]
        return tuple(item for item in found if item is not None)

    def secret_pairs(self, ours: str) -> dict[str, Expanded]:
        """Return names, and texts that may contain secrets."""
        return self.pairs(ours, secrets=True)

    def pairs(self, ours: str, *, secrets: bool = False) -> dict[str, Expanded]:
        """Return names and texts. A number counts as text, null as absent."""
        found: dict[str, Expanded] = {}
        for name, value in self.object(ours).items():
            if value is None:
                continue
            if type(value) in (int, float):
                value = str(value)
            item = self._expanded(value, ours, name, secrets=secrets)
            if item is not None and self._is_usable(name, ours, name):
                found[name] = item
        return found

    def object(self, ours: str) -> Mapping[str, Any]:
        """Return an object."""
        wanted = "an object: write names and values in braces"
        found: Mapping[str, Any] = self._collection(ours, dict, wanted)
        return found

    def names(self, ours: str) -> tuple[str, ...] | None:
        """Return texts without references."""
        if ours not in self._written:
            return None
        items = self._array(ours)
        good = [item for item in items if isinstance(item, str) and item]
        if len(good) != len(items):
            self.wrong(ours, "has an item that is not a text: write each in double quotes")
        return tuple(good)

    def seconds(self, ours: str, unit: float = 1.0) -> float | None:
        """Return a time in seconds, written in units of so many; anything else has no effect."""
        value = self.raw(ours)
        if value is None:
            return None
        if type(value) in (int, float) and value > 0 and math.isfinite(value):
            return float(min(value * unit, _MAX_SECONDS))
        self.note(self._written[ours], "is not a time above 0, and has no effect")
        return None

    def milliseconds(self, ours: str) -> float | None:
        """Return a time in seconds that is written in milliseconds."""
        return self.seconds(ours, 1e-3)

    def variable(
        self, name: str, variable: str, ours: str, *parts: str | int, optional: bool = False
    ) -> dict[str, Expanded]:
        """Return a variable of the environment under ``name``.

        Nothing, and a problem, if it is not set.

        An ``optional`` one is shown also if it is not set, so that it can be set later.
        """
        quoted = f"${{{variable}}}"
        try:
            value = self.parsed.variables.variable(variable)
        except Unset as error:
            if not optional:
                self.wrong(ours, str(error), *parts)
                return {}
            why = f"{error}. It is left out, and the server is started without it"
            self.parsed.note((*self._path, self._written[ours], *parts), why)
            return {name: Expanded("", quoted, (variable,), is_set=False)}
        found = Expanded(value, quoted, (variable,))
        if not value.strip() and ours != "env_vars":
            why = f"the environment variable {safe_text(variable, 80)!r} is empty"
            why = f"{why}: the header is left out" if optional else f"{why}: set it"
            self.parsed.note((*self._path, self._written[ours], *parts), why)
            return {name: found._replace(is_set=not optional)}
        return {name: found}

    def names_of_variables(self, ours: str) -> dict[str, Expanded]:
        """Return variables that are passed on under their own names (Codex: ``env_vars``)."""
        found: dict[str, Expanded] = {}
        value = self.raw(ours)
        for number, item in enumerate(value if isinstance(value, list) else []):
            name = item.get("name") if isinstance(item, dict) else item
            if isinstance(name, str):
                if isinstance(item, dict) and item.get("source") not in (None, "local"):
                    self.note(self._written[ours], f"[{number}] has a source other than this host")
                found.update(self.variable(name, name, ours, number, optional=True))
            else:
                self.wrong(ours, "is not the name of a variable", number)
        if value is not None and not isinstance(value, list):
            self.wrong(ours, "is not a list of names of variables")
        return found

    def _expanded(
        self, value: Any, ours: str, *parts: str | int, secrets: bool = False
    ) -> Expanded | None:
        """Return a text with its references replaced; None, and a problem, if that fails."""
        if not isinstance(value, str):
            self.wrong(ours, "is not a text: write it in double quotes", *parts)
            return None
        parsed = self.parsed
        place = (*self._path, self._written.get(ours, ours), *parts)
        self._note_other_syntax(value, place)
        if "$" not in value:
            return Expanded(value, value) if self._is_usable(value, ours, *parts) else None
        try:
            found = expand(value, parsed.program.syntax, parsed.variables, secrets=secrets)
        except Misspelled as error:
            self.wrong(ours, f"{error.args[0]}: {self._right_syntax(error.args[1])}", *parts)
            return None
        except Unset as error:
            if (double := _DOUBLE.search(value)) is not None:
                why = f"{safe_text(double[0], 80)} is not a reference here"
                self.wrong(ours, f"{why}: {self._right_syntax(double[1])}", *parts)
                return None
            reasons = (
                why for name, why in parsed.unusable_inputs.items() if f"${{input:{name}}}" in value
            )
            self.wrong(ours, next(reasons, str(error)), *parts)
            return None
        for reference in found.empty:
            parsed.note(place, f"{safe_text(reference, 80)} is empty here: set the variable")
        if not parsed.program.syntax and SECRET_IN_TEXT.search(value):
            why = "has no effect as a reference: this program knows none, so it is text"
            parsed.note(place, why)
        if found.parts:
            found = found._replace(at=place)
        return found if self._is_usable(found.value, ours, *parts) else None

    def _note_other_syntax(self, value: str, place: KeyPath) -> None:
        """Report a variable that this program would take for text."""
        syntax = self.parsed.program.syntax
        is_word = "command" in place or "args" in place
        for match in SPELLED.finditer(value) if _SIGNS.search(value) else ():
            name, opencode, windows, bare = match.groups()
            if (name and syntax) or (bare and "bare" in syntax):
                continue  # it is put in, or refused
            if is_word and (windows or bare):
                continue  # a shell may put it in
            found = name or opencode or windows or bare
            quoted = safe_text(found, 80)
            why = f"the variable {quoted!r} is text here, as it is spelled"
            self.parsed.note(place, f"{why}: {self._right_syntax(found)}")
            return

    def _right_syntax(self, name: str) -> str:
        program = self.parsed.program
        spelled = program.variable(safe_text(name, 60))
        if spelled is not None:
            return f"in {program.title}'s files: {spelled}"
        return f"{program.title}'s files do not support variables{program.instead}"

    def _is_usable(self, text: str, name: str, *parts: str | int) -> bool:
        try:
            usable = b"\0" not in os.fsencode(text)
        except UnicodeEncodeError:  # half of a pair of surrogates
            usable = False
        if not usable:
            self.wrong(name, "has a character that no command or header can carry", *parts)
        return usable

    def _array(self, name: str) -> list[Any]:
        wanted = "a list: write it in brackets, one item a word"
        found: list[Any] = self._collection(name, list, wanted)
        return found

    def _collection(self, name: str, kind: type, wanted: str) -> Any:
        value = self.raw(name)
        if value is None:
            return kind()
        if isinstance(value, dict | list) and len(value) > _MAX_ITEMS:
            self.wrong(name, f"has more than {_MAX_ITEMS:,} items")
        elif not isinstance(value, kind):
            self.wrong(name, f"is not {wanted}")
        else:
            return value
        return kind()


def listed(names: Iterable[str], most: int = 8) -> str:
    """Return the names as a list in a sentence."""
    quoted = [repr(safe_text(name, 60)) for name in names]
    more = f" and {len(quoted) - most} more" if len(quoted) > most else ""
    return ", ".join(quoted[:most]) + more
