"""Streamable HTTP in the handshake era: sessions, the GET stream, resumption, and their ends."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest

from mcp_client import (
    Allow,
    CallTimeout,
    Deny,
    HttpServer,
    ServerError,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.errors import ConnectionLost
from mcp_client.transports.http_session import HttpSession
from tests.support.http_apps import Handshake, answer, failure, text
from tests.support.http_server import Reply, Request, serving
from tests.support.timing import Clock, quickly

pytestmark = pytest.mark.usefixtures("http_way")

QUICK = Timeouts(connect=30, idle=40, total=60)


def _connect(server: Any, **options: Any) -> Any:
    return connect(server, **{"approval": allow_all, "timeouts": QUICK, **options})


def _notice(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


@pytest.mark.parametrize("sse", [False, True], ids=["json", "events"])
async def test_a_session_is_opened_used_and_ended(sse: bool) -> None:
    app = Handshake(sse=sse)
    async with serving(app) as server, _connect(server.url) as session:
        assert session.protocol_version == "2025-11-25"
        assert (await session.call_tool("echo", {"a": 1})).text == "{'a': 1}"
        assert len(app.listeners) == 1, "the GET stream is open before the first call"
        await session.aclose()
        assert app.ended == {"session-1"}
    first, *rest = [r for r in server.requests if r.rpc_method != "server/discover"]
    assert first.rpc_method == "initialize"
    assert "mcp-session-id" not in first.headers
    assert "mcp-protocol-version" not in first.headers
    for request in rest:
        assert request.headers["mcp-session-id"] == "session-1"
        assert request.headers["mcp-protocol-version"] == "2025-11-25"
        assert "mcp-method" not in request.headers
    assert [r.rpc_method for r in rest[:2]] == ["notifications/initialized", "GET"]


async def test_a_connection_is_used_again_after_a_response_that_came_as_an_event(
    clock: Clock,
) -> None:
    app = Handshake(sse=True)
    async with serving(app) as server, _connect(server.url) as session:
        clock.stop()  # the end of a stream is waited for only a moment
        for _ in range(2):
            await session.call_tool("echo", {})
        before = server.connections
        for _ in range(5):
            await session.call_tool("echo", {})
        assert server.connections == before


async def test_the_connection_of_a_refusal_that_goes_on_and_on_is_given_up() -> None:
    gone = anyio.Event()

    class Refusing(Handshake):
        async def __call__(self, request: Request, reply: Reply) -> None:
            if request.rpc_method != "tools/call":
                await super().__call__(request, reply)
                return
            head = b"HTTP/1.1 500 No\r\nContent-Type: text/plain\r\nContent-Length: 9999999\r\n\r\n"
            await reply.raw(head + b"x" * 100_000)
            try:
                await reply.hold()
            finally:
                gone.set()

    async with serving(Refusing()) as server, _connect(server.url) as session:
        with pytest.raises(ServerError, match="500"):
            await session.call_tool("echo")
        with anyio.fail_after(60):
            await gone.wait()


async def test_a_revision_without_the_version_header_gets_none() -> None:
    app = Handshake()
    app.revision = "2025-03-26"
    async with serving(app) as server, _connect(server.url, revision="2025-03-26") as session:
        await session.call_tool("echo", {})
    assert not any("mcp-protocol-version" in request.headers for request in server.requests)


@pytest.mark.parametrize("status", [400, 404, 405, 501])
async def test_a_server_without_a_get_stream_serves_all_the_same(status: int) -> None:
    app = Handshake(get=status)
    async with serving(app) as server, _connect(server.url) as session:
        assert (await session.call_tool("echo", {})).text == "{}"
    assert len(server.saying("GET")) == 1


async def test_a_server_that_does_not_let_sessions_be_ended_is_left_in_peace() -> None:
    app = Handshake()

    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "DELETE":
            await reply.send(405)
        else:
            await app(request, reply)

    async with serving(handler) as server:
        async with _connect(server.url):
            pass
        assert len(server.saying("DELETE")) == 1


async def test_a_question_on_the_get_stream_is_answered() -> None:
    app = Handshake()
    async with serving(app) as server, _connect(server.url) as session:
        await app.listeners[0].event({"jsonrpc": "2.0", "id": "q", "method": "ping"})
        await app.answered.wait()
        assert app.answers == [{"jsonrpc": "2.0", "id": "q", "result": {}}]
        assert session.stats.refused_questions == 0


async def test_a_change_reported_on_the_get_stream_makes_the_list_stale() -> None:
    app = Handshake()
    async with serving(app) as server, _connect(server.url) as session:
        await session.list_tools()
        app.tools["new"] = lambda: "new"
        await app.listeners[0].event(_notice("notifications/tools/list_changed"))
        await app.listeners[0].event({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        await app.answered.wait()
        assert [tool.name for tool in await session.list_tools()] == ["echo", "new"]


async def test_progress_on_the_get_stream_finds_its_call_and_keeps_it_alive() -> None:
    app = Handshake()
    halfway = anyio.Event()

    async def work(arguments: Any, request: Request, reply: Reply) -> str:
        token = request.message["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1, "message": "half"}
        await app.listeners[0].event(_notice("notifications/progress", **params))
        await halfway.wait()
        return "done"

    def progressed(*progress: Any) -> None:
        seen.append(progress)
        halfway.set()

    seen: list[Any] = []
    app.tools["work"] = work
    async with serving(app) as server, _connect(server.url) as session:
        result = await session.call_tool("work", on_progress=progressed)
    assert result.text == "done"
    assert seen == [(1, None, "half")]


async def test_a_timeout_is_reported_to_the_server() -> None:
    app = Handshake()
    notified = anyio.Event()

    async def wait(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.hold()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "notifications/cancelled":
            notified.set()
        await app(request, reply)

    app.tools["wait"] = wait
    async with serving(handler) as server, _connect(server.url) as session:
        with pytest.raises(CallTimeout):
            await session.call_tool("wait", timeout=0.2)
        await notified.wait()
    (call,) = server.saying("tools/call")
    (cancelled,) = server.saying("notifications/cancelled")
    assert cancelled.message["params"]["requestId"] == call.message["id"]


class Held:
    """Holds the first request up that asks, for ever."""

    def __init__(self) -> None:
        self.armed = False
        self.asked = anyio.Event()

    async def headers(self) -> dict[str, str]:
        if self.armed and not self.asked.is_set():
            self.asked.set()
            await anyio.sleep_forever()
        return {}


class LateTransport(httpx.AsyncHTTPTransport):
    def __init__(self, held: Held) -> None:
        super().__init__()
        self.held = held

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self.held.headers()
        return await super().handle_async_request(request)


@pytest.mark.parametrize("where", ["before its headers", "before its connection"])
async def test_a_request_that_never_left_is_not_cancelled_at_the_server(where: str) -> None:
    held = Held()
    options: dict[str, Any] = {"headers": held.headers}
    async with httpx.AsyncClient(transport=LateTransport(held)) as client:
        if where == "before its connection":
            options = {"client": client}
        async with (
            serving(Handshake()) as server,
            _connect(HttpServer(server.url, **options)) as session,
        ):
            held.armed = True
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.ping)
                await held.asked.wait()
                tasks.cancel_scope.cancel()
            await session.ping()
    assert len(server.saying("ping")) == 1
    assert server.saying("notifications/cancelled") == []


async def test_a_batch_is_read_as_its_messages() -> None:
    app = Handshake()
    app.revision = "2025-03-26"

    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        token = request.message["params"]["_meta"]["progressToken"]
        reported = _notice("notifications/progress", progressToken=token, progress=1)
        await reply.json([reported, answer(request, text("done"))])

    seen: list[Any] = []
    app.tools["work"] = work
    async with serving(app) as server, _connect(server.url) as session:
        result = await session.call_tool("work", on_progress=lambda *values: seen.append(values))
    assert result.text == "done"
    assert seen == [(1, None, None)]


async def test_a_notification_answered_with_a_frame_is_noted_and_survived() -> None:
    app = Handshake()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "notifications/initialized":
            await reply.json({"jsonrpc": "2.0", "result": {}})
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        assert (await session.call_tool("echo", {})).text == "{}"
        assert session.stats.junk_lines == 1


@pytest.mark.parametrize(("status", "after"), [(429, None), (429, "0"), (503, "0")])
async def test_a_server_that_is_too_busy_to_take_initialized_receives_it_again(
    status: int, after: str | None
) -> None:
    app, told = Handshake(), list[int]()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "notifications/initialized":
            told.append(len(told))
            if len(told) == 1:
                await reply.send(status, b"", {} if after is None else {"Retry-After": after})
                return
        if request.rpc_method == "tools/list" and len(told) < 2:
            await reply.json(failure(request, -32602, "Received before initialization"))
            return
        await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        assert (await session.call_tool("echo", {})).text == "{}"
    assert told == [0, 1]


@pytest.mark.parametrize("after", ["0", "3600"])
async def test_a_server_that_never_takes_initialized_is_used_all_the_same(after: str) -> None:
    app, told = Handshake(), list[int]()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "notifications/initialized":
            told.append(len(told))
            await reply.send(429, b"", {"Retry-After": after})
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        assert (await session.call_tool("echo", {})).text == "{}"
    assert len(told) == (3 if after == "0" else 1)


async def test_a_json_rpc_error_without_our_id_is_the_response_to_its_own_post() -> None:
    app = Handshake()

    async def fail(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.json({**failure(request, -32000, "broken"), "id": None})

    app.tools["fail"] = fail
    async with serving(app) as server, _connect(server.url) as session:
        with pytest.raises(ServerError, match="broken"):
            await session.call_tool("fail")


# ------------------------------------------------------------------ resumption


def _cut_off(app: Handshake, retry: int | None, pieces: int = 1) -> Any:
    """A server whose call stream ends early and goes on at GET, ``pieces`` times."""
    waiting: list[Request] = []

    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        waiting.append(request)
        await reply.stream()
        head = "" if retry is None else f"retry: {retry}\n"
        await reply.chunk(f"id: e0\n{head}data: \n\n".encode())
        await reply.end()

    async def handler(request: Request, reply: Reply) -> None:
        last = request.headers.get("last-event-id")
        if last is None:
            await app(request, reply)
            return
        number = int(last[1:]) + 1
        await reply.stream()
        if number < pieces:
            await reply.chunk(f"id: e{number}\nretry: {retry}\ndata:\n\n".encode())
        else:
            await reply.event(answer(waiting[-1], text("resumed")))
        await reply.end()

    app.tools["work"] = work
    return handler


@pytest.mark.parametrize("pieces", [1, 3])
async def test_a_stream_that_ends_early_is_resumed_when_the_server_asked(
    pieces: int, clock: Clock
) -> None:
    app = Handshake()
    async with serving(_cut_off(app, 1_000, pieces)) as server, _connect(server.url) as session:
        clock.stop()
        begun = anyio.current_time()
        async with quickly(clock):
            assert (await session.call_tool("work")).text == "resumed"
        assert anyio.current_time() >= begun + 1.0 * pieces
    asked = [r.headers["last-event-id"] for r in server.requests if "last-event-id" in r.headers]
    assert asked == [f"e{number}" for number in range(pieces)]
    assert len(app.calls) == 1


@pytest.mark.parametrize(("retry", "pause"), [(None, 0.5), (0, 0.05), (60, 0.06), (700, 0.7)])
async def test_a_stream_is_resumed_after_half_a_second_or_as_soon_as_the_server_asked(
    retry: int | None, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    resume = HttpSession._resume

    async def noted(self: HttpSession, inner: Any, last_id: str, pause: float) -> Any:
        pauses.append(pause)
        return await resume(self, inner, last_id, 0.0)

    monkeypatch.setattr(HttpSession, "_resume", noted)
    async with serving(_cut_off(Handshake(), retry)) as server, _connect(server.url) as session:
        await session.call_tool("work")
    assert pauses == [pause]


async def test_a_server_cannot_make_us_wait_forever_to_resume() -> None:
    app = Handshake()
    handler = _cut_off(app, 999_999_999)
    async with serving(handler) as server, _connect(server.url) as session:
        with pytest.raises(CallTimeout):
            await session.call_tool("work", timeout=0.3)


async def test_a_call_that_has_less_time_than_the_server_asks_for_fails_at_once() -> None:
    app = Handshake()
    async with serving(_cut_off(app, 120_000)) as server, _connect(server.url) as session:
        waits = r"requests a pause of 1\d\d\S* s"  # less where we are slow
        with anyio.fail_after(60), pytest.raises(CallTimeout, match=waits) as caught:
            await session.call_tool("work", timeout=Timeouts(idle=30, total=60))
        assert caught.value.clock == "total"


async def test_the_pause_that_the_server_asks_for_is_not_silence() -> None:
    app = Handshake()
    async with serving(_cut_off(app, 900)) as server, _connect(server.url) as session:
        result = await session.call_tool("work", timeout=Timeouts(idle=0.3, total=30))
    assert result.text == "resumed"


async def test_an_event_id_that_no_header_can_carry_is_not_sent_back() -> None:
    app = Handshake()

    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream()
        await reply.chunk("id: été\ndata: \n\n".encode())
        await reply.end()

    app.tools["work"] = work
    async with serving(app) as server, _connect(server.url) as session:
        with pytest.raises(ConnectionLost, match="cannot be sent"):
            await session.call_tool("work")
        assert (await session.call_tool("echo", {})).text == "{}"


@pytest.mark.slow
async def test_a_server_that_is_killed_in_mid_call_ends_the_call_within_seconds() -> None:
    app = Handshake()
    begun = anyio.Event()
    caught: list[BaseException] = []

    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream()
        await reply.chunk(b"id: e0\ndata: \n\n")
        begun.set()
        await reply.hold()

    async def call(session: Any) -> None:
        try:
            await session.call_tool("work")
        except ConnectionLost as error:
            caught.append(error)

    app.tools["work"] = work
    async with anyio.create_task_group() as tasks:
        async with serving(app) as server:
            session = await _connect(server.url)
            tasks.start_soon(call, session)
            await begun.wait()
        with anyio.fail_after(60):
            while not caught:
                await anyio.sleep(0.01)
    assert "cannot connect" in str(caught[0])
    await session.aclose()


async def test_a_stream_is_resumed_when_the_server_is_back_after_a_moment() -> None:
    app = Handshake()
    cut_off = _cut_off(app, 20)
    refused: list[Request] = []

    async def handler(request: Request, reply: Reply) -> None:
        if "last-event-id" in request.headers and len(refused) < 2:
            refused.append(request)
            await reply.send(503)
        else:
            await cut_off(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        assert (await session.call_tool("work")).text == "resumed"
    assert len(app.calls) == 1


async def test_a_stream_without_event_ids_cannot_be_resumed() -> None:
    app = Handshake()

    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream()
        await reply.end()

    app.tools["work"] = work
    async with serving(app) as server, _connect(server.url) as session:
        with pytest.raises(ConnectionLost, match="without the response"):
            await session.call_tool("work")
    assert len(app.calls) == 1


async def test_a_server_that_does_not_know_what_to_resume_leaves_the_outcome_unknown() -> None:
    app = Handshake()
    cut_off = _cut_off(app, 10)

    async def handler(request: Request, reply: Reply) -> None:
        if "last-event-id" in request.headers:
            await reply.send(400)
        else:
            await cut_off(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        with pytest.raises(ConnectionLost, match="HTTP 400"):
            await session.call_tool("work")
    assert len(app.calls) == 1


async def test_the_get_stream_is_taken_up_again_where_it_ended() -> None:
    app = Handshake()
    again = anyio.Event()

    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "GET" and "last-event-id" not in request.headers:
            await reply.stream()
            await reply.chunk(b"id: g1\nretry: 60\ndata:\n\n")
            await reply.end()
        elif request.method == "GET":
            assert request.headers["last-event-id"] == "g1"
            again.set()
            await reply.stream()
            await reply.hold()
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url):
        await again.wait()


# ------------------------------------------------------------- a session's end


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b""),
        (404, b"Not Found"),
        (410, b"Gone"),
        (400, b"Bad Request: No valid session ID provided"),
        (400, b"Bad Request: Server not initialized"),
    ],
)
async def test_an_ended_session_is_replaced_and_the_call_approved_again(
    status: int, body: bytes
) -> None:
    app = Handshake()
    over: set[str] = set()

    async def handler(request: Request, reply: Reply) -> None:
        if request.headers.get("mcp-session-id") in over:
            await reply.send(status, body)
        else:
            await app(request, reply)

    asked: list[int] = []

    def approve(call: ToolCall) -> Allow:
        asked.append(call.generation)
        return Allow()

    async with serving(handler) as server, _connect(server.url, approval=approve) as session:
        await session.list_tools()
        over.add("session-1")
        app.tools["new"] = lambda: "new"
        assert (await session.call_tool("echo", {})).text == "{}"
        assert asked == [1, 2], "an approval is good for one connection only"
        assert session.generation == 2
        assert len(app.calls) == 1
        assert [tool.name for tool in await session.list_tools()] == ["echo", "new"]
    ended = [r.headers["mcp-session-id"] for r in server.saying("DELETE")]
    assert ended == ["session-2"], "what the server has ended is not ended again"
    assert len(server.saying("initialize")) == 2


@pytest.mark.parametrize("sse", [False, True], ids=["json", "events"])
async def test_a_session_not_found_under_http_200_is_replaced(sse: bool) -> None:
    app = Handshake(sse=sse)
    over: set[str] = set()

    async def handler(request: Request, reply: Reply) -> None:
        if request.headers.get("mcp-session-id") in over and request.method == "POST":
            error = failure(request, -32600, "Session not found")
            if sse:
                await reply.stream()
                await reply.event(error)
                await reply.end()
            else:
                await reply.json(error)
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        await session.list_tools()
        over.add("session-1")
        assert (await session.call_tool("echo", {})).text == "{}"
        assert session.generation == 2
    assert len(app.calls) == 1


@pytest.mark.parametrize(
    ("code", "message"), [(-32000, "Session not found"), (-32600, "the name must not be empty")]
)
async def test_an_error_of_the_tools_own_does_not_end_the_session(code: int, message: str) -> None:
    app = Handshake()

    async def fail(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.json(failure(request, code, message))

    app.tools["fail"] = fail
    async with serving(app) as server, _connect(server.url) as session:
        with pytest.raises(ServerError, match=message):
            await session.call_tool("fail")
        assert session.generation == 1
    assert len(app.calls) == 1


async def test_a_call_on_a_session_that_was_replaced_ends_with_the_session_of_the_host() -> None:
    app, begun, gone = Handshake(), anyio.Event(), anyio.Event()

    async def wait(arguments: Any, request: Request, reply: Reply) -> None:
        begun.set()
        try:
            await reply.hold()
        finally:
            gone.set()

    app.tools["wait"] = wait
    async with serving(app) as server, _connect(server.url) as session:

        async def call() -> None:
            with pytest.raises(ConnectionLost):
                await session.call_tool("wait")

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await begun.wait()
                app.ended.add("session-1")
                await session.call_tool("echo")
                assert app.session == 2
                assert not gone.is_set()
                await session.aclose()
            await gone.wait()


async def test_an_ended_session_does_not_carry_an_approval_over() -> None:
    app = Handshake()

    def approve(call: ToolCall) -> Allow | Deny:
        return Allow() if call.generation == 1 else Deny("not on this one")

    async with serving(app) as server, _connect(server.url, approval=approve) as session:
        await session.list_tools()
        app.ended.add("session-1")
        with pytest.raises(Exception, match="not on this one"):
            await session.call_tool("echo", {})
    assert app.calls == []


async def test_a_list_is_fetched_on_the_new_session_where_the_old_has_ended() -> None:
    app = Handshake()
    async with serving(app) as server, _connect(server.url) as session:
        app.ended.add("session-1")
        assert [tool.name for tool in await session.list_tools()] == ["echo"]
        assert session.stats.restarts == 1


async def test_many_calls_that_meet_an_ended_session_share_one_new_one() -> None:
    app = Handshake()
    async with serving(app) as server, _connect(server.url) as session:
        await session.list_tools()
        app.ended.add("session-1")
        texts: list[str] = []

        async def one() -> None:
            texts.append((await session.call_tool("echo", {})).text)

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(one)
        assert texts == ["{}"] * 8
    assert len(server.saying("initialize")) == 2


async def test_a_server_that_ends_every_session_is_not_asked_forever() -> None:
    app = Handshake()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method.startswith("tools/"):
            await reply.send(404)
        else:
            await app(request, reply)

    async with serving(handler) as server, _connect(server.url) as session:
        with pytest.raises(Exception, match=r"no longer knows our session|made anew|again"):
            await session.list_tools()
    assert len(server.saying("initialize")) <= 4


async def test_what_an_origin_once_wanted_is_remembered() -> None:
    async with serving(Handshake()) as server:
        for _ in range(2):
            async with _connect(server.url) as session:
                await session.call_tool("echo", {})
    assert len(server.saying("server/discover")) == 1


async def test_closing_does_not_wait_for_a_server_that_does_not_answer() -> None:
    app = Handshake()

    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "DELETE":
            await reply.hold()
        await app(request, reply)

    timeouts = Timeouts(close=0.2)
    async with serving(handler) as server:
        session = await _connect(server.url, timeouts=timeouts)
        with anyio.fail_after(60):
            await session.aclose()
