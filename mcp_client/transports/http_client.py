"""The HTTP under the HTTP transports: one server's address, its client, and what can go wrong.

Everything that knows httpx is here. ``HttpClient.open`` sends one request and returns an
``HttpResponse`` as soon as its headers are there. Foreign exceptions are translated at this border,
by one question: can the server have taken the request up? It cannot unless the body has begun to
leave, and ``RequestBody`` knows that.

Three rules hold for every request. Redirects are followed within the origin only, with method and
body kept, so that neither credentials nor session ids nor messages leave it. Traffic to this
machine itself ignores the proxies of the environment. And the TLS context, whose certificates take
17 ms to load, is made once for the whole process.

Imported only where a host uses HTTP: ``import mcp_client`` does not load httpx.
"""

from __future__ import annotations

import inspect
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

import httpx

from ..errors import AuthError, ConnectError, ConnectionLost, McpError
from ..runtime.event_loop import current
from ..runtime.loopback import is_loopback
from ..runtime.masking import secrets_sent
from ..runtime.pausable_clock import PausableClock
from ..runtime.safe_text import safe_text
from .base import TransportContext
from .http_connect_errors import connect_failure
from .http_credentials import HttpCredentials
from .http_response import HttpResponse
from .http_server import Headers, HttpServer, header_fault, origin_of, shown

__all__ = [
    "HttpClient",
    "RequestBody",
    "origin_of",
    "send_logged_safely",
    "shown",
    "tls_context",
]

_log = logging.getLogger("mcp_client")
_sending: ContextVar[bool] = ContextVar("mcp_client.sending", default=False)


class _HideSecrets(logging.Filter):
    """Leaves out what may be secret in the log lines of httpx and httpcore about our requests.

    httpx logs the URL of each request at INFO: of it, query and user are left out. httpcore logs
    the headers of each response at DEBUG: cookies, and what a server repeats.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if not _sending.get():
            return True
        if isinstance(record.args, tuple):
            record.args = tuple(
                shown(str(each)) if isinstance(each, httpx.URL) else each for each in record.args
            )
        if isinstance(record.msg, str) and record.msg.startswith(_HEADERS_CAME):
            record.msg = _HEADERS_CAME
        return True


_HEADERS_CAME = "receive_response_headers.complete"
for _name in ("httpx", "httpcore.http11", "httpcore.http2"):
    logging.getLogger(_name).addFilter(_HideSecrets())


async def send_logged_safely(
    client: httpx.AsyncClient, request: httpx.Request, auth: Any
) -> httpx.Response:
    """Send ``request`` and return its response unread, following no redirect."""
    token = _sending.set(True)
    try:
        return await client.send(request, stream=True, auth=auth, follow_redirects=False)
    finally:
        _sending.reset(token)


_HOPS = 5
_ENCODING = {"Accept-Encoding": "gzip, deflate"}
_KEPT_ALIVE = 4.0
"""Seconds an idle connection is kept: many servers close theirs after five."""

_contexts: dict[bool, ssl.SSLContext] = {}


def tls_context(certificates: bool) -> ssl.SSLContext:
    """The process's own TLS context; without certificates, one that trusts no server."""
    context = _contexts.get(certificates)
    if context is None:
        context = (
            httpx.create_ssl_context() if certificates else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
        _contexts[certificates] = context
    return context


def _new_client(url: str) -> httpx.AsyncClient:
    scheme, host, _ = origin_of(url)
    local = is_loopback(host)
    return httpx.AsyncClient(
        verify=tls_context(certificates=not (local and scheme == "http")),
        trust_env=not local,
        timeout=None,  # noqa: S113 - every wait has a clock of the session's
        limits=httpx.Limits(max_keepalive_connections=20, keepalive_expiry=_KEPT_ALIVE),
        headers={"User-Agent": "mcp-client"},
    )


class RequestBody(httpx.AsyncByteStream):
    """The body of a request, sent once.

    httpx iterates its own with an async generator, and one that is left in the middle, when a
    request is given up, waits for a collector that trio complains about.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.begun = False
        """Whether the connection was given it to send, which comes after the headers: until then
        no server can have taken the request up."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        self.begun = True
        return _Chunk(self._data)

    def rewind(self) -> None:
        """It is to be sent again, for the server that got it did not take it up."""
        self.begun = False


class _Chunk:
    def __init__(self, data: bytes) -> None:
        self._left: bytes | None = data

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data, self._left = self._left, None
        if not data:
            raise StopAsyncIteration
        return data


class HttpClient:
    """One session's way to one server."""

    def __init__(self, server: HttpServer, context: TransportContext) -> None:
        self.context = context
        self.clock = context.clock or PausableClock(current().now)
        self.url = server.url
        """Where the server is: where it said that it moved to for good, if it did."""
        self.given_url = server.url
        self.shown = shown(server.url)
        self.held_open = 0
        """How many streams were left open by the server after their answer."""
        self.got_no_http = False
        """Whether the last request was answered with something that is not HTTP, or not at all."""
        self._origin = origin_of(server.url)
        self._server = server
        self._client = server.client or _new_client(server.url)
        self._timeout = httpx.Timeout(None, connect=context.timeouts.connect)
        self._auth: Any = server.auth if isinstance(server.auth, httpx.Auth) else None
        self._credentials = HttpCredentials(
            self._client,
            self._auth,
            self.given_headers,
            url=server.url,
            is_own_client=server.client is None,
            seconds=context.timeouts.connect,
        )
        self._warn_of_plain_text()

    def _warn_of_plain_text(self) -> None:
        scheme, host, _ = self._origin
        secret = self._server.headers or self._server.auth or "@" in urlsplit(self.url).netloc
        if scheme == "http" and secret and not is_loopback(host):
            _log.warning(
                "%s: credentials travel unencrypted to %s, and anybody on the way can read and "
                "use them; use https://",
                self.context.server,
                self.shown,
            )

    @property
    def authorized(self) -> bool:
        """Whether the host gave something to show who is asking."""
        return self._server.auth is not None or self._server.headers is not None

    # ---------------------------------------------------------------- requests

    async def open(
        self,
        method: str,
        headers: Headers,
        body: RequestBody | None = None,
        url: str | None = None,
        given: Headers | None = None,
    ) -> HttpResponse:
        """Send a request and wait for the headers of its response.

        ``given`` is what ``given_headers`` returned, where the caller has asked already. Raises
        ``ConnectError`` where the server did not get the request, else ``ConnectionLost``.
        """
        body = body or RequestBody(b"")
        has_default_url = url is None
        target = url or self.url
        own = {**_ENCODING, **headers}
        given = await self.given_headers() if given is None else given
        if given:
            names = {name.lower() for name in own}
            own.update((name, given[name]) for name in given if name.lower() not in names)
        for _ in range(_HOPS):
            response = await self._send(method, target, own, body)
            if response.status not in (301, 302, 307, 308):
                return response
            location = response.headers.get("location")
            await response.aclose()
            target = self._redirected(target, location, response)
            body.rewind()
            if has_default_url and response.status in (301, 308):
                self.url = target
        raise ConnectError(f"{self.shown} redirects without end", http_status=response.status)

    async def _send(
        self, method: str, url: str, headers: Headers, body: RequestBody
    ) -> HttpResponse:
        try:
            request = self._client.build_request(
                method,
                url,
                headers=dict(headers),
                content=body._data,
                timeout=self._timeout,
                extensions={"mcp_client": self},
            )
            request.stream = body
            response = await send_logged_safely(
                self._client, request, self._auth or httpx.USE_CLIENT_DEFAULT
            )
        except McpError:
            raise
        except Exception as error:  # noqa: BLE001 - httpx, a closed connection, a host's auth
            self.got_no_http = isinstance(error, httpx.RemoteProtocolError)
            if body.begun:
                raise self.lost(_text_of(error)) from None
            own = isinstance(error, httpx.HTTPError | httpx.InvalidURL)
            raise connect_failure(
                error, self.url, self.context.server, self.context.timeouts.connect
            ) from (None if own else error)
        self._credentials.note(response)
        return HttpResponse(response, self.context.limits, self.lost, self.secrets)

    def lost(self, why: str, status: int | None = None) -> ConnectionLost:
        return ConnectionLost(
            f"the connection to {self.shown} was lost while the request was under way: {why}; "
            "it may have run",
            http_status=status,
            server=self.context.server,
        )

    def not_connected(self) -> ConnectError:
        """For a request whose time ran out before it could leave."""
        return ConnectError(
            f"no connection to {self.shown} was made within the time the request had; nothing "
            "was sent",
            server=self.context.server,
            retryable=True,
        )

    # ------------------------------------------------------------- credentials

    async def given_headers(self) -> Headers:
        """What the host gave to go with every request. Raises ``AuthError``."""
        headers, auth = self._server.headers, self._server.auth
        given: dict[str, str] = {}
        if callable(headers):
            given.update(await self._from_function(headers, "headers"))
        elif headers:
            given.update(headers)
        if auth is not None and not hasattr(auth, "auth_flow"):
            given.update(await self._from_function(auth, "auth"))
        return given

    async def _from_function(self, function: Callable[[], Any], option: str) -> Headers:
        try:
            value = function()
            if inspect.isawaitable(value):
                value = await value
        except McpError:
            raise
        except Exception as error:
            raise self._unauthorized(
                f"the function given as HttpServer({option}=...) raised {type(error).__name__}"
            ) from error
        if option == "auth" and isinstance(value, str):
            value = {"Authorization": f"Bearer {value}"}
        fault = header_fault({} if value is None else value)
        if fault:
            raise self._unauthorized(
                f"what the function given as HttpServer({option}=...) returned cannot be sent: "
                f"{fault}"
            )
        return value or {}

    def _unauthorized(self, why: str) -> AuthError:
        return AuthError(f"{why}; nothing was sent", server=self.context.server)

    @property
    def credentials(self) -> HttpCredentials | None:
        """See ``Transport.credentials``."""
        server = self._server
        if server.auth is None and server.client is None and not callable(server.headers):
            return None
        return self._credentials

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

    # --------------------------------------------------------------- redirects

    def _redirected(self, url: str, location: str | None, response: HttpResponse) -> str:
        target = self._joined(url, location) if location else None
        if target is None:
            elsewhere = response.mask(shown(location or ""))
            raise ConnectError(
                f"{self.shown} redirects to {elsewhere!r}, another origin, and "
                "credentials and messages stay with the one they are meant for; connect to that "
                "URL if it is the right one",
                http_status=response.status,
                server=self.context.server,
            )
        return target

    def same_origin(self, location: str) -> str | None:
        """``location``, relative to our URL, as a URL of our origin; None for another origin."""
        return self._joined(self.url, location)

    def _joined(self, url: str, location: str) -> str | None:
        try:
            target = str(httpx.URL(url).join(location))
            return target if origin_of(target) == self._origin else None
        except (httpx.InvalidURL, ValueError):
            return None

    async def aclose(self) -> None:
        if self._server.client is None:
            try:
                await self._client.aclose()
            except Exception as error:  # noqa: BLE001 - it is over either way
                _log.debug("%s: closing the connections: %s", self.context.server, _text_of(error))


def _text_of(error: BaseException) -> str:
    return safe_text(str(error), 200) or type(error).__name__
