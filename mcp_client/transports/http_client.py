"""The HTTP under the HTTP transports: one server's address, its client, and what can go wrong.

Everything that knows httpx is here. ``HttpClient.open`` sends one request and gives back an
``HttpResponse`` as soon as its headers are there. Foreign exceptions are translated at this border,
by one question: could the server have taken the request up?

Three rules hold for every request. Redirects are followed within the origin only, with method and
body kept, so that neither credentials nor session ids nor messages leave it. Traffic to this
machine itself ignores the proxies of the environment. And the context for TLS, whose certificates
take 17 ms to load, is made once for the whole process.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from ..errors import AuthError, ConfigError, ConnectError, ConnectionLost, McpError
from ..protocol.canonical_json import sha256
from ..runtime.event_loop import current
from ..runtime.masking import mask, secrets_sent
from ..runtime.pausable_clock import PausableClock
from ..runtime.safe_text import safe_text
from .base import TransportContext
from .http_response import HttpResponse

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = [
    "HttpClient",
    "HttpServer",
    "lasting_identity_of",
    "origin_of",
    "shown",
    "tls_context",
]

_log = logging.getLogger("mcp_client")
_HOPS = 5
_ENCODING = {"Accept-Encoding": "gzip, deflate"}
_KEPT_ALIVE = 4.0
"""Seconds an idle connection is kept: many servers close theirs after five."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PORTS = {"http": 80, "https": 443}

Headers: TypeAlias = Mapping[str, str]
HeaderSource: TypeAlias = Headers | Callable[[], Headers | Awaitable[Headers]]
Auth: TypeAlias = "httpx.Auth | Callable[[], str | Headers | Awaitable[str | Headers]]"


@dataclass(frozen=True, slots=True, repr=False)
class HttpServer:
    """A server at a URL: ``HttpServer("https://example.com/mcp")``.

    Which flavour of HTTP it speaks is found out. ``headers`` go with every request; a function,
    sync or async, is asked before each one, in the task that makes the call. ``auth`` is an
    ``httpx.Auth``, or a function, sync or async, that returns a bearer token (or headers) and is
    asked before each request too, so that a token can be rotated. ``client`` is an
    ``httpx.AsyncClient`` of your own, for proxies, certificates or HTTP/2; you close it.

    Neither headers nor tokens appear in the repr, in logs or in errors, and they are sent to the
    URL's own origin only.
    """

    url: str
    headers: HeaderSource | None = None
    auth: Auth | None = field(default=None, compare=False)
    client: httpx.AsyncClient | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check_url(self.url)
        if self.headers is not None and not callable(self.headers):
            object.__setattr__(self, "headers", _checked(self.headers))
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
        return f"HttpServer({', '.join(parts)})"

    def __hash__(self) -> int:
        return hash(self.url)


def _check_url(url: Any) -> None:
    if not isinstance(url, str) or not url:
        raise ConfigError(f"HttpServer(url={url!r}): give a URL such as https://example.com/mcp")
    try:
        parts = urlsplit(url)
        odd = parts.hostname is None or any(ord(char) <= 32 or ord(char) == 127 for char in url)
        parts.port  # noqa: B018 - raises where it is none
    except ValueError:
        odd, parts = True, None
    if parts is not None and parts.scheme.lower() not in _PORTS:
        raise ConfigError(
            f"the URL {shown(url)!r} begins with {parts.scheme[:20] or 'no scheme'!r}: "
            "give one that begins with https:// or http://"
        )
    if odd:
        raise ConfigError(f"{shown(url)!r} is not a URL: give https://example.com/mcp")


def _checked(headers: Any) -> Headers:
    if not isinstance(headers, Mapping):
        raise ConfigError("HttpServer(headers=...): give a dict, or a function that returns one")
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ConfigError(f"HttpServer(headers=...): {name!r} is no header's name")
        if not isinstance(value, str) or not value.isprintable() or not _latin(value):
            raise ConfigError(f"the value of the header {name!r} is not text that HTTP can carry")
    return dict(headers)


def _latin(value: str) -> bool:
    return all(ord(char) < 256 for char in value)


def shown(url: str) -> str:
    """A URL without what may be secret in it: user, password, query."""
    bare, question, _ = url.partition("#")[0].partition("?")
    scheme, colon, rest = bare.partition("://")
    if not colon:  # not a URL: what stands before an "@" may still be a password
        scheme, rest = "", bare.rpartition("@")[2]
    place, slash, path = rest.partition("/")
    place = place.rpartition("@")[2]
    return safe_text(f"{scheme}{colon}{place}{slash}{path}{'?...' if question else ''}", 200)


def origin_of(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(scheme, 0)


def lasting_identity_of(url: str) -> str:
    """Origin and path; the path as a digest, for some servers have their keys in it."""
    scheme, host, port = origin_of(url)
    return f"{scheme}://{host}:{port} sha256:{sha256(urlsplit(url).path or '/')}"


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# ------------------------------------------------------------------- the client

_contexts: dict[bool, ssl.SSLContext] = {}


def tls_context(certificates: bool) -> ssl.SSLContext:
    """The process's own TLS context; without certificates, one that trusts nobody."""
    context = _contexts.get(certificates)
    if context is None:
        import ssl

        import httpx

        context = (
            httpx.create_ssl_context() if certificates else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
        _contexts[certificates] = context
    return context


def _client(url: str) -> httpx.AsyncClient:
    import httpx

    scheme, host, _ = origin_of(url)
    here = _is_loopback(host)
    return httpx.AsyncClient(
        verify=tls_context(certificates=not (here and scheme == "http")),
        trust_env=not here,
        timeout=None,  # noqa: S113 - every wait has a clock of the session's
        limits=httpx.Limits(max_keepalive_connections=20, keepalive_expiry=_KEPT_ALIVE),
        headers={"User-Agent": "mcp-client"},
    )


class HttpClient:
    """One session's way to one server."""

    def __init__(self, server: HttpServer, link: TransportContext) -> None:
        import httpx

        self.link = link
        self.watch = link.watch or PausableClock(current().now)
        self.url = server.url
        """Where the server is: where it said that it moved to for good, if it did."""
        self.given_url = server.url
        self.shown = shown(server.url)
        self.held_open = 0
        """How many streams were left open by the server after their answer."""
        self._origin = origin_of(server.url)
        self._server = server
        self._client = server.client or _client(server.url)
        self._timeout = httpx.Timeout(None, connect=link.timeouts.connect)
        self._auth: Any = (
            server.auth if isinstance(server.auth, httpx.Auth) else httpx.USE_CLIENT_DEFAULT
        )
        self._warn()

    def _warn(self) -> None:
        scheme, host, _ = self._origin
        secret = self._server.headers or self._server.auth or "@" in urlsplit(self.url).netloc
        if scheme == "http" and secret and not _is_loopback(host):
            _log.warning(
                "%s: credentials travel unencrypted to %s, and anybody on the way can read and "
                "use them; use https://",
                self.link.server,
                self.shown,
            )

    @property
    def authorized(self) -> bool:
        """Whether the host gave something to show who is asking."""
        return self._server.auth is not None or self._server.headers is not None

    async def open(
        self, method: str, headers: Headers, text: str | None = None, url: str | None = None
    ) -> HttpResponse:
        """Send a request and wait for the headers of its reply.

        Raises ``ConnectError`` where the server did not get it, else ``ConnectionLost``.
        """
        body = None if text is None else text.encode("utf-8", "replace")
        remembered = url is None
        target = url or self.url
        own = {**_ENCODING, **headers}
        given = await self._given()
        if given:
            names = {name.lower() for name in own}
            own.update((name, given[name]) for name in given if name.lower() not in names)
        for _ in range(_HOPS):
            reply = await self._send(method, target, own, body)
            if reply.status not in (301, 302, 307, 308):
                return reply
            place = reply.response.headers.get("location")
            await reply.aclose()
            target = self._redirected(target, place, reply)
            permanent = reply.status in (301, 308)
            if remembered and permanent:
                self.url = target
        raise ConnectError(f"{self.shown} redirects without end", http_status=reply.status)

    async def _send(
        self, method: str, url: str, headers: Headers, body: bytes | None
    ) -> HttpResponse:
        import httpx

        from .http_body import Body

        try:
            request = self._client.build_request(
                method,
                url,
                headers=dict(headers),
                content=body,
                timeout=self._timeout,
                extensions={"mcp_client": self},
            )
            request.stream = Body(body or b"")
            response = await self._client.send(
                request, stream=True, auth=self._auth, follow_redirects=False
            )
        except McpError:
            raise
        except (
            httpx.ConnectError,
            httpx.ConnectTimeout,
            httpx.PoolTimeout,
            httpx.ProxyError,
            httpx.UnsupportedProtocol,
            httpx.LocalProtocolError,
            httpx.InvalidURL,
        ) as error:
            slow = isinstance(error, httpx.ConnectTimeout)
            why = f"within {self.link.timeouts.connect:g} s" if slow else _said(error)
            raise ConnectError(
                f"cannot connect to {self.shown}: {why}; is the server running there?",
                server=self.link.server,
                retryable=True,
            ) from None
        except Exception as error:  # noqa: BLE001 - httpx, a stream closed under it, a user's auth
            raise self.lost(_said(error)) from None
        return HttpResponse(response, self.link.limits, self.lost, self.secrets)

    def lost(self, why: str, status: int | None = None) -> ConnectionLost:
        return ConnectionLost(
            f"the connection to {self.shown} was lost while the request was under way: {why}; "
            "it may have run",
            http_status=status,
            server=self.link.server,
        )

    async def _given(self) -> Headers:
        """What the host gave to go with every request."""
        headers, auth = self._server.headers, self._server.auth
        given: dict[str, str] = {}
        if callable(headers):
            given.update(_checked(await self._asked(headers, "headers")))
        elif headers:
            given.update(headers)
        if auth is not None and not hasattr(auth, "auth_flow"):
            token = await self._asked(auth, "auth")
            bearer = {"Authorization": f"Bearer {token}"} if isinstance(token, str) else token
            given.update(_checked({} if bearer is None else bearer))
        return given

    async def _asked(self, function: Callable[[], Any], option: str) -> Any:
        try:
            value = function()
            return await value if inspect.isawaitable(value) else value
        except McpError:
            raise
        except Exception as error:
            raise AuthError(
                f"the function given as HttpServer({option}=...) raised {type(error).__name__}; "
                "nothing was sent"
            ) from error

    def _redirected(self, url: str, place: str | None, reply: HttpResponse) -> str:
        import httpx

        try:
            target = str(httpx.URL(url).join(place or ""))
            same = bool(place) and origin_of(target) == self._origin
        except (httpx.InvalidURL, ValueError):
            target, same = place or "", False
        if not same:
            elsewhere = mask(shown(target), self.secrets(reply.response))
            raise ConnectError(
                f"{self.shown} redirects to {elsewhere!r}, another origin, and credentials "
                "and messages stay with the one they are meant for; connect to that URL if it is "
                "the right one",
                http_status=reply.status,
                server=self.link.server,
            )
        return target

    def same_origin(self, place: str) -> str | None:
        """``place``, relative to our URL, as a URL of our origin; None where it leads elsewhere."""
        import httpx

        try:
            target = str(httpx.URL(self.url).join(place))
            return target if origin_of(target) == self._origin else None
        except (httpx.InvalidURL, ValueError):
            return None

    def secrets(self, response: httpx.Response) -> set[str]:
        """What must not be shown of the text of ``response``, should the server repeat it.

        Everything secret in the request as it was sent, in the host's own headers and URL, and
        what the host's ``auth`` keeps to itself.
        """
        request, server = response.request, self._server
        found = secrets_sent(str(request.url), request.headers.multi_items())
        headers = {} if server.headers is None or callable(server.headers) else server.headers
        found |= secrets_sent(server.url, headers.items())
        kept = getattr(server.auth, "secrets", None)
        return found | set(kept()) if callable(kept) else found

    async def aclose(self) -> None:
        if self._server.client is None:
            try:
                await self._client.aclose()
            except Exception as error:  # noqa: BLE001 - it is over either way
                _log.debug("%s: closing the connections: %s", self.link.server, _said(error))


def _said(error: BaseException) -> str:
    return safe_text(str(error), 200) or type(error).__name__
