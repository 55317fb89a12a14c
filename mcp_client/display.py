"""Text from a server, made safe for a person to look at.

A server writes names, descriptions and arguments that end up on a terminal, where escape
sequences draw, invisible characters hide and bidirectional controls reorder. ``safe_text`` shows
such characters instead of obeying them.
"""

from __future__ import annotations

import unicodedata

__all__ = ["safe_text"]

_FORBIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def safe_text(text: object, limit: int = 2_000, *, lines: bool = False) -> str:
    """``text`` with every control, format, private or unassigned character written as ``\\u{...}``.

    At most ``limit`` characters of it, and then how many were left out. ``lines=True`` keeps line
    feeds; otherwise they are shown like any other control character.
    """
    text = str(text)
    shown = text[:limit]
    if not shown.isascii() or not shown.isprintable():
        shown = "".join(
            char
            if (lines and char == "\n") or unicodedata.category(char) not in _FORBIDDEN
            else f"\\u{{{ord(char):x}}}"
            for char in shown
        )
    left = len(text) - limit
    return f"{shown}… ({left} more characters)" if left > 0 else shown
