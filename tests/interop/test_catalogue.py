"""Tools that change while they are used, on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_client import Pins, StdioServer, allow_all, connect
from mcp_client.catalog.watch import ToolChanges
from tests.interop import http_peers, peers

pytestmark = pytest.mark.interop


def names(changes: ToolChanges) -> tuple[list[str], list[str]]:
    return [tool.name for tool in changes.added], [tool.name for tool in changes.removed]


async def test_tools_that_come_and_go_at_run_time_are_reported_over_stdio() -> None:
    await announce_what_comes_and_goes(peers.growing())


async def test_tools_that_come_and_go_at_run_time_are_reported_over_http() -> None:
    async with http_peers.growing() as url:
        await announce_what_comes_and_goes(url)


async def announce_what_comes_and_goes(server: StdioServer | str) -> None:
    async with connect(server, approval=allow_all) as session:
        assert session.protocol_version == "2026-07-28"
        async with session.tool_changes() as changes:
            await session.call_tool("grow", {"name": "one"})
            assert names(await anext(changes)) == (["one"], [])
            await session.call_tool("shrink", {"name": "one"})
            assert names(await anext(changes)) == ([], ["one"])
        await session.call_tool("grow", {"name": "two"})
        assert (await session.call_tool("two", {"number": 7})).structured_content == {"result": 7}
        assert session.stats.late_answers == session.stats.stray_answers == 0


async def test_a_tool_that_comes_after_the_lock_file_is_drift(tmp_path: Path) -> None:
    pins = Pins(tmp_path / "mcp.lock")
    async with connect(peers.growing(), name="growing", pins=pins, approval=allow_all) as session:
        await session.list_tools()
        await session.call_tool("grow", {"name": "late"})
        await session.list_tools(refresh=True)
        assert [(drift.tool, drift.kind) for drift in pins.drift("growing")] == [("late", "new")]
        await session.call_tool("late", {"number": 1})
        assert pins.drift(
            "growing"
        )  # an approval of one call does not accept the change permanently
        pins.accept("growing", await session.list_tools())
        assert pins.drift("growing") == ()
    assert sorted(pins._read()["growing"]) == ["grow", "late", "shrink"]


async def test_the_tools_of_the_reference_server_are_all_taken_and_nothing_is_found() -> None:
    async with connect(peers.everything(), approval=allow_all) as session:
        async with session.tool_changes():
            tools = await session.list_tools()
        assert len(tools) > 5
        assert tools.rejected == ()
        assert tools.findings == ()
