"""Every way to a result leads to the same one: what its options ask for does not depend on the way.

The ways are compared with a plain ``call_tool``, for each option that acts on results.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Host,
    MemoryServer,
    ToolResult,
    allow_all,
    connect,
    sync,
)
from mcp_client.approval.script import Script
from mcp_client.errors import InvalidResult
from mcp_client.testing import JsonRpcError, Recording, ReplayServer
from tests.server.tasking import Tasking

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = [{"type": "text", "text": "kept"}]

RESULTS: dict[str, dict[str, Any]] = {
    "as promised": {"structuredContent": {"n": 7}},
    "breaks its schema": {"structuredContent": {"n": "seven"}},
    "lacks what is promised": {},
    "an error of the tool": {"isError": True},
    "an error of the tool with a part": {"isError": True, "structuredContent": {"n": "seven"}},
}


class Server:
    """A tool ``t`` with one result, which it gives ``times`` times."""

    def __init__(self, result: dict[str, Any], times: int = 1) -> None:
        self.result = {"content": TEXT, **result}
        self.times = times

    @property
    def tool(self) -> dict[str, Any]:
        return {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": NUMBER}

    def __call__(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                return {"tools": [self.tool]}
            case "tools/call":
                self.times -= 1
                if self.times < 0:
                    raise JsonRpcError(-32000, "it was called once more")
                return self.result
        return NotImplemented


def tasking(result: dict[str, Any]) -> Any:
    """The same tool at a server that makes a task of each call."""
    server = Tasking({"status": "completed", "result": {"content": TEXT, **result}})
    server.tool = {"name": "t", "outputSchema": NUMBER}
    return MemoryServer(server)


Options = dict[str, Any]
Way = Callable[[dict[str, Any], Options, Options, Path], Awaitable[ToolResult]]
"""From a result, the options of the session and of the call, and a directory."""


async def plain(result: dict[str, Any], of_all: Options, of_call: Options, _: Path) -> ToolResult:
    async with connect(MemoryServer(Server(result)), approval=allow_all, **of_all) as session:
        return await session.call_tool("t", **of_call)


async def with_a_key(
    result: dict[str, Any], of_all: Options, of_call: Options, place: Path
) -> ToolResult:
    options: Any = {"approval": allow_all, "state": place / "state", **of_all}
    async with connect(MemoryServer(Server(result)), **options) as session:
        return await session.call_tool("t", idempotency_key="k", **of_call)


async def with_a_key_once_more(
    result: dict[str, Any], of_all: Options, of_call: Options, place: Path
) -> ToolResult:
    """In another session; the first one did not look at the result."""
    options: Any = {"approval": allow_all, "state": place / "state"}
    server = Server(result)
    async with connect(MemoryServer(server), validation="off", **options) as session:
        await session.call_tool("t", idempotency_key="k")
    async with connect(MemoryServer(server), **options, **of_all) as session:
        return await session.call_tool("t", idempotency_key="k", **of_call)


async def waited_for(
    result: dict[str, Any], of_all: Options, of_call: Options, _: Path
) -> ToolResult:
    """As a task that ``call_tool`` waits for."""
    async with connect(tasking(result), approval=allow_all, **of_all) as session:
        return await session.call_tool("t", **of_call)


async def started(result: dict[str, Any], of_all: Options, of_call: Options, _: Path) -> ToolResult:
    async with connect(tasking(result), approval=allow_all, **of_all) as session:
        return await (await session.start_tool("t", **of_call)).result()


async def resumed(
    result: dict[str, Any], of_all: Options, of_call: Options, place: Path
) -> ToolResult:
    """In another session, which takes no options of a call: they are the session's there."""
    server, options = tasking(result), dict[str, Any](approval=allow_all, state=place / "state")
    async with connect(server, **options) as session:
        saved = (await session.start_tool("t")).to_json()
    async with connect(server, **{**options, **of_all, **of_call}) as session:
        return await session.resume_task(saved).result()


async def replayed(
    result: dict[str, Any], of_all: Options, of_call: Options, place: Path
) -> ToolResult:
    file = place / "session.jsonl"
    server = Recording(MemoryServer(Server(result)), file)
    async with connect(server, approval=allow_all, validation="off") as session:
        await session.call_tool("t")
    async with connect(ReplayServer(file), approval=allow_all, **of_all) as session:
        return await session.call_tool("t", **of_call)


async def by_a_script(
    result: dict[str, Any], of_all: Options, of_call: Options, _: Path
) -> ToolResult:
    async with connect(MemoryServer(Server(result)), approval=allow_all, **of_all) as session:
        options: Any = of_call
        return await session._call_as_code("t", {}, options, Script("run", "t()"))


async def by_a_host(
    result: dict[str, Any], of_all: Options, of_call: Options, _: Path
) -> ToolResult:
    servers = {"memory": MemoryServer(Server(result))}
    async with Host(servers, approval=allow_all, **of_all) as host:
        return await host.call_tool("memory__t", **of_call)


async def without_an_event_loop(
    result: dict[str, Any], of_all: Options, of_call: Options, _: Path
) -> ToolResult:
    def call() -> ToolResult:
        server = MemoryServer(Server(result))
        with sync.connect(server, approval=allow_all, **of_all) as session:
            return session.call_tool("t", **of_call)

    return await anyio.to_thread.run_sync(call)


WAYS: list[Way] = [
    *(with_a_key, with_a_key_once_more, waited_for, started, resumed),
    *(replayed, by_a_script, by_a_host, without_an_event_loop),
]
OPTIONS: dict[str, tuple[Options, Options]] = {
    "by default": ({}, {}),
    "strict": ({"validation": "strict"}, {}),
    "warn": ({"validation": "warn"}, {}),
    "off": ({"validation": "off"}, {}),
    "warn for this call": ({}, {"validation": "warn"}),
    "strict for this call": ({"validation": "off"}, {"validation": "strict"}),
}


async def outcome(
    way: Way, result: dict[str, Any], options: tuple[Options, Options], place: Path
) -> Any:
    """What a caller sees of a result: its parts, its findings, or the error that has it."""
    try:
        found = await way(result, *options, place)
    except InvalidResult as error:
        inside = error.result
        return "InvalidResult", error.path, inside.text, inside.structured_content, error.retryable
    kinds = [one.kind for one in found.findings]
    return found.text, found.structured_content, found.is_error, kinds


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
async def test_a_result_is_the_same_on_every_way(
    way: Way, options: tuple[Options, Options], tmp_path: Path
) -> None:
    for name, result in RESULTS.items():
        place = tmp_path / name
        place.mkdir()
        expected = await outcome(plain, result, options, place)
        assert await outcome(way, result, options, place) == expected, name


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
async def test_the_audit_says_the_same_of_a_result_on_every_way(way: Way, tmp_path: Path) -> None:
    for name, result in RESULTS.items():
        said: list[Any] = []
        for number, one in enumerate((plain, way)):
            records: list[dict[str, Any]] = []
            place = tmp_path / name / str(number)
            place.mkdir(parents=True)
            await outcome(one, result, ({"audit": records.append}, {}), place)
            closed = [record for record in records if record["event"] == "closed"]
            said.append([(record["outcome"], record["tool"]) for record in closed])
        assert said[0] == said[1], name
