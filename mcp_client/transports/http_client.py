"""The HTTP under the HTTP transports: one server's address, its client, and what can go wrong.

``HttpClient.open`` sends one request and returns an ``HttpResponse`` as soon as its headers are
there. It goes through our own pool of connections (``http_pool``) or, where more is asked than that
can do, through stock httpx (``http_stock``): see ``_needs_httpx``. Foreign exceptions are
translated at this border, by one question: can the server have taken the request up? It cannot
unless the request has begun to leave, and ``RequestBody`` knows that.

Two rules hold for every request. Redirects are followed within the origin only, with method and
body kept, so that neither credentials nor session ids nor messages leave it. And traffic to this
machine itself ignores the proxies of the environment.

Imported only where a host uses HTTP: ``import mcp_client`` does not load httpx.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import httpx

from ..errors import AuthError, ConnectError, ConnectionLost, McpError
from ..runtime.event_loop import current
from ..runtime.loopback import is_loopback
from ..runtime.masking import is_harmless, secrets_sent
from ..runtime.pausable_clock import PausableClock
from ..runtime.safe_text import safe_text
from .base import TransportContext
from .http_connect_errors import connect_failure, is_foreign
from .http_credentials import HttpCredentials
from .http_proxies import proxy_for
from .http_response import HttpResponse, InvalidHttp
from .http_server import (
    Headers,
    HttpServer,
    header_fault,
    origin_of,
    shown,
    takes_any_request,
)
from .http_stock import RequestBody, new_client, send_logged_safely, tls_context

if TYPE_CHECKING:
    from .http_message import PooledResponse
    from .http_pool import HttpPool, PooledRequest

__all__ = ["KEPT_ALIVE", "HttpClient", "RequestBody", "origin_of", "shown"]

_log = logging.getLogger("mcp_client")
_HOPS = 5
_HELD_OPEN = 3
"""So many streams in a row left open after their answer: then their ends are not waited for."""
_ENCODING = {"Accept-Encoding": "gzip, deflate"}
_DEFAULTS = {"Accept": "*/*", "User-Agent": "mcp-client"}
_FRAMING = frozenset({"content-length", "transfer-encoding"})
_MOST_TARGETS = 16
KEPT_ALIVE = 4.0
"""Seconds an idle connection is kept: many servers close theirs after five."""

AnyResponse: TypeAlias = "httpx.Response | PooledResponse"


class _Target(NamedTuple):
    """A URL of the server, as its parts travel."""

    url: str
    host: str
    """The ``Host`` header."""
    path: str
    """With the query."""
    has_user: bool


def _target(url: str) -> _Target:
    parsed = httpx.URL(url)
    host = parsed.netloc.decode("ascii")
    return _Target(str(parsed), host, parsed.raw_path.decode("ascii"), bool(parsed.userinfo))


def _needs_httpx(server: HttpServer) -> bool:
    """Whether this server is reached through stock httpx, because our pool cannot do all of it."""
    if server.via_httpx or server.client is not None or "@" in urlsplit(server.url).netloc:
        return True
    if isinstance(server.auth, httpx.Auth) and not takes_any_request(server.auth):
        return True
    try:
        import h11  # noqa: F401 - it comes with httpx's own httpcore, and may not for ever
    except ImportError:
        return True
    return proxy_for(server.url) is not None


class HttpClient:
    """One session's way to one server."""

    def __init__(self, server: HttpServer, context: TransportContext) -> None:
        self.context = context
        self.clock = context.clock or PausableClock(current().now)
        self.url = server.url
        """Where the server is: where it said that it moved to for good, if it did."""
        self.given_url = server.url
        self.shown = shown(server.url)
        self._held_open = 0
        """How many streams in a row were left open by the server after their answer."""
        self.got_no_http = False
        """Whether the last request was answered with something that is not HTTP, or not at all."""
        self._origin = origin_of(server.url)
        self._server = server
        self._targets: dict[str, _Target] = {}
        self._retired: HttpPool | None = None
        """The pool that was in use until the server set a cookie."""
        self._client = server.client
        self._last_request: Any = None
        self._pool = None if _needs_httpx(server) else self._new_pool()
        self._auth: Any = server.auth if isinstance(server.auth, httpx.Auth) else None
        self._credentials = HttpCredentials(
            self._stock_client,
            self._auth,
            self.given_headers,
            url=server.url,
            is_own_client=server.client is None,
            seconds=context.timeouts.connect,
        )
        self._warn_of_plain_text()

    def _new_pool(self) -> HttpPool:
        from .http_pool import HttpPool

        scheme, _, port = self._origin
        host = httpx.URL(self.url).raw_host.decode("ascii")
        tls = tls_context(certificates=True) if scheme == "https" else None
        return HttpPool(host, port, tls, connect=self.context.timeouts.connect, keep=KEPT_ALIVE)

    def _stock_client(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = new_client(self.url, KEPT_ALIVE)
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

    async def finish(self, response: HttpResponse) -> None:
        """Wait for the end of a stream whose answer has come, so that its connection can be used
        again: a moment, and only where the server usually ends its streams."""
        if response.streaming and self._held_open < _HELD_OPEN:
            self._held_open = 0 if await response.finish() else self._held_open + 1

    async def _send(
        self, method: str, url: str, headers: Headers, body: RequestBody
    ) -> HttpResponse:
        try:
            target = self._targets.get(url) or self._new_target(url)
            if self._pool is None or target.has_user:
                response: AnyResponse = await self._send_via_httpx(method, url, headers, body)
            else:
                request = self._pooled_request(method, target, headers, body)
                if self._auth is None:
                    response = await self._pool.send(request, body)
                else:
                    response = await self._send_authorized(self._pool, request, body)
                if "set-cookie" in response.headers:
                    self._keep_cookies(response)
        except McpError:
            raise
        except Exception as error:  # noqa: BLE001 - httpx, a closed connection, a host's auth
            self.got_no_http = isinstance(error, httpx.RemoteProtocolError | InvalidHttp)
            if body.begun:
                raise self.lost(_text_of(error)) from None
            raise connect_failure(
                error, self.url, self.context.server, self.context.timeouts.connect
            ) from (error if is_foreign(error) else None)
        self._last_request = response.request
        self._credentials.note(response)
        return HttpResponse(response, self.context.limits, self.lost, self.secrets)

    def _new_target(self, url: str) -> _Target:
        if len(self._targets) >= _MOST_TARGETS:
            self._targets.clear()
        target = self._targets[url] = _target(url)
        return target

    async def _send_via_httpx(
        self, method: str, url: str, headers: Headers, body: RequestBody
    ) -> httpx.Response:
        client = self._stock_client()
        request = client.build_request(
            method,
            url,
            headers=dict(headers),
            content=body.data,
            timeout=httpx.Timeout(None, connect=self.context.timeouts.connect),
            extensions={"mcp_client": self},
        )
        request.stream = body
        return await send_logged_safely(client, request, self._auth or httpx.USE_CLIENT_DEFAULT)

    # ----------------------------------------------------------- our own pool

    def _pooled_request(
        self, method: str, target: _Target, headers: Headers, body: RequestBody
    ) -> PooledRequest:
        from .http_pool import PooledRequest

        own = {"Host": target.host, **_DEFAULTS, **headers}
        names = [name.lower() for name in own]
        if len(set(names)) < len(names) or not _FRAMING.isdisjoint(names):
            own = {name: own[name] for name in own if name.lower() not in _FRAMING}
            last = {name.lower(): name for name in own}
            own = {name: own[name] for name in last.values()}
        if body.data or method == "POST":
            own["Content-Length"] = str(len(body.data))
        return PooledRequest(method, (target.url, target.path), own, owner=self)

    async def _send_authorized(
        self, pool: HttpPool, request: PooledRequest, body: RequestBody
    ) -> PooledResponse:
        """Send as ``httpx.AsyncClient`` does with an ``httpx.Auth``, a flow that is sent each
        response and yields the next request."""
        flow: AsyncGenerator[Any, Any] = self._auth.async_auth_flow(request)
        try:
            request = await anext(flow)
            while True:
                body.check()
                response = await pool.send(request, body)
                try:
                    request = await flow.asend(response)
                except StopAsyncIteration:
                    return response
                except BaseException:
                    await response.aclose()
                    raise
                await response.drain()
                body.rewind()
        finally:
            await flow.aclose()

    def _keep_cookies(self, response: PooledResponse) -> None:
        """From now on stock httpx sends the requests, and the server's cookies with them."""
        request = httpx.Request(response.request.method, response.request.url)
        said = httpx.Response(response.status_code, headers=response.headers.raw, request=request)
        cookies = said.cookies
        if cookies:
            self._credentials.note_cookies(cookies)
            self._stock_client().cookies.update(cookies)
            self._retired, self._pool = self._pool, None

    def lost(self, why: str, status: int | None = None) -> ConnectionLost:
        return ConnectionLost(
            f"the connection to {self.shown} was lost while the request was under way: {why}; "
            "it may have run",
            why=f"the connection to {self.shown} was lost: {why}",
            http_status=status,
            server=self.context.server,
        )

    def asked_from_now(self) -> Callable[[], bool]:
        """Tells whether a person was asked since this was called, such as to log in."""
        clock, before, paused = self.clock, self.clock.pauses, self.clock.is_paused
        return lambda: paused or clock.pauses != before

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

    async def lasting_authorization(self, key: bytes) -> bytes:
        """See ``Transport.lasting_authorization``."""
        return await self._credentials.lasting(key)

    def secrets(self, response: AnyResponse) -> set[str]:
        """What must not be shown of the text of ``response``, should the server repeat it.

        Everything secret in the request as it was sent, in the host's own headers and URL, and
        what the host's ``auth`` keeps to itself.
        """
        return self._secrets_of(response.request)

    def known_secrets(self) -> set[str]:
        """The same of the last request that was answered."""
        return self._secrets_of(self._last_request)

    def _secrets_of(self, request: Any) -> set[str]:
        server, found = self._server, set[str]()
        if request is not None:
            found |= secrets_sent(str(request.url), request.headers.multi_items())
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
        """Close every connection, except those of a client of the host's own."""
        own = self._client if self._server.client is None else None
        for each in (self._pool, self._retired, own):
            try:
                if each is not None:
                    await each.aclose()
            except Exception as error:  # noqa: BLE001 - it is over either way
                _log.debug("%s: closing the connections: %s", self.context.server, _text_of(error))


def _text_of(error: BaseException) -> str:
    return safe_text(str(error), 200) or type(error).__name__
