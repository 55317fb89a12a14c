"""Config files as text: JSON, JSON with comments, and TOML, with the line of each member.

Python's own JSON reader knows no comments, uses the last of two members with the same name, and
reports lines only in its errors. Here each member's line is stored, so that a problem with a value
can be reported with its place, and a repeated name is reported: two programs could parse different
values in such a file. On plain JSON both parsers agree.

Files are from repositories, so their size and depth are limited before and while they are parsed.
"""

from __future__ import annotations

import json
import math
import re
import secrets
import tomllib
from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, TypeAlias

__all__ = ["Document", "KeyPath", "NotReadable", "OutOfRange", "read_json", "read_toml"]

KeyPath: TypeAlias = "tuple[str | int, ...]"

_MAX_DEPTH = 64
_PLACED_DEPTH = 8
"""Members that lie deeper are found at the line of the one they are in."""
_MAX_REPEATED = 1_000
_MAX_TOML = 1024 * 1024
_MAX_DOTS = 256
"""The dots in one line of TOML: the time to parse a name grows with the square of its parts."""

_NOTHING_SEEN = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_MAX_DIGITS = 300
"""The digits of a whole number: a float can be no larger, and Python parses at most 4,300
digits."""
_LONG_NUMBER = re.compile(rf"(?<![\w.])[0-9][0-9_]{{{_MAX_DIGITS},}}(?![\w.])", re.ASCII)
_MAX_BITS = 1_000
_PLACEHOLDER = re.compile(r"[1-9][0-9]{30}")
_CONSTANTS = {"true": True, "false": False, "null": None}
_WORD = re.compile(r"[A-Za-z]+")
_TOML_LINE = re.compile(r"at line ([0-9]+), column [0-9]+")
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\\\n]*"|'[^'\n]*')"""
_TOML_KEY = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART}){{0,7}})\s*=")


class NotReadable(Exception):
    """An error: the text is malformed. ``args[0]`` is the reason, ``line`` the place."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.line = line


class OutOfRange(float):
    """A number that is too large to be one here.

    It spoils the value that contains it, and nothing else of the file.
    """

    def __new__(cls) -> OutOfRange:
        """Create it."""
        return super().__new__(cls, "inf")


@dataclass(slots=True)
class Document:
    """The content of a file, with lines."""

    value: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    """The lines, by the names and numbers that lead to a member."""
    repeated: dict[KeyPath, int] = field(default_factory=dict)
    """The members that occur twice, with the line of the second; the first one counts."""
    lenient: dict[str, int] = field(default_factory=dict)
    """The deviations from JSON, "comments" and "trailing commas", with the first line of each."""

    def check(self, lenient: Collection[str]) -> None:
        """Raise ``NotReadable`` for a deviation that is not in ``lenient``."""
        for kind, line in self.lenient.items():
            if kind not in lenient:
                raise NotReadable(f"this program's file may have no {kind}; remove it", line)

    def line(self, path: KeyPath) -> int | None:
        """Return the line of this member, or of the nearest one around it that is known."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


def read_json(text: str) -> Document:
    """Parse JSON, with comments (``//`` and ``/* */``) and trailing commas.

    The document's ``check`` may refuse those. Raises ``NotReadable``.
    """
    return _JsonReader(text).read()


class _JsonReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._document = Document()

    def read(self) -> Document:
        self._document.value, end = self._value(self._blank(0), (), 0)
        end = self._blank(end)
        if end < len(self._text):
            raise self._wrong("there is something after the end of the document", end)
        return self._document

    def _value(self, at: int, path: KeyPath, depth: int) -> tuple[Any, int]:
        sign = self._text[at : at + 1]
        if sign == '"':
            return self._string(at)
        if sign in ("{", "["):
            if depth >= _MAX_DEPTH:
                raise self._wrong(f"it is nested deeper than {_MAX_DEPTH} levels", at)
            return (self._object if sign == "{" else self._array)(at + 1, path, depth + 1)
        number = _NUMBER.match(self._text, at)
        if number is not None:
            return self._number(number), number.end()
        word = _WORD.match(self._text, at)
        if word is not None and word[0] in _CONSTANTS:
            return _CONSTANTS[word[0]], word.end()
        if not sign:
            raise self._wrong("it ends before a value", at)
        raise self._wrong("a value is missing", at)

    def _object(self, at: int, path: KeyPath, depth: int) -> tuple[dict[str, Any], int]:
        members: dict[str, Any] = {}
        at = self._blank(at)
        while self._text[at : at + 1] != "}":
            if self._text[at : at + 1] != '"':
                raise self._wrong('expected a name in double quotes, or "}"', at)
            start = at
            name, at = self._string(at)
            here = (*path, name) if depth <= _PLACED_DEPTH else path
            if name in members:
                if len(self._document.repeated) < _MAX_REPEATED:
                    self._document.repeated[*path, name] = self._line(start)
            elif depth <= _PLACED_DEPTH:
                self._document.lines[here] = self._line(start)
            at = self._blank(at)
            if self._text[at : at + 1] != ":":
                raise self._wrong("expected a colon after the name", at)
            value, at = self._value(self._blank(at + 1), here, depth)
            members.setdefault(name, value)
            at = self._next(at, "}")
        return members, at + 1

    def _array(self, at: int, path: KeyPath, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        at = self._blank(at)
        while self._text[at : at + 1] != "]":
            here = (*path, len(items)) if depth <= _PLACED_DEPTH else path
            if depth <= _PLACED_DEPTH:
                self._document.lines[here] = self._line(at)
            value, at = self._value(at, here, depth)
            items.append(value)
            at = self._next(at, "]")
        return items, at + 1

    def _next(self, at: int, closing: str) -> int:
        """Past a comma, to the next member or to ``closing``."""
        at = self._blank(at)
        sign = self._text[at : at + 1]
        if sign == closing:
            return at
        if sign != ",":
            raise self._wrong(f'expected a comma or "{closing}"', at)
        after = self._blank(at + 1)
        if self._text[after : after + 1] == closing:
            self._document.lenient.setdefault("trailing commas", self._line(at))
        return after

    def _string(self, at: int) -> tuple[str, int]:
        try:
            text, end = scanstring(self._text, at + 1, True)
        except json.JSONDecodeError as error:
            raise self._wrong(f"a text in quotes cannot be read: {error.msg}", at) from None
        return text, end

    def _number(self, match: re.Match[str]) -> int | float:
        whole, fraction, exponent = match.groups()
        if fraction is None and exponent is None:
            return int(whole) if len(whole) <= _MAX_DIGITS else OutOfRange()
        number = float(match[0])
        return number if math.isfinite(number) else OutOfRange()

    def _blank(self, at: int) -> int:
        """Past white space and comments."""
        text = self._text
        while True:
            at = _NOTHING_SEEN.match(text, at).end()  # type: ignore[union-attr]
            if text[at : at + 1] != "/":
                return at
            comment = _COMMENT.match(text, at)
            if comment is None:
                raise self._wrong("a comment does not end, or is not one", at)
            self._document.lenient.setdefault("comments", self._line(at))
            at = comment.end()

    def _line(self, at: int) -> int:
        return bisect_right(self._breaks, at - 1) + 1

    def _wrong(self, why: str, at: int) -> NotReadable:
        return NotReadable(why, self._line(at))


# ------------------------------------------------------------------------ TOML


def read_toml(text: str) -> Document:
    """Raise ``NotReadable``.

    Lines are found by a second look at the text, which takes ``name =`` and ``[table]`` wherever
    they begin a line: within a text of several lines it may take words for names, and then gives a
    wrong line, and nothing else.
    """
    text = text.replace("\r\n", "\n")
    if len(text) > _MAX_TOML:
        raise NotReadable(f"it has more than {_MAX_TOML:,} characters")
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if line.count(".") > _MAX_DOTS:
            raise NotReadable(f"it has more than {_MAX_DOTS} dots", number)
    readable, long = _without_long_numbers(text)
    try:
        value = tomllib.loads(readable)
    except tomllib.TOMLDecodeError as error:
        why = str(error)
        place = _TOML_LINE.search(why)
        reason = why.partition(" (at ")[0]
        raise NotReadable(f"it is not TOML: {reason}", int(place[1]) if place else None) from None
    except RecursionError:
        raise NotReadable("it is nested too deep") from None
    if _depth(value) > _MAX_DEPTH:
        raise NotReadable(f"it is nested deeper than {_MAX_DEPTH} levels")
    return Document(_in_range(value, long), _toml_lines(lines))


def _without_long_numbers(text: str) -> tuple[str, dict[str, str]]:
    """Return the text with short numbers for the long ones, and the originals.

    Python refuses to parse the long ones. Such digits may as well be part of a text or a name.
    """
    start = 0
    while not start or str(start)[:20] in text:
        start = (10**19 + secrets.randbelow(9 * 10**19)) * 10**11
    shorter: dict[str, str] = {}

    def replaced(match: re.Match[str]) -> str:
        return shorter.setdefault(match[0], str(start + len(shorter)))

    return _LONG_NUMBER.sub(replaced, text), {short: long for long, short in shorter.items()}


def _in_range(value: Any, long: Mapping[str, str]) -> Any:
    """Return the value with the originals, and ``OutOfRange`` for numbers."""
    match value:
        case bool():
            return value
        case int():
            too_large = value.bit_length() > _MAX_BITS or str(abs(value)) in long
            return OutOfRange() if too_large else value
        case str() if long:
            return _PLACEHOLDER.sub(lambda match: long.get(match[0], match[0]), value)
        case dict():
            return {_in_range(name, long): _in_range(each, long) for name, each in value.items()}
        case list():
            return [_in_range(each, long) for each in value]
    return value


def _toml_lines(lines: list[str]) -> dict[KeyPath, int]:
    found: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("["):
            header = line.partition("]")[0].strip("[ \t")
            table = path = _toml_path(header) or table
        else:
            key = _TOML_KEY.match(line)
            path = (*table, *_toml_path(key[1])) if key else ()
        for end in range(1, min(len(path), _PLACED_DEPTH) + 1):
            found.setdefault(path[:end], number)
    return found


def _toml_path(name: str) -> KeyPath:
    """Return the parts of a dotted name; empty if it is not one."""
    try:
        value: Any = tomllib.loads(f"{name} = 0") if len(name) < 1_000 else 0
    except (tomllib.TOMLDecodeError, RecursionError):
        return ()
    path: list[str] = []
    while isinstance(value, dict) and len(value) == 1:
        ((part, value),) = value.items()
        path.append(part)
    return tuple(path)


def _depth(value: Any) -> int:
    deepest, left = 0, [(value, 1)]
    while left:
        each, depth = left.pop()
        deepest = max(deepest, depth)
        if isinstance(each, dict):
            left += ((item, depth + 1) for item in each.values())
        elif isinstance(each, list):
            left += ((item, depth + 1) for item in each)
    return deepest
