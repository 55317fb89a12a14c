"""``Timeouts(ping=...)``: signs of life at intervals, and a new connection where one is missed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from mcp_client import (
    CallTimeout,
    ConfigError,
    ConnectError,
    Host,
    Limits,
    McpError,
    MemoryServer,
    NotSent,
    ServerError,
    Session,
    Timeouts,
    allow_all,
    connect,
)
from mcp_client.connection.connection import _answers
from mcp_client.errors import AuthError, ConnectionLost, ProtocolViolation
from mcp_client.testing import JsonRpcError
from tests.support.http_apps import Handshake, Stateless, text
from tests.support.http_server import Reply, Request, serving
from tests.support.starting import scripted
from tests.support.timing import Clock

EVERY = 30.0


class Server:
    """Answers signs of life until a test stops it, and counts connections."""

    def __init__(self, era: str = "2025-11-25") -> None:
        self.era = era
        self.connections = 0
        self.asked: list[str] = []
        self.deaf = False
        self.refuses = False
        self.ping_error = False
        self.received = anyio.Event()

    async def __call__(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "initialize" if self.era == "2026-07-28":
                raise JsonRpcError(-32601, "no such method")
            case "initialize":
                return self.connected(
                    {"protocolVersion": self.era, "serverInfo": {"name": "s", "version": "1"}}
                )
            case "server/discover" if self.era == "2026-07-28":
                self.sign("server/discover")
                if self.deaf:
                    await anyio.sleep_forever()
                return self.connected({"supportedVersions": [self.era], "resultType": "complete"})
            case "ping":
                self.sign("ping")
                if self.deaf:
                    await anyio.sleep_forever()
                if self.ping_error:
                    raise JsonRpcError(-32601, "what is a ping?")
                return {}
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in "ab"]
                return {"tools": tools, "resultType": "complete"}
            case "tools/call" if message["params"]["name"] == "a":
                return text("done")
            case "tools/call":
                self.received.set()
                await anyio.sleep_forever()
        return NotImplemented

    def connected(self, facts: dict[str, Any]) -> dict[str, Any]:
        if self.refuses:
            raise JsonRpcError(-32603, "not now")
        self.connections += 1
        return {"capabilities": {"tools": {}}, **facts}

    def sign(self, method: str) -> None:
        self.asked.append(method)


def pinged(every: float | None = EVERY, **more: Any) -> Timeouts:
    return Timeouts(ping=every, total=10_000, **more)


async def settled(done: Callable[[], Any]) -> None:
    """Wait until ``done()``, while the clock of the loop may be stopped."""
    while not done():
        await anyio.lowlevel.checkpoint()


async def calm() -> None:
    """Let all that can go on without time go on."""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


def session_of(server: Server, every: float | None = EVERY) -> Any:
    return connect(
        MemoryServer(server), approval=allow_all, timeouts=pinged(every), revision=server.era
    )


async def test_a_sign_of_life_is_asked_for_at_each_interval(clock: Clock) -> None:
    server = Server()
    async with session_of(server) as session:
        await calm()
        clock.stop()
        for number in range(1, 4):
            assert len(server.asked) == number - 1
            clock.jump(EVERY + 1)
            await settled(lambda: len(server.asked) == number)  # noqa: B023
            await calm()
        assert session.generation == 1
        clock.resume()
    assert server.asked == ["ping"] * 3


async def test_none_is_asked_for_by_default(clock: Clock) -> None:
    server = Server()
    async with session_of(server, None) as session:
        clock.stop()
        requests = session.stats.requests
        for _ in range(3):
            clock.jump(EVERY + 1)
            await calm()
        assert session.stats.requests == requests
        clock.resume()
    assert server.asked == []


@pytest.mark.parametrize("era", ["2025-11-25", "2024-11-05", "2026-07-28"])
async def test_a_missed_one_is_logged_ends_the_calls_and_connects_again(
    era: str, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(era)
    async with session_of(server) as session, anyio.create_task_group() as tasks:
        began = server.connections
        lost: list[ConnectionLost] = []

        async def hang() -> None:
            with pytest.raises(ConnectionLost) as caught:
                await session.call_tool("b", timeout=5_000)
            lost.append(caught.value)

        tasks.start_soon(hang)
        await server.received.wait()
        server.asked.clear()
        server.deaf = True
        await calm()
        clock.stop()
        clock.jump(EVERY + 1)
        await settled(lambda: server.asked)
        server.deaf = False
        clock.jump(EVERY + 1)
        await settled(lambda: server.connections > began and lost)
        clock.resume()
        (error,) = lost
        assert "did not respond to a ping within 30 s" in str(error)
        assert (error.server, error.tool) == ("memory", "b")
        assert (await session.call_tool("a")).text == "done"
        assert session.generation == 2
    assert "did not respond to a ping" in caplog.text


async def test_an_error_is_a_sign_of_life(clock: Clock) -> None:
    server = Server()
    server.ping_error = True
    async with session_of(server) as session:
        await calm()
        clock.stop()
        for number in range(1, 3):
            clock.jump(EVERY + 1)
            await settled(lambda: len(server.asked) == number)  # noqa: B023
            await calm()
        clock.resume()
        assert (await session.call_tool("a")).text == "done"
        assert session.generation == 1


async def test_a_connection_that_ended_is_made_again_although_no_one_calls(clock: Clock) -> None:
    server = Server()
    transport = MemoryServer(server)
    timeouts = pinged()
    async with connect(transport, timeouts=timeouts, revision="2025-11-25") as session:
        transport.end()
        await calm()
        clock.stop()
        clock.jump(EVERY + 1)
        await settled(lambda: session.generation == 2)
        clock.resume()


async def test_where_that_fails_it_is_tried_again_at_the_next_interval(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    transport = MemoryServer(server)
    async with connect(transport, timeouts=pinged(), revision="2025-11-25") as session:
        server.refuses = True
        transport.end()
        await calm()
        clock.stop()
        clock.jump(EVERY + 1)
        await settled(lambda: "cannot connect again" in caplog.text)
        await calm()
        server.refuses = False
        clock.jump(EVERY + 1)
        await settled(lambda: session.generation == 2)
        clock.resume()


async def test_closing_ends_it_while_a_sign_of_life_is_awaited(clock: Clock) -> None:
    server = Server()
    async with session_of(server):
        server.deaf = True
        await calm()
        clock.stop()
        clock.jump(EVERY + 1)
        await settled(lambda: server.asked)
        clock.resume()
    assert server.asked == ["ping"]


@pytest.mark.parametrize(
    ("error", "is_a_sign"),
    [
        (None, True),
        (ServerError("what is a ping?"), True),
        (ProtocolViolation("nonsense"), True),
        (CallTimeout("nothing came", clock="idle"), False),
        (ConnectionLost("it went away"), False),
        (NotSent("it could not be written"), False),
    ],
    ids=lambda arguments: type(arguments).__name__,
)
async def test_any_response_is_a_sign_of_life_and_none_is_not(
    error: McpError | None, is_a_sign: bool
) -> None:
    class Rpc:
        async def request(self, *arguments: Any) -> None:
            if error is not None:
                raise error

    assert await _answers(cast(Any, Rpc())) is is_a_sign


async def test_where_a_login_is_needed_no_more_signs_are_asked_for(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server, asked = Server(), list[str]()
    async with session_of(server) as session:
        rpc = session._connection.rpc

        async def refused(method: str, *arguments: Any) -> None:
            asked.append(method)
            raise AuthError("log in")

        monkeypatch.setattr(rpc, "request", refused)
        for _ in range(3):
            clock.jump(EVERY + 1)
            await calm()
        assert asked == ["ping"]
        assert session.generation == 1
    assert "pings stop until the next login: log in" in caplog.text


async def test_a_process_that_died_is_started_again() -> None:
    async with connect(scripted(), timeouts=Timeouts(ping=0.05, close=0.5)) as session:
        process = session._connection.transport._process  # type: ignore[attr-defined]
        process.kill()
        with anyio.fail_after(30):
            while session.generation < 2:
                await anyio.sleep(0.02)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no process can be stopped here")
async def test_a_process_that_hangs_is_ended_and_started_again() -> None:
    timeouts = Timeouts(ping=0.3, close=0.2)
    async with connect(scripted(), timeouts=timeouts, approval=allow_all) as session:
        process = session._connection.transport._process  # type: ignore[attr-defined]
        os.kill(process.pid, signal.SIGSTOP)
        with anyio.fail_after(30):
            while session.generation < 2:
                await anyio.sleep(0.02)
        await session.ping()


async def test_a_host_connects_again_too(clock: Clock) -> None:
    server = Server()
    timeouts = pinged(connect=60.0)
    servers = {"s": MemoryServer(server)}
    async with Host(servers, approval=allow_all, timeouts=timeouts) as host:
        assert (await host.call_tool("s__a")).text == "done"
        server.asked.clear()
        server.deaf = True
        await calm()
        clock.stop()
        clock.jump(EVERY + 1)
        await settled(lambda: server.asked)
        server.deaf = False
        clock.jump(EVERY + 1)
        session: Session = host.sessions["s"]
        await settled(lambda: server.connections == 2 or session.generation == 2)
        clock.resume()
        with anyio.fail_after(30):
            await host.call_tool("s__a")


class _Hanging(Handshake):
    """Sees pings and, once a test sets it, does not answer them."""

    deaf = False

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.rpc_method == "ping" and self.deaf:
            await reply.hold()
            return
        await super().__call__(request, reply)


async def test_over_http_with_a_session_a_missed_one_begins_a_new_session() -> None:
    app = _Hanging()
    async with serving(app) as server:
        timeouts = Timeouts(ping=0.2, close=0.5)
        async with connect(server.url, timeouts=timeouts, approval=allow_all) as session:
            with anyio.fail_after(30):
                while len(server.saying("ping")) < 2:
                    await anyio.sleep(0.02)
                assert session.generation == 1
                app.deaf = True
                while session.generation < 2:
                    await anyio.sleep(0.02)
                app.deaf = False
            assert (await session.call_tool("echo")).text == "{}"


async def test_over_http_without_a_session_nothing_is_sent(clock: Clock) -> None:
    app = Stateless()
    async with (
        serving(app) as server,
        connect(server.url, timeouts=pinged(), approval=allow_all) as session,
    ):
        requests = len(server.requests)
        for _ in range(3):
            clock.jump(EVERY + 1)
            await session.call_tool("echo")
        assert {request.rpc_method for request in server.requests[requests:]} <= {
            "tools/list",
            "tools/call",
        }


@pytest.mark.parametrize("wrong", [0, -1, True, "30", float("nan")])
def test_an_interval_is_seconds_above_zero_or_none(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="ping"):
        Timeouts(ping=wrong)
    assert Timeouts().ping is None
    assert Timeouts(ping=30).for_call(5).ping == 30


async def test_a_server_that_keeps_going_away_is_left_alone_for_a_minute(clock: Clock) -> None:
    server = MemoryServer(Server())
    async with connect(server, limits=Limits(restarts=2)) as session:
        clock.stop()
        for _ in range(2):
            server.end()
            await session.ping()
        server.end()
        for _ in range(2):
            with pytest.raises(
                ConnectError, match=r"exited or ended its session.*Limits\.restarts"
            ):
                await session.ping()
        clock.jump(60)
        await session.ping()
        assert session.generation == 4
