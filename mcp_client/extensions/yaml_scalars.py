"""The scalars of YAML 1.2: what plain text means in the core schema, and quoted text.

YAML 1.2.2, chapters 5.7 (escapes), 7.3 (flow scalars) and 10.3 (core schema).
"""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["BadYaml", "double_quoted", "plain_value", "single_quoted"]

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?[0-9]+")
_OTHER_INT = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_NUMBER = 300
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "\t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}


class BadYaml(ValueError):
    """The front matter cannot be read; the message says why, as the end of a sentence."""


def plain_value(text: str) -> Any:
    """What text without quotation marks means: null, a boolean, a number, or itself."""
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_JSON.fullmatch(text):
        raise BadYaml("it has a number that JSON does not have")
    is_number = _FLOAT.fullmatch(text)
    if not is_number and not _OTHER_INT.fullmatch(text):
        return text
    if len(text) > _LONGEST_NUMBER:
        raise BadYaml(f"it has a number of more than {_LONGEST_NUMBER} characters")
    if _INT.fullmatch(text):
        return int(text)
    if not is_number:
        return int(text, 0)
    number = float(text)
    if math.isinf(number):
        raise BadYaml("it has a number that JSON does not have")
    return number


def single_quoted(raw: str) -> str:
    """The text between apostrophes, perhaps over several lines."""
    return _joined(raw.split("\n")).replace("''", "'")


def double_quoted(raw: str) -> str:
    """The text between quotation marks, perhaps over several lines. Raises ``BadYaml``."""
    return _ESCAPE.sub(_unescaped, _joined(raw.split("\n"), escapes=True))


def _joined(lines: list[str], escapes: bool = False) -> str:
    """Lines of a quoted text: a break is a space, and each empty line a line feed."""
    parts: list[str] = []
    breaks, joins = 0, ""
    last = len(lines) - 1
    for number, line in enumerate(lines):
        if number:
            line = line.lstrip(" \t")
        escaped = False
        if number < last:
            bare = line.rstrip(" \t")
            escaped = escapes and (len(bare) - len(bare.rstrip("\\"))) % 2 == 1
            # An escaped blank at the end of a line belongs to the text.
            line = line if escaped and bare != line else bare
            if escaped and bare != line:
                raise BadYaml("it has an escaped blank at the end of a line")
        if number and not line and number < last:
            if not joins:
                raise BadYaml("it has an empty line after an escaped end of a line")
            breaks += 1
            continue
        if number:
            parts.append("\n" * breaks if breaks else joins)
        breaks, joins = 0, " "
        if escaped:
            line, joins = line[:-1], ""
        parts.append(line)
    return "".join(parts)


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code is None:
        char = _ESCAPES.get(found[4])
        if char is None:
            raise BadYaml("it has an unknown escape in a quoted text")
        return char
    number = int(code, 16)
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise BadYaml("it has an escape that is not a character")
    return chr(number)
