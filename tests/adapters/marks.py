"""The marks around what a server wrote, taken off so that the rest can be compared."""

from __future__ import annotations

import re

__all__ = ["MARKED", "unmarked"]

_MARK = r"\[end (?P<mark>[0-9a-f]{8})\]"
_END = r"\[end (?P=mark)\]"
MARKED = re.compile(
    rf"(?P<head>[^\n]*?instructions\)) until {_MARK}:(?P<gap>[\n ])(?P<text>.*)(?P=gap){_END}",
    re.DOTALL,
)


def unmarked(said: str) -> str:
    """``said`` without the marks."""
    return MARKED.sub(lambda found: f"{found['head']}:{found['gap']}{found['text']}", said)
