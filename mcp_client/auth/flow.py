"""The authorization-code flow: a person logs in with a browser, and we get a token.

2026-07-28 ``basic/authorization``, and the same page of each revision since 2025-03-26. The flow is
a plain generator, in the order in which things happen::

    discovery -> our turn -> our client -> authorization request -> redirect -> token

*What is tried again.* A client that an earlier login registered may be unknown to the server by
now, or may have been registered with other scopes; then another client is registered, once.
Nothing else is tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import AuthError
from ..protocol.response_headers import Challenge
from ..transports.http_client import origin_of, shown
from .authorization_request import AuthorizationRequest, LoginOptions, is_forgotten
from .discovery import DiscoveredServer, ServerMetadata, discover, same_issuer, server_metadata
from .registration import RegisteredClient, identify, known_client, register_again
from .steps import (
    Consent,
    Flow,
    ForgetRegistration,
    LoadRegistration,
    LoadToken,
    Redirected,
    TakeTurn,
)
from .token_endpoint import (
    UNKNOWN_CLIENT,
    ClientAuthentication,
    first_token_request,
    post_form,
    token_request,
)
from .tokens import Key, Registration, Source, Token

if TYPE_CHECKING:
    from .dpop import Prover

__all__ = [
    "Login",
    "LoginRequest",
    "authorize",
    "client_authentication",
    "refresh",
    "revoke",
    "scopes_wanted",
]

_log = logging.getLogger("mcp_client")
_REGISTER_AGAIN = UNKNOWN_CLIENT | {"invalid_scope"}
_OFFLINE = "offline_access"


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """Which token is needed, and what is known about earlier ones."""

    url: str
    """The MCP server's URL."""
    server: str
    """The name the host gave the server."""
    challenge: Challenge | None = None
    """The challenge with which the server refused the last request."""
    held: frozenset[str] = frozenset()
    """Scopes requested or granted before, which are requested again."""
    last: Source | None = None
    """Where the server's tokens came from the last time."""
    revision: str | None = None
    refused_token: str | None = field(default=None, repr=False)
    """The access token that the server refused."""
    proven_client: str | None = None
    """The client id of a login that succeeded in this run."""
    prover: Callable[[], Prover] | None = field(default=None, repr=False)
    """Makes the key of a DPoP token, if the server wants one."""
    now: Callable[[], float] = time.time
    """Unix time in seconds."""

    @property
    def metadata_url(self) -> str | None:
        return None if self.challenge is None else self.challenge.resource_metadata

    @property
    def challenged(self) -> frozenset[str]:
        return frozenset() if self.challenge is None else self.challenge.scopes

    def knows(self, client_id: str) -> bool:
        """Whether the authorization server has shown lately that it knows this client."""
        token_accepted = self.challenge is not None and self.challenge.error == "insufficient_scope"
        return token_accepted or client_id == self.proven_client

    def new_prover(self, discovered: DiscoveredServer) -> Prover | None:
        """A new key, if the server wants a DPoP token. Raises ``AuthError`` if it supports none."""
        asked = self.challenge is not None and self.challenge.scheme == "dpop"
        if self.prover is None or not (asked or discovered.dpop_only):
            return None
        prover = self.prover()
        prover.check(discovered.server.dpop_algorithms)
        return prover


@dataclass(frozen=True, slots=True)
class Login:
    """A token, where it came from, and the scopes that were requested."""

    token: Token
    source: Source
    scopes: frozenset[str]
    prover: Prover | None = field(default=None, repr=False)
    stored: bool = False
    """Whether an earlier login got the token, so that the server may refuse it."""


def authorize(
    request: LoginRequest, client: RegisteredClient, options: LoginOptions | None = None
) -> Flow[Login]:
    """Have a person log in, and get a token. Raises ``AuthError``."""
    options, client = options or LoginOptions(), client.bound_to(request.last)
    discovered = yield from discover(
        request.url,
        request.metadata_url,
        lambda issuers: _chosen(issuers, client, request),
        request.revision,
        http_hosts=options.http_hosts,
    )
    _check_server(request, discovered.server, options)
    prover = request.new_prover(discovered)
    scopes = scopes_wanted(request, discovered, options.scopes)
    yield TakeTurn(discovered.server.issuer)
    known = yield from known_client(discovered, client, request.now(), scopes)
    if known is not None:
        login = yield from _stored_login(
            request, discovered, known, scopes, dpop=prover is not None
        )
        if login is not None:
            return login
    identity = yield from identify(discovered, client, known, scopes)
    attempt = AuthorizationRequest(discovered, identity, scopes, options, prover)
    unproven = identity.kept and not request.knows(identity.registration.client_id)
    if unproven and (yield from is_forgotten(attempt)):
        identity = yield from register_again(discovered, client, identity, scopes)
        attempt = attempt.again(identity)
    try:
        return (yield from _log_in(request, attempt))
    except AuthError as error:
        if not identity.kept or error.oauth_error not in _REGISTER_AGAIN:
            raise
    identity = yield from register_again(discovered, client, identity, scopes)
    return (yield from _log_in(request, attempt.again(identity)))


def _chosen(issuers: tuple[str, ...], client: RegisteredClient, request: LoginRequest) -> str:
    """The issuer our credentials belong to, else that of the last login, else the first."""
    last = request.last.key.issuer if request.last is not None else None
    for wanted in (client.issuer, last):
        for issuer in issuers:
            if wanted is not None and same_issuer(wanted, issuer):
                return issuer
    return issuers[0]


def _check_server(request: LoginRequest, server: ServerMetadata, options: LoginOptions) -> None:
    name = shown(server.issuer)
    if server.authorization_endpoint is None:
        raise AuthError(
            f"the authorization server {name} {server.why_missing('authorization_endpoint')}, so "
            "no person can log in with a browser; for a service account use ClientCredentials"
        )
    if server.response_types is not None and "code" not in server.response_types:
        raise AuthError(f"the authorization server {name} does not support authorization codes")
    pkce = server.guessed or "S256" in (server.challenge_methods or ())
    if not pkce and not options.allow_missing_pkce:
        raise AuthError(
            f"the authorization server {name} does not say that it supports PKCE with S256, "
            "without which a stolen authorization code can be used. If you know that it does: "
            "OAuth(insecure_allow_missing_pkce=True)"
        )
    elsewhere = origin_of(server.token_endpoint) != origin_of(server.issuer)
    if elsewhere and not server.promises_iss and not options.require_iss:
        # The mix-up attack: a hostile server names another's login page and its own token
        # endpoint, to which the code would then be sent.
        _log.warning(
            "%s: the login at %s sends its code to another origin, %s, and the redirect need not "
            "say which server it comes from; log in only if you trust both, or set "
            "OAuth(require_iss=True)",
            request.server,
            name,
            shown(server.token_endpoint),
        )


def scopes_wanted(
    request: LoginRequest, discovered: DiscoveredServer, own: frozenset[str] | None
) -> frozenset[str]:
    """The challenge's scopes, or else the resource's, and those we had before.

    The host's ``own`` take the place of the resource's. ``offline_access``, for a refresh token, is
    added if the server supports it and the host chose no scopes.
    """
    if own is not None:
        return own | request.challenged | request.held
    scopes = (request.challenged or discovered.scopes) | request.held
    if scopes and _OFFLINE in discovered.server.scopes:
        scopes |= {_OFFLINE}
    return scopes


def _stored_login(
    request: LoginRequest,
    discovered: DiscoveredServer,
    known: Registration,
    scopes: frozenset[str],
    *,
    dpop: bool,
) -> Flow[Login | None]:
    """A token that another login at this issuer got for the same resource and client, if any."""
    server = discovered.server
    key = Key(server.issuer, discovered.resource, known.client_id)
    token: Token | None = yield LoadToken(key)
    if (
        token is None
        or token.access_token == request.refused_token
        or not token.fresh(request.now(), early=0)
        or not scopes <= token.scope
        or (token.dpop_key is not None) != dpop
    ):
        return None
    method = ClientAuthentication.of(known, server.auth_methods).method
    return Login(token, Source(key, server.token_endpoint, method), token.scope, stored=True)


def _log_in(request: LoginRequest, attempt: AuthorizationRequest) -> Flow[Login]:
    identity, url = attempt.identity, (yield from attempt.url())
    kept = identity.registration if identity.kept else None
    redirected: Redirected = yield Consent(
        url, identity.redirect_uri, attempt.state, request.server, kept
    )
    code = attempt.code(redirected.params)
    discovered, prover = attempt.discovered, attempt.prover
    authentication, endpoint = attempt.authentication, discovered.server.token_endpoint
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": identity.redirect_uri,
        "code_verifier": attempt.verifier,
        **attempt.options.resource_field(discovered.resource),
    }
    payload, authentication = yield from first_token_request(
        endpoint, form, authentication, dpop=prover
    )
    bound = None if prover is None else prover.text
    token = Token.from_response(payload, request.now(), attempt.scopes, dpop_key=bound)
    key = Key(discovered.server.issuer, discovered.resource, identity.registration.client_id)
    return Login(token, Source(key, endpoint, authentication.method), attempt.scopes, prover)


# ------------------------------------------------------------- refreshing and revoking


def refresh(
    token: Token,
    source: Source,
    client: RegisteredClient,
    now: Callable[[], float],
    prover: Prover | None = None,
    *,
    send_resource: bool = True,
) -> Flow[Token]:
    """The token that replaces ``token``. Raises ``AuthError``: retryable, or else for good.

    ``token`` must have a refresh token.
    """
    authentication = yield from client_authentication(source, client)
    form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token or ""}
    if send_resource:
        form["resource"] = source.key.resource
    try:
        payload = yield from token_request(source.token_endpoint, form, authentication, dpop=prover)
    except AuthError as error:
        if error.oauth_error in UNKNOWN_CLIENT and source.key.client != client.client_id:
            yield ForgetRegistration(source.key.issuer, source.key.client)
        if error.http_status == 500:
            # Some servers answer so for a refresh token that they no longer know. It may as well be
            # a moment's trouble, in which the login must not be lost.
            error.args = (f"{error.message}; if this lasts, OAuth.logout(url) leads to a login",)
        raise
    bound = None if prover is None else prover.text
    return Token.from_response(payload, now(), previous=token, dpop_key=bound)


def client_authentication(source: Source, client: RegisteredClient) -> Flow[ClientAuthentication]:
    """How the client that got a token authenticates. Raises ``AuthError`` if its secret is lost."""
    issuer, client_id = source.key.issuer, source.key.client
    secret: str | None = None
    if client_id == client.client_id:
        secret = client.client_secret
    elif source.auth_method != "none":
        kept: Registration | None = yield LoadRegistration(issuer, client_id)
        if kept is None or kept.client_id != client_id:
            raise AuthError(f"the secret of the client registered at {shown(issuer)} is lost")
        secret = kept.client_secret
    return ClientAuthentication(client_id, source.auth_method, secret)


def revoke(
    token: Token,
    source: Source,
    authenticate: Callable[[ServerMetadata], ClientAuthentication],
    http_hosts: frozenset[str] = frozenset(),
) -> Flow[bool]:
    """Revoke ``token`` where the authorization server offers that (RFC 7009).

    Returns whether the server confirmed it. Raises ``AuthError`` if it cannot be reached.
    """
    server = yield from server_metadata(source.key.issuer, {}, http_hosts)
    if server is None or server.revocation_endpoint is None:
        return False
    confirmed = True
    # The refresh token first: revoking it ends the grant, and access tokens with it.
    for hint, value in (
        ("refresh_token", token.refresh_token),
        ("access_token", token.access_token),
    ):
        if value is not None:
            form = {"token": value, "token_type_hint": hint}
            response, _ = yield from post_form(
                server.revocation_endpoint,
                form,
                authenticate(server),
                what="the revocation endpoint",
            )
            confirmed = confirmed and response.status == 200
    return confirmed
