"""Signs of life, asked for at intervals: ``Timeouts(ping=...)``.

2025-11-25 ``basic/utilities/ping``: the sender may ping at intervals, and without an answer in time
consider the connection stale and make another. 2026-07-28 has no ping: over stdio, where there is a
connection to be lost, ``server/discover`` takes its place. Over HTTP that revision has no
connection: every request is one of its own, a stream of notices that is cut is opened again by
itself, and nothing is sent here.
"""

from __future__ import annotations

import logging
from typing import Protocol

import anyio

from ..errors import AuthError, McpError, NotSent, OutcomeUnknown
from ..runtime.background import BackgroundTask, BackgroundTasks
from ..runtime.event_loop import current
from ..runtime.session_context import SessionContext
from .rpc import RpcConnection

__all__ = ["KeepAlive"]

_log = logging.getLogger("mcp_client")


class Kept(Protocol):
    """The ``Connection`` that is kept alive."""

    closed: bool

    def agreed(self) -> RpcConnection: ...

    async def replace(self, rpc: RpcConnection, why: str) -> None: ...


class KeepAlive:
    """One task a session, only where the host asked for it."""

    def __init__(self, connection: Kept, context: SessionContext, every: float) -> None:
        self._connection = connection
        self._server = context.server
        self._every = every
        self._clocks = context.timeouts.for_call(min(every, context.timeouts.idle))
        self._close = context.timeouts.close
        self._tasks: BackgroundTasks | None = None
        self._task: BackgroundTask | None = None

    def connected(self, rpc: RpcConnection) -> None:
        """There is a new connection."""
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
        except AuthError as error:  # asking again would begin a login without a caller
            _log.warning("%s: no more pings until the next login: %s", self._server, error)

    async def _look(self) -> None:
        """Ask for a sign of life; without one, make another connection."""
        connection = self._connection
        rpc = connection.agreed()
        if connection.closed or not _has_connection(rpc):
            return
        why = "the connection has ended"
        if rpc.transport.alive:
            try:
                await rpc.request(rpc.sign_of_life, {}, self._clocks)
                return
            except AuthError:
                raise
            except (OutcomeUnknown, NotSent) as error:
                why = f"the server did not answer a ping within {self._clocks.total:g} s"
                _log.warning("%s: %s (%s): connecting again", self._server, why, error.message)
            except McpError:
                return  # an error is a sign of life
        try:
            await connection.replace(rpc, why)
        except AuthError:
            raise
        except McpError as error:
            _log.warning(
                "%s: could not be connected again, next attempt in %g s: %s",
                self._server,
                self._every,
                error.message,
            )


def _has_connection(rpc: RpcConnection) -> bool:
    """Whether there is one that can be lost unnoticed."""
    return rpc.era.server_may_ask or rpc.transport.multiplexed
