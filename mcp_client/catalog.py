"""The tools of one server: every page, cached, and honest about what was left out.

2026-07-28 ``server/tools``, ``server/utilities/pagination`` and ``server/utilities/caching``. The
list is whole or it is an error: an empty-string cursor is a cursor, a cursor that comes twice or a
cap that is reached raises. One bad tool spoils one tool: it is left out and named in ``rejected``.

The list is fetched when it is first needed, once for all who wait for it, and again after the
server said that it changed, or once its ``ttlMs`` is over. A notice that comes during a fetch
makes what is being fetched stale already, and any number of notices cost one fetch. A call uses
the definitions at hand and asks for the list only where it knows of none, or of a change: a
server's ``ttlMs`` of 0 does not cost every call a list.

A list that cannot be fetched anew is served as it was, and says so in ``findings``. A call is
stricter: it does not go by a definition that is known to have changed.
"""

from __future__ import annotations

import logging
import marshal
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from .bounds import Limits
from .display import safe_text
from .errors import (
    CallTimeout,
    ConfigError,
    InvalidSchema,
    McpError,
    ProtocolViolation,
    ServerError,
    UnknownTool,
)
from .findings import is_ordinary_name, look_alikes, name_findings, text_findings, unseen
from .metaschema import is_known_dialect, survey
from .pins import Pins
from .protocol.era import Reading
from .protocol.headers import BadMark, mirrors_of
from .tool import Rejected, Tool, ToolList
from .trust import Trust, hint_findings, trusts
from .validation import checker_for

__all__ = ["Catalog"]

_log = logging.getLogger("mcp_client")
_INVALID_PARAMS = -32602
_SHOWN = 200
_NO_SCHEMA = "is no JSON Schema: "
_AT_ONCE = 25

FetchPage = Callable[[Mapping[str, Any]], Awaitable[Reading]]


class Catalog:
    def __init__(
        self,
        server: str,
        trusted: Trust,
        limits: Limits,
        fetch: FetchPage,
        now: Callable[[], float],
        *,
        pins: Pins | None = None,
        seconds: float = math.inf,
        credentials: Callable[[], Hashable] = lambda: None,
        told: Callable[[], bool] = lambda: True,
    ) -> None:
        """``seconds`` bounds the fetching of one list; ``told``: whether changes are heard of."""
        self._server = server
        self._trusted = trusted
        self._limits = limits
        self._fetch = fetch
        self._now = now
        self._pins = pins
        self._seconds = seconds
        self._credentials = credentials
        self._told = told
        self.on_news: Callable[[], None] = lambda: None
        """Called when the server said that its tools changed, and when a list was fetched."""
        self.on_reliance: Callable[[], None] = lambda: None
        """Called when something is used that was fetched before."""
        self._list: ToolList | None = None
        self._by_name: dict[str, Tool] = {}
        self._fresh_until = -math.inf
        self._fetched_at = -math.inf
        self._private = False
        self._fetched_as: Hashable = None
        self._changes = 0
        self._seen = -1
        self._loads = 0
        self._failure: tuple[int, McpError] = (0, McpError("none yet"))
        self._turn = anyio.Lock()
        self.mirrors = False
        """Whether arguments are repeated in headers, so that marks which break a rule count."""

    @property
    def known(self) -> ToolList | None:
        """The list that was fetched last, fresh or not."""
        self._drop_what_is_not_ours()
        return self._list

    @property
    def outdated(self) -> bool:
        """Whether the server has said that its tools changed, and they were not fetched since."""
        return self._seen != self._changes

    @property
    def fresh(self) -> bool:
        return not self.outdated and self._now() < self._fresh_until

    def changed(self) -> None:
        """The server said that its tools changed, or is another server than before."""
        self._changes += 1
        self.on_news()

    async def tools(self, *, refresh: bool = False) -> ToolList:
        """The whole current list; the last one, with a finding, where it cannot be fetched."""
        try:
            return await self._current(refresh)
        except ConfigError:
            raise
        except McpError as error:
            if refresh or self._list is None:
                raise
            return self._as_it_was(self._list, error)

    async def find(self, name: str) -> Tool:
        """The definition in force of the tool ``name``.

        Raises ``UnknownTool``, or ``InvalidSchema`` where it was left out for its schema.
        """
        if self._private:
            self._drop_what_is_not_ours()
        if self._seen == self._changes:
            tool = self._by_name.get(name)
            if tool is not None:
                self.on_reliance()
                return tool
        tools = await self._current(refresh=self._seen == self._changes)
        tool = self._by_name.get(name)
        if tool is None:
            raise self._unknown(name, tools)
        return tool

    async def latest(self) -> ToolList:
        """The list as of the last notice, however old."""
        self._drop_what_is_not_ours()
        if self._list is not None and not self.outdated:
            return self._list
        return await self._current(refresh=False)

    async def _current(self, refresh: bool) -> ToolList:
        self._drop_what_is_not_ours()
        if not refresh and self._list is not None and self.fresh:
            self.on_reliance()
            return self._list
        loads, failures = self._loads, self._failure[0]
        async with self._turn:
            # Whoever waited here while somebody else fetched takes what that fetch brought.
            if (
                self._list is not None
                and self._seen == self._changes
                and (self._loads > loads or (not refresh and self.fresh))
            ):
                return self._list
            if self._failure[0] > failures:
                raise self._failure[1].with_traceback(None)
            try:
                return await self._load()
            except McpError as error:
                self._failure = self._failure[0] + 1, error
                raise

    def _drop_what_is_not_ours(self) -> None:
        """Forget a private list that was fetched under another authorization."""
        if self._private and self._list is not None and self._credentials() != self._fetched_as:
            self._list, self._by_name, self._seen = None, {}, -1

    def _as_it_was(self, tools: ToolList, error: McpError) -> ToolList:
        age = self._now() - self._fetched_at
        _log.warning("%s: the list of tools could not be fetched anew: %s", self._server, error)
        finding = (
            f"this list is {age:.0f} s old and may be out of date, for fetching it anew failed: "
            f"{safe_text(error, _SHOWN)}"
        )
        return ToolList(tools, tools.rejected, (finding, *tools.findings))

    def _unknown(self, name: str, tools: ToolList) -> UnknownTool | InvalidSchema:
        shown = safe_text(name, 128)
        why = next((r.reason for r in tools.rejected if r.name == shown), None)
        names = ", ".join(safe_text(tool.name, 64) for tool in tools[:20]) or "none"
        more = ", ..." if len(tools) > 20 else ""
        text = (
            f"the server's tool {shown!r} was rejected: {why}"
            if why
            else f"the server has no tool {shown!r}; it has: {names}{more}"
        )
        if self._pins is not None and self._pins.has_gone(self._server, name):
            text += f" ({self._pins.name} has it: the server no longer offers it)"
        kind = InvalidSchema if why and _NO_SCHEMA in why else UnknownTool
        return kind(text, server=self._server, tool=shown)

    # ----------------------------------------------------------------- loading

    async def _load(self) -> ToolList:
        changes, fetched_as = self._changes, self._credentials()
        with anyio.move_on_after(self._seconds) as clock:
            found, fresh_until, private = await self._every_page()
            tools = await self._sorted_out(found)
        if clock.cancelled_caught:
            raise CallTimeout(
                f"the list of tools was not whole within {self._seconds:g} s (total clock)",
                clock="total",
                server=self._server,
            )
        self._list = tools
        self._by_name = {tool.name: tool for tool in tools}
        self._seen, self._fresh_until, self._fetched_at = changes, fresh_until, self._now()
        self._private, self._fetched_as = private, fetched_as
        self._loads += 1
        self.on_news()
        return tools

    async def _every_page(self) -> tuple[list[Any], float, bool]:
        """All definitions, until when they are fresh, and whether they are for us alone."""
        try:
            return await self._walk()
        except _CursorGone:
            return await self._walk(last=True)

    async def _walk(self, *, last: bool = False) -> tuple[list[Any], float, bool]:
        limits = self._limits
        found: list[Any] = []
        cursors: set[str] = set()
        fields: dict[str, Any] = {}
        fresh_until, private, size = math.inf, False, 0
        for _ in range(limits.pages):
            try:
                page = await self._page(fields)
            except ServerError as error:
                if error.code == _INVALID_PARAMS and fields and not last:
                    raise _CursorGone from None
                raise
            found += page["tools"]
            size += len(marshal.dumps(page, 2))  # not JSON's own length, but cheap and close to it
            if len(found) > limits.tools:
                raise self._broken(f"more than {limits.tools} tools (Limits.tools)", page)
            if size > limits.list_bytes:
                raise self._broken(f"more than {limits.list_bytes} bytes (Limits.list_bytes)", page)
            fresh_until = min(fresh_until, self._now() + self._seconds_fresh(page))
            private = private or page.get("cacheScope") != "public"
            cursor = page.get("nextCursor")
            if cursor is None:
                return found, fresh_until, private
            if type(cursor) is not str:
                raise self._broken("a nextCursor that is no string", page)
            if cursor in cursors:
                raise self._broken("a cursor that came before: the list has no end", page)
            cursors.add(cursor)
            fields = {"cursor": cursor}
        raise self._broken(f"more than {limits.pages} pages (Limits.pages)", page)

    async def _page(self, fields: dict[str, Any]) -> dict[str, Any]:
        reading = await self._fetch(fields)
        page = reading.result
        if type(page.get("tools")) is not list:
            raise self._broken("a page without an array of tools", page)
        return page

    def _seconds_fresh(self, page: dict[str, Any]) -> float:
        """How long a page may be taken as fresh.

        Without a usable ``ttlMs``: until the server says otherwise, where it is heard when it
        does; else not at all.
        """
        ttl = page.get("ttlMs")
        if type(ttl) is int or type(ttl) is float:
            return max(0.0, min(ttl, 86_400_000) / 1000)
        return math.inf if self._told() else 0.0

    def _broken(self, what: str, page: Any) -> ProtocolViolation:
        return ProtocolViolation(
            f"the server's tools/list has {what}", result=page, server=self._server
        )

    # -------------------------------------------------------------- quarantine

    async def _sorted_out(self, found: list[Any]) -> ToolList:
        names = Counter(_name(definition) for definition in found)
        alike = look_alikes(names)
        tools: list[Tool] = []
        rejected: list[Rejected] = []
        findings: list[str] = []
        for number, definition in enumerate(found):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await checkpoint()  # a long list takes its time: let others run, and stop
            name = _name(definition)
            texts: list[str] = []
            said: list[str] = []
            reason = _fault(definition, name, names)
            if reason is None and self.mirrors:
                reason = _mark_fault(definition)
            if reason is None:
                odd = _odd_schemas(definition, texts)
                if odd:
                    await checkpoint()  # a full judgement does, too
                    reason = _judged(odd, self._limits, said)
            if reason is not None:
                shown = safe_text(name, 128)
                rejected.append(Rejected(shown, reason))
                _log.warning("%s: the tool %r is left out: %s", self._server, shown, reason)
                continue
            said += _inspected(definition, name, texts, alike)
            tool = self._tool(name, definition, said)
            said += hint_findings(tool)
            if said:
                tool._memo["findings"] = tuple(said)
                findings += [f"tool '{safe_text(name, 128)}': {finding}" for finding in said]
            tools.append(tool)
        if self._pins is not None:
            findings += await anyio.to_thread.run_sync(self._pins.compare, self._server, tools)
        return ToolList(tools, rejected, findings)

    def _tool(self, name: str, definition: dict[str, Any], said: list[str]) -> Tool:
        tool = Tool(name, self._server, False, definition)
        if self._trusted is False:
            return tool
        if self._trusted is not True and said:
            tool._memo["findings"] = tuple(said)
        if not trusts(self._trusted, tool):
            return tool
        return Tool(name, self._server, True, definition)


class _CursorGone(Exception):
    """A cursor the server gave is not valid any more."""


def _name(definition: Any) -> str:
    name = definition.get("name") if type(definition) is dict else None
    return name if type(name) is str else ""


def _fault(definition: Any, name: str, names: Counter[str]) -> str | None:
    """Why a definition is no tool, or None. What is inside its schemas is looked at elsewhere."""
    if type(definition) is not dict:
        return "it is no JSON object"
    if not name or name.isspace():
        return "its name is missing, empty or no string"
    if names[name] > 1:
        return f"{names[name]} tools have this name; it cannot be told which one is meant"
    if type(definition.get("inputSchema")) is not dict:
        return "its inputSchema is missing or no JSON object"
    if not isinstance(definition.get("outputSchema"), dict | bool | None):
        return "its outputSchema is no JSON Schema"
    if not is_ordinary_name(name) and unseen(name):
        return "its name has characters that nobody can see"
    return None


def _mark_fault(definition: dict[str, Any]) -> str | None:
    try:
        mirrors_of(definition["inputSchema"])
    except BadMark as error:
        return safe_text(error, 200)
    return None


def _odd_schemas(definition: dict[str, Any], texts: list[str]) -> list[tuple[str, Any]]:
    """The schemas of a tool that need a full judgement. What its schemas say goes to ``texts``."""
    odd: list[tuple[str, Any]] = []
    schema = definition["inputSchema"]
    if not survey(schema, texts):
        odd.append(("inputSchema", schema))
    schema = definition.get("outputSchema")
    if schema is not None and not survey(schema, texts):
        odd.append(("outputSchema", schema))
    for _, schema in odd:
        _gather(schema, texts)
    return odd


def _judged(odd: list[tuple[str, Any]], limits: Limits, findings: list[str]) -> str | None:
    for member, schema in odd:
        if not is_known_dialect(schema):
            dialect = safe_text(schema["$schema"], 80)
            findings.append(f"its {member} is in a dialect that cannot be checked: {dialect!r}")
            continue
        try:
            checker_for(schema, limits).prepare_if_cheap()
        except InvalidSchema as error:
            return f"its {member} {_NO_SCHEMA}{safe_text(error, _SHOWN)}"
    return None


def _gather(value: Any, texts: list[str]) -> None:
    if type(value) is str:
        texts.append(value)
    elif type(value) is dict:
        texts.extend(value)
        for item in value.values():
            _gather(item, texts)
    elif type(value) is list:
        for item in value:
            _gather(item, texts)


def _inspected(
    definition: dict[str, Any], name: str, texts: list[str], alike: Mapping[str, str]
) -> list[str]:
    """What a person should look at."""
    for member in ("title", "description"):
        text = definition.get(member)
        if type(text) is str:
            texts.append(text)
    found = text_findings(texts)
    if not is_ordinary_name(name):
        found += name_findings(name)
    if name in alike:
        found.append(f"its name can be taken for that of '{safe_text(alike[name], 128)}'")
    return found
