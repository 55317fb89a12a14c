"""HTTP+SSE, the transport of 2024-11-05: one stream for all responses, a POST for every message.

2024-11-05 ``basic/transports``. The server's first event, ``endpoint``, names the URL for POSTs. It
is used only if it is of the same origin, because the messages and their credentials are meant for
no other. When the stream ends the connection is over: this revision has no resumption.

Some servers of that time stop serving a connection when a request is cancelled, and leave its
stream open. So once a request was given up the connection is ``suspect``, until a later one has a
response.
"""

from __future__ import annotations

from collections.abc import Mapping

import anyio

from ..errors import ConnectError, McpError
from ..protocol.era import Era
from ..protocol.jsonrpc import ErrorResponse, Id, InvalidFrame, parse
from ..runtime.pausable_clock import PausableClock
from ..runtime.safe_text import safe_text
from .base import Received, TransportContext
from .http_base import POSTED, HttpBasedTransport, receive_by
from .http_client import HttpClient, RequestBody
from .http_errors import http_error, session_has_ended
from .http_options import HttpServer
from .http_response import HttpResponse
from .multiplexer import LineExchange, Multiplexer

__all__ = ["SseTransport"]

_ENDPOINT_SECONDS = 10.0
"""Seconds within which the first event has to come, or a third of ``Timeouts.connect``."""


class SseTransport(HttpBasedTransport):
    """A transport over HTTP+SSE."""

    multiplexed = True
    always_responds = False

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._endpoint: str | None = None
        self._ended = False
        self._agreed = False
        self._reason = "the stream of events ended"
        self._abandoned = 0
        """The number of requests that were given up since the last response."""
        self._error: McpError | None = None

    @property
    def alive(self) -> bool:
        """Whether a request can be sent now."""
        return self._endpoint is not None and not self._ended

    def agree(self, era: Era) -> None:
        """Accept the era that applies from now on."""
        super().agree(era)
        self._agreed = True

    async def open(self, context: TransportContext) -> None:
        """Make the connection, for one session. Raises ``ConnectError``."""
        await super().open(context)
        client = self._open_client()
        self.clock: PausableClock = client.clock
        self._multiplexer = Multiplexer(self._backend, context, lambda: self.owner)
        settled = anyio.Event()
        self._tasks.start(lambda: self._listen(client, settled))
        connect = context.timeouts.connect
        within = min(connect, max(connect / 3, _ENDPOINT_SECONDS))
        with client.clock.scope(client.clock.now() + within):
            await settled.wait()
        if self._endpoint is None:
            raise self._error or ConnectError(
                f"{client.endpoint.shown} sent no endpoint event within {within:g} s",
                server=context.server,
                retryable=True,
            )

    # ---------------------------------------------------------------- the stream

    async def _listen(self, client: HttpClient, settled: anyio.Event) -> None:
        try:
            response = await client.open("GET", {"Accept": "text/event-stream"})
            try:
                await self._read(client, response, settled)
            finally:
                await response.aclose()
        except McpError as error:
            self._error = error
        except InvalidFrame as error:
            self._reason = f"an event cannot be used: {error.reason}"
        finally:
            self._ended = True
            self._error = self._error or ConnectError(
                f"{client.endpoint.shown} ended its stream of events before the endpoint event"
            )
            settled.set()
            self._multiplexer.end(lambda: client.endpoint.lost(self._reason))

    async def _read(self, client: HttpClient, response: HttpResponse, settled: anyio.Event) -> None:
        address = client.endpoint.shown
        if not response.ok:
            failure = (await http_error(client.endpoint, response, None, agreed=False)).response()
            raise ConnectError(
                f"{address} answered HTTP {response.status}: {safe_text(failure.message, 200)}",
                http_status=response.status,
                retry_after=failure.retry_after,
            )
        if not response.streaming:
            body = await response.excerpt()
            raise ConnectError(f"the response of {address} to GET is {response.unlike(body)}")
        while (event := await response.event()) is not None:
            if event.kind == "endpoint" and self._endpoint is None:
                location = event.data.decode("utf-8", "replace").strip()
                self._endpoint = client.same_origin(location)
                if self._endpoint is None:
                    raise ConnectError(
                        f"{address} announced the endpoint {safe_text(location, 100)!r}, "
                        "which is on another origin"
                    )
                settled.set()
            elif self._endpoint is None:
                raise ConnectError(f"{address} did not begin its stream with the event endpoint")
            elif event.kind == "message":
                self._take(event.data.strip(), response)

    def _take(self, frame: bytes, response: HttpResponse) -> None:
        try:
            messages = parse(frame, self.context.limits.depth, self.context.accept)
        except InvalidFrame as error:
            self._multiplexer.junk(frame, error)
            return
        for message in messages:
            if type(message) is ErrorResponse:
                message = response.without_secrets(message)
                exchanges = self._multiplexer.exchanges
                exchange = None if message.id is None else exchanges.get(message.id)
                ended = self._agreed and session_has_ended(200, message.message, message.code)
                if exchange is not None and ended and not exchange.begun:
                    exchange.fail(self._open_client().endpoint.session_lost(message.message))
                    self._end()
                    return
            self._multiplexer.sort(frame, message)

    # ---------------------------------------------------------------- messages

    async def exchange(
        self, id: Id, text: str, headers: Mapping[str, str], until: float
    ) -> SseExchange:
        """Send a request, or make it ready to leave. Raises ``NotSent``."""
        client = self._open_client()
        inner = self._multiplexer.exchange(id)
        stale = client.asked_from_now() if id == self._held else None
        body = RequestBody(text.encode("utf-8", "replace"), stale)
        try:
            with client.clock.scope(until) as scope:
                if self._abandoned:
                    # Or an answer would come from a server that does not know of it yet.
                    await self._one_way_messages_left()
                await self._post_message(body, headers, inner)
            if scope.cancelled_caught:
                # A server that does not even take a message is busy, for all we know.
                self._note_abandoned(0)
                if self._agreed and not body.begun:
                    raise client.endpoint.not_connected()
                raise TimeoutError
        except BaseException as error:
            self._multiplexer.forget(inner)
            if body.begun and not isinstance(error, McpError | TimeoutError):
                self._note_abandoned(self._abandoned + 1)
            raise
        if self._ended:
            inner.fail(client.endpoint.lost(self._reason))
        return SseExchange(self, inner, self._abandoned)

    def note_abandoned(self, inner: LineExchange) -> None:
        """Count a request that was given up."""
        self._multiplexer.forget(inner)
        if not inner.settled:
            self._note_abandoned(self._abandoned + 1)

    def answered(self, abandoned_before: int) -> None:
        """Note a response to a request; so many had been given up when it was sent."""
        if abandoned_before == self._abandoned:
            self._note_abandoned(0)

    def _note_abandoned(self, requests: int) -> None:
        self._abandoned = requests
        self.suspect: bool = requests > 0
        if self.suspect:
            self.context.doubted()

    async def _post(self, text: str, headers: Mapping[str, str]) -> HttpResponse:
        return await self._opened(RequestBody(text.encode("utf-8", "replace")), headers)

    async def _opened(self, body: RequestBody, headers: Mapping[str, str]) -> HttpResponse:
        if self._endpoint is None or self._ended:
            raise ConnectError(self._reason, server=self.context.server, retryable=True)
        own = {**POSTED, **self._session_headers, **headers}
        return await self._open_client().open("POST", own, body, self._endpoint)

    async def _post_message(
        self, body: RequestBody, headers: Mapping[str, str], inner: LineExchange
    ) -> None:
        client = self._open_client()
        response = await self._opened(body, headers)
        try:
            if response.ok:
                await response.excerpt()
                return
            endpoint = self._endpoint or ""
            announced = client.endpoint._replace(url=endpoint, announced_by=client.endpoint.url)
            refusal = await http_error(announced, response, inner.id, agreed=self._agreed)
            ended = session_has_ended(response.status, refusal.words, refusal.code)
            if self._agreed and ended:
                self._end()
                raise client.endpoint.session_lost(refusal.words)
            inner.deliver(refusal.response())
        finally:
            await response.aclose()

    def _end(self) -> None:
        """End the session: the server has reported that it does not know it."""
        self._ended, self._reason = True, "the server no longer knows our session"
        self._multiplexer.end(lambda: self._open_client().endpoint.lost(self._reason))
        self.context.doubted()

    async def _end_exchanges(self, client: HttpClient, within: float) -> None:
        self._ended = True
        self._reason = self.closed_because
        self._multiplexer.end(lambda: client.endpoint.lost(self._reason))


class SseExchange:
    """A request under way, which reports its end to its transport."""

    __slots__ = ("_abandoned_before", "_inner", "_transport")

    def __init__(self, transport: SseTransport, inner: LineExchange, abandoned_before: int) -> None:
        self._transport = transport
        self._inner = inner
        self._abandoned_before = abandoned_before

    async def receive(self, until: float) -> Received:
        """Return the next message for this request."""
        message = await receive_by(self._transport.clock, self._inner, until)
        if self._inner.settled:
            self._transport.answered(self._abandoned_before)
        return message

    async def aclose(self) -> None:
        """End it, in any task, any number of times, within bounded time."""
        self._transport.note_abandoned(self._inner)
