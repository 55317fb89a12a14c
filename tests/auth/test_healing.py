"""Logins that recover: refused refreshes, forgotten clients, killed processes, two at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import HttpServer, OAuth, Timeouts, allow_all, connect
from mcp_client.auth import FileTokens, MemoryTokens
from mcp_client.auth.tokens import Key, Registration
from mcp_client.errors import AuthError
from tests.auth.driving import ECHOED, call, no_one
from tests.support.authorization import World, guarded
from tests.support.http_server import Reply, Request

pytestmark = pytest.mark.usefixtures("http_way")

# ------------------------------------------------------------------- refused refreshes

REFUSALS: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "GitHub": (200, b'{"error": "bad_refresh_token"}', {}),
    "Entra": (400, b'{"error": "interaction_required"}', {}),
    "invalid_token": (400, b'{"error": "invalid_token"}', {}),
    "invalid_grant": (400, b'{"error": "invalid_grant"}', {}),
    "text": (400, b"this refresh token is not known", {}),
    "detail": (401, b'{"detail": "Not authenticated"}', {}),
    "moved": (404, b"", {}),
    "gone": (410, b"<html>", {}),
    "page": (200, b"<html>", {}),
    "no token": (200, b"{}", {}),
    "token of a strange type": (200, b'{"access_token": "a", "token_type": "mac"}', {}),
    "redirect": (302, b"", {"Location": "https://elsewhere.example/token"}),
    "too long": (400, b" " * 2_000_000, {}),
}


def refresh_answers(world: World, status: int, body: bytes, headers: dict[str, str]) -> Any:
    """The token endpoint, which answers refreshes so and logins as ever."""

    async def token(request: Request, reply: Reply) -> None:
        if b"grant_type=refresh_token" in request.body:
            await reply.send(status, body, headers)
        else:
            await reply.json(world._token(request))

    return token


FEW = {"GitHub", "Entra", "text", "detail", "moved", "redirect"}
"""The others are variations of these."""


@pytest.mark.parametrize(
    "refusal",
    [pytest.param(each, marks=[] if each in FEW else [pytest.mark.slow]) for each in REFUSALS],
)
async def test_a_refresh_that_is_refused_in_any_words_leads_to_a_login(refusal: str) -> None:
    store, pages = MemoryTokens(), dict[str, Any]()
    async with guarded(lifetime=0, pages=pages) as world:
        await call(world, OAuth(store=store, on_url=world.agree))
        world.options.lifetime = 3600
        pages["/token"] = refresh_answers(world, *REFUSALS[refusal])
        world.revoke()
        assert await call(world, OAuth(store=store, on_url=world.agree)) == ECHOED
        assert len(world.consents) == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (503, b""), (400, b'{"error": "temporarily_unavailable"}')],
)
async def test_a_refresh_that_fails_for_now_keeps_the_refresh_token(
    status: int, body: bytes
) -> None:
    store, pages = MemoryTokens(), dict[str, Any]()
    async with guarded(lifetime=0, pages=pages) as world:
        await call(world, OAuth(store=store, on_url=world.agree))
        pages["/token"] = refresh_answers(world, status, body, {})
        with pytest.raises(AuthError) as caught:
            await call(world, OAuth(store=store, on_url=no_one))
        assert caught.value.retryable
        assert ("OAuth.logout(url)" in str(caught.value)) == (status == 500)
        del pages["/token"]
        assert await call(world, OAuth(store=store, on_url=no_one)) == ECHOED


# ------------------------------------------------------------------- killed processes

CLAIM = """
import sys, anyio
from mcp_client.auth.store import FileTokens
from mcp_client.auth.tokens import Key

async def main():
    key = Key("https://as.example", "https://mcp.example", "c")
    print(await FileTokens(sys.argv[1]).claim(key, 45.0), flush=True)
    sys.stdin.read()

anyio.run(main)
"""


@pytest.mark.slow
async def test_the_mark_of_a_killed_process_is_void_at_once(tmp_path: Path) -> None:

    path, key = (
        tmp_path / "own" / "tokens.json",
        Key("https://as.example", "https://mcp.example", "c"),
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(path)], stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert process.stdout is not None
        mark = await anyio.to_thread.run_sync(process.stdout.readline)
        assert mark.strip() != "None"
        assert await FileTokens(path).claim(key, 45.0) is None
        process.kill()
    assert await FileTokens(path).claim(key, 45.0) is not None


# ------------------------------------------------------------------- scopes at registration


async def test_a_server_that_grants_only_registered_scopes_is_logged_in_to() -> None:
    async with guarded(scope="read write", valid_scopes=frozenset({"read", "write"})) as world:
        assert await call(world, OAuth(on_url=world.agree)) == ECHOED
        (client,) = world.clients.values()
        assert client["scope"] == "read write"


@pytest.mark.parametrize("named", [True, False])
async def test_a_scope_that_was_not_registered_registers_another_client(named: bool) -> None:
    store = MemoryTokens()

    def registration(document: dict[str, Any]) -> dict[str, Any]:
        return document if named else {**document, "scope": None}

    valid = frozenset({"read", "write"})
    async with guarded(scope="read", valid_scopes=valid, registration=registration) as world:
        await call(world, OAuth(store=store, on_url=world.agree))
        world.revoke()
        world.refresh_tokens.clear()
        world.options.scope = "read write"
        assert await call(world, OAuth(store=store, on_url=world.agree)) == ECHOED
        assert [client["scope"] for client in world.clients.values()] == ["read", "read write"]


async def test_a_server_that_refuses_to_register_scopes_is_asked_without() -> None:
    async with guarded(scope="read") as world:
        valid: frozenset[str] = frozenset()

        def registration(document: dict[str, Any]) -> dict[str, Any]:
            known = set(document.get("scope", "").split()) <= valid
            return document if known else {"error": "invalid_client_metadata", "status": 400}

        world.options.registration = registration
        assert await call(world, OAuth(on_url=world.agree)) == ECHOED


# ------------------------------------------------------------------- two logins at once


async def use(url: str, auth: OAuth) -> None:
    async with connect(HttpServer(url, auth=auth), approval=allow_all) as session:
        assert (await session.call_tool("echo", {"text": "hello"})).text == ECHOED


@pytest.mark.parametrize("shared", [True, False], ids=["one OAuth", "one store"])
async def test_two_first_logins_at_one_issuer_take_turns_and_share_a_client(shared: bool) -> None:
    store, open_pages, most = MemoryTokens(), 0, 0

    async def on_url(url: str) -> str:
        nonlocal open_pages, most
        open_pages += 1
        most = max(most, open_pages)
        await anyio.sleep(0.05)
        open_pages -= 1
        return await world.agree(url)

    async with guarded(lifetime=0) as world:
        first = OAuth(store=store, on_url=on_url)
        second = first if shared else OAuth(store=store, on_url=on_url)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use, world.url, first)
            tasks.start_soon(use, world.second_url, second)
        assert most == 1
        assert len(world.clients) == 1
        # Both are refreshed in the next run: neither token is orphaned.
        for url in (world.url, world.second_url):
            await use(url, OAuth(store=store, on_url=no_one))
        assert len(world.consents) == 2


async def test_a_second_login_needs_no_page_where_the_first_ones_token_serves() -> None:
    def origin(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "resource": document["resource"].rpartition("/")[0]}

    store = MemoryTokens()
    async with guarded(resource_metadata=origin) as world:
        async with anyio.create_task_group() as tasks:
            for url in (world.url, world.second_url):
                tasks.start_soon(use, url, OAuth(store=store, on_url=world.agree))
        assert len(world.consents) == 1
        assert len(world.clients) == 1


async def test_a_clients_registration_is_stored_beside_another_of_the_same_issuer(
    tmp_path: Path,
) -> None:
    store, issuer = FileTokens(tmp_path / "own" / "tokens.json"), "https://as.example"
    for client_id in ("one", "two"):
        await store.save_registration(Registration(client_id, "secret", issuer=issuer))
    assert (await store.load_registration(issuer, "one")) is not None
    newest = await store.load_registration(issuer)
    assert newest is not None
    assert newest.client_id == "two"
    await store.delete_registration(issuer, "two")
    newest = await store.load_registration(issuer)
    assert newest is not None
    assert newest.client_id == "one"


# ------------------------------------------------------------------- forgotten clients


@pytest.mark.parametrize("status", [400, pytest.param(401, marks=pytest.mark.slow)])
async def test_a_client_that_the_server_forgot_is_registered_again_in_the_same_start(
    tmp_path: Path, status: int
) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with guarded(refreshes=False, forgotten_page=status) as world:
        await call(world, OAuth(store=FileTokens(path), on_url=world.agree))
        world.restart()
        assert await call(world, OAuth(store=FileTokens(path), on_url=world.agree)) == ECHOED
        assert len(world.consents) == 2


async def test_a_login_that_times_out_does_not_use_the_same_client_again() -> None:
    async def never(url: str) -> None:
        await anyio.sleep_forever()

    store, brief = MemoryTokens(), Timeouts(approval=0.2)
    async with guarded(refreshes=False, forgotten_page=200) as world:
        await call(world, OAuth(store=store, on_url=world.agree))
        world.restart()
        server = HttpServer(world.url, auth=OAuth(store=store, on_url=never))
        with pytest.raises(AuthError, match="not finished"):
            await connect(server, approval=allow_all, timeouts=brief)
        assert await call(world, OAuth(store=store, on_url=world.agree)) == ECHOED


async def test_a_login_that_is_given_up_does_not_use_the_same_client_again() -> None:
    asked = anyio.Event()

    async def never(url: str) -> None:
        asked.set()
        await anyio.sleep_forever()

    store = MemoryTokens()
    async with guarded(refreshes=False, forgotten_page=200) as world:
        await call(world, OAuth(store=store, on_url=world.agree))
        world.restart()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, world, OAuth(store=store, on_url=never))
            await asked.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(60):
            assert await call(world, OAuth(store=store, on_url=world.agree)) == ECHOED


# ------------------------------------------------------------------- logging out


def revoking(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "revocation_endpoint": f"{document['issuer']}/revoke"}


async def test_a_logout_revokes_and_forgets_and_the_session_logs_in_again(tmp_path: Path) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with guarded(server_metadata=revoking) as world:
        auth = OAuth(store=FileTokens(path), on_url=world.agree)
        async with connect(HttpServer(world.url, auth=auth), approval=allow_all) as session:
            await session.call_tool("echo", {"text": "hello"})
            (access,), (refresh,) = world.tokens, world.refresh_tokens
            assert await auth.logout(world.url)
            assert world.revoked == [refresh, access]
            stored = json.loads(path.read_text())
            assert not {"tokens", "clients"} & stored.keys()
            assert (await session.call_tool("echo", {"text": "hello"})).text == ECHOED
        assert len(world.consents) == 2


@pytest.mark.parametrize("offered", [True, False], ids=["broken", "not offered"])
async def test_a_logout_forgets_the_token_also_where_it_cannot_be_revoked(offered: bool) -> None:
    async def broken(request: Request, reply: Reply) -> None:
        await reply.send(503)

    def described(document: dict[str, Any]) -> dict[str, Any]:
        return revoking(document) if offered else document

    store = MemoryTokens()
    async with guarded(pages={"/revoke": broken}, server_metadata=described) as world:
        auth = OAuth(store=store, on_url=world.agree)
        await call(world, auth)
        assert not await auth.logout(world.url)
        assert repr(store) == "<MemoryTokens: 0 tokens>"
        assert await call(world, auth) == ECHOED
        assert len(world.consents) == 2


@pytest.mark.parametrize("way", ["unreachable", "no token", "of another client"])
async def test_a_logout_ends_with_the_tokens_forgotten_whatever_was_in_the_store(way: str) -> None:
    store = MemoryTokens()

    async def cut(request: Request, reply: Reply) -> None:
        await reply.raw(b"this is not HTTP\r\n\r\n")

    pages = {"/revoke": cut} if way == "unreachable" else {}
    async with guarded(pages=pages, server_metadata=revoking) as world:
        await call(world, OAuth(store=store, on_url=world.agree))
        source = await store.recall(world.url)
        assert source is not None
        auth = OAuth(store=store, client_id="mine") if way == "of another client" else None
        if way == "no token":
            await store.delete(source.key)
        assert not await (auth or OAuth(store=store)).logout(world.url)
        assert world.revoked == []
        stored = await store.load(source.key)
        assert (stored is not None) is (way == "of another client")


async def test_a_logout_where_no_one_logged_in_does_nothing() -> None:
    async with guarded() as world:
        assert not await OAuth().logout(world.url)
        assert not world.authorization.requests
