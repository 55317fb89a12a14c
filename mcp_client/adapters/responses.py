"""Whether a value is a provider's response at all, and what to say where it is not.

A response without calls and a mistake of the program look alike to code that only searches for
calls; taken for the former, the latter would end an agent without a word.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any

from ..errors import ConfigError
from .model_calls import member

__all__ = ["has", "listed", "typed_entries", "unusable"]

_SHOWN_KEYS = 6
_LONGEST_KEY = 40


def has(value: Any, *names: str) -> bool:
    """Whether ``value``, an object or a mapping, has one of the members, which may be None."""
    if isinstance(value, Mapping):
        return any(name in value for name in names)
    return any(hasattr(value, name) for name in names)


def listed(value: Any) -> list[Any] | None:
    """The entries of a list or of anything else to iterate over; None for what has members of its
    own, such as a mapping or a provider's object (those of pydantic iterate too), and for text."""
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        return None
    is_stream = hasattr(value, "__next__") and hasattr(value, "__enter__")
    return None if is_stream or hasattr(type(value), "model_fields") else list(value)


def typed_entries(value: Any, foreign: frozenset[str]) -> list[Any] | None:
    """The entries of a list that each have a type, not one of those ``foreign`` to the provider;
    None for anything else."""
    found = listed(value)
    for entry in found or ():
        kind = member(entry, "type")
        if not isinstance(kind, str) or kind in foreign:
            return None
    return found


def unusable(response: Any, wanted: str) -> ConfigError:
    """What is raised for ``response``; ``wanted`` are the forms that this provider's may have."""
    return ConfigError(f"{_got(response)}: give {wanted}")


def _got(response: Any) -> str:
    kind = type(response).__name__
    if inspect.isawaitable(response):
        return f"the response is a {kind} that was not awaited; did you forget 'await'?"
    if response is None:
        return "the response is None (so is a message's list of calls without a call)"
    if callable(getattr(response, "call_tool", None)):
        return f"the response is a {kind}; run() takes the session or host first, then the response"
    if isinstance(response, str | bytes):
        return f"the response is a {kind}, not what the provider's client returned"
    if isinstance(response, AsyncIterable) or hasattr(type(response), "__next__"):
        return f"the response is a stream ({kind}); put its events together first"
    if member(response, "error") is not None or member(response, "type") == "error":
        return "the response is an error of the provider"
    if isinstance(response, Mapping):
        keys = [repr(str(key)[:_LONGEST_KEY]) for key in list(response)[:_SHOWN_KEYS]]
        more = ", ..." if len(response) > _SHOWN_KEYS else ""
        return (
            f"the response is a {kind} of {', '.join(keys)}{more}" if keys else f"an empty {kind}"
        )
    other = _other(response)
    return f"the response is a {kind}{other}, which this provider does not return"


def _other(response: Any) -> str:
    for entry in (listed(response) or ())[:1]:
        return f" of {type(entry).__name__}"
    return ""
