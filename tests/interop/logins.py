"""What the tests of real authorization servers share: a guarded MCP server, and a person.

The authorization server is another's. The MCP server is ours; it asks the authorization server
about each token (RFC 7662), and checks that the token is for it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import jwt

from mcp_client import HttpServer, allow_all, connect
from mcp_client.auth import FileTokens, Token
from mcp_client.auth.tokens import Source
from tests.auth.driving import ECHOED
from tests.support.http_apps import Stateless
from tests.support.http_server import Reply, Request, serving

__all__ = ["Guarded", "agree", "guarded", "register", "stored_login", "use"]

_PROTECTED = "/.well-known/oauth-protected-resource/mcp"


@dataclass
class Guarded:
    """An MCP server that takes the tokens of the authorization server ``issuer``."""

    issuer: str
    dpop: bool = False
    """Whether only tokens that are bound to a key are accepted."""
    url: str = ""
    needs: dict[str, str] = field(default_factory=dict)
    """From a tool to the scope without which it is refused with 403."""
    app: Stateless = field(default_factory=Stateless)
    accepted: set[str] = field(default_factory=set)
    """The tokens that requests were answered for."""

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.path.partition("?")[0] == _PROTECTED:
            document = {"resource": self.url, "authorization_servers": [self.issuer]}
            bound = {"dpop_bound_access_tokens_required": self.dpop}
            await reply.json({**document, **bound, "scopes_supported": ["weather"]})
            return
        place = f'resource_metadata="{urljoin(self.url, _PROTECTED)}"'
        scheme = "DPoP" if self.dpop else "Bearer"
        about = await self.introspected(request, scheme)
        scope = self.needs.get(request.message.get("params", {}).get("name", ""), "weather")
        if about is None:
            await reply.send(401, headers={"WWW-Authenticate": f"{scheme} {place}"})
        elif scope not in about.get("scope", "").split():
            wanted = f'{scheme} error="insufficient_scope", scope="{scope}", {place}'
            await reply.send(403, headers={"WWW-Authenticate": wanted})
        else:
            self.accepted.add(request.headers["authorization"].partition(" ")[2])
            await self.app(request, reply)

    async def introspected(self, request: Request, scheme: str) -> dict[str, Any] | None:
        """The authorization server's data about the token; None if it is not valid here."""
        passed, _, token = request.headers.get("authorization", "").partition(" ")
        if passed != scheme:
            return None
        async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
            metadata = await client.get(f"{self.issuer}/.well-known/oauth-authorization-server")
            response = await client.post(
                metadata.json()["introspection_endpoint"],
                data={"token": token},
                auth=("mcp-server", "introspects"),
            )
        about: dict[str, Any] = response.json()
        if not about.get("active") or about.get("aud") != self.url:
            return None
        key = about.get("cnf", {}).get("jkt")
        proof = request.headers.get("dpop", "")
        return about if key is None or key == _thumbprint_of(proof, token) else None


def _thumbprint_of(proof: str, token: str) -> str | None:
    """The thumbprint of the key (RFC 7638) that signed a proof for ``token``."""
    jwk = jwt.get_unverified_header(proof)["jwk"]
    claims = jwt.decode(proof, jwt.PyJWK(jwk).key, ["ES256"])
    return (
        _hash(json.dumps(jwk, separators=(",", ":"), sort_keys=True))
        if (claims["ath"] == _hash(token))
        else None
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@asynccontextmanager
async def guarded(
    provider: AbstractAsyncContextManager[str], *, dpop: bool = False
) -> AsyncIterator[Guarded]:
    """An MCP server behind the authorization server whose issuer ``provider`` yields."""
    async with provider as issuer:
        server = Guarded(issuer, dpop)
        async with serving(server) as served:
            server.url = served.url
            yield server


async def agree(url: str) -> str:
    """What a person does with a browser: log in, consent, and end at the redirect URI."""
    async with httpx.AsyncClient(trust_env=False, timeout=None) as browser:
        for _ in range(12):
            page = await browser.get(url)
            if page.status_code == 200:
                form = re.search(r'<form[^>]*action="([^"]*)"', page.text)
                assert form, page.text
                prompt = re.search(r'name="prompt" value="([^"]+)"', page.text)
                data = {"login": "ana", "password": "correct horse"}
                if prompt:
                    data["prompt"] = prompt[1]
                page = await browser.post(urljoin(url, form[1]), data=data)
            assert page.status_code in (302, 303), page.text
            url = urljoin(url, page.headers["location"])
            if "code=" in url or "error=" in url:
                return url
    raise AssertionError("the login page has too many steps")


async def use(url: str, auth: httpx.Auth) -> None:
    """Call a tool of the MCP server at ``url`` in a session of its own."""
    async with connect(HttpServer(url, auth=auth), approval=allow_all) as session:
        assert (await session.call_tool("echo", {"text": "hello"})).text == ECHOED


async def stored_login(path: Path, url: str) -> tuple[FileTokens, Source, Token]:
    """The store in the file ``path``, and what it has for the MCP server at ``url``."""
    store = FileTokens(path)
    source = await store.recall(url)
    assert source is not None
    token = await store.load(source.key)
    assert token is not None
    return store, source, token


async def register(issuer: str, **metadata: Any) -> dict[str, Any]:
    """Register a client as an administrator would, and return its credentials (RFC 7591)."""
    async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
        about = await client.get(f"{issuer}/.well-known/oauth-authorization-server")
        response = await client.post(about.json()["registration_endpoint"], json=metadata)
    assert response.status_code == 201, response.text
    registered: dict[str, Any] = response.json()
    return registered
