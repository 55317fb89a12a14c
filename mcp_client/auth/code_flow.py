"""The authorization-code flow: a person logs in with a browser, for a token.

2026-07-28 ``basic/authorization``, and the same page of each revision since 2025-03-26. The flow is
a plain generator, in the order in which things happen::

    discovery -> turn -> client -> authorization request -> redirect -> token

Without a browser, the device flow (RFC 8628) replaces request and redirect.

*Retries.* A client that an earlier login registered may be unknown to the server by now, or may
have been registered with other scopes. Then another client is registered, once. A scope that only
this flow added may be forbidden for the client. Then the login continues without it, once, and
later logins leave it out. Nothing else is tried again.

*Checks of the redirect.* ``state`` ties the redirect to the request; ``redirect.read_redirect`` has
compared it before. ``iss`` ties the redirect to the server that was asked (RFC 9207): it is
compared byte for byte, before anything else is read, error texts included. PKCE with S256 ties the
code to this client. Before a person is asked, ``one_issuer`` has checked that login page and token
endpoint belong together. RFC 6749 section 4.1, RFC 7636, RFC 8707, RFC 9126, RFC 9207.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ..errors import Advice, AuthError
from ..protocol.headers import Challenge
from ..transports.http_client import shown
from .code_request import (
    AuthorizationRequest,
    DeviceRequest,
    LoginOptions,
    device_token,
    is_forgotten,
)
from .discovery import DiscoveredServer, ServerMetadata, discover, same_issuer
from .one_issuer import check_browser, check_device
from .registration import RegisteredClient, identify, known_client, register_again
from .signing import Prover
from .steps import Consent, Flow, InStore, Redirected, TakeTurn
from .token_endpoint import UNKNOWN_CLIENT, ClientAuthentication, first_token_request
from .tokens import Key, Registration, Source, Token

__all__ = ["Login", "LoginRequest", "authorize", "scopes_wanted"]

_REGISTER_AGAIN = UNKNOWN_CLIENT | {"invalid_scope"}
_NO_DEVICE = UNKNOWN_CLIENT | {"unsupported_grant_type"}
"""The errors after which a browser is used: the client may not use the device flow, but may log in
with a browser."""
_OFFLINE = "offline_access"
_TokenRequest: TypeAlias = tuple[dict[str, Any], ClientAuthentication]
"""The response of a token endpoint, and how the client authenticated."""


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """A request for a token, with what is known about earlier ones."""

    url: str
    """The MCP server's URL."""
    server: str
    """The name the host gave the server."""
    challenge: Challenge | None = None
    """The challenge with which the server refused the last request."""
    held: frozenset[str] = frozenset()
    """Scopes requested or granted before, which are requested again."""
    last: Source | None = None
    """The source of the server's last tokens."""
    revision: str | None = None
    refused_token: str | None = field(default=None, repr=False)
    """The access token that the server refused."""
    proven_client: str | None = None
    """The client id of a login that succeeded in this run."""
    now: Callable[[], float] = time.time
    """Unix time in seconds."""

    @property
    def metadata_url(self) -> str | None:
        """The URL of the metadata that the challenge names."""
        return None if self.challenge is None else self.challenge.resource_metadata

    @property
    def challenged(self) -> frozenset[str]:
        """The scopes that the challenge names."""
        return frozenset() if self.challenge is None else self.challenge.scopes

    def scopes(self, discovered: DiscoveredServer, own: frozenset[str] | None) -> frozenset[str]:
        """Return the challenge's scopes, or else the resource's, and those requested before.

        The host's ``own`` scopes take the place of the resource's.
        """
        if own is not None:
            return own | self.challenged | self.held
        return (self.challenged or discovered.scopes) | self.held

    def known_of(self, issuer: str) -> Source | None:
        """Return the source of the last token, if ``issuer`` issued it."""
        last = self.last
        return last if last is not None and same_issuer(last.key.issuer, issuer) else None

    def refused_by(self, issuer: str) -> frozenset[str]:
        """Return the scopes that a login added by itself and ``issuer`` refused."""
        known = self.known_of(issuer)
        return frozenset() if known is None else known.refused_scopes

    def source(self, key: Key, endpoint: str, method: str, refused: frozenset[str]) -> Source:
        """Return the source of a token, with what is known about its issuer from the last one."""
        known = self.known_of(key.issuer)
        without = known is not None and known.without_resource
        return Source(key, endpoint, method, refused | self.refused_by(key.issuer), without)

    def knows(self, client_id: str) -> bool:
        """Whether the authorization server has shown lately that it knows this client."""
        token_accepted = self.challenge is not None and self.challenge.error == "insufficient_scope"
        return token_accepted or client_id == self.proven_client

    def new_prover(self, discovered: DiscoveredServer) -> Prover | None:
        """Return a new key, if the server requires a DPoP token; else None.

        Raises ``AuthError`` if the server supports no algorithm of the key.
        """
        asked = self.challenge is not None and self.challenge.scheme == "dpop"
        if not (asked or discovered.dpop_only):
            return None
        prover = Prover()
        prover.check(discovered.server.dpop_algorithms)
        return prover


@dataclass(frozen=True, slots=True)
class Login:
    """A token, its source, and the scopes that were requested."""

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
        http_hosts=options.deviations.allow_http_hosts,
    )
    device = _by_device(discovered.server, options)
    if device:
        check_device(discovered.server, options.issuer)
    else:
        _check_server(discovered.server, options)
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
    added = scopes - request.scopes(discovered, options.scopes)
    attempt = AuthorizationRequest(
        discovered, identity, scopes, options, prover, added=added, device=device
    )
    unproven = identity.kept and not request.knows(identity.registration.client_id)
    if unproven and not device and (yield from is_forgotten(attempt)):
        identity = yield from register_again(discovered, client, identity, scopes)
        attempt = attempt.again(identity)
    while True:
        try:
            return (yield from _log_in(request, attempt))
        except AuthError as error:
            if attempt.identity.kept and error.oauth_error in _REGISTER_AGAIN:
                identity = yield from register_again(discovered, client, attempt.identity, scopes)
                attempt = attempt.again(identity)
            elif attempt.added and error.oauth_error == "invalid_scope":
                attempt = attempt.without_added()
            elif attempt.device and options.device == "auto" and error.oauth_error in _NO_DEVICE:
                _check_server(discovered.server, options)
                attempt = replace(attempt, device=False)
            else:
                raise


def _by_device(server: ServerMetadata, options: LoginOptions) -> bool:
    """Whether the person logs in on another device.

    Raises ``AuthError`` if that is wanted and the server does not offer it.
    """
    if options.device is True and server.device_endpoint is None:
        why = server.why_missing("device_authorization_endpoint")
        raise AuthError(
            f"the authorization server {shown(server.issuer)} {why}, so no one can log in on "
            "another device. Leave out OAuth(device=True)"
        )
    return options.device is not False and server.device_endpoint is not None


def _chosen(issuers: tuple[str, ...], client: RegisteredClient, request: LoginRequest) -> str:
    """Return the issuer our credentials belong to, else that of the last login, else the first."""
    last = request.last.key.issuer if request.last is not None else None
    for wanted in (client.issuer, last):
        for issuer in issuers:
            if wanted is not None and same_issuer(wanted, issuer):
                return issuer
    return issuers[0]


def _check_server(server: ServerMetadata, options: LoginOptions) -> None:
    """Raise ``AuthError`` if no person may log in there with a browser."""
    name = shown(server.issuer)
    if server.authorization_endpoint is None:
        raise AuthError(
            f"the authorization server {name} {server.why_missing('authorization_endpoint')}, so "
            "no person can log in with a browser; for a service account use ClientCredentials"
        )
    if server.response_types is not None and "code" not in server.response_types:
        raise AuthError(f"the authorization server {name} does not support authorization codes")
    pkce = server.guessed or "S256" in (server.challenge_methods or ())
    if not pkce and not options.deviations.insecure_allow_missing_pkce:
        raise AuthError(
            f"the authorization server {name} does not state that it supports PKCE with S256, "
            "without which a stolen authorization code can be used",
            advice=Advice(
                "if you know that it does, give Deviations(insecure_allow_missing_pkce=True)",
                "program",
            ),
        )
    check_browser(server, options.issuer, iss=server.promises_iss or options.deviations.require_iss)


def scopes_wanted(
    request: LoginRequest, discovered: DiscoveredServer, own: frozenset[str] | None
) -> frozenset[str]:
    """Return the scopes to ask for, with ``offline_access`` if a refresh token can be had.

    It is added if the server supports it and has not refused it before, and the host chose no
    scopes.
    """
    scopes, server = request.scopes(discovered, own), discovered.server
    refused = request.refused_by(server.issuer)
    if own is None and scopes and _OFFLINE in server.scopes - refused:
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
    """Return a token that another login at this issuer got for the same resource and client.

    Returns None if no usable one is stored.
    """
    server = discovered.server
    key = Key(server.issuer, discovered.resource, known.client_id)
    token: Token | None = yield InStore(lambda store: store.load(key))
    if (
        token is None
        or token.access_token == request.refused_token
        or not token.fresh(request.now(), early=0)
        or not scopes <= token.scope
        or (token.dpop_key is not None) != dpop
    ):
        return None
    method = ClientAuthentication.of(known, server.auth_methods).method
    source = request.source(key, server.token_endpoint, method, frozenset())
    return Login(token, source, token.scope, stored=True)


def _log_in(request: LoginRequest, attempt: AuthorizationRequest) -> Flow[Login]:
    by = _with_device if attempt.device else _with_browser
    payload, authentication = yield from by(request, attempt)
    discovered, prover = attempt.discovered, attempt.prover
    bound = None if prover is None else prover.text
    token = Token.from_response(payload, request.now(), attempt.scopes, dpop_key=bound)
    client_id = attempt.identity.registration.client_id
    key = Key(discovered.server.issuer, discovered.resource, client_id)
    endpoint = discovered.server.token_endpoint
    source = request.source(key, endpoint, authentication.method, attempt.refused)
    return Login(token, source, attempt.scopes, prover)


def _with_device(request: LoginRequest, attempt: AuthorizationRequest) -> Flow[_TokenRequest]:
    discovered, options = attempt.discovered, attempt.options
    return device_token(
        DeviceRequest(
            discovered.server,
            attempt.authentication,
            options.resource_field(discovered.resource),
            attempt.scopes,
            attempt.prover,
            request.server,
            request.now,
            options.deviations.allow_http_hosts,
        )
    )


def _with_browser(request: LoginRequest, attempt: AuthorizationRequest) -> Flow[_TokenRequest]:
    identity, url = attempt.identity, (yield from attempt.url())
    registration = identity.registration if identity.kept else None
    redirected: Redirected = yield Consent(
        url, identity.redirect_uri, attempt.state, request.server, registration
    )
    code = attempt.code(redirected.params)
    discovered = attempt.discovered
    authentication, endpoint = attempt.authentication, discovered.server.token_endpoint
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": identity.redirect_uri,
        "code_verifier": attempt.verifier,
        **attempt.options.resource_field(discovered.resource),
    }
    return (yield from first_token_request(endpoint, form, authentication, dpop=attempt.prover))
