"""A tool's input schema as one provider takes it, and how to undo that in arguments.

A model sees a schema in which members may have other names, and in strict mode has to give null
for what it leaves out. ``Restoration`` undoes both, before the call is made: the approver sees what
is sent.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..catalog.tool import Tool
from ..protocol.schema_walk import Role, walk
from .portable_patterns import with_portable_patterns
from .schema_inlining import Effect, Notes, inline
from .schema_merging import is_of, object_root, type_of_value, types_of
from .schema_subset import EMPTY_ITEMS, OPTIONAL, Profile, Unsuitable, subset
from .strict_limits import RequestLimits, exceeded

__all__ = ["Definition", "Dialect", "Restoration"]

_log = logging.getLogger("mcp_client")
_SAME = ("allOf", "anyOf", "oneOf")
_SAME_ONE = ("if", "then", "else", "not")


@dataclass(frozen=True, slots=True)
class Definition:
    """What a model is shown of a tool's arguments."""

    schema: dict[str, Any]
    """What the model is shown in place of the tool's own input schema."""
    changes: tuple[str, ...]
    """Each a clause, without the tool's name."""
    undo: Restoration | None
    """What to undo in a model's arguments; None for nothing."""
    strict: bool
    """Whether the provider guarantees arguments that fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """What one provider takes as the schema of a function's arguments."""

    provider: str
    """Its name, for people."""
    plain: Profile | None = None
    """The subset without strict mode; None for all of JSON Schema 2020-12 below the root."""
    strict: Profile | None = None
    """The subset of strict mode; None where the provider has none."""
    member_names: re.Pattern[str] | None = None
    """The names that members may have; None for any."""
    complete: bool = False
    """Whether an object has to have ``properties`` and an array ``items``."""
    portable: bool = False
    """Whether the provider refuses patterns that are not portable, also without strict mode."""
    in_request: RequestLimits | None = None
    """What the strict tools of one request may have in all; None for any number of them."""

    def definition(self, tool: Tool, strict: bool) -> Definition:
        """What a model is shown of ``tool``: one object for each tool, as long as it is kept."""
        return tool._derive(self._strictly if strict else self._plainly)

    def _plainly(self, tool: Tool) -> Definition:
        return self._made_or_left_out(tool, False)

    def _strictly(self, tool: Tool) -> Definition:
        why = f"{self.provider} has no strict mode"
        if self.strict is not None:
            try:
                return self._made_or_left_out(tool, True)
            except Unsuitable as error:
                why = str(error)
        return self.not_strict(tool, why)

    def not_strict(self, tool: Tool, why: str) -> Definition:
        """What a model is shown of a tool that should be strict and is not."""
        plain = self.definition(tool, False)
        return replace(plain, changes=(*plain.changes, f"it is not strict: {why}"))

    def _made_or_left_out(self, tool: Tool, strict: bool) -> Definition:
        try:
            return self._made(tool, strict)
        except Unsuitable:
            raise
        except Exception as error:  # noqa: BLE001 - one tool must not take the others along
            _log.error("a tool's schema could not be read", exc_info=error)
            what = f"its schema could not be read and is left out{Effect.ACCEPTS_MORE.value}"
            return Definition({"type": "object", "properties": {}}, (what,), None, False)

    def _made(self, tool: Tool, strict: bool) -> Definition:
        schema, names, notes = inline(tool.input_schema, self.member_names)
        if self.portable:
            schema = with_portable_patterns(schema, notes)
        schema = object_root(schema, notes)
        profile = self.strict if strict else self.plain
        if profile is not None:
            schema = subset(schema, profile, notes)
        if self.complete:
            schema = _completed(schema, notes)
        too_large = exceeded(schema) if strict else None
        if too_large is not None:
            raise Unsuitable(too_large)
        undo = restoration_of(schema, names)
        return Definition(schema, notes.sentences(), undo, strict)


def _completed(schema: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """OpenAI refuses a root without ``properties`` and an array without ``items``."""
    if "properties" not in schema:
        notes.add("an empty 'properties' is added", ())
        schema = {**schema, "properties": {}}
    for part, role, _, names, _ in walk(schema):
        is_array = role is Role.SCHEMA and type(part) is dict and "array" in types_of(part)
        if is_array and "items" not in part:
            path = tuple(step for name in names or () for step in ("properties", name))
            notes.add(EMPTY_ITEMS, path)
            part["items"] = {}
    return schema


@dataclass(slots=True)
class Restoration:
    """What to undo in one value; its members and items have their own."""

    names: dict[str, str] = field(default_factory=dict)
    """The model's names of members, and the tool's."""
    optional: frozenset[str] = frozenset()
    """Members that the tool's schema does not require, by the model's names."""
    members: dict[str, Restoration] = field(default_factory=dict)
    """For the values of members, by the model's names."""
    others: Restoration | None = None
    """For the values of all other members."""
    items: Restoration | None = None
    """For the items of an array."""
    options: tuple[tuple[dict[str, Any], Restoration | None], ...] = ()
    """Alternatives, each with its schema: the first that fits says what to undo."""

    def apply(self, value: Any) -> Any:
        """A copy of ``value`` as the tool wants it."""
        if self.options:
            chosen = next((undo for schema, undo in self.options if _fits(schema, value)), None)
            if chosen is not None:
                return chosen.apply(value)
        if type(value) is list and self.items is not None:
            return [self.items.apply(item) for item in value]
        if type(value) is not dict:
            return value
        out = {}
        for name, item in value.items():
            if item is None and name in self.optional:
                continue
            undo = self.members.get(name, self.others)
            out[self.names.get(name, name)] = item if undo is None else undo.apply(item)
        return out


def restoration_of(schema: dict[str, Any], names: dict[str, str]) -> Restoration | None:
    """What ``schema`` needs undone, None for nothing; ``names`` are the model's and the tool's.

    Takes the marks ``OPTIONAL`` out of ``schema``.
    """
    undo = Restoration(optional=frozenset(schema.pop(OPTIONAL, ())))
    undo.names = {name: names[name] for name in _mentioned_names(schema) if name in names}
    for name, member in schema.get("properties", {}).items():
        found = restoration_of(member, names)
        if found is not None:
            undo.members[name] = found
    for keyword in ("additionalProperties", "items"):
        inner = schema.get(keyword)
        found = restoration_of(inner, names) if type(inner) is dict else None
        if keyword == "items":
            undo.items = found
        else:
            undo.others = found
    same = [one for keyword in _SAME for one in schema.get(keyword, ())]
    same += [schema[keyword] for keyword in _SAME_ONE if keyword in schema]
    same += schema.get("dependentSchemas", {}).values()
    pairs = [(one, restoration_of(one, names)) for one in same]
    if any(found is not None for _, found in pairs):
        if _has_optional(pairs):
            undo.options = tuple(pairs)
        else:  # names alone: the same whichever alternative it is
            for _, found in pairs:
                _add(undo, found)
    is_needed = undo.names or undo.optional or undo.members or undo.options
    return undo if is_needed or undo.items or undo.others else None


def _mentioned_names(schema: dict[str, Any]) -> Iterator[str]:
    """The names of members that ``schema`` itself has something to say of."""
    yield from schema.get("properties", ())
    yield from schema.get("required", ())
    yield from schema.get("dependentSchemas", ())
    for name, others in schema.get("dependentRequired", {}).items():
        yield name
        yield from others


def _has_optional(pairs: list[tuple[dict[str, Any], Restoration | None]]) -> bool:
    waiting = [found for _, found in pairs]
    while waiting:
        undo = waiting.pop()
        if undo is not None:
            if undo.optional or undo.options:
                return True
            waiting += [*undo.members.values(), undo.items, undo.others]
    return False


def _add(undo: Restoration, other: Restoration | None) -> Restoration | None:
    if other is None:
        return undo
    undo.names |= other.names
    for name, member in other.members.items():
        own = undo.members.get(name)
        undo.members[name] = member if own is None else _add(own, member) or own
    undo.items = other.items if undo.items is None else _add(undo.items, other.items)
    undo.others = other.others if undo.others is None else _add(undo.others, other.others)
    return undo


def _fits(schema: dict[str, Any], value: Any) -> bool:
    """Whether ``value`` has the form of ``schema``, of a strict subset: types, names, choices."""
    if "anyOf" in schema:
        return any(_fits(option, value) for option in schema["anyOf"])
    if "enum" in schema:
        return any(type(value) is type(item) and value == item for item in schema["enum"])
    if not is_of(type_of_value(value), types_of(schema)):
        return False
    if type(value) is dict:
        properties = schema.get("properties", {})
        if not set(schema.get("required", ())) <= value.keys() <= properties.keys():
            return False
        return all(_fits(properties[name], item) for name, item in value.items())
    if type(value) is list and "items" in schema:
        return all(_fits(schema["items"], item) for item in value)
    return True
