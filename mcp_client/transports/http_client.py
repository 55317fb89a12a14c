"""The HTTP under the HTTP transports: one server's address, its client, and its errors.

``HttpClient.open`` sends one request and returns an ``HttpResponse`` as soon as its headers are
there. The request uses the package's own pool of connections (``http_pool``). With a proxy or a
client of the host it uses stock httpx (``http_stock``). Foreign exceptions are translated at this
border, by one question: can the server have accepted the request? It cannot unless the request has
begun to leave, and ``RequestBody`` knows that.

Two rules apply to every request. Redirects are followed within the origin only, with the same
method and body, so that neither credentials nor session ids nor messages leave it. And traffic to
this machine itself ignores the proxies of the environment.

Imported only if a host uses HTTP: ``import mcp_client`` does not load httpx.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

from ..errors import AuthError, ConnectError, McpError
from ..runtime.event_loop import current
from ..runtime.masking import is_harmless, secrets_sent
from ..runtime.pausable_clock import PausableClock
from ..runtime.safe_text import safe_text
from ..runtime.urls import is_loopback
from .base import TransportContext
from .http_credentials import HttpCredentials
from .http_errors import Endpoint, is_foreign
from .http_options import Headers, HttpServer, header_fault, origin_of, shown
from .http_response import HttpResponse, InvalidHttp
from .http_stock import (
    USER_AGENT,
    RequestBody,
    logged_safely,
    new_client,
    proxy_for,
    proxy_named,
    send_logged_safely,
    tls_context,
)

if TYPE_CHECKING:
    from .http_pool import HttpPool

__all__ = ["KEEP_ALIVE_SECONDS", "HttpClient", "RequestBody", "origin_of", "shown"]

_log = logging.getLogger("mcp_client")
_MAX_REDIRECTS = 5
_MAX_HELD_OPEN = 3
"""The number of streams in a row left open after their response, after which ends are not
awaited."""
_ENCODING = {"Accept-Encoding": "gzip, deflate"}
_DEFAULTS = {"Accept": "*/*", **USER_AGENT}
_FRAMING = frozenset({"content-length", "transfer-encoding"})
_MAX_MADE = 16
_MAX_URLS = 64
KEEP_ALIVE_SECONDS = 4.0
"""The seconds for which an idle connection stays open: many servers close theirs after five."""


def _needs_httpx(server: HttpServer) -> bool:
    """Whether this server is reached through stock httpx, because our pool cannot do all of it."""
    if server.via_httpx or server.client is not None:
        return True
    try:
        import h11  # noqa: F401 - it comes with httpx's own httpcore, and may not for ever
    except ImportError:
        return True
    return proxy_for(server.url) is not None


@lru_cache(_MAX_URLS)
def _parsed(url: str) -> httpx.URL:
    return httpx.URL(url)  # as long as a tenth of opening a session: row "200 HTTP sessions"


class HttpClient:
    """A session's HTTP client for one server."""

    def __init__(self, server: HttpServer, context: TransportContext) -> None:
        self.context = context
        self.clock: PausableClock = context.clock or PausableClock(current().now)
        self.url: str = server.url
        """The server's URL, or the one that the server moved to permanently."""
        self.configured_url: str = server.url
        self._held_open = 0
        """The number of streams in a row that the server left open after their response."""
        self.got_no_http: bool = False
        """Whether the last request was answered with something that is not HTTP, or not at all."""
        self._origin = origin_of(server.url)
        self._server = server
        self._pool = None if _needs_httpx(server) else self._new_pool()
        uses_environment = self._pool is None and server.client is None
        self.endpoint: Endpoint = Endpoint(
            server.url,
            context.server,
            context.timeouts.connect,
            server.auth is not None or server.headers is not None,
            context.limits.depth,
            proxy=proxy_named(server.url) if uses_environment else None,
        )
        self._made: dict[tuple[Any, ...], tuple[httpx.URL, httpx.Headers]] = {}
        """The URL and headers of httpx, by URL and headers of this client. Making them takes as
        long as sending the request: row "echo after echo, HTTP JSON"."""
        self._cookies: httpx.Cookies | None = None
        """The cookies that the server has set, if the own pool sends the requests."""
        self._client = server.client
        self._last_request: httpx.Request | None = None
        self._auth: httpx.Auth | None = server.auth if isinstance(server.auth, httpx.Auth) else None
        self.asks_person: bool = getattr(server.auth, "asks_person", False)
        """Whether a refusal may lead to a login of a person."""
        self._credentials = HttpCredentials(server, self.user_headers, context.timeouts.connect)
        self._warn_of_plain_text()

    def _new_pool(self) -> HttpPool:
        from .http_pool import HttpPool

        scheme, _, port = self._origin
        host = _parsed(self.url).raw_host.decode("ascii")
        tls = tls_context(certificates=True) if scheme == "https" else None
        return HttpPool(
            host, port, tls, connect=self.context.timeouts.connect, keep=KEEP_ALIVE_SECONDS
        )

    def _stock_client(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = new_client(self.url, KEEP_ALIVE_SECONDS)
        return self._client

    def _warn_of_plain_text(self) -> None:
        scheme, host, _ = self._origin
        headers = self._server.headers or ()
        secret = (
            callable(headers)
            or not all(map(is_harmless, headers))
            or self._server.auth
            or "@" in urlsplit(self.url).netloc
        )
        if scheme == "http" and secret and not is_loopback(host):
            _log.warning(
                "%s: credentials are sent unencrypted to %s, and anyone on the network path can "
                "read and use them. Use https://",
                self.context.server,
                self.endpoint.shown,
            )

    # ---------------------------------------------------------------- requests

    async def open(
        self,
        method: str,
        headers: Headers,
        body: RequestBody | None = None,
        url: str | None = None,
        user_headers: Headers | None = None,
    ) -> HttpResponse:
        """Send a request and wait for the headers of its response.

        Args:
            method: The HTTP method.
            headers: The headers of the protocol.
            body: The body; none by default.
            url: The URL, if it is not the server's.
            user_headers: The result of ``user_headers``, if the caller has asked already.

        Raises:
            ConnectError: If the server did not get the request.
            ConnectionLost: If the server may have got it.
        """
        body = body or RequestBody(b"")
        has_default_url = url is None
        target = url or self.url
        user_headers = await self.user_headers() if user_headers is None else user_headers
        for _ in range(_MAX_REDIRECTS):
            response = await self._send(method, target, (headers, user_headers), body)
            if response.status not in (301, 302, 307, 308):
                return response
            location = response.headers.get("location")
            await response.aclose()
            target = self._redirected(target, location, response)
            body.rewind()
            if has_default_url and response.status in (301, 308):
                self.url = target
        raise ConnectError(
            f"too many redirects from {self.endpoint.shown}", http_status=response.status
        )

    async def finish(self, response: HttpResponse) -> None:
        """Wait for the end of a stream whose response has come, so that its connection is reused.

        This waits only a moment, and only if the server usually ends its streams.
        """
        if response.streaming and self._held_open < _MAX_HELD_OPEN:
            self._held_open = 0 if await response.finish() else self._held_open + 1

    async def _send(
        self, method: str, url: str, headers: tuple[Headers, Headers], body: RequestBody
    ) -> HttpResponse:
        """Send a request; ``headers`` are those of the protocol, and those that the host gave."""
        try:
            request = self._request(method, url, headers, body)
            auth = self._auth_of(request)
            if auth is None:
                response = await self._deliver(request)
            else:
                with logged_safely():  # whatever its flow sends, too
                    response = await self._send_authorized(request, auth, body)
        except McpError:
            raise
        except Exception as error:  # noqa: BLE001 - httpx, a closed connection, a host's auth
            self.got_no_http = isinstance(error, httpx.RemoteProtocolError | InvalidHttp)
            if body.begun:
                raise self.endpoint.lost(_text_of(error)) from None
            failure = self.endpoint.connect_failure(error, self.url)
            raise failure from (error if is_foreign(error) else None)
        self._last_request = response.request
        self._credentials.note(headers[1], response)
        return self._wrapped(response)

    def _wrapped(self, response: httpx.Response) -> HttpResponse:
        return HttpResponse(response, self.context.limits, self.endpoint.lost, self.secrets)

    def _request(
        self, method: str, url: str, headers: tuple[Headers, Headers], body: RequestBody
    ) -> httpx.Request:
        own_headers, user_headers = headers
        key = (url, *own_headers.items())
        made = self._made.get(key)
        if made is None:
            made = self._make(key, url, own_headers)
        target, fields = made
        if self._pool is None:
            timeout = httpx.Timeout(None, connect=self.context.timeouts.connect)
            request = self._stock_client().build_request(
                method, target, headers=fields, content=body.data, timeout=timeout
            )
            request.extensions["mcp_client"] = self
            request.stream = body
        else:
            request = httpx.Request(
                method, target, headers=fields, stream=body, extensions={"mcp_client": self}
            )
        if user_headers:
            names = {*_FRAMING, *(name.lower() for name in (*_ENCODING, *own_headers))}
            request.headers.update(
                {n: user_headers[n] for n in user_headers if n.lower() not in names}
            )
        return request

    def _make(
        self, key: tuple[Any, ...], url: str, own_headers: Headers
    ) -> tuple[httpx.URL, httpx.Headers]:
        target = _parsed(url)
        fields = {**_ENCODING, **own_headers}
        if self._pool is not None:
            fields = {"Host": target.netloc.decode("ascii"), **_DEFAULTS, **fields}
        if len(self._made) >= _MAX_MADE:
            self._made.clear()
        made = self._made[key] = target, httpx.Headers(fields)
        return made

    async def _deliver(self, request: httpx.Request) -> httpx.Response:
        """Send a request, in which only cookies are changed."""
        if self._pool is None:
            return await send_logged_safely(self._stock_client(), request)
        if self._cookies:
            self._cookies.set_cookie_header(request)
        response = await self._pool.handle_async_request(request)
        if "set-cookie" in response.headers:
            self._cookies = self._cookies or httpx.Cookies()
            self._cookies.extract_cookies(response)
        return response

    def _auth_of(self, request: httpx.Request) -> httpx.Auth | None:
        client, url = self._server.client, request.url
        auth = self._auth or (None if client is None else client.auth)
        if auth is None and url.userinfo:
            return httpx.BasicAuth(url.username, url.password)
        return auth

    async def _send_authorized(
        self, request: httpx.Request, auth: httpx.Auth, body: RequestBody
    ) -> httpx.Response:
        """Send as ``httpx.AsyncClient`` does with an ``httpx.Auth``.

        The flow receives each response and yields the next request, which may be to an
        authorization server.
        """
        flow = auth.async_auth_flow(request)
        try:
            request = await anext(flow)
            while True:
                if origin_of(str(request.url)) == self._origin:
                    response = await self._deliver(request)
                else:
                    response = await send_logged_safely(self._stock_client(), request)
                try:
                    request = await flow.asend(response)
                except StopAsyncIteration:
                    return response
                except BaseException:
                    await response.aclose()
                    raise
                refused = self._wrapped(response)
                await refused.excerpt()  # to its end, or the connection cannot be used again
                await refused.aclose()
                body.rewind()
        finally:
            await flow.aclose()

    def asked_from_now(self) -> Callable[[], bool]:
        """Return a function that reports whether a person was asked since, such as to log in."""
        clock, before, paused = self.clock, self.clock.pauses, self.clock.is_paused
        return lambda: paused or clock.pauses != before

    # ------------------------------------------------------------- credentials

    async def user_headers(self) -> Headers:
        """Return the host's headers for every request. Raises ``AuthError``."""
        headers, auth = self._server.headers, self._server.auth
        user_headers: dict[str, str] = {}
        if callable(headers):
            user_headers.update(await self._from_function(headers, "headers"))
        elif headers:
            user_headers.update(headers)
        if auth is not None and not hasattr(auth, "auth_flow"):
            user_headers.update(await self._from_function(auth, "auth"))
        return user_headers

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
                f"cannot send the result of the function HttpServer({option}=...): {fault}"
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

    async def stable_authorization(self, key: bytes) -> bytes:
        """See ``Transport.stable_authorization``."""
        return await self._credentials.stable_digest(key)

    def secrets(self, response: httpx.Response) -> set[str]:
        """Return the texts that must be hidden if the server repeats them in ``response``.

        They are everything secret in the request as it was sent, in the host's own headers and URL,
        and the secrets of the host's ``auth``.
        """
        return self._secrets_of(response.request)

    def known_secrets(self) -> set[str]:
        """Return the same of the last request that was answered."""
        return self._secrets_of(self._last_request)

    def _secrets_of(self, request: httpx.Request | None) -> set[str]:
        server, found = self._server, set[str]()
        if request is not None:
            found |= secrets_sent(str(request.url), request.headers.multi_items())
        headers = {} if server.headers is None or callable(server.headers) else server.headers
        found |= secrets_sent(server.url, headers.items())
        secrets_of_auth = getattr(server.auth, "secrets", None)
        return found | set(secrets_of_auth()) if callable(secrets_of_auth) else found

    # --------------------------------------------------------------- redirects

    def _redirected(self, url: str, location: str | None, response: HttpResponse) -> str:
        target = self._joined(url, location) if location else None
        if target is None:
            elsewhere = response.mask(shown(location or ""))
            raise ConnectError(
                f"{self.endpoint.shown} redirects to {elsewhere!r}, which is on another origin; "
                "nothing is sent there. Connect to that URL if it is the right one",
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
            if origin_of(target) != self._origin:
                return None
        except (httpx.InvalidURL, ValueError):
            return None
        if self.context.policy is not None:
            self.context.policy.check_url(target)
        return target

    async def aclose(self) -> None:
        """Close every connection, except those of a client of the host's own."""
        own = self._client if self._server.client is None else None
        for each in (self._pool, own):
            try:
                if each is not None:
                    await each.aclose()
            except Exception as error:  # noqa: BLE001 - it is over either way
                _log.debug(
                    "%s: cannot close the connections: %s", self.context.server, _text_of(error)
                )


def _text_of(error: BaseException) -> str:
    return safe_text(str(error), 200) or type(error).__name__
