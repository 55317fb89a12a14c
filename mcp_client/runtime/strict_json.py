"""JSON from files and other documents, read strictly.

Python's own reader takes what JSON does not have (NaN, Infinity) and keeps the last of two members
with the same name. Where a document decides something (who the issuer is, what was approved), two
programs could then read different things in it. So each is an error here, as is a document that is
nested too deep: the reader would end in ``RecursionError`` somewhere else.

Messages of a server are read by ``protocol/jsonrpc.py``, which must take what servers send.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["read_json", "read_json_object"]

_MAX_DEPTH = 64
_BRACKET_OR_STRING = re.compile(r'[\[{]|[\]}]|"(?:[^"\\]|\\.)*+"?')


def read_json(document: str | bytes, *, max_depth: int | None = _MAX_DEPTH) -> Any:
    """The value of ``document``, bytes being UTF-8 with or without a byte order mark.

    Raises ``ValueError``, with a reason to show, where it is not strict JSON. ``max_depth=None`` is
    for files of our own: their depth is not looked at before they are parsed, which is quicker.
    """
    try:
        text = document.decode("utf-8-sig") if isinstance(document, bytes) else document
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if max_depth is not None and text.count("{") + text.count("[") > max_depth < _depth(text):
        raise ValueError(f"it is nested deeper than {max_depth} levels")
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} in line {error.lineno}") from None


def read_json_object(
    document: str | bytes, *, max_depth: int | None = _MAX_DEPTH
) -> dict[str, Any]:
    """The same, where the value has to be an object."""
    value = read_json(document, max_depth=max_depth)
    if type(value) is not dict:
        raise ValueError("it is not a JSON object")
    return value


def _depth(text: str) -> int:
    depth = deepest = 0
    for match in _BRACKET_OR_STRING.finditer(text):
        sign = match[0][0]
        if sign != '"':
            depth += 1 if sign in "[{" else -1
            deepest = max(deepest, depth)
    return deepest


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a value of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(f"{text[:40]} is too large for a number")
    return number


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twice[:80]!r} appears twice")
    return members


_decoder = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique_members
)
