"""Discover the authorization server that is responsible for an MCP server's URL.

2026-07-28 ``basic/authorization/authorization-server-discovery``; 2025-11-25, 2025-06-18 and
2025-03-26 ``basic/authorization``. RFC 9728 names the authorization server, RFC 8414 or OpenID
Connect Discovery its endpoints. A server without protected-resource metadata is treated as one of
2025-03-26: its own origin is the authorization server, with three default paths if that publishes
no metadata.

The author of these documents may be hostile. ``resource`` must cover the URL that the host gave,
otherwise a server could make the client obtain tokens meant for another. ``issuer`` must be exactly
the one that was requested; only a slash after the host may differ. Both are sent on as published,
without normalization.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from ..errors import AuthError
from ..protocol.headers import scopes_of
from ..runtime.safe_text import safe_text
from ..transports.http_client import origin_of, shown
from .safe_fetch import is_url, refused_url
from .steps import Accepted, Fetch, Fetched, Flow, Unreachable

__all__ = [
    "DiscoveredServer",
    "ServerMetadata",
    "canonical",
    "discover",
    "same_issuer",
    "server_metadata",
]

_RESOURCE = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
_ENDPOINTS = (
    *("token_endpoint", "authorization_endpoint", "registration_endpoint", "revocation_endpoint"),
    *("pushed_authorization_request_endpoint", "device_authorization_endpoint"),
)
_WHAT_RESOURCE = "the protected-resource metadata"
_WHAT_SERVER = "the authorization server's metadata"
_NEXT_PLACE = "its protected-resource metadata cannot be used at the first place to look for them"
_MAX_SERVERS = 32
"""Authorization servers read from one document."""

Choose = Callable[[tuple[str, ...]], str]
"""Chooses one of the issuers that a server names."""


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """An authorization server: its issuer, its endpoints and its capabilities (RFC 8414)."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    scopes: frozenset[str] = frozenset()
    response_types: tuple[str, ...] | None = None
    auth_methods: tuple[str, ...] | None = None
    """``token_endpoint_auth_methods_supported``; None if the server does not state it."""
    challenge_methods: tuple[str, ...] | None = None
    """``code_challenge_methods_supported``; None if the server does not state it."""
    signing_algorithms: tuple[str, ...] | None = None
    """``token_endpoint_auth_signing_alg_values_supported``."""
    dpop_algorithms: tuple[str, ...] | None = None
    """``dpop_signing_alg_values_supported``; None if it does not support DPoP."""
    promises_iss: bool = False
    """Whether each of its redirects has ``iss`` (RFC 9207)."""
    supports_client_documents: bool = False
    """Whether a client's id may be the URL of its metadata."""
    guessed: bool = False
    """Whether it publishes no metadata, and these are the default endpoints of 2025-03-26."""
    revocation_endpoint: str | None = None
    pushed_endpoint: str | None = None
    """``pushed_authorization_request_endpoint`` (RFC 9126)."""
    device_endpoint: str | None = None
    """``device_authorization_endpoint`` (RFC 8628)."""
    named: str | None = None
    """The issuer as the MCP server names it; it may differ by the slash after the host."""
    requires_pushed: bool = False
    """``require_pushed_authorization_requests``."""
    at_root: bool = False
    """Whether its own origin published the metadata, in a well-known document at its root."""
    at_path: bool = False
    """Whether its own origin published them in a well-known document below the issuer's path."""
    unusable: Mapping[str, str] = field(default_factory=dict)
    """Endpoints in its metadata that must not be used, with the reason."""

    def why_missing(self, name: str) -> str:
        """Return the words of an error for a missing or unusable ``name``, an optional endpoint."""
        reason = self.unusable.get(name)
        return f"has no {name}" if reason is None else f"has an unusable {name}: {reason}"


@dataclass(frozen=True, slots=True)
class DiscoveredServer:
    """The result of discovery: the authorization server, and what to request of it."""

    resource: str
    """The value of every ``resource`` parameter, byte for byte."""
    server: ServerMetadata
    scopes: frozenset[str] = frozenset()
    """``scopes_supported`` of the resource, or if it publishes no metadata, of the authorization
    server; empty if neither states any."""
    dpop_only: bool = False
    """``dpop_bound_access_tokens_required`` of the resource."""


def discover(
    url: str,
    metadata_url: str | None,
    choose: Choose,
    revision: str | None = None,
    *,
    http_hosts: Collection[str] = (),
) -> Flow[DiscoveredServer]:
    """Find the authorization server for the MCP server at ``url``.

    Args:
        url: The MCP server's URL.
        metadata_url: The ``resource_metadata`` of the server's challenge, if any.
        choose: Chooses one of the issuers that the resource names.
        revision: The revision to send as ``MCP-Protocol-Version``, if known.
        http_hosts: Hosts for which plain http is accepted.

    Raises:
        AuthError: If a document is invalid or a server does not respond.
    """
    headers = {} if revision is None else {"mcp-protocol-version": revision}
    if metadata_url is not None and not _names_a_place(metadata_url, url, http_hosts):
        yield Accepted("the resource_metadata of its challenge is not a URL, and is ignored")
        metadata_url = None
    document, failed = yield from _resource_document(url, metadata_url, headers)
    if document is None:
        return (
            yield from _without_resource_metadata(url, metadata_url, headers, http_hosts, failed)
        )
    resource = _resource(document, url)
    servers = _names(document, "authorization_servers")[:_MAX_SERVERS]
    if not servers:
        raise AuthError(f"{_WHAT_RESOURCE} of {shown(url)} does not name an authorization server")
    issuer = choose(servers)
    server = yield from server_metadata(issuer, headers, http_hosts)
    if server is None:
        raise AuthError(
            f"the authorization server {shown(issuer)} does not publish metadata "
            "at its well-known URLs"
        )
    return DiscoveredServer(
        resource,
        server,
        scopes_of(" ".join(_names(document, "scopes_supported"))),
        document.get("dpop_bound_access_tokens_required") is True,
    )


# ------------------------------------------------------------------ the resource


def _names_a_place(metadata_url: str, url: str, http_hosts: Collection[str]) -> bool:
    """Whether the URL in a challenge is one.

    A path, ``undefined/...`` and a template that was not filled in are not. Neither is a plain http
    URL of the server's own host. A server names it if it does not know that a proxy before it
    uses TLS.
    """
    if not is_url(metadata_url):
        return False
    named, own = origin_of(metadata_url), origin_of(url)
    return not (
        (named[:2], own[0]) == (("http", own[1]), "https") and refused_url(metadata_url, http_hosts)
    )


def _resource_document(
    url: str, metadata_url: str | None, headers: Mapping[str, str]
) -> Flow[tuple[dict[str, Any] | None, AuthError | None]]:
    """Return the first document that names a resource, or None and the first error.

    Some servers name a URL in their challenge that they do not serve, and publish the document at
    the next place. Others are behind a proxy that responds 502 to a route that it does not know. An
    address that must not be used ends the search.
    """
    candidates = [] if metadata_url is None else [metadata_url]
    candidates += [each for each in _resource_urls(url) if each not in candidates]
    failed: AuthError | None = None
    for candidate in candidates:
        try:
            found = yield from _document(candidate, _WHAT_RESOURCE, headers)
        except AuthError as error:
            if not error.retryable:
                raise
            failed = failed or error
            continue
        if found is not None and _named_resource(found[0]) is None:
            failed = failed or AuthError(f"{_WHAT_RESOURCE} of {shown(url)} has no resource")
        elif found is not None:
            if failed is not None or metadata_url not in (None, candidate):
                yield Accepted(_NEXT_PLACE)
            return found[0], None
    return None, failed


def _named_resource(document: Mapping[str, Any]) -> str | None:
    resource = document.get("resource")
    return resource if isinstance(resource, str) and resource else None


def _resource_urls(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    query = f"?{parts.query}" if parts.query else ""
    if path := parts.path.rstrip("/"):
        yield f"{base}{_RESOURCE}{path}{query}"
    yield f"{base}{_RESOURCE}"


def _resource(document: Mapping[str, Any], url: str) -> str:
    """Return the ``resource`` of a document, if it covers the MCP server's URL."""
    resource = _named_resource(document) or ""
    if not covers(resource, url):
        raise AuthError(
            f"{_WHAT_RESOURCE} of {shown(url)} is for another resource, "
            f"{safe_text(shown(resource), 200)!r}, whose tokens this server must not see"
        )
    return resource


def covers(resource: str, url: str) -> bool:
    """Whether ``url`` is ``resource`` or below it.

    The origin must be the same, and the path must be that of ``resource`` or below it.
    """
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
    """Return the resource identifier of a server that publishes none (RFC 8707 section 2)."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2].lower()
    path = "" if parts.path == "/" and not parts.query else parts.path
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme.lower()}://{place}{path}{query}"


# ------------------------------------------------------- the authorization server


def same_issuer(one: str, other: str) -> bool:
    """Whether two issuers are equal, or differ by a slash directly after the host only."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    return long == f"{short}/" and short.count("/") == 2


def server_metadata(
    issuer: str, headers: Mapping[str, str], http_hosts: Collection[str] = ()
) -> Flow[ServerMetadata | None]:
    """Return the metadata of ``issuer``; None if it publishes none. Raises ``AuthError``."""
    reason = refused_url(issuer, http_hosts)
    if reason is None and ("?" in issuer or "#" in issuer):
        reason = "it has a query or a fragment"
    if reason is not None:
        raise AuthError(f"the authorization server {shown(issuer)!r} is refused: {reason}")
    failed: AuthError | None = None
    for candidate in _server_urls(issuer):
        try:
            found = yield from _document(candidate, _WHAT_SERVER, headers)
        except AuthError as error:
            # A server may respond with an error at a well-known URL that it does not serve.
            failed = failed or error
            continue
        if found is not None:
            document, place = found
            if not isinstance(document.get("issuer"), str):
                failed = failed or _another_issuer(document, issuer)
                continue
            here = origin_of(place) == origin_of(issuer)
            at_root = here and urlsplit(candidate).path.startswith((_OAUTH, _OPENID))
            server = _validated(document, issuer, http_hosts)
            return replace(server, at_root=at_root, at_path=here and not at_root)
    if failed is not None:
        raise failed
    return None


def _server_urls(issuer: str) -> Iterator[str]:
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{base}{_OAUTH}{path}"
    yield f"{base}{_OPENID}{path}"
    if path:
        yield f"{base}{path}{_OPENID}"


def _without_resource_metadata(
    url: str,
    metadata_url: str | None,
    headers: Mapping[str, str],
    http_hosts: Collection[str],
    failed: AuthError | None,
) -> Flow[DiscoveredServer]:
    """Return the MCP server's origin as its authorization server, as in revision 2025-03-26.

    ``failed`` is the error of a place that may have resource metadata. It is raised if the origin
    publishes no metadata either; default endpoints are then not assumed.
    """
    parts = urlsplit(url)
    issuer = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    try:
        server = yield from server_metadata(issuer, headers, http_hosts)
    except AuthError as error:
        raise failed or error from None
    if server is None and failed is not None:
        raise failed
    if failed is not None:
        yield Accepted(_NEXT_PLACE)
    if server is None and metadata_url is not None:
        raise AuthError(
            f"{_WHAT_RESOURCE} is not at {shown(metadata_url)}, which the server's challenge "
            f"names, nor at the well-known URLs of {shown(issuer)}"
        )
    if server is None:
        server = ServerMetadata(
            issuer, f"{issuer}/token", f"{issuer}/authorize", f"{issuer}/register", guessed=True
        )
    return DiscoveredServer(canonical(url), server, server.scopes)


def _validated(
    document: Mapping[str, Any], issuer: str, http_hosts: Collection[str]
) -> ServerMetadata:
    """Metadata with the endpoints that may be used. Raises ``AuthError``.

    An optional endpoint that must not be used counts as missing: it may not be needed.
    """
    claimed = document.get("issuer")
    if not isinstance(claimed, str) or not same_issuer(claimed, issuer):
        raise _another_issuer(document, issuer)
    endpoints: dict[str, str] = {}
    unusable: dict[str, str] = {}
    for name in _ENDPOINTS:
        value = document.get(name)
        if value is None:
            continue
        reason = refused_url(value, http_hosts)
        if reason is None and "#" in value:
            reason = "it has a fragment"
        if reason is None:
            endpoints[name] = value
        else:
            unusable[name] = reason
    server = ServerMetadata(
        issuer=claimed,
        named=issuer,
        token_endpoint=endpoints.get("token_endpoint", ""),
        authorization_endpoint=endpoints.get("authorization_endpoint"),
        registration_endpoint=endpoints.get("registration_endpoint"),
        revocation_endpoint=endpoints.get("revocation_endpoint"),
        pushed_endpoint=endpoints.get("pushed_authorization_request_endpoint"),
        device_endpoint=endpoints.get("device_authorization_endpoint"),
        requires_pushed=document.get("require_pushed_authorization_requests") is True,
        unusable=unusable,
        scopes=scopes_of(" ".join(_names(document, "scopes_supported"))),
        response_types=_optional_names(document, "response_types_supported"),
        auth_methods=_optional_names(document, "token_endpoint_auth_methods_supported"),
        challenge_methods=_optional_names(document, "code_challenge_methods_supported"),
        signing_algorithms=_optional_names(
            document, "token_endpoint_auth_signing_alg_values_supported"
        ),
        dpop_algorithms=_optional_names(document, "dpop_signing_alg_values_supported"),
        promises_iss=document.get("authorization_response_iss_parameter_supported") is True,
        supports_client_documents=document.get("client_id_metadata_document_supported") is True,
    )
    if not server.token_endpoint:
        raise AuthError(
            f"{_WHAT_SERVER} of {shown(claimed)} {server.why_missing('token_endpoint')}"
        )
    return server


def _another_issuer(document: Mapping[str, Any], issuer: str) -> AuthError:
    claimed = document.get("issuer")
    return AuthError(
        f"{_WHAT_SERVER} of {shown(issuer)} is for another issuer, "
        f"{safe_text(shown(claimed) if isinstance(claimed, str) else claimed, 200)!r}, "
        "and is not used"
    )


# ------------------------------------------------------------------- documents


def _document(
    url: str, what: str, headers: Mapping[str, str]
) -> Flow[tuple[dict[str, Any], str] | None]:
    """Return the JSON object at ``url`` and the URL it came from, or None.

    ``AuthError`` if it is unknown whether there is one.
    """
    response: Fetched | Unreachable = yield Fetch("GET", url, what, headers)
    if isinstance(response, Unreachable):
        raise AuthError(safe_text(response.reason, 400), retryable=not response.refused)
    if response.is_success:
        # Many servers send for unknown paths a page for people.
        document = response.json
        return None if document is None else (document, response.url or url)
    if 400 <= response.status < 500 and response.status not in (408, 429):
        return None
    raise AuthError(
        f"{shown(url)} returned HTTP {response.status} instead of {what}",
        http_status=response.status,
        retryable=True,
    )


def _names(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = document.get(name)
    if not isinstance(value, list):
        return ()
    return tuple(item for item in value if isinstance(item, str))


def _optional_names(document: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    return _names(document, name) if isinstance(document.get(name), list) else None
