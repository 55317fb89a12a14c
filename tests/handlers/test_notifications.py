"""``Handlers(notification=)``: every notification that no other handler takes, in order."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from mcp_client import (
    ConfigError,
    Handlers,
    HttpServer,
    Limits,
    MemoryServer,
    StdioServer,
    allow_all,
    connect,
)
from mcp_client.handlers import LogMessage, ServerNotification
from tests.support.answering import ERAS, answering, tool

OWN = {"jsonrpc": "2.0", "method": "notifications/x-build/finished", "params": {"n": 1}}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
LOGGED = {
    "jsonrpc": "2.0",
    "method": "notifications/message",
    "params": {"level": "info", "data": "hi"},
}


class Received(list[ServerNotification]):
    """A handler that waits until it has heard so many."""

    def __init__(self, count: int) -> None:
        self._count, self._enough = count, anyio.Event()

    def __call__(self, notice: ServerNotification) -> Any:
        return self._hear(notice)

    async def _hear(self, notice: ServerNotification) -> None:
        self.append(notice)
        if len(self) == self._count:
            self._enough.set()

    async def enough(self) -> list[tuple[str, str, Any]]:
        with anyio.fail_after(20):
            await self._enough.wait()
        return [(one.server, one.method, dict(one.params)) for one in self]


def beside(*notices: dict[str, Any]) -> Any:
    """What a server sends before its response to a call."""

    def spell(request: dict[str, Any], response: dict[str, Any]) -> list[bytes]:
        more = notices if request["method"] == "tools/call" else ()
        return [json.dumps(one).encode() for one in (*more, response)]

    return spell


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("wire", ["memory", "stdio", "sse"])
async def test_what_no_other_handler_takes_is_received_in_order(wire: str, era: str) -> None:
    received = Received(3)
    async with (
        answering(wire, era, {}, beside(OWN, CHANGED, LOGGED)) as server,
        connect(
            server,
            name="desk",
            revision=era,
            approval=allow_all,
            handlers=Handlers(notification=received),
        ) as session,
    ):
        await session.call_tool("echo")
        assert await received.enough() == [
            ("desk", OWN["method"], {"n": 1}),
            ("desk", CHANGED["method"], {}),
            ("desk", "notifications/message", LOGGED["params"]),
        ]


async def test_a_line_that_the_log_handler_takes_is_received_once() -> None:
    received, lines = Received(1), list[LogMessage]()
    handlers = Handlers(notification=received, log=lines.append)
    async with (
        answering("memory", "handshake", {}, beside(LOGGED, OWN)) as server,
        connect(server, approval=allow_all, handlers=handlers) as session,
    ):
        await session.call_tool("echo")
        assert [method for _, method, _ in await received.enough()] == [OWN["method"]]
    assert [line.text for line in lines] == ["hi"]


async def test_what_comes_on_the_stream_of_a_subscription_is_received() -> None:
    received = Received(2)

    def spell(request: dict[str, Any], response: dict[str, Any]) -> list[bytes]:
        if request["method"] != "subscriptions/listen":
            return [json.dumps(response).encode()]
        meta = {"io.modelcontextprotocol/subscriptionId": request["id"]}
        wanted = request["params"]["notifications"]
        acknowledged = {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": wanted, "_meta": meta},
        }
        notices = [{**one, "params": {"_meta": meta}} for one in (CHANGED, OWN)]
        return [json.dumps(one).encode() for one in (acknowledged, *notices)]

    answers = {
        "capabilities": {"tools": {"listChanged": True}},
        "tools/list": {"tools": [tool()]},
        "subscriptions/listen": {},
    }
    async with (
        answering("memory", "stateless", answers, spell) as server,
        connect(server, handlers=Handlers(notification=received)) as session,
    ):
        await session.list_tools()
        await session.list_tools()
        reported = await received.enough()
    assert [method for _, method, _ in reported] == [CHANGED["method"], OWN["method"]]


async def test_a_flood_is_bounded_and_a_handler_that_raises_ends_nothing() -> None:
    raised = 0

    def handler(notice: ServerNotification) -> None:
        nonlocal raised
        raised += 1
        raise ValueError("a fault of the host")

    async with (
        answering("memory", "handshake", {}, beside(*[OWN] * 50)) as server,
        connect(
            server,
            approval=allow_all,
            limits=Limits(notices=5),
            handlers=Handlers(notification=handler),
        ) as session,
    ):
        assert (await session.call_tool("echo")).text == "done"
    assert 0 < raised < 50
    assert raised + session.stats.dropped_notices == 50


@pytest.mark.parametrize(
    "server",
    [
        HttpServer("https://a.example", headers={"X-Key": "secret-of-the-host"}),
        StdioServer("x", env={"KEY": "secret-of-the-host"}),
    ],
    ids=["http", "stdio"],
)
def test_a_handler_that_is_not_a_function_is_refused(server: Any) -> None:
    with pytest.raises(ConfigError, match="Handlers\\(notification=5\\): give a function"):
        connect(server, handlers=Handlers(notification=5))  # type: ignore[arg-type]


async def test_it_declares_nothing_to_the_server() -> None:
    declared: list[Any] = []

    def server(message: dict[str, Any]) -> Any:
        if message["method"] == "initialize":
            declared.append(message["params"]["capabilities"])
        return NotImplemented

    async with connect(
        MemoryServer(server), revision="handshake", handlers=Handlers(notification=print)
    ):
        pass
    assert declared == [{}]
