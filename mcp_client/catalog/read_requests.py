"""Requests that only read: pages of lists, contents, prompts, completions.

A request that only reads may be repeated: it is sent a second time, on a new connection, if the
first one was lost or if the server had ended the session (2025-11-25 ``basic/transports``,
session management).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from ..connection.connection import Connection, session_ended
from ..connection.rpc import REPEATABLE, RequestOptions, RpcConnection, Traffic
from ..errors import ConnectError, ConnectionLost, McpError, NotSent, ProtocolViolation
from ..protocol.capabilities import may_offer
from ..protocol.era import Complete
from ..runtime.event_loop import current
from ..runtime.limits import Timeouts
from ..runtime.session_context import SessionContext

__all__ = ["FetchResult", "Page", "ReadRequests", "RunWithInput"]

FetchResult: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""A function from a method and its parameters to the result."""
T = TypeVar("T")


class Page(NamedTuple):
    """One page of a list."""

    result: dict[str, Any]
    size: int
    """Bytes of the message."""


class RunWithInput(Protocol):
    """A function that sends a request and supplies requested input: ``basic/patterns/mrtr``."""

    def __call__(
        self,
        rpc: RpcConnection,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        options: RequestOptions,
    ) -> Awaitable[dict[str, Any]]:
        """Send a request and return its result."""


class ReadRequests:
    """The requests of one session that only read."""

    def __init__(self, context: SessionContext, connection: Connection, run: RunWithInput) -> None:
        self.context = context
        self.connection = connection
        self.server: str = context.server
        self.now: Callable[[], float] = current().now
        self._run = run

    def offers(self, feature: str, detail: str | None = None) -> bool:
        """Whether the server is worth asking for ``feature``."""
        era = self.connection.rpc.era
        return may_offer(era.revision, era.server.capabilities, feature, detail)

    def require(self, feature: str, detail: str | None = None) -> None:
        """Raise ``NotSent`` if the server's capabilities lack ``feature``."""
        if not self.offers(feature, detail):
            name = feature if detail is None else f"{feature}.{detail}"
            raise NotSent(
                f"the server does not declare {name}, so it was not asked", server=self.server
            )

    async def page(self, method: str, fields: Mapping[str, Any]) -> Page:
        """One page of a list, within the session's default timeouts."""
        traffic = Traffic()
        options = RequestOptions(repeatable=True, traffic=traffic)
        result = await self.ask(method, fields, self.context.timeouts, options)
        return Page(result, traffic.received)

    async def ask(
        self,
        method: str,
        fields: Mapping[str, Any],
        timeouts: Timeouts,
        options: RequestOptions = REPEATABLE,
    ) -> dict[str, Any]:
        """The result of a request that may not ask back: only calls and reads may."""

        async def send(rpc: RpcConnection) -> dict[str, Any]:
            parsed = await rpc.request(method, fields, timeouts, options)
            if isinstance(parsed, Complete):
                return parsed.result
            raise ProtocolViolation(
                f"the server answered {method} with a request for input, against the specification",
                result=parsed.result,
                server=self.server,
            )

        return await self._twice_at_most(send)

    def reader(
        self,
        timeout: float | Timeouts | None,
        meta: Mapping[str, Any] | None,
        traffic: Traffic | None = None,
    ) -> FetchResult:
        """Return a function for requests with input, within the timeouts, with this ``_meta``."""
        timeouts = self.context.timeouts.for_call(timeout)
        options = RequestOptions(meta=meta, repeatable=True, traffic=traffic)

        async def read(method: str, fields: Mapping[str, Any]) -> dict[str, Any]:
            async def send(rpc: RpcConnection) -> dict[str, Any]:
                return await self._run(rpc, method, fields, timeouts, options)

            return await self._twice_at_most(send)

        return read

    async def _twice_at_most(self, send: Callable[[RpcConnection], Awaitable[T]]) -> T:
        try:
            return await send(await self.connection.ensure_connected())
        except (ConnectionLost, ConnectError) as error:
            if isinstance(error, ConnectError) and not session_ended(error):
                raise
            return await send(await self.connection.ensure_connected())
        except McpError as error:
            error.server = error.server or self.server
            raise
