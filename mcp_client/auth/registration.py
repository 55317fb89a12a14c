"""Who we are to an authorization server: given, a document at a URL, kept, or registered now.

2026-07-28 ``basic/authorization/client-registration``, RFC 7591. Credentials belong to the issuer
that gave them and are never shown to another; only the URL of a document is good everywhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ..errors import AuthError, ConfigError
from ..runtime.safe_text import safe_text
from ..transports.http_client import shown
from .discovery import DiscoveredServer, ServerMetadata
from .steps import Fetch, Fetched, Flow, Forget, Listen, Listening, Recall, Remember, Unreachable
from .strict_json import json_object
from .tokens import Registration
from .url_policy import is_loopback_name, refused_url

__all__ = ["ClientIdentity", "RegisteredClient", "identify"]

_WHAT = "a client registration"


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """What the host says about itself."""

    name: str = "mcp-client"
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    issuer: str | None = None
    """The only authorization server that may see ``client_id`` and ``client_secret``."""
    metadata_url: str | None = None
    redirect_uri: str | None = None
    """None for one of this machine's own, made for each login."""

    def __post_init__(self) -> None:
        if self.client_secret is not None and self.client_id is None:
            raise ConfigError("client_secret=... is of no use without client_id=...")
        if self.metadata_url is not None:
            url = urlsplit(self.metadata_url)
            odd = refused_url(self.metadata_url) is not None or "#" in self.metadata_url
            if odd or url.scheme != "https" or url.path in ("", "/"):
                raise ConfigError(
                    f"client_metadata_url={self.metadata_url!r}: give an https URL with a path, "
                    "where the client's metadata document is"
                )
        if self.redirect_uri is not None and refused_url(self.redirect_uri) is not None:
            raise ConfigError(
                f"redirect_uri={self.redirect_uri!r}: give an https URL, or http to this machine"
            )


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """A client as one login uses it."""

    registration: Registration
    redirect_uri: str
    kept: bool = False
    """Whether it was registered in an earlier run, and may be forgotten by now."""


def identify(place: DiscoveredServer, client: RegisteredClient, now: float) -> Flow[ClientIdentity]:
    """Get a client id at the authorization server, by the specification's order of preference.

    Raises ``AuthError`` where there is no way to one.
    """
    server = place.server
    if client.client_id is not None:
        _bound(client, server)
        given = Registration(client.client_id, client.client_secret, issuer=server.issuer)
        return ClientIdentity(given, (yield from _listen(client)))
    if client.metadata_url is not None and server.knows_client_documents:
        document = Registration(client.metadata_url, issuer=server.issuer)
        return ClientIdentity(document, (yield from _listen(client)))
    kept: Registration | None = yield Recall(server.issuer)
    if kept is not None and kept.issuer == server.issuer and kept.usable(now):
        redirect_uri = yield from _listen(client, kept.redirect_uris)
        if redirect_uri in kept.redirect_uris:
            return ClientIdentity(kept, redirect_uri, kept=True)
        # Its port is taken. A server may know no other, so this login gets a client of its own.
        return ClientIdentity((yield from _register(server, client, redirect_uri)), redirect_uri)
    redirect_uri = yield from _listen(client)
    return ClientIdentity((yield from _register(server, client, redirect_uri)), redirect_uri)


def identify_anew(
    place: DiscoveredServer, client: RegisteredClient, forgotten: ClientIdentity
) -> Flow[ClientIdentity]:
    """The authorization server does not know a kept client any more: register another."""
    yield Forget(place.server.issuer)
    redirect_uri = forgotten.redirect_uri
    return ClientIdentity((yield from _register(place.server, client, redirect_uri)), redirect_uri)


def _bound(client: RegisteredClient, server: ServerMetadata) -> None:
    if client.issuer is not None and client.issuer != server.issuer:
        raise AuthError(
            f"the client_id given belongs to the authorization server {shown(client.issuer)}, and "
            f"this server's is {shown(server.issuer)} now: nothing was sent to it. Register a "
            "client there, and give its client_id and issuer"
        )


def _listen(client: RegisteredClient, preferred: tuple[str, ...] = ()) -> Flow[str]:
    if client.redirect_uri is not None:
        preferred = (client.redirect_uri,)
    listening: Listening = yield Listen(preferred)
    return listening.redirect_uri


# ------------------------------------------------------------------ registration


def _register(
    server: ServerMetadata, client: RegisteredClient, redirect_uri: str
) -> Flow[Registration]:
    if server.registration_endpoint is None:
        raise AuthError(_no_way(server, client))
    endpoint = server.registration_endpoint
    reply: Fetched | Unreachable = yield Fetch(
        "POST",
        endpoint,
        _WHAT,
        {"content-type": "application/json", "accept": "application/json"},
        json.dumps(_metadata(server, client, redirect_uri)).encode(),
    )
    if isinstance(reply, Unreachable):
        raise AuthError(safe_text(reply.reason, 400), retryable=True)
    document = json_object(reply.body)
    if reply.status not in (200, 201) or document is None or "error" in document:
        raise _refused(server, endpoint, reply, document)
    registration = _read(document, server, redirect_uri)
    yield Remember(registration)
    return registration


def _metadata(
    server: ServerMetadata, client: RegisteredClient, redirect_uri: str
) -> dict[str, Any]:
    native = is_loopback_name(urlsplit(redirect_uri).hostname or "")
    return {
        "client_name": client.name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": _wanted_method(server),
        "application_type": "native" if native else "web",
    }


def _wanted_method(server: ServerMetadata) -> str:
    """A program on somebody's machine keeps no secret: "none", where the server has that."""
    offered = server.auth_methods
    for method in ("none", "client_secret_basic", "client_secret_post"):
        if offered is None or method in offered:
            return method
    return "none"


def _read(document: Mapping[str, Any], server: ServerMetadata, redirect_uri: str) -> Registration:
    client_id, secret = document.get("client_id"), document.get("client_secret")
    if not isinstance(client_id, str) or not client_id:
        raise AuthError(f"{shown(server.issuer)} registered a client and gave it no client_id")
    method = document.get("token_endpoint_auth_method")
    return Registration(
        client_id=client_id,
        client_secret=secret if isinstance(secret, str) and secret else None,
        token_endpoint_auth_method=method if isinstance(method, str) else None,
        secret_expires_at=_expiry(document.get("client_secret_expires_at")),
        redirect_uris=(redirect_uri,),
        issuer=server.issuer,
    )


def _expiry(value: object) -> float | None:
    """RFC 7591: 0 is for a secret that does not expire."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) or None


def _refused(
    server: ServerMetadata, endpoint: str, reply: Fetched, document: Mapping[str, Any] | None
) -> AuthError:
    code = document.get("error") if document else None
    said = document.get("error_description") if document else None
    text = f"{shown(endpoint)} did not register a client (HTTP {reply.status}"
    text += f", {safe_text(code, 80)})" if isinstance(code, str) else ")"
    if isinstance(said, str) and said:
        text += f": {safe_text(said, 300)}"
    if code == "invalid_redirect_uri":
        text += "; give OAuth(redirect_uri=...) one it takes"
    elif server.guessed:
        text += "; it publishes no metadata either: does it want a token that you have already?"
    return AuthError(
        text,
        oauth_error=code if isinstance(code, str) else None,
        http_status=reply.status,
        retryable=reply.status in (429, 502, 503, 504),
    )


def _no_way(server: ServerMetadata, client: RegisteredClient) -> str:
    text = (
        f"the authorization server {shown(server.issuer)} registers no clients by itself: register "
        "one there by hand, and give OAuth(client_id=..., client_secret=...)"
    )
    if server.knows_client_documents and client.metadata_url is None:
        text += ", or OAuth(client_metadata_url=...), which it takes too"
    return text
