"""A view's life over each transport and revision: declared, read, shown, called, closed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    Deny,
    HttpServer,
    MemoryServer,
    NotSent,
    StdioServer,
    ToolCall,
    connect,
)
from mcp_client.extensions import App, Apps, ClientInfo
from tests.journeys.library_story import PLAYS, REVISIONS
from tests.support.http_apps import LibraryApp
from tests.support.http_server import serving
from tests.support.starting import in_memory
from tests.support.starting import views as views_program
from tests.support.views import MIME_TYPE, UI, HandshakeViews, StatelessViews


@asynccontextmanager
async def a_server(
    transport: str, revision: str
) -> AsyncIterator[StdioServer | HttpServer | MemoryServer]:
    stateless = revision == REVISIONS[-1]
    views = StatelessViews() if stateless else HandshakeViews()
    if transport == "stdio":
        yield views_program("stateless" if stateless else "handshake")
    elif transport == "memory":
        yield in_memory(views)
    else:
        async with serving(LibraryApp(views)) as served:
            yield HttpServer(served.url)


class Person:
    """Allows what the host calls, and thinks about what a view calls."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.decision: Any = Allow()
        self.thinks = anyio.Event()

    async def __call__(self, call: ToolCall) -> Any:
        self.seen.append((call.tool.name, call.origin))
        if self.decision is None:
            self.thinks.set()
            await anyio.sleep_forever()
        return self.decision


async def post(app: App, method: str, **params: Any) -> dict[str, Any] | None:
    return await app.handle({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


@pytest.mark.parametrize(("transport", "revision"), PLAYS)
async def test_a_view_is_shown_and_calls_its_server(transport: str, revision: str) -> None:
    person, records = Person(), list[Mapping[str, Any]]()
    async with (
        a_server(transport, revision) as server,
        connect(
            server,
            name="clock",
            approval=person,
            audit=records.append,
            client_info=ClientInfo("tests", "1", extensions=[Apps()]),
            revision=revision,
        ) as session,
    ):
        assert UI in session.extensions
        tools = {tool.name: tool for tool in await session.list_tools()}
        result = await session.call_tool("show")
        view, app = await session.read_ui(tools["show"]), session.app(tools["show"])
        assert view.raw["mimeType"] == MIME_TYPE

        response = await post(app, "tools/call", name="refresh", arguments={})
        assert response is not None
        assert response["result"]["content"] == result.raw["content"]
        person.decision = Deny("not on Sundays")
        response = await post(app, "tools/call", name="refresh")
        assert response is not None
        assert response["error"] == {"code": -32000, "message": "the call was not approved"}
        response = await post(app, "resources/read", uri="data:hours")
        assert response is not None
        assert response["result"]["contents"][0]["text"] == "14"

        person.decision = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: post(app, "tools/call", name="refresh"))
            await person.thinks.wait()
            app.close()
        with pytest.raises(NotSent, match="the view was closed"):
            await app.call_tool("refresh")
        person.decision = Allow()
        await session.call_tool("show")  # the session goes on without its view
    assert person.seen == [
        ("show", "host"),
        ("refresh", "app"),
        ("refresh", "app"),
        ("refresh", "app"),
        ("show", "host"),
    ]
    outcomes = [one["outcome"] for one in records if one["event"] == "closed"]
    # show, reading its view, refresh twice, reading for the view, refresh, show
    assert outcomes == ["ok", "ok", "ok", "CallDenied", "ok", "CallWithdrawn", "ok"]
