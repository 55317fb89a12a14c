"""The change notifications of one topic, and their stream.

In the handshake era notifications arrive without a request. In the stateless era they arrive on a
stream that the client opens with ``subscriptions/listen`` (2026-07-28
``basic/patterns/subscriptions``). The stream is opened once it is needed: a watch exists, or a list
that was fetched before is used again, and the server declares change notifications. It runs outside
the host's own tasks, and ends with its connection.

Notifications that were sent while no stream was open are lost. So opening one counts as a change if
an earlier stream was lost or a watch is open. Otherwise it counts for lists that are no longer
fresh. A stream that is lost, ended or cancelled by the server is opened again after a pause. The
pause doubles, with jitter, until a stream lasts for some seconds or brings a change. A stream that
is refused without a login is requested again once a person has logged in, or after an hour: the
request may begin a login that no caller waits for. A server that does not know the method, or does
not acknowledge the request, is not asked again on the same connection. Its lists are then fresh for
their ``ttlMs`` only.

Each topic has a stream of its own, which the specification allows, so that opening one does not
interrupt another.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable
from enum import Enum, auto
from typing import Any

import anyio

from ..connection.rpc import RpcConnection
from ..errors import AuthError, CallTimeout, McpError, ServerError
from ..protocol.capabilities import declares, may_offer
from ..protocol.era import ACKNOWLEDGED, CANCELLED, LISTEN, Topic
from ..protocol.jsonrpc import ErrorResponse, InvalidFrame, Notification, Response
from ..runtime.backoff import chance, spread
from ..runtime.event_loop import Handle, current
from ..runtime.limits import seconds_text
from ..runtime.safe_text import safe_text
from ..runtime.watch import Notifier
from ..transports.base import Exchange

__all__ = ["ListSubscription", "Subscription"]

_log = logging.getLogger("mcp_client")
_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 60.0
_LASTED_SECONDS = 5.0
"""After which a stream counts as one that lasted."""
_WITHOUT_LOGIN_SECONDS = 3_600.0
_UNSUPPORTED_CODES = frozenset({-32601, -32602})


class _End(Enum):
    """The end of a stream."""

    LOST = auto()
    ENDED = auto()
    UNSUPPORTED = auto()


class Subscription(ABC):
    """The notifications of one topic in one session, across its connections."""

    def __init__(
        self,
        server: str,
        topic: Topic,
        seconds: float,
        *,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        jitter: Callable[[], float] | None = None,
    ) -> None:
        """Allow the server ``seconds`` to acknowledge a stream."""
        self.topic = topic
        self._server = server
        self._seconds = seconds
        self._sleep = sleep
        self._jitter = jitter or chance
        self._backend = current()
        self._connection: RpcConnection | None = None
        self._declared = False
        self.is_offered: bool = True
        """Whether the server is worth asking for what the topic is about."""
        self.is_lost: bool = False
        """Whether the connection was lost, or may have been, and no one has replaced it yet."""
        self.is_available: bool = False
        """Whether there is a stream of changes to subscribe to."""
        self._streams = 0
        self._acknowledged = False
        self._attempted = False
        self._opened_at = 0.0
        self._brought = False
        """Whether the open stream has brought a change."""
        self._was_lost = False
        self.is_used: bool = False
        """Whether a list that relies on it was used since it is there."""
        self._watchers = 0
        self._listener: Handle | None = None
        self._helpers: set[Handle] = set()
        self.notifier: Notifier = Notifier()
        """The notifier of opened and lost streams and connections, and of changes of the topic."""
        self.fault: McpError | None = None
        """The reason why the last attempt to subscribe failed."""
        self.closed: bool = False

    @abstractmethod
    def on_notification(self, notice: Notification) -> None:
        """Handle a notification of the topic."""

    @abstractmethod
    def on_open(self, was_lost: bool) -> None:
        """Handle an opened stream. ``was_lost``: an earlier one was lost, with notifications."""

    @abstractmethod
    def missed(self) -> None:
        """Note that in the handshake era notifications may have been lost."""

    @property
    def epoch(self) -> int | None:
        """A number that changes whenever notifications may have been missed.

        None while a change would not be received: the server does not declare change notifications,
        or there is no stream for them.
        """
        connection = self._connection
        if connection is None or not self._declared:
            return None
        if connection.era.listens:
            return self._streams if self._acknowledged else None
        return connection.transport.notification_epoch

    def connected(self, connection: RpcConnection) -> None:
        """Subscribe on a new connection to what is still needed."""
        self._stop()
        self._connection = connection
        capabilities = connection.era.server.capabilities
        feature, revision = self.topic.feature, connection.era.revision
        self._declared = declares(capabilities, feature, self.topic.detail)
        self.is_offered = feature == "extensions" or may_offer(revision, capabilities, feature)
        self.is_lost = not connection.transport.alive
        self.is_available = self._may_listen(connection)
        if self.is_used or self._watchers:
            self._start()

    def _may_listen(self, connection: RpcConnection) -> bool:
        return connection.era.listens and self._declared

    def watch(self) -> None:
        """Note that a watch exists."""
        self._watchers += 1
        self._start()

    def unwatch(self) -> None:
        """Note that a watch has ended."""
        self._watchers -= 1
        if not self._watchers and not self.is_used:
            self._stop()

    def lost(self) -> None:
        """The connection was lost, or may have been."""
        self.is_lost = True
        self.notifier.notify()

    async def replace_lost(self, live: Callable[[], Awaitable[object]]) -> None:
        """Have ``live`` replace the connection. If that fails, others that wait try."""
        self.is_lost = False  # before the wait, in which it may be lost again
        try:
            await live()
        except BaseException:
            self.lost()
            raise

    def spawn(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run ``function`` until this is closed, where this is in its own event loop."""
        if self.closed or self._backend.running_loop() is not self._backend.loop:
            return

        async def run() -> None:
            try:
                await function()
            finally:
                self._helpers.discard(handle)

        handle = self._backend.spawn(run)
        self._helpers.add(handle)

    def close(self) -> None:
        """Close the stream."""
        self.closed = True
        self._stop()
        while self._helpers:
            self._helpers.pop().cancel()
        self.notifier.notify()

    def use(self) -> None:
        """Listen for changes from now on, because a list that was fetched before is used again."""
        if not self.is_used and self.is_available:
            self.is_used = True
            self._start()

    # ------------------------------------------------------------------ waiting

    async def settled(self) -> None:
        """Wait until the stream is open, or the first attempt has failed."""
        until = self._backend.now() + self._seconds
        while self._listener is not None and not (self._acknowledged or self._attempted):
            await self.notifier.wait(max(0.01, until - self._backend.now()))

    # ---------------------------------------------------------------- listening

    def _start(self) -> None:
        connection = self._connection
        if connection is None or self.closed or not self.is_available:
            return
        if self._listener is None:
            self._attempted = False
            self._listener = self._backend.spawn(lambda: self._listen_until_closed(connection))

    def _stop(self) -> None:
        listener, self._listener = self._listener, None
        if self._acknowledged:
            self._was_lost, self._acknowledged = True, False
        if listener is not None:
            listener.cancel()

    def _mark_open(self) -> None:
        was_lost, self._was_lost = self._was_lost, False
        self._streams += 1
        self._acknowledged, self.fault = True, None
        if self._connection is not None:
            self._opened_at, self._brought = self._connection.now(), False
        self.on_open(was_lost)
        self.notifier.notify()

    async def _listen_until_closed(self, connection: RpcConnection) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while connection.transport.alive:
            try:
                end = await self._listen(connection)
            except Exception:  # noqa: BLE001 - no other task would see the exception
                _log.warning("%s: listening failed", self._server, exc_info=True)
                end = _End.UNSUPPORTED
            if connection is not self._connection:
                return
            if self._acknowledged:
                self._was_lost, self._acknowledged = True, False
                if self._brought or connection.now() - self._opened_at >= _LASTED_SECONDS:
                    pause = _FIRST_PAUSE_SECONDS
            self._attempted = True
            self.notifier.notify()
            if end is _End.UNSUPPORTED:
                _log.info("%s: the server does not send change notifications", self._server)
                self.is_available = False
                break
            _log.debug("%s: the notification stream ended (%s)", self._server, end.name)
            if connection.transport.alive:
                await self._pause_before_next(connection, pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
        if connection is self._connection:
            self._listener = None
            self.notifier.notify()

    async def _pause_before_next(self, connection: RpcConnection, pause: float) -> None:
        """Wait until the next attempt."""
        if not isinstance(self.fault, AuthError):
            await self._sleep(spread(pause, most=1.0, jitter=self._jitter))
            return
        refused, until = await _authorization(connection), connection.now() + _WITHOUT_LOGIN_SECONDS
        while connection.transport.alive and connection.now() < until:
            await self._sleep(spread(_MAX_PAUSE_SECONDS, most=1.0, jitter=self._jitter))
            if await _authorization(connection) != refused:
                return

    async def _listen(self, connection: RpcConnection) -> _End:
        until = connection.now() + self._seconds
        try:
            id, exchange = await connection.listen(LISTEN, self.topic.filter, until)
        except (McpError, TimeoutError) as error:
            return self._failed(error)
        answered = False
        try:
            message = await self._receive_acknowledgement(exchange, until)
            if message is None:
                message = await self._receive_notifications(exchange)
            answered = _is_the_end(message)
        except (McpError, TimeoutError, InvalidFrame) as error:
            return self._failed(error)
        finally:
            await connection.leave(id, exchange, answered=answered)
        if type(message) is ErrorResponse:
            self.fault = _refusal(message, self._server)
            wrong = message.code in _UNSUPPORTED_CODES
            return _End.UNSUPPORTED if wrong else _End.LOST
        if answered:
            return _End.ENDED
        self.fault = ServerError(
            "the server did not agree to send these notifications", code=None, server=self._server
        )
        return _End.UNSUPPORTED

    def _failed(self, error: Exception) -> _End:
        if not isinstance(error, McpError):
            seconds = seconds_text(self._seconds)
            text = f"the server did not agree to notifications within {seconds} (connect timeout)"
            error = CallTimeout(text, clock="connect", server=self._server)
        self.fault = error
        return _End.LOST

    async def _receive_acknowledgement(self, exchange: Exchange, until: float) -> Any:
        """Return None once the server acknowledges, else the message that it sent instead."""
        while True:
            message: Any = await exchange.receive(until)
            if _is_the_end(message):
                return message
            if type(message) is Notification and message.method == ACKNOWLEDGED:
                if not self.topic.honoured_by(message):
                    return message
                break
        self._mark_open()
        return None

    async def _receive_notifications(self, exchange: Exchange) -> Any:
        while True:
            # Without a bound: a stream may be silent for any time, and ends with its connection.
            # Over HTTP a wait that ended would end the stream.
            message: Any = await exchange.receive(math.inf)
            if _is_the_end(message):
                return message
            if type(message) is Notification and message.method == self.topic.notice:
                self._brought = True
                self.on_notification(message)
            handler = None if self._connection is None else self._connection.on_notification
            if handler is not None and type(message) is Notification:
                handler(message)


class ListSubscription(Subscription):
    """The changes of one kind of list."""

    def __init__(self, server: str, topic: Topic, seconds: float, **seams: Any) -> None:
        super().__init__(server, topic, seconds, **seams)
        self._on_change: list[Callable[[bool], None]] = []

    def add_listener(self, on_change: Callable[[bool], None]) -> None:
        """Call ``on_change(True)`` when a list changed, or may have changed unnoticed.

        ``on_change(False)`` is called if only a list that is no longer fresh may have changed.
        """
        self._on_change.append(on_change)

    def changed(self) -> None:
        """Note that the list changed."""
        self._pass_on(certain=True)

    def on_notification(self, notice: Notification) -> None:
        """Handle a notification."""
        self.changed()

    def missed(self) -> None:
        """Note that notifications may have been lost."""
        if self._watchers:  # other lists go by ``epoch``
            self.changed()

    def on_open(self, was_lost: bool) -> None:
        """Note that a stream is open."""
        self._pass_on(certain=was_lost or self._watchers > 0)

    def _pass_on(self, *, certain: bool) -> None:
        for on_change in self._on_change:
            on_change(certain)
        self.notifier.notify()


def _is_the_end(message: Any) -> bool:
    """Whether the server has ended the stream: by a response, or by cancelling our request."""
    if type(message) is Notification:
        return message.method == CANCELLED
    return type(message) in (Response, ErrorResponse)


async def _authorization(connection: RpcConnection) -> Hashable:
    """Return a value that changes once another user is logged in."""
    credentials = connection.transport.credentials
    try:
        return None if credentials is None else await credentials.current()
    except McpError:
        return None


def _refusal(failure: ErrorResponse, server: str) -> ServerError:
    message = safe_text(failure.message.strip(), lines=True)
    return ServerError(
        f"the server refused the subscription: {message} (code {failure.code})",
        server_message=message,
        code=failure.code,
        data=failure.data,
        http_status=failure.status,
        server=server,
    )
