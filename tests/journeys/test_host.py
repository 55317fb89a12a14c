"""A host through the public API: good and bad servers of both eras, over stdio and HTTP."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    ConnectError,
    Handlers,
    Host,
    McpError,
    ServerConfig,
    StdioServer,
    Timeouts,
    ToolCall,
    allow_all,
)
from mcp_client.audit import verify_audit
from mcp_client.errors import ConnectionLost, UnknownTool
from mcp_client.handlers import Accept, ElicitRequest
from tests.interop import peers
from tests.support import asking_stdio
from tests.support.http_apps import Handshake, Stateless
from tests.support.http_server import serving
from tests.support.starting import library, scripted
from tests.support.toolbox import names

ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])
BRISK = Timeouts(close=0.5)


def starts(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.slow
@ERAS
async def test_a_host_from_opening_to_closing(era: str, tmp_path: Path) -> None:
    asked: list[ToolCall] = []

    async def approve(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    app = Stateless() if era == "stateless" else Handshake()
    async with serving(app) as served:
        servers: dict[str, Any] = {
            "scripted": ServerConfig(scripted("--era", era), include=["echo", "kill"]),
            "library": library(era),
            "far": served.url,
            "lazy": ServerConfig(scripted("--era", era), lazy=True),
            "never": scripted("--print-and-exit"),
        }
        log, pins = tmp_path / "calls.jsonl", tmp_path / "mcp.lock"
        options: Any = {"approval": approve, "timeouts": BRISK, "audit": log, "pins": pins}
        async with Host(servers, **options) as host:
            tools = await host.list_tools()
            assert {"scripted__echo", "scripted__kill", "far__echo"} <= set(names(tools))
            assert "scripted__pid" not in names(tools)
            missing = [finding for finding in tools.findings if "is missing" in str(finding)]
            assert [finding.text.split("'")[1] for finding in missing] == ["lazy", "never"]

            result = await host.call_tool("scripted__echo", {"a": 1}, context="ana")
            assert result.text == '{"a": 1}'
            assert (asked[-1].server, asked[-1].context) == ("scripted", "ana")
            with pytest.raises(UnknownTool, match="include="):
                await host.call_tool("scripted__pid")

            with pytest.raises(ConnectionLost):
                await host.call_tool("scripted__kill")
            assert (await host.call_tool("far__echo", {"b": 2})).text == "{'b': 2}"
            assert (await host.call_tool("scripted__echo", {"c": 3})).text == '{"c": 3}'

            assert {resource.server for resource in await host.list_resources()} == {"library"}
            assert {prompt.server for prompt in await host.list_prompts()} == {"library"}
            await host.session("lazy")
            assert (await host.call_tool("lazy__echo")).text == "{}"
            assert host.status()["never"].state in ("failed", "connecting")
        assert verify_audit(log)


@pytest.mark.interop
async def test_changes_are_reported_by_a_server_whose_tools_come_and_go() -> None:
    servers = {"growing": peers.growing(), "other": scripted()}
    async with (
        Host(servers, approval=allow_all, timeouts=BRISK) as host,
        host.tool_changes() as changes,
    ):
        before = set(names(await host.list_tools()))
        await host.call_tool("growing__grow", {"name": "fresh"})
        assert names((await anext(changes)).added) == ["growing__fresh"]
        assert set(names(await host.list_tools())) == {*before, "growing__fresh"}
        assert (await host.call_tool("growing__fresh", {"number": 7})).text == "7"


@pytest.mark.slow
@ERAS
async def test_a_crash_loop_costs_two_to_twelve_starts_in_eight_seconds(
    era: str, tmp_path: Path
) -> None:
    dies, never = tmp_path / "dies", tmp_path / "never"
    servers: dict[str, Any] = {
        "good": scripted("--era", era),
        "dies": scripted("--era", era, "--starts", str(dies), "--lives", "0.3"),
        "never": scripted("--starts", str(never), "--print-and-exit"),
    }
    async with Host(servers, approval=allow_all, timeouts=BRISK) as host:
        with anyio.move_on_after(8):
            while True:
                for name in ("dies__pid", "never__pid"):
                    with suppress(McpError):
                        while True:  # until it is down
                            await host.call_tool(name)
                            await anyio.sleep(0.02)
                assert (await host.call_tool("good__echo")).text == "{}"
                await anyio.sleep(0.05)
        assert 2 <= starts(dies) <= 12
        assert 2 <= starts(never) <= 12
        with pytest.raises(ConnectError):
            await host.session("never")


@ERAS
async def test_handlers_of_the_host_answer_the_questions_of_every_server(era: str) -> None:
    asked: list[tuple[str, Any]] = []

    async def respond(request: ElicitRequest) -> Accept:
        asked.append((request.server, None if request.call is None else request.call.context))
        return Accept({"name": "Ana"})

    script = Path(asking_stdio.__file__)
    server = StdioServer(sys.executable, ["-IS", str(script), era])
    handlers = Handlers(elicitation=respond)
    options: Any = {"approval": allow_all, "timeouts": BRISK, "handlers": handlers}
    async with Host({"one": server, "two": server}, **options) as host:
        for name in ("one", "two"):
            result = await host.call_tool(f"{name}__form", context=("user", name))
            assert "Ana" in result.text
    assert asked == [("one", ("user", "one")), ("two", ("user", "two"))]


async def test_changes_are_reported_by_a_server_of_the_handshake_era() -> None:
    script = Path(asking_stdio.__file__)
    server = StdioServer(sys.executable, ["-IS", str(script), "handshake"])
    servers = {"one": server, "two": server}
    async with (
        Host(servers, approval=allow_all, timeouts=BRISK) as host,
        host.tool_changes() as changes,
    ):
        await host.call_tool("two__grow")
        assert names((await anext(changes)).added) == ["two__grown"]
