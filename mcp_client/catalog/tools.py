"""The tools of one server: which can be used, and why others cannot.

2026-07-28 ``server/tools``; ``paged_list`` fetches and caches them. An invalid tool is omitted and
listed in ``rejected``; it does not affect the others. A call uses the known definition. It requests
the list only without one, if it is known to have changed, or once its ``ttlMs`` has passed. A
``ttlMs`` of 0, or none, does not limit a definition, and does not cost a list for each call
(``server/utilities/caching``: the client MAY fetch again every time). Unlike a list, a call never
uses a definition that is known to be out of date.
"""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import cached_property
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from ..errors import UnknownTool
from ..protocol.headers import InvalidHeaderParam, header_params_of
from ..runtime.daemon_thread import run_in_thread
from ..runtime.safe_text import invisible, safe_text
from .definition import LookAlikes, ordinary_name
from .finding import Finding, Rejected, RejectedKind
from .paged_list import LOGGED_BY_THE_LIST, Kind, PagedCache
from .read_requests import ReadRequests, without_repeats
from .subscription import ListSubscription
from .tool import Tool, ToolList, not_a_name

if TYPE_CHECKING:
    from .pins import Pins

__all__ = ["Catalog", "Trust", "trusts"]

Fault: TypeAlias = tuple[str, RejectedKind]
"""The reason why a definition cannot be used, as in ``Rejected``."""
Bind: TypeAlias = Callable[[list[Tool]], Awaitable[tuple[list[Tool], list[Finding]]]]

_log = logging.getLogger("mcp_client")

Trust: TypeAlias = bool | Callable[["Tool"], bool]
"""The host's word that annotations may be believed: of a server, or tool by tool."""
_NO_TASKS = Finding(
    "not_callable",
    "it requires a task, and the server does not declare tasks.requests.tools.call: it "
    "cannot be called",
)
_OTHER_ICONS = Finding("definition_changed", "only its icons have changed", "icons")
_SLICE_TOOLS = 25
_SLICE_SECONDS = 0.001
_MAX_LOGGED = 20
_MAX_NAME_CHARS = 1_000


class Catalog(PagedCache[ToolList]):
    """The tools of one session."""

    kind: ClassVar[Kind] = Kind("tools/list", "tools", "tools", attrgetter("name"), "tools")
    _by_key: dict[str, Tool]

    def __init__(
        self,
        requests: ReadRequests,
        subscription: ListSubscription,
        trusted: Trust,
        pins: Pins | None = None,
        *,
        why_left_out: Callable[[str], str | None] | None = None,
        bind: Bind | None = None,
    ) -> None:
        """Set ``why_left_out``, which returns the reason to omit a tool, and ``bind``.

        ``bind`` returns the tools with the arguments that the host sets, and findings about these.
        """
        super().__init__(requests, subscription)
        self._trusted = trusted
        self._pins = pins
        self._why_left_out = why_left_out
        self._bind = bind
        self._depends_on_host = pins is not None or callable(trusted)
        self.instructions: str | None = None
        """The server's instructions, if the lock file has them or may follow them; None before the
        tools were listed."""

    @cached_property
    def _thread(self) -> anyio.CapacityLimiter:
        # Of its own, because the program may have all threads of the default limiter waiting.
        return anyio.CapacityLimiter(1)

    async def pinned(self) -> ToolList | None:
        """The tools as the lock file has them; None if it does not have this server.

        Raises ``ConfigError`` if the file cannot be used.
        """
        if self._pins is None:
            return None
        read = self._pins._pinned
        found = await run_in_thread(read, self._server, self._limits, limiter=self._thread)
        if found is None:
            return None
        self.instructions = found.instructions
        return await self._sorted_out(found.definitions, found.written)

    async def find(self, name: str) -> Tool:
        """The definition of the tool ``name``, unless it is known to have changed or expired.

        Raises ``UnknownTool``.
        """
        known: Tool | None = self.usable(name)
        if known is not None:
            return known
        if not isinstance(name, str):
            raise not_a_name(name, server=self._server)
        if self._freshness.private:
            await self._drop_if_credentials_changed()
        known = None if self.outdated else self._by_key.get(name)
        if known is not None and not self.is_over:
            self._use()
            return known
        refresh = known is None and not self.outdated
        return self._named(name, await self._current(refresh=refresh))

    async def find_current(self, name: str) -> Tool:
        """The definition of ``name`` in a list that is fetched again if it may be out of date."""
        return self._named(name, await self._current(refresh=False))

    def _named(self, name: str, tools: ToolList) -> Tool:
        tool = self._by_key.get(name)
        if tool is None:
            raise self._unknown(name, tools)
        return tool

    def _unknown(self, name: str, tools: ToolList) -> UnknownTool:
        quoted = safe_text(name, 128)
        left_out = next((one for one in tools.rejected if one.name == quoted), None)
        names = ", ".join(safe_text(tool.name, 64) for tool in tools[:20]) or "none"
        more = ", ..." if len(tools) > 20 else ""
        text = (
            f"the server's tool {quoted!r} was rejected: {left_out.reason}"
            if left_out
            else f"the server has no tool {quoted!r}; it has: {names}{more}"
        )
        if self._pins is not None and self._pins._was_removed(self._server, name):
            text += f" ({self._pins.name} has it: the server no longer offers it)"
        return UnknownTool(text, server=self._server, tool=quoted)

    # ---------------------------------------------------------- rejected tools

    async def _sorted_out(self, found: list[Any], written: str | None = None) -> ToolList:
        """Sort the tools; ``written`` is the time at which the lock file stored ``found``."""
        found = [self._with_schema(definition) for definition in found]
        names = [_name(definition) for definition in found]
        repeats: list[Finding] = []
        if len(set(names)) < len(names):
            found, repeats = without_repeats(found, names, "tool")
            names = [_name(definition) for definition in found]
        turn, look_alikes = _Turn(), LookAlikes()
        for start in range(0, len(names), _SLICE_TOOLS):
            if start and turn.is_over:
                await turn.end()
            look_alikes.add(names[start : start + _SLICE_TOOLS])
        faults = await self._faults(found, names)
        tools: list[Tool] = []
        rejected: list[Rejected] = []
        for number, (name, definition) in enumerate(zip(names, found, strict=True)):
            if number % _SLICE_TOOLS == _SLICE_TOOLS - 1 and turn.is_over:
                await turn.end()
            fault = faults.get(number)
            if fault is None:
                tools.append(self._tool(name, definition, look_alikes.found.get(name), written))
            else:
                rejected.append(Rejected(safe_text(name, 128), *fault))
        self._log_rejected(rejected)
        differences = list(repeats)
        if self._pins is not None and written is None:
            compared, self.instructions = await run_in_thread(
                self._pins._compare,
                self._server,
                tools,
                self._requests.connection.rpc.era.server.instructions,
                limiter=self._thread,
            )
            differences = compared + repeats
        differences += [
            _OTHER_ICONS.at(f"tool '{safe_text(tool.name, 128)}'")
            for tool in tools
            if self._has_other_icons(tool)
        ]
        if self._why_left_out is not None:
            reasons = [self._why_left_out(tool.name) for tool in tools]
            pairs = list(zip(tools, reasons, strict=True))
            rejected += [
                Rejected(safe_text(t.name, 128), why, "not_wanted") for t, why in pairs if why
            ]
            tools = [tool for tool, why in pairs if not why]
        if self._bind is not None:
            tools, found_of_bind = await self._bind(tools)
            differences += found_of_bind
        era = self._requests.connection.transport.era
        if era is not None and era.has_tasks and not era.takes_tasks:
            differences += [
                _NO_TASKS.at(f"tool '{safe_text(tool.name, 128)}'")
                for tool in tools
                if tool.task_support == "required"
            ]
        return ToolList(tools, rejected, differences)

    def _with_schema(self, definition: Any) -> Any:
        """Return the definition with an empty schema in place of an empty array."""
        if type(definition) is not dict or definition.get("inputSchema") != []:
            return definition
        deviation = "an inputSchema is an empty array, and not an empty object"  # as PHP writes it
        self._requests.context.stats.accept(self._server, deviation)
        return {**definition, "inputSchema": {}}

    def _has_other_icons(self, tool: Tool) -> bool:
        """Whether nothing but icons differs from the definition that was in force before."""
        before = self._by_key.get(tool.name)
        if before is None or before._definition.get("icons") == tool._definition.get("icons"):
            return False
        return before.fingerprint == tool.fingerprint

    async def _faults(self, found: list[Any], names: list[str]) -> dict[int, Fault]:
        """Return why definitions cannot be used, by their position in the list."""
        faults: dict[int, Fault] = {}
        counts = Counter(names)
        transport = self._requests.connection.transport
        in_headers = transport.has_headers and transport.era is not None and transport.era.mirrors
        turn = _Turn()
        for number, (name, definition) in enumerate(zip(names, found, strict=True)):
            look = in_headers or number % _SLICE_TOOLS == _SLICE_TOOLS - 1
            if look and turn.is_over:
                await turn.end()
            try:
                fault = _fault(definition, name, counts[name])
                if fault is None and in_headers:
                    fault = _mark_fault(definition)
            except Exception as error:  # noqa: BLE001 - it must not take the other tools along
                _log.exception("%s: a tool's definition could not be read", self._server)
                fault = f"its definition could not be read ({type(error).__name__})", "invalid"
            if fault is not None:
                faults[number] = fault
        return faults

    def _tool(
        self, name: str, definition: dict[str, Any], looks_like: str | None, written: str | None
    ) -> Tool:
        trusted = self._trusted
        if trusted is not True and trusted is not False:
            trusted = trusts(trusted, Tool(name, self._server, False, definition, looks_like))
        has_icons = "icons" in definition
        origin = self._requests.connection.transport.origin if has_icons else None
        return Tool(
            name, self._server, trusted, definition, looks_like, _origin=origin, pinned_at=written
        )

    def _log_rejected(self, rejected: list[Rejected]) -> None:
        for one in rejected[:_MAX_LOGGED]:
            text = "%s: the tool %r is left out: %s"
            _log.warning(text, self._server, one.name, one.reason, extra=LOGGED_BY_THE_LIST)
        if len(rejected) > _MAX_LOGGED:
            left = len(rejected) - _MAX_LOGGED
            text = "%s: %d more tools are left out"
            _log.warning(text, self._server, left, extra=LOGGED_BY_THE_LIST)


class _Turn:
    """The time for which a long list is looked through before other tasks run."""

    def __init__(self) -> None:
        self._end = perf_counter() + _SLICE_SECONDS

    @property
    def is_over(self) -> bool:
        return perf_counter() >= self._end

    async def end(self) -> None:
        await checkpoint()
        self._end = perf_counter() + _SLICE_SECONDS


def _name(definition: Any) -> str:
    name = definition.get("name") if type(definition) is dict else None
    return name if type(name) is str else ""


def _fault(definition: Any, name: str, count: int) -> Fault | None:
    """Return why a definition cannot be used, or None.

    A schema that cannot be judged is a finding.
    """
    if type(definition) is not dict:
        return "it is not a JSON object", "invalid"
    if not name or name.isspace():
        return "its name is missing, empty or not a string", "invalid"
    if len(name) > _MAX_NAME_CHARS:
        return f"its name has {len(name)} characters, more than {_MAX_NAME_CHARS}", "invalid"
    if count > 1:
        return f"{count} tools have this name, which is ambiguous", "same_name"
    if type(definition.get("inputSchema")) is not dict:
        return "its inputSchema is missing or not a JSON object", "invalid"
    if not ordinary_name(name) and invisible(name):
        return "its name has invisible characters", "invalid"
    return None


def _mark_fault(definition: dict[str, Any]) -> Fault | None:
    try:
        header_params_of(definition["inputSchema"])
    except InvalidHeaderParam as error:
        return safe_text(error, 200), "invalid"
    return None


def trusts(trust: Trust, tool: Tool) -> bool:
    """Return whether the host trusts the annotations of ``tool``.

    A function gets the tool as an untrusted one. Only its return value True grants trust; an
    exception does not.
    """
    if isinstance(trust, bool):
        return trust
    try:
        is_trusted: Any = trust(tool)
    except Exception as error:  # noqa: BLE001 - if the host's function fails, the answer is no
        kind = type(error).__name__
    else:
        if isinstance(is_trusted, bool):
            return is_trusted
        kind = type(is_trusted).__name__
        if inspect.iscoroutine(is_trusted):
            is_trusted.close()
    name = safe_text(tool.name, 128)
    text = "%s/%s is not trusted: trusted=... returned %s, not a bool"
    _log.warning(text, tool.server, name, kind)
    return False
