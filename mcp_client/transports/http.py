"""Streamable HTTP: one request, one POST, in the task of whoever asks.

2026-07-28 ``basic/transports/streamable-http``; 2025-03-26, 2025-06-18 and 2025-11-25
``basic/transports``. Until an era is agreed, and in the stateless era, an exchange is one POST
and its reply, JSON or a stream of events: no task, no queue, and closing it abandons the request.
In the handshake era a server may answer on another stream than the one it was asked on, and
``http_session`` takes over.

A server that refuses ``initialize`` with 400, 404 or 405 may be of 2024-11-05: ``other`` offers
HTTP+SSE at the same URL.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any

import anyio

from ..errors import AuthError, ConnectError, McpError
from ..protocol.era import Era
from ..protocol.jsonrpc import ErrorResponse, Id, InvalidFrame, Notification, Response, parse
from ..runtime.background import BackgroundTasks
from ..runtime.event_loop import current
from .base import Exchange, Transport, TransportContext
from .http_client import HttpClient, HttpServer, lasting_identity_of, origin_of
from .http_errors import NOT_KNOWN, http_error, without_secrets
from .http_response import HttpResponse
from .http_session import HttpSession
from .sse import SseTransport

__all__ = ["ACCEPT", "HttpServer", "HttpTransport"]

ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

_log = logging.getLogger("mcp_client")
_SOON = 64
"""One-way messages that may be on their way at once."""
_DECISIVE = frozenset({401, 403, 407, 408, 429, 502, 503, 504})
"""Statuses that say nothing about the method that was asked."""
_METHOD_NOT_FOUND = -32601
_STATELESS_CODES = (_METHOD_NOT_FOUND, -32020, -32021, -32022)
"""Errors that an endpoint of HTTP+SSE does not answer a POST with."""


class HttpTransport(Transport):
    multiplexed = False
    has_headers = True
    always_responds = True
    is_remote = True

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._closed = False
        self._web: HttpClient | None = None
        self._session: HttpSession | None = None
        self._refused: int | None = None
        self._offered: str | None = None
        self._session_headers: Mapping[str, str] = {}
        self._exchanges: set[HttpExchange] = set()
        self._soon = 0
        self.agreed = False
        self.name = origin_of(server.url)[1] or "server"

    def fresh(self) -> HttpTransport:
        return HttpTransport(self._server)

    @property
    def identity(self) -> Hashable:
        return ("http", *origin_of(self._server.url))

    @property
    def credentials(self) -> Hashable | None:
        authorized_as = getattr(self._server.auth, "authorized_as", None)
        return None if authorized_as is None else authorized_as(self._server.url)

    @property
    def extensions(self) -> tuple[str, ...]:
        return getattr(self._server.auth, "extensions", ())

    @property
    def lasting_identity(self) -> str:
        return lasting_identity_of(self._server.url)

    @property
    def alive(self) -> bool:
        if self._closed or self._web is None:
            return False
        return self._session is None or not self._session.gone

    async def open(self, link: TransportContext) -> None:
        self.link = link
        self.backend = current()
        self._jobs = BackgroundTasks(self.backend, link.server)
        self._web = HttpClient(self._server, link)

    # -------------------------------------------------------------- negotiation

    def maybe_unknown_method(self, error: ConnectError) -> bool:
        if isinstance(error, AuthError):
            return False
        # No status: an answer came and could not be read, or no connection was made at all.
        if error.http_status is None:
            return not error.retryable
        return error.http_status >= 400 and error.http_status not in _DECISIVE

    def other(self) -> Transport | None:
        return SseTransport(self._server) if self._refused in NOT_KNOWN else None

    def agree(self, era: Era) -> None:
        super().agree(era)
        if self.agreed:
            return
        self.agreed = True
        self._session_headers = era.session_headers
        if era.server_may_ask:
            assert self._web is not None
            self._session = HttpSession(
                self._web,
                self._jobs,
                self.backend,
                self._offered,
                era.session_headers,
                self._owner_of,
            )

    def _owner_of(self) -> Any:
        return self.owner

    async def ready(self) -> None:
        if self._session is not None:
            await self._session.listen()

    def noted(self, reply: HttpResponse, outcome: object) -> None:
        """What a reply says besides its message, while no era is agreed."""
        if self.agreed:
            return
        self._offered = reply.response.headers.get("mcp-session-id")
        modern = isinstance(outcome, ErrorResponse) and outcome.code in _STATELESS_CODES
        self._refused = None if reply.ok or modern else reply.status

    # ---------------------------------------------------------------- messages

    async def exchange(
        self, id: Id, text: str, headers: Mapping[str, str], until: float
    ) -> Exchange:
        web = self._open_web()
        own = {**ACCEPT, **self._session_headers, **headers}
        if self._session is not None:
            return self._session.exchange(id, text, own)
        return HttpExchange(self, web, id, text, own)

    def _open_web(self) -> HttpClient:
        if self._web is None or self._closed:
            raise ConnectError("the session was closed", retryable=True)
        return self._web

    async def send(self, text: str, headers: Mapping[str, str]) -> None:
        timeouts, watch = self.link.timeouts, self._open_web().watch
        with watch.scope(watch.now() + min(timeouts.connect, timeouts.idle)) as scope:
            await self._post(text, headers)
        if scope.cancelled_caught:
            raise ConnectError(
                "the server does not take a notification within "
                f"{min(timeouts.connect, timeouts.idle):g} s",
                server=self.link.server,
                retryable=True,
            )

    def send_soon(self, text: str, headers: Mapping[str, str]) -> None:
        if self._closed or self._web is None:
            return
        if self._soon >= _SOON:
            self.link.stats.unsent += 1
            return
        self._soon += 1
        self._jobs.start(lambda: self._send_contained(text, headers))

    async def _send_contained(self, text: str, headers: Mapping[str, str]) -> None:
        try:
            await self.send(text, headers)
        except McpError as error:
            _log.debug("%s: a message could not be sent: %s", self.link.server, error)
        finally:
            self._soon -= 1

    async def _post(self, text: str, headers: Mapping[str, str]) -> None:
        """A one-way message. Whatever the server says to it is noted at most."""
        own = {**ACCEPT, **self._session_headers, **headers}
        if self._session is not None:
            own.update(self._session.headers)
        reply = await self._open_web().open("POST", own, text)
        try:
            body = await reply.excerpt() if reply.ok else b""
            if not reply.ok or body.strip():
                _log.debug(
                    "%s: a one-way message was answered with HTTP %d and %d bytes",
                    self.link.server,
                    reply.status,
                    len(body),
                )
            if reply.ok and body.strip():
                self.link.stats.junk_lines += 1
        finally:
            await reply.aclose()

    # ------------------------------------------------------------------ closing

    def begin(self, exchange: HttpExchange) -> None:
        self._exchanges.add(exchange)

    def end(self, exchange: HttpExchange) -> None:
        self._exchanges.discard(exchange)

    @property
    def closed(self) -> bool:
        return self._closed

    async def retire(self) -> None:
        """The server ended the session, and may still answer what it took up before that."""
        if self._session is None or not self._session.under_way:
            await self.aclose()
        else:
            self._session.when_idle = self.aclose

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        web = self._web
        if web is None:
            return
        within = self.link.timeouts.close
        for exchange in list(self._exchanges):
            exchange.interrupt()
        if self._session is not None:
            await self._session.aclose(within)
        await self._jobs.aclose(within)
        with anyio.move_on_after(within, shield=True):
            await web.aclose()


class HttpExchange:
    """One POST and its reply, in the caller's task."""

    def __init__(
        self,
        transport: HttpTransport,
        web: HttpClient,
        id: Id,
        text: str,
        headers: Mapping[str, str],
    ) -> None:
        self._transport = transport
        self._web = web
        self._id = id
        self._text = text
        self._headers = headers
        self._reply: HttpResponse | None = None
        self._inbox: deque[Response | ErrorResponse | Notification] = deque()
        self._scope: anyio.CancelScope | None = None
        self._spent = False

    async def receive(self, until: float) -> Response | ErrorResponse | Notification:
        if self._inbox:
            return self._inbox.popleft()
        transport = self._transport
        if not self._spent and not transport.closed:
            with self._web.watch.scope(until) as scope:
                self._scope = scope
                transport.begin(self)
                try:
                    return await self._next()
                finally:
                    transport.end(self)
                    self._spent = self._spent or scope.cancel_called
        if transport.closed:
            raise self._web.lost("the session was closed")
        raise TimeoutError

    def interrupt(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    async def _next(self) -> Response | ErrorResponse | Notification:
        reply = self._reply
        if reply is None:
            reply = await self._web.open("POST", self._headers, self._text)
            self._reply = reply
            if not reply.ok:
                refused = await http_error(
                    self._web, reply, self._id, agreed=self._transport.agreed
                )
                self._transport.noted(reply, refused)
                if isinstance(refused, McpError):
                    raise refused
                return refused
            self._transport.noted(reply, None)
        while not self._inbox:
            frame = await reply.frame()
            if frame is None:
                raise self._unanswered(reply)
            await self._take(reply, frame)
        return self._inbox.popleft()

    def _unanswered(self, reply: HttpResponse) -> Exception:
        if reply.streaming:
            return self._web.lost("the stream of events ended without the answer")
        if reply.status == 202:
            return InvalidFrame("it is HTTP 202, which is for notifications, to a request")
        return InvalidFrame("it has no body")

    async def _take(self, reply: HttpResponse, frame: bytes) -> None:
        try:
            messages = parse(frame.strip(), self._transport.link.limits.depth)
        except InvalidFrame as error:
            if not reply.streaming and "json" not in reply.kind:
                raise InvalidFrame(f"it is {reply.unlike(frame)}") from None
            if not reply.streaming or error.owner == self._id:
                raise
            self._junk(error)
            return
        for message in messages:
            if type(message) in (Response, ErrorResponse):
                if self._is_ours(message, reply):
                    if type(message) is ErrorResponse:
                        message = without_secrets(self._web, reply, message)
                    await self._finish(reply)
                    self._inbox.append(message)  # type: ignore[arg-type]
                    return  # what comes after the answer is not read
            elif type(message) is Notification and self._transport.owner(message) == self._id:
                self._inbox.append(message)
            elif isinstance(message, InvalidFrame):
                self._junk(message)
            else:
                self._transport.link.unasked(message)  # type: ignore[arg-type]

    async def _finish(self, reply: HttpResponse) -> None:
        """The connection can be used again once the stream is at its end: wait for it, a moment,
        from a server that usually ends its streams."""
        if self._web.held_open < 3 and not await reply.finish():
            self._web.held_open += 1

    def _is_ours(self, message: Any, reply: HttpResponse) -> bool:
        id = message.id
        if id == self._id and type(id) is type(self._id):
            return True
        if id is None and type(message) is ErrorResponse:
            return True  # the server could not read ours, and nobody else's can be meant
        if not reply.streaming or (type(id) is str and id == str(self._id)):
            raise InvalidFrame(f"its id is {str(id)[:40]!r}, not that of the request ({self._id})")
        self._transport.link.stats.stray_answers += 1
        return False

    def _junk(self, error: InvalidFrame) -> None:
        stats = self._transport.link.stats
        stats.junk_lines += 1
        _log.log(
            logging.WARNING if stats.junk_lines == 1 else logging.DEBUG,
            "%s: a frame that is no message was skipped: %s",
            self._transport.link.server,
            error.reason,
        )

    async def aclose(self) -> None:
        self._spent = True
        reply = self._reply
        if reply is not None:
            self._reply = None
            await reply.aclose()
