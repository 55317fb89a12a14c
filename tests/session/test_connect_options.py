"""Wrong options of ``connect`` are reported at once, with the cause and the fix."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    ConfigError,
    Deny,
    Handlers,
    HttpServer,
    Limits,
    MemoryServer,
    Retry,
    Session,
    StdioServer,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.errors import ConnectionLost
from mcp_client.testing import ReplayServer

COMMAND = ["no-such-program"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("timeouts", 10),
        ("timeouts", {"idle": 3}),
        ("limits", 5),
        ("client_info", "my-app"),
        ("client_info", {"name": "my-app"}),
        ("name", 5),
        ("name", ""),
        ("retry", 3),
        ("retry", True),
        ("revision", 5),
        ("revision", "2020-01-01"),
        ("handlers", 5),
        ("audit", 5),
        ("state", 5),
        ("pins", 5),
        ("trusted", 5),
        ("validation", "loose"),
        ("validation", 3),
    ],
)
def test_an_option_of_the_wrong_type_is_refused_with_its_name(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=option):
        connect(COMMAND, **{option: value})


@pytest.mark.parametrize(
    ("approval", "advice"),
    [
        (Allow, "allow_all"),
        (Allow(), "allow_all"),
        (True, "allow_all"),
        (Deny, "deny_all"),
        (Deny("no"), "deny_all"),
        (False, "deny_all"),
        (ToolCall, "a function from ToolCall"),
        ("yes", "a function from ToolCall"),
    ],
)
def test_a_decision_given_as_the_approval_hook_is_refused(approval: Any, advice: str) -> None:
    with pytest.raises(ConfigError, match=f"approval=.*{advice}"):
        connect(COMMAND, approval=approval)


@pytest.mark.parametrize(
    ("server", "advice"),
    [
        (Path("server.py"), r"StdioServer\(sys.executable, \['server.py'\]\)"),
        (Path("server.js"), r"StdioServer\('node', \['server.js'\]\)"),
        (Path("bin/server"), r"StdioServer\('bin/server'\)"),
        ({"command": "python", "args": []}, "StdioServer"),
        ({"url": "https://example.com/mcp"}, "HttpServer"),
        ([], "empty"),
        (5, "StdioServer"),
        (None, "StdioServer"),
        ("python server.py", r"StdioServer\('python', \['server.py'\]\)"),
        ("localhost:8000/mcp", "http://localhost:8000/mcp"),
    ],
)
def test_what_is_not_a_server_is_refused_with_what_to_give(server: Any, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        connect(server)


@pytest.mark.parametrize("name", ["call_tool", "list_tools", "name", "aclose"])
def test_a_session_that_is_not_open_explains_how_to_open_it(name: str) -> None:
    connecting: Any = connect(COMMAND)
    with pytest.raises(ConfigError, match=r"async with connect.* as session"):
        getattr(connecting, name)
    with pytest.raises(AttributeError):
        connecting.no_such_name  # noqa: B018


def test_a_plain_with_explains_how_to_open_the_session() -> None:
    connecting: Any = connect(COMMAND)
    with pytest.raises(ConfigError, match="async with"), connecting:
        pass


async def test_a_session_is_opened_once() -> None:
    found = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "instructions": "Be kind."}
    connecting = connect(MemoryServer(lambda message: found))
    session = await connecting
    assert session.instructions == "Be kind."
    assert session._model_instructions == {session.name: "Be kind."}
    assert session.sandbox is None
    for again in (lambda: connecting, connecting.__aenter__):
        with pytest.raises(ConfigError, match="Call connect again"):
            await again()
    await session.aclose()


@pytest.mark.parametrize(
    "kind", [Timeouts, Limits, Retry, StdioServer, HttpServer, Allow, Deny, Handlers]
)
def test_help_on_an_option_describes_each_of_its_fields(kind: Any) -> None:
    reported = inspect.getdoc(kind) or ""
    fields = [each.name for each in dataclasses.fields(kind) if each.name[0] != "_"]
    assert [name for name in fields if name not in reported] == []


@pytest.mark.parametrize("kind", [MemoryServer, ReplayServer])
def test_a_server_in_this_process_shows_only_how_to_make_and_to_end_it(kind: type) -> None:
    assert [name for name in dir(kind) if not name.startswith("_")] == ["end"]


async def test_ending_a_memory_server_ends_every_session_that_it_has_now() -> None:
    async def handle(message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                return {"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                called.release()
                return None
        return NotImplemented

    called = anyio.Semaphore(0)
    server = MemoryServer(handle)
    lost: list[ConnectionLost] = []

    async def call(session: Session) -> None:
        with pytest.raises(ConnectionLost) as caught:
            await session.call_tool("wait")
        lost.append(caught.value)

    async with (
        connect(server, approval=allow_all) as one,
        connect(server, approval=allow_all) as other,
    ):
        for times in (1, 2):  # the second time over connections that were made again
            async with anyio.create_task_group() as group:
                for session in (one, other):
                    group.start_soon(call, session)
                with anyio.fail_after(60):
                    await called.acquire()
                    await called.acquire()
                server.end()
            assert len(lost) == 2 * times
