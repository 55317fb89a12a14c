"""Logging in: ``HttpServer(url, auth=OAuth())``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .browser import Browser, OnUrl
from .flow import Login, LoginRequest, authorize, refresh
from .httpx_auth import Authorization
from .registration import RegisteredClient
from .steps import Flow
from .tokens import Source, Token, TokenStore

if TYPE_CHECKING:
    import httpx

    from .dpop import Prover

__all__ = ["OAuth"]


class OAuth(Authorization):
    """A person logs in with a browser, when a server first asks for it.

    ``HttpServer(url, auth=OAuth())`` is enough for most servers. Where the authorization server
    registers no clients by itself, give ``client_id`` (with ``client_secret`` and, to be safe,
    ``issuer``), or ``client_metadata_url``. ``scopes`` are asked for in place of those the server
    names. ``redirect_uri`` is for a page of your own; otherwise the answer comes to a free port of
    this machine.

    The URL to log in at is opened in the browser of this machine. ``on_url``, sync or async, is
    called with it instead, and may return the address at which the browser ended. ``headless``
    prints the URL and reads that address from the terminal. Meanwhile the clocks of the session
    stand still; ``Timeouts(approval=...)`` bounds the wait.

    ``store`` keeps tokens and registrations: in memory if none is given, so that each run logs in
    anew; ``FileTokens()`` and ``KeyringTokens()`` keep them for the next. A store is one person's:
    in a program with many users give each an ``OAuth`` and a store of their own. ``client`` is an
    ``httpx.AsyncClient`` for the requests to the authorization server (proxies, certificates).

    2026-07-28 ``basic/authorization``. What fails is an ``AuthError`` of the request that needed
    the token, with ``oauth_error`` where the authorization server gave a code.
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
        store: TokenStore | None = None,
        on_url: OnUrl | None = None,
        headless: bool = False,
        client: httpx.AsyncClient | None = None,
        insecure_allow_missing_pkce: bool = False,
    ) -> None:
        if isinstance(scopes, str):
            raise ConfigError("OAuth(scopes=...): give a list of scopes, such as ['files:read']")
        grant = _Person(
            RegisteredClient(
                client_name, client_id, client_secret, issuer, client_metadata_url, redirect_uri
            ),
            None if scopes is None else frozenset(scopes),
            on_url,
            headless,
            insecure_allow_missing_pkce,
        )
        grant.browser(1.0)  # so that what cannot be is said now
        super().__init__(grant, store, client)


@dataclass(frozen=True, slots=True)
class _Person:
    """The grant that asks a person."""

    client: RegisteredClient
    scopes: frozenset[str] | None
    on_url: OnUrl | None
    headless: bool
    without_pkce: bool
    silent: bool = False

    def owns(self, source: Source) -> bool:
        client = self.client
        if client.client_id is None:
            return True
        mine = source.key.client == client.client_id
        return mine and client.issuer in (None, source.key.issuer)

    def obtain(self, want: LoginRequest) -> Flow[Login]:
        client, last = self.client, want.last
        if client.client_id is not None and client.issuer is None and last is not None:
            # Nobody said whose credentials these are: they stay with the first who got them.
            client = replace(client, issuer=last.key.issuer)
        return authorize(want, client, self.scopes, without_pkce=self.without_pkce)

    def refresh(
        self, token: Token, source: Source, prover: Prover | None, now: Callable[[], float]
    ) -> Flow[Token]:
        return refresh(token, source, self.client, now, prover)

    def browser(self, seconds: float) -> Browser:
        return Browser(
            on_url=self.on_url,
            headless=self.headless,
            redirect_uri=self.client.redirect_uri,
            seconds=seconds,
        )

    def trusted(self) -> Iterable[str]:
        return [] if self.client.issuer is None else [self.client.issuer]
