"""Comparing and storing ``ToolCall.context``, the host's own word on whose call it is; and the
values of ``ToolCall.origin``."""

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
    "context_key",
    "context_text",
    "context_to_json",
    "is_storable",
    "same_context",
]

CallOrigin: TypeAlias = Literal["host", "app", "code"]
"""Who makes a call: the host, the view of a tool, or a script of a model."""

_MAX_INTEGER_BITS = 256
_MAX_DEPTH = 16
_MAX_MARKS = 1_000
_marks: dict[Hashable, str] = {}
_lock = threading.RLock()


class ModelArguments(dict[str, Any]):
    """Arguments that a model gave, as an adapter read them: it is to hear what is wrong with them
    itself, before a person is asked."""

    __slots__ = ()


class NotAnObject:
    """Stands in records for what a model gave as arguments and is not a JSON object."""


def context_key(context: Hashable) -> Hashable:
    """Equal for equal contexts, and different for ``True`` and ``1``, which Python calls equal."""
    if type(context) is tuple:
        return ("tuple", *map(context_key, context))
    return type(context) is bool, context


def same_context(one: Hashable, other: Hashable) -> bool:
    return one is other or context_key(one) == context_key(other)


def is_storable(context: Hashable, depth: int = 0) -> bool:
    """Whether it can be written to a file and read back equal: text, numbers, booleans and tuples
    of them; None, for no context, only at the top."""
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
    """A text that is equal for equal contexts only.

    It is the same in every process where the context is storable. Any other is told by a mark that
    is given to it in this process: its ``repr`` may be equal for different objects, and different
    for equal ones. A thousand of them have marks at once; an older one gets another mark then, so
    that what was bound to it no longer holds.
    """
    if is_storable(context):
        return json.dumps(_tagged(context))
    key = context_key(context)
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
        raise ValueError("its context is not text, a number, a boolean or a list of them")
    return context


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if type(value) is list else value
