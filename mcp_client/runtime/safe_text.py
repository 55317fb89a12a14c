"""Text from a server, made safe for a person to look at.

A server writes names, descriptions and arguments that end up on a terminal, where escape
sequences draw, invisible characters hide and bidirectional controls reorder. ``safe_text`` shows
such characters instead of obeying them.
"""

from __future__ import annotations

import logging
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator

from ..errors import McpError

__all__ = [
    "close_names",
    "end_mark",
    "invisible",
    "is_invisible",
    "near",
    "one_line",
    "safe_text",
    "with_plain_emoji",
    "without_markup",
]

_PROCESS_KEY = os.urandom(32)
_IN_MARKUP = r"[<>&@*`~\[\]|#]|\\(?![0-9A-Za-z])|:(?=//)|(?<=\b[wW]{3})\.|(?<![^\W_])_|_(?![^\W_])"
"""Signs of markup: of a link with words of its own, of a mention, of hidden or struck-out text."""
_TO_FULL_WIDTH = 0xFEE0
"""The distance from an ASCII character to the wide one that looks like it."""
_MAX_NAMES = 20
"""The number of names that an error lists."""
_MAX_NAME_CHARS = 60
_MAX_COMPARED_CHARS = 200
_MAX_MARKS = 4
"""The marks on one letter that languages need. More of them draw over the lines around."""
_MARKS = ("Mn", "Me", "Mc")
_DRAWN_WITHIN = frozenset(map(chr, (*range(0x1160, 0x1200), *range(0xD7B0, 0xD800))))
"""Vowels and finals of Korean syllables: drawn within the letter before them, as a mark is."""
_FORBIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that Unicode wants drawn as nothing (Default_Ignorable_Code_Point): fillers, and
# the variation selectors, which can carry any hidden message. The blank Braille pattern is drawn as
# nothing, too.
_DRAWN_AS_NOTHING = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
_PICTURES = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u2388\u23cf"
    "\u23e9-\u23f3\u23f8-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2605\u2607-\u2612"
    "\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2714\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747"
    "\u274c\u274e\u2753-\u2755\u2757\u2763-\u2767\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935"
    "\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001f0ff\U0001f10d-\U0001f10f\U0001f12f\U0001f16c-\U0001f171\U0001f17e\U0001f17f"
    "\U0001f18e\U0001f191-\U0001f19a\U0001f1ad-\U0001f1e5\U0001f201-\U0001f20f\U0001f21a\U0001f22f"
    "\U0001f232-\U0001f23a\U0001f23c-\U0001f23f\U0001f249-\U0001f3fa\U0001f400-\U0001f53d"
    "\U0001f546-\U0001f64f\U0001f680-\U0001f6ff\U0001f774-\U0001f77f\U0001f7d5-\U0001f7ff"
    "\U0001f80c-\U0001f80f\U0001f848-\U0001f84f\U0001f85a-\U0001f85f\U0001f888-\U0001f88f"
    "\U0001f8ae-\U0001f8ff\U0001f90c-\U0001f93a\U0001f93c-\U0001f945\U0001f947-\U0001faff"
)
"""Emoji: Extended_Pictographic of Unicode."""
_JOINS = re.compile("[\ufe0e\ufe0f\u200d]")
"""The characters that choose the look of an emoji, or join several into one."""
_ONE = f"[{_PICTURES}][\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]?"
_EMOJI = f"{_ONE}(?:\u200d{_ONE})*|[#*0-9]\ufe0f?\u20e3"
"""An emoji, or several that are joined, or a keycap. It is compiled when first used."""


def safe_text(text: object, limit: int = 2_000, *, lines: bool = False) -> str:
    r"""Return ``text`` with invisible and misleading characters written as ``\u{...}``.

    Those are control, format, private and unassigned characters, and those drawn as nothing; also
    combining marks without a letter, or too many on one. Characters that choose the look of an
    emoji, or join several into one, are part of that emoji.

    Args:
        text: The text, or an object with ``str()``.
        limit: The maximum characters of the text. The number of others follows.
        lines: Whether line feeds and tabs stay; otherwise they are shown like any control
            character.

    Returns:
        The text, safe to show to a person.
    """
    text = str(text)
    safe = text[:limit]
    if not safe.isascii() or not safe.isprintable():
        safe = "".join(_spelled(safe, lines))
    left = len(text) - limit
    return f"{safe}… ({left} more characters)" if left > 0 else safe


def one_line(text: object) -> str:
    """Return ``text`` with a blank in place of each line feed or tab and the blanks around it."""
    return re.sub(r"[ \r]*[\n\t][ \r\n\t]*", " ", str(text).strip())


def without_markup(text: object, limit: int = 2_000) -> str:
    """``text`` as one line for a chat with any markup: it mentions no one and links nowhere.

    Signs that Slack, Discord, Teams, Telegram or Markdown read as markup are replaced by wide ones
    that look like them, so that the text is for people to read, not to copy. An underscore within a
    word stays. Characters that a person would not see are spelled out, as by ``safe_text``.
    """
    text = str(text)
    safe = safe_text(one_line(text[:limit]), limit)
    if len(text) > limit:
        safe += f"… ({len(text) - limit} more characters)"
    return re.sub(_IN_MARKUP, lambda sign: chr(ord(sign[0]) + _TO_FULL_WIDTH), safe)


class _ErrorsOnOneLine(logging.Filter):
    """Writes an error in a log line on one line, because a server's error may have several."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                one_line(each) if isinstance(each, McpError) else each for each in record.args
            )
        return True


logging.getLogger("mcp_client").addFilter(_ErrorsOnOneLine())


def _spelled(text: str, lines: bool) -> Iterator[str]:
    marks = _MAX_MARKS  # at the start a mark has no letter to follow
    for char, drawn in zip(text, with_plain_emoji(text), strict=True):
        category = unicodedata.category(drawn)
        marks = marks + 1 if category in _MARKS or char in _DRAWN_WITHIN else 0
        if lines and char in "\n\t":
            marks = _MAX_MARKS
            yield char
        elif _seen(drawn, category) and marks <= _MAX_MARKS:
            yield char
        else:
            marks = max(marks, _MAX_MARKS)
            yield f"\\u{{{ord(char):x}}}"


def _seen(char: str, category: str) -> bool:
    return category not in _FORBIDDEN and char not in _DRAWN_AS_NOTHING


def is_invisible(char: str) -> bool:
    """Whether a person sees nothing of ``char``, or only what it does to other characters."""
    return not _seen(char, unicodedata.category(char))


def with_plain_emoji(text: str) -> str:
    """Return ``text`` with an x for each invisible character of an emoji, which has its place."""
    if not _JOINS.search(text):
        return text
    return re.sub(_EMOJI, lambda emoji: _JOINS.sub("x", emoji[0]), text)


def invisible(text: str) -> str:
    """Return the distinct invisible characters of ``text``, by code point, but those of emoji."""
    if text.isascii() and text.isprintable():
        return ""
    return "".join(sorted({char for char in with_plain_emoji(text) if is_invisible(char)}))


def close_names(name: str, names: Iterable[str]) -> list[str]:
    """Return at most three of ``names``, the nearest first."""
    import difflib  # only for a misspelled name

    return difflib.get_close_matches(name[:_MAX_COMPARED_CHARS], list(names), 3)


def near(name: str, names: Iterable[str]) -> str:
    """Return names similar to ``name``, the nearest first, as the end of a sentence."""
    names = list(names)
    close = close_names(name, names)
    if close:
        return f"; did you mean {' or '.join(safe_text(one, _MAX_NAME_CHARS) for one in close)}?"
    listed = ", ".join(safe_text(one, _MAX_NAME_CHARS) for one in names[:_MAX_NAMES])
    return f"; it has: {listed}{', ...' if len(names) > _MAX_NAMES else ''}" if listed else ""


def end_mark(*texts: str, key: bytes = _PROCESS_KEY) -> str:
    """Return eight hexadecimal digits of ``texts``, by which a program or a model knows their end.

    The author of the text does not know the mark, so nothing in it can seem to end it, or to begin
    another text under another name. The same text has the same mark whenever this process shows it
    again, which preserves a provider's prompt cache.
    """
    import hmac  # only now: it loads OpenSSL

    digest = hmac.new(key, digestmod="sha256")
    for text in texts:
        part = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()[:8]
