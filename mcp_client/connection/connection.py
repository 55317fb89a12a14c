"""The connection of a session: established once, and again when it is lost.

Callers request it each time (``ensure_connected``) and never store it. A server process that has
died is started again (2026-07-28 ``basic/transports/stdio``), and a session that the server has
ended is opened again (2025-11-25 ``basic/transports``, session management). Both happen at most
``Limits.restarts`` times a minute, unless another ``RestartPolicy`` is used.
"""

from __future__ import annotations

import itertools
import logging
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakSet

import anyio

from ..errors import AuthError, ConfigError, ConnectError, McpError, NotSent, OutcomeUnknown
from ..protocol.capabilities import ClientDeclaration
from ..protocol.jsonrpc import Notification, Request
from ..runtime.background import BackgroundTask, BackgroundTasks
from ..runtime.event_loop import LoopLock, Waiter, current
from ..runtime.limits import Timeouts
from ..runtime.session_context import SessionContext
from ..transports.base import Transport
from .establish import ConnectionAttempt, Listeners
from .rpc import RpcConnection

__all__ = ["Connection", "RestartPolicy", "Turns", "session_ended"]

_log = logging.getLogger("mcp_client")
_MINUTE_SECONDS = 60.0
_PING_TIMEOUTS = Timeouts(idle=2.0, total=2.0)


class RestartPolicy(Protocol):
    """A policy that decides whether a lost connection may be established again now."""

    def begin(self) -> None:
        """Note that a connection will be established. Raises ``ConnectError`` to prevent it."""

    def end(self, error: BaseException | None) -> None:
        """Note that it was established, or not, because of ``error``."""

    def lost(self, error: McpError) -> None:
        """Note that the connection in use has ended, in a loop callback or any task.

        It is called only if all requests share one line: others have no connection to lose.
        """


class Messages(Protocol):
    """The receiver of messages that belong to no request, and of changes of the connection."""

    def receive(self, transport: Transport, message: Request | Notification) -> None:
        """Receive a message that the server sent on its own."""

    def connected(self, rpc: RpcConnection) -> None:
        """Note a new connection."""

    def lost(self) -> None:
        """Note that the connection in use has ended, or may have."""

    def missed(self, transport: Transport) -> None:
        """Note that messages may have been lost, although the connection was not."""


class Connection:
    """The connection of a session; ``messages`` receives its events."""

    def __init__(
        self,
        transport: Transport,
        context: SessionContext,
        messages: Messages,
        *,
        client: ClientDeclaration,
        pin: str | None,
        restarts: RestartPolicy | None,
    ) -> None:
        self.transport: Transport = transport
        self.latest: RpcConnection | None = None
        self.closed: bool = False
        self.generation: int = 0
        """How many connections there have been."""
        self._opened_at: float | None = None
        self._context = context
        self._name = context.server
        extensions = transport.extensions
        self._client = (
            client.with_extensions({id: {} for id in extensions}) if extensions else client
        )
        self._pin = pin
        self._messages = messages
        self._ids = itertools.count(1)
        self._restarts = _RestartLimit(context) if restarts is None else restarts
        self._retired: WeakSet[Transport] = WeakSet()
        every = context.timeouts.ping
        self._keep_alive = None if every is None else _KeepAlive(self, context, every)

    @property
    def rpc(self) -> RpcConnection:
        """The most recent connection, alive or not."""
        if self.latest is None:
            raise ConnectError("the session is not open", server=self._name)
        return self.latest

    async def open(self) -> None:
        """Establish the first connection."""
        self._turn = LoopLock()
        backend = current()
        self._loop, self._running_loop = backend.loop, backend.running_loop
        self.latest = await self._open()
        self._opened_at = backend.now()

    @property
    def usable(self) -> RpcConnection | None:
        """The result of ``ensure_connected`` if it needs no wait, else None."""
        rpc = self.latest
        if rpc is None or self._running_loop() is not self._loop:
            return None
        return rpc if self.is_current(rpc) else None

    async def ensure_connected(self) -> RpcConnection:
        """Return the connection to use now; a server that has gone is started again."""
        rpc = self.usable
        if rpc is not None:
            return rpc
        rpc = self.rpc
        self.check_loop()
        async with self._turn:
            if self.closed:
                raise ConnectError("the session is closed; connect again", server=self._name)
            rpc = self.rpc
            if rpc.transport.suspect and not await _answers(rpc) and rpc.transport.suspect:
                await rpc.transport.aclose()
            if not rpc.transport.alive:
                self._retired.add(rpc.transport)
                await rpc.transport.retire()
                self._restarts.begin()
                self._context.stats.restarts += 1
                _log.warning("%s: the connection was lost; connecting again", self._name)
                self.transport = rpc.transport.clone()
                try:
                    rpc = self.latest = await self._open()
                except BaseException as error:
                    self._restarts.end(error)
                    raise
                self._restarts.end(None)
            return rpc

    async def replace(self, rpc: RpcConnection, why: str) -> None:
        """Give up ``rpc``, whose requests fail with ``why``, and connect again."""
        if rpc is self.latest and rpc.transport.alive:
            rpc.transport.closed_because = why
            await rpc.transport.aclose()
        await self.ensure_connected()

    def check_loop(self) -> None:
        """Raise ``ConfigError`` if the caller runs in another event loop than the session."""
        if self.latest is not None and self._running_loop() is not self._loop:
            raise ConfigError(
                "the session belongs to another event loop. Open and "
                "close one session in each event loop, or use mcp_client.sync, whose sessions "
                "work in any thread",
                server=self._name,
            )

    def is_current(self, rpc: RpcConnection) -> bool:
        """Return whether ``ensure_connected`` returns ``rpc`` without a wait."""
        transport = rpc.transport
        return rpc is self.latest and transport.alive and not transport.suspect and not self.closed

    async def aclose(self) -> None:
        """End the connection and the transport."""
        self.closed = True
        if self._opened_at is not None and "opentelemetry.metrics" in sys.modules:
            self._record_duration(self._opened_at)
        self._opened_at = None
        if self._keep_alive is not None:
            await self._keep_alive.aclose()
        await self.transport.aclose()
        for transport in list(self._retired):
            await transport.aclose()

    def _record_duration(self, opened_at: float) -> None:
        from .telemetry import session_ended

        rpc = self.rpc
        attributes = {"mcp.protocol.version": rpc.era.revision, **rpc.transport.network}
        if not rpc.transport.alive:
            attributes["error.type"] = "ConnectionLost"
        session_ended(current().now() - opened_at, attributes)

    async def _open(self) -> RpcConnection:
        messages = self._messages
        opening = ConnectionAttempt(
            self.transport,
            self._context,
            client=self._client,
            pin=self._pin,
            ids=self._ids,
            listeners=Listeners(messages.receive, self._ended, messages.lost, messages.missed),
        )
        rpc = await opening.run()
        self.transport = rpc.transport
        self.generation += 1
        rpc.generation = self.generation
        if self.closed:
            await self.transport.aclose()
            raise ConnectError(
                "cannot open the session: it was closed in the meantime", server=self._name
            )
        self._messages.connected(rpc)
        if self._keep_alive is not None:
            self._keep_alive.connected(rpc)
        return rpc

    def _ended(self, transport: Transport, error: McpError) -> None:
        rpc = self.latest
        if rpc is None or rpc.transport is not transport or self.closed:
            return
        self._restarts.lost(error)
        self._messages.lost()


class _RestartLimit:
    """A limit for restarts: ``Limits.restarts`` a minute."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._starts: list[float] = []

    def begin(self) -> None:
        now = current().now()
        self._starts = [start for start in self._starts if now - start < _MINUTE_SECONDS]
        if len(self._starts) >= self._context.limits.restarts:
            raise ConnectError(
                "cannot start the server again: it exited or ended its session, and was started "
                f"again {len(self._starts)} times within a minute (Limits.restarts)",
                server=self._context.server,
            )
        self._starts.append(now)

    def end(self, error: BaseException | None) -> None: ...

    def lost(self, error: McpError) -> None: ...


async def _answers(rpc: RpcConnection) -> bool:
    """Whether the server gives a sign of life, be it an error."""
    try:
        await rpc.request("ping", {}, _PING_TIMEOUTS)
    except (OutcomeUnknown, NotSent):
        return False
    except McpError:
        return True
    return True


def session_ended(error: ConnectError) -> bool:
    """Return whether nothing was sent because the server had ended the session."""
    return error.http_status == 404 and error.retryable


class _KeepAlive:
    """The task of a session that requests signs of life at intervals: ``Timeouts(ping=...)``.

    2025-11-25 ``basic/utilities/ping``: the sender may ping at intervals, and without a response in
    time consider the connection stale and make another. 2026-07-28 has no ping. Over stdio, where
    there is a connection to be lost, ``server/discover`` replaces it. Over HTTP that revision has
    no connection: every request is independent, a stream of notifications that is cut is opened
    again, and nothing is sent here.
    """

    def __init__(self, connection: Connection, context: SessionContext, every: float) -> None:
        self._connection = connection
        self._server = context.server
        self._every = every
        self._ping_timeouts = context.timeouts.for_call(min(every, context.timeouts.idle))
        self._close = context.timeouts.close
        self._tasks: BackgroundTasks | None = None
        self._task: BackgroundTask | None = None

    def connected(self, rpc: RpcConnection) -> None:
        """Note a new connection."""
        if _has_connection(rpc) and (self._task is None or self._task.done):
            self._tasks = self._tasks or BackgroundTasks(current(), self._server)
            self._task = self._tasks.start(self._run)

    async def aclose(self) -> None:
        if self._tasks is not None:
            await self._tasks.aclose(self._close)

    async def _run(self) -> None:
        try:
            while not self._connection.closed:
                await anyio.sleep(self._every)
                await self._look()
        except AuthError as error:  # another ping would begin a login without a caller
            _log.warning("%s: pings stop until the next login: %s", self._server, error)

    async def _look(self) -> None:
        """Ask for a sign of life; without one, make another connection."""
        connection = self._connection
        rpc = connection.rpc
        if connection.closed or not _has_connection(rpc):
            return
        why = "the connection has ended"
        if rpc.transport.alive:
            try:
                await rpc.request(rpc.sign_of_life, {}, self._ping_timeouts)
                return
            except AuthError:
                raise
            except (OutcomeUnknown, NotSent) as error:
                why = f"the server did not respond to a ping within {self._ping_timeouts.total:g} s"
                _log.warning("%s: %s (%s); connecting again", self._server, why, error.message)
            except McpError:
                return  # an error is a sign of life
        try:
            await connection.replace(rpc, why)
        except AuthError:
            raise
        except McpError as error:
            _log.warning(
                "%s: cannot connect again; the next attempt is in %g s: %s",
                self._server,
                self._every,
                error.message,
            )


def _has_connection(rpc: RpcConnection) -> bool:
    """Whether there is one that can be lost unnoticed."""
    return rpc.era.server_may_ask or rpc.transport.multiplexed


class Turns:
    """A number of turns, each held by one call from before it is sent until it ends.

    More calls wait for their turn (``Limits.in_flight``), in the order in which they ask. A call
    whose server waits for the host's answer to a question does not count meanwhile: the handler may
    call the same server itself.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._waiting: list[Waiter] = []  # an empty deque takes ten times the memory
        self._granted: set[Waiter] = set()
        """Waiters that have a turn, and whose tasks did not run since."""

    def take(self) -> bool:
        """Take a turn, if one is free and no call waits for it."""
        if self._taken >= self._most:
            return False
        self._taken += 1
        return True

    async def wait(self, seconds: float) -> bool:
        """Wait for a turn; return whether it came within ``seconds``."""
        backend = current()
        waiter = backend.waiter()

        def expire() -> None:
            if not waiter.done():
                waiter.set_result(None)

        self._waiting.append(waiter)
        until = backend.now() + seconds
        timer = None if until == math.inf else backend.call_at(until, expire)
        try:
            await waiter
        except BaseException:
            if waiter in self._granted:  # cancelled before it ran
                self._granted.remove(waiter)
                self.give_back()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        if waiter not in self._granted:
            return False
        self._granted.remove(waiter)
        return True

    def give_back(self) -> None:
        """End a turn: the call that waits longest has the next one."""
        self._taken -= 1
        if self._waiting:
            self._hand_out()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let one more call be under way, while the server waits for an answer."""
        self._most += 1
        self._hand_out()
        try:
            yield
        finally:
            self._most -= 1

    def _hand_out(self) -> None:
        while self._waiting and self._taken < self._most:
            waiter = self._waiting.pop(0)
            if not waiter.done():  # else its time is over, or its task is being cancelled
                self._taken += 1
                self._granted.add(waiter)
                waiter.set_result(None)
