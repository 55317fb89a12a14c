"""The authorization-code flow: a person agrees in a browser, and we get a token.

2026-07-28 ``basic/authorization``, and the same page of each revision since 2025-03-26. It is a
plain generator, in the order in which things happen::

    discovery -> who we are there -> scopes -> consent -> is this the answer to it? -> token

*What is checked in the redirect.* ``state`` ties it to our question. ``iss`` ties it to the server
we asked (RFC 9207): it is compared as it is, before anything else of the redirect is read, error
texts included. PKCE with S256 ties the code to us; a server that does not say it supports that is
refused, as the specification wants.

*What is tried again.* A client that was registered in an earlier run and is not known any more is
registered anew, once. Nothing else.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

from ..errors import AuthError
from ..protocol.www_authenticate import Challenge
from ..runtime.safe_text import safe_text
from ..transports.http_client import shown
from .discovery import DiscoveredServer, ServerMetadata, discover
from .registration import ClientIdentity, RegisteredClient, identify, identify_anew
from .steps import Consent, Flow, Forget, Recall, Redirected
from .token_endpoint import ClientAuthentication, token_request
from .tokens import Key, Registration, Source, Token

if TYPE_CHECKING:
    from .dpop import Prover

__all__ = ["Login", "LoginRequest", "authorize", "refresh", "scopes_wanted"]

_FORGOTTEN = frozenset({"invalid_client", "unauthorized_client"})
_OFFLINE = "offline_access"


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """What a login is for."""

    url: str
    """The MCP server's URL."""
    server: str
    """The name the host gave it."""
    challenge: Challenge | None = None
    """What it refused the last request with."""
    held: frozenset[str] = frozenset()
    """Scopes asked for or granted before, which are not to be lost."""
    last: Source | None = None
    """Where its tokens came from the last time."""
    revision: str | None = None
    prover: Callable[[], Prover] | None = field(default=None, repr=False)
    """Makes the key of a DPoP token, where the server wants one."""
    now: Callable[[], float] = time.time
    """Unix time in seconds."""

    def by_dpop(self, place: DiscoveredServer) -> bool:
        asked = self.challenge is not None and self.challenge.scheme == "dpop"
        return asked or place.dpop_only


@dataclass(frozen=True, slots=True)
class Login:
    """A token, where it came from, and the scopes that were asked for."""

    token: Token
    source: Source
    scopes: frozenset[str]
    prover: Prover | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class _Question:
    """One authorization request, and what its answer has to fit."""

    known: ClientIdentity
    scopes: frozenset[str]
    issuer: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)


def authorize(
    want: LoginRequest,
    client: RegisteredClient,
    scopes: frozenset[str] | None,
    *,
    without_pkce: bool = False,
    random: Callable[[int], str] = secrets.token_urlsafe,
) -> Flow[Login]:
    """Have a person log in, and get the token for it. Raises ``AuthError``.

    ``scopes`` are the host's own choice; None for what the server names. ``without_pkce`` goes on
    where the server does not say that it supports S256.
    """
    place = yield from discover(
        want.url, _metadata_url(want), lambda issuers: _chosen(issuers, client, want), want.revision
    )
    _check_server(place.server, without_pkce=without_pkce)
    prover = want.prover() if want.prover is not None and want.by_dpop(place) else None
    if prover is not None:
        prover.check(place.server.dpop_algorithms)
    asked = scopes_wanted(want, place, scopes)
    known = yield from identify(place, client, want.now())
    try:
        return (yield from _login(want, place, known, asked, prover, random))
    except AuthError as error:
        if not known.kept or error.oauth_error not in _FORGOTTEN:
            raise
    known = yield from identify_anew(place, client, known)
    return (yield from _login(want, place, known, asked, prover, random))


def _metadata_url(want: LoginRequest) -> str | None:
    return None if want.challenge is None else want.challenge.resource_metadata


def _chosen(issuers: tuple[str, ...], client: RegisteredClient, want: LoginRequest) -> str:
    """The issuer our credentials belong to, else the one of the last time, else the first."""
    last = want.last.key.issuer if want.last is not None else None
    return next((issuer for issuer in (client.issuer, last) if issuer in issuers), issuers[0])


def _check_server(server: ServerMetadata, *, without_pkce: bool) -> None:
    place = shown(server.issuer)
    if server.authorization_endpoint is None:
        raise AuthError(
            f"the authorization server {place} has no authorization_endpoint: nobody can log in "
            "there with a browser; is it for machines (ClientCredentials)?"
        )
    if server.response_types is not None and "code" not in server.response_types:
        raise AuthError(f"the authorization server {place} gives no authorization codes")
    if server.guessed or without_pkce:
        return
    if "S256" not in (server.challenge_methods or ()):
        raise AuthError(
            f"the authorization server {place} does not say that it supports PKCE with S256, "
            "without which an authorization code can be stolen and used. Where you know better: "
            "OAuth(insecure_allow_missing_pkce=True)"
        )


def scopes_wanted(
    want: LoginRequest, place: DiscoveredServer, own: frozenset[str] | None
) -> frozenset[str]:
    """What to ask for: the challenge's scopes, or else the resource's, and what we had before.

    The host's ``own`` take the place of the resource's. A refresh token is asked for, by
    ``offline_access``, where the server knows that scope.
    """
    challenged = want.challenge.scopes if want.challenge is not None else frozenset()
    if own is not None:
        scopes = own | challenged | want.held
    else:
        scopes = (challenged or place.scopes) | want.held
    if scopes and own is None and _OFFLINE in place.server.scopes:
        scopes |= {_OFFLINE}
    return scopes


# --------------------------------------------------------------------- the consent


def _login(
    want: LoginRequest,
    place: DiscoveredServer,
    known: ClientIdentity,
    scopes: frozenset[str],
    prover: Prover | None,
    random: Callable[[int], str],
) -> Flow[Login]:
    question = _Question(known, scopes, place.server.issuer, random(32), random(48))
    url = _url(place, question, prover)
    redirected: Redirected = yield Consent(url, known.redirect_uri, question.state, want.server)
    code = _code(redirected.params, question, says_iss=place.server.says_iss)
    authentication = ClientAuthentication.of(known.registration, place.server.auth_methods)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": known.redirect_uri,
        "code_verifier": question.verifier,
        "resource": place.resource,
    }
    endpoint = place.server.token_endpoint
    payload = yield from token_request(endpoint, form, authentication, dpop=prover)
    bound = None if prover is None else prover.text
    token = Token.from_response(payload, want.now(), scopes, dpop_key=bound)
    key = Key(place.server.issuer, place.resource, known.registration.client_id)
    return Login(token, Source(key, endpoint, authentication.method), scopes, prover)


def _url(place: DiscoveredServer, question: _Question, prover: Prover | None) -> str:
    endpoint = place.server.authorization_endpoint
    assert endpoint is not None
    params = {
        "response_type": "code",
        "client_id": question.known.registration.client_id,
        "redirect_uri": question.known.redirect_uri,
        "state": question.state,
        "code_challenge": _challenge(question.verifier),
        "code_challenge_method": "S256",
        "resource": place.resource,
    }
    if question.scopes:
        params["scope"] = " ".join(sorted(question.scopes))
    if prover is not None:
        params["dpop_jkt"] = prover.thumbprint
    query = urlsplit(endpoint).query
    own = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
    if own & {*params, "scope", "request", "request_uri"}:
        raise AuthError(
            f"the authorization_endpoint of {shown(question.issuer)} brings parameters that are "
            f"ours to give: {safe_text(', '.join(sorted(own & params.keys())), 100)}"
        )
    return f"{endpoint}{'&' if query else '?'}{urlencode(params)}"


def _challenge(verifier: str) -> str:
    import hashlib

    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _code(params: Mapping[str, str], question: _Question, *, says_iss: bool) -> str:
    """The code in a redirect that is the answer to ``question``. Raises ``AuthError``."""
    place = shown(question.issuer)
    if not hmac.compare_digest(params.get("state", "").encode(), question.state.encode()):
        raise AuthError("the redirect carries another state than ours: it is not used")
    iss = params.get("iss")
    if iss is None and says_iss:
        raise AuthError(f"the redirect does not say that it comes from {place}: it is not used")
    if iss is not None and iss != question.issuer:
        raise AuthError(
            f"the redirect comes from {safe_text(iss, 100)!r}, and {place} was asked: it is not "
            "used, for a code of one server is not for another to see"
        )
    error = params.get("error")
    if error is not None:
        said = params.get("error_description")
        text = f": {safe_text(said, 300)}" if said else ""
        raise AuthError(
            f"{place} did not let us in ({safe_text(error, 80)}){text}", oauth_error=error[:80]
        )
    code = params.get("code")
    if not code:
        raise AuthError(f"the redirect of {place} has no code in it")
    return code


# --------------------------------------------------------------------- the refresh


def refresh(
    token: Token,
    source: Source,
    client: RegisteredClient,
    now: Callable[[], float],
    prover: Prover | None = None,
) -> Flow[Token]:
    """The token that comes after ``token``. Raises ``AuthError``.

    ``oauth_error`` is "invalid_grant" where nothing but a new login helps.
    """
    assert token.refresh_token is not None
    issuer, us = source.key.issuer, source.key.client
    registration: Registration | None
    if us == client.client_id:
        registration = Registration(us, client.client_secret, issuer=issuer)
    elif us == client.metadata_url:
        registration = Registration(us, issuer=issuer)
    else:
        registration = yield Recall(issuer)
    if registration is None or registration.client_id != us:
        raise AuthError(
            f"the client that {shown(issuer)} gave the token to is no longer known here",
            oauth_error="invalid_grant",
        )
    authentication = ClientAuthentication(
        registration.client_id, source.auth_method, registration.client_secret
    )
    form = {
        "grant_type": "refresh_token",
        "refresh_token": token.refresh_token,
        "resource": source.key.resource,
    }
    try:
        payload = yield from token_request(source.token_endpoint, form, authentication, dpop=prover)
    except AuthError as error:
        if error.oauth_error in _FORGOTTEN and us != client.client_id:
            yield Forget(issuer)
        raise
    bound = None if prover is None else prover.text
    return Token.from_response(payload, now(), previous=token, dpop_key=bound)
