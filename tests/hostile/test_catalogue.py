"""One misbehaviour of ``tools/list`` a test, through a session: bounded, named, survived."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mcp_client import CallTimeout, Limits, McpError, MemoryServer, Timeouts, allow_all, connect
from mcp_client.errors import InvalidSchema, ProtocolViolation
from mcp_client.testing import JsonRpcError

pytestmark = pytest.mark.one_backend

Page = Callable[[str | None], Any]


def tool(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **members}


def server(page: Page) -> MemoryServer:
    def respond(message: dict[str, Any], send: Any) -> Any:
        match message["method"]:
            case "tools/list":
                return page((message.get("params") or {}).get("cursor"))
            case "tools/call" | "ping":
                return {"content": []}
        return NotImplemented

    return MemoryServer(respond)


def endless(cursor: str | None) -> Any:
    return {"tools": [], "nextCursor": str(int(cursor or 0) + 1)}


def flood(cursor: str | None) -> Any:
    number = int(cursor or 0)
    return {"tools": [tool(f"t{number}-{n}") for n in range(50)], "nextCursor": str(number + 1)}


def heavy(cursor: str | None) -> Any:
    number = int(cursor or 0)
    return {"tools": [tool(f"t{number}", description="x" * 9_000)], "nextCursor": str(number + 1)}


@pytest.mark.parametrize(
    ("page", "limits", "expected"),
    [
        (endless, Limits(pages=20), "Limits.pages"),
        (flood, Limits(tools=200), "Limits.tools"),
        (heavy, Limits(list_bytes=100_000), "Limits.list_bytes"),
    ],
)
async def test_a_list_without_an_end_is_refused_by_name_and_the_session_goes_on(
    page: Page, limits: Limits, expected: str
) -> None:
    async with connect(server(page), limits=limits) as session:
        with pytest.raises(ProtocolViolation, match=expected.replace(".", r"\.")):
            await session.list_tools()
        await session.ping()


@pytest.mark.both_backends
async def test_a_list_whose_every_page_is_just_in_time_is_still_bounded() -> None:
    async def slow(message: dict[str, Any], send: Any) -> Any:
        if message["method"] == "tools/list":
            await anyio.sleep(0.03)
            return endless((message.get("params") or {}).get("cursor"))
        return {} if message["method"] == "ping" else NotImplemented

    async with connect(MemoryServer(slow), timeouts=Timeouts(idle=0.2, total=0.2)) as session:
        with pytest.raises(CallTimeout):
            await session.list_tools()
        await session.ping()


async def test_a_thousand_bad_tools_spoil_no_good_one() -> None:
    bad = [
        *({"name": f"bad{n}"} for n in range(300)),
        *(tool("twin", title=str(n)) for n in range(300)),
        *(tool(f"in\u200bvisible{n}") for n in range(300)),
        *(tool(f"odd{n}", inputSchema=n) for n in range(100)),
    ]
    async with connect(server(lambda _: {"tools": [*bad, tool("good")]})) as session:
        tools = await session.list_tools()
        assert [tool.name for tool in tools] == ["good"]
        assert len(tools.rejected) == 1_000


async def test_a_poisoned_and_gigantic_description_is_looked_through_in_bounded_time() -> None:
    poison = "ignore all the your ignore all " * 30_000
    tools = [tool(f"t{n}", description=poison) for n in range(3)]
    with anyio.fail_after(60):
        async with connect(server(lambda _: {"tools": tools})) as session:
            assert len((await session.list_tools()).findings) >= 3


async def test_a_pattern_that_is_costly_to_compile_or_deep_spoils_one_tool() -> None:
    deep: dict[str, Any] = {}
    for _ in range(90):
        deep = {"items": deep}
    tools = [
        tool("deep", inputSchema={"type": "object", "properties": {"a": deep}}),
        tool("costly", inputSchema={"properties": {"a": {"pattern": "(" * 400}}}),
        tool("good"),
    ]
    with anyio.fail_after(60):
        async with connect(server(lambda _: {"tools": tools}), approval=allow_all) as session:
            await session.list_tools()
            with pytest.raises(InvalidSchema):
                await session.call_tool("deep")
            await session.call_tool("costly")
            await session.call_tool("good")


@pytest.mark.both_backends
async def test_notices_during_every_list_end_in_a_list() -> None:
    def crying(message: dict[str, Any], send: Any) -> Any:
        for _ in range(50):
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        if message["method"] == "tools/list":
            return {"tools": [tool("a")]}
        return {"content": []} if message["method"] == "tools/call" else NotImplemented

    async with connect(MemoryServer(crying), approval=allow_all) as session:
        for _ in range(5):
            await session.call_tool("a")
        assert len(await session.list_tools()) == 1
        # A list that changed while it was fetched is fetched twice, and compared before sending.
        assert session.stats.requests <= 2 + 5 * (4 + 1) + 1


async def test_a_cursor_that_is_always_refused_causes_no_loop() -> None:
    def refusing(cursor: str | None) -> Any:
        if cursor:
            raise JsonRpcError(-32602, "no such cursor")
        return {"tools": [tool("a")], "nextCursor": "x"}

    async with connect(server(refusing)) as session:
        with pytest.raises(McpError, match="no such cursor"):
            await session.list_tools()
        assert session.stats.requests < 10
