"""A tool's input schema as one provider takes it, and how to undo that in arguments."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Any

from ..catalog.tool import Tool
from ..protocol.schema_walk import Role, walk
from .arguments import Restoration, restoration_of
from .schema_inlining import inline
from .schema_merging import types_of
from .schema_notes import Effect, Notes
from .schema_root import object_root
from .schema_subset import EMPTY_ITEMS, Profile, Unsuitable, subset

__all__ = ["Definition", "Dialect"]

_log = logging.getLogger("mcp_client")
_MOST_MEMBERS = 5_000
_DEEPEST = 10
_MOST_VALUES = 1_000
_MOST_CHARS = 120_000


@dataclass(frozen=True, slots=True)
class Definition:
    """What a model is shown of a tool's arguments."""

    schema: dict[str, Any]
    changes: tuple[str, ...]
    """Each a clause, without the tool's name."""
    undo: Restoration | None
    strict: bool


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """What one provider takes as the schema of a function's arguments."""

    provider: str
    plain: Profile | None = None
    """The subset without strict mode; None for all of JSON Schema 2020-12 below the root."""
    strict: Profile | None = None
    """The subset of strict mode; None where the provider has none."""
    member_names: re.Pattern[str] | None = None
    """The names that members may have; None for any."""
    complete: bool = False
    """Whether an object has to have ``properties`` and an array ``items``."""

    def definition(self, tool: Tool, strict: bool) -> Definition:
        """The same object for the same tool, as long as the tool is kept."""
        return tool.derived(self._strictly if strict else self._plainly)

    def _plainly(self, tool: Tool) -> Definition:
        try:
            return self._made(tool, False)
        except Exception as error:  # noqa: BLE001 - one tool must not take the others along
            return self._opaque(error)

    def _strictly(self, tool: Tool) -> Definition:
        if self.strict is None:
            plain = self.definition(tool, False)
            reason = f"it is not strict: {self.provider} has no strict mode"
            return Definition(plain.schema, (*plain.changes, reason), plain.undo, False)
        try:
            return self._made(tool, True)
        except Unsuitable as error:
            plain = self.definition(tool, False)
            changes = (*plain.changes, f"it is not strict: {error}")
            return Definition(plain.schema, changes, plain.undo, False)
        except Exception as error:  # noqa: BLE001 - likewise
            return self._opaque(error)

    def _opaque(self, error: Exception) -> Definition:
        _log.error("a tool's schema could not be read", exc_info=error)
        what = f"its schema could not be read and is left out{Effect.ACCEPTS_MORE.value}"
        return Definition({"type": "object", "properties": {}}, (what,), None, False)

    def _made(self, tool: Tool, strict: bool) -> Definition:
        schema, names, notes = inline(tool.input_schema, self.member_names)
        schema = object_root(schema, notes)
        profile = self.strict if strict else self.plain
        if profile is not None:
            schema = subset(schema, profile, notes)
        if self.complete:
            schema = _completed(schema, notes)
        if strict:
            _within_limits(schema)
        undo = restoration_of(schema, names)
        return Definition(schema, notes.sentences(), undo, strict)


def _completed(schema: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """OpenAI refuses a root without ``properties`` and an array without ``items``."""
    if "properties" not in schema:
        notes.add("an empty 'properties' is added", ())
        schema = {**schema, "properties": {}}
    for part, role, _, _, _ in walk(schema):
        is_array = role is Role.SCHEMA and type(part) is dict and "array" in types_of(part)
        if is_array and "items" not in part:
            notes.add(EMPTY_ITEMS, ())
            part["items"] = {}
    return schema


def _within_limits(schema: dict[str, Any]) -> None:
    """The limits of OpenAI's strict mode. Raises ``Unsuitable``."""
    members = values = chars = deepest = 0
    waiting = [(schema, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        properties = node.get("properties", {})
        members += len(properties)
        chars += sum(map(len, properties))
        enum = node.get("enum", ())
        values += len(enum)
        chars += sum(len(item) for item in enum if type(item) is str)
        waiting += [(member, depth + 1) for member in properties.values()]
        waiting += [(option, depth) for option in node.get("anyOf", ())]
        if "items" in node:
            waiting.append((node["items"], depth + 1))
    if deepest > _DEEPEST:
        raise Unsuitable(f"it is nested {deepest} levels deep, and strict mode takes {_DEEPEST}")
    if members > _MOST_MEMBERS or values > _MOST_VALUES or chars > _MOST_CHARS:
        raise Unsuitable("it has more members or values than strict mode takes")
