"""Ten real servers in one host, over stdio, Streamable HTTP and HTTP+SSE, beside three bad ones.

Five ages of the official SDK, the reference servers for everything, files, memory, time and git.
One is killed in the middle of a call, one never starts, one dies again and again: the others answer
throughout.
"""

from __future__ import annotations

import os
import shlex
import signal
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import Host, McpError, ServerConfig, StdioServer, Timeouts, ToolResult, allow_all
from mcp_client.audit import verify_audit
from mcp_client.errors import ConnectionLost
from tests.interop import http_peers, peers
from tests.support.starting import scripted
from tests.support.toolbox import names, until

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SLOW_MACHINE = Timeouts(connect=60, close=1)


def with_its_pid(server: StdioServer, path: Path) -> StdioServer:
    """The same server, which writes its process id to ``path``."""
    words = shlex.join([server.command, *server.args])
    script = f"echo $$ > {shlex.quote(str(path))}; exec {words}"
    return StdioServer("sh", ["-c", script], env=server.env)


async def test_ten_real_servers_answer_throughout_whatever_becomes_of_others(
    tmp_path: Path,
) -> None:
    notes, pid = tmp_path / "notes.txt", tmp_path / "pid"
    notes.write_text("milk")
    repo = peers.repository(tmp_path / "repo")
    async with AsyncExitStack() as stack:
        newest = await stack.enter_async_context(http_peers.official("2.3.0", "streamable-http"))
        sse = await stack.enter_async_context(http_peers.official("1.12.4", "sse"))
        everything = await stack.enter_async_context(http_peers.everything("streamableHttp"))
        servers: dict[str, Any] = {
            "sdk-2.3": newest,
            "sdk-1.30": with_its_pid(peers.official("1.30.0"), pid),
            "sdk-1.12": sse,
            "sdk-1.6": peers.official("1.6.0"),
            "sdk-1.2": peers.official("1.2.0"),
            "everything": everything,
            "files": ServerConfig(peers.filesystem(tmp_path), exclude=["write_*", "move_*"]),
            "memory": peers.memory(tmp_path / "memory.json"),
            "time": peers.time(),
            "git": ServerConfig(peers.git(repo), include=["git_status", "git_log"]),
            "never": scripted("--print-and-exit"),
            "loops": scripted("--lives", "0.3"),
        }
        questions: dict[str, tuple[dict[str, Any], str]] = {
            "sdk-2.3": ({"text": "newest"}, "newest"),
            "sdk-1.12": ({"text": "older"}, "older"),
            "sdk-1.6": ({"text": "old"}, "old"),
            "sdk-1.2": ({"text": "oldest"}, "oldest"),
        }
        options: Any = {"approval": allow_all, "audit": tmp_path / "calls.jsonl"}
        async with Host(servers, timeouts=SLOW_MACHINE, **options) as host:
            tools = await host.list_tools()
            by_server: dict[str, list[str]] = {}
            for tool in tools:
                by_server.setdefault(tool.server, []).append(tool.name)
            assert set(servers) - set(by_server) <= {"never", "loops"}
            assert sorted(by_server["git"]) == ["git_log", "git_status"]
            assert not any(name.startswith("write_") for name in by_server["files"])
            assert len(set(names(tools))) == len(tools)
            qualified = {(tool.server, tool.name): tool.qualified_name for tool in tools}

            async def call(server: str, tool: str, arguments: dict[str, Any]) -> ToolResult:
                return await host.call_tool(qualified[server, tool], arguments, timeout=60)

            async def ask_all() -> None:
                for server, (arguments, expected) in questions.items():
                    result = await call(server, "echo", arguments)
                    assert expected in result.text
                assert "hi" in (await call("everything", "echo", {"message": "hi"})).text
                listed = await call("files", "list_directory", {"path": str(tmp_path)})
                assert "notes.txt" in listed.text
                assert not (await call("memory", "read_graph", {})).is_error
                now = await call("time", "get_current_time", {"timezone": "UTC"})
                assert "UTC" in now.text
                status = await call("git", "git_status", {"repo_path": str(repo)})
                assert not status.is_error

            await ask_all()

            async with anyio.create_task_group() as tasks:
                killed = anyio.Event()

                async def call_that_dies() -> None:
                    with pytest.raises(ConnectionLost):
                        await call("sdk-1.30", "slow", {"seconds": 50.0, "steps": 500})
                    killed.set()

                tasks.start_soon(call_that_dies)
                await ask_all()
                os.kill(int(pid.read_text()), signal.SIGKILL)
                await killed.wait()
                tasks.start_soon(ask_all)
                await until(host, "sdk-1.30", "connected")
            assert "back" in (await call("sdk-1.30", "echo", {"text": "back"})).text

            for _ in range(5):
                for bad in ("loops__pid", "never__pid"):
                    with suppress(McpError):
                        while True:  # until it is down
                            await host.call_tool(bad)
                            await anyio.sleep(0.02)
                await ask_all()
            good = set(servers) - {"never", "loops"}
            assert {name for name, one in host.status().items() if one.state == "connected"} >= good
            assert await host.search_tools("what time is it in a timezone")
    assert verify_audit(tmp_path / "calls.jsonl")
