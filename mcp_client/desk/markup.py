"""HTML in which the text of others stays text.

``element`` escapes every child and every attribute that is not ``Html`` already, and spells out the
characters that a person would not see (``safe_text``): what is forgotten is safe.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable

from ..runtime.safe_text import safe_text

__all__ = ["Html", "Part", "element", "joined", "text_of"]

_VOID = frozenset({"br", "input", "link", "meta"})


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
