"""HTTP+SSE of 2024-11-05, found by the fallback the specification describes."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest

from mcp_client import CallTimeout, ConnectError, HttpServer, Timeouts, allow_all, connect
from mcp_client.cli.exits import LOGIN_NEEDED, exit_code
from mcp_client.errors import AuthError, ConnectionLost
from mcp_client.transports import http_sse
from tests.support.http_apps import Legacy, answer, text
from tests.support.http_server import Reply, Request, serving

pytestmark = pytest.mark.usefixtures("http_way")

QUICK = Timeouts(connect=5, idle=5, total=10)


def _connect(server: Any, **options: Any) -> Any:
    return connect(server, **{"approval": allow_all, "timeouts": QUICK, **options})


@pytest.mark.parametrize("revision", ["auto", "2024-11-05"])
async def test_a_server_of_the_first_revision_is_found_at_its_url(revision: str) -> None:
    app = Legacy()
    async with (
        serving(app, "/sse") as server,
        _connect(server.url, revision=revision) as session,
    ):
        assert session.protocol_version == "2024-11-05"
        assert (await session.call_tool("echo", {"a": 1})).text == "{'a': 1}"
        assert (await session.call_tool("echo", {"a": 2})).text == "{'a': 2}"
    assert len(server.saying("GET")) == 1


class RefusesOnce(Legacy):
    """Refuses the first request of a kind, so many times."""

    def __init__(self, kind: str, status: int, times: int = 1, **headers: str) -> None:
        super().__init__()
        self.kind, self.status, self.times, self.headers = kind, status, times, headers

    async def __call__(self, request: Request, reply: Reply) -> None:
        is_posted = request.path.startswith("/messages")
        kind = "GET" if request.method == "GET" else request.rpc_method if is_posted else ""
        if kind == self.kind and self.times:
            self.times -= 1
            headers = {name.replace("_", "-"): value for name, value in self.headers.items()}
            await reply.send(self.status, b"not now", headers)
        else:
            await super().__call__(request, reply)


@pytest.mark.parametrize("kind", ["GET", "initialize", "notifications/initialized"])
@pytest.mark.parametrize(
    ("status", "headers", "revision"),
    [(429, {}, "auto"), (503, {"Retry_After": "0"}, "2024-11-05")],
)
async def test_a_server_that_is_busy_at_the_start_is_asked_again(
    kind: str, status: int, headers: dict[str, str], revision: str
) -> None:
    app = RefusesOnce(kind, status, **headers)  # type: ignore[arg-type]
    async with serving(app, "/sse") as server, _connect(server.url, revision=revision) as session:
        assert (await session.call_tool("echo", {})).text == "{}"
        assert not app.times
    assert len(server.saying("GET")) == 1 + (kind == "GET")
    told = 1 + (kind == "notifications/initialized")
    assert len(server.saying("notifications/initialized")) == told


async def test_a_server_that_stays_busy_is_named_with_its_status() -> None:
    app = RefusesOnce("GET", 429, 99, Retry_After="0")
    async with serving(app, "/sse") as server:
        with pytest.raises(ConnectError, match="HTTP 429: not now") as caught:
            await _connect(server.url)
    assert caught.value.retryable
    assert caught.value.http_status == 429
    assert len(server.saying("GET")) == 4


@pytest.mark.parametrize("status", [400, 401, 404, 405, 429, 500, 503])
async def test_a_refused_notification_costs_no_server(status: int) -> None:
    app = RefusesOnce("notifications/initialized", status, 99)
    async with serving(app, "/sse") as server, _connect(server.url) as session:
        assert (await session.call_tool("echo", {})).text == "{}"


async def test_an_endpoint_of_another_origin_gets_nothing() -> None:
    async with serving(Legacy()) as other:
        app = Legacy(other.url)
        async with serving(app, "/sse") as server:
            with pytest.raises(ConnectError, match="another origin"):
                await _connect(server.url)
    assert not other.requests


async def test_a_stream_of_something_else_is_not_taken_for_the_first_revision() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "GET":
            await reply.stream()
            await reply.event({"jsonrpc": "2.0", "method": "hello"})
            await reply.hold()
        await reply.send(400, b"no")

    async with serving(handler) as server:
        with pytest.raises(ConnectError, match="did not begin its stream"):
            await _connect(server.url)


async def test_a_page_is_not_taken_for_the_stream_of_the_first_revision() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "GET":
            await reply.send(200, b"<html>hello</html>", {"Content-Type": "text/html"})
        else:
            await reply.send(405)

    async with serving(handler) as server:
        with pytest.raises(ConnectError, match="to GET is an HTML page"):
            await _connect(server.url)


async def test_a_stream_that_never_begins_is_given_up_with_the_connect_clock() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "GET":
            await reply.stream()
            await reply.hold()
        await reply.send(405)

    timeouts = Timeouts(connect=0.5, close=0.2)
    async with serving(handler) as server:
        with anyio.fail_after(60), pytest.raises(ConnectError):
            await _connect(server.url, timeouts=timeouts)


async def test_a_url_of_nothing_at_all_states_what_both_ways_met() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(404, b"nothing here")

    async with serving(handler) as server:
        with pytest.raises(ConnectError, match=r"HTTP 404.*nor is it HTTP\+SSE") as caught:
            await _connect(server.url)
    assert caught.value.http_status == 404


@pytest.mark.parametrize("status", [400, 404, 405])
@pytest.mark.parametrize("wants", [True, False])
async def test_a_login_that_the_first_revision_requires_is_what_the_error_is_about(
    status: int, wants: bool
) -> None:
    challenge = {"WWW-Authenticate": 'Bearer scope="read"'} if wants else {}

    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "GET":
            await reply.send(401, b"Unauthorized", challenge)
        else:
            await reply.send(status, b"use GET")

    async with serving(handler, "/sse") as server:
        with pytest.raises(AuthError) as caught:
            await _connect(server.url)
    error = caught.value
    assert str(error).index("HTTP 401") < str(error).index(f"HTTP {status}")
    assert "OAuth()" in str(error)
    assert (error.http_status, error.challenge) == (401, challenge.get("WWW-Authenticate"))
    assert exit_code(error) == LOGIN_NEEDED


async def test_a_login_is_begun_where_the_first_revision_requires_it() -> None:
    app, asked = Legacy(), 0

    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "POST" and request.path == "/sse":
            await reply.send(405)
        elif "authorization" not in request.headers:
            await reply.send(401)
        else:
            await app(request, reply)

    class Login(httpx.Auth):
        async def async_auth_flow(self, request: httpx.Request) -> Any:
            nonlocal asked
            if (yield request).status_code == 401:
                asked += 1
                request.headers["Authorization"] = "Bearer t"
                yield request

    async with (
        serving(handler, "/sse") as server,
        _connect(HttpServer(server.url, auth=Login())) as session,
    ):
        assert (await session.call_tool("echo", {"a": 1})).text == "{'a': 1}"
    assert asked


async def test_a_message_that_needs_a_login_reports_it_too() -> None:
    app = Legacy()

    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "POST":
            await reply.send(405 if request.path == "/sse" else 401)
        else:
            await app(request, reply)

    async with serving(handler, "/sse") as server:
        with pytest.raises(AuthError, match="HTTP 401"):
            await _connect(server.url)


async def test_an_endpoint_that_refuses_is_named_with_the_stream_that_announced_it() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        if request.path == "/prefix/sse" and request.method == "GET":
            await reply.stream()
            await reply.event("/messages?key=secret", kind="endpoint")
            await reply.hold()
        await reply.send(404 if request.path.startswith("/messages") else 405)

    async with serving(handler, "/prefix/sse") as server:
        with pytest.raises(ConnectError) as caught:
            await _connect(server.url)
    origin = server.url.removesuffix("/prefix/sse")
    reported = f"{origin}/messages?..., the endpoint that the stream of {server.url} announced,"
    assert f"{reported} answered HTTP 404" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert len(server.saying("GET")) == 1


async def test_a_longer_connect_timeout_gives_the_endpoint_event_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "GET":
            await reply.stream()
            await reply.hold()
        await reply.send(405)

    monkeypatch.setattr(http_sse, "_ENDPOINT_SECONDS", 0.01)
    async with serving(handler, "/sse") as server:
        with anyio.fail_after(60), pytest.raises(ConnectError, match=r"no endpoint .* 0\.3 s"):
            await _connect(server.url, timeouts=Timeouts(connect=0.9))


async def test_the_end_of_the_stream_fails_what_waits_and_the_next_use_connects_again() -> None:
    app = Legacy()

    begun = anyio.Event()

    def wait(arguments: Any) -> None:
        begun.set()

    app.tools.update(wait=wait)
    async with serving(app, "/sse") as server, _connect(server.url) as session:
        caught: list[BaseException] = []

        async def call() -> None:
            try:
                await session.call_tool("wait")
            except ConnectionLost as error:
                caught.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await begun.wait()
            assert app.stream is not None
            await app.stream.raw(b"0\r\n\r\n")
        assert "stream of events ended" in str(caught[0])
        assert (await session.call_tool("echo", {})).text == "{}"
        assert session.generation == 2


async def test_a_refused_message_is_the_response_to_its_request() -> None:
    app = Legacy()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "tools/call":
            await reply.send(500, b"broken")
        else:
            await app(request, reply)

    async with serving(handler, "/sse") as server, _connect(server.url) as session:
        with pytest.raises(Exception, match="HTTP 500: broken"):
            await session.call_tool("echo", {})


async def test_a_call_given_up_is_reported_and_its_late_response_dropped() -> None:
    app = Legacy()
    notified = anyio.Event()
    waiting: list[Request] = []

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "tools/call":
            waiting.append(request)
        if request.rpc_method == "notifications/cancelled":
            assert app.stream is not None
            await app.stream.event(answer(waiting[0], text("late")))
            notified.set()
        await app(request, reply)

    app.tools["wait"] = lambda arguments: None
    async with serving(handler, "/sse") as server, _connect(server.url) as session:
        with pytest.raises(CallTimeout):
            await session.call_tool("wait", timeout=0.2)
        await notified.wait()
        assert (await session.call_tool("echo", {})).text == "{}"
        assert session.stats.late_answers == 1


# -------------------------------------------- servers that do not survive a cancel


@pytest.mark.slow
async def test_a_server_that_stops_serving_after_a_cancel_is_connected_to_again() -> None:
    """As servers on the official SDK 1.2 do: they keep the stream open, and accept everything."""
    app = Legacy()
    dead = [False]

    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "GET":
            dead[0] = False
        elif request.rpc_method == "notifications/cancelled":
            dead[0] = True
        if dead[0]:
            await reply.send(202)
        else:
            await app(request, reply)

    app.tools["wait"] = lambda arguments: None
    async with serving(handler, "/sse") as server, _connect(server.url) as session:
        with pytest.raises(CallTimeout):
            await session.call_tool("wait", timeout=0.2)
        with anyio.fail_after(60):
            assert (await session.call_tool("echo", {})).text == "{}"
        assert session.generation == 2
        assert (await session.call_tool("echo", {})).text == "{}"
    assert len(server.saying("ping")) == 1


async def test_a_server_that_survives_a_cancel_is_asked_for_a_sign_of_life_once() -> None:
    app = Legacy(wait=lambda arguments: None)
    async with serving(app, "/sse") as server, _connect(server.url) as session:
        with pytest.raises(CallTimeout):
            await session.call_tool("wait", timeout=0.2)
        for _ in range(3):
            assert (await session.call_tool("echo", {})).text == "{}"
        assert session.generation == 1
    assert len(server.saying("ping")) == 1


@pytest.mark.slow
async def test_a_server_that_is_too_busy_to_take_a_message_is_waited_for() -> None:
    app = Legacy()
    asked = anyio.Event()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method in ("ping", "notifications/cancelled"):
            await asked.wait()
        elif request.rpc_method == "tools/call" and request.message["params"]["name"] == "echo":
            asked.set()
        await app(request, reply)

    app.tools["wait"] = lambda arguments: None
    async with serving(handler, "/sse") as server, _connect(server.url) as session:
        with pytest.raises(CallTimeout):
            await session.call_tool("wait", timeout=0.2)
        assert (await session.call_tool("echo", {})).text == "{}"
        assert session.generation == 1
