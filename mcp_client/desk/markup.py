"""HTML in which the text of others stays text.

``element`` escapes every child and every attribute that is not ``Html`` already, and spells out the
characters that a person would not see (``safe_text``): what is forgotten is safe.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterable, Sequence

from ..runtime.console_layout import WHOLE, Fold, json_rows, runs_backwards
from ..runtime.safe_text import safe_text

__all__ = ["Html", "Part", "element", "joined", "json_block", "lines_block", "text_of"]

_VOID = frozenset({"br", "input", "link", "meta"})
_TOKEN = re.compile(r"\\\\|\\u\{[0-9a-f]+\}|\\n(?=.)")
_BACKWARDS = "Some letters here run right to left: the order shown may differ from what is sent."


class Html(str):
    """Markup, to be sent as it is."""

    __slots__ = ()


Part = Html | str | None


def text_of(text: str) -> Html:
    """Somebody's text as markup that shows all of it."""
    return Html(html.escape(safe_text(text, sys.maxsize)))


def joined(parts: Iterable[Part]) -> Html:
    return Html(
        "".join(
            part if isinstance(part, Html) else text_of(part) for part in parts if part is not None
        )
    )


def element(tag: str, *children: Part, **attributes: str | bool | None) -> Html:
    """``<tag>`` with its children. In names of attributes ``_`` stands for ``-``, and one at the
    end for nothing (``class_``); True is an attribute without value, None and False are none."""
    written = "".join(
        f" {name.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{text_of(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    start = f"<{tag}{written}>"
    return Html(start if tag in _VOID else f"{start}{joined(children)}</{tag}>")


def json_block(text: str, label: str, folds: Sequence[Fold] = WHOLE) -> Html:
    """JSON, one member a line. A line feed in a string is shown and starts a line."""
    rows = list(json_rows(text, folds[0]))
    lines = [
        element("span", row.text, class_="l note") if row.ours else _json_line(row.text)
        for row in rows
    ]
    return _block(lines, label, any(runs_backwards(row.text) for row in rows))


def lines_block(text: str, label: str) -> Html:
    """Text of several lines."""
    lines = text.split("\n")
    shown = [element("span", line or " ", class_="l") for line in lines]
    return _block(shown, label, runs_backwards(text))


def _block(lines: list[Html], label: str, backwards: bool) -> Html:
    block = element(
        "pre", joined(lines), class_="block", tabindex="0", role="group", aria_label=label
    )
    return joined([block, element("p", _BACKWARDS, class_="hint") if backwards else None])


def _json_line(row: str) -> Html:
    """A line of JSON, in which a backslash of the text itself is doubled."""
    shown = safe_text(row, sys.maxsize)
    parts: list[Html] = []
    lines: list[Html] = []
    end = 0
    for token in _TOKEN.finditer(shown):
        parts.append(Html(html.escape(shown[end : token.start()])))
        end = token.end()
        if token[0] == "\\\\":
            parts.append(Html(token[0]))
            continue
        parts.append(element("span", Html(token[0]), class_="escape"))
        if token[0] == "\\n":
            lines.append(joined(parts))
            parts = []
    lines.append(joined([*parts, Html(html.escape(shown[end:]))]))
    return joined(
        element("span", line, class_="l more" if number else "l")
        for number, line in enumerate(lines)
    )
