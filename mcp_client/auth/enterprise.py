"""A person the company vouches for: ``HttpServer(url, auth=EnterpriseAuthorization(...))``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import AuthError, ConfigError
from ..runtime.safe_text import safe_text
from ..transports.http_client import shown
from .flow import Login, LoginRequest
from .httpx_auth import Authorization
from .service import (
    JWT_BEARER,
    Assertion,
    Machine,
    Unattended,
    obtain,
    place_of,
    scope_field,
    scopes_for,
    supplied,
)
from .steps import Flow
from .token_endpoint import ClientAuthentication, token_request
from .tokens import TokenStore
from .url_policy import refused_url

if TYPE_CHECKING:
    import httpx

__all__ = ["EnterpriseAuthorization", "IdentityProvider", "enterprise"]

_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a grant's name
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_WHAT = "the identity provider's token endpoint"


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """The company's identity provider, as the person logged in there.

    ``client_id`` (and ``client_secret``) are what the provider knows this program by. ``id_token``
    is what it gave for the person, or a function, sync or async, that returns one which has not
    expired. Raises ``ConfigError`` for what cannot be.
    """

    token_endpoint: str
    client_id: str
    id_token: Assertion = field(repr=False)
    client_secret: str | None = field(default=None, repr=False)
    subject_token_type: str = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - a name
    """With "urn:ietf:params:oauth:token-type:saml2" ``id_token`` is a SAML assertion."""

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
        method = "none" if self.client_secret is None else "client_secret_basic"
        return ClientAuthentication(self.client_id, method, self.client_secret)


class EnterpriseAuthorization(Authorization):
    """The company decides which MCP servers a person may use; the person logs in at none of them.

    The provider is asked for an ID-JAG, a grant for one MCP server, which that server's
    authorization server takes for a token. There this program is known by ``client_id`` and
    ``client_secret``, or ``private_key`` (with ``key_id``) as for ``ClientCredentials``. When the
    token expires both are asked again, so that the company's no takes effect.

    Give ``issuer``, the authorization server the credentials belong to: without it they go to the
    first one that the MCP server names, and from then on to that one only. ``scopes``, ``store``
    and ``client`` are as for ``OAuth``.

    RFC 8693, RFC 7523; the MCP extension "Enterprise-Managed Authorization". Raises
    ``ConfigError`` here, and ``AuthError`` in the request that needed the token.
    """

    extensions = ("io.modelcontextprotocol/enterprise-managed-authorization",)

    def __init__(
        self,
        provider: IdentityProvider,
        client_id: str,
        *,
        client_secret: str | None = None,
        private_key: str | bytes | None = None,
        key_id: str | None = None,
        issuer: str | None = None,
        scopes: Iterable[str] | None = None,
        store: TokenStore | None = None,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        machine = Machine.of(
            client_id,
            client_secret=client_secret,
            private_key=private_key,
            key_id=key_id,
            issuer=issuer,
            scopes=scopes,
        )
        if not client_id:
            raise ConfigError("EnterpriseAuthorization: give client_id")
        grant = Unattended(
            machine,
            lambda want: enterprise(want, machine, provider),
            own_urls=(provider.token_endpoint,),
        )
        super().__init__(grant, store, client)


def enterprise(want: LoginRequest, machine: Machine, provider: IdentityProvider) -> Flow[Login]:
    """A person's ID token for an ID-JAG, at the provider; that for a token. Raises ``AuthError``.

    The provider is told the issuer and the resource as they were published.
    """
    place = yield from place_of(want, machine)
    text = yield from supplied(provider.id_token, "IdentityProvider(id_token=...)")
    form = {
        "grant_type": _TOKEN_EXCHANGE,
        "requested_token_type": _ID_JAG,
        "audience": place.server.issuer,
        "resource": place.resource,
        "subject_token": text,
        "subject_token_type": provider.subject_token_type,
        **scope_field(scopes_for(want, place, machine)),
    }
    answer = yield from token_request(
        provider.token_endpoint, form, provider.authentication, what=_WHAT
    )
    kind, grant = answer.get("issued_token_type"), answer["access_token"]
    if kind != _ID_JAG or not isinstance(grant, str):
        raise AuthError(
            f"{_WHAT} {shown(provider.token_endpoint)} gave no ID-JAG, but "
            f"{safe_text(kind, 100)!r}: does it know this MCP server, and the client's id there?"
        )
    form = {"grant_type": JWT_BEARER, "assertion": grant}
    return (yield from obtain(want, place, machine, form))
