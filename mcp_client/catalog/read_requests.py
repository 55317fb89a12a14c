"""Requests that only read: pages of lists, contents, prompts, completions.

A request that only reads may be repeated. It is sent a second time, on a new connection, if the
first one was lost or the server had ended the session (2025-11-25 ``basic/transports``, session
management).

A cursor is the only sign that a list continues (2026-07-28 ``server/utilities/pagination``). Some
servers return a page again, or an old cursor. Both mean that there are no more entries.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from ..connection.connection import Connection, session_ended
from ..connection.rpc import REPEATABLE, RequestOptions, RpcConnection, Traffic
from ..errors import ConnectError, ConnectionLost, McpError, NotSent, ProtocolViolation
from ..protocol.capabilities import may_offer
from ..protocol.era import Complete
from ..runtime.event_loop import current
from ..runtime.limits import Timeouts
from ..runtime.safe_text import safe_text
from ..runtime.session_context import SessionContext
from .finding import Finding

__all__ = [
    "NAMES",
    "Ends",
    "FetchResult",
    "Page",
    "ReadRequests",
    "RunWithInput",
    "identity",
    "without_repeats",
]

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


NAMES = ("uri", "uriTemplate", "name")
"""The members by which entries are known; each kind of list has one or two of them."""


class Ends:
    """The end of a list that does not indicate it, and other deviations of its pages."""

    def __init__(self, noun: str) -> None:
        self.findings: tuple[Finding, ...] = ()
        """The deviations of the pages from the specification."""
        self._noun = noun
        self._cursors: set[str | float] = set()
        self._pages: dict[Any, list[Any]] = {}
        """The entries of each page, by the names of its first entry."""

    def note(self, what: str) -> None:
        """Add a finding, once."""
        finding = Finding("deviation", f"the list of {self._noun}: {what}", what)
        if finding not in self.findings:
            self.findings = (*self.findings, finding)

    def after(self, entries: list[Any], cursor: str | float, found: list[Any]) -> bool:
        """Whether the list is over after a page that has a cursor all the same.

        ``found`` has the entries of the pages before. Those that come again are removed from
        ``entries`` if the list is over.
        """
        first = identity(entries[0]) if entries else None
        is_same = first is not None and self._pages.setdefault(first, entries) is not entries
        is_same = is_same and self._pages[first] == entries
        is_loop = cursor in self._cursors
        self._cursors.add(cursor)
        if not is_same and not is_loop:
            return False
        known = {identity(entry) for entry in found}
        new = [entry for entry in entries if identity(entry) not in known]
        if new:
            self.note("its pages lead back to an earlier page: the entries until then are used")
        else:
            self.note("its last page comes again and again: the list is complete")
        entries[:] = new
        return True


def identity(entry: Any) -> tuple[Any, ...]:
    """Return the names by which an entry is known, whichever list it is of."""
    names = map(entry.get, NAMES) if type(entry) is dict else (str(entry),)
    return tuple(name for name in names if type(name) is str)


def without_repeats(
    found: list[Any], names: list[str], noun: str
) -> tuple[list[Any], list[Finding]]:
    """Return ``found`` without duplicates, and a finding for each name of such entries.

    Servers that page by offset list an entry twice if another one is added meanwhile.
    """
    counts = Counter(names)
    seen: set[tuple[str, str]] = set()
    repeated: dict[str, Finding] = {}
    entries: list[Any] = []
    for name, entry in zip(names, found, strict=True):
        if name and counts[name] > 1:
            mark = name, json.dumps(entry, sort_keys=True)
            if mark in seen:
                text = f"{noun} '{safe_text(name, 128)}' is listed more than once, each time alike"
                repeated[name] = Finding("deviation", text, name)
                continue
            seen.add(mark)
        entries.append(entry)
    return entries, list(repeated.values())
