"""An HTTP server as a host names it: ``HttpServer``, its checks, and what its URL shows."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from ..errors import ConfigError
from ..processes.commands import redacted_words, split_words
from ..protocol.canonical_json import sha256
from ..runtime.option_names import with_option_names
from ..runtime.safe_text import safe_text
from ..runtime.urls import is_loopback, path_keys, without_path_keys

if TYPE_CHECKING:
    import httpx

__all__ = [
    "Headers",
    "HttpServer",
    "header_fault",
    "may_be_authorized",
    "name_of_url",
    "origin_of",
    "shown",
    "stable_identity_of",
]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PORTS = {"http": 80, "https": 443}
_PLAIN_SEGMENT = re.compile(r"[a-z]{1,16}(?:-[a-z]{1,16}){0,2}")
_ENDPOINTS = ("", "mcp", "sse")
_SCHEMELESS = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+|\[[0-9a-fA-F:]+\])(?::\d+)?(?:/\S*)?")

Headers: TypeAlias = Mapping[str, str]
HeaderSource: TypeAlias = Headers | Callable[[], Headers | Awaitable[Headers]]
Auth: TypeAlias = "httpx.Auth | Callable[[], str | Headers | Awaitable[str | Headers]]"


@with_option_names()
@dataclass(frozen=True, slots=True, repr=False)
class HttpServer:
    """A server at ``url``: ``HttpServer("https://example.com/mcp")``.

    The flavour of HTTP that it speaks is detected. Neither headers nor tokens appear in the repr,
    in logs or in errors, nor does a part of the URL's path that looks like a key. They are sent to
    the URL's own origin only.

    Functions for ``headers`` and ``auth`` are called before each request, in the task that makes
    the call, so that a token can be rotated. They are also called before a list that was fetched
    earlier is used again, because it may be meant for one user only. With an ``httpx.Auth`` of your
    own, or a client that has one, a list that the server does not call public is fetched each time:
    only those of ``mcp_client.auth`` report who is logged in.

    Requests use the package's own connection pool, which is several times cheaper than that of
    httpx. With a proxy or a ``client`` they use httpx. ``via_httpx=True`` sends everything through
    ``httpx.AsyncClient``, so that its loggers, mocks such as respx, and instrumentation see it.

    Args:
        url: The URL of the MCP endpoint, ``https://`` or ``http://``.
        headers: Headers for every request, or a function, sync or async, that returns them.
        auth: ``BearerToken("...")`` for a token that you have, ``OAuth()`` for a person,
            ``ClientCredentials(...)`` and others for a service, any ``httpx.Auth``, or a function,
            sync or async, that returns a bearer token (or headers).
        client: An ``httpx.AsyncClient`` of your own, for proxies, certificates or HTTP/2. You close
            it.
        identity: The names of headers whose values distinguish this server from others, as its URL
            does (``["X-Tenant"]``): remembered decisions and pins are for one of them. Files store
            only digests.
        via_httpx: Whether httpx makes every request.
        end_session: Whether closing a session of the handshake era ends it on the server, too
            (``DELETE``). False is for a session that outlives this connection:
            ``session.session_id`` is its id.

    Raises:
        ConfigError: If HTTP cannot carry the URL or a header.
    """

    url: str
    headers: HeaderSource | None = None
    auth: Auth | None = field(default=None, compare=False)
    client: httpx.AsyncClient | None = field(default=None, compare=False)
    identity: Sequence[str] = ()
    via_httpx: bool = False
    """Whether httpx makes every request, instead of a faster path of this package."""
    end_session: bool = True
    """Whether closing the session ends it on the server, too."""

    def __post_init__(self) -> None:
        _check_url(self.url)
        if self.headers is not None and not callable(self.headers):
            fault = header_fault(self.headers)
            if fault:
                raise ConfigError(fault, option="HttpServer(headers=...)")
            object.__setattr__(self, "headers", dict(self.headers))
        object.__setattr__(self, "identity", self._checked_identity())
        if (
            self.auth is not None
            and not callable(self.auth)
            and not hasattr(self.auth, "auth_flow")
        ):
            raise ConfigError(
                "HttpServer(auth=...): give an httpx.Auth, or a function that returns a token"
            )
        if self.client is not None and not hasattr(self.client, "build_request"):
            raise ConfigError("HttpServer(client=...): give an httpx.AsyncClient")
        for name in ("via_httpx", "end_session"):
            if type(flag := getattr(self, name)) is not bool:
                raise ConfigError(f"HttpServer({name}={flag!r}): give True or False")

    def _checked_identity(self) -> tuple[str, ...]:
        if isinstance(self.identity, str) or not isinstance(self.identity, Collection):
            raise ConfigError("HttpServer(identity=...): give a list of names of headers=")
        headers = self.headers if isinstance(self.headers, Mapping) else {}
        known = {name.lower() for name in headers}
        for name in self.identity:
            if not isinstance(name, str) or name.lower() not in known:
                raise ConfigError(
                    f"HttpServer(identity=...) names {name!r}, which headers= does not contain"
                )
        return tuple(self.identity)

    def __repr__(self) -> str:
        parts = [repr(shown(self.url))]
        if callable(self.headers):
            parts.append("headers=<function>")
        elif self.headers:
            names = ", ".join(f"{name!r}: '***'" for name in self.headers)
            parts.append(f"headers={{{names}}}")
        if self.auth is not None:
            parts.append(f"auth=<{type(self.auth).__name__}>")
        if self.client is not None:
            parts.append("client=<AsyncClient>")
        if self.via_httpx:
            parts.append("via_httpx=True")
        if not self.end_session:
            parts.append("end_session=False")
        return f"HttpServer({', '.join(parts)})"

    def __hash__(self) -> int:
        return hash(self.url)


def may_be_authorized(server: HttpServer) -> bool:
    """Whether requests may carry something to show who is asking."""
    options = (server.headers, server.auth, server.client)
    return any(each is not None for each in options) or "@" in urlsplit(server.url).netloc


def _check_url(url: Any) -> None:
    if not isinstance(url, str) or not url:
        raise ConfigError(f"HttpServer(url={url!r}): give a URL such as https://example.com/mcp")
    parts = None
    try:
        parts = urlsplit(url)
        unusable = parts.hostname is None or any(ord(c) <= 32 or ord(c) == 127 for c in url)
        parts.port  # noqa: B018 - raises if the port is not a number
    except ValueError:
        unusable = True
    if parts is None or parts.scheme.lower() not in _PORTS:
        first, *rest = _words(url) or [url]
        raise ConfigError(f"{' '.join([shown(first), *rest])!r} {_url_advice(url)}")
    if unusable:
        raise ConfigError(
            f"{shown(url)!r} is not a valid URL: give one such as https://example.com/mcp"
        )


def _url_advice(url: str) -> str:
    if _SCHEMELESS.fullmatch(url):
        local = is_loopback(urlsplit(f"//{url}").hostname or "")
        return f"has no scheme: give {'http' if local else 'https'}://{shown(url)}"
    scheme, separator, _ = url.partition("://")
    if separator and " " not in scheme:
        return (
            f"begins with {scheme[:20]}://, which is not supported: give a URL that begins with "
            "https:// or http://"
        )
    words = _words(url)
    if words:
        command, *args = words
        return (
            "is not a URL. To start a command, give its words apart: "
            f"StdioServer({command!r}, {args!r})"
        )
    return "is not a URL: give one that begins with https:// or http://"


def _words(text: str) -> list[str]:
    try:
        words = split_words(text)
    except ValueError:
        return []
    return [safe_text(word, 80) for word in (redacted_words(words) if len(words) > 1 else words)]


def header_fault(headers: object) -> str | None:
    """Return the reason why these headers cannot be sent, without values; None if they can."""
    if not isinstance(headers, Mapping):
        return f"a dict of header names and values is needed, not a {type(headers).__name__}"
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            return f"{safe_text(repr(name), 80)} cannot be the name of an HTTP header"
        fault = _value_fault(value)
        if fault:
            return f"the value of the header {name!r} {fault}"
    return None


def _value_fault(value: object) -> str | None:
    if not isinstance(value, str):
        return f"is a {type(value).__name__}, not text"
    if value != value.strip(" \t\r\n"):
        return "begins or ends with white space or a line break (strip() it)"
    if not value.isascii():
        return "has a character that is not ASCII, which HTTP cannot carry"
    if not all(char == "\t" or " " <= char <= "~" for char in value):
        return "has a control character or a line break in it, which HTTP cannot carry"
    return None


# ------------------------------------------------------------------------ URLs


def shown(url: str) -> str:
    """Return a URL without what may be secret in it: user, password, query, keys in the path."""
    bare, question, _ = url.partition("#")[0].partition("?")
    scheme, colon, rest = bare.partition("://")
    if not colon:  # not a URL: what precedes an "@" may still be a password
        scheme, rest = "", bare.rpartition("@")[2]
    location, slash, path = rest.partition("/")
    location = location.rpartition("@")[2]
    path = without_path_keys(path)
    return safe_text(f"{scheme}{colon}{location}{slash}{path}{'?...' if question else ''}", 200)


def origin_of(url: str) -> tuple[str, str, int]:
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(scheme, 0)


def stable_identity_of(server: HttpServer) -> str:
    """Return origin, path, query and the headers named by ``identity``, as one text.

    All but the origin is a digest, because any part may contain a key.
    """
    scheme, host, port = origin_of(server.url)
    parts = urlsplit(server.url)
    text = parts.path or "/"
    if parts.query:
        text += f"?{parts.query}"
    if server.identity and isinstance(server.headers, Mapping):
        named = {name.lower() for name in server.identity}
        headers = {name.lower(): value for name, value in server.headers.items()}
        text = json.dumps([text, sorted((name, headers[name]) for name in named)])
    return f"{scheme}://{host}:{port} sha256:{sha256(text)}"


def name_of_url(url: str) -> str:
    """Return a name for a URL: its host, an unusual port, and the words of its path.

    Parts that may be secret are replaced by four digits of a hash, so that two URLs of one host
    have different names.
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return "server"
    scheme = parts.scheme.lower()
    name = host if port in (None, _PORTS.get(scheme)) else f"{host}:{port}"
    segments = parts.path.split("/")
    while segments and segments[-1] in _ENDPOINTS:
        segments.pop()
    segments = [segment for segment in segments if segment]
    keys = path_keys(parts.path)
    shown = [one for one in segments[:3] if _PLAIN_SEGMENT.fullmatch(one) and one not in keys]
    if len(shown) < len(segments) or parts.query:
        shown.append(sha256(f"{parts.path}?{parts.query}")[:4])
    return "/".join([name, *shown]) if host else "server"
