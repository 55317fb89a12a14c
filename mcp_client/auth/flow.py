"""The authorization-code flow: a person logs in with a browser, and we get a token.

2026-07-28 ``basic/authorization``, and the same page of each revision since 2025-03-26. The flow is
a plain generator, in the order in which things happen::

    discovery -> our turn -> our client -> authorization request -> redirect -> token

*What is tried again.* A client that an earlier login registered may be unknown to the server by
now, or may have been registered with other scopes; then another client is registered, once.
Nothing else is tried again.

*What is checked in the redirect.* ``state`` ties it to our request; ``redirect.read_redirect`` has
compared it before the redirect gets here. ``iss`` ties it to the server we asked (RFC 9207): it is
compared byte for byte, before anything else is read, error texts included. PKCE with S256 ties the
code to us. RFC 6749 section 4.1, RFC 7636, RFC 8707, RFC 9126, RFC 9207.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit

from ..errors import AuthError, ConfigError
from ..protocol.response_headers import Challenge
from ..runtime.masking import mask, secrets_sent
from ..runtime.safe_text import safe_text
from ..transports.http_client import origin_of, shown
from .discovery import DiscoveredServer, ServerMetadata, discover, same_issuer
from .registration import (
    ClientIdentity,
    RegisteredClient,
    identify,
    known_client,
    register_again,
    scope_field,
)
from .signing import Prover, base64_sha256
from .steps import Consent, Fetch, Fetched, Flow, InStore, Redirected, TakeTurn, Unreachable
from .token_endpoint import (
    UNKNOWN_CLIENT,
    ClientAuthentication,
    first_token_request,
    post_form,
    refusal,
)
from .tokens import Key, Registration, Source, Token

__all__ = [
    "AuthorizationRequest",
    "Login",
    "LoginOptions",
    "LoginRequest",
    "authorize",
    "is_forgotten",
    "scopes_wanted",
]

_log = logging.getLogger("mcp_client")
_REGISTER_AGAIN = UNKNOWN_CLIENT | {"invalid_scope"}
_OFFLINE = "offline_access"
_OWN = frozenset(
    {
        "client_id",
        "code_challenge",
        "code_challenge_method",
        "dpop_jkt",
        "redirect_uri",
        "request",
        "request_uri",
        "resource",
        "response_type",
        "scope",
        "state",
    }
)
"""Parameters that decide what is granted to whom: neither host nor server may add them."""
_NOT_ABOUT_THE_CLIENT = frozenset({403, 404, 405, 406, 407, 408, 425, 429})
_WHAT_PUSHED = "the pushed authorization request endpoint"


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
        if not (asked or discovered.dpop_only):
            return None
        prover = Prover()
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


# ------------------------------------------------------- the authorization request


@dataclass(frozen=True, slots=True)
class LoginOptions:
    """What the host may choose about logins. See ``OAuth`` for each."""

    scopes: frozenset[str] | None = None
    """None for those the server names."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Further parameters of the authorization request."""
    send_resource: bool = True
    require_iss: bool = False
    allow_missing_pkce: bool = False
    http_hosts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        taken = sorted(_OWN & self.params.keys())
        if taken:
            raise ConfigError(
                f"OAuth(authorize_params=...): {', '.join(taken)} cannot be set here; give scopes "
                "as scopes=[...]"
            )
        if not all(isinstance(each, str) for pair in self.params.items() for each in pair):
            raise ConfigError("OAuth(authorize_params=...): give names and values as strings")

    def resource_field(self, resource: str) -> dict[str, str]:
        return {"resource": resource} if self.send_resource else {}


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A request for a code, and what its answer has to match."""

    discovered: DiscoveredServer
    identity: ClientIdentity
    scopes: frozenset[str]
    options: LoginOptions
    prover: Prover | None = field(default=None, repr=False)
    state: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48), repr=False)

    def again(self, identity: ClientIdentity) -> AuthorizationRequest:
        """This request made by ``identity``, with a state and a verifier of its own."""
        return AuthorizationRequest(
            self.discovered, identity, self.scopes, self.options, self.prover
        )

    @property
    def authentication(self) -> ClientAuthentication:
        """How the client authenticates at the token endpoint. Raises ``AuthError``."""
        methods = self.discovered.server.auth_methods
        return ClientAuthentication.of(self.identity.registration, methods)

    def url(self) -> Flow[str]:
        """The URL for the browser; the request itself is sent ahead if the server requires that.

        Raises ``AuthError`` if the server does not accept it, or its endpoint sets parameters that
        are ours.
        """
        server, params = self.discovered.server, self._params()
        if not server.requires_pushed:
            return self._with_query(params)
        if server.pushed_endpoint is None:
            raise AuthError(
                f"the authorization server {shown(server.issuer)} requires pushed authorization "
                f"requests and {server.why_missing('pushed_authorization_request_endpoint')}"
            )
        endpoint = server.pushed_endpoint
        response, sent = yield from post_form(
            endpoint, params, self.authentication, dpop=self.prover, what=_WHAT_PUSHED
        )
        payload = response.json or {}
        request_uri = payload.get("request_uri")
        if response.status not in (200, 201) or not isinstance(request_uri, str):
            place = f"{_WHAT_PUSHED} {shown(endpoint)}"
            raise refusal(place, response, sent, needed="request_uri")
        client_id = self.identity.registration.client_id
        return self._with_query({"client_id": client_id, "request_uri": request_uri})

    def _params(self) -> dict[str, str]:
        params = {
            "response_type": "code",
            "client_id": self.identity.registration.client_id,
            "redirect_uri": self.identity.redirect_uri,
            "state": self.state,
            "code_challenge": base64_sha256(self.verifier),
            "code_challenge_method": "S256",
            **self.options.resource_field(self.discovered.resource),
            **scope_field(self.scopes),
        }
        if "offline_access" in self.scopes:
            # OpenID Connect Core section 11: without it servers ignore the scope.
            params["prompt"] = "consent"
        if self.prover is not None:
            params["dpop_jkt"] = self.prover.thumbprint
        return {**params, **self.options.params}

    def _with_query(self, params: Mapping[str, str]) -> str:
        server = self.discovered.server
        endpoint = server.authorization_endpoint or ""
        query = urlsplit(endpoint).query
        present = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
        if taken := sorted(present & (_OWN | params.keys())):
            raise AuthError(
                f"the authorization_endpoint of {shown(server.issuer)} sets parameters that only "
                f"the client may set: {safe_text(', '.join(taken), 100)}"
            )
        return f"{endpoint}{'&' if query else '?'}{urlencode(params)}"

    def code(self, params: Mapping[str, str]) -> str:
        """The code in a redirect that answers this request. Raises ``AuthError``."""
        server = self.discovered.server
        name, iss, error = shown(server.issuer), params.get("iss"), params.get("error")
        sent = {self.state, params.get("code", ""), *secrets_sent(self.discovered.resource, ())}
        if iss is None and (server.promises_iss or self.options.require_iss):
            # Shown, the error of another server would be its message to the person.
            what = "used" if error is None else "used, and the error in it is not shown"
            raise AuthError(f"the redirect has no iss, so it may not come from {name}: not {what}")
        if iss is not None and iss not in (server.issuer, server.named):
            other = safe_text(mask(shown(iss), sent), 100)
            raise AuthError(f"the redirect comes from {other!r}, not from {name}: not used")
        if error is None:
            return params["code"]
        error = mask(error, sent)[:80]
        description = mask(params.get("error_description", ""), sent)
        text = f": {safe_text(description, 300)}" if description else ""
        if error == "invalid_target":
            text += "; if it does not know the parameter resource, give OAuth(send_resource=False)"
        raise AuthError(
            f"{name} refused the login ({safe_text(error, 80)}){text}", oauth_error=error
        )


def is_forgotten(request: AuthorizationRequest) -> Flow[bool]:
    """Whether the authorization server answers a stored client with an error page.

    That page is all that a person would see: a server must not redirect to the URI of a client
    that it does not know (RFC 6749 section 4.1.2.1). What is asked cannot lead to a grant: state
    and PKCE challenge are thrown away, and ``prompt=none`` tells OpenID servers to show no page.
    """
    server = request.discovered.server
    if server.registration_endpoint is None or server.requires_pushed:
        return False  # it could not be replaced, or the pushed request will tell
    params = {**request.again(request.identity)._params(), "prompt": "none"}
    response: Fetched | Unreachable = yield Fetch(
        "GET", request._with_query(params), "the login page", {"accept": "text/html"}, follow=False
    )
    if isinstance(response, Unreachable):
        return False
    return 400 <= response.status < 500 and response.status not in _NOT_ABOUT_THE_CLIENT
