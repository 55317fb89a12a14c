"""Streamable HTTP: one request, one POST, in the caller's task.

2026-07-28 ``basic/transports/streamable-http``; 2025-03-26, 2025-06-18 and 2025-11-25
``basic/transports``. Until an era is agreed, and in the stateless era, an exchange is one POST
and its response, JSON or a stream of events. It has no task and no queue, and closing it abandons
the request. In the handshake era a server may answer on another stream than that of the request,
and ``http_session`` takes over.

A server that refuses ``initialize`` with 400, 404 or 405 may be of 2024-11-05: ``fallback`` offers
HTTP+SSE at the same URL.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from ..errors import ConnectError
from ..protocol.era import Era
from ..protocol.headers import METHOD
from ..protocol.jsonrpc import ErrorResponse, Id, InvalidFrame, Notification, Response, parse
from ..runtime.safe_text import safe_text
from .base import Exchange, Received, Transport
from .http_base import POSTED, HttpBasedTransport
from .http_client import HttpClient, RequestBody
from .http_errors import NOT_KNOWN, RefusedAlike, http_error
from .http_options import HttpServer
from .http_response import HttpResponse
from .http_session import HttpSession
from .http_sse import SseTransport
from .multiplexer import JUNK_CHARS, TEXT_ID

__all__ = ["HttpServer", "HttpTransport"]

_log = logging.getLogger("mcp_client")
_METHOD_NOT_FOUND = -32601
_STATELESS_CODES = (_METHOD_NOT_FOUND, -32020, -32021, -32022)
"""The error codes that an endpoint of HTTP+SSE does not respond with to a POST."""


class HttpTransport(HttpBasedTransport):
    """A transport over streamable HTTP, for both eras."""

    multiplexed = False
    always_responds = True

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._session: HttpSession | None = None
        self._refused_with: int | None = None
        self._probed = False
        self._refused = RefusedAlike()
        self._opening: tuple[bytes, Mapping[str, str]] = b"", {}
        """The body and headers of the last request before an era was agreed on."""
        self._offered_session: str | None = None
        self._exchanges: set[HttpExchange] = set()
        self._last_unsent_id: Id | None = None
        self.agreed: bool = False

    def clone(self) -> HttpTransport:
        """Return a new, unopened transport to the same server."""
        other = HttpTransport(self._server)
        other._refused = self._refused
        return other

    @property
    def alive(self) -> bool:
        """Whether a request can be sent now."""
        if self._closed or self._client is None:
            return False
        return self._session is None or not self._session.has_ended

    @property
    def notification_epoch(self) -> int | None:
        """A number that changes whenever a notification may have been missed."""
        session = self._session
        return None if session is None or not self.alive else session.notification_epoch

    @property
    def session_id(self) -> str | None:
        """The id that the server gave the session, or None. A secret."""
        return None if self._session is None else self._session.id

    @property
    def last_unsent_id(self) -> Id | None:  # type: ignore[override]
        """The last request that was given up before any byte of it had left."""
        return self._last_unsent_id if self._session is None else self._session.last_unsent_id

    # -------------------------------------------------------------- negotiation

    def maybe_unknown_method(self, error: ConnectError) -> bool:
        """Whether a request may have failed because the method is not known."""
        # No status: no connection was made, or a login failed. A redirect is followed, or refused.
        return error.http_status is not None and error.http_status >= 400

    def fallback(self) -> Transport | None:
        """Return another transport to the same server, if this one was refused; else None."""
        return SseTransport(self._server) if self._refused_with in NOT_KNOWN else None

    def agree(self, era: Era) -> None:
        """Accept the era that applies from now on."""
        super().agree(era)
        if self.agreed:
            return
        self.agreed = True
        if era.server_may_ask:
            self._session = HttpSession(
                self._open_client(),
                self._tasks,
                lambda: self.owner,
                session_id=self._offered_session,
                headers=era.session_headers,
                refused=self._refused,
                opening=self._opening,
            )

    async def ready(self) -> None:
        """Prepare the session, which is open, before anything else is sent. Never raises."""
        if self._session is not None:
            await self._session.listen()

    def note_response(self, response: HttpResponse, outcome: object) -> None:
        """Note the session id and other members of a response, while no era is agreed."""
        if self.agreed:
            return
        self._offered_session = response.headers.get("mcp-session-id")
        stateless = isinstance(outcome, ErrorResponse) and outcome.code in _STATELESS_CODES
        self._refused_with = None if response.ok or stateless else response.status

    # ---------------------------------------------------------------- messages

    async def exchange(
        self, id: Id, text: str, headers: Mapping[str, str], until: float
    ) -> Exchange:
        """Send a request, or make it ready to leave. Raises ``NotSent``."""
        client = self._client
        if client is None or self._closed:
            client = self._open_client()
        own = {**POSTED, **self._session_headers, **headers}
        stale = client.asked_from_now() if id == self._held else None
        if self._session is not None:
            return await self._session.exchange(id, text, own, until, stale)
        body = RequestBody(text.encode("utf-8", "replace"), stale)
        if not self.agreed:
            self._opening = body.data, own
        if not self.agreed and METHOD in headers and not self._probed:  # not ``initialize``
            self._probed = True
            body.spares_login = lambda: True  # ``initialize`` may be allowed
        return HttpExchange(self, client, id, (own, body))

    async def _post(self, text: str, headers: Mapping[str, str]) -> HttpResponse:
        """POST a one-way message. A response to it is at most noted."""
        own = {**POSTED, **self._session_headers, **headers}
        if self._session is not None:
            own.update(self._session.headers)
        return await self._open_client().open("POST", own, RequestBody(text.encode()))

    def _note_body(self, body: bytes) -> None:
        if body.strip():
            self.context.stats.junk_lines += 1

    # ------------------------------------------------------------------ closing

    def begin(self, exchange: HttpExchange) -> None:
        """Count an exchange as under way."""
        self._exchanges.add(exchange)

    def end(self, exchange: HttpExchange, last_unsent_id: Id | None) -> None:
        """Count an exchange as ended."""
        self._exchanges.discard(exchange)
        if last_unsent_id is not None:
            self._last_unsent_id = last_unsent_id

    @property
    def closed(self) -> bool:
        """Whether the transport was closed."""
        return self._closed

    async def retire(self) -> None:
        """Close when the exchanges under way have ended: the server has ended the session."""
        if self._session is None or not self._session.under_way:
            await self.aclose()
        else:
            self._session.call_when_idle(self.aclose)

    async def _end_exchanges(self, client: HttpClient, within: float) -> None:
        for exchange in list(self._exchanges):
            exchange.interrupt()
        if self._session is not None:
            await self._session.aclose(within, self.closed_because, end=self._server.end_session)


class HttpExchange:
    """An exchange: one POST and its response, in the caller's task."""

    def __init__(
        self,
        transport: HttpTransport,
        client: HttpClient,
        id: Id,
        message: tuple[Mapping[str, str], RequestBody],
    ) -> None:
        """``message``: headers and body."""
        self._transport = transport
        self._client = client
        self._id = id
        self._headers, self._body = message
        self._response: HttpResponse | None = None
        self._inbox: deque[Response | ErrorResponse | Notification] = deque()
        self._scope: anyio.CancelScope | None = None
        self._spent = False

    async def receive(self, until: float) -> Received:
        """Return the next message for this request."""
        if self._inbox:
            return self._inbox.popleft()
        transport = self._transport
        if not self._spent and not transport.closed:
            with self._client.clock.scope(until) as scope:
                self._scope = scope
                transport.begin(self)
                try:
                    return await self._next()
                finally:
                    transport.end(self, None if self._body.begun else self._id)
                    self._spent = self._spent or scope.cancel_called
        if transport.closed:
            raise self._client.endpoint.lost(transport.closed_because)
        if transport.agreed and not self._body.begun:
            raise self._client.endpoint.not_connected()
        await checkpoint()  # or a caller that tries again and again would stop the event loop
        raise TimeoutError

    def interrupt(self) -> None:
        """End the wait for the response."""
        if self._scope is not None:
            self._scope.cancel()

    async def _next(self) -> Response | ErrorResponse | Notification:
        response = self._response
        if response is None:
            response = await self._client.open("POST", self._headers, self._body)
            self._response = response
            if not response.ok:
                refusal = await http_error(
                    self._client.endpoint, response, self._id, agreed=self._transport.agreed
                )
                self._transport.note_response(response, refusal.outcome)
                return refusal.response()
            self._transport.note_response(response, None)
        while not self._inbox:
            frame = await response.frame()
            if frame is None:
                raise self._unanswered(response)
            await self._take(response, frame)
        return self._inbox.popleft()

    def _unanswered(self, response: HttpResponse) -> Exception:
        if response.streaming:
            return self._client.endpoint.lost("the stream of events ended without the response")
        if response.status == 202:
            return InvalidFrame("it is HTTP 202, which is for notifications, to a request")
        return InvalidFrame("it has no body")

    async def _take(self, response: HttpResponse, frame: bytes) -> None:
        try:
            context = self._transport.context
            messages = parse(frame.strip(), context.limits.depth, context.accept)
        except InvalidFrame as error:
            if not response.streaming and "json" not in response.kind:
                raise InvalidFrame(f"it is {response.unlike(frame)}") from None
            if not response.streaming or error.owner == self._id:
                raise
            self._skip(frame, error)
            return
        for message in messages:
            if type(message) in (Response, ErrorResponse):
                if self._is_for_this_request(message, response):
                    if type(message) is ErrorResponse:
                        message = response.without_secrets(message)
                    await self._client.finish(response)
                    self._inbox.append(message)  # type: ignore[arg-type]
                    return  # what comes after the response is not read
            elif type(message) is Notification and self._transport.owner(message) == self._id:
                self._inbox.append(message)
            elif isinstance(message, InvalidFrame):
                if message.owner == self._id:
                    raise message
                self._skip(frame, message)
            else:
                self._transport.context.unasked(message)  # type: ignore[arg-type]

    def _is_for_this_request(self, message: Any, response: HttpResponse) -> bool:
        id = message.id
        if id == self._id and type(id) is type(self._id):
            return True
        if id is None and type(message) is ErrorResponse:
            return True  # the server could not read our id, and this response is to our request
        if type(id) is str and id == str(self._id):
            self._transport.context.accept(TEXT_ID)
            return True
        if not response.streaming:
            raise InvalidFrame(f"its id is {str(id)[:40]!r}, not that of the request ({self._id})")
        self._transport.context.stats.stray_answers += 1
        return False

    def _skip(self, frame: bytes, error: InvalidFrame) -> None:
        text = self._response.mask(frame[:1024].decode(errors="replace")) if self._response else ""
        stats = self._transport.context.stats
        stats.junk_lines += 1
        _log.log(
            logging.WARNING if stats.junk_lines == 1 else logging.DEBUG,
            "%s: skipped an invalid message: %s: '%s'",
            self._transport.context.server,
            error.reason,
            safe_text(text, JUNK_CHARS),
        )

    async def aclose(self) -> None:
        """End it, in any task, any number of times, within bounded time."""
        self._spent = True
        response = self._response
        if response is not None:
            self._response = None
            await response.aclose()
