"""Logging in at oidc-provider (npm): registration, resource indicators, rotation, revocation.

The authorization server is theirs. The MCP server is ours, and asks theirs about each token
(RFC 7662).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import anyio
import httpx
import pytest

from mcp_client import FileTokens, HttpServer, OAuth, allow_all, connect
from tests.auth.driving import SAID, nobody
from tests.interop import http_peers
from tests.server.http_apps import Stateless
from tests.server.http_server import Reply, Request, Served, serving

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@asynccontextmanager
async def guarded() -> AsyncIterator[tuple[Served, str]]:
    """An MCP server that takes the tokens of a new oidc-provider, and its issuer."""
    app = Stateless()

    async def guard(request: Request, reply: Reply) -> None:
        path = request.path.partition("?")[0]
        base = served.url.removesuffix("/mcp")
        if path == "/.well-known/oauth-protected-resource/mcp":
            document = {"resource": served.url, "authorization_servers": [issuer]}
            await reply.json({**document, "scopes_supported": ["weather"]})
        elif await active(issuer, request.headers.get("authorization", "")):
            await app(request, reply)
        else:
            place = f"{base}/.well-known/oauth-protected-resource/mcp"
            challenge = {"WWW-Authenticate": f'Bearer resource_metadata="{place}"'}
            await reply.send(401, headers=challenge)

    async with http_peers.oidc_provider() as issuer, serving(guard) as served:
        yield served, issuer


async def active(issuer: str, authorization: str) -> bool:
    """Whether the authorization server says that the token is valid for us."""
    token = authorization.removeprefix("Bearer ")
    if not token:
        return False
    async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
        answer = await client.post(
            f"{issuer}/token/introspection",
            data={"token": token},
            auth=("mcp-server", "introspects"),
        )
    return bool(answer.json().get("active"))


async def agree(url: str) -> str:
    """What a person does with a browser: log in, consent, and end at the redirect URI."""
    async with httpx.AsyncClient(trust_env=False, timeout=None) as browser:
        for _ in range(12):
            page = await browser.get(url)
            if page.status_code == 200:
                form = re.search(r'<form[^>]*action="([^"]+)"', page.text)
                assert form, page.text
                prompt = re.search(r'name="prompt" value="([^"]+)"', page.text)
                assert prompt, page.text
                data = {"prompt": prompt[1], "login": "ana", "password": "correct horse"}
                page = await browser.post(urljoin(url, form[1]), data=data)
            assert page.status_code in (302, 303), page.text
            url = urljoin(url, page.headers["location"])
            if "code=" in url or "error=" in url:
                return url
    raise AssertionError("the login page has too many steps")


async def use(url: str, auth: OAuth) -> None:
    async with connect(HttpServer(url, auth=auth), approval=allow_all) as session:
        assert (await session.call_tool("echo", {"text": "hello"})).text == SAID


async def test_a_login_a_refresh_and_a_logout(tmp_path: Path) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with guarded() as (served, _):
        await use(served.url, OAuth(store=FileTokens(path), on_url=agree))
        store = FileTokens(path)
        source = await store.recall(served.url)
        assert source is not None
        first = await store.load(source.key)
        assert first is not None
        assert first.refresh_token is not None  # offline_access was requested with prompt=consent
        auth = OAuth(store=store, on_url=nobody)
        auth._now = lambda: (first.expires_at or 0) + 1
        await use(served.url, auth)
        second = await store.load(source.key)
        assert second is not None
        assert second.refresh_token != first.refresh_token
        assert await auth.logout(served.url)
        asked = anyio.Event()

        async def again(url: str) -> Any:
            asked.set()
            return await agree(url)

        await use(served.url, OAuth(store=store, on_url=again))
        assert asked.is_set()


async def test_a_provider_that_was_restarted_is_logged_in_to_in_the_same_start(
    tmp_path: Path,
) -> None:
    path = tmp_path / "own" / "tokens.json"
    async with guarded() as (served, issuer):
        await use(served.url, OAuth(store=FileTokens(path), on_url=agree))
        store = FileTokens(path)
        source = await store.recall(served.url)
        assert source is not None
        # As after a restart: the provider knows neither the client nor its tokens.
        registration = await store.load_registration(issuer)
        assert registration is not None
        await store.delete(source.key)
        await store.save_registration(replace(registration, client_id="forgotten"))
        await use(served.url, OAuth(store=store, on_url=agree))
