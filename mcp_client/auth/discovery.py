"""From an MCP server's URL to the authorization server that is responsible for it.

2026-07-28 ``basic/authorization/authorization-server-discovery``; 2025-11-25, 2025-06-18 and
2025-03-26 ``basic/authorization``. RFC 9728 names the authorization server, RFC 8414 or OpenID
Connect Discovery its endpoints. A server with no protected-resource metadata is of 2025-03-26: the
authorization server is its own origin, and without metadata there, three default paths.

Whoever writes these documents may be hostile. ``resource`` has to cover the URL we were asked to
connect to, or a server could have us fetch tokens meant for another. ``issuer`` has to be, letter
by letter, what was asked for. Both are sent on as they were published and never put in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..errors import AuthError
from ..protocol.www_authenticate import scopes_of
from ..runtime.safe_text import safe_text
from ..transports.http_client import origin_of, shown
from .steps import Fetch, Fetched, Flow, Unreachable
from .strict_json import json_object
from .url_policy import refused_url

__all__ = ["DiscoveredServer", "ServerMetadata", "canonical", "discover"]

_RESOURCE = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
_WHAT_RESOURCE = "the protected-resource metadata"
_WHAT_SERVER = "the authorization server's metadata"
_MOST = 32
"""Authorization servers looked at in one document."""

Choose = Callable[[tuple[str, ...]], str]
"""Picks one of the issuers a server names."""


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """An authorization server: who it is, where it is asked, what it can do (RFC 8414)."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    scopes: frozenset[str] = frozenset()
    response_types: tuple[str, ...] | None = None
    auth_methods: tuple[str, ...] | None = None
    """``token_endpoint_auth_methods_supported``; None where it does not say."""
    challenge_methods: tuple[str, ...] | None = None
    """``code_challenge_methods_supported``; None where it does not say."""
    signing_algorithms: tuple[str, ...] | None = None
    """``token_endpoint_auth_signing_alg_values_supported``."""
    dpop_algorithms: tuple[str, ...] | None = None
    """``dpop_signing_alg_values_supported``; None where it knows no DPoP."""
    says_iss: bool = False
    """Whether each of its redirects names it (RFC 9207)."""
    knows_client_documents: bool = False
    """Whether a client's id may be the URL of its metadata."""
    guessed: bool = False
    """Whether it published nothing, and these are the default endpoints of 2025-03-26."""


@dataclass(frozen=True, slots=True)
class DiscoveredServer:
    """What discovery found: where tokens for this server come from, and what to ask for."""

    resource: str
    """What goes into every ``resource`` parameter, byte for byte."""
    server: ServerMetadata
    scopes: frozenset[str] = frozenset()
    """``scopes_supported`` of the resource; empty where it does not say."""
    dpop_only: bool = False
    """``dpop_bound_access_tokens_required`` of the resource."""


def discover(
    url: str,
    metadata_url: str | None,
    choose: Choose,
    revision: str | None = None,
) -> Flow[DiscoveredServer]:
    """Find who gives tokens for the MCP server at ``url``.

    ``metadata_url`` is the ``resource_metadata`` of its challenge; ``revision`` goes out as
    ``MCP-Protocol-Version``. Raises ``AuthError`` where a document is refused, or a server does
    not answer.
    """
    headers = {} if revision is None else {"mcp-protocol-version": revision}
    document = yield from _resource_document(url, metadata_url, headers)
    if document is None:
        return (yield from _without_resource_metadata(url, headers))
    resource = _resource(document, url)
    servers = _names(document, "authorization_servers")[:_MOST]
    if not servers:
        raise AuthError(f"{_WHAT_RESOURCE} of {shown(url)} names no authorization server")
    issuer = choose(servers)
    server = yield from _server(issuer, headers)
    if server is None:
        raise AuthError(
            f"the authorization server {shown(issuer)} publishes no metadata at any of the "
            "well-known places"
        )
    return DiscoveredServer(
        resource,
        server,
        scopes_of(" ".join(_names(document, "scopes_supported"))),
        document.get("dpop_bound_access_tokens_required") is True,
    )


# ------------------------------------------------------------------ the resource


def _resource_document(
    url: str, metadata_url: str | None, headers: Mapping[str, str]
) -> Flow[dict[str, Any] | None]:
    if metadata_url is not None:
        found = yield from _document(metadata_url, _WHAT_RESOURCE, headers)
        if found is None:
            raise AuthError(
                f"the server's challenge says that {_WHAT_RESOURCE} is at {shown(metadata_url)}, "
                "and there is none"
            )
        return found
    for candidate in _resource_places(url):
        found = yield from _document(candidate, _WHAT_RESOURCE, headers)
        if found is not None:
            return found
    return None


def _resource_places(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    query = f"?{parts.query}" if parts.query else ""
    if path := parts.path.rstrip("/"):
        yield f"{base}{_RESOURCE}{path}{query}"
    yield f"{base}{_RESOURCE}"


def _resource(document: Mapping[str, Any], url: str) -> str:
    """The ``resource`` of a document, if the MCP server's URL lies within it."""
    resource = document.get("resource")
    if not isinstance(resource, str) or not resource:
        raise AuthError(f"{_WHAT_RESOURCE} of {shown(url)} has no resource in it")
    if not covers(resource, url):
        raise AuthError(
            f"{_WHAT_RESOURCE} of {shown(url)} is about another resource, "
            f"{safe_text(resource, 200)!r}: a token for that one is not for this server to see"
        )
    return resource


def covers(resource: str, url: str) -> bool:
    """Whether ``url`` is ``resource`` or lies below it: same origin, and a path that begins so."""
    try:
        inner, outer = urlsplit(url), urlsplit(resource)
        same = origin_of(url) == origin_of(resource)
    except ValueError:
        return False
    if not same or "#" in resource or "@" in outer.netloc:
        return False
    if outer.query and outer.query != inner.query:
        return False
    above, here = outer.path.rstrip("/"), inner.path.rstrip("/")
    return here == above or here.startswith(above + "/")


def canonical(url: str) -> str:
    """The resource identifier of a server that publishes none (RFC 8707 section 2)."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2].lower()
    path = "" if parts.path == "/" and not parts.query else parts.path
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme.lower()}://{place}{path}{query}"


# ------------------------------------------------------- the authorization server


def _server(
    issuer: str, headers: Mapping[str, str], *, guessed: bool = False
) -> Flow[ServerMetadata | None]:
    """The metadata of ``issuer``; None where it publishes none."""
    reason = refused_url(issuer)
    if reason is None and ("?" in issuer or "#" in issuer):
        reason = "it has a query or a fragment"
    if reason is not None:
        raise AuthError(f"the authorization server {safe_text(issuer, 100)!r} is refused: {reason}")
    failed: AuthError | None = None
    for candidate in _server_places(issuer):
        try:
            document = yield from _document(candidate, _WHAT_SERVER, headers)
        except AuthError as error:
            # One of the places may answer with an error for what it does not know.
            failed = failed or error
            continue
        if document is not None:
            return _checked(document, issuer, guessed=guessed)
    if failed is not None:
        raise failed
    return None


def _server_places(issuer: str) -> Iterator[str]:
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{base}{_OAUTH}{path}"
    yield f"{base}{_OPENID}{path}"
    if path:
        yield f"{base}{path}{_OPENID}"


def _without_resource_metadata(url: str, headers: Mapping[str, str]) -> Flow[DiscoveredServer]:
    parts = urlsplit(url)
    issuer = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    server = yield from _server(issuer, headers, guessed=True)
    if server is None:
        server = ServerMetadata(
            issuer,
            f"{issuer}/token",
            f"{issuer}/authorize",
            f"{issuer}/register",
            guessed=True,
        )
    return DiscoveredServer(canonical(url), server)


def _checked(document: Mapping[str, Any], issuer: str, *, guessed: bool = False) -> ServerMetadata:
    """Metadata whose every endpoint may be used. Raises ``AuthError``."""
    said = document.get("issuer")
    if guessed and said == f"{issuer}/":
        issuer = said  # nobody told us how this origin writes its name
    if said != issuer:
        raise AuthError(
            f"{_WHAT_SERVER} of {shown(issuer)} says that it is of {safe_text(said, 200)!r}; "
            "it is not used, for it could send us to anybody"
        )
    token_endpoint = _endpoint(document, "token_endpoint", issuer)
    if token_endpoint is None:
        raise AuthError(f"{_WHAT_SERVER} of {shown(issuer)} has no token_endpoint")
    return ServerMetadata(
        issuer=issuer,
        token_endpoint=token_endpoint,
        authorization_endpoint=_endpoint(document, "authorization_endpoint", issuer),
        registration_endpoint=_endpoint(document, "registration_endpoint", issuer),
        scopes=scopes_of(" ".join(_names(document, "scopes_supported"))),
        response_types=_maybe(document, "response_types_supported"),
        auth_methods=_maybe(document, "token_endpoint_auth_methods_supported"),
        challenge_methods=_maybe(document, "code_challenge_methods_supported"),
        signing_algorithms=_maybe(document, "token_endpoint_auth_signing_alg_values_supported"),
        dpop_algorithms=_maybe(document, "dpop_signing_alg_values_supported"),
        says_iss=document.get("authorization_response_iss_parameter_supported") is True,
        knows_client_documents=document.get("client_id_metadata_document_supported") is True,
    )


def _endpoint(document: Mapping[str, Any], name: str, issuer: str) -> str | None:
    value = document.get(name)
    if value is None:
        return None
    reason = refused_url(value) if isinstance(value, str) else "it is no string"
    if reason is None and "#" in value:
        reason = "it has a fragment"
    if reason is not None:
        raise AuthError(f"the {name} of {shown(issuer)} is refused: {reason}")
    return str(value)


# ------------------------------------------------------------------- documents


def _document(url: str, what: str, headers: Mapping[str, str]) -> Flow[dict[str, Any] | None]:
    """The JSON object at ``url``; None where there is none. Raises where it cannot be told."""
    reply: Fetched | Unreachable = yield Fetch("GET", url, what, headers)
    if isinstance(reply, Unreachable):
        raise AuthError(safe_text(reply.reason, 400), retryable=True)
    if reply.status == 200:
        # A page for everything is what many servers have at paths they do not know.
        return json_object(reply.body)
    if 400 <= reply.status < 500 and reply.status not in (408, 429):
        return None
    raise AuthError(
        f"{shown(url)} answered HTTP {reply.status} where {what} should be",
        http_status=reply.status,
        retryable=True,
    )


def _names(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = document.get(name)
    if not isinstance(value, list):
        return ()
    return tuple(item for item in value if isinstance(item, str))


def _maybe(document: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    return _names(document, name) if isinstance(document.get(name), list) else None
