"""How a program with no person beside it gets a token: three grants, as plain generators.

============================  =====================================================
``client_credentials``        the client itself is what is trusted (RFC 6749 section 4.4)
``enterprise``                the company's identity provider vouches for a person, with
                              an ID-JAG (RFC 8693, then RFC 7523)
``workload_identity``         the platform it runs on vouches for it (RFC 7523)
============================  =====================================================

https://github.com/modelcontextprotocol/ext-auth, and SEP-1933 for the last. All three find the
authorization server as a login does, and none of them tries another grant, or the same again.

*Who sees the secret.* The MCP server names its authorization server, so a hostile one could name
its own and be handed what is meant for another. A secret therefore belongs to one issuer: the one
the host gives, or else the one of the first time, which the token store remembers.

*No refresh tokens.* Whoever vouches is asked again when the token expires, so that who is no
longer vouched for is out; a refresh token that a server gives is not kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..display import safe_text
from ..errors import AuthError, ConfigError
from ..transports.http_client import shown
from .addresses import refused_url
from .assertions import private_key_jwt
from .discovery import Place, discover
from .flow import Login, Want
from .keys import PrivateKey
from .steps import Flow, Supply
from .token_endpoint import ClientAuthentication, token_request
from .tokens import Key, Registration, Source, Token

__all__ = ["IdentityProvider", "Machine", "client_credentials", "enterprise", "workload_identity"]

Assertion: TypeAlias = "str | Callable[[], str | Awaitable[str]]"
"""A text, or a function, sync or async, that gives one each time it is needed."""

_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a grant's name
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


@dataclass(frozen=True, slots=True)
class Machine:
    """A client that was registered by hand, and how it proves that it is the one."""

    client_id: str
    secret: str | None = field(default=None, repr=False)
    key: PrivateKey | None = field(default=None, repr=False)
    algorithm: str | None = None
    auth_method: str | None = None
    """How ``secret`` is sent; None for what the server's metadata says."""
    issuer: str | None = None
    """The only authorization server that may see what is secret here."""
    scopes: frozenset[str] | None = None
    """None for what the server names."""

    def __post_init__(self) -> None:
        if not isinstance(self.client_id, str) or not self.client_id:
            raise ConfigError("client_id=...: give the id the authorization server knows you by")
        if self.secret is not None and self.key is not None:
            raise ConfigError("give a client_secret or a private_key, and not both")
        if self.auth_method not in (None, "client_secret_basic", "client_secret_post"):
            raise ConfigError(
                "token_endpoint_auth_method=...: give client_secret_basic or client_secret_post"
            )
        if self.key is not None:
            self.key.algorithm(None, self.algorithm)

    def authentication(self, place: Place, now: Callable[[], float]) -> ClientAuthentication:
        """How to tell the authorization server who is asking. Raises ``AuthError``."""
        server = place.server
        if self.key is not None:
            return private_key_jwt(
                self.client_id,
                self.key,
                server.issuer,
                algorithm=self.algorithm,
                accepted=server.signing_algorithms,
                clock=now,
            )
        known = Registration(self.client_id, self.secret, self.auth_method, issuer=server.issuer)
        return ClientAuthentication.of(known, server.auth_methods)


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """The company's identity provider, and the assertion it gave for the person."""

    token_endpoint: str
    authentication: ClientAuthentication
    assertion: Assertion = field(repr=False)
    assertion_type: str = "urn:ietf:params:oauth:token-type:id_token"

    def __post_init__(self) -> None:
        reason = refused_url(self.token_endpoint)
        if reason is not None:
            raise ConfigError(f"idp_token_endpoint={shown(self.token_endpoint)!r}: {reason}")


def client_credentials(want: Want, machine: Machine, now: Callable[[], float]) -> Flow[Login]:
    """The client's own credentials for a token. Raises ``AuthError``."""
    place = yield from _place(want, machine)
    return (yield from _token(want, place, machine, now, {"grant_type": "client_credentials"}))


def workload_identity(
    want: Want, machine: Machine, assertion: Assertion, now: Callable[[], float]
) -> Flow[Login]:
    """The platform's JWT about this workload for a token. Raises ``AuthError``."""
    place = yield from _place(want, machine)
    text = yield from _supplied(assertion, "WorkloadIdentity(assertion=...)")
    form = {"grant_type": _JWT_BEARER, "assertion": text}
    return (yield from _token(want, place, machine, now, form))


def enterprise(
    want: Want, machine: Machine, provider: IdentityProvider, now: Callable[[], float]
) -> Flow[Login]:
    """A person's ID token for an ID-JAG, at the provider; that for a token. Raises ``AuthError``.

    The provider is told the issuer and the resource as they were published.
    """
    place = yield from _place(want, machine)
    text = yield from _supplied(provider.assertion, "EnterpriseAuthorization(id_token=...)")
    scopes = _scopes(want, place, machine)
    form = {
        "grant_type": _TOKEN_EXCHANGE,
        "requested_token_type": _ID_JAG,
        "audience": place.server.issuer,
        "resource": place.resource,
        "subject_token": text,
        "subject_token_type": provider.assertion_type,
        **_scope_field(scopes),
    }
    what = "the identity provider's token endpoint"
    answer = yield from token_request(
        provider.token_endpoint, form, provider.authentication, what=what
    )
    kind, grant = answer.get("issued_token_type"), answer["access_token"]
    if kind != _ID_JAG or not isinstance(grant, str):
        raise AuthError(
            f"{what} {shown(provider.token_endpoint)} gave no ID-JAG, but "
            f"{safe_text(kind, 100)!r}: does it know this MCP server, and the client's id there?"
        )
    form = {"grant_type": _JWT_BEARER, "assertion": grant}
    return (yield from _token(want, place, machine, now, form))


# ------------------------------------------------------------- what they share


def _place(want: Want, machine: Machine) -> Flow[Place]:
    """Where tokens come from, if what is secret here belongs there."""
    last = want.last.key if want.last is not None else None
    bound = machine.issuer
    if bound is None and last is not None and last.client == machine.client_id:
        bound = last.issuer
    metadata_url = want.challenge.resource_metadata if want.challenge is not None else None

    def choose(issuers: tuple[str, ...]) -> str:
        return check(bound if bound in issuers else issuers[0])

    def check(issuer: str) -> str:
        if bound is None or issuer == bound:
            return issuer
        raise AuthError(
            f"the MCP server names {shown(issuer)} as its authorization server, and the "
            f"credentials of {safe_text(machine.client_id, 80)!r} belong to {shown(bound)}: "
            "nothing was sent. If that is right, give the new one as issuer=..."
        )

    place = yield from discover(want.url, metadata_url, choose, want.revision)
    check(place.server.issuer)
    return place


def _supplied(assertion: Assertion, what: str) -> Flow[str]:
    if not callable(assertion):
        return assertion
    text: str = yield Supply(assertion, what)
    return text


def _scopes(want: Want, place: Place, machine: Machine) -> frozenset[str]:
    challenged = want.challenge.scopes if want.challenge is not None else frozenset()
    if machine.scopes is not None:
        return machine.scopes | challenged | want.held
    return (challenged or place.scopes) | want.held


def _scope_field(scopes: frozenset[str]) -> dict[str, str]:
    return {"scope": " ".join(sorted(scopes))} if scopes else {}


def _token(
    want: Want,
    place: Place,
    machine: Machine,
    now: Callable[[], float],
    form: Mapping[str, str],
) -> Flow[Login]:
    server = place.server
    prover = want.prover() if want.prover is not None and want.by_dpop(place) else None
    if prover is not None:
        prover.check(server.dpop_algorithms)
    scopes = _scopes(want, place, machine)
    authentication = machine.authentication(place, now)
    whole = {**form, "resource": place.resource, **_scope_field(scopes)}
    payload = yield from token_request(server.token_endpoint, whole, authentication, dpop=prover)
    bound = None if prover is None else prover.text
    token = Token.from_response(payload, now(), scopes, dpop_key=bound)
    key = Key(server.issuer, place.resource, machine.client_id)
    source = Source(key, server.token_endpoint, authentication.method)
    return Login(replace(token, refresh_token=None), source, scopes, prover)
