"""JSON pointers (RFC 6901): paths into a JSON value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["escape", "parse", "pointer", "resolve"]

_BAD_ESCAPE = re.compile("~(?![01])")


def escape(step: object) -> str:
    """One step of a pointer, with ``~`` and ``/`` escaped."""
    return str(step).replace("~", "~0").replace("/", "~1")


def pointer(steps: Iterable[object]) -> str:
    """The pointer that takes ``steps``: names of members and indices of items."""
    return "".join([f"/{escape(step)}" for step in steps])


def parse(text: str) -> tuple[str, ...]:
    """The steps of a pointer. Raises ``ValueError`` where ``text`` is not one."""
    if not text:
        return ()
    if text[0] != "/":
        raise ValueError("a JSON pointer is empty or begins with '/'")
    if "~" not in text:
        return tuple(text[1:].split("/"))
    if _BAD_ESCAPE.search(text):
        raise ValueError("'~' in a JSON pointer is written '~0', and '/' in a name '~1'")
    steps = text[1:].split("/")
    return tuple([step.replace("~1", "/").replace("~0", "~") for step in steps])


def resolve(value: Any, steps: Iterable[str]) -> Any:
    """Return the value that a pointer leads to. Raises ``LookupError`` if there is none."""
    for step in steps:
        if type(value) is dict:
            value = value[step]
        elif type(value) is list and step.isascii() and step.isdigit() and step[:1] != "0":
            value = value[int(step[:18])]
        elif type(value) is list and step == "0":
            value = value[0]
        else:
            raise LookupError(step)
    return value
