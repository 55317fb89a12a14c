"""A failure before the first byte of a request has left reports that nothing was sent."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from mcp_client import (
    Allow,
    ApprovalRequest,
    CallTimeout,
    ConfigError,
    ConnectError,
    HttpServer,
    NotSent,
    StdioServer,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.errors import AuthError, ConnectionLost
from mcp_client.transports.stdio import StdioTransport
from tests.support.http_apps import Handshake, Stateless
from tests.support.http_server import Reply, Request, serving

pytestmark = [pytest.mark.one_backend, pytest.mark.usefixtures("http_way")]

QUICK = Timeouts(connect=20, idle=20, total=30)
ERAS = pytest.mark.parametrize("era", [Stateless, Handshake])


def _connect(server: Any, **options: Any) -> Any:
    return connect(server, approval=allow_all, timeouts=QUICK, **options)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Zürich", "not ASCII"),
        ("世界", "not ASCII"),
        ("\N{LATIN SMALL LETTER E WITH ACUTE}", "not ASCII"),
        ("token\n", "line break"),
        (" token", "white space"),
        ("a\r\nX-B: c", "line break"),
        ("a\0b", "control character"),
        ("a\x7fb", "control character"),
        (b"token", "a bytes, not text"),
        (None, "a NoneType, not text"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_when_it_is_given(
    value: Any, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected) as caught:
        HttpServer("https://example.com", headers={"X-City": value})
    assert "X-City" in str(caught.value)
    assert not isinstance(value, str) or value not in str(caught.value)


async def test_two_servers_of_one_name_are_distinguished_where_a_call_is_approved() -> None:
    asked: list[ToolCall] = []

    def approve(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    async with serving(Stateless()) as first, serving(Stateless()) as second:
        for served in (first, second):
            server = HttpServer(served.url + "?key=hunter2")
            async with connect(server, name="files", approval=approve) as session:
                await session.call_tool("echo", {})
        one, other = ([fact for fact in call.facts() if fact.kind == "address"] for call in asked)
        assert [fact.text for fact in one + other] == [f"{s.url}?..." for s in (first, second)]
    again = ApprovalRequest.from_json(json.loads(json.dumps(asked[0].to_json())))
    assert again.facts() == asked[0].facts()
    assert "hunter2" not in repr(asked[0].facts())


def test_a_command_is_shown_without_what_may_be_secret(tmp_path: Path) -> None:
    args = ["server.py", "--token", "hunter2", "--key=hunter2"]
    transport = StdioTransport(StdioServer("python", args, cwd=tmp_path))
    assert transport.address == f"python server.py --token ... --key=... in {tmp_path}"


@pytest.mark.parametrize("value", ["", "plain", "a b\tc", "=?base64?WsO8cmljaA==?=", "~!@#"])
async def test_every_header_that_is_accepted_is_sent_as_it_is(value: str) -> None:
    async with (
        serving(Stateless()) as server,
        _connect(HttpServer(server.url, headers={"X-City": value})) as session,
    ):
        await session.call_tool("echo", {})
    assert {request.headers["x-city"] for request in server.requests} == {value}


class Raising(httpx.Auth):
    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        raise LookupError("no such key")
        yield request


class TwoLines(httpx.Auth):
    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["X-City"] = "Oslo\r\nX-More: 1"
        yield request


def _no_such_token() -> dict[str, str]:
    raise LookupError("token")


FAULTS: dict[str, Any] = {
    "headers=function, Latin-1": {"headers": lambda: {"X-City": "Zürich"}},
    "headers=function, not a dict": {"headers": lambda: ["X-City"]},
    "headers=function that raises": {"headers": _no_such_token},
    "auth=function, a line break": {"auth": lambda: "token\n"},
    "auth=function, not text": {"auth": lambda: 7},
    "auth that raises": {"auth": Raising()},
    "auth that sets what cannot be sent": {"auth": TwoLines()},
}


class Broken:
    """What the host gives works while connecting, and fails from then on."""

    def __init__(self, passed: Any) -> None:
        self.passed = passed
        self.fails = False

    def options(self) -> dict[str, Any]:
        ((name, broken),) = self.passed.items()
        if isinstance(broken, httpx.Auth):
            return {"auth": _Switch(self, broken)}
        sound: Any = (dict) if name == "headers" else (lambda: "token")
        return {name: lambda: (broken if self.fails else sound)()}


class _Switch(httpx.Auth):
    def __init__(self, state: Broken, broken: httpx.Auth) -> None:
        self._state = state
        self._broken = broken

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._state.fails:
            yield from self._broken.auth_flow(request)
        else:
            yield request


@ERAS
@pytest.mark.parametrize("fault", FAULTS)
async def test_what_the_host_gives_wrongly_reaches_no_server(fault: str, era: Any) -> None:
    broken = Broken(FAULTS[fault])
    async with serving(era()) as server:
        async with _connect(HttpServer(server.url, **broken.options())) as session:
            await session.call_tool("echo", {})
            before = len(server.saying("tools/call"))
            broken.fails = True
            with pytest.raises(NotSent) as caught:
                await session.call_tool("echo", {})
            assert "it may have run" not in str(caught.value)
            broken.fails = False
            await session.call_tool("echo", {})
        assert len(server.saying("tools/call")) == before + 1


@pytest.mark.parametrize("fault", FAULTS)
async def test_and_no_connection_is_made_with_it(fault: str) -> None:
    async with serving(Stateless()) as server:
        with pytest.raises(ConnectError):
            await _connect(HttpServer(server.url, **FAULTS[fault]))
    assert not server.requests


@pytest.mark.both_backends
@ERAS
async def test_a_call_whose_time_runs_out_before_it_can_leave_was_not_sent(era: Any) -> None:
    asks = [0, 1_000]

    async def token() -> str:
        asks[0] += 1
        if asks[0] > asks[1]:
            await anyio.sleep_forever()
        return "token"

    async with serving(era()) as server:
        async with _connect(HttpServer(server.url, auth=token)) as session:
            await session.call_tool("echo", {})
            before = len(server.saying("tools/call"))
            asks[1] = asks[0] + 1  # what it is asked for first is whose list this is
            with pytest.raises((NotSent, CallTimeout)) as caught:
                await session.call_tool("echo", {}, timeout=0.3)
            assert isinstance(caught.value, NotSent), "nothing of it can have run"
            asks[1] = 1_000
        assert len(server.saying("tools/call")) == before


@pytest.mark.both_backends
async def test_a_function_that_never_returns_holds_up_a_stored_list_for_a_bounded_time() -> None:
    hangs = [False]

    async def token() -> str:
        if hangs[0]:
            await anyio.sleep_forever()
        return "token"

    timeouts = Timeouts(connect=1, idle=20, total=30)
    async with (
        serving(Stateless()) as server,
        connect(
            HttpServer(server.url, auth=token), approval=allow_all, timeouts=timeouts
        ) as session,
    ):
        await session.list_tools()
        hangs[0] = True
        with anyio.fail_after(60), pytest.raises(AuthError, match="within 1 s"):
            await session.list_tools()


@ERAS
async def test_a_transport_that_fails_before_the_body_leaves_was_not_used(era: Any) -> None:
    """A client of the host's own, whose connection breaks before or after the body is taken."""

    class Wire(httpx.AsyncBaseTransport):
        def __init__(self) -> None:
            self.inner = httpx.AsyncHTTPTransport()
            self.fault = ""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if self.fault == "before":
                raise httpx.WriteError("broken pipe")
            if self.fault == "after":
                assert isinstance(request.stream, httpx.AsyncByteStream)
                async for _ in request.stream:
                    raise httpx.ReadError("connection reset")
            return await self.inner.handle_async_request(request)

        async def aclose(self) -> None:
            await self.inner.aclose()

    wire = Wire()
    async with (
        httpx.AsyncClient(transport=wire) as client,
        serving(era()) as server,
        _connect(HttpServer(server.url, client=client)) as session,
    ):
        await session.call_tool("echo", {})
        wire.fault = "before"
        with pytest.raises(ConnectError) as caught:
            await session.call_tool("echo", {})
        assert caught.value.retryable
        wire.fault = "after"
        with pytest.raises(ConnectionLost):
            await session.call_tool("echo", {})
        wire.fault = ""


async def test_an_argument_repeated_in_a_header_is_sent_whatever_it_is() -> None:
    app = Stateless()
    marked = {"type": "string", "x-mcp-header": "City"}
    app.schemas["echo"] = {"type": "object", "properties": {"city": marked}}
    values = ["Zürich", "", " x", "a\nb", "\0", "\N{PILE OF POO}", "=?base64?eA==?=", "\ud800"]

    async def handler(request: Request, reply: Reply) -> None:
        await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        for value in values[:-1]:
            await session.call_tool("echo", {"city": value})
        with pytest.raises((NotSent, ConfigError)):
            await session.call_tool("echo", {"city": values[-1]})
    assert len(server.saying("tools/call")) == len(values) - 1
