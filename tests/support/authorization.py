"""A small authorization server, and an MCP server that takes its tokens: real HTTP, on 127.0.0.1.

```python
async with guarded() as world:
    auth = OAuth(on_url=world.agree)
    async with connect(HttpServer(world.url, auth=auth)) as session: ...
    world.tokens, world.forms("/token"), world.consents
```

The authorization server is strict: registered clients, exact redirect URIs, S256, codes used once,
refresh tokens that rotate, a ``resource`` in every request. Options make it, or the server it
guards, misbehave.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

import httpx

from tests.support.http_apps import Stateless
from tests.support.http_server import Handler, Reply, Request, Served, serving

__all__ = ["Grant", "Options", "World", "guarded"]

_PROTECTED = "/.well-known/oauth-protected-resource"

Document: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[Document], Any]
"""From a document as it should be to what is sent instead; it may return another value."""


def _as_it_is(document: Document) -> Document:
    return document


@dataclass
class Options:
    resource_metadata: Change = _as_it_is
    server_metadata: Change = _as_it_is
    registration: Change = _as_it_is
    token: Change = _as_it_is
    """The token response; a ``status`` in it becomes the HTTP status."""
    redirect: Change = _as_it_is
    """The parameters of the redirect that ends a consent."""
    challenge: Callable[[str], str] = str
    """The ``WWW-Authenticate`` of a 401."""
    pages: Mapping[str, Handler] = field(default_factory=dict)
    """Handlers for single paths, on either server, instead of what is there."""
    lifetime: float | None = 3600
    """``expires_in``; None leaves it out."""
    refreshes: bool = True
    scope: str = ""
    """What the MCP server's challenge asks for."""
    valid_scopes: frozenset[str] | None = None
    """The scopes a client may register; it is granted only those that it registered."""
    forgotten_page: int = 400
    """The status of the page that is shown to the user of an unknown client."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """From a tool to the scope without which it is refused with 403."""


@dataclass
class Grant:
    client_id: str
    scope: str
    resource: str
    revoked: bool = False


class World:
    """Both servers, and what has happened at them."""

    def __init__(self, app: Handler, options: Options) -> None:
        self.app = app
        self.options = options
        self.clients: dict[str, Document] = {}
        self.tokens: dict[str, Grant] = {}
        self.refresh_tokens: dict[str, Grant] = {}
        self.codes: dict[str, Document] = {}
        self.consents: list[dict[str, str]] = []
        """The parameters of each authorization request, except those with ``prompt=none``."""
        self.revoked: list[str] = []
        """The tokens that were revoked, in their order."""
        self.authorization: Served
        self.server: Served

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def issuer(self) -> str:
        return self.authorization.url

    def forms(self, path: str) -> list[dict[str, str]]:
        """The bodies posted to a path of the authorization server."""
        return [
            dict(parse_qsl(request.body.decode()))
            for request in self.authorization.requests
            if request.path == path
        ]

    @property
    def second_url(self) -> str:
        """Another MCP server at the same origin, with the same authorization server."""
        return self.server.url.replace("/mcp", "/second")

    def revoke(self) -> None:
        """Refuse every access token granted so far."""
        for grant in self.tokens.values():
            grant.revoked = True

    def restart(self) -> None:
        """Forget every client, grant and token, as a development server does."""
        self.clients.clear()
        self.tokens.clear()
        self.refresh_tokens.clear()

    async def agree(self, url: str) -> str:
        """What a browser does, and a person who agrees: where it ends."""
        # All of it is plain HTTP: no certificates to load, which takes longer than all the rest.
        async with httpx.AsyncClient(trust_env=False, timeout=None, verify=False) as browser:
            reply = await browser.get(url)
        assert reply.status_code == 302, reply.text
        return reply.headers["location"]

    # ------------------------------------------------------------ the MCP server

    async def guard(self, request: Request, reply: Reply) -> None:
        path = request.path.partition("?")[0]
        if path in self.options.pages:
            await self.options.pages[path](request, reply)
        elif path in (f"{_PROTECTED}/mcp", f"{_PROTECTED}/second"):
            resource = self.url.replace("/mcp", path.removeprefix(_PROTECTED))
            document = {"resource": resource, "authorization_servers": [self.issuer]}
            await _send(reply, self.options.resource_metadata(document))
        elif path not in ("/mcp", "/second"):
            await reply.send(404)
        else:
            await self._guarded(request, reply)

    async def _guarded(self, request: Request, reply: Reply) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        grant = self.tokens.get(token)
        here = request.path.partition("?")[0]
        place = self.url.replace("/mcp", f"{_PROTECTED}{here}")
        about = f'resource_metadata="{place}"'
        if scheme != "Bearer" or grant is None or grant.revoked:
            scope = f', scope="{self.options.scope}"' if self.options.scope else ""
            reported = self.options.challenge(f"Bearer {about}{scope}")
            await reply.send(401, headers={"WWW-Authenticate": reported})
            return
        tool = request.message.get("params", {}).get("name", "")
        wanted = self.options.needs.get(tool, "")
        if not set(wanted.split()) <= set(grant.scope.split()):
            reported = f'Bearer error="insufficient_scope", scope="{wanted}", {about}'
            await reply.send(403, headers={"WWW-Authenticate": reported})
            return
        await self.app(request, reply)

    # -------------------------------------------------- the authorization server

    async def answer(self, request: Request, reply: Reply) -> None:
        path, _, query = request.path.partition("?")
        if path in self.options.pages:
            await self.options.pages[path](request, reply)
            return
        match request.method, path:
            case "GET", "/.well-known/oauth-authorization-server":
                await _send(reply, self.options.server_metadata(self._metadata()))
            case "POST", "/register":
                await _send(reply, self.options.registration(self._registered(request)))
            case "GET", "/authorize":
                await self._authorized(dict(parse_qsl(query)), reply)
            case "POST", "/token":
                await _send(reply, self.options.token(self._token(request)))
            case "POST", "/revoke":
                await _send(reply, self._revoked(request))
            case _:
                await reply.send(404)

    def _metadata(self) -> Document:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }

    def _registered(self, request: Request) -> Document:
        document = dict(json.loads(request.body))
        valid = self.options.valid_scopes
        if valid is not None and not set(document.get("scope", "").split()) <= valid:
            return {"error": "invalid_client_metadata", "status": 400}
        client_id = f"client-{secrets.token_hex(4)}"
        self.clients[client_id] = document
        return {**document, "client_id": client_id, "status": 201}

    def _revoked(self, request: Request) -> Document:
        form = dict(parse_qsl(request.body.decode()))
        self.revoked.append(form["token"])
        if form["token"] in self.tokens:
            self.tokens[form["token"]].revoked = True
        self.refresh_tokens.pop(form["token"], None)
        return {}

    async def _authorized(self, params: dict[str, str], reply: Reply) -> None:
        if params.get("client_id") not in self.clients:
            await reply.json({"error": "invalid_client"}, self.options.forgotten_page)
            return
        client = self.clients[params["client_id"]]
        refused = None
        if params.get("prompt") == "none":
            refused = "login_required"
        elif self.options.valid_scopes is not None:
            granted = set(client.get("scope", "").split())
            refused = None if set(params.get("scope", "").split()) <= granted else "invalid_scope"
        if refused is not None:
            query = urlencode({"error": refused, "state": params["state"], "iss": self.issuer})
            await reply.send(302, headers={"Location": f"{params['redirect_uri']}?{query}"})
            return
        self.consents.append(params)
        right = (
            params.get("redirect_uri") in client.get("redirect_uris", [])
            and params.get("response_type") == "code"
            and params.get("code_challenge_method") == "S256"
            and params.get("resource")
        )
        if not right:
            await reply.json({"error": "invalid_request", "about": params}, 400)
            return
        code = secrets.token_urlsafe(12)
        self.codes[code] = params
        response = {"code": code, "state": params["state"], "iss": self.issuer}
        query = urlencode(self.options.redirect(response))
        await reply.send(302, headers={"Location": f"{params['redirect_uri']}?{query}"})

    def _token(self, request: Request) -> Document:
        form = dict(parse_qsl(request.body.decode()))
        match form.get("grant_type"):
            case "authorization_code":
                asked = self.codes.pop(form.get("code", ""), None)
                digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
                challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
                same = asked is not None and all(
                    asked[name] == form.get(name) for name in ("client_id", "redirect_uri")
                )
                if asked is None or not same or asked["code_challenge"] != challenge:
                    return {"error": "invalid_grant", "status": 400}
                if form.get("resource") != asked["resource"]:
                    return {"error": "invalid_target", "status": 400}
                grant = Grant(asked["client_id"], asked.get("scope", ""), asked["resource"])
            case "refresh_token":
                known = self.refresh_tokens.pop(form.get("refresh_token", ""), None)
                if known is None or known.client_id != form.get("client_id"):
                    return {"error": "invalid_grant", "status": 400}
                grant = Grant(known.client_id, known.scope, known.resource)
            case _:
                return {"error": "unsupported_grant_type", "status": 400}
        return self._granted(grant)

    def _granted(self, grant: Grant) -> Document:
        token = f"access-{secrets.token_hex(8)}"
        self.tokens[token] = grant
        document: Document = {"access_token": token, "token_type": "Bearer"}
        if grant.scope:
            document["scope"] = grant.scope
        if self.options.lifetime is not None:
            document["expires_in"] = self.options.lifetime
        if self.options.refreshes:
            again = f"refresh-{secrets.token_hex(8)}"
            self.refresh_tokens[again] = grant
            document["refresh_token"] = again
        return document


@asynccontextmanager
async def guarded(app: Handler | None = None, **options: Any) -> AsyncIterator[World]:
    """Serve both until the block is left. ``options`` are those of ``Options``."""
    world = World(app or Stateless(), Options(**options))
    async with serving(world.answer, "") as authorization, serving(world.guard) as server:
        world.authorization, world.server = authorization, server
        yield world


async def _send(reply: Reply, value: Document | bytes) -> None:
    """A document, or whatever bytes are sent for one."""
    status = 200
    if isinstance(value, dict):
        status = value.get("status", 200)
        value = json.dumps({name: value[name] for name in value if name != "status"}).encode()
    await reply.send(
        status, value, {"Content-Type": "application/json", "Cache-Control": "no-store"}
    )
