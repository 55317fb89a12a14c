"""The connection under a session: established once, and again when it is lost.

Callers ask for the ``live`` connection each time and never keep one. A server process that has died
is started again (2026-07-28 ``basic/transports/stdio``), and a session that the server has ended is
opened again (2025-11-25 ``basic/transports``, session management), both at most ``Limits.restarts``
times a minute.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from weakref import WeakSet

import anyio

from ..errors import ConfigError, ConnectError, McpError, NotSent, OutcomeUnknown
from ..protocol.capabilities import ClientDeclaration
from ..protocol.jsonrpc import Notification, Request
from ..runtime.event_loop import current
from ..runtime.limits import Timeouts
from ..runtime.session_context import SessionContext
from ..transports.base import Transport
from .establish import ConnectionAttempt
from .rpc import RpcConnection

__all__ = ["Connection", "session_ended"]

_log = logging.getLogger("mcp_client")
_MINUTE = 60.0
_SIGN_OF_LIFE = Timeouts(idle=2.0, total=2.0)


class Connection:
    """``unasked`` hears what the server says by itself; ``connected``, of each new wire."""

    def __init__(
        self,
        transport: Transport,
        context: SessionContext,
        *,
        client: ClientDeclaration,
        pin: str | None,
        unasked: Callable[[Transport, Request | Notification], None],
        connected: Callable[[RpcConnection], None],
    ) -> None:
        self.transport = transport
        self.wire: RpcConnection | None = None
        self.closed = False
        self.generation = 0
        """How many connections there have been."""
        self._context = context
        self._name = context.server
        extensions = transport.extensions
        self._client = client.with_extensions(extensions) if extensions else client
        self._pin = pin
        self._unasked = unasked
        self._connected = connected
        self._ids = itertools.count(1)
        self._starts: list[float] = []
        self._retired: WeakSet[Transport] = WeakSet()

    def agreed(self) -> RpcConnection:
        """The wire agreed on last, alive or not."""
        if self.wire is None:
            raise ConnectError("the session is not open", server=self._name)
        return self.wire

    async def open(self) -> None:
        self._turn = anyio.Lock()
        backend = current()
        self._now = backend.now
        self._loop, self._running_loop = backend.loop, backend.running_loop
        self.wire = await self._open()

    async def live(self) -> RpcConnection:
        """The wire to use now; a server that has gone is started again."""
        wire = self.wire
        if wire is None:
            wire = self.agreed()
        if self._running_loop() is not self._loop:
            raise ConfigError(
                "this session was opened in another event loop and works only there: open one "
                "session in each event loop",
                server=self._name,
            )
        if self.stands(wire):
            return wire
        async with self._turn:
            if self.closed:
                raise ConnectError("the session is closed; connect again", server=self._name)
            wire = self.agreed()
            if wire.transport.in_doubt and not await _answers(wire) and wire.transport.in_doubt:
                await wire.transport.aclose()
            if not wire.transport.alive:
                self._retired.add(wire.transport)
                await wire.transport.retire()
                self._may_restart()
                self._context.stats.restarts += 1
                _log.warning("%s: the connection was lost and is established again", self._name)
                self.transport = wire.transport.fresh()
                wire = self.wire = await self._open()
            return wire

    def stands(self, wire: RpcConnection) -> bool:
        """Whether ``wire`` is what ``live`` would give, and give at once."""
        transport = wire.transport
        return wire is self.wire and transport.alive and not transport.in_doubt and not self.closed

    async def aclose(self) -> None:
        self.closed = True
        await self.transport.aclose()
        for transport in list(self._retired):
            await transport.aclose()

    async def _open(self) -> RpcConnection:
        opening = ConnectionAttempt(
            self.transport,
            self._context,
            client=self._client,
            pin=self._pin,
            ids=self._ids,
            unasked=self._unasked,
        )
        wire = await opening.run()
        self.transport = wire.transport
        self.generation += 1
        wire.generation = self.generation
        if self.closed:
            await self.transport.aclose()
            raise ConnectError(
                "the session was closed while it was being opened", server=self._name
            )
        self._connected(wire)
        return wire

    def _may_restart(self) -> None:
        now = self._now()
        self._starts = [start for start in self._starts if now - start < _MINUTE]
        if len(self._starts) >= self._context.limits.restarts:
            raise ConnectError(
                f"the server keeps dying, or ending our session: it was started again "
                f"{len(self._starts)} times within a minute (Limits.restarts)",
                server=self._name,
            )
        self._starts.append(now)


async def _answers(wire: RpcConnection) -> bool:
    """Whether the server gives a sign of life, be it an error."""
    try:
        await wire.request("ping", {}, _SIGN_OF_LIFE)
    except (OutcomeUnknown, NotSent):
        return False
    except McpError:
        return True
    return True


def session_ended(error: ConnectError) -> bool:
    """Whether nothing was sent because the server had ended our session."""
    return error.http_status == 404 and error.retryable
