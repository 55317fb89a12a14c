"""Logging in with a browser: ``HttpServer(url, auth=OAuth())``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..runtime.storage import Storage
from .authorization_request import LoginOptions
from .browser import Browser, OnUrl
from .flow import Login, LoginRequest, authorize, client_authentication, refresh, revoke
from .httpx_auth import Authorization
from .registration import RegisteredClient
from .safe_fetch import FetchPolicy
from .steps import Flow
from .store import TokenStore
from .tokens import Source, Token

if TYPE_CHECKING:
    import httpx

    from .dpop import Prover

__all__ = ["OAuth"]


class OAuth(Authorization):
    """A person logs in with a browser when a server first requires it.

    ``HttpServer(url, auth=OAuth())`` is enough for most servers. If the authorization server does
    not register clients automatically, give ``client_id`` (with ``client_secret`` and ``issuer``,
    without which the secret is sent to the first one that the MCP server names, and from then on
    only to that one), or ``client_metadata_url``. ``scopes`` are requested instead of those that
    the server names. ``redirect_uri`` is for a page of your own; otherwise the redirect comes to a
    free port of this machine.

    The login page is opened in the browser of this machine, and the address at which the browser
    ends can also be pasted into the terminal. ``on_url``, sync or async, is called with the URL
    instead, and may return that address. ``headless`` opens no browser and only prints the URL.
    Meanwhile the clocks of the session are paused; ``Timeouts(approval=...)`` limits the wait.
    Logins of one person at the same authorization server take turns.

    ``store`` keeps tokens and registrations: in memory by default, so that each run needs a login;
    ``FileTokens()`` and ``KeyringTokens()`` keep them for the next run. A store belongs to one
    person: in a program with many users give each an ``OAuth`` and a store of their own.
    ``client`` is an ``httpx.AsyncClient`` for the requests to the authorization server (proxies,
    certificates). ``await oauth.logout(url)`` revokes and deletes a token.

    For servers that deviate from the specification, off by default: ``authorize_params`` are added
    to the authorization request (Google: ``{"access_type": "offline"}``); ``send_resource=False``
    leaves out the parameter ``resource`` (Entra); ``allow_http_hosts=["nas.local"]`` allows plain
    http to these hosts; ``insecure_allow_missing_pkce`` accepts a server that does not announce
    PKCE. ``require_iss`` refuses a redirect that does not name its issuer (RFC 9207).

    2026-07-28 ``basic/authorization``. Errors are ``AuthError``, raised by the request that needs
    the token, with ``oauth_error`` if the authorization server gave a code.
    """

    def __init__(
        self,
        *,
        client_name: str = "mcp-client",
        scopes: Iterable[str] | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        issuer: str | None = None,
        client_metadata_url: str | None = None,
        redirect_uri: str | None = None,
        store: TokenStore | Storage | None = None,
        on_url: OnUrl | None = None,
        headless: bool = False,
        client: httpx.AsyncClient | None = None,
        authorize_params: Mapping[str, str] | None = None,
        send_resource: bool = True,
        require_iss: bool = False,
        allow_http_hosts: Iterable[str] = (),
        insecure_allow_missing_pkce: bool = False,
    ) -> None:
        for name, value in (("scopes", scopes), ("allow_http_hosts", allow_http_hosts)):
            if isinstance(value, str):
                raise ConfigError(f"OAuth({name}=...): give a list of strings, such as [{value!r}]")
        grant = _LoginGrant(
            RegisteredClient(
                client_name, client_id, client_secret, issuer, client_metadata_url, redirect_uri
            ),
            LoginOptions(
                scopes=None if scopes is None else frozenset(scopes),
                params=dict(authorize_params or {}),
                send_resource=send_resource,
                require_iss=require_iss,
                allow_missing_pkce=insecure_allow_missing_pkce,
                http_hosts=frozenset(host.lower() for host in allow_http_hosts),
            ),
            on_url,
            headless,
        )
        grant.browser(1.0)  # raises now what would be wrong later
        super().__init__(grant, store, client)


@dataclass(frozen=True, slots=True)
class _LoginGrant:
    """The ``Grant`` that asks a person."""

    client: RegisteredClient
    options: LoginOptions
    on_url: OnUrl | None
    headless: bool
    silent: bool = False

    @property
    def shares_browser(self) -> bool:
        return self.on_url is None

    def owns(self, source: Source) -> bool:
        client = self.client
        if client.client_id is None:
            return True
        return source.key.client == client.client_id and client.belongs_to(source.key.issuer)

    def obtain(self, request: LoginRequest) -> Flow[Login]:
        client, last = self.client, request.last
        if client.client_id is not None and client.issuer is None and last is not None:
            # The host did not say whose credentials these are: they stay with the first issuer.
            client = replace(client, issuer=last.key.issuer)
        return authorize(request, client, self.options)

    def refresh(
        self, token: Token, source: Source, prover: Prover | None, now: Callable[[], float]
    ) -> Flow[Token]:
        resource = self.options.send_resource
        return refresh(token, source, self.client, now, prover, send_resource=resource)

    def revoke(self, token: Token, source: Source, now: Callable[[], float]) -> Flow[bool]:
        authentication = yield from client_authentication(source, self.client)
        hosts = self.options.http_hosts
        return (yield from revoke(token, source, lambda server: authentication, hosts))

    def browser(self, seconds: float) -> Browser:
        return Browser(
            on_url=self.on_url,
            headless=self.headless,
            redirect_uri=self.client.redirect_uri,
            seconds=seconds,
            http_hosts=self.options.http_hosts,
        )

    def policy(self) -> FetchPolicy:
        issuer = self.client.issuer
        return FetchPolicy(() if issuer is None else (issuer,), self.options.http_hosts)

    def secrets(self) -> Iterable[str]:
        return [] if self.client.client_secret is None else [self.client.client_secret]
