"""What programs with no person beside them share, however they get their tokens.

``client_credentials.py``, ``enterprise.py`` and ``workload.py`` have a grant each. All find the
authorization server as a login does, and none tries another grant, or the same again.

*Who sees the secret.* The MCP server names its authorization server, so a hostile one could name
its own and be handed what is meant for another. A secret therefore belongs to one issuer: the one
the host gives, or else the one of the first time, which the token store remembers.

*No refresh tokens.* Whoever vouches is asked again when the token expires, so that who is no
longer vouched for is out; a refresh token that a server gives is not kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from ..errors import AuthError, ConfigError
from ..transports.http_client import shown
from .assertions import private_key_jwt
from .browser import Browser
from .discovery import DiscoveredServer, discover
from .flow import Login, LoginRequest
from .keys import PrivateKey
from .steps import Flow, Supply
from .token_endpoint import ClientAuthentication, token_request
from .tokens import Key, Registration, Source, Token

if TYPE_CHECKING:
    from .dpop import Prover

__all__ = ["Assertion", "Machine", "Unattended", "obtain", "place_of", "scopes_for", "supplied"]

Assertion: TypeAlias = "str | Callable[[], str | Awaitable[str]]"
"""A text, or a function, sync or async, that gives one each time it is needed."""

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@dataclass(frozen=True, slots=True)
class Machine:
    """A client that was registered by hand, and how it proves that it is the one."""

    client_id: str
    """Empty for a workload that was not registered."""
    secret: str | None = field(default=None, repr=False)
    key: PrivateKey | None = field(default=None, repr=False)
    algorithm: str | None = None
    issuer: str | None = None
    """The only authorization server that may see what is secret here."""
    scopes: frozenset[str] | None = None
    """None for what the server names."""

    @classmethod
    def of(
        cls,
        client_id: str,
        *,
        client_secret: str | None = None,
        private_key: str | bytes | None = None,
        key_id: str | None = None,
        algorithm: str | None = None,
        issuer: str | None = None,
        scopes: Iterable[str] | None = None,
    ) -> Machine:
        """As a host writes it. Raises ``ConfigError`` for what cannot be."""
        if not isinstance(client_id, str):
            raise ConfigError("client_id: give the id the authorization server knows you by")
        if client_secret is not None and private_key is not None:
            raise ConfigError("give a client_secret or a private_key, and not both")
        if isinstance(scopes, str):
            raise ConfigError("scopes=...: give a list of scopes, such as ['files:read']")
        key = None if private_key is None else PrivateKey.read(private_key, key_id=key_id)
        if key is not None:
            key.algorithm(None, algorithm)
        wanted = None if scopes is None else frozenset(scopes)
        return cls(client_id, client_secret, key, algorithm, issuer, wanted)

    def authentication(
        self, place: DiscoveredServer, now: Callable[[], float]
    ) -> ClientAuthentication:
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
        known = Registration(self.client_id, self.secret, issuer=server.issuer)
        # What others may leave out, whoever was given a secret has to show.
        methods = [method for method in server.auth_methods or () if method != "none"]
        return ClientAuthentication.of(known, methods or None)


@dataclass(frozen=True, slots=True)
class Unattended:
    """A grant that asks nobody: ``flow`` is all there is to it."""

    machine: Machine
    flow: Callable[[LoginRequest], Flow[Login]] = field(repr=False)
    own_urls: tuple[str, ...] = ()
    silent: bool = True

    def owns(self, source: Source) -> bool:
        mine = source.key.client == self.machine.client_id
        return mine and self.machine.issuer in (None, source.key.issuer)

    def obtain(self, want: LoginRequest) -> Flow[Login]:
        return self.flow(want)

    def refresh(
        self, token: Token, source: Source, prover: Prover | None, now: Callable[[], float]
    ) -> Flow[Token]:
        raise AuthError("this grant keeps no refresh tokens", oauth_error="invalid_grant")

    def browser(self, seconds: float) -> Browser | None:
        return None

    def trusted(self) -> Iterable[str]:
        issuer = self.machine.issuer
        return self.own_urls if issuer is None else (issuer, *self.own_urls)


def place_of(want: LoginRequest, machine: Machine) -> Flow[DiscoveredServer]:
    """Where tokens come from, if what is secret here belongs there. Raises ``AuthError``."""
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
            f"credentials given for it belong to {shown(bound)}: nothing was sent. If that is "
            "right, give the new one as issuer=..."
        )

    place = yield from discover(want.url, metadata_url, choose, want.revision)
    check(place.server.issuer)
    return place


def supplied(assertion: Assertion, what: str) -> Flow[str]:
    """The text itself, or what the host's function gives."""
    if not callable(assertion):
        return assertion
    text: str = yield Supply(assertion, what)
    return text


def scopes_for(want: LoginRequest, place: DiscoveredServer, machine: Machine) -> frozenset[str]:
    """The challenge's scopes, or else the resource's, or the host's own; and what we had."""
    challenged = want.challenge.scopes if want.challenge is not None else frozenset()
    if machine.scopes is not None:
        return machine.scopes | challenged | want.held
    return (challenged or place.scopes) | want.held


def scope_field(scopes: frozenset[str]) -> dict[str, str]:
    return {"scope": " ".join(sorted(scopes))} if scopes else {}


def obtain(
    want: LoginRequest, place: DiscoveredServer, machine: Machine, form: Mapping[str, str]
) -> Flow[Login]:
    """The token that ``form``, the grant's own fields, is good for. Raises ``AuthError``."""
    server = place.server
    prover = want.prover() if want.prover is not None and want.by_dpop(place) else None
    if prover is not None:
        prover.check(server.dpop_algorithms)
    scopes = scopes_for(want, place, machine)
    authentication = machine.authentication(place, want.now)
    whole = {**form, "resource": place.resource, **scope_field(scopes)}
    payload = yield from token_request(server.token_endpoint, whole, authentication, dpop=prover)
    bound = None if prover is None else prover.text
    token = Token.from_response(payload, want.now(), scopes, dpop_key=bound)
    key = Key(server.issuer, place.resource, machine.client_id)
    source = Source(key, server.token_endpoint, authentication.method)
    return Login(replace(token, refresh_token=None), source, scopes, prover)
