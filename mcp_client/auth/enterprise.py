"""A person authorized by the company: ``HttpServer(url, auth=EnterpriseAuthorization(...))``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Unpack

from ..errors import AuthError, ConfigError
from ..runtime.masking import mask
from ..runtime.safe_text import safe_text
from ..transports.http_client import shown
from .flow import Login, LoginRequest
from .httpx_auth import Authorization
from .registration import scope_field
from .service import (
    JWT_BEARER,
    Assertion,
    ClientOptions,
    ServiceClient,
    ServiceGrant,
    request_token,
    resolve_assertion,
    scopes_for,
    takes_client_options,
    trusted_server,
)
from .steps import Flow
from .token_endpoint import ClientAuthentication, first_token_request
from .tokens import Registration
from .url_policy import refused_url

__all__ = ["EnterpriseAuthorization", "IdentityProvider", "enterprise"]

_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a grant's name
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_WHAT = "the identity provider's token endpoint"


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """The company's identity provider, where the person is logged in.

    ``client_id`` (and ``client_secret``) are this program's credentials there. ``id_token`` is the
    ID token of the person, or a function, sync or async, that returns one that has not expired.
    Raises ``ConfigError`` if an argument is wrong.
    """

    token_endpoint: str
    client_id: str
    id_token: Assertion = field(repr=False)
    client_secret: str | None = field(default=None, repr=False)
    subject_token_type: str = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - a name
    """With "urn:ietf:params:oauth:token-type:saml2", ``id_token`` is a SAML assertion."""

    def __post_init__(self) -> None:
        reason = refused_url(self.token_endpoint)
        if reason is not None:
            raise ConfigError(
                f"IdentityProvider(token_endpoint={shown(self.token_endpoint)!r}): {reason}"
            )
        given = self.id_token
        if not callable(given) and (not isinstance(given, str) or not given):
            raise ConfigError(
                "IdentityProvider(id_token=...): give the token, or a function that returns it"
            )

    @property
    def authentication(self) -> ClientAuthentication:
        secret = self.client_secret
        methods = ["client_secret_basic", "client_secret_post"]
        return ClientAuthentication.of(Registration(self.client_id, secret), methods)


class EnterpriseAuthorization(Authorization):
    """The company decides which MCP servers a person may use; the person logs in only there.

    The provider issues an ID-JAG, a grant for one MCP server, which that server's authorization
    server exchanges for a token. ``client_id`` and ``client_secret``, or ``private_key`` (with
    ``key_id`` and ``algorithm``) as for ``ClientCredentials``, are this program's credentials at
    that authorization server. When the token expires both steps are repeated, so that the company
    can withdraw the authorization.

    Give ``issuer``, the authorization server the credentials belong to: without it they are sent
    to the first one that the MCP server names, and from then on only to that one. ``scopes``,
    ``store`` and ``client`` are as for ``OAuth``.

    RFC 8693, RFC 7523; the MCP extension "Enterprise-Managed Authorization". Raises
    ``ConfigError`` here, and ``AuthError`` in the request that needs a token.
    """

    extensions = ("io.modelcontextprotocol/enterprise-managed-authorization",)

    @takes_client_options
    def __init__(
        self, provider: IdentityProvider, client_id: str, **options: Unpack[ClientOptions]
    ) -> None:
        service = ServiceClient.of(client_id, **options)
        if not client_id:
            raise ConfigError("EnterpriseAuthorization: give client_id")
        grant = ServiceGrant(
            service,
            lambda request: enterprise(request, service, provider),
            own_urls=(provider.token_endpoint,),
        )
        super().__init__(grant, options.get("store"), options.get("client"))


def enterprise(
    request: LoginRequest, client: ServiceClient, provider: IdentityProvider
) -> Flow[Login]:
    """Exchange the ID token for an ID-JAG, and that for a token. Raises ``AuthError``.

    The provider is sent the issuer and the resource as they were published.
    """
    discovered = yield from trusted_server(request, client)
    text = yield from resolve_assertion(provider.id_token, "IdentityProvider(id_token=...)")
    form = {
        "grant_type": _TOKEN_EXCHANGE,
        "requested_token_type": _ID_JAG,
        "audience": discovered.server.issuer,
        "resource": discovered.resource,
        "subject_token": text,
        "subject_token_type": provider.subject_token_type,
        **scope_field(scopes_for(request, discovered, client)),
    }
    response, _ = yield from first_token_request(
        provider.token_endpoint, form, provider.authentication, what=_WHAT
    )
    kind, grant = response.get("issued_token_type"), response["access_token"]
    if kind != _ID_JAG or not isinstance(grant, str):
        kind = mask(str(kind), [text, provider.client_secret or ""])
        raise AuthError(
            f"{_WHAT} {shown(provider.token_endpoint)} issued {safe_text(kind, 100)!r} instead of "
            "an ID-JAG: perhaps it does not know this MCP server, or the client_id there"
        )
    form = {"grant_type": JWT_BEARER, "assertion": grant}
    return (yield from request_token(request, discovered, client, form))
