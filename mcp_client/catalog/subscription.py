"""One thing a server tells of, and the stream on which it does: opened when somebody needs it.

In the handshake era notices simply come. In the stateless era they come on a stream that we open
with ``subscriptions/listen`` (2026-07-28 ``basic/patterns/subscriptions``) and hold open. It is
opened only once somebody needs it: a watch is in use, or a list is relied on that was fetched
before, and the server has declared that it tells of changes. It runs outside any task of the
host's and ends with its connection.

What was said while no stream was open is lost, so that each opening counts as a change: always
where a stream was lost before or somebody watches a list, and else where the list's ``ttlMs`` is
over. A stream that is lost or ended is opened again after a pause that doubles, with jitter. A
server that does not know the method, or does not acknowledge what was asked for, is not asked
again on this connection; a list then lives by its ``ttlMs``.

The topics have a stream each, as the specification allows: one that is opened later does not cut
off what the others hear.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any

import anyio

from ..connection.rpc import RpcConnection
from ..errors import CallTimeout, McpError, ServerError
from ..protocol.capabilities import declares
from ..protocol.jsonrpc import ErrorResponse, InvalidFrame, Notification, Response
from ..protocol.notifications import ACKNOWLEDGED, CANCELLED, LISTEN, Topic
from ..runtime.event_loop import Handle, Waiter, current
from ..runtime.safe_text import safe_text
from ..transports.base import Exchange

__all__ = ["ChangeSignal", "ListSubscription", "Subscription"]

_log = logging.getLogger("mcp_client")
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_ROUND = 300.0
_NOT_FOUND_OR_WRONG = frozenset({-32601, -32602})


class _End(Enum):
    """How a stream came to its end."""

    LOST = auto()
    ENDED = auto()
    UNSUPPORTED = auto()


class ChangeSignal:
    """Wakes every task that waits for news of one topic."""

    def __init__(self) -> None:
        self._backend = current()
        self._waiters: set[Waiter] = set()

    def notify(self) -> None:
        # Not an anyio.Event: notices are handed over in a reader's callback, outside any task.
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait for the next ``notify``, at most ``seconds``."""
        waiter = self._backend.waiter()
        self._waiters.add(waiter)
        try:
            with anyio.move_on_after(seconds):
                await waiter
        finally:
            self._waiters.discard(waiter)


class Subscription(ABC):
    """The notices of one topic, on one session. ``Subscriptions`` tells it of each connection."""

    def __init__(
        self,
        server: str,
        topic: Topic,
        seconds: float,
        *,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        jitter: Callable[[], float] | None = None,
    ) -> None:
        """``seconds``: how long a server may take to acknowledge."""
        self.topic = topic
        self._server = server
        self._seconds = seconds
        self._sleep = sleep
        self._jitter = jitter or _random
        self._backend = current()
        self._wire: RpcConnection | None = None
        self._declared = False
        self._available = False
        self._streams = 0
        self._acknowledged = False
        self._tried = False
        self._again = False
        self._relied = False
        self._watchers = 0
        self._job: Handle | None = None
        self.signal = ChangeSignal()
        """Notified of everything that happens here, and to what is subscribed to."""
        self.fault: McpError | None = None
        """Why there was no stream when it was tried last."""
        self.closed = False

    @abstractmethod
    def heard(self, notice: Notification) -> None:
        """The server said that there is a change."""

    @abstractmethod
    def opened(self, again: bool) -> None:
        """A stream stands; ``again``: one stood before, and between them nothing was heard."""

    @property
    def epoch(self) -> int | None:
        """None while a change would not be heard: the server has not declared that it tells of
        changes, or has no way to. Otherwise a number that is another one after every gap."""
        wire = self._wire
        if wire is None or not self._declared:
            return None
        if wire.era.listens:
            return self._streams if self._acknowledged else None
        return wire.transport.notification_epoch

    def connected(self, wire: RpcConnection) -> None:
        """A connection stands. What was subscribed to on the last one is subscribed to anew."""
        self._stop()
        self._wire = wire
        capabilities = wire.era.server.capabilities
        self._declared = declares(capabilities, self.topic.feature, self.topic.detail)
        self._available = self._may_listen(wire)
        if self._relied or self._watchers:
            self._start()

    def _may_listen(self, wire: RpcConnection) -> bool:
        return wire.era.listens and self._declared

    def watch(self) -> None:
        self._watchers += 1
        self._start()

    def unwatch(self) -> None:
        self._watchers -= 1
        if not self._watchers and not self._relied:
            self._stop()

    def close(self) -> None:
        self.closed = True
        self._stop()
        self.signal.notify()

    def rely(self) -> None:
        """Something is used that was fetched before: a change would matter from now on."""
        if not self._relied and self._available:
            self._relied = True
            self._start()

    # ------------------------------------------------------------------ waiting

    async def pause(self, seconds: float) -> None:
        await self._sleep(seconds)

    async def settled(self) -> None:
        """Wait until the stream stands, or it is clear that it does not yet."""
        until = self._backend.now() + self._seconds
        while self._job is not None and not (self._acknowledged or self._tried):
            await self.signal.wait(max(0.01, until - self._backend.now()))

    # ---------------------------------------------------------------- listening

    def _start(self) -> None:
        wire = self._wire
        if self._job is None and self._available and wire is not None and not self.closed:
            self._tried = False
            self._job = self._backend.spawn(lambda: self._keep_listening(wire))

    def _stop(self) -> None:
        job, self._job = self._job, None
        if self._acknowledged:
            self._again, self._acknowledged = True, False
        if job is not None:
            job.cancel()

    def _stands(self) -> None:
        again, self._again = self._again, False
        self._streams += 1
        self._acknowledged, self.fault = True, None
        self.opened(again)
        self.signal.notify()

    async def _keep_listening(self, wire: RpcConnection) -> None:
        pause = _FIRST_PAUSE
        while wire.transport.alive:
            try:
                end = await self._listen(wire)
            except Exception:  # noqa: BLE001 - nobody waits for this task: its fault stays here
                _log.warning("%s: listening failed", self._server, exc_info=True)
                end = _End.UNSUPPORTED
            if wire is not self._wire:
                return
            if self._acknowledged:
                pause, self._again, self._acknowledged = _FIRST_PAUSE, True, False
            self._tried = True
            self.signal.notify()
            if end is _End.UNSUPPORTED:
                _log.info("%s: the server does not tell of changes after all", self._server)
                self._available = False
                break
            _log.debug("%s: the stream of notices is over (%s)", self._server, end.name)
            if wire.transport.alive:
                await self._sleep(pause * (0.5 + self._jitter() / 2))
            pause = min(2 * pause, _LONGEST_PAUSE)
        if wire is self._wire:
            self._job = None
            self.signal.notify()

    async def _listen(self, wire: RpcConnection) -> _End:
        until = wire.now() + self._seconds
        try:
            id, exchange = await wire.listen(LISTEN, self.topic.filter, until)
        except (McpError, TimeoutError) as error:
            return self._lost(error)
        answered = False
        try:
            message = await self._acknowledgement(exchange, until)
            if message is None:
                message = await self._hear(wire, exchange)
            answered = _is_the_end(message)
        except (McpError, TimeoutError, InvalidFrame) as error:
            return self._lost(error)
        finally:
            await wire.leave(id, exchange, answered=answered)
        if type(message) is ErrorResponse:
            self.fault = _refusal(message, self._server)
            wrong = message.code in _NOT_FOUND_OR_WRONG
            return _End.UNSUPPORTED if wrong else _End.LOST
        if answered:
            return _End.ENDED
        self.fault = ServerError(
            "the server did not agree to tell of these changes", code=None, server=self._server
        )
        return _End.UNSUPPORTED

    def _lost(self, error: Exception) -> _End:
        timeout = f"the server did not agree within {self._seconds:g} s to tell of changes"
        self.fault = (
            error
            if isinstance(error, McpError)
            else CallTimeout(timeout, clock="connect", server=self._server)
        )
        return _End.LOST

    async def _acknowledgement(self, exchange: Exchange, until: float) -> Any:
        """None once the server has agreed; else what it said instead."""
        while True:
            message: Any = await exchange.receive(until)
            if _is_the_end(message):
                return message
            if message.method == ACKNOWLEDGED:
                if not self.topic.honoured_by(message):
                    return message
                break
        self._stands()
        return None

    async def _hear(self, wire: RpcConnection, exchange: Exchange) -> Any:
        while True:
            try:
                message: Any = await exchange.receive(wire.now() + _ROUND)
            except TimeoutError:
                continue
            if _is_the_end(message):
                return message
            if message.method == self.topic.notice:
                self.heard(message)


class ListSubscription(Subscription):
    """The changes of lists. What is heard here makes the lists that use it outdated."""

    def __init__(self, server: str, topic: Topic, seconds: float, **seams: Any) -> None:
        super().__init__(server, topic, seconds, **seams)
        self._on_change: list[Callable[[bool], None]] = []

    def add_listener(self, on_change: Callable[[bool], None]) -> None:
        """``on_change(True)`` is called when a list changed, or may have while nothing could be
        heard; ``on_change(False)`` where only a list that is no longer fresh may have."""
        self._on_change.append(on_change)

    def changed(self) -> None:
        self._tell(certain=True)

    def heard(self, notice: Notification) -> None:
        self.changed()

    def opened(self, again: bool) -> None:
        self._tell(certain=again or self._watchers > 0)

    def _tell(self, *, certain: bool) -> None:
        for on_change in self._on_change:
            on_change(certain)
        self.signal.notify()


def _is_the_end(message: Any) -> bool:
    """Whether the server has ended the stream: with an answer, or by cancelling our request."""
    return type(message) in (Response, ErrorResponse) or message.method == CANCELLED


def _refusal(failure: ErrorResponse, server: str) -> ServerError:
    return ServerError(
        f"the server will not tell of changes: {safe_text(failure.message)} (code {failure.code})",
        code=failure.code,
        data=failure.data,
        http_status=failure.status,
        server=server,
    )


def _random() -> float:
    import random  # here, for it loads OpenSSL

    return random.random()  # noqa: S311 - spreads, hides nothing
