"""Whatever servers and tools are called, a call reaches the tool that was listed by that name."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Host, McpError, Timeouts, allow_all
from mcp_client.errors import UnknownTool
from mcp_client.host.naming import prefixed
from tests.support.properties import examples
from tests.support.toolbox import Toolbox, names

piece = st.sampled_from(["a", "b", "_", "__", "-", ".", "a_b", "x" * 70, "é", "deadbeef", " ", "A"])
name = st.lists(piece, min_size=1, max_size=4).map("".join)
offers = st.dictionaries(name, st.lists(name, max_size=5), min_size=1, max_size=4)
namings = st.sampled_from(["prefix", "bare", "random", "uri"])


def host_of(boxes: dict[str, Toolbox], naming: Any) -> Host:
    servers = {server: box.server for server, box in boxes.items()}
    return Host(servers, naming=naming, approval=allow_all, timeouts=Timeouts(close=0.2))


async def _reaches_what_was_listed(boxes: dict[str, Toolbox], naming: Any) -> None:
    async with host_of(boxes, naming) as host:
        tools = await host.list_tools()
        assert len(set(names(tools))) == len(tools)
        for tool in tools:
            await host.call_tool(tool.qualified_name)
            assert boxes[tool.server].calls.pop() == (tool.name, {})
        assert not any(box.calls for box in boxes.values())


@given(offers, namings)
@examples(60)
def test_a_call_reaches_the_tool_that_was_listed_by_that_name(
    offered: dict[str, list[str]], naming: Any
) -> None:
    boxes = {server: Toolbox(*tools) for server, tools in offered.items()}
    anyio.run(_reaches_what_was_listed, boxes, naming)


async def _stays(boxes: dict[str, Toolbox], naming: Any, later: list[str]) -> None:
    victim, *others = boxes
    async with host_of(boxes, naming) as host:
        before = {t.name: t.qualified_name for t in await host.list_tools() if t.server == victim}
        for other in others:
            boxes[other].offer(*later, *before.values())
            await host.list_tools()
            boxes[other].end()
        if others:
            await host.remove(others[0])
        tools = [tool for tool in await host.list_tools() if tool.server == victim]
        assert {tool.name: tool.qualified_name for tool in tools} == before
        for tool_name, qualified in before.items():
            await host.call_tool(qualified)
            assert boxes[victim].calls.pop() == (tool_name, {})


@given(offers, namings, st.lists(name, max_size=5))
@examples(60)
def test_no_server_changes_the_names_of_another(
    offered: dict[str, list[str]], naming: Any, later: list[str]
) -> None:
    boxes = {server: Toolbox(*tools) for server, tools in offered.items()}
    anyio.run(_stays, boxes, naming, later)


@given(st.text(max_size=200))
@examples(60)
def test_any_text_that_is_not_a_name_is_unknown(text: str) -> None:
    async def ask() -> None:
        async with host_of({"one": Toolbox("a")}, "prefix") as host:
            with pytest.raises(McpError, match="no server has a tool"):
                await host.call_tool(text + "?")

    anyio.run(ask)


def two_with_one_hash() -> tuple[str, str]:
    seen: dict[str, str] = {}
    for number in range(2_000_000):
        tool = "t" * 200 + str(number)
        displayed = prefixed("one", "one", tool)
        if displayed in seen:
            return seen[displayed], tool
        seen[displayed] = tool
    raise AssertionError


@pytest.mark.slow
async def test_a_server_that_searched_for_two_names_of_one_hash_loses_both() -> None:
    first, second = two_with_one_hash()
    async with host_of({"one": Toolbox(first, "fine", second)}, "prefix") as host:
        tools = await host.list_tools()
        assert names(tools) == ["one__fine"]
        assert len(tools.rejected) == 2
        assert "another tool has the same name" in tools.rejected[0].reason
        with pytest.raises(UnknownTool, match="another tool has the same name"):
            await host.call_tool(prefixed("one", "one", first))
