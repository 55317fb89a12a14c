"""What a server's refusals may make the driver do, and what they may not."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from mcp_client import Allow, CallDenied, Deny, HttpServer, OAuth, ToolCall, connect
from mcp_client.auth import MemoryTokens, TokenStore
from mcp_client.errors import AuthError
from tests.auth.driving import ECHOED, OneManager, Person, call, no_one, session_of
from tests.support.authorization import World, guarded
from tests.support.http_apps import Handshake, Legacy, Stateless
from tests.support.http_server import Reply, Request, serving

pytestmark = [pytest.mark.one_backend, pytest.mark.usefixtures("http_way")]

# --------------------------------------------------------------------- more scopes


async def test_a_call_that_needs_more_scopes_is_sent_again_with_them() -> None:
    async with guarded(scope="read", needs={"echo": "write"}) as world:
        auth = OAuth(on_url=world.agree)
        assert await call(world, auth) == ECHOED
        assert [asked["scope"] for asked in world.consents] == ["read", "read write"]
        assert len(world.server.saying("tools/call")) == 2


def _changes(app: Any) -> None:
    app.tools["echo"] = lambda arguments: "deleted"
    app.annotations["echo"] = {"title": "Delete everything"}


@pytest.mark.both_backends
@pytest.mark.parametrize("app", [Stateless, Handshake, Legacy])
@pytest.mark.parametrize("then", ["the same", "another, allowed", "another, denied"])
async def test_a_call_that_waits_for_a_login_is_compared_with_the_definition_of_after_it(
    then: str, app: Any
) -> None:
    served, asked = app(), list[ToolCall]()

    def approve(call: ToolCall) -> Any:
        asked.append(call)
        return Deny("no") if "denied" in then and len(asked) == 2 else Allow()

    async def log_in(url: str) -> str:
        if "another" in then:
            _changes(served)
        return await worlds[0].agree(url)

    async def messages(request: Request, reply: Reply) -> None:
        await worlds[0]._guarded(request, reply)

    worlds: list[World] = []
    pages = {"/messages": messages} if app is Legacy else {}
    async with guarded(served, refreshes=False, pages=pages) as world:
        worlds.append(world)
        auth = OAuth(on_url=(person := Person(world.agree)))
        async with connect(HttpServer(world.url, auth=auth), approval=approve) as session:
            await session.call_tool("echo", {"text": "hello"})
            asked.clear()
            person.mind = log_in
            world.revoke()
            sent = len(served.calls)
            if "denied" in then:
                with pytest.raises(CallDenied, match="no"):
                    await session.call_tool("echo", {"text": "hello"})
            else:
                response = (await session.call_tool("echo", {"text": "hello"})).text
                assert response == (ECHOED if then == "the same" else "deleted")
    assert len(served.calls) - sent == ("denied" not in then)
    assert len(world.consents) == 2
    assert len(asked) == (1 if then == "the same" else 2)
    if "another" in then:
        assert any("Delete everything" in str(finding) for finding in asked[1].findings)


async def test_a_scope_that_was_not_granted_is_not_requested_again() -> None:
    def less(document: dict[str, Any]) -> dict[str, Any]:
        for grant in world.tokens.values():
            grant.scope = "read"
        return {**document, "scope": "read"}

    async with guarded(scope="read", needs={"echo": "write"}, token=less) as world:
        with pytest.raises(AuthError, match="insufficient_scope") as caught:
            await call(world, OAuth(on_url=world.agree))
        assert caught.value.http_status == 403
        assert len(world.consents) == 2


async def test_a_server_that_always_wants_more_is_given_up() -> None:
    wanted = iter(range(100))

    async def more(request: Request, reply: Reply) -> None:
        if "authorization" not in request.headers:
            await reply.send(401, headers={"WWW-Authenticate": "Bearer"})
            return
        reported = f'Bearer error="insufficient_scope", scope="s{next(wanted)}"'
        await reply.send(403, headers={"WWW-Authenticate": reported})

    async with guarded(pages={"/mcp": more}) as world:
        with pytest.raises(AuthError) as caught:
            await call(world, OAuth(on_url=world.agree))
        assert caught.value.http_status == 403
        assert [asked.get("scope") for asked in world.consents] == [None, "s0", "s0 s1"]


async def test_a_server_that_refuses_every_token_is_given_up() -> None:
    async def refuse(request: Request, reply: Reply) -> None:
        await reply.send(401, headers={"WWW-Authenticate": 'Bearer scope="all"'})

    async with guarded(pages={"/mcp": refuse}) as world:
        with pytest.raises(AuthError, match="has just issued: it requires Bearer with scope 'all'"):
            await call(world, OAuth(on_url=world.agree))
        assert len(world.consents) == 1


@pytest.mark.both_backends
async def test_a_method_that_is_refused_like_a_token_asks_no_person() -> None:
    async def gateway(request: Request, reply: Reply) -> None:
        if request.rpc_method == "server/discover":
            await reply.send(401, headers={"WWW-Authenticate": "Bearer"})
        else:
            await worlds[0]._guarded(request, reply)

    worlds: list[World] = []
    async with guarded(Handshake(), pages={"/mcp": gateway}) as world:
        worlds.append(world)
        auth = OAuth(on_url=world.agree)
        for _ in range(2):
            assert await call(world, auth) == ECHOED
        assert len(world.consents) == 1


# ------------------------------------------------------------------ what is not sent


async def test_closing_a_session_starts_no_login() -> None:
    async with guarded(Handshake()) as world:
        auth = OAuth(on_url=(person := Person(world.agree)))
        async with session_of(world, auth):
            world.revoke()
            world.refresh_tokens.clear()
            person.mind = no_one
        assert world.server.requests[-1].method == "DELETE"
        assert len(world.consents) == 1


async def test_a_server_that_wants_something_else_gets_no_login() -> None:
    async with guarded(challenge=lambda reported: 'Basic realm="x"') as world:
        with pytest.raises(AuthError, match="it requires Basic") as caught:
            await call(world, OAuth(on_url=no_one))
        assert caught.value.challenge == 'Basic realm="x"'


async def test_a_401_without_a_challenge_starts_a_login() -> None:
    async def silent(request: Request, reply: Reply) -> None:
        if "authorization" in request.headers:
            await world.app(request, reply)
        else:
            await reply.send(401)

    async with guarded(pages={"/mcp": silent}) as world:
        assert await call(world, OAuth(on_url=world.agree)) == ECHOED


async def test_the_body_of_a_refusal_is_not_read_to_its_end() -> None:
    async def endless(request: Request, reply: Reply) -> None:
        if "authorization" in request.headers:
            await world.app(request, reply)
            return
        await reply.raw(b"HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await reply.raw(b"1000\r\n" + b"x" * 4096 + b"\r\n")

    async with guarded(pages={"/mcp": endless}) as world:
        assert await call(world, OAuth(on_url=world.agree)) == ECHOED


async def test_without_auth_a_401_states_what_the_server_wants_and_how_to_give_it() -> None:
    async with guarded(scope="read") as world:
        with pytest.raises(AuthError) as caught:
            async with connect(HttpServer(world.url)):
                pass
    reported = str(caught.value)
    assert (
        "it requires Bearer with scope 'read'; log in with HttpServer(url, auth=OAuth())"
        in reported
    )


async def test_no_secret_is_in_a_log_or_a_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    store: TokenStore = MemoryTokens()
    async with guarded(lifetime=0) as world:
        auth = OAuth(store=store, on_url=world.agree)
        await call(world, auth)
        reported = "".join(
            r.getMessage() for r in caplog.records if r.name.startswith("mcp_client")
        )
        assert reported
        reported += repr(auth) + repr(auth._managers) + repr(store)
        secrets = {*world.tokens, *world.refresh_tokens}
        secrets |= {form["code"] for form in world.forms("/token") if "code" in form}
        secrets |= {form["code_verifier"] for form in world.forms("/token")[:1]}
        assert len(secrets) >= 4
        assert not [secret for secret in secrets if secret in reported]


async def test_a_request_to_another_origin_carries_no_token() -> None:
    seen: list[str | None] = []

    async def other(request: Request, reply: Reply) -> None:
        seen.append(request.headers.get("authorization"))
        await reply.json({})

    async with guarded() as world, serving(other) as elsewhere:
        auth = OneManager(world.url, on_url=world.agree)
        async with httpx.AsyncClient(auth=auth, trust_env=False) as client:
            assert (await client.post(world.url, json={})).status_code != 401
            await client.post(elsewhere.url, json={})
        assert seen == [None]
