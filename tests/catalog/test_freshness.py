"""When a list may be served again without asking: only where a change would be heard."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcp_client import MemoryServer, allow_all, connect
from mcp_client.errors import UnknownTool
from tests.support.http_apps import Handshake
from tests.support.http_server import Reply, Request, serving

pytestmark = pytest.mark.one_backend

CHANGED = "notifications/tools/list_changed"
TOOL = {"name": "a", "inputSchema": {"type": "object"}}


class Server:
    """A server of one revision that declares what a test sets, and counts."""

    def __init__(self, revision: str, capabilities: dict[str, Any], **members: Any) -> None:
        self.revision = revision
        self.capabilities = capabilities
        self.members = members
        self.methods: list[str] = []

    def __call__(self, message: dict[str, Any]) -> Any:
        self.methods.append(message["method"])
        match message["method"]:
            case "initialize":
                return {
                    "protocolVersion": self.revision,
                    "capabilities": self.capabilities,
                    "serverInfo": {"name": "s", "version": "1"},
                }
            case "server/discover" if self.revision == "2026-07-28":
                return {"supportedVersions": [self.revision], "capabilities": self.capabilities}
            case "tools/list":
                return {"tools": [TOOL], **self.members}
            case "tools/call":
                return {"content": []}
        return NotImplemented

    @property
    def lists(self) -> int:
        return self.methods.count("tools/list")


REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.mark.both_backends
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("declared", [{}, {"listChanged": False}, {"listChanged": "true"}])
async def test_a_list_is_asked_for_again_where_no_change_would_be_reported(
    revision: str, declared: Any
) -> None:
    server = Server(revision, {"tools": declared})
    async with connect(MemoryServer(server), revision=revision) as session:
        for _ in range(3):
            await session.list_tools()
    assert server.lists == 3


@pytest.mark.both_backends
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_list_is_stored_where_changes_are_declared_and_can_be_reported(
    revision: str,
) -> None:
    server = Server(revision, {"tools": {"listChanged": True}})
    async with connect(MemoryServer(server), revision=revision) as session:
        for _ in range(3):
            await session.list_tools()
    assert server.lists == 1


@pytest.mark.both_backends
@pytest.mark.parametrize("revision", [*REVISIONS, "2026-07-28"])
async def test_a_list_is_stored_for_its_ttl_though_no_change_would_be_reported(
    revision: str,
) -> None:
    server = Server(revision, {"tools": {}}, ttlMs=3_600_000)
    async with connect(MemoryServer(server), revision=revision) as session:
        for _ in range(3):
            await session.list_tools()
    assert server.lists == 1


async def test_calls_use_the_definition_at_hand_however_old_the_list_is() -> None:
    server = Server("2025-11-25", {"tools": {}})
    async with connect(MemoryServer(server), approval=allow_all) as session:
        for _ in range(3):
            await session.call_tool("a")
    assert server.lists == 1


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_server_that_declares_no_tools_is_not_asked_for_any(revision: str) -> None:
    server = Server(revision, {"prompts": {}})
    async with connect(MemoryServer(server), revision=revision, approval=allow_all) as session:
        for refresh in (False, True):
            assert list(await session.list_tools(refresh=refresh)) == []
        with pytest.raises(UnknownTool):
            await session.call_tool("a")
        with pytest.raises(UnknownTool):
            await session.get_tool("a")
    assert server.lists == 0
    assert "tools/call" not in server.methods


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
async def test_an_older_server_that_forgot_to_declare_its_tools_is_asked(revision: str) -> None:
    server = Server(revision, {"prompts": {}})
    async with connect(MemoryServer(server), revision=revision, approval=allow_all) as session:
        assert [tool.name for tool in await session.list_tools()] == ["a"]
        await session.call_tool("a")


async def test_a_server_that_declares_nothing_at_all_is_asked() -> None:
    server = Server("2025-11-25", {})
    async with connect(MemoryServer(server)) as session:
        assert [tool.name for tool in await session.list_tools()] == ["a"]


class OverHttp(Handshake):
    """Counts its lists; ``get`` is the status of the stream for the server's notifications."""

    lists = 0

    async def __call__(self, request: Request, reply: Reply) -> None:
        self.lists += request.rpc_method == "tools/list"
        await super().__call__(request, reply)


class WithoutSessions(OverHttp):
    """Streamable HTTP without sessions, as FastMCP 2 has it: it declares ``listChanged``, and
    answers each GET with a stream of nothing."""

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.rpc_method != "initialize":
            request.headers["mcp-session-id"] = "every request is one of its own"
        await super().__call__(request, reply)

    async def send(self, request: Request, reply: Reply, result: Any, **headers: str) -> None:
        headers.pop("Mcp_Session_Id", None)
        await super().send(request, reply, result, **headers)


async def test_a_server_without_sessions_cannot_report_changes_and_is_asked_again() -> None:
    app = WithoutSessions()
    async with serving(app) as server, connect(server.url, approval=allow_all) as session:
        for _ in range(2):
            assert [tool.name for tool in await session.list_tools()] == ["echo"]
        app.tools["new"] = lambda arguments: "new"
        assert [tool.name for tool in await session.list_tools()] == ["echo", "new"]
        assert app.lists == 3
        assert app.listeners, "it takes the stream"
        for _ in range(2):
            assert (await session.call_tool("new")).text == "new"
        assert app.lists == 3
        await app.listeners[0].event({"jsonrpc": "2.0", "method": CHANGED})
        with anyio.fail_after(60):
            while not session._catalog.outdated:
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(("get", "lists"), [(200, 1), (405, 3)])
async def test_over_http_a_list_is_stored_only_while_the_stream_for_notifications_is_open(
    get: int, lists: int
) -> None:
    app = OverHttp(get=get)
    async with serving(app) as server, connect(server.url) as session:
        for _ in range(3):
            await session.list_tools()
    assert app.lists == lists
