"""A program that is trusted itself: ``HttpServer(url, auth=ClientCredentials(...))``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .flow import Login, LoginRequest
from .httpx_auth import Authorization
from .service import Machine, Unattended, obtain, place_of
from .steps import Flow
from .tokens import TokenStore

if TYPE_CHECKING:
    import httpx

__all__ = ["ClientCredentials", "client_credentials"]


class ClientCredentials(Authorization):
    """A client that was registered by hand gets tokens for itself; no person is asked.

    It says who it is with ``client_secret``, or better with ``private_key``, which stays here:
    PEM text (RSA, Ed25519 or EC, no password) or a JWK's JSON, with ``key_id`` if the server wants
    one and ``algorithm`` if not the one that fits key and server ("ES256" for a P-256 key). Keys
    need the extra ``auth``: ``pip install 'mcp-client[auth]'``.

    ``issuer`` is the authorization server the credentials belong to. Give it: without it they go
    to the first one that the MCP server names, and from then on to that one only. ``scopes`` are
    asked for in place of those the server names. ``store`` and ``client`` are as for ``OAuth``.

    RFC 6749 section 4.4, RFC 7523; the MCP extension "OAuth Client Credentials". Raises
    ``ConfigError`` here, and ``AuthError`` in the request that needed the token.
    """

    extensions = ("io.modelcontextprotocol/oauth-client-credentials",)

    def __init__(
        self,
        client_id: str,
        *,
        client_secret: str | None = None,
        private_key: str | bytes | None = None,
        key_id: str | None = None,
        algorithm: str | None = None,
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
            algorithm=algorithm,
            issuer=issuer,
            scopes=scopes,
        )
        if not client_id or (machine.secret is None and machine.key is None):
            raise ConfigError(
                "ClientCredentials: give client_id, and client_secret=... or private_key=..."
            )
        grant = Unattended(machine, lambda want: client_credentials(want, machine))
        super().__init__(grant, store, client)


def client_credentials(want: LoginRequest, machine: Machine) -> Flow[Login]:
    """The client's own credentials for a token. Raises ``AuthError``."""
    place = yield from place_of(want, machine)
    return (yield from obtain(want, place, machine, {"grant_type": "client_credentials"}))
