"""Grants without a browser: credentials of a service, of a workload, of a company's person.

They find the authorization server as a login does and then send one token request. None falls back
to another grant.

*Who sees the secret.* The MCP server names its authorization server. A hostile MCP server could
name its own and receive what is meant for another. A secret therefore belongs to one issuer: the
one that the host gives, or else the first one that was used, which the token store remembers.

*No refresh tokens.* When a token expires the grant is repeated, so that a client that lost access
gets no further token. A refresh token that a server issues is dropped.

RFC 6749 section 4.4, RFC 7523; the MCP extension "OAuth Client Credentials"
(https://github.com/modelcontextprotocol/ext-auth); SEP-1933;
for the person of a company RFC 8693 and the extension "Enterprise-Managed Authorization".
"""

from __future__ import annotations

import functools
import inspect
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar, Unpack, cast

from ..errors import AuthError, ConfigError
from ..runtime.masking import mask
from ..runtime.safe_text import safe_text
from ..runtime.storage import Storage
from ..transports.http_client import shown
from .code_flow import Login, LoginRequest
from .discovery import DiscoveredServer, ServerMetadata, discover, same_issuer
from .httpx_auth import Authorization
from .registration import scope_field
from .safe_fetch import FetchPolicy, refused_url
from .signing import PrivateKey
from .steps import AskHost, Flow
from .store import TokenStore
from .token_endpoint import ClientAuthentication, first_token_request
from .token_manager import Grant
from .tokens import Key, Registration, Source, Token

if TYPE_CHECKING:
    import httpx

__all__ = [
    "Assertion",
    "ClientCredentials",
    "ClientOptions",
    "EnterpriseAuthorization",
    "IdentityProvider",
    "ServiceClient",
    "WorkloadIdentity",
    "client_credentials",
    "enterprise",
    "workload_identity",
]

Assertion: TypeAlias = "str | Callable[[], str | Awaitable[str]]"
"""A text, or a function, sync or async, that returns one each time it is needed."""

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a grant's name
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_WHAT = "the identity provider's token endpoint"
_ASSERTION_SECONDS = 120
_WORKLOAD = "WorkloadIdentity(assertion=...)"
Init = TypeVar("Init", bound=Callable[..., None])


class ClientOptions(TypedDict, total=False):
    """The options of ``ClientCredentials`` and ``EnterpriseAuthorization``. None: not given."""

    client_secret: str | None
    private_key: str | bytes | None
    """PEM text without a password (RSA, Ed25519 or EC), or a JWK as JSON."""
    key_id: str | None
    algorithm: str | None
    """The signature algorithm; None for the one that fits key and server."""
    issuer: str | None
    """The only authorization server that may see the credentials."""
    scopes: Iterable[str] | None
    """The scopes to request; None requests those that the server names."""
    store: TokenStore | Storage | None
    """The place of tokens; None for memory."""
    client: httpx.AsyncClient | None
    """Sends the requests to the authorization server; None for one of our own."""


def _takes_client_options(init: Init) -> Init:
    """Name each of ``ClientOptions`` in the signature of a constructor with ``**options``.

    ``help`` and editors then show them, and an unknown one raises ``TypeError``.
    """
    signature = inspect.signature(init)
    *own, _ = signature.parameters.values()
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=getattr(kind, "__forward_arg__", kind),
        )
        for name, kind in ClientOptions.__annotations__.items()
    ]
    signature = signature.replace(parameters=[*own, *added])

    @functools.wraps(init)
    def named(*args: Any, **options: Any) -> None:
        signature.bind(*args, **options)
        init(*args, **options)

    named.__signature__ = signature  # type: ignore[attr-defined]
    return cast(Init, named)


@dataclass(frozen=True, slots=True)
class ServiceClient:
    """A client that was registered by hand, and how it authenticates."""

    client_id: str
    """Empty for a workload that is not registered."""
    secret: str | None = field(default=None, repr=False)
    key: PrivateKey | None = field(default=None, repr=False)
    algorithm: str | None = None
    issuer: str | None = None
    """The only authorization server that may see the secret."""
    scopes: frozenset[str] | None = None
    """The scopes to request; None requests those that the server names."""

    @classmethod
    def of(cls, client_id: str, **options: Unpack[ClientOptions]) -> ServiceClient:
        """Return a client made of the options of a host.

        Raises ``ConfigError`` if they are wrong.
        """
        client_secret, private_key = options.get("client_secret"), options.get("private_key")
        algorithm, scopes = options.get("algorithm"), options.get("scopes")
        if not isinstance(client_id, str):
            raise ConfigError("client_id: give the id by which the authorization server knows you")
        if client_secret is not None and private_key is not None:
            raise ConfigError("give either client_secret or private_key, not both")
        if isinstance(scopes, str):
            raise ConfigError("scopes=...: give a list of scopes, such as ['files:read']")
        key = (
            None
            if private_key is None
            else PrivateKey.read(private_key, key_id=options.get("key_id"))
        )
        if key is not None:
            key.algorithm(None, algorithm)
        own = None if scopes is None else frozenset(scopes)
        return cls(client_id, client_secret, key, algorithm, options.get("issuer"), own)

    def authentication(
        self, server: ServerMetadata, now: Callable[[], float]
    ) -> ClientAuthentication:
        """Return how this client authenticates at ``server``. Raises ``AuthError``."""
        if self.key is not None:
            algorithm = self.key.algorithm(server.signing_algorithms, self.algorithm)
            sign = functools.partial(
                _assertion, self.key, algorithm, self.client_id, server.issuer, now
            )
            return ClientAuthentication(self.client_id, "private_key_jwt", sign=sign)
        registration = Registration(self.client_id, self.secret, issuer=server.issuer)
        # A server may offer "none" for public clients, but a client with a secret must show it.
        methods = [method for method in server.auth_methods or () if method != "none"]
        return ClientAuthentication.of(registration, methods or None)


def _assertion(
    key: PrivateKey, algorithm: str, client_id: str, issuer: str, clock: Callable[[], float]
) -> str:
    """Return a signed assertion for ``issuer`` (RFC 7523 section 2.2).

    It must not be sent twice.
    """
    now = int(clock())
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": issuer,
        "iat": now,
        "exp": now + _ASSERTION_SECONDS,
        "jti": secrets.token_urlsafe(16),
    }
    return key.sign(claims, algorithm, {} if key.key_id is None else {"kid": key.key_id})


def _service_grant(
    client: ServiceClient, flow: Callable[[LoginRequest], Flow[Login]], *own_urls: str
) -> Grant:
    """Return the grant of a service. ``own_urls`` are more URLs that the host gave."""
    issuer = client.issuer

    def owns(source: Source) -> bool:
        own = source.key.client == client.client_id
        return own and (issuer is None or same_issuer(issuer, source.key.issuer))

    def authenticate(
        source: Source, server: ServerMetadata, now: Callable[[], float]
    ) -> Flow[ClientAuthentication]:
        return client.authentication(server, now)
        yield  # a flow, which has no steps

    return Grant(
        obtain=flow,
        authenticate=authenticate,
        owns=owns,
        policy=FetchPolicy(own_urls if issuer is None else (issuer, *own_urls)),
        secrets=() if client.secret is None else (client.secret,),
    )


class ClientCredentials(Authorization):
    """Credentials of a service; no person is asked.

    ``private_key`` is better than ``client_secret``, because the key is not sent. Keys need the
    extra ``auth``: ``pip install 'mcp-client-host[auth]'``.

    Args:
        client_id: The id of the service at the authorization server.
        client_secret: The secret of the service. Give it or ``private_key``.
        private_key: PEM text (RSA, Ed25519 or EC, no password) or a JWK as JSON.
        key_id: The id of the key, if the server needs one.
        algorithm: The signature algorithm, if it is not the one that fits key and server ("ES256"
            for a P-256 key).
        issuer: The authorization server that the credentials belong to. Give it: without it they
            are sent to the first one that the MCP server names, and from then on only to that one.
        scopes: The scopes to request instead of those that the server names.
        store: The place of tokens, as for ``OAuth``.
        client: An ``httpx.AsyncClient`` for these requests, as for ``OAuth``.

    Raises:
        ConfigError: If an argument is wrong. The request that needs a token raises ``AuthError``.

    Example:
        >>> HttpServer(url, auth=ClientCredentials("my-service", client_secret=secret))

    The MCP extension "OAuth Client Credentials" (SEP-1046).
    """

    extensions: tuple[str, ...] = ("io.modelcontextprotocol/oauth-client-credentials",)

    @_takes_client_options
    def __init__(self, client_id: str, **options: Unpack[ClientOptions]) -> None:
        service = ServiceClient.of(client_id, **options)
        if not client_id or (service.secret is None and service.key is None):
            raise ConfigError(
                "ClientCredentials: give client_id, and client_secret=... or private_key=..."
            )
        grant = _service_grant(service, lambda request: client_credentials(request, service))
        super().__init__(grant, options.get("store"), options.get("client"))


class WorkloadIdentity(Authorization):
    """A workload's login with the JWT that its platform issues (Kubernetes, SPIFFE, a cloud).

    Anyone who has the JWT can act as this workload.

    Args:
        client_id: The id of the workload at the authorization server, if it is registered there.
        assertion: The JWT, or a function, sync or async, that returns it each time a token is
            needed: platforms replace it every hour or so. It is sent unchanged, once for each
            token.
        issuer: The authorization server that the JWT is meant for. Give it: without it the JWT is
            sent to the first one that the MCP server names, and from then on only to that one.
        scopes: The scopes to request instead of those that the server names.
        store: The place of tokens, as for ``OAuth``.
        client: An ``httpx.AsyncClient`` for these requests, as for ``OAuth``.

    Raises:
        ConfigError: If an argument is wrong. The request that needs a token raises ``AuthError``.

    RFC 7523 section 2.1; SEP-1933.
    """

    def __init__(
        self,
        client_id: str | None = None,
        *,
        assertion: Assertion,
        issuer: str | None = None,
        scopes: Iterable[str] | None = None,
        store: TokenStore | Storage | None = None,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        service = ServiceClient.of(client_id or "", issuer=issuer, scopes=scopes)
        if not callable(assertion) and (not isinstance(assertion, str) or not assertion):
            raise ConfigError(f"{_WORKLOAD}: give the JWT, or a function that returns it")
        grant = _service_grant(
            service, lambda request: workload_identity(request, service, assertion)
        )
        super().__init__(grant, store, client)


# --------------------------------------------------------------------------- flows


def client_credentials(request: LoginRequest, client: ServiceClient) -> Flow[Login]:
    """Return a token for the client's own credentials. Raises ``AuthError``."""
    discovered = yield from _trusted_server(request, client)
    return (
        yield from _request_token(request, discovered, client, {"grant_type": "client_credentials"})
    )


def workload_identity(
    request: LoginRequest, client: ServiceClient, assertion: Assertion
) -> Flow[Login]:
    """Return a token for the platform's JWT. Raises ``AuthError``."""
    discovered = yield from _trusted_server(request, client)
    text = yield from _resolve_assertion(assertion, _WORKLOAD)
    form = {"grant_type": JWT_BEARER, "assertion": text}
    return (yield from _request_token(request, discovered, client, form))


def _trusted_server(request: LoginRequest, client: ServiceClient) -> Flow[DiscoveredServer]:
    """Return the authorization server, if the client's secret may be sent to it.

    Raises ``AuthError`` if it may not.
    """
    last = request.last.key if request.last is not None else None
    bound = client.issuer
    if bound is None and last is not None and last.client == client.client_id:
        bound = last.issuer

    def choose(issuers: tuple[str, ...]) -> str:
        own = [each for each in issuers if bound is not None and same_issuer(each, bound)]
        return check(own[0] if own else issuers[0])

    def check(issuer: str) -> str:
        if bound is None or same_issuer(issuer, bound):
            return issuer
        raise AuthError(
            f"the MCP server names the authorization server {shown(issuer)}, but the credentials "
            f"given belong to {shown(bound)}: nothing was sent. If the new one is right, give it "
            "as issuer=..."
        )

    discovered = yield from discover(request.url, request.metadata_url, choose, request.revision)
    check(discovered.server.issuer)
    return discovered


def _resolve_assertion(assertion: Assertion, what: str) -> Flow[str]:
    """Return the text itself, or what the host's function returns."""
    if not callable(assertion):
        return assertion
    text: str = yield AskHost(assertion, what)
    return text


def _request_token(
    request: LoginRequest,
    discovered: DiscoveredServer,
    client: ServiceClient,
    grant: Mapping[str, str],
) -> Flow[Login]:
    """Return the token for ``grant``, the grant's own form fields. Raises ``AuthError``."""
    server = discovered.server
    prover = request.new_prover(discovered)
    scopes = request.scopes(discovered, client.scopes)
    authentication = client.authentication(server, request.now)
    form = {**grant, "resource": discovered.resource, **scope_field(scopes)}
    payload, authentication = yield from first_token_request(
        server.token_endpoint, form, authentication, dpop=prover
    )
    bound = None if prover is None else prover.text
    token = Token.from_response(payload, request.now(), scopes, dpop_key=bound)
    key = Key(server.issuer, discovered.resource, client.client_id)
    source = Source(key, server.token_endpoint, authentication.method)
    return Login(replace(token, refresh_token=None), source, scopes, prover)


# --------------------------------------------------------- a person of a company


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """A company's identity provider, at which the person is logged in.

    ``token_endpoint`` is the URL at which it exchanges tokens. ``client_id`` (and
    ``client_secret``) are this program's credentials there. ``id_token`` is the ID token of the
    person, or a function, sync or async, that returns one that has not expired. Raises
    ``ConfigError`` if an argument is wrong.
    """

    token_endpoint: str
    client_id: str
    id_token: Assertion = field(repr=False)
    client_secret: str | None = field(default=None, repr=False)
    subject_token_type: str = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - a name
    """The type of ``id_token``: "urn:ietf:params:oauth:token-type:saml2" for a SAML assertion."""

    def __post_init__(self) -> None:
        reason = refused_url(self.token_endpoint)
        if reason is not None:
            raise ConfigError(
                f"IdentityProvider(token_endpoint={shown(self.token_endpoint)!r}): {reason}"
            )
        token = self.id_token
        if not callable(token) and (not isinstance(token, str) or not token):
            raise ConfigError(
                "IdentityProvider(id_token=...): give the token, or a function that returns it"
            )

    @property
    def _authentication(self) -> ClientAuthentication:
        secret = self.client_secret
        methods = ["client_secret_basic", "client_secret_post"]
        return ClientAuthentication.of(Registration(self.client_id, secret), methods)


class EnterpriseAuthorization(Authorization):
    """A login at a company, which decides which MCP servers a person may use.

    The provider issues an ID-JAG, a grant for one MCP server, which that server's authorization
    server exchanges for a token. When the token expires both steps are repeated, so that the
    company can withdraw the authorization.

    Args:
        provider: The company's identity provider.
        client_id: The id of this program at the MCP server's authorization server.
        client_secret: The secret of this program there. Give it or ``private_key``.
        private_key: The private key, as for ``ClientCredentials``.
        key_id, algorithm: As for ``ClientCredentials``.
        issuer: The authorization server that the credentials belong to. Give it: without it they
            are sent to the first one that the MCP server names, and from then on only to that one.
        scopes: The scopes to request instead of those that the server names.
        store: The place of tokens, as for ``OAuth``.
        client: An ``httpx.AsyncClient`` for these requests, as for ``OAuth``.

    Raises:
        ConfigError: If an argument is wrong. The request that needs a token raises ``AuthError``.

    RFC 8693, RFC 7523; the MCP extension "Enterprise-Managed Authorization".
    """

    extensions: tuple[str, ...] = ("io.modelcontextprotocol/enterprise-managed-authorization",)

    @_takes_client_options
    def __init__(
        self, provider: IdentityProvider, client_id: str, **options: Unpack[ClientOptions]
    ) -> None:
        service = ServiceClient.of(client_id, **options)
        if not client_id:
            raise ConfigError("EnterpriseAuthorization: give client_id")
        grant = _service_grant(
            service, lambda request: enterprise(request, service, provider), provider.token_endpoint
        )
        super().__init__(grant, options.get("store"), options.get("client"))


def enterprise(
    request: LoginRequest, client: ServiceClient, provider: IdentityProvider
) -> Flow[Login]:
    """Exchange the ID token for an ID-JAG, and that for a token. Raises ``AuthError``.

    The provider is sent the issuer and the resource as they were published.
    """
    discovered = yield from _trusted_server(request, client)
    text = yield from _resolve_assertion(provider.id_token, "IdentityProvider(id_token=...)")
    form = {
        "grant_type": _TOKEN_EXCHANGE,
        "requested_token_type": _ID_JAG,
        "audience": discovered.server.issuer,
        "resource": discovered.resource,
        "subject_token": text,
        "subject_token_type": provider.subject_token_type,
        **scope_field(request.scopes(discovered, client.scopes)),
    }
    response, _ = yield from first_token_request(
        provider.token_endpoint, form, provider._authentication, what=_WHAT
    )
    kind, grant = response.get("issued_token_type"), response["access_token"]
    if kind != _ID_JAG or not isinstance(grant, str):
        kind = mask(str(kind), [text, provider.client_secret or ""])
        raise AuthError(
            f"{_WHAT} {shown(provider.token_endpoint)} issued {safe_text(kind, 100)!r} instead of "
            "an ID-JAG: perhaps it does not know this MCP server, or the client_id there"
        )
    form = {"grant_type": JWT_BEARER, "assertion": grant}
    return (yield from _request_token(request, discovered, client, form))
