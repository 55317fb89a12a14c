"""Parse JSON from files and other documents strictly.

Python's own parser accepts what JSON does not have (NaN, Infinity) and uses the last of two members
with the same name. If a document decides something (who the issuer is, what was approved), two
programs could then see different values in it. So each is an error here, as is a document that is
nested too deep: the parser would end in ``RecursionError`` somewhere else.

Messages of a server are parsed by ``protocol/jsonrpc.py``, which must accept what servers send.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["is_deeper", "read_json", "read_json_object", "read_row"]

_MAX_DEPTH = 64
_LARGE_BYTES = 64 * 1024
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
# Searched for by a function of ``re``, which compiles it when it is first needed: seldom.
_STRINGS = rb'(?s:"(?:[^"\\]|\\.)*+"?)'


def read_json(document: str | bytes, *, max_depth: int | None = _MAX_DEPTH) -> Any:
    """Return the value of ``document``, bytes being UTF-8 with or without a byte order mark.

    Raises ``ValueError``, with a reason to show, if it is not strict JSON. ``max_depth=None`` is
    for files of this package: their depth is not checked before they are parsed, which is quicker.
    """
    try:
        text = document.decode("utf-8-sig") if isinstance(document, bytes) else document
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    raw = document if isinstance(document, bytes) else text.encode("utf-8", "surrogatepass")
    if max_depth is not None and is_deeper(raw, max_depth):
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
    """Return the object in ``document``: see ``read_json``.

    Raises ``ValueError`` for any other value.
    """
    value = read_json(document, max_depth=max_depth)
    if type(value) is not dict:
        raise ValueError("it is not a JSON object")
    return value


def read_row(text: str) -> Any:
    """Return the value of a row that this package wrote.

    Raises ``ValueError``, also for a number that could not be written again.
    """
    try:
        return _of_rows.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def is_deeper(document: bytes, depth: int) -> bool:
    """Whether arrays and objects are nested deeper than ``depth``, by the brackets alone."""
    return _may_be_deeper(document, depth) and _deeper_than(document, depth)


def _may_be_deeper(document: bytes, depth: int) -> bool:
    """Whether there are enough brackets: a cheap test that is False for most."""
    if len(document) < _LARGE_BYTES:
        return document.count(b"{") + document.count(b"[") > depth
    # In a large one, counting all brackets costs more than finding the first few.
    found = 0
    for bracket in (b"{", b"["):
        at = document.find(bracket)
        while at >= 0:
            found += 1
            if found > depth:
                return True
            at = document.find(bracket, at + 1)
    return False


def _deeper_than(document: bytes, depth: int) -> bool:
    # Innermost pairs are removed level by level with ``bytes.replace``, which is fast. Brackets
    # inside strings are counted too, so one that looks too deep is counted again without its
    # strings. Both kinds of bracket are made one, so that each pass removes exactly one level.
    if _levels(document.translate(_ONE_KIND, _NOT_BRACKETS), depth):
        return False
    return not _levels(re.sub(_STRINGS, b"", document).translate(_ONE_KIND, _NOT_BRACKETS), depth)


def _levels(brackets: bytes, depth: int) -> bool:
    """Whether ``brackets`` nest at most ``depth`` deep, even if they are cut off."""
    for _ in range(depth):
        shorter = brackets.replace(b"[]", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    return not brackets or (len(brackets) <= depth and not brackets.strip(b"["))


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
_of_rows = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
