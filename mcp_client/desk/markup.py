"""HTML in which the text of others stays text.

``element`` escapes every child and every attribute that is not ``Html`` already, and spells out
invisible characters (``safe_text``): text that was not considered is safe. ``filled`` does the same
with the fields of a template.

**Lines.** ``block`` shows text of others as lines, no more of them than there is room for. Markup
takes many times the text that it shows: a line feed, two characters of JSON, becomes an element. So
the markup that is sent is counted, and no line is rendered that is not sent. The number of lines
left out is returned, for the caller to show and to link to.
"""

from __future__ import annotations

import functools
import html
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import NamedTuple

from ..runtime.console_layout import WHOLE, Fold, json_rows
from ..runtime.safe_text import safe_text

__all__ = [
    "CARD",
    "PART",
    "PROSE",
    "Block",
    "Html",
    "Line",
    "Part",
    "Room",
    "block",
    "element",
    "filled",
    "joined",
    "json_lines",
    "prose_lines",
    "text_of",
]

_VOID = frozenset({"br", "input", "link", "meta"})
_PAIR = re.compile(r"\\(.)", re.DOTALL)
_TOKEN = re.compile(r"\\\\|(?:\\u\{[0-9a-f]+\})+|\\n")
_MEMBER = re.compile(r'  ("(?:[^"\\]|\\.)*"): ')
"""The beginning of a row with a member of the whole. Members within it are further to the right,
and the end of a text that is folded, which begins a row, has its quotation marks escaped."""
_NONE: Mapping[str, str] = {}
_MAX_TITLE_CHARS = 120
_MAX_LINE_CHARS = 20_000
"""Characters of one line; what is longer goes on in the next."""


class Html(str):
    """Markup, to be sent as it is."""

    __slots__ = ()


Part = Html | str | None


def text_of(text: str) -> Html:
    """Return a foreign text as markup that shows all of it."""
    return Html(html.escape(safe_text(text, sys.maxsize)))


def joined(parts: Iterable[Part]) -> Html:
    """Return the parts, one after the other."""
    return Html(
        "".join(
            part if isinstance(part, Html) else text_of(part) for part in parts if part is not None
        )
    )


def element(tag: str, *children: Part, **attributes: str | bool | None) -> Html:
    """Return ``<tag>`` with its children.

    In names of attributes ``_`` becomes ``-``, and one at the end is dropped (``class_``); True is
    an attribute without value, None and False leave the attribute out.
    """
    written = "".join(
        f" {name.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{text_of(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    start = f"<{tag}{written}>"
    return Html(start if tag in _VOID else f"{start}{joined(children)}</{tag}>")


def filled(name: str, **fields: Part) -> Html:
    """Return a file of ``templates`` with ``fields`` in the places of their names."""
    return Html(_template(name).substitute({key: joined([one]) for key, one in fields.items()}))


@functools.cache
def _template(name: str) -> Template:
    path = Path(__file__).parent / "templates" / name
    return Template("".join(path.read_text(encoding="utf-8").splitlines()))


# ---------------------------------------------------------------------- texts of others


@dataclass(frozen=True, slots=True)
class Room:
    """A limit for the part of a text that one page shows."""

    lines: int
    """Lines of the text."""
    markup: int
    """Characters of markup."""


_LONG_LINES = 18
_LONG_MARKUP = 6_000
CARD = Room(lines=150, markup=30_000)
PROSE = Room(lines=40, markup=6_000)
PART = Room(lines=4_000, markup=1_000_000)


class Line(NamedTuple):
    """A line of a block."""

    text: str
    """The text, not yet made safe."""
    style: str = "l"
    is_json: bool = False


class Block(NamedTuple):
    """A part of a text as lines."""

    html: Html
    start: int
    end: int
    """The number of the first line after it; lines are counted from 0."""
    lines: int
    """The number of lines in all."""

    @property
    def left(self) -> int:
        """The number of lines that are left out."""
        return self.lines - self.end


def json_lines(
    text: str,
    fold: Fold = WHOLE[0],
    titles: Mapping[str, str] = _NONE,
    *,
    with_titles: bool = False,
) -> Iterator[Line]:
    """Return JSON, one member a line.

    A line feed in a string is shown and starts a line. The members named in ``titles`` come first,
    in that order; ``with_titles`` puts its title above each.
    """
    for row in json_rows(text, fold, titles):
        if row.ours:
            yield Line(row.text, "l note")
            continue
        member = _MEMBER.match(row.text) if with_titles else None
        if member is not None:
            title = titles.get(json.loads(member[1]), "")
            if title:
                yield Line(" ".join(title[:_MAX_TITLE_CHARS].split()), "l title")
        start, style = 0, "l"
        for pair in _PAIR.finditer(row.text):
            if pair[1] == "n" and pair.end() < len(row.text):
                yield from _short(row.text[start : pair.end()], style, True)
                start, style = pair.end(), "l more"
        yield from _short(row.text[start:], style, True)


def prose_lines(text: str) -> Iterator[Line]:
    """Text of several lines."""
    for line in text.split("\n"):
        yield from _short(line or " ", "l", False)


def block(lines: Iterable[Line], label: str, room: Room, start: int = 0) -> Block:
    """Return the lines from ``start`` that there is room for."""
    parts: list[Html] = []
    number, end, markup = 0, start, 0
    for number, line in enumerate(lines, 1):
        if number <= start or end != number - 1 or len(parts) >= room.lines:
            continue
        one = _element(line)
        markup += len(one)
        if markup > room.markup:
            continue
        parts.append(one)
        end = number
    # A long one scrolls on a card, so that a keyboard must reach it, and no other.
    is_long = room is not PART and (len(parts) > _LONG_LINES or markup > _LONG_MARKUP)
    inner = element(
        "pre",
        joined(parts),
        class_="block long" if is_long else "block",
        tabindex="0" if is_long else None,
        role="group",
        aria_label=label,
    )
    return Block(inner, start, max(end, start), number)


def _short(text: str, style: str, is_json: bool) -> Iterator[Line]:
    """Yield ``text`` as lines of bounded length, none ending within an escape of JSON."""
    start = 0
    while len(text) - start > _MAX_LINE_CHARS:
        end = start + _MAX_LINE_CHARS
        piece = text[start:end]
        if is_json and (len(piece) - len(piece.rstrip("\\"))) % 2:
            end -= 1
        yield Line(text[start:end], style, is_json)
        start, style = end, "l more"
    yield Line(text[start:], style, is_json)


def _element(line: Line) -> Html:
    if not line.is_json:
        # Prose in letters that run right to left runs so; code and JSON do not.
        way = None if "code" in line.style else "auto"
        return element("span", text_of(line.text), class_=line.style, dir=way)
    shown = safe_text(line.text, sys.maxsize)
    parts: list[Html] = []
    end = 0
    for token in _TOKEN.finditer(shown):
        parts.append(Html(html.escape(shown[end : token.start()])))
        end = token.end()
        if token[0] == "\\\\":  # a backslash of the text itself, which JSON doubles
            parts.append(Html(token[0]))
        else:
            parts.append(element("span", Html(token[0]), class_="escape"))
    return element("span", *parts, Html(html.escape(shown[end:])), class_=line.style)
