"""A server that has forgotten the session, in whatever words: what the client does, and that no
call runs twice. The server counts what runs.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcp_client import (
    Host,
    HttpServer,
    McpError,
    OAuth,
    OutcomeUnknown,
    ServerError,
    allow_all,
    connect,
)
from mcp_client.auth import BearerToken
from mcp_client.errors import AuthError, ConnectError
from mcp_client.transports.http_errors import names_lost_session
from tests.support.authorization import guarded
from tests.support.http_apps import Handshake, Legacy, failure
from tests.support.http_server import Reply, Request, serving

KEY = {"Authorization": "Bearer a-good-key"}
BEARER = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
HTML = b"<!doctype html><title>Sign in</title>"

Refusal = tuple[int, "bytes | dict[str, Any]", "dict[str, str]"]


def refusal(status: int, body: Any = b"", **headers: str) -> Refusal:
    return status, body, headers or (BEARER if status == 401 else {})


def error(code: int, message: str, **members: Any) -> dict[str, Any]:
    return {"code": code, "message": message, **members}


LOST = [
    refusal(404),
    refusal(410, b"Gone"),
    refusal(404, error(-32603, "Not Found")),
    refusal(404, error(-32602, "Invalid session ID")),
    refusal(400, b"No active session"),
    refusal(400, b"Unknown Mcp-Session-Id header"),
    refusal(400, b"Bad Request: No valid session ID provided"),
    refusal(400, b'{"error": "invalid_session_id"}'),
    refusal(400, error(-32000, "Bad Request: Mcp-Session-Id header is required")),
    refusal(400, error(-32600, "Bad Request", data="session expired")),
    refusal(401, b"Unauthorized: Session not found"),
    refusal(401, b'{"error": "invalid_token"}'),
    refusal(401),
    refusal(401, error(-32001, "Unauthorized")),
    refusal(403, b"Forbidden: the session is inactive"),
    refusal(403),
    refusal(409, b"session was terminated"),
    refusal(422, b"SessionNotFound"),
    refusal(440, b"Login Time-out: session has timed out"),
    refusal(500, b"Internal error: could not find the session"),
    refusal(502, b"upstream: session does not exist"),
    refusal(503, b"Session not found"),
    refusal(200, error(-32001, "Session not found")),
    refusal(200, error(-32600, "Invalid Request: unknown session")),
    refusal(200, error(-32600, "Server not initialized")),
    refusal(200, error(-32000, "Invalid or missing Mcp-Session-Id")),
    refusal(200, error(-32603, "MCP session abc has expired")),
]

STILL_OPEN = [
    (refusal(429, b"too many sessions"), ServerError),
    (refusal(500, b"Internal error"), ServerError),
    (refusal(503, b"overloaded"), ServerError),
    (refusal(504), OutcomeUnknown),
    (refusal(404, error(-32601, "Method not found")), ServerError),
    (refusal(404, error(-32602, "Unknown tool: echo")), ServerError),
    (refusal(500, error(-32603, "Protocol error: Session closed. The page is gone.")), ServerError),
    (refusal(500, b"RuntimeError: Session is closed"), ServerError),
    (refusal(500, error(-32000, "SSH session lost while the command ran")), ServerError),
    (refusal(502, b"the session was terminated"), OutcomeUnknown),
    (refusal(504, b"upstream: session timed out"), OutcomeUnknown),
    (refusal(200, error(-32000, "Session not found")), ServerError),
    (refusal(200, error(-32602, "session 7 is unknown")), ServerError),
    (refusal(200, error(-32600, "no such tool")), ServerError),
    (
        refusal(403, b"", **{"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="w"'}),
        AuthError,
    ),
]


async def _refuse(refused: Refusal, request: Request, reply: Reply) -> None:
    status, body, headers = refused
    if isinstance(body, dict):
        whole = {"jsonrpc": "2.0", "id": request.message.get("id"), "error": body}
        await reply.json(whole, status, headers)
    else:
        await reply.send(status, body, {"Content-Type": "text/plain", **headers})


class Forgetful(Handshake):
    """Refuses what names a session that it has forgotten, or in every session what is ``always``
    refused."""

    def __init__(self, refused: Refusal, *, sse: bool = False, always: bool = False) -> None:
        super().__init__(sse=sse, get=405)
        self.refused = refused
        self.always = always
        self.forgotten: set[str | None] = set()
        self.opened = 0

    def forget(self) -> None:
        self.forgotten.add(f"session-{self.session}")

    async def __call__(self, request: Request, reply: Reply) -> None:
        self.opened += request.rpc_method == "initialize"
        lost = request.headers.get("mcp-session-id") in self.forgotten
        if request.method == "POST" and (
            lost or (self.always and request.rpc_method == "tools/call")
        ):
            await _refuse(self.refused, request, reply)
        else:
            await super().__call__(request, reply)


@pytest.mark.parametrize("refused", LOST, ids=str)
@pytest.mark.parametrize("auth", ["header", "bearer"])
async def test_a_forgotten_session_is_replaced_and_the_call_runs_once(
    refused: Refusal, auth: str
) -> None:
    app = Forgetful(refused)
    async with serving(app) as server:
        how: Any = {"headers": KEY} if auth == "header" else {"auth": BearerToken("a-good-key")}
        servers = {"s": HttpServer(server.url, **how)}
        async with Host(servers, approval=allow_all) as host:
            for number in range(1, 3):
                assert (await host.call_tool("s__echo", {"n": number})).text == f"{{'n': {number}}}"
                app.forget()
            assert host.status()["s"].state == "connected"
            assert len(app.calls) == 2
            assert app.opened == 2, "one more for the session that was forgotten"


@pytest.mark.parametrize(("refused", "kind"), STILL_OPEN, ids=str)
async def test_what_does_not_name_the_session_is_the_error_of_the_call(
    refused: Refusal, kind: type[McpError]
) -> None:
    app = Forgetful(refused, always=True)
    async with (
        serving(app) as server,
        connect(HttpServer(server.url, headers=KEY), approval=allow_all) as session,
    ):
        with pytest.raises(kind):
            await session.call_tool("echo")
        assert session.generation == app.opened == 1


async def test_a_session_that_may_have_broken_under_a_call_ends_after_three_refusals() -> None:
    app = Forgetful(refusal(500, b"the session was terminated"))
    async with serving(app) as server, connect(server.url, approval=allow_all) as session:
        await session.call_tool("echo")
        app.forget()
        for _ in range(3):
            with pytest.raises(ServerError, match="session was terminated"):
                await session.call_tool("echo")
        assert (await session.call_tool("echo")).text == "{}"
        assert app.opened == 2
        assert len(app.calls) == 2


@pytest.mark.parametrize(
    "refused",
    [
        refusal(400, error(-32602, "browser session 7 not found")),
        refusal(422, b"session 7 is unknown"),
    ],
)
async def test_a_call_that_is_refused_on_a_new_session_too_ends_with_the_servers_words(
    refused: Refusal,
) -> None:
    app = Forgetful(refused, always=True)
    async with serving(app) as server, connect(server.url, approval=allow_all) as session:
        with pytest.raises(ServerError, match="session 7"):
            await session.call_tool("echo")
        assert app.opened == 2, "one new session for it, which stays open"
        assert len(await session.list_tools()) == 1
        assert app.opened == 2


async def test_the_error_of_a_lost_session_has_the_servers_words() -> None:
    app = Forgetful(refusal(404, b"no such tenant"), always=True)
    async with serving(app) as server, connect(server.url, approval=allow_all) as session:
        with pytest.raises(ConnectError, match=r"our session \(no such tenant\); nothing was run"):
            await session.call_tool("echo")


@pytest.mark.parametrize("status", [401, 403])
async def test_a_call_that_is_refused_in_every_session_is_refused_for_its_credentials(
    status: int,
) -> None:
    app = Forgetful(refusal(status), always=True)
    async with (
        serving(app) as server,
        connect(HttpServer(server.url, headers=KEY), approval=allow_all) as session,
    ):
        for _ in range(3):
            with pytest.raises(AuthError, match=f"HTTP {status}"):
                await session.call_tool("echo")
            await session.list_tools()
        assert app.opened == 2, "tried once, and not with each call"


async def test_no_person_is_asked_to_log_in_for_a_forgotten_session() -> None:
    app = Forgetful(refusal(401, b"", **{"WWW-Authenticate": "Bearer"}))
    async with guarded(app) as world:
        auth = OAuth(on_url=world.agree)
        async with connect(HttpServer(world.url, auth=auth), approval=allow_all) as session:
            for _ in range(3):
                await session.call_tool("echo")
                app.forget()
        assert len(world.consents) == 1
        assert len(app.calls) == 3


async def test_the_error_of_a_call_that_was_begun_is_its_own() -> None:
    async def begin(arguments: Any, request: Request, reply: Reply) -> None:
        token = request.message["params"]["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": 1}
        notice = {"method": "notifications/progress", "params": progress}
        await reply.stream()
        await reply.event({"jsonrpc": "2.0", **notice})
        await reply.event(failure(request, -32600, "Session not found"))
        await reply.end()

    app = Handshake(begin=begin)
    async with serving(app) as server, connect(server.url, approval=allow_all) as session:
        with pytest.raises(ServerError, match="Session not found"):
            await session.call_tool("begin", on_progress=lambda *reported: None)
        assert session.generation == 1
    assert len(app.calls) == 1


async def test_the_error_of_a_call_that_was_begun_is_its_own_over_http_sse_too() -> None:
    app = Legacy(begin=lambda arguments: None)

    async def handler(request: Request, reply: Reply) -> None:
        await app(request, reply)
        if request.rpc_method == "tools/call" and app.stream is not None:
            token = request.message["params"]["_meta"]["progressToken"]
            progress = {"progressToken": token, "progress": 1}
            notice = {"method": "notifications/progress", "params": progress}
            await app.stream.event({"jsonrpc": "2.0", **notice})
            await app.stream.event(failure(request, -32600, "Session not found"))

    async with (
        serving(handler, "/sse") as server,
        connect(server.url, approval=allow_all) as session,
    ):
        with pytest.raises(ServerError, match="Session not found"):
            await session.call_tool("begin", on_progress=lambda *reported: None)
        assert session.generation == 1
    assert len(app.calls) == 1


@pytest.mark.parametrize("body", [HTML, b"", b"{", b'{"status": "ok"}'])
async def test_three_unreadable_responses_in_a_row_end_the_session(body: bytes) -> None:
    app = Forgetful((200, body, {}))
    async with serving(app) as server, connect(server.url, approval=allow_all) as session:
        await session.call_tool("echo")
        app.forget()
        for _ in range(3):
            with pytest.raises(McpError):
                await session.call_tool("echo")
        assert (await session.call_tool("echo")).text == "{}"
        assert app.opened == 2
        assert len(app.calls) == 2


async def test_readable_answers_between_unreadable_ones_keep_the_session() -> None:
    app = Forgetful((200, HTML, {}))
    async with serving(app) as server, connect(server.url, approval=allow_all) as session:
        await session.list_tools()
        for _ in range(4):
            app.always = True
            with pytest.raises(McpError):
                await session.call_tool("echo")
            app.always = False
            await session.call_tool("echo")
        assert app.opened == 1


@pytest.mark.parametrize(
    "refused",
    [each for each in LOST if each[0] != 200 and (each[0] in (404, 410) or b"ess" in each[1])],
    ids=str,
)
async def test_a_forgotten_connection_of_the_first_revision_is_made_again(refused: Refusal) -> None:
    app, forgotten = Legacy(), set[str]()

    async def handler(request: Request, reply: Reply) -> None:
        if request.path in forgotten:
            await _refuse(refused, request, reply)
        else:
            await app(request, reply)

    async with (
        serving(handler, "/sse") as server,
        connect(server.url, approval=allow_all) as session,
    ):
        await session.call_tool("echo")
        forgotten.add(app.endpoint)
        app.endpoint = "/messages?id=2"
        with anyio.fail_after(30):
            assert (await session.call_tool("echo")).text == "{}"
    assert len(app.calls) == 2


@pytest.mark.parametrize(
    "expected",
    [
        "",
        "the tool failed",
        "sessions are listed below",
        "permission denied",
        "obsession not found",
    ],
)
def test_other_words_do_not_name_a_lost_session(expected: str) -> None:
    assert not names_lost_session(expected)
