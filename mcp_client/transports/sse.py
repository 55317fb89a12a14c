"""HTTP+SSE, the transport of 2024-11-05: one stream for all answers, a POST for every message.

2024-11-05 ``basic/transports``. The server's first event, ``endpoint``, says where to POST to. We
go there only if it is of the same origin, as the messages and what goes with them are meant for
no other. When the stream ends the connection is over: this revision has no resumption.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping

import anyio

from ..errors import ConnectError, McpError
from ..protocol.era import Era
from ..protocol.jsonrpc import ErrorResponse, Id, InvalidFrame, parse
from ..runtime.background import BackgroundTasks
from ..runtime.event_loop import current
from ..runtime.safe_text import safe_text
from .base import Transport, TransportContext
from .http_client import HttpClient, HttpServer, lasting_identity_of, origin_of
from .http_errors import http_error, without_secrets
from .http_response import HttpResponse
from .multiplexer import LineExchange, Multiplexer

__all__ = ["SseTransport"]

_log = logging.getLogger("mcp_client")
_POSTED = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
_SOON = 64
_ENDPOINT = 10.0
"""Seconds within which the first event has to come."""


class SseTransport(Transport):
    multiplexed = True
    has_headers = True
    always_responds = False
    is_remote = True

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._web: HttpClient | None = None
        self._endpoint: str | None = None
        self._over = False
        self._closed = False
        self._agreed = False
        self._why = "the stream of events ended"
        self._session_headers: Mapping[str, str] = {}
        self.name = origin_of(server.url)[1] or "server"

    def fresh(self) -> SseTransport:
        return SseTransport(self._server)

    @property
    def identity(self) -> Hashable:
        return ("http", *origin_of(self._server.url))

    @property
    def lasting_identity(self) -> str:
        return lasting_identity_of(self._server.url)

    @property
    def alive(self) -> bool:
        return self._endpoint is not None and not self._over

    def agree(self, era: Era) -> None:
        super().agree(era)
        self._agreed = True
        self._session_headers = era.session_headers

    async def open(self, link: TransportContext) -> None:
        self.link = link
        self._backend = current()
        self._jobs = BackgroundTasks(self._backend, link.server)
        self._web = web = HttpClient(self._server, link)
        self._watch = web.watch
        self._channel = Multiplexer(self._backend, link, lambda: self.owner)
        settled = anyio.Event()
        self._error: McpError | None = None
        self._jobs.start(lambda: self._listen(web, settled))
        within = min(link.timeouts.connect, _ENDPOINT)
        with web.watch.scope(web.watch.now() + within):
            await settled.wait()
        if self._endpoint is None:
            raise self._error or ConnectError(
                f"{web.shown} sent no endpoint event within {within:g} s",
                server=link.server,
                retryable=True,
            )

    # ---------------------------------------------------------------- the stream

    async def _listen(self, web: HttpClient, settled: anyio.Event) -> None:
        try:
            reply = await web.open("GET", {"Accept": "text/event-stream"})
            try:
                await self._read(web, reply, settled)
            finally:
                await reply.aclose()
        except McpError as error:
            self._error = error
        except InvalidFrame as error:
            self._why = f"an event cannot be used: {error.reason}"
        finally:
            self._over = True
            self._error = self._error or self._nothing(web)
            settled.set()
            self._channel.end(lambda: web.lost(self._why))

    def _nothing(self, web: HttpClient) -> ConnectError:
        return ConnectError(f"{web.shown} ended its stream of events before it had begun")

    async def _read(self, web: HttpClient, reply: HttpResponse, settled: anyio.Event) -> None:
        if not reply.ok:
            refused = await http_error(web, reply, None, agreed=False)
            if isinstance(refused, ErrorResponse):
                refused = ConnectError(
                    f"{web.shown} answered HTTP {reply.status}: {safe_text(refused.message, 200)}",
                    http_status=reply.status,
                )
            raise refused
        if not reply.streaming:
            body = await reply.excerpt()
            raise ConnectError(f"what {web.shown} answers to GET is {reply.unlike(body)}")
        while (event := await reply.event()) is not None:
            if event.kind == "endpoint" and self._endpoint is None:
                place = event.data.decode("utf-8", "replace").strip()
                self._endpoint = web.same_origin(place)
                if self._endpoint is None:
                    raise ConnectError(
                        f"{web.shown} wants messages sent to {safe_text(place, 100)!r}, which is "
                        "of another origin"
                    )
                settled.set()
            elif self._endpoint is None:
                raise ConnectError(f"{web.shown} began its stream with another event than endpoint")
            elif event.kind == "message":
                self._take(event.data.strip(), web, reply)

    def _take(self, frame: bytes, web: HttpClient, reply: HttpResponse) -> None:
        try:
            messages = parse(frame, self.link.limits.depth)
        except InvalidFrame as error:
            self._channel.junk(frame, error)
            return
        for message in messages:
            if type(message) is ErrorResponse:
                message = without_secrets(web, reply, message)
            self._channel.sort(frame, message)

    # ---------------------------------------------------------------- messages

    async def exchange(
        self, id: Id, text: str, headers: Mapping[str, str], until: float
    ) -> LineExchange:
        exchange = self._channel.exchange(id)
        try:
            with self._watch.scope(until) as scope:
                await self._post(text, headers, id, exchange)
            if scope.cancelled_caught:
                raise TimeoutError
        except BaseException:
            self._channel.forget(exchange)
            raise
        if self._over:
            assert self._web is not None
            exchange.fail(self._web.lost(self._why))
        return exchange

    async def send(self, text: str, headers: Mapping[str, str]) -> None:
        within = min(self.link.timeouts.connect, self.link.timeouts.idle)
        with self._watch.scope(self._watch.now() + within) as scope:
            await self._post(text, headers, None, None)
        if scope.cancelled_caught:
            raise ConnectError(
                f"the server does not take a notification within {within:g} s",
                server=self.link.server,
                retryable=True,
            )

    def send_soon(self, text: str, headers: Mapping[str, str]) -> None:
        if not self.alive:
            return
        if len(self._jobs) > _SOON:
            self.link.stats.unsent += 1
        else:
            self._jobs.start(lambda: self._send_contained(text, headers))

    async def _send_contained(self, text: str, headers: Mapping[str, str]) -> None:
        try:
            await self.send(text, headers)
        except McpError as error:
            _log.debug("%s: a message could not be sent: %s", self.link.server, error)

    async def _post(
        self, text: str, headers: Mapping[str, str], id: Id | None, exchange: LineExchange | None
    ) -> None:
        web, endpoint = self._web, self._endpoint
        if web is None or endpoint is None or self._over:
            raise ConnectError(
                "the session was closed" if self._closed else self._why,
                server=self.link.server,
                retryable=True,
            )
        own = {**_POSTED, **self._session_headers, **headers}
        reply = await web.open("POST", own, text, endpoint)
        try:
            if reply.ok:
                await reply.excerpt()
                return
            refused = await http_error(web, reply, id, agreed=self._agreed)
            if isinstance(refused, McpError):
                raise refused
            if exchange is not None:
                exchange.deliver(refused)
        finally:
            await reply.aclose()

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = self._over = True
        self._why = "the session was closed"
        web = self._web
        if web is None:
            return
        within = self.link.timeouts.close
        self._channel.end(lambda: web.lost(self._why))
        await self._jobs.aclose(within)
        with anyio.move_on_after(within, shield=True):
            await web.aclose()
