"""A question as lines of a terminal, laid out so that untrusted text cannot imitate ours.

Our own words start at the left margin. Text from a server, a model or a caller is behind a
mark, on each line that it takes::

    Tool         | delete_everything_that_is
                 : _old                           the line above goes on
                 + 12 more lines                  a remark of ours

Lines are broken here, because a terminal that wraps a line continues it at the left margin. So
every character that is not certainly one cell wide is counted as two: terminals know newer versions
of Unicode than Python does, and draw symbols as emoji. A full line on the screen was broken here.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .safe_text import safe_text

__all__ = [
    "MIN_COLUMNS",
    "SHORT",
    "WHOLE",
    "Fold",
    "Page",
    "Row",
    "broken",
    "cells",
    "json_rows",
    "prose",
    "runs_backwards",
]

MIN_COLUMNS = 24
"""The columns that a terminal must have: less leaves no room next to the marks."""
_MAX_COLUMNS = 100
_LABEL_COLUMNS = 13


class Row(NamedTuple):
    """A row of a page."""

    text: str
    ours: bool = False
    """Whether this is a remark of this package; otherwise it is foreign text, not yet made safe."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A limit for the shown part of a JSON value."""

    text: int
    """Characters of one string."""
    members: int
    """The members of one object or array."""
    depth: int


SHORT = (
    Fold(text=320, members=20, depth=6),
    Fold(text=160, members=12, depth=4),
    Fold(text=80, members=8, depth=2),
    Fold(text=40, members=6, depth=1),
)
"""The limits from loose to tight; the first that fits is used, so that one member cannot hide the
others."""
WHOLE = (Fold(text=sys.maxsize, members=sys.maxsize, depth=sys.maxsize),)
"""A limit that leaves nothing out."""


class Page:
    """The lines of one question, for a terminal of ``width`` columns."""

    def __init__(self, width: int, encoding: str = "utf-8") -> None:
        self.lines: list[str] = []
        self.folded: bool = False
        """Whether something was left out."""
        self.cut: bool = False
        """Whether text was left out because lines were missing."""
        self.quotes: bool = False
        """Whether foreign text is on it."""
        self.columns = width
        self._width = min(width, _MAX_COLUMNS) - 1  # some terminals break a line that is just full
        self._encoding = encoding

    def part(self, lines: int) -> Page:
        """Return the first ``lines`` lines, on a page of their own; the rest stays here."""
        part = Page(self.columns, self._encoding)
        part.quotes = self.quotes
        part.lines, self.lines = self.lines[:lines], self.lines[lines:]
        return part

    def say(self, text: str = "", indent: int = 0) -> None:
        """Our own words."""
        pieces = broken(text, self._width - indent)
        self.lines.extend(" " * indent + piece for piece in pieces)

    def fact(self, label: str, text: str) -> None:
        """Our own words, with a label."""
        for number, piece in enumerate(broken(text, self._width - _LABEL_COLUMNS - 2)):
            self.lines.append(f"{'' if number else label:<{_LABEL_COLUMNS + 2}}{piece}")

    def quote(self, label: str, rows: Iterable[Row], most: int) -> None:
        """Show a foreign text, in at most ``most`` lines."""
        self.quotes = True
        until = len(self.lines) + most
        left = 0
        backwards = False
        for row in rows:
            if len(self.lines) >= until:
                left += 1
                continue
            self.folded |= row.ours
            text = row.text if row.ours else self._safe(row.text)
            backwards = backwards or runs_backwards(text)
            for number, piece in enumerate(broken(text, self._width - _LABEL_COLUMNS - 2)):
                if len(self.lines) >= until:
                    left += 1
                    break
                mark = "+" if row.ours else ":" if number else "|"
                self._mark(label, mark, piece)
                label = ""
        if left:
            self.folded = self.cut = True
            self._remark(f"{left:,} more lines")
        if backwards:
            self._remark("letters that run right to left: the order may differ here")

    def quote_json(self, label: str, text: str, folds: Sequence[Fold], most: int) -> None:
        """Show foreign JSON, folded as little as ``most`` lines allow."""
        for fold in folds:
            trial = Page(self.columns, self._encoding)
            trial.quote(label, json_rows(text, fold), most)
            if not trial.cut:
                break
        self.lines += trial.lines
        self.quotes = True
        self.folded |= trial.folded

    def _remark(self, text: str) -> None:
        for piece in broken(text, self._width - _LABEL_COLUMNS - 2):
            self._mark("", "+", piece)

    def _mark(self, label: str, mark: str, text: str) -> None:
        self.lines.append(f"{label:<{_LABEL_COLUMNS}}{mark} {text}".rstrip(" "))

    def _safe(self, text: str) -> str:
        text = safe_text(text, len(text))
        return text.encode(self._encoding, "backslashreplace").decode(self._encoding)


def broken(text: str, width: int) -> Iterator[str]:
    """Yield ``text`` in pieces of at most ``width`` cells, divided between words if possible."""
    start, blank, room = 0, -1, width
    for place, char in enumerate(text):
        room -= cells(char)
        if room < 0:
            end = blank + 1 if blank >= start + (place - start) // 2 else place
            while end > start + 1 and unicodedata.category(text[end])[0] == "M":
                end -= 1  # a mark stays with its letter
            yield text[start:end]
            start = end
            room = width - sum(map(cells, text[start : place + 1]))
        if char == " ":
            blank = place
    yield text[start:]


_NARROW = ("N", "Na", "H")
_ALPHABETS = (
    *range(0x00A0, 0x0900),  # Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic and their marks
    *range(0x0E00, 0x0E80),  # Thai
    *range(0x10A0, 0x1100),  # Georgian
    *range(0x1E00, 0x2000),  # Latin and Greek with marks
    *range(0x2010, 0x2028),  # dashes and quotation marks
    *range(0xFF61, 0xFFA0),  # half-width Katakana
)
_ONE_CELL = frozenset(
    char for char in map(chr, _ALPHABETS) if unicodedata.east_asian_width(char) in _NARROW
)
"""The characters that certainly no terminal draws wider than one cell."""


def cells(char: str) -> int:
    """Return the most cells that a terminal may take to draw it."""
    return 1 if char.isascii() or char in _ONE_CELL else 2


def runs_backwards(text: str) -> bool:
    """Whether letters of it run right to left, so that lines are not shown in the order of text."""
    if text.isascii():
        return False
    return any(unicodedata.bidirectional(char) in ("R", "AL") for char in text)


def prose(text: str, most: int) -> Iterator[Row]:
    """Yield a text of several lines, at most ``most`` characters of it."""
    for line in text[:most].split("\n"):
        yield Row(line)
    if len(text) > most:
        yield _more(len(text) - most, "characters")


def json_rows(text: str, fold: Fold, first: Iterable[str] = ()) -> Iterator[Row]:
    """JSON, one member a line.

    Numbers are shown as they are written. Of an object, the members named in ``first`` come first,
    in that order.
    """
    value = json.loads(text, parse_int=_Number, parse_float=_Number)
    if isinstance(value, dict):
        value = {**{name: value[name] for name in first if name in value}, **value}
    return _value(value, fold, "", "", "")


class _Number(str):
    __slots__ = ()


def _value(value: Any, fold: Fold, indent: str, before: str, after: str) -> Iterator[Row]:
    match value:
        case _Number():
            yield Row(f"{indent}{before}{value}{after}")
        case str():
            yield from _string(value, fold, indent + before, after)
        case dict() | list() if value:
            opening, closing = "{}" if isinstance(value, dict) else "[]"
            yield Row(f"{indent}{before}{opening}")
            if len(indent) // 2 < fold.depth:
                yield from _members(value, fold, indent + "  ")
            else:
                yield _more(len(value), "members")
            yield Row(f"{indent}{closing}{after}")
        case _:
            yield Row(f"{indent}{before}{json.dumps(value)}{after}")


def _members(value: dict[str, Any] | Sequence[Any], fold: Fold, indent: str) -> Iterator[Row]:
    keys = list(value)[: fold.members] if isinstance(value, dict) else None
    members = list(value.values()) if isinstance(value, dict) else value
    for number, member in enumerate(members[: fold.members], 1):
        after = "," if number < len(value) else ""
        before = ""
        if keys is not None:
            *folded, (before, _) = _string(keys[number - 1], fold, "", ": ")
            yield from (
                Row(row.text if row.ours else indent + row.text, row.ours) for row in folded
            )
        yield from _value(member, fold, indent, before, after)
    if len(value) > fold.members:
        yield _more(len(value) - fold.members, "members")


def _string(text: str, fold: Fold, before: str, after: str) -> Iterator[Row]:
    left = len(text) - fold.text
    if left <= 0:
        yield Row(before + json.dumps(text, ensure_ascii=False) + after)
        return
    tail = fold.text // 4  # the end as well: a long argument hides there what matters
    yield Row(before + json.dumps(text[: fold.text - tail], ensure_ascii=False)[:-1])
    yield _more(left, "characters")
    yield Row(json.dumps(text[-tail:], ensure_ascii=False)[1:] + after)


def _more(count: int, what: str) -> Row:
    return Row(f"{count:,} more {what if count > 1 else what[:-1]}", ours=True)
