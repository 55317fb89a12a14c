"""Logging in at oidc-provider (npm): what Authlib has not are pushed requests and DPoP."""

from __future__ import annotations

import sys
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import anyio
import pytest

from mcp_client import OAuth
from mcp_client.auth import ClientCredentials, FileTokens
from mcp_client.auth.signing import PrivateKey
from mcp_client.state import PostgresState
from tests.auth.driving import no_one
from tests.interop import http_peers
from tests.interop.logins import agree, guarded, register, stored_login, use

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SERVICE = {
    "grant_types": ["client_credentials"],
    "redirect_uris": [],
    "response_types": [],
    "scope": "weather",
}


async def test_a_login_a_refresh_and_a_logout(tmp_path: Path) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with guarded(http_peers.oidc_provider()) as server:
        await use(server.url, OAuth(store=FileTokens(path), on_url=agree))
        store, source, first = await stored_login(path, server.url)
        assert first.refresh_token is not None  # offline_access was requested with prompt=consent
        auth = OAuth(store=store, on_url=no_one)
        auth._now = lambda: (first.expires_at or 0) + 1
        await use(server.url, auth)
        second = await store.load(source.key)
        assert second is not None
        assert second.refresh_token != first.refresh_token
        assert await auth.logout(server.url)
        asked = anyio.Event()

        async def again(url: str) -> str:
            asked.set()
            return await agree(url)

        await use(server.url, OAuth(store=store, on_url=again))
        assert asked.is_set()


async def test_a_provider_that_was_restarted_is_logged_in_to_in_the_same_start(
    tmp_path: Path,
) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with guarded(http_peers.oidc_provider()) as server:
        await use(server.url, OAuth(store=FileTokens(path), on_url=agree))
        store, source, _ = await stored_login(path, server.url)
        # As after a restart: the provider knows neither the client nor its tokens.
        registration = await store.load_registration(server.issuer)
        assert registration is not None
        await store.delete(source.key)
        await store.save_registration(replace(registration, client_id="forgotten"))
        await use(server.url, OAuth(store=store, on_url=agree))


async def test_a_provider_that_requires_it_is_sent_the_request_ahead_of_the_browser() -> None:
    displayed: list[str] = []

    async def person(url: str) -> str:
        displayed.extend(sorted(dict(parse_qsl(urlsplit(url).query))))
        return await agree(url)

    async with guarded(http_peers.oidc_provider("pushed")) as server:
        await use(server.url, OAuth(on_url=person))
    assert displayed == ["client_id", "request_uri"]


@pytest.mark.parametrize("requires", ["nothing", "nonces"])
async def test_tokens_are_bound_to_a_key_where_the_server_wants_that(
    requires: str, tmp_path: Path
) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with guarded(http_peers.oidc_provider(requires), dpop=True) as server:
        await use(server.url, OAuth(store=FileTokens(path), on_url=agree))
        store, _, first = await stored_login(path, server.url)
        assert (first.token_type, first.dpop_key is None) == ("DPoP", False)
        auth = OAuth(store=store, on_url=no_one)
        auth._now = lambda: (first.expires_at or 0) + 1
        await use(server.url, auth)
        _, _, second = await stored_login(path, server.url)
        assert second.access_token != first.access_token
        assert second.dpop_key == first.dpop_key


@pytest.mark.parametrize("dpop", [False, True])
async def test_a_service_gets_tokens_for_its_private_key(dpop: bool) -> None:
    key = PrivateKey.generate()
    method = {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [key.public_jwk()]}}
    async with guarded(http_peers.oidc_provider(), dpop=dpop) as server:
        client = await register(server.issuer, **SERVICE, **method)
        await use(server.url, ClientCredentials(client["client_id"], private_key=key.text()))


async def test_a_service_gets_tokens_for_its_secret() -> None:
    method = {"token_endpoint_auth_method": "client_secret_basic"}
    async with guarded(http_peers.oidc_provider()) as server:
        client = await register(server.issuer, **SERVICE, **method)
        secret = client["client_secret"]
        await use(server.url, ClientCredentials(client["client_id"], client_secret=secret))


CALLS = """
import sys, anyio
from mcp_client import OAuth
from mcp_client.state import PostgresState
from tests.auth.driving import no_one
from tests.interop.logins import use
async def main(url, database):
    auth = OAuth(store=PostgresState(database).tokens, on_url=no_one)
    sys.stdout.write("ready\\n")  # in one piece: print writes the end of the line by itself
    sys.stdout.flush()
    sys.stdin.readline()
    await use(url, auth)
anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.one_backend  # the processes run on asyncio
async def test_eight_processes_with_one_expired_token_refresh_it_once(database: str) -> None:
    store = PostgresState(database).tokens
    async with guarded(http_peers.oidc_provider()) as server:
        await use(server.url, OAuth(store=store, on_url=agree))
        source = await store.recall(server.url)
        assert source is not None
        first = await store.load(source.key)
        assert first is not None
        await store.save(source.key, replace(first, expires_at=time.time() - 1))
        server.accepted.clear()
        words = [sys.executable, "-c", CALLS, server.url, database]
        # The provider ends the whole login where a refresh token comes a second time.
        async with AsyncExitStack() as stack:
            processes = [
                await stack.enter_async_context(await anyio.open_process(words, stderr=None))
                for _ in range(8)
            ]
            for process in processes:
                assert process.stdout is not None
                assert await process.stdout.receive() == b"ready\n"
            for process in processes:
                assert process.stdin is not None
                await process.stdin.send(b"go\n")
            for process in processes:
                await process.wait()  # leaving closes its output
        assert [process.returncode for process in processes] == [0] * 8
        (used,) = server.accepted
        second = await store.load(source.key)
        assert second is not None
        assert used == second.access_token != first.access_token
