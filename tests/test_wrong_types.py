"""Arguments of the wrong type: one typed error that names what to pass, never a TypeError."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_client import (
    AuditLog,
    ConfigError,
    Handlers,
    Host,
    HttpServer,
    MemoryServer,
    Pins,
    Rules,
    StdioServer,
    ToolCall,
    allow_all,
    connect,
    sync,
)
from mcp_client.adapters import openai_chat
from mcp_client.approval import Decisions
from mcp_client.audit import verify_audit
from mcp_client.auth import FileTokens, OAuth
from mcp_client.config import load_config
from mcp_client.errors import UnknownTool
from mcp_client.stubs import generate
from mcp_client.testing import Recording, ReplayServer

WRONG: Any = 5
TEXT: Any = "url"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: StdioServer("x", [WRONG]), "StdioServer(args=...): give a list of str"),
        (lambda: StdioServer("x", WRONG), "StdioServer(args=...): give a list of str"),
        (lambda: StdioServer("x", env=WRONG), "StdioServer(env=...): give a dict"),
        (lambda: StdioServer("x", env=["A=b"]), "StdioServer(env=...): give a dict"),  # type: ignore[arg-type]
        (lambda: StdioServer("x", cwd=WRONG), "StdioServer(cwd=5): give the path of a directory"),
        (lambda: StdioServer("x", stderr=WRONG), "StdioServer(stderr=...): give a function"),
        (lambda: StdioServer("x", identity=WRONG), "StdioServer(identity=...): give a list"),
        (lambda: HttpServer("http://x", identity=WRONG), "HttpServer(identity=...): give a list"),
        (lambda: HttpServer("http://x", end_session=WRONG), "HttpServer(end_session=5): give True"),
        (lambda: HttpServer("http://x", via_httpx=WRONG), "HttpServer(via_httpx=5): give True"),
        (lambda: Handlers(sampling_tools=WRONG), "Handlers(sampling_tools=5): True or False"),
        (lambda: Handlers(elicitation_modes=WRONG), "Handlers(elicitation_modes=5): give form,"),
        (lambda: Handlers(elicitation_modes=TEXT), "Handlers(elicitation_modes='url'): give "),
        (lambda: OAuth(headless=WRONG), "OAuth(headless=5): give True or False"),
        (lambda: Host({}, required=WRONG), "required=5: give a list of names"),
        (lambda: Rules(WRONG), "Rules(5): give a list of Rule(...)"),
        (lambda: verify_audit(WRONG), "verify_audit(5): give the path of a file"),
        (lambda: Rules.from_file(WRONG), "Rules.from_file(5): give the path of a file"),
        (lambda: ReplayServer(WRONG), "ReplayServer(5): give the path of a file"),
        (lambda: ToolCall.example(WRONG), "ToolCall.example(): the tool is a int: give a name"),
        (lambda: MemoryServer(WRONG), "MemoryServer(int): give a function"),
        (lambda: generate(WRONG), "generate() was given int: give the tools of list_tools()"),
        (lambda: generate(["x"]), "generate() was given a list with a str"),  # type: ignore[list-item]
    ],
)
def test_a_wrong_type_is_a_config_error_that_states_what_to_give(
    make: Callable[[], object], text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert text in str(caught.value)


@pytest.mark.parametrize("path", [WRONG, b"x", "", "a\0b"])
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (load_config, "path="),
        (verify_audit, "verify_audit("),
        (ReplayServer, "ReplayServer("),
        (Rules.from_file, "Rules.from_file("),
        (Pins, "the lock file "),
        (Decisions, "the decisions "),
        (FileTokens, "FileTokens("),
        (AuditLog, "AuditLog("),
        (lambda path: Recording(MemoryServer(_server), path), "Recording("),
    ],
)
def test_what_cannot_be_the_path_of_a_file_is_a_config_error_that_names_the_cause(
    make: Callable[[Any], object], text: str, path: Any
) -> None:
    with pytest.raises(ConfigError) as caught:
        make(path)
    assert str(caught.value) == f"{text}{path!r}{')' * (text[-1] == '(')}: give the path of a file"


@pytest.mark.parametrize("only", [WRONG, "desk"])
def test_the_servers_of_a_config_file_are_chosen_by_a_list(only: Any, tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"desk": {"command": "x"}}}')
    with pytest.raises(ConfigError, match=r"only=.*give a list of names"):
        Host.from_config(tmp_path / "mcp.json", only=only)


def test_a_path_that_no_file_system_can_have_is_a_config_error() -> None:
    with pytest.raises(ConfigError):
        load_config("x\ud800")


def _server(message: dict[str, Any]) -> Any:
    if message["method"] == "tools/list":
        return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    return NotImplemented


async def test_the_name_of_a_tool_is_a_text_for_a_session_and_a_host() -> None:
    async with connect(MemoryServer(_server), approval=allow_all) as session:
        tools: list[Any] = list(await session.list_tools())
        with pytest.raises(UnknownTool, match=r"the name of a tool is a Tool: give tool\.name"):
            await session.call_tool(tools[0])
        odd: list[Any] = [WRONG, None, {}]
        for wrong in odd:
            with pytest.raises(UnknownTool, match=r"the name of a tool is a \w+: give a text"):
                await session.call_tool(wrong)
            with pytest.raises(UnknownTool) as caught:
                await session.get_tool(wrong)
            assert caught.value.server == session.name
    async with Host({"desk": MemoryServer(_server)}, approval=allow_all) as host:
        tools = list(await host.list_tools())
        with pytest.raises(UnknownTool, match=r"a Tool: give tool\.qualified_name"):
            await host.call_tool(tools[0])
        for wrong in odd:
            with pytest.raises(UnknownTool, match=r"a \w+: give a text"):
                await host.call_tool(wrong)


async def test_a_wrong_option_of_a_call_is_a_config_error_for_a_session_a_host_and_a_model() -> (
    None
):
    call: Any
    async with connect(MemoryServer(_server), approval=allow_all) as session:
        for call in (session.call_tool, session.start_tool):
            with pytest.raises(ConfigError, match="on_progress=5: give a function"):
                await call("echo", on_progress=WRONG)
            with pytest.raises(ConfigError, match="cancel=5: give a CancelToken"):
                await call("echo", cancel=WRONG)
        kit = openai_chat.toolset(await session.list_tools())
        function = {"name": "echo", "arguments": "{}"}
        calls = [{"id": "1", "type": "function", "function": function}]
        with pytest.raises(ConfigError, match="on_progress=5: give a function"):
            await kit.run(session, calls, on_progress=WRONG)
        with pytest.raises(ConfigError, match=r"elicitation ('\[\]'|\[\])"):
            await session.wait_for_elicitation([])  # type: ignore[arg-type]
    async with Host({"desk": MemoryServer(_server)}, approval=allow_all) as host:
        for call in (host.call_tool, host.start_tool):
            for name in ("desk__echo", "another"):
                with pytest.raises(ConfigError, match="cancel=5: give a CancelToken"):
                    await call(name, cancel=WRONG)


async def test_a_host_is_asked_for_servers_and_tools_by_text() -> None:
    async with Host({"desk": MemoryServer(_server)}, approval=allow_all) as host:
        await host.list_tools()
        wrong: Any
        for wrong in (WRONG, None, [], {}):
            for ask in (host.session, host.reconnect, host.remove):
                with pytest.raises(ConfigError, match="unknown server"):
                    await ask(wrong)
            with pytest.raises(ConfigError, match="unknown server"):
                await host.read_resource("file:///a", server=wrong)
            with pytest.raises(ConfigError, match=r"search_tools\(\) was given a \w+: give words"):
                await host.search_tools(wrong)
        for wrong in ("8", None, 1.5, True):
            with pytest.raises(ConfigError, match=r"search_tools\(limit=.*give a whole number"):
                await host.search_tools("echo", limit=wrong)


async def test_async_with_a_connection_for_threads_leads_to_with_as_advice() -> None:
    connecting: Any = sync.connect(MemoryServer(_server), approval=allow_all)
    wanted = "of mcp_client.sync is not awaited: use 'with', or mcp_client.connect"
    with pytest.raises(ConfigError, match=wanted):
        async with connecting:
            pass
    with pytest.raises(ConfigError, match=wanted):
        await connecting
    host: Any = sync.Host({})
    with pytest.raises(ConfigError, match=r"use 'with', or mcp_client\.Host"):
        async with host:
            pass


@pytest.mark.parametrize("connects", [connect, sync.connect], ids=["async", "sync"])
def test_a_session_that_is_not_open_has_nothing_of_a_session(connects: Any) -> None:
    connecting: Any = connects(MemoryServer(lambda message: NotImplemented))
    for name in ("call_tool", "server_info", "list_tools", "nothing_like_it"):
        assert not hasattr(connecting, name)
        assert getattr(connecting, name, None) is None
    with pytest.raises(ConfigError, match="not open yet, so call_tool"):
        connecting.call_tool("x")
