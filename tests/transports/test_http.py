"""Streamable HTTP, one POST and its reply: what a user sees, over real sockets."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import httpx
import pytest

from mcp_client import (
    Allow,
    CallTimeout,
    ConfigError,
    ConnectError,
    HttpServer,
    OutcomeUnknown,
    ServerError,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.connection import rpc
from mcp_client.errors import (
    AuthError,
    ConnectionLost,
    NegotiationError,
    ProtocolViolation,
    UnknownTool,
)
from mcp_client.transports.base import is_passing
from tests.support.http_apps import Stateless, answer, failure, text
from tests.support.http_server import Reply, Request, serving
from tests.support.timing import Clock, quickly

pytestmark = pytest.mark.usefixtures("http_way")

QUICK = Timeouts(connect=30, idle=40, total=60)


def _connect(server: Any, **options: Any) -> Any:
    return connect(server, approval=allow_all, timeouts=QUICK, **options)


@pytest.mark.parametrize("sse", [False, True], ids=["json", "events"])
async def test_a_url_is_all_it_takes(sse: bool) -> None:
    async with serving(Stateless(sse=sse)) as server, _connect(server.url) as session:
        assert session.protocol_version == "2026-07-28"
        assert session.name == server.url.split("/")[2]
        result = await session.call_tool("echo", {"a": 1})
        assert result.text == "{'a': 1}"


@pytest.mark.parametrize("sse", [False, True], ids=["json", "events"])
async def test_calls_one_after_another_share_one_connection(sse: bool, clock: Clock) -> None:
    async with serving(Stateless(sse=sse)) as server, _connect(server.url) as session:
        clock.stop()  # the end of a stream is waited for only a moment
        for _ in range(10):
            await session.call_tool("echo", {})
        assert server.connections == 1


async def test_a_stream_left_open_now_and_then_does_not_end_the_sharing(clock: Clock) -> None:
    async def held(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream()
        await reply.event(answer(request, text("held")))
        await reply.hold()

    app = Stateless(sse=True, held=held)
    async with serving(app) as server, _connect(server.url) as session:
        clock.stop()
        for _ in range(4):
            async with quickly(clock):
                assert (await session.call_tool("held")).text == "held"
            before = server.connections
            for _ in range(3):
                await session.call_tool("echo", {})
            assert server.connections == before + 1


async def test_many_calls_at_once_get_their_own_answers() -> None:
    app = Stateless(sse=True)
    async with serving(app) as server, _connect(server.url) as session:
        texts: dict[int, str] = {}

        async def one(number: int) -> None:
            texts[number] = (await session.call_tool("echo", {"n": number})).text

        async with anyio.create_task_group() as tasks:
            for number in range(32):
                tasks.start_soon(one, number)
        assert texts == {number: f"{{'n': {number}}}" for number in range(32)}


async def test_every_request_carries_the_headers_of_its_era() -> None:
    app = Stateless()
    marked = {"type": "string", "x-mcp-header": "Region"}
    app.schemas["echo"] = {"type": "object", "properties": {"region": marked}}
    async with serving(app) as server, _connect(server.url) as session:
        await session.call_tool("echo", {"region": "Zürich"})
        await session.call_tool("echo", {})
    for request in server.requests:
        assert request.headers["mcp-protocol-version"] == "2026-07-28"
        assert request.headers["mcp-method"] == request.rpc_method
        assert request.headers["accept"] == "application/json, text/event-stream"
        assert request.headers["content-type"] == "application/json"
    first, second = server.saying("tools/call")
    assert first.headers["mcp-name"] == "echo"
    assert first.headers["mcp-param-region"] == "=?base64?WsO8cmljaA==?="
    assert "mcp-param-region" not in second.headers


async def test_a_session_id_is_ignored_in_the_stateless_era() -> None:
    app = Stateless()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "tools/call":
            result = answer(request, text("x"))
            await reply.json(result, headers={"Mcp-Session-Id": "abc"})
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        await session.call_tool("echo", {})
        await session.call_tool("echo", {})
    assert not any("mcp-session-id" in request.headers for request in server.requests)
    assert {request.method for request in server.requests} == {"POST"}


async def test_progress_comes_on_the_stream_of_its_call() -> None:
    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        token = request.message["params"]["_meta"]["progressToken"]
        await reply.stream()
        for done in (1, 2):
            params = {"progressToken": token, "progress": done, "total": 2}
            await reply.event(
                {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            )
        await reply.event(answer(request, text("done")))
        await reply.end()

    seen: list[Any] = []
    async with serving(Stateless(work=work)) as server, _connect(server.url) as session:
        result = await session.call_tool(
            "work", on_progress=lambda *progress: seen.append(progress)
        )
    assert result.text == "done"
    assert seen == [(1, 2, None), (2, 2, None)]


async def test_giving_a_call_up_closes_its_stream() -> None:
    closed = anyio.Event()

    async def wait(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream()
        try:
            await reply.hold()
        finally:
            closed.set()

    async with serving(Stateless(wait=wait)) as server, _connect(server.url) as session:
        with pytest.raises(CallTimeout) as caught:
            await session.call_tool("wait", timeout=0.2)
        assert caught.value.clock in ("idle", "total")
        await closed.wait()
        assert (await session.call_tool("echo", {})).text == "{}"
    assert not server.saying("notifications/cancelled")


async def test_cancelling_the_caller_closes_the_stream() -> None:
    begun, closed = anyio.Event(), anyio.Event()

    async def wait(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream()
        begun.set()
        try:
            await reply.hold()
        finally:
            closed.set()

    async with serving(Stateless(wait=wait)) as server, _connect(server.url) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.call_tool, "wait")
            await begun.wait()
            tasks.cancel_scope.cancel()
        await closed.wait()


async def test_an_exchange_that_was_closed_sends_its_request_no_second_time() -> None:
    async with serving(Stateless()) as server, _connect(server.url) as session:
        transport, until = session._connection.transport, anyio.current_time() + 20
        asked = {"jsonrpc": "2.0", "id": 99, "method": "tools/list", "params": {}}
        exchange = await transport.exchange(99, json.dumps(asked), {}, until)
        await exchange.receive(until)
        await exchange.aclose()
        sent = len(server.requests)
        with pytest.raises(TimeoutError):
            await exchange.receive(until)
        assert len(server.requests) == sent


async def test_any_task_may_close_and_what_waits_settles() -> None:
    begun = anyio.Event()

    async def wait(arguments: Any, request: Request, reply: Reply) -> None:
        begun.set()
        await reply.hold()

    async with serving(Stateless(wait=wait)) as server:
        session = await _connect(server.url)
        caught: list[BaseException] = []

        async def call() -> None:
            try:
                await session.call_tool("wait")
            except OutcomeUnknown as error:
                caught.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await begun.wait()
            tasks.start_soon(session.aclose)
        assert isinstance(caught[0], ConnectionLost)
        with pytest.raises(ConnectError, match="closed"):
            await session.call_tool("echo", {})


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_json_rpc_error_on_any_status_is_that_error(status: int) -> None:
    async def fail(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.json(failure(request, -32000, "broken", {"why": 1}), status)

    async with serving(Stateless(fail=fail)) as server, _connect(server.url) as session:
        with pytest.raises(ServerError, match="broken") as caught:
            await session.call_tool("fail")
    error = caught.value
    assert (error.code, error.data, error.http_status) == (-32000, {"why": 1}, status)


async def test_a_plain_refusal_reaches_the_caller_typed() -> None:
    async def fail(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.send(500, b"boom \x1b[31m token-abcdef" + b"x" * 9_000, {"Retry-After": "7"})

    async with serving(Stateless(fail=fail)) as server:
        headed = HttpServer(server.url, headers={"X-Key": "token-abcdef"})
        async with _connect(headed) as session:
            with pytest.raises(ServerError) as caught:
                await session.call_tool("fail")
    error = caught.value
    assert (error.code, error.http_status, error.retry_after) == (None, 500, 7.0)
    assert error.body_excerpt.startswith("boom \\u{1b}[31m ***")
    assert len(error.body_excerpt) < 1_000
    assert not error.retryable


@pytest.mark.parametrize(
    ("status", "is_worth_another_try"),
    [
        *((status, True) for status in (408, 429, 502, 503, 504)),
        *((status, False) for status in (400, 404, 410, 425, 500, 501)),
    ],
)
async def test_what_refuses_the_first_request_states_whether_to_try_again(
    status: int, is_worth_another_try: bool
) -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(status, b"not now")

    async with serving(handler) as server:
        with pytest.raises(ConnectError) as caught:
            await _connect(server.url)
    assert caught.value.retryable is is_worth_another_try


def test_a_stream_is_opened_again_after_what_passes_and_after_nothing_else() -> None:
    passing = {status for status in range(300, 600) if is_passing(status)}
    assert passing == {408, 425, 429, 500, *range(502, 600)}


async def test_a_gateway_does_not_know_whether_it_ran() -> None:
    async def fail(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.send(504, b"upstream timed out")

    async with serving(Stateless(fail=fail)) as server, _connect(server.url) as session:
        with pytest.raises(ConnectionLost) as caught:
            await session.call_tool("fail")
    assert caught.value.http_status == 504


@pytest.mark.parametrize("status", [401, 403])
async def test_a_response_that_requires_a_login_is_an_auth_error_after_one_request(
    status: int,
) -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(status, b"", {"WWW-Authenticate": 'Bearer scope="a"'})

    async with serving(handler) as server:
        with pytest.raises(AuthError) as caught:
            await _connect(server.url)
    assert caught.value.http_status == status
    assert caught.value.challenge == 'Bearer scope="a"'
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_again_for_lists_and_never_for_calls(status: int) -> None:
    app = Stateless()
    refused: set[str] = set()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method.startswith("tools/") and request.rpc_method not in refused:
            refused.add(request.rpc_method)
            await reply.send(status, b"busy", {"Retry-After": "0"})
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        assert [tool.name for tool in await session.list_tools()] == ["echo"]
        with pytest.raises(ServerError) as caught:
            await session.call_tool("echo", {})
        assert caught.value.http_status == status
    assert len(server.saying("tools/call")) == 1


async def test_a_server_that_stays_busy_is_asked_so_many_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rpc, "_BACKOFF_SECONDS", 0.0)
    app = Stateless()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "tools/list":
            await reply.send(503, b"busy")
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        with pytest.raises(ServerError):
            await session.list_tools()
    assert len(server.saying("tools/list")) == rpc._MAX_TRIES


async def test_a_trusted_idempotent_call_is_sent_again_to_a_busy_server() -> None:
    app = Stateless()
    app.annotations["echo"] = {"idempotentHint": True}
    busy = [True]

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "tools/call" and busy:
            busy.pop()
            await reply.send(503)
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url, trusted=True) as session:
        assert (await session.call_tool("echo", {})).text == "{}"
    assert len(server.saying("tools/call")) == 2


async def test_a_server_that_asks_for_more_patience_than_there_is_gets_none() -> None:
    app = Stateless()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "tools/list":
            await reply.send(503, b"", {"Retry-After": "3600"})
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        with pytest.raises(ServerError) as caught:
            await session.list_tools()
    assert caught.value.retry_after == 3600
    assert len(server.saying("tools/list")) == 1


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("text/html", b"<html><title>Sign in</title>", "HTML page titled 'Sign in'"),
        ("text/plain", b"hello", "content type 'text/plain'"),
        ("application/json", b"{", "not JSON"),
        ("application/json", b"", "no body"),
        ("application/json", b'{"jsonrpc":"2.0","id":999,"result":{}}', "its id is '999'"),
        ("application/json", b"[]", "JSON-RPC message"),
    ],
)
async def test_an_invalid_response_states_what_it_is(kind: str, body: bytes, expected: str) -> None:
    async def odd(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.send(200, body, {"Content-Type": kind})

    async with serving(Stateless(odd=odd)) as server, _connect(server.url) as session:
        with pytest.raises(ProtocolViolation, match=expected):
            await session.call_tool("odd")
        assert (await session.call_tool("echo", {})).text == "{}"


async def test_a_stream_that_ends_without_the_response_leaves_the_outcome_unknown() -> None:
    async def odd(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream()
        await reply.event({"jsonrpc": "2.0", "id": 999, "result": {}})
        await reply.end()

    async with serving(Stateless(odd=odd)) as server, _connect(server.url) as session:
        with pytest.raises(ConnectionLost, match="without the response"):
            await session.call_tool("odd")
        assert session.stats.stray_answers == 1
    assert len(server.saying("tools/call")) == 1


async def test_a_connection_that_breaks_leaves_the_outcome_unknown() -> None:
    async def odd(arguments: Any, request: Request, reply: Reply) -> None:
        reply.hang_up()

    async with serving(Stateless(odd=odd)) as server, _connect(server.url) as session:
        with pytest.raises(ConnectionLost):
            await session.call_tool("odd")
    assert len(server.saying("tools/call")) == 1


async def test_a_closed_port_is_a_connect_error_at_once() -> None:
    async with serving(Stateless()) as server:
        url = server.url
    with pytest.raises(ConnectError, match="is the server running there") as caught:
        await _connect(url)
    assert caught.value.retryable


async def test_a_server_that_goes_away_between_calls_has_not_run_the_next() -> None:
    async with serving(Stateless()) as server:
        session = await _connect(server.url)
        await session.list_tools()
    with pytest.raises((ConnectError, ConnectionLost)):
        await session.call_tool("echo", {})
    await session.aclose()


# ------------------------------------------------------------- headers of tools


async def test_tools_whose_marks_break_a_rule_are_left_out_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = Stateless(bad=lambda: "x")
    app.schemas["bad"] = {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
    async with serving(app) as server, _connect(server.url) as session:
        with caplog.at_level(logging.WARNING, "mcp_client"):
            tools = await session.list_tools()
        assert [tool.name for tool in tools] == ["echo"]
        assert "string, integer or boolean" in tools.rejected[0].reason
        assert "the tool 'bad'" in caplog.text
        with pytest.raises(UnknownTool, match="x-mcp-header"):
            await session.call_tool("bad", {})


async def test_a_header_mismatch_refreshes_the_list_and_calls_again() -> None:
    app = Stateless()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "tools/call" and "mcp-param-a" not in request.headers:
            app.schemas["echo"] = {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
            await reply.json(failure(request, -32020, "Header mismatch"), 400)
        else:
            await app(request, reply)

    asked: list[Any] = []

    async def hook(call: ToolCall) -> Allow:
        asked.append(call.tool._header_params)
        return Allow()

    async with (
        serving(handler) as server,
        connect(server.url, approval=hook, timeouts=QUICK) as session,
    ):
        assert (await session.call_tool("echo", {"a": "x"})).text == "{'a': 'x'}"
        assert len(server.saying("tools/list")) == 2
        with pytest.raises(ServerError, match="Header mismatch") as caught:
            await session.call_tool("echo", {})
    assert caught.value.code == -32020
    assert len(app.calls) == 1
    assert [len(mirrors) for mirrors in asked[:2]] == [0, 1], "the new definition is approved again"
    assert len(asked) == 4


# ---------------------------------------------------------------- what we send


async def test_headers_and_tokens_are_asked_for_before_each_request() -> None:
    numbers = iter(range(1_000))

    async def token() -> str:
        return f"t{next(numbers)}"

    async with serving(Stateless()) as server:
        wanted = HttpServer(server.url, headers=lambda: {"X-Trace": "1"}, auth=token)
        async with _connect(wanted) as session:
            await session.call_tool("echo", {})
    reported = [request.headers["authorization"] for request in server.requests]
    assert reported == ["Bearer t0", "Bearer t1", "Bearer t2"]
    assert all(request.headers["x-trace"] == "1" for request in server.requests)


async def test_headers_of_the_host_do_not_displace_those_of_the_protocol() -> None:
    mine = {"accept": "text/html", "CONTENT-TYPE": "text/plain", "mcp-method": "x", "X-A": "1"}
    async with (
        serving(Stateless()) as server,
        _connect(HttpServer(server.url, headers=mine)) as session,
    ):
        await session.list_tools()
    for request in server.requests:
        assert request.headers["accept"] == "application/json, text/event-stream"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["mcp-method"] == request.rpc_method
        assert request.headers["x-a"] == "1"


async def test_a_token_function_that_raises_sends_nothing() -> None:
    def token() -> str:
        raise LookupError("no keyring")

    async with serving(Stateless()) as server:
        with pytest.raises(AuthError, match="LookupError"):
            await _connect(HttpServer(server.url, auth=token))
    assert not server.requests


async def test_a_client_of_ones_own_is_used_and_left_open() -> None:
    async with (
        serving(Stateless()) as server,
        httpx.AsyncClient(headers={"X-Mine": "1"}) as client,
    ):
        async with _connect(HttpServer(server.url, client=client)) as session:
            await session.call_tool("echo", {})
        assert not client.is_closed
        assert server.requests[-1].headers["x-mine"] == "1"


async def test_closing_settles_what_waits_on_a_client_of_ones_own_too() -> None:
    begun = anyio.Event()

    async def wait(arguments: Any, request: Request, reply: Reply) -> None:
        begun.set()
        await reply.hold()

    async with serving(Stateless(wait=wait)) as server, httpx.AsyncClient() as client:
        session = await _connect(HttpServer(server.url, client=client))

        async def call() -> None:
            with pytest.raises(ConnectionLost, match="session was closed"):
                await session.call_tool("wait")

        with anyio.fail_after(60):  # and not once the idle clock has run out
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await begun.wait()
                tasks.start_soon(session.aclose)


async def test_traffic_to_this_machine_ignores_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with serving(Stateless()) as server, _connect(server.url) as session:
        assert (await session.call_tool("echo", {})).text == "{}"


async def test_a_proxy_that_refuses_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, refuse)
        with pytest.raises(
            ConnectError,
            match=r"the proxy http://\S+, which the environment variable \w+ names, refused: 407",
        ):
            await _connect("https://mcp.example/mcp")
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_within_the_origin_keep_method_and_body(status: int) -> None:
    app = Stateless()

    async def handler(request: Request, reply: Reply) -> None:
        if request.path == "/mcp":
            await reply.send(status, b"", {"Location": "/mcp/"})
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        assert (await session.call_tool("echo", {"a": 1})).text == "{'a': 1}"
    away = [request for request in server.requests if request.path == "/mcp"]
    assert len(away) == (1 if status in (301, 308) else 3)


async def test_a_redirect_to_another_origin_is_refused_and_takes_nothing_along() -> None:
    async with serving(Stateless()) as other:

        async def handler(request: Request, reply: Reply) -> None:
            await reply.send(307, b"", {"Location": other.url + "?token=1"})

        async with serving(handler) as server:
            with pytest.raises(ConnectError, match="another origin") as caught:
                await _connect(HttpServer(server.url, headers={"Authorization": "Bearer x"}))
    assert not other.requests
    assert "token" not in str(caught.value)


async def test_a_redirect_without_end_ends() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(307, b"", {"Location": "/mcp"})

    async with serving(handler) as server:
        with pytest.raises(ConnectError, match="too many redirects"):
            await _connect(server.url)
    assert len(server.requests) == 5


# ------------------------------------------------------------------ agreement


async def test_a_version_error_on_400_is_read_before_falling_back() -> None:
    app = Stateless()
    first = [True]

    async def handler(request: Request, reply: Reply) -> None:
        if first:
            first.pop()
            data = {"supported": ["2026-07-28"], "requested": "2026-07-28"}
            await reply.json(failure(request, -32022, "no", data), 400)
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        assert session.protocol_version == "2026-07-28"
    assert not server.saying("initialize")


async def test_a_pinned_revision_a_server_lacks_is_a_negotiation_error() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(400, b"Bad Request: Missing session ID")

    async with serving(handler) as server:
        with pytest.raises(NegotiationError, match=r"required revision \(2026-07-28\)"):
            await _connect(server.url, revision="2026-07-28")


async def test_a_server_slow_with_a_fixed_revision_is_not_stated_to_lack_it(clock: Clock) -> None:
    app = Stateless()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "server/discover":
            clock.jump(Timeouts().connect - 5)
        await app(request, reply)

    async with serving(handler) as server, _connect(server.url, revision="2026-07-28") as session:
        assert session.protocol_version == "2026-07-28"


async def test_a_slow_start_is_not_mistaken_for_an_older_server() -> None:
    app = Stateless()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "server/discover":
            await anyio.sleep(1.2)
        await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        assert session.protocol_version == "2026-07-28"
        assert len(server.requests) == 1


# -------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "url",
    [
        "",
        "weather",
        "example.com/mcp",
        "ftp://example.com/mcp",
        "ws://example.com",
        "http://",
        "http://[::1",
        "http://a:port/",
        "http://exa mple.com",
        "http://a/\n",
        7,
        None,
    ],
)
def test_an_invalid_url_is_refused_at_once(url: Any) -> None:
    with pytest.raises(ConfigError):
        HttpServer(url)
    if isinstance(url, str):
        with pytest.raises(ConfigError):
            connect(url)


def test_a_url_may_have_every_character_that_rfc_3986_allows() -> None:
    path = "/a!b$c&d'e(f)g*h+i,j;k=l:m@n-o.p_q~r%20"
    assert HttpServer(f"https://example.com{path}?{path}").url.endswith(path)


@pytest.mark.parametrize(
    "headers", [{"A B": "x"}, {"A": "x\r\nB: y"}, {"A": 1}, {"": "x"}, ["A"], {"A": "世"}]
)
def test_headers_http_cannot_carry_are_refused_at_once(headers: Any) -> None:
    with pytest.raises(ConfigError):
        HttpServer("https://example.com", headers=headers)


def test_the_repr_hides_what_is_secret() -> None:
    server = HttpServer(
        "https://user:pa55@example.com/mcp?key=s3cret",
        headers={"Authorization": "Bearer s3cret"},
        auth=lambda: "s3cret",
    )
    assert repr(server) == (
        "HttpServer('https://example.com/mcp?...', headers={'Authorization': '***'}, "
        "auth=<function>)"
    )


async def test_credentials_in_the_clear_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    server = HttpServer("http://mcp.invalid/", headers={"Authorization": "Bearer s3cret"})
    with caplog.at_level(logging.WARNING, "mcp_client"), pytest.raises(ConnectError):
        await _connect(server)
    assert "unencrypted" in caplog.text and "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("headers", "warns"),
    [
        ({"User-Agent": "my-app/1.0"}, False),
        ({"user-agent": "my-app/1.0", "Accept-Language": "de"}, False),
        ({"User-Agent": "my-app/1.0", "X-Unknown": "1"}, True),
        ({}, False),
        (lambda: {"User-Agent": "my-app/1.0"}, True),
    ],
)
async def test_headers_that_every_client_sends_are_not_credentials_to_warn_of(
    headers: Any, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "mcp_client"), pytest.raises(ConnectError):
        await _connect(HttpServer("http://mcp.invalid/", headers=headers))
    assert ("unencrypted" in caplog.text) is warns
