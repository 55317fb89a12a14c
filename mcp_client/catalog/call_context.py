"""The comparison and storage of ``ToolCall.context``, and the values of ``ToolCall.origin``."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Hashable
from typing import Any, Literal, TypeAlias

__all__ = [
    "CallOrigin",
    "ModelArguments",
    "NotAnObject",
    "context_from_json",
    "context_text",
    "context_to_json",
    "is_storable",
    "same_context",
]

CallOrigin: TypeAlias = Literal["host", "app", "code"]
"""The maker of a call: the host, the view of a tool, or a script of a model."""

_MAX_INTEGER_BITS = 256
_MAX_DEPTH = 16
_MAX_MARKS = 1_000
_marks: dict[Hashable, str] = {}
_lock = threading.RLock()


class ModelArguments(dict[str, Any]):
    """The arguments of a model, as an adapter parsed them.

    The model receives the errors about them itself, before a person is asked.
    """

    __slots__ = ()


class NotAnObject:
    """A placeholder in records for a model's arguments that are not a JSON object."""


def _context_key(context: Hashable) -> Hashable:
    """Return a key that is equal for equal contexts, and distinguishes ``True`` from ``1``."""
    if type(context) is tuple:
        return ("tuple", *map(_context_key, context))
    return type(context) is bool, context


def same_context(one: Hashable, other: Hashable) -> bool:
    """Return whether two contexts are equal."""
    return one is other or _context_key(one) == _context_key(other)


def is_storable(context: Hashable, depth: int = 0) -> bool:
    """Return whether a context can be written to a file and loaded as an equal one.

    That applies to str, numbers, booleans and tuples of them; None, for no context, only at the
    top.
    """
    kind = type(context)
    if kind is tuple:
        members: tuple[Any, ...] = context  # type: ignore[assignment]
        return depth < _MAX_DEPTH and all(
            member is not None and is_storable(member, depth + 1) for member in members
        )
    if kind is float:
        return math.isfinite(context)  # type: ignore[arg-type]
    if kind is int:
        return context.bit_length() <= _MAX_INTEGER_BITS  # type: ignore[attr-defined, no-any-return]
    return context is None or kind in (str, bool)


def context_text(context: Hashable) -> str:
    """Return a text that is equal for equal contexts only.

    It is the same in every process if the context is storable. Any other context gets a mark in
    this process, because its ``repr`` may be equal for different objects, and different for equal
    ones. A thousand contexts have marks at once; an older one then gets another mark, so that
    approvals bound to it no longer apply.
    """
    if is_storable(context):
        return json.dumps(_tagged(context))
    key = _context_key(context)
    with _lock:
        mark = _marks.pop(key, None) or f"mark {os.urandom(16).hex()}"
        _marks[key] = mark
        while len(_marks) > _MAX_MARKS:
            del _marks[next(iter(_marks))]
        return mark


def _tagged(context: Any) -> Any:
    if type(context) is tuple:
        return [_tagged(member) for member in context]
    if type(context) is float and context.is_integer():
        return int(context)  # 1.0 and 1 are equal
    return context


def context_to_json(context: Hashable) -> Any:
    """Return a storable context as plain JSON, with lists in place of tuples."""
    return [context_to_json(member) for member in context] if type(context) is tuple else context


def context_from_json(value: Any) -> Hashable:
    """The context that was stored. Raises ``ValueError`` for what is never stored."""
    context: Hashable = _tuples(value)
    if not is_storable(context):
        raise ValueError("the context is not a str, a number, a boolean or a list of them")
    return context


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if type(value) is list else value
