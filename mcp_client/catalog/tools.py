"""The tools of one server, and honest about what was left out.

2026-07-28 ``server/tools``. How they are listed and kept is in ``listing``; what is here is what
holds of tools alone. One bad tool spoils one tool: it is left out and named in ``rejected``. A call
uses the definitions at hand and asks for the list only where it knows of none, or of a change: a
server's ``ttlMs`` of 0 does not cost every call a list. It is stricter than the list, too: it does
not go by a definition that is known to have changed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio
from anyio.lowlevel import checkpoint

from ..errors import InvalidSchema, UnknownTool
from ..protocol.headers import InvalidHeaderParam, header_params_of
from ..runtime.limits import Limits
from ..runtime.safe_text import invisible, safe_text
from ..validation.checker import checker_for
from ..validation.schema_shape import is_known_dialect, survey
from .inspection import is_ordinary_name, look_alikes, name_findings, text_findings
from .listed import Rejected
from .paged_list import Kind, ListSource, PagedCache
from .subscription import ListSubscription
from .tool import Tool, ToolList
from .trust import Trust, hint_findings, trusts

if TYPE_CHECKING:
    from .pins import Pins

__all__ = ["Catalog"]

_log = logging.getLogger("mcp_client")
_SHOWN = 200
_NO_SCHEMA = "is no JSON Schema: "
_AT_ONCE = 25


class Catalog(PagedCache[ToolList]):
    kind = Kind("tools/list", "tools", "tools", lambda tool: tool.name, "tools")
    _by_key: dict[str, Tool]

    def __init__(
        self,
        source: ListSource,
        subscription: ListSubscription,
        trusted: Trust,
        pins: Pins | None = None,
    ) -> None:
        super().__init__(source, subscription)
        self._trusted = trusted
        self._pins = pins
        self.mirrors = False
        """Whether arguments are repeated in headers, so that marks which break a rule count."""

    async def tools(self, *, refresh: bool = False) -> ToolList:
        """The whole current list; the last one, with a finding, where it cannot be fetched."""
        return await self.all(refresh=refresh)

    async def find(self, name: str) -> Tool:
        """The definition in force of the tool ``name``.

        Raises ``UnknownTool``, or ``InvalidSchema`` where it was left out for its schema.
        """
        if self._private:
            self._drop_if_credentials_changed()
        if self._seen == self._changes:
            tool = self._by_key.get(name)
            if tool is not None:
                self.subscription.rely()
                return tool
        tools = await self._current(refresh=self._seen == self._changes)
        tool = self._by_key.get(name)
        if tool is None:
            raise self._unknown(name, tools)
        return tool

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
    if not is_ordinary_name(name) and invisible(name):
        return "its name has characters that nobody can see"
    return None


def _mark_fault(definition: dict[str, Any]) -> str | None:
    try:
        header_params_of(definition["inputSchema"])
    except InvalidHeaderParam as error:
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
