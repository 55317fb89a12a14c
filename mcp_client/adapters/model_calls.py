"""The calls in a model's response: parsed from the providers' own objects or from plain dicts.

To code that only searches for calls, a mistake of the program looks like a response without calls,
and would end an agent silently. So anything that is not a response is an error.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from ..catalog.call_context import ModelArguments
from ..errors import ConfigError
from ..runtime.safe_text import safe_text
from ..runtime.strict_json import read_json_object

__all__ = [
    "ModelCall",
    "RawCall",
    "arguments_of",
    "has",
    "listed",
    "member",
    "typed_entries",
    "unknown_tool",
    "unusable",
]

_MAX_LEVELS = 128
_MAX_LISTED = 20
_MAX_COMPARED = 1_000
_MAX_NAME_CHARS = 128
_MAX_NEAREST = 3
_MAX_LISTED_KEYS = 6
_MAX_KEY_CHARS = 40


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call that a model wants made."""

    id: str
    """The provider's id of the call, which the response has to repeat; empty without one."""
    name: str
    """The tool's qualified name, or what the model wrote where that is not found."""
    arguments: dict[str, Any]
    """The arguments for the tool: renamed members and nulls of strict mode are undone."""
    problem: str | None = None
    """The reason why the call cannot be made, in sentences for the model; None if it can."""
    answer: str | None = field(default=None, repr=False)
    """The response without a call: the result of ``search_tools`` and ``describe_tools``.

    None if a tool is to be called. For ``read_result``, a sentence which states that
    ``Toolset.results`` reads it.
    """
    shown_name: str = field(default="", repr=False)
    """The name that the model wrote."""
    asked: dict[str, Any] = field(default_factory=dict, repr=False)
    """The arguments it gave for a tool that is not found; otherwise empty."""
    is_own: bool = field(default=False, repr=False)
    """Whether the toolset itself handles it, like a search: it is not a call of a server's tool."""
    run_log: dict[str, Any] | None = field(default=None, repr=False)
    """The earlier results of a script that continues."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", ModelArguments(self.arguments))


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as it is in a response."""

    id: str
    """The provider's id of the call; empty where it gave none."""
    name: str
    """The tool name that the model wrote."""
    arguments: Any
    """An object or its JSON text, as the provider gives it."""


def member(value: Any, *names: str) -> Any:
    """Return the first of the members ``names`` that ``value`` has and that is not None.

    ``value`` is an object or a mapping.
    """
    for name in names:
        if isinstance(value, Mapping):
            found = value.get(name)
        else:
            found = getattr(value, name, None)
        if found is not None:
            return found
    return None


def has(value: Any, *names: str) -> bool:
    """Whether ``value``, an object or a mapping, has one of the members, which may be None."""
    if isinstance(value, Mapping):
        return any(name in value for name in names)
    return any(hasattr(value, name) for name in names)


def listed(value: Any) -> list[Any] | None:
    """Return the entries of a list or another iterable; None for a str or an object with members.

    Objects with members are mappings and providers' objects (those of pydantic are iterable, too).
    """
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        return None
    is_stream = hasattr(value, "__next__") and hasattr(value, "__enter__")
    return None if is_stream or hasattr(type(value), "model_fields") else list(value)


def typed_entries(value: Any, foreign: frozenset[str]) -> list[Any] | None:
    """Return the entries of a list, if each has a type that is not ``foreign`` to the provider.

    None for anything else.
    """
    found = listed(value)
    for entry in found or ():
        kind = member(entry, "type")
        if not isinstance(kind, str) or kind in foreign:
            return None
    return found


def unusable(response: Any, wanted: str) -> ConfigError:
    """Return the error for ``response``; ``wanted`` are the forms that this provider accepts."""
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
        keys = [repr(str(key)[:_MAX_KEY_CHARS]) for key in list(response)[:_MAX_LISTED_KEYS]]
        more = ", ..." if len(response) > _MAX_LISTED_KEYS else ""
        return (
            f"the response is a {kind} of {', '.join(keys)}{more}" if keys else f"an empty {kind}"
        )
    other = _other(response)
    return f"the response is a {kind}{other}, which this provider does not return"


def _other(response: Any) -> str:
    for entry in (listed(response) or ())[:1]:
        return f" of {type(entry).__name__}"
    return ""


def arguments_of(value: Any) -> tuple[dict[str, Any], str | None]:
    """Arguments as an object, or as JSON text; and what is wrong with them, for the model.

    Models leave the text empty for a tool without parameters.
    """
    if value is None or value == "":
        return {}, None
    if isinstance(value, Mapping):
        return dict(value), None
    if not isinstance(value, str):
        return {}, _wrong(f"they are a {type(value).__name__}")
    if not value.strip():
        return {}, None
    try:
        return read_json_object(value, max_depth=_MAX_LEVELS), None
    except (ValueError, RecursionError) as error:
        reason = safe_text(error, 200) if isinstance(error, ValueError) else "nested too deep"
        return {}, _wrong(reason)


def _wrong(reason: str) -> str:
    return (
        f"Nothing was sent. The arguments are not a JSON object ({reason}). Give one complete JSON "
        "object and call again."
    )


def unknown_tool(name: str, names: Sequence[str], advice: str = "") -> str:
    """Return the text for a model that calls the unknown tool ``name``; ``names`` exist."""
    text = f"Nothing was sent. Unknown tool '{safe_text(name, _MAX_NAME_CHARS)}'."
    near = _near(name, names)
    if near:
        text += f" Did you mean {' or '.join(near)}?"
    elif names and len(names) <= _MAX_LISTED and not advice:
        text += f" The tools are: {', '.join(names)}."
    return f"{text} {advice}".rstrip()


def _near(name: str, names: Sequence[str]) -> list[str]:
    name = name[:_MAX_NAME_CHARS]
    compared = names[:_MAX_COMPARED]
    bare = _plain(name)
    if len(bare) > 2:
        same = [one for one in compared if bare == _plain(one)]
        parts = [one for one in compared if one.endswith(f"_{name}") or one.startswith(f"{name}_")]
        if same or parts:
            return (same or parts)[:_MAX_NEAREST]
    close = get_close_matches(name, compared, _MAX_NEAREST, 0.85)
    return close or get_close_matches(name, compared, _MAX_NEAREST, 0.7)


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())
