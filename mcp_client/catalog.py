"""The tools of one server: every page, cached, and honest about what was left out.

2026-07-28 ``server/tools``, ``server/utilities/pagination`` and ``server/utilities/caching``. The
list is whole or it is an error: an empty-string cursor is a cursor, a cursor that comes twice or a
cap that is reached raises. One bad tool spoils one tool: it is left out and named in ``rejected``.

The list is fetched when it is first needed, once for all who wait for it, and again after the
server said that it changed, or once its ``ttlMs`` is over. A notice that comes during a fetch
makes what is being fetched stale already. A call uses the definitions at hand and asks for the
list only where it knows of none, or of a change: a server's ``ttlMs`` of 0 does not cost every
call a list.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from .bounds import Limits
from .display import safe_text
from .errors import ProtocolViolation, UnknownTool
from .protocol.era import Reading
from .protocol.headers import BadMark, mirrors_of
from .tool import Rejected, Tool, ToolList

__all__ = ["Catalog"]

_log = logging.getLogger("mcp_client")
FetchPage = Callable[[Mapping[str, Any]], Awaitable[Reading]]


class Catalog:
    def __init__(
        self,
        server: str,
        trusted: bool,
        limits: Limits,
        fetch: FetchPage,
        now: Callable[[], float],
    ) -> None:
        self._server = server
        self._trusted = trusted
        self._limits = limits
        self._fetch = fetch
        self._now = now
        self._list: ToolList | None = None
        self._by_name: dict[str, Tool] = {}
        self._fresh_until = -math.inf
        self._changes = 0
        self._seen = -1
        self._loads = 0
        self._turn = anyio.Lock()
        self.mirrors = False
        """Whether arguments are repeated in headers, so that marks which break a rule count."""

    def changed(self) -> None:
        """The server said that its tools changed, or is another server than before."""
        self._changes += 1

    async def tools(self, *, refresh: bool = False) -> ToolList:
        """The whole current list."""
        if not refresh and self._list is not None and self._up_to_date():
            return self._list
        loads = self._loads
        async with self._turn:
            # Whoever waited here while somebody else fetched takes what that fetch brought.
            if (
                self._list is not None
                and self._seen == self._changes
                and (self._loads > loads or (not refresh and self._up_to_date()))
            ):
                return self._list
            return await self._load()

    async def find(self, name: str) -> Tool:
        """The definition in force of the tool ``name``. Raises ``UnknownTool``."""
        if self._seen == self._changes:
            tool = self._by_name.get(name)
            if tool is not None:
                return tool
        await self.tools(refresh=self._seen == self._changes)
        tool = self._by_name.get(name)
        if tool is None:
            raise self._unknown(name)
        return tool

    def _up_to_date(self) -> bool:
        return self._seen == self._changes and self._now() < self._fresh_until

    def _unknown(self, name: str) -> UnknownTool:
        assert self._list is not None
        shown = safe_text(name, 128)
        why = next((r.reason for r in self._list.rejected if r.name == shown), None)
        names = ", ".join(safe_text(tool.name, 64) for tool in self._list[:20]) or "none"
        more = ", ..." if len(self._list) > 20 else ""
        text = (
            f"the server's tool {shown!r} was rejected: {why}"
            if why
            else f"the server has no tool {shown!r}; it has: {names}{more}"
        )
        return UnknownTool(text, server=self._server, tool=shown)

    # ----------------------------------------------------------------- loading

    async def _load(self) -> ToolList:
        changes = self._changes
        found: list[Any] = []
        cursors: set[str] = set()
        fields: dict[str, Any] = {}
        fresh_until = math.inf
        for _ in range(self._limits.pages):
            page = await self._page(fields)
            found += page["tools"]
            if len(found) > self._limits.tools:
                raise self._broken(f"more than {self._limits.tools} tools (Limits.tools)", page)
            fresh_until = min(fresh_until, self._now() + _seconds_fresh(page))
            cursor = page.get("nextCursor")
            if cursor is None:
                break
            if type(cursor) is not str:
                raise self._broken("a nextCursor that is no string", page)
            if cursor in cursors:
                raise self._broken("a cursor that came before: the list has no end", page)
            cursors.add(cursor)
            fields = {"cursor": cursor}
        else:
            raise self._broken(f"more than {self._limits.pages} pages (Limits.pages)", page)
        self._list = self._sorted_out(found)
        self._by_name = {tool.name: tool for tool in self._list}
        self._seen, self._fresh_until = changes, fresh_until
        self._loads += 1
        return self._list

    async def _page(self, fields: dict[str, Any]) -> dict[str, Any]:
        reading = await self._fetch(fields)
        page = reading.result
        if type(page.get("tools")) is not list:
            raise self._broken("a page without an array of tools", page)
        return page

    def _broken(self, what: str, page: Any) -> ProtocolViolation:
        return ProtocolViolation(
            f"the server's tools/list has {what}", result=page, server=self._server
        )

    def _sorted_out(self, found: list[Any]) -> ToolList:
        names = Counter(_name(definition) for definition in found)
        tools: list[Tool] = []
        rejected: list[Rejected] = []
        for definition in found:
            name = _name(definition)
            reason = _fault(definition, name, names)
            if reason is None and self.mirrors:
                reason = _mark_fault(definition)
            if reason is None:
                tools.append(Tool(name, self._server, self._trusted, definition))
            else:
                rejected.append(Rejected(safe_text(name, 128), reason))
                _log.warning(
                    "%s: the tool %r is left out: %s", self._server, safe_text(name, 128), reason
                )
        return ToolList(tools, rejected)


def _name(definition: Any) -> str:
    name = definition.get("name") if type(definition) is dict else None
    return name if type(name) is str else ""


def _fault(definition: Any, name: str, names: Counter[str]) -> str | None:
    """Why a definition is no tool, or None."""
    if type(definition) is not dict:
        return "it is no JSON object"
    if not name:
        return "its name is missing, empty or no string"
    if names[name] > 1:
        return f"{names[name]} tools have this name; it cannot be told which one is meant"
    if type(definition.get("inputSchema")) is not dict:
        return "its inputSchema is missing or no JSON object"
    if not isinstance(definition.get("outputSchema"), dict | bool | None):
        return "its outputSchema is no JSON Schema"
    return None


def _mark_fault(definition: dict[str, Any]) -> str | None:
    try:
        mirrors_of(definition["inputSchema"])
    except BadMark as error:
        return safe_text(error, 200)
    return None


def _seconds_fresh(page: dict[str, Any]) -> float:
    """How long a page may be taken as fresh. Without ``ttlMs``: until the server says otherwise.

    The specification would have an absent ``ttlMs`` count as 0 and leave the rest to the client's
    own heuristics. Revisions before 2026-07-28 have change notices and no ``ttlMs``, so theirs are
    fresh until a notice.
    """
    ttl = page.get("ttlMs")
    if type(ttl) is int or type(ttl) is float:
        return max(0.0, min(ttl, 86_400_000) / 1000)
    return math.inf
