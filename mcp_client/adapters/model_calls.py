"""The calls in a model's response: read from the providers' own objects or from plain dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from ..catalog.call_context import ModelArguments
from ..runtime.safe_text import safe_text
from ..runtime.strict_json import read_json_object

__all__ = ["ModelCall", "RawCall", "arguments_of", "member", "unknown_tool"]

_DEEPEST = 128
_LISTED = 20
_COMPARED = 2_000
_LONGEST_NAME = 128
_NEAREST = 3


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call that a model wants made."""

    id: str
    """The provider's id of the call, which its answer has to name; empty where it gave none."""
    name: str
    """The tool's qualified name, or what the model wrote where that is not found."""
    arguments: dict[str, Any]
    """As the tool wants them: renamed members and nulls of strict mode are undone."""
    problem: str | None = None
    """Why the call cannot be made, in sentences for the model; None where it can."""
    answer: str | None = field(default=None, repr=False)
    """What to answer without a call: the tools that ``search_tools`` found. Otherwise None."""
    shown_name: str = field(default="", repr=False)
    """What the model wrote as the name."""
    asked: dict[str, Any] = field(default_factory=dict, repr=False)
    """The arguments it gave for a tool that is not found; otherwise empty."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", ModelArguments(self.arguments))


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as it stands in a response."""

    id: str
    name: str
    arguments: Any


def member(value: Any, *names: str) -> Any:
    """The first of the members ``names`` that ``value``, an object or a mapping, has and is not
    None."""
    for name in names:
        if isinstance(value, Mapping):
            found = value.get(name)
        else:
            found = getattr(value, name, None)
        if found is not None:
            return found
    return None


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
        return read_json_object(value, max_depth=_DEEPEST), None
    except (ValueError, RecursionError) as error:
        reason = safe_text(error, 200) if isinstance(error, ValueError) else "nested too deep"
        return {}, _wrong(reason)


def _wrong(reason: str) -> str:
    return (
        f"Nothing was sent. The arguments are not a JSON object ({reason}). Give one complete JSON "
        "object and call again."
    )


def unknown_tool(name: str, names: Sequence[str], advice: str = "") -> str:
    """What a model is told that asks for the tool ``name``; ``names`` are those there are."""
    said = f"Nothing was sent. Unknown tool '{safe_text(name, _LONGEST_NAME)}'."
    near = _near(name, names)
    if near:
        said += f" Did you mean {' or '.join(near)}?"
    elif names and len(names) <= _LISTED and not advice:
        said += f" The tools are: {', '.join(names)}."
    return f"{said} {advice}".rstrip()


def _near(name: str, names: Sequence[str]) -> list[str]:
    name = name[:_LONGEST_NAME]
    compared = names[:_COMPARED]
    bare = _plain(name)
    if len(bare) > 2:
        same = [one for one in compared if bare == _plain(one)]
        parts = [one for one in compared if one.endswith(f"_{name}") or one.startswith(f"{name}_")]
        if same or parts:
            return (same or parts)[:_NEAREST]
    close = get_close_matches(name, compared, _NEAREST, 0.85)
    return close or get_close_matches(name, compared, _NEAREST, 0.7)


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())
