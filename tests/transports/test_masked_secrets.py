"""What a server repeats of the credentials it was sent is in no error."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from mcp_client import HttpServer, McpError, allow_all, connect
from mcp_client.auth import BearerToken
from tests.support.http_apps import Handshake, Stateless
from tests.support.http_server import Reply, Request, serving

pytestmark = [pytest.mark.one_backend, pytest.mark.usefixtures("http_way")]

TOKEN = "s3cret-token-0123456789"
COOKIE = "c00kie-value-0123456789"
KEY = "k3y-in-the-url-0123456789"


class Signed(httpx.Auth):
    """An authentication of the host's own."""

    def auth_flow(self, request: httpx.Request) -> Any:
        request.headers["Authorization"] = f"Bearer {TOKEN}"
        yield request


AUTHS: dict[str, Any] = {
    "httpx.Auth": Signed(),
    "function": lambda: TOKEN,
    "BearerToken": BearerToken(TOKEN),
    "BearerToken(function)": BearerToken(lambda: TOKEN),
}


def everything_in(error: McpError) -> str:
    """All texts of an error, those of its cause included."""
    displayed: list[str] = []
    at: BaseException | None = error
    while at is not None:
        displayed += [str(at), repr(at), repr(vars(at)), repr(at.args)]
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return "\n".join(displayed)


async def echo(request: Request, reply: Reply, way: str) -> None:
    """Answer a request with an error that repeats what it was sent with."""
    sent = f"{request.headers.get('authorization')} {request.headers.get('cookie')} {request.path}"
    error = {"code": -32000, "message": f"denied: {sent}", "data": {"headers": [sent]}}
    message = {"jsonrpc": "2.0", "id": request.message.get("id"), "error": error}
    match way:
        case "401" | "403" | "500":
            challenge = {"WWW-Authenticate": f'Bearer error="denied", error_description="{sent}"'}
            await reply.send(int(way), sent.encode(), headers=challenge)
        case "error 401" | "error 500" | "error 200":
            await reply.json(message, int(way[-3:]))
        case "error event":
            event = f"data: {json.dumps(message)}\n\n".encode()
            await reply.send(200, event, {"Content-Type": "text/event-stream"})
        case "page":
            page = f"<!doctype html><title>{TOKEN}</title>".encode()
            await reply.send(200, page, {"Content-Type": "text/html"})
        case "kind":
            await reply.send(200, b"hello", {"Content-Type": f"text/{TOKEN}"})
        case "redirect":
            await reply.send(307, headers={"Location": f"https://other.example/{TOKEN}?{COOKIE}"})


WAYS = [
    *("401", "403", "500", "error 401", "error 500", "error 200", "error event"),
    *("page", "kind", "redirect"),
]


@pytest.mark.parametrize("era", [Stateless, pytest.param(Handshake, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("auth", AUTHS)
async def test_an_error_repeats_no_credential(era: Any, way: str, auth: str) -> None:
    app = era()

    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "POST" and request.message.get("method") == "tools/call":
            await echo(request, reply, way)
        else:
            await app(request, reply)

    async with serving(handler) as served:
        url = f"{served.url}?key={KEY}"
        server = HttpServer(url, auth=AUTHS[auth], headers={"Cookie": f"sid={COOKIE}"})
        async with connect(server, approval=allow_all) as session:
            with pytest.raises(McpError) as caught:
                await session.call_tool("echo", {"text": "hello"})
    displayed = everything_in(caught.value)
    assert not [secret for secret in (TOKEN, COOKIE, KEY) if secret in displayed], displayed
