"""The common part of the two HTTP transports: address, credentials, one-way messages."""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Hashable, Mapping
from typing import Self

import anyio
import httpx

from ..errors import Advice, ConnectError, McpError
from ..protocol.era import Era
from ..protocol.jsonrpc import Id
from ..runtime.background import BackgroundTasks
from ..runtime.backoff import doubled
from ..runtime.event_loop import current
from ..runtime.pausable_clock import PausableClock
from ..runtime.session_context import StartPolicy
from .base import Credentials, Received, Transport, TransportContext
from .http_client import HttpClient
from .http_options import (
    HttpServer,
    may_be_authorized,
    name_of_url,
    origin_of,
    shown,
    stable_identity_of,
)
from .http_response import HttpResponse
from .multiplexer import LineExchange

__all__ = ["POSTED", "HttpBasedTransport", "receive_by"]

POSTED = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
"""The headers of every message."""

_log = logging.getLogger("mcp_client")
_ONE_WAY_ATTEMPTS, _PAUSE_SECONDS = 3, 0.25
_ONE_WAY_SHARE = 0.7
"""The part of the time of a one-way message in which another attempt may begin."""
_MAX_ONE_WAY = 64
"""The number of one-way messages that may be on their way at once."""


class HttpBasedTransport(Transport):
    """A transport over HTTP: the common base of both."""

    has_headers = True
    is_remote = True

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._client: HttpClient | None = None
        self._closed = False
        self._session_headers: Mapping[str, str] = {}
        self._one_way = 0
        self._held: Id | None = None
        self.may_log_in: bool = isinstance(server.auth, httpx.Auth)
        self.sends_credentials: bool = may_be_authorized(server)
        self.name: str = name_of_url(server.url)

    def clone(self) -> Self:
        """Return a new, unopened transport to the same server."""
        return type(self)(self._server)

    @property
    def identity(self) -> Hashable:
        """A value that is equal for two connections to the same server; None if unknown."""
        return ("http", *origin_of(self._server.url))

    @property
    def stable_identity(self) -> str:
        """A text that identifies the program or address, equal in every process."""
        return stable_identity_of(self._server)

    @property
    def address(self) -> str:
        """The program or address for people: without parts that may be secret."""
        return shown(self._server.url)

    @property
    def origin(self) -> tuple[str, str, int]:
        """The scheme, host and port of the server's URL, in lower case."""
        return origin_of(self._server.url)

    @property
    def credentials(self) -> Credentials | None:
        """The authorization of requests."""
        return None if self._client is None else self._client.credentials

    async def stable_authorization(self, key: bytes) -> bytes | None:
        """Return a digest under ``key`` of what authorizes requests."""
        return None if self._client is None else await self._client.stable_authorization(key)

    @property
    def extensions(self) -> tuple[str, ...]:
        """The protocol extensions for the authorization in use."""
        return getattr(self._server.auth, "extensions", ())

    def exit_advice(self) -> Advice | None:
        """Return a possible reason why the server ended, and what to do; None if unknown."""
        client = self._client
        if client is None or not client.got_no_http or not client.url.startswith("http:"):
            return None
        if client.endpoint.proxy:
            return Advice(f"the request went through {client.endpoint.proxy}; check the proxy")
        return Advice("the server there may not speak HTTP: if it speaks TLS, use https://")

    def permit(self, policy: StartPolicy | None) -> None:
        """Raise ``StartDenied`` if ``policy`` refuses the server that this leads to."""
        if policy is not None:
            policy.check_url(self._server.url)

    async def open(self, context: TransportContext) -> None:
        """Make the connection, for one session. Raises ``ConnectError``."""
        self.context = context
        self.permit(context.policy)
        self._backend = current()
        self._tasks = BackgroundTasks(self._backend, context.server)
        self._client = HttpClient(self._server, context)
        if context.secrets is not None:
            context.secrets.follow(self._client.known_secrets)

    def agree(self, era: Era) -> None:
        """Accept the era that applies from now on."""
        super().agree(era)
        self._session_headers = era.session_headers

    def hold(self, id: Id) -> None:
        """Hold the request ``id``: do not send it after a person was asked."""
        self._held = id

    def _open_client(self) -> HttpClient:
        if self._client is None or self._closed:
            raise ConnectError("the session was closed", retryable=True)
        return self._client

    # -------------------------------------------------------- one-way messages

    async def send(self, text: str, headers: Mapping[str, str]) -> None:
        """Send a one-way message and wait until it has left. Raises ``ConnectError``.

        A server that limits requests may refuse ``notifications/initialized``, and then all that
        follows. So a message is sent again to a busy server, if there is time.
        """
        timeouts, clock = self.context.timeouts, self._open_client().clock
        within, began = min(timeouts.connect, timeouts.idle), clock.now()
        with clock.scope(began + within) as scope:
            for attempt in range(_ONE_WAY_ATTEMPTS):
                after = await self._post_once(text, headers)
                pause = math.inf if after is None else max(doubled(_PAUSE_SECONDS, attempt), after)
                is_late = clock.now() + pause >= began + within * _ONE_WAY_SHARE
                if is_late or attempt == _ONE_WAY_ATTEMPTS - 1:
                    break
                await anyio.sleep(pause)
        if scope.cancelled_caught:
            raise ConnectError(
                f"the server did not accept a notification within {within:g} s",
                server=self.context.server,
                retryable=True,
            )

    def send_soon(self, text: str, headers: Mapping[str, str]) -> None:
        """Send a one-way message some time soon; if the connection is gone, do not."""
        if not self.alive:
            return
        if self._one_way >= _MAX_ONE_WAY:
            self.context.stats.unsent += 1
            return
        if not self._one_way:
            self._none_left = anyio.Event()
        self._one_way += 1
        self._tasks.start(lambda: self._send_contained(text, headers))

    async def _send_contained(self, text: str, headers: Mapping[str, str]) -> None:
        try:
            await self.send(text, headers)
        except McpError as error:
            _log.debug("%s: cannot send a message: %s", self.context.server, error)
        finally:
            self._one_way -= 1
            if not self._one_way:
                self._none_left.set()

    async def _one_way_messages_left(self) -> None:
        """Wait until every one-way message has been taken by the server, or has failed."""
        if self._one_way:
            await self._none_left.wait()

    async def _post_once(self, text: str, headers: Mapping[str, str]) -> float | None:
        """POST a one-way message. Returns the seconds for which a busy server asks, else None."""
        response = await self._post(text, headers)
        try:
            body = await response.excerpt() if response.ok else b""
        finally:
            await response.aclose()
        if not response.ok or body.strip():
            _log.debug(
                "%s: a one-way message was answered with HTTP %d and %d bytes",
                self.context.server,
                response.status,
                len(body),
            )
        self._note_body(body)
        after = response.retry_after
        busy = response.status == 429 or (response.status == 503 and after is not None)
        return after or 0.0 if busy else None

    @abstractmethod
    async def _post(self, text: str, headers: Mapping[str, str]) -> HttpResponse:
        """POST a one-way message. Returns the response, which is not read."""

    def _note_body(self, body: bytes) -> None:
        """Note the body of the response to a one-way message."""

    # ----------------------------------------------------------------- closing

    async def aclose(self) -> None:
        """End it, in any task, any number of times, within bounded time."""
        if self._closed:
            return
        self._closed = True
        client = self._client
        if client is None:
            return
        within = self.context.timeouts.close
        await self._end_exchanges(client, within)
        await self._tasks.aclose(within)
        with anyio.move_on_after(within, shield=True):
            await client.aclose()
        client.clock.rest()

    @abstractmethod
    async def _end_exchanges(self, client: HttpClient, within: float) -> None:
        """Settle every request that is under way, within so many seconds."""


async def receive_by(clock: PausableClock, exchange: LineExchange, until: float) -> Received:
    """Return ``exchange.receive`` with a time limit on a clock that may be paused."""
    while True:
        try:
            return await exchange.receive(clock.on_the_loop(until))
        except TimeoutError:
            if clock.now() >= until:
                raise
