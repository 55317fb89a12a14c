"""Strict JSON objects out of documents that nobody vouches for."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_object"]

_DEPTH = 32


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Two issuers in one document: which one is meant depends on who reads it.
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name appears twice")
    return found


_decoder = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_once)


def json_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object in ``body``; None where it is anything else.

    Names may appear once only, NaN and Infinity never, and what is nested more than 32 deep is
    not looked at.
    """
    if body.count(b"{") + body.count(b"[") > _DEPTH and _deep(body):
        return None
    try:
        value = _decoder.decode(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return value if type(value) is dict else None


def _deep(body: bytes) -> bool:
    """Brackets within strings count too: no honest metadata has so many in one."""
    depth = 0
    for byte in body:
        if byte in b"{[":
            depth += 1
            if depth > _DEPTH:
                return True
        elif byte in b"}]":
            depth -= 1
    return False
