"""What a misspelled name may have been meant to be, for errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .safe_text import safe_text

__all__ = ["close_names", "near"]

_SHOWN = 20
_NAME_CHARS = 60
_COMPARED_CHARS = 200


def close_names(name: str, names: Iterable[str]) -> list[str]:
    """At most three of ``names``, the nearest first."""
    return difflib.get_close_matches(name[:_COMPARED_CHARS], list(names), 3)


def near(name: str, names: Iterable[str]) -> str:
    """What there is instead of ``name``, the nearest first, as the end of a sentence."""
    names = list(names)
    close = close_names(name, names)
    if close:
        return f"; did you mean {' or '.join(safe_text(one, _NAME_CHARS) for one in close)}?"
    listed = ", ".join(safe_text(one, _NAME_CHARS) for one in names[:_SHOWN])
    return f"; it has: {listed}{', ...' if len(names) > _SHOWN else ''}" if listed else ""
