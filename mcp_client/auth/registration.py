"""Our client at an authorization server: pre-registered, a document at a URL, stored, or new.

2026-07-28 ``basic/authorization/client-registration``, RFC 7591. Credentials belong to the issuer
that gave them and are never sent to another; only the URL of a document is valid everywhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from ..errors import Advice, AuthError, ConfigError
from ..protocol.headers import scopes_of
from ..runtime.safe_text import safe_text
from ..runtime.urls import is_loopback
from ..transports.http_client import shown
from .discovery import DiscoveredServer, ServerMetadata, same_issuer
from .one_issuer import check_registration
from .safe_fetch import refused_url
from .steps import Fetch, Fetched, Flow, InStore, Listen, Unreachable, words_of
from .tokens import Registration, Source

__all__ = [
    "DEVICE_CODE",
    "ClientIdentity",
    "RegisteredClient",
    "identify",
    "known_client",
    "register_again",
    "scope_field",
]

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
_WHAT = "a client registration"
_SCOPE_REFUSED = frozenset({"invalid_client_metadata", "invalid_scope"})


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """A host's description of its client."""

    name: str = "mcp-client"
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    issuer: str | None = None
    """The only authorization server that may see ``client_id`` and ``client_secret``."""
    metadata_url: str | None = None
    redirect_uri: str | None = None
    """The redirect URI; None for a free port of this machine, chosen for each login."""

    def __post_init__(self) -> None:
        if self.client_secret is not None and self.client_id is None:
            raise ConfigError("client_secret=... needs client_id=..., too")
        if self.metadata_url is not None:
            url = urlsplit(self.metadata_url)
            bad = refused_url(self.metadata_url) is not None or "#" in self.metadata_url
            if bad or url.scheme != "https" or url.path in ("", "/"):
                raise ConfigError(
                    f"client_metadata_url={shown(self.metadata_url)!r}: give an https URL with a "
                    "path, that of the client's metadata document"
                )
        if self.redirect_uri is not None and refused_url(self.redirect_uri) is not None:
            raise ConfigError(
                f"redirect_uri={shown(self.redirect_uri)!r}: give an https URL, or http to this "
                "machine"
            )

    def bound_to(self, last: Source | None) -> RegisteredClient:
        """Return the client, bound to the server that has had its secret if the host names none."""
        if self.client_secret is None or self.issuer is not None or last is None:
            return self
        return replace(self, issuer=last.key.issuer) if last.key.client == self.client_id else self

    def belongs_to(self, issuer: str) -> bool:
        """Whether the client's credentials belong to ``issuer``."""
        return self.issuer is None or same_issuer(self.issuer, issuer)

    def owns(self, source: Source) -> bool:
        """Whether a token from ``source`` belongs to this client.

        True if the host gave no client.
        """
        key = source.key
        return self.client_id is None or (
            key.client == self.client_id and self.belongs_to(key.issuer)
        )


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """A client as one login uses it."""

    registration: Registration
    redirect_uri: str
    kept: bool = False
    """Whether it was registered by an earlier login, so that the server may have forgotten it."""


def known_client(
    discovered: DiscoveredServer,
    client: RegisteredClient,
    now: float,
    scopes: frozenset[str] = frozenset(),
) -> Flow[Registration | None]:
    """Return the known client at an authorization server, by the specification's preference.

    Returns None if one has to be registered. That includes a stored client that may not request
    ``scopes``: many servers then grant fewer without an error. Raises ``AuthError`` if the host's
    client belongs to another authorization server.
    """
    server = discovered.server
    if client.client_id is not None:
        if not client.belongs_to(server.issuer):
            raise AuthError(
                f"the client_id given belongs to the authorization server "
                f"{shown(client.issuer or '')}, but this MCP server now uses "
                f"{shown(server.issuer)}: nothing was sent to it. Register a client there, and "
                "give its client_id and issuer"
            )
        return Registration(client.client_id, client.client_secret, issuer=server.issuer)
    if client.metadata_url is not None and server.supports_client_documents:
        return Registration(client.metadata_url, issuer=server.issuer)
    issuer = server.issuer
    stored: Registration | None = yield InStore(lambda store: store.load_registration(issuer))
    if stored is None or stored.issuer != server.issuer or not stored.usable(now):
        return None
    return stored if stored.may_request(scopes) else None


def identify(
    discovered: DiscoveredServer,
    client: RegisteredClient,
    known: Registration | None,
    scopes: frozenset[str] = frozenset(),
) -> Flow[ClientIdentity]:
    """Listen for the redirect, with the known client or a new one, registered for ``scopes``.

    Raises ``AuthError`` if no client can be registered.
    """
    server = discovered.server
    own = known is not None and not known.redirect_uris
    redirect_uri = yield from _listen(client, known.redirect_uris if known is not None else ())
    if known is not None and (own or redirect_uri in known.redirect_uris):
        return ClientIdentity(known, redirect_uri, kept=not own)
    # If the port of a stored client is taken, this login gets a client of its own: the server may
    # accept no other redirect URI from the stored one.
    registration = yield from _register(server, client, redirect_uri, scopes)
    return ClientIdentity(registration, redirect_uri)


def register_again(
    discovered: DiscoveredServer,
    client: RegisteredClient,
    forgotten: ClientIdentity,
    scopes: frozenset[str] = frozenset(),
) -> Flow[ClientIdentity]:
    """Replace a stored client that the authorization server no longer knows or accepts."""
    server, redirect_uri = discovered.server, forgotten.redirect_uri
    client_id = forgotten.registration.client_id
    yield InStore(lambda store: store.delete_registration(server.issuer, client_id))
    registration = yield from _register(server, client, redirect_uri, scopes)
    return ClientIdentity(registration, redirect_uri)


def _listen(client: RegisteredClient, preferred: tuple[str, ...] = ()) -> Flow[str]:
    if client.redirect_uri is not None:
        preferred = (client.redirect_uri,)
    redirect_uri: str = yield Listen(preferred)
    return redirect_uri


# ------------------------------------------------------------------ registration


def _register(
    server: ServerMetadata, client: RegisteredClient, redirect_uri: str, scopes: frozenset[str]
) -> Flow[Registration]:
    """Register with ``scopes``, because some servers grant a client no others later.

    A server that refuses them is asked again without, so that it uses its default.
    """
    try:
        document = yield from _post_registration(server, client, redirect_uri, scopes)
    except AuthError as error:
        if not scopes or error.oauth_error not in _SCOPE_REFUSED:
            raise
        document = yield from _post_registration(server, client, redirect_uri, frozenset())
    registration = _read(document, server, redirect_uri, scopes)
    if registration.client_secret is not None:
        check_registration(server, client.issuer)
    yield InStore(lambda store: store.save_registration(registration))
    return registration


def _post_registration(
    server: ServerMetadata, client: RegisteredClient, redirect_uri: str, scopes: frozenset[str]
) -> Flow[dict[str, Any]]:
    endpoint = server.registration_endpoint
    if endpoint is None:
        raise _cannot_register(server, client)
    response: Fetched | Unreachable = yield Fetch(
        "POST",
        endpoint,
        _WHAT,
        {"content-type": "application/json", "accept": "application/json"},
        json.dumps(_metadata(server, client, redirect_uri, scopes)).encode(),
    )
    if isinstance(response, Unreachable):
        raise AuthError(safe_text(response.reason, 400), retryable=not response.answered)
    document = response.json
    if not response.is_success or document is None or "error" in document:
        raise _refusal(server, endpoint, response, document)
    return document


def _metadata(
    server: ServerMetadata, client: RegisteredClient, redirect_uri: str, scopes: frozenset[str]
) -> dict[str, Any]:
    native = is_loopback(urlsplit(redirect_uri).hostname or "")
    device = () if server.device_endpoint is None else (DEVICE_CODE,)
    return {
        **scope_field(scopes),
        "client_name": client.name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token", *device],
        "response_types": ["code"],
        "token_endpoint_auth_method": _authentication_method(server),
        "application_type": "native" if native else "web",
    }


def _authentication_method(server: ServerMetadata) -> str:
    """Return the method "none" if the server supports it, else another one that it supports.

    A program on a user's machine cannot protect a secret.
    """
    offered = server.auth_methods
    for method in ("none", "client_secret_basic", "client_secret_post"):
        if offered is None or method in offered:
            return method
    return "none"


def _read(
    document: Mapping[str, Any], server: ServerMetadata, redirect_uri: str, asked: frozenset[str]
) -> Registration:
    client_id, secret = document.get("client_id"), document.get("client_secret")
    if not isinstance(client_id, str) or not client_id:
        raise AuthError(f"{shown(server.issuer)} registered a client without a client_id")
    method, scope = document.get("token_endpoint_auth_method"), document.get("scope")
    return Registration(
        client_id=client_id,
        client_secret=secret if isinstance(secret, str) and secret else None,
        token_endpoint_auth_method=method if isinstance(method, str) else None,
        secret_expires_at=_expiry(document.get("client_secret_expires_at")),
        redirect_uris=(redirect_uri,),
        issuer=server.issuer,
        # With what was asked for: asking for it again would have the same result.
        scopes=scopes_of(scope) | asked if isinstance(scope, str) else None,
    )


def _expiry(value: object) -> float | None:
    """Return when the secret expires; 0 means never (RFC 7591)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) or None


def _refusal(
    server: ServerMetadata, endpoint: str, response: Fetched, document: Mapping[str, Any] | None
) -> AuthError:
    code = document.get("error") if document else None
    reason = words_of(response, code=code if isinstance(code, str) else None)
    text = f"{shown(endpoint)} did not register a client (HTTP {response.status}"
    text += f", {safe_text(code, 80)})" if isinstance(code, str) else ")"
    text += f": {reason}" if reason else ""
    if code == "invalid_redirect_uri":
        text += "; give OAuth(redirect_uri=...) one that it accepts"
    elif server.guessed:
        text += "; it does not publish metadata either: perhaps it expects a token you already have"
    return AuthError(
        text,
        oauth_error=code if isinstance(code, str) else None,
        http_status=response.status,
        retryable=response.status in (429, 502, 503, 504),
    )


def _cannot_register(server: ServerMetadata, client: RegisteredClient) -> AuthError:
    how = "register one there by hand, and give OAuth(client_id=..., client_secret=...)"
    if server.supports_client_documents and client.metadata_url is None:
        how += ", or OAuth(client_metadata_url=...), which it supports as well"
    return AuthError(
        f"the authorization server {shown(server.issuer)} "
        f"{server.why_missing('registration_endpoint')}, so a client cannot be registered "
        "automatically",
        advice=Advice(how, "program"),
    )


def scope_field(scopes: frozenset[str]) -> dict[str, str]:
    """Return the parameter ``scope``, or nothing: an empty one is not the same as none."""
    return {"scope": " ".join(sorted(scopes))} if scopes else {}
