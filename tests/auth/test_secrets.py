"""No secret of a login comes out: not in logs, reprs, errors, the audit log or a command line.

Each secret is planted where the protocol has it, the servers repeat everything they were sent in
everything they answer, and then all that came out is searched.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from mcp_client import FileTokens, HttpServer, McpError, MemoryTokens, OAuth, allow_all, connect
from tests.server.authorization import World, guarded
from tests.server.http_server import Reply, Request

pytestmark = pytest.mark.one_backend

KEY = "query-secret-0123456789"
USER, PASSWORD = "user-secret-0123", "password-secret-0123456789"
COOKIE = "cookie-secret-0123456789"
CLIENT_SECRET = "client-secret-0123456789"


class Leaks:
    """Collects what came out, and the secrets that must not be in it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.out: list[str] = []
        self.seen: set[str] = {KEY, PASSWORD, COOKIE, CLIENT_SECRET}

    def error(self, error: BaseException | None) -> None:
        while error is not None:
            self.out += [str(error), repr(error), repr(vars(error)), repr(error.args)]
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)

    def found(self) -> list[str]:
        """The secrets that came out, with what they came out in."""
        secrets = set(self.seen) | set(self.world.tokens) | set(self.world.refresh_tokens)
        secrets |= set(self.world.codes)
        for request in (*self.world.authorization.requests, *self.world.server.requests):
            for name in ("authorization", "dpop", "cookie"):
                secrets.add(request.headers.get(name, "").partition(" ")[2])
            if b"=" in request.body and not request.body.startswith(b"{"):
                form = dict(parse_qsl(request.body.decode()))
                secrets |= {
                    form.get(name, "")
                    for name in ("code", "code_verifier", "refresh_token", "client_secret", "token")
                }
        for params in self.world.consents:
            secrets.add(params["state"])
        return [
            f"{secret} in {text[:300]}"
            for secret in secrets
            for text in self.out
            if secret and secret in text
        ]


def echo_of(request: Request) -> str:
    return f"{request.path} {json.dumps(request.headers)} {request.body.decode('latin-1')}"


async def repeat(request: Request, reply: Reply, status: int) -> None:
    """Refuse a request and repeat all of it, in every place where a text can be."""
    said = echo_of(request)
    plain = said.replace('"', "'").replace("\r", "").replace("\n", "")
    document = {
        "error": "invalid_grant",
        "error_description": said,
        "jsonrpc": "2.0",
        "id": None,
    }
    challenge = f'Bearer error="invalid_token", error_description="{plain}", scope="{plain}"'
    await reply.json(document, status, {"WWW-Authenticate": challenge, "X-Echo": plain})


STAGES = ["/register", "/authorize", "/token", "refresh", "/mcp", "call", "redirect"]


@pytest.mark.parametrize("status", [401, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stage", STAGES)
async def test_secrets_that_a_server_repeats_are_not_in_errors_logs_or_reprs(
    stage: str, status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_client")
    caplog.set_level(logging.INFO, "httpx")
    hostile = False

    async def token(request: Request, reply: Reply) -> None:
        refresh = b"grant_type=refresh_token" in request.body
        if hostile and stage == ("refresh" if refresh else "/token"):
            await repeat(request, reply, status)
        else:
            await reply.json(world._token(request))

    async def register(request: Request, reply: Reply) -> None:
        if stage == "/register":
            await repeat(request, reply, status)
        else:
            await reply.json(world._registered(request), 201)

    async def mcp(request: Request, reply: Reply) -> None:
        says = request.message.get("method") if request.method == "POST" else None
        authorized = request.headers.get("authorization", "") != ""
        refuses = (stage == "/mcp" and authorized) or (stage == "call" and says == "tools/call")
        if hostile and refuses:
            await repeat(request, reply, status)
        elif hostile and stage == "redirect" and authorized:
            place = f"https://elsewhere.example/{request.headers['authorization']}?{KEY}"
            await reply.send(307, headers={"Location": place})
        else:
            await world._guarded(request, reply)

    async def agree(url: str) -> str:
        redirect = await world.agree(url)
        if hostile and stage == "/authorize":
            state = dict(parse_qsl(urlsplit(url).query))["state"]
            said = urlencode({"error": "no", "error_description": url, "iss": world.issuer})
            return f"{redirect.partition('?')[0]}?{said}&state={state}"
        return redirect

    pages = {"/token": token, "/register": register, "/mcp": mcp}
    async with guarded(pages=pages, lifetime=0) as world:
        leaks, audit = Leaks(world), tmp_path / "calls.jsonl"
        url = world.url.replace("http://", f"http://{USER}:{PASSWORD}@") + f"?key={KEY}"
        for store in (FileTokens(tmp_path / "own" / "tokens.json"), MemoryTokens()):
            auth = OAuth(store=store, on_url=agree)
            server = HttpServer(url, headers={"Cookie": f"sid={COOKIE}"}, auth=auth)
            try:
                async with connect(server, approval=allow_all, audit=str(audit)) as session:
                    leaks.out += [repr(session), repr(session.server_info)]
                    hostile = True
                    await session.call_tool("echo", {"text": "hello"})
            except McpError as error:
                leaks.error(error)
            leaks.out += [repr(auth), repr(store), repr(server)]
            hostile = True
        leaks.out.append(caplog.text)
        leaks.out += [str(each.__dict__) for each in caplog.records if each.name == "mcp_client"]
        if audit.exists():
            leaks.out.append(audit.read_text())
        assert not leaks.found()
        assert leaks.out


async def test_the_url_of_a_server_is_logged_without_its_query(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    store = MemoryTokens()
    async with guarded(lifetime=0) as world:
        for _ in range(2):
            server = HttpServer(
                f"{world.url}?api_key={KEY}", auth=OAuth(store=store, on_url=world.agree)
            )
            async with connect(server, approval=allow_all) as session:
                await session.call_tool("echo", {"text": "hello"})
            world.refresh_tokens.clear()
            world.options.lifetime = 3600
    assert "cannot be refreshed any more" in caplog.text
    assert "HTTP Request" in caplog.text
    assert KEY not in caplog.text


async def test_a_client_secret_that_a_server_repeats_is_not_in_errors_or_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_client")

    async def token(request: Request, reply: Reply) -> None:
        await repeat(request, reply, 401)

    def methods(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "token_endpoint_auth_methods_supported": ["client_secret_post"]}

    async with guarded(pages={"/token": token}, server_metadata=methods) as world:

        async def agree(url: str) -> str:
            params = dict(parse_qsl(urlsplit(url).query))
            world.clients[params["client_id"]] = {"redirect_uris": [params["redirect_uri"]]}
            return await world.agree(url)

        auth = OAuth(client_id="given", client_secret=CLIENT_SECRET, on_url=agree)
        leaks = Leaks(world)
        with pytest.raises(McpError) as caught:
            await connect(HttpServer(world.url, auth=auth), approval=allow_all)
        leaks.error(caught.value)
        leaks.out += [repr(auth), caplog.text]
        assert "invalid_grant" in str(caught.value)
        assert not leaks.found()
