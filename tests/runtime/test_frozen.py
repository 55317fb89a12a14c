"""Objects made the quick way are those that the class itself makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mcp_client import TextContent, Tool, ToolCall, ToolResult
from mcp_client.catalog.tool import new_call, new_tool
from mcp_client.runtime.frozen import maker_of

TOOL = Tool("echo", "memory", False, {"name": "echo", "inputSchema": {}})
CALL = {"id": "1", "server": "memory", "tool": TOOL, "arguments_json": '{"a":1}', "meta_json": None}


@dataclass(frozen=True, slots=True)
class Every:
    """Every kind of field there is."""

    given: Any
    default: int = 7
    made: list[Any] = field(default_factory=list)
    own: Any = field(default=None, init=False)
    own_made: dict[Any, Any] = field(default_factory=dict, init=False)


@pytest.mark.parametrize(
    ("kind", "make", "arguments"),
    [
        (Every, maker_of(Every), {"given": 1}),
        (Every, maker_of(Every), {"given": 1, "default": 2, "made": [3]}),
        (TextContent, maker_of(TextContent), {"text": "a", "raw": {}}),
        (Tool, new_tool, {"name": "a", "server": "s", "trusted": True, "_definition": {}}),
        (ToolCall, new_call, {**CALL, "hints": TOOL.hints, "findings": (), "generation": 1}),
        (
            ToolResult,
            maker_of(ToolResult),
            {"content": (), "structured_content": {"a": 1}, "is_error": False},
        ),
    ],
)
def test_what_is_made_quickly_is_the_same_and_as_frozen(
    kind: type[Any], make: type[Any], arguments: dict[str, Any]
) -> None:
    quick, usual = make(**arguments), kind(**arguments)
    names = [each.name for each in dataclasses.fields(kind)]
    assert type(quick) is kind
    assert quick == usual
    assert [getattr(quick, name) for name in names] == [getattr(usual, name) for name in names]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(quick, names[0], 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(quick, names[0])
    assert replace(quick) == usual
    assert copy.copy(quick) == usual
    assert pickle.loads(pickle.dumps(quick)) == usual


def test_two_objects_share_no_default() -> None:
    make = maker_of(Every)
    assert make(1).made is not make(1).made
    assert make(1).own_made is not make(1).own_made


@pytest.mark.parametrize("arguments", [{}, {"given": 1, "own": 2}, {"given": 1, "other": 2}])
def test_a_missing_or_unknown_argument_is_refused(arguments: dict[str, Any]) -> None:
    make: Any = maker_of(Every)
    with pytest.raises(TypeError):
        make(**arguments)
