"""A server on the official SDK 2.x behind the SDK's own authorization server.

The endpoints, their checks and the metadata are the SDK's. Here are what it keeps, and a login page
for a person: name, password, and then whether the application may. ``/seen`` counts what happened,
and ``/expire`` ends every access token there is.
"""

import secrets
import sys
import time
from html import escape
from typing import Any

from mcp.server.auth.provider import (  # type: ignore[import-not-found,unused-ignore]
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import (  # type: ignore[import-not-found,unused-ignore]
    AuthSettings,
    ClientRegistrationOptions,
)
from mcp.server.mcpserver import MCPServer  # type: ignore[import-not-found,unused-ignore]
from mcp.shared.auth import OAuthToken  # type: ignore[import-not-found,unused-ignore]
from starlette.requests import Request  # type: ignore[import-not-found,unused-ignore]
from starlette.responses import (  # type: ignore[import-not-found,unused-ignore]
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
)

PORT = int(sys.argv[1])
BASE = f"http://127.0.0.1:{PORT}"
SCOPE = "weather"
LIFETIME = 3600
PAGE = '<!doctype html><title>Log in</title><form method="post" action="{to}">{fields}</form>'


class Stored:
    """Everything in memory, as the SDK's ``OAuthAuthorizationServerProvider`` wants it."""

    def __init__(self) -> None:
        self.clients: dict[str, Any] = {}
        self.waiting: dict[str, tuple[Any, AuthorizationParams]] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.seen = {"logins": 0, "refreshes": 0, "clients": 0}

    async def get_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    async def register_client(self, client: Any) -> None:
        self.seen["clients"] += 1
        self.clients[client.client_id] = client

    async def authorize(self, client: Any, params: AuthorizationParams) -> str:
        ticket = secrets.token_urlsafe(16)
        self.waiting[ticket] = client, params
        return f"{BASE}/login?ticket={ticket}"

    def agreed(self, ticket: str) -> str:
        client, params = self.waiting.pop(ticket)
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 300,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.seen["logins"] += 1
        return str(construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state))

    async def load_authorization_code(self, client: Any, code: str) -> AuthorizationCode | None:
        return self.codes.get(code)

    async def exchange_authorization_code(self, client: Any, code: AuthorizationCode) -> OAuthToken:
        del self.codes[code.code]
        return self.issue(client.client_id, code.scopes, code.resource)

    async def load_refresh_token(self, client: Any, token: str) -> RefreshToken | None:
        return self.refresh.get(token)

    async def exchange_refresh_token(
        self, client: Any, token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[token.token]
        self.seen["refreshes"] += 1
        return self.issue(client.client_id, scopes or token.scopes, token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def issue(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        token, again = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.access[token] = AccessToken(
            token=token,
            client_id=client_id,
            scopes=scopes,
            expires_at=int(time.time()) + LIFETIME,
            resource=resource,
        )
        self.refresh[again] = RefreshToken(
            token=again, client_id=client_id, scopes=scopes, resource=resource
        )
        return OAuthToken(
            access_token=token,
            token_type="Bearer",
            expires_in=LIFETIME,
            refresh_token=again,
            scope=" ".join(scopes),
        )


stored = Stored()
server = MCPServer(
    "guarded",
    auth_server_provider=stored,
    auth=AuthSettings(
        issuer_url=BASE,
        resource_server_url=f"{BASE}/mcp",
        required_scopes=[SCOPE],
        validate_token_resource=True,
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE]
        ),
    ),
)


def page(to: str, ticket: str, *fields: str) -> HTMLResponse:
    hidden = f'<input type="hidden" name="ticket" value="{escape(ticket)}">'
    return HTMLResponse(PAGE.format(to=to, fields=hidden + "".join(fields)))


async def login(request: Request) -> Response:
    return page(
        "/who",
        request.query_params["ticket"],
        '<input id="name" name="name"><input id="password" name="password" type="password">',
        '<button id="log-in">Log in</button>',
    )


async def who(request: Request) -> Response:
    form = await request.form()
    ticket = str(form["ticket"])
    if (form["name"], form["password"]) != ("ana", "correct horse") or ticket not in stored.waiting:
        return Response("no", 403)
    client, params = stored.waiting[ticket]
    return page(
        "/agree",
        ticket,
        f"<p>May {escape(str(client.client_name))} use the weather for you, "
        f"and come back to {escape(str(params.redirect_uri))}?</p>",
        '<button id="agree">Yes</button>',
    )


async def agree(request: Request) -> Response:
    form = await request.form()
    return RedirectResponse(stored.agreed(str(form["ticket"])), 302)


async def seen(request: Request) -> Response:
    return JSONResponse(stored.seen)


async def expire(request: Request) -> Response:
    for token in stored.access.values():
        token.expires_at = 1
    return JSONResponse(stored.seen)


def get_weather(location: str) -> str:
    """The weather at a place."""
    return f"{location}: 22.5 °C"


if __name__ == "__main__":
    server.add_tool(get_weather)
    for method, path, answer in (
        ("GET", "/login", login),
        ("POST", "/who", who),
        ("POST", "/agree", agree),
        ("GET", "/seen", seen),
        ("POST", "/expire", expire),
    ):
        server.custom_route(path, methods=[method])(answer)
    server.run("streamable-http", port=PORT)
