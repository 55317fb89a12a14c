"""Arguments of the wrong type: one typed error that says what to give, never a TypeError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_client import (
    ConfigError,
    Host,
    MemoryServer,
    ReplayServer,
    Rules,
    StdioServer,
    ToolCall,
    UnknownTool,
    allow_all,
    connect,
    sync,
    verify_audit,
)
from mcp_client.stubs import generate

WRONG: Any = 5


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: StdioServer("x", [WRONG]), "StdioServer(args=...): give a list of texts"),
        (lambda: StdioServer("x", WRONG), "StdioServer(args=...): give a list of texts"),
        (lambda: verify_audit(WRONG), "verify_audit(5): give the path of a file"),
        (lambda: Rules.from_file(WRONG), "Rules.from_file(5): give the path of a file"),
        (lambda: ReplayServer(WRONG), "ReplayServer(5): give the path of a file"),
        (lambda: ToolCall.example(WRONG), "ToolCall.example(): the tool is a int: give a name"),
        (lambda: MemoryServer(WRONG), "MemoryServer(int): give a function"),
        (lambda: generate(WRONG), "generate() was given int: give the tools of list_tools()"),
        (lambda: generate(["x"]), "generate() was given a list with a str"),  # type: ignore[list-item]
    ],
)
def test_a_wrong_type_is_a_config_error_that_says_what_to_give(
    make: Callable[[], object], text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert text in str(caught.value)


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
    async with Host({"desk": MemoryServer(_server)}, approval=allow_all) as host:
        tools = list(await host.list_tools())
        with pytest.raises(UnknownTool, match=r"a Tool: give tool\.qualified_name"):
            await host.call_tool(tools[0])
        with pytest.raises(UnknownTool, match="a int: give a text"):
            await host.call_tool(WRONG)


async def test_async_with_a_connection_for_threads_says_use_with() -> None:
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
