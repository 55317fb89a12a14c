"""Whatever JSON a server lists as a tool, the list comes, and only that tool is spoiled."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_client import MemoryServer, allow_all, connect
from mcp_client.catalog.tool import ToolList
from mcp_client.catalog.tools import Catalog
from tests.support.feed import Feed, source_of

pytestmark = pytest.mark.one_backend

REPORTED = {"additionalProperties": False, "properties": None}
GOOD = {"name": "good", "inputSchema": {"type": "object"}}
KEYWORDS = (
    *("type", "properties", "required", "items", "prefixItems", "additionalProperties", "enum"),
    *("const", "anyOf", "allOf", "oneOf", "not", "if", "then", "$ref", "$defs", "$id", "$schema"),
    *("pattern", "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas"),
    *("dependencies", "minLength", "multipleOf", "format", "description", "title", "default"),
    *("x-mcp-header", "$dynamicRef", "$anchor", "unevaluatedProperties", "contains", "minContains"),
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(
        ["object", "string", "#", "#/$defs/a", "http://x.invalid", "[", "(a+)+$", "\ud800"]
    )
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
schemas = st.dictionaries(st.sampled_from(KEYWORDS), anything, max_size=5)
definitions = anything | st.fixed_dictionaries(
    {"name": st.text(max_size=6) | st.sampled_from(["good ", "tool", "G00d"]) | anything},
    optional={
        "inputSchema": schemas | anything,
        "outputSchema": schemas | anything,
        "title": anything,
        "description": anything,
        "annotations": anything,
        "icons": anything,
        "_meta": anything,
    },
)


async def listed(offered: list[Any], *, in_headers: bool, trusted: bool) -> ToolList:
    async def fetch(fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"tools": offered}

    source = source_of(fetch, lambda: 0.0, in_headers=in_headers)
    catalog = Catalog(source, Feed(), trusted)
    return await catalog.all()


@pytest.mark.slow
@given(st.lists(definitions, max_size=3), st.booleans(), st.booleans())
@example([{"name": "x", "inputSchema": REPORTED}], True, True)
@example([{"name": "x", "inputSchema": {"required": [{}], "properties": []}}], False, False)
@example([{"name": "x", "inputSchema": {"type": [["object"]]}}], False, False)
@example([{"name": "x", "inputSchema": {"$schema": [], "$ref": 7}}], False, True)
@example([{"name": "x", "inputSchema": {"properties": {"a": {"x-mcp-header": {}}}}}], True, True)
def test_any_json_as_a_tool_leads_to_a_list(
    offered: list[Any], in_headers: bool, trusted: bool
) -> None:
    tools = anyio.run(lambda: listed([*offered, GOOD], in_headers=in_headers, trusted=trusted))
    sent = [*offered, GOOD]
    different = [one for number, one in enumerate(sent) if one not in sent[:number]]
    assert len(different) <= len(tools) + len(tools.rejected) <= len(sent)
    if not any(type(one) is dict and one.get("name") == "good" for one in offered):
        assert tools[-1].name == "good"
    assert all(finding.text.isprintable() for finding in tools.findings)
    assert all(one.reason for one in tools.rejected)
    for tool in tools:
        assert tool.fingerprint.startswith("sha256:")
        assert isinstance(tool.hints.read_only, bool)
        assert isinstance(repr(tool), str)
        assert tool.raw == tool._definition


ODD = [
    REPORTED,
    {"properties": [], "required": 7},
    {"type": {}},
    {"enum": {}},
    {"patternProperties": {"[[:alpha:]]": True, "(": False}},
    {"$ref": "#/nowhere"},
    {"$schema": "http://json-schema.org/draft-03/schema#", "extends": 7},
]


@pytest.mark.parametrize("schema", ODD, ids=str)
@pytest.mark.parametrize("member", ["inputSchema", "outputSchema"])
async def test_a_tool_with_an_odd_schema_spoils_neither_the_list_nor_the_other_tools(
    schema: Any, member: str
) -> None:
    odd = {"name": "odd", "inputSchema": {"type": "object"}, member: schema}

    def server(message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                return {"tools": [odd, GOOD]}
            case "tools/call":
                return {"content": []}
        return NotImplemented

    async with connect(MemoryServer(server), approval=allow_all) as session:
        with anyio.fail_after(30):
            tools = await session.list_tools()
            assert "good" in [tool.name for tool in tools]
            assert not (await session.call_tool("good")).is_error


@pytest.mark.slow
@pytest.mark.both_backends
async def test_other_tasks_run_while_a_long_list_is_looked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = itertools.count()  # a second passes between any two looks at it
    monkeypatch.setattr("mcp_client.catalog.tools.perf_counter", lambda: next(clock))
    deep: dict[str, Any] = {"type": "string", "pattern": "(a+)+$"}
    for _ in range(10):
        deep = {"type": "object", "properties": {"inner": deep}, "prefixItems": [deep]}
    offered = [
        {"name": f"tool{number}", "inputSchema": {"type": "object", "properties": {"p": deep}}}
        for number in range(50)
    ]
    turns = 0
    done = False

    async def count() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        with anyio.fail_after(60):
            tools = await listed(offered, in_headers=True, trusted=False)
        done = True
    assert len(tools) == 50
    # On trio the order within a turn is chance: the first and the last may not be counted.
    assert turns >= 48, "there is a pause after each tool that took more than a little"
