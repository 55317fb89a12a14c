"""A tool's input schema as one provider takes it, and how to undo that in arguments.

A model sees a schema in which members may have other names, and in strict mode has to give null
for what it leaves out. ``Restoration`` undoes both, before the call is made: the approver sees what
is sent.

Strict mode has limits. OpenAI limits each schema (its guide to structured outputs, "Supported
schemas"). Anthropic limits the sums over the strict tools of a request (its page on structured
outputs, "Schema complexity limits"). It refuses a request that exceeds them. It may also refuse a
grammar that is too large to compile, for which it documents no measure.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..catalog.tool import Tool
from ..protocol.json_paths import Role, walk
from .schema_inlining import inline
from .schema_merging import Effect, is_of, object_root, type_of_value, types_of
from .schema_subset import OPTIONAL, Profile, Unsuitable, subset

__all__ = ["Definition", "Dialect", "RequestLimits", "Restoration", "exceeded"]

_log = logging.getLogger("mcp_client")
_SAME = ("allOf", "anyOf", "oneOf")
_SAME_ONE = ("if", "then", "else", "not")
_MAX_MEMBERS = 5_000
_MAX_LEVELS = 10
_MAX_VALUES = 1_000
_MAX_CHARS = 120_000
_MANY_VALUES, _MAX_VALUES_CHARS = 250, 15_000
"""The number of values of one ``enum``, above which the characters of its strings are limited."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a tool's arguments for a model."""

    schema: dict[str, Any]
    """The schema for the model in place of the tool's own input schema."""
    changes: tuple[str, ...]
    """Each a clause, without the tool's name."""
    undo: Restoration | None
    """The changes to undo in a model's arguments; None without any."""
    strict: bool
    """Whether the provider guarantees arguments that fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """The subset of schemas that one provider accepts for the arguments of a function."""

    provider: str
    """The name of the provider, for people."""
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
    """The limits for all strict tools of one request; None without limits."""

    def definition(self, tool: Tool, strict: bool) -> Definition:
        """Return the definition of ``tool`` for a model: one object for each tool, cached."""
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
        """Return the definition of a tool that should be strict and is not."""
        plain = self.definition(tool, False)
        return replace(plain, changes=(*plain.changes, f"it is not strict: {why}"))

    def _made_or_left_out(self, tool: Tool, strict: bool) -> Definition:
        try:
            return self._made(tool, strict)
        except Unsuitable:
            raise
        except Exception as error:  # noqa: BLE001 - one tool must not take the others along
            _log.error("a tool's schema could not be converted", exc_info=error)
            what = f"its schema could not be converted and is left out{Effect.ACCEPTS_MORE.value}"
            return Definition({"type": "object", "properties": {}}, (what,), None, False)

    def _made(self, tool: Tool, strict: bool) -> Definition:
        schema, names, notes = inline(
            tool.input_schema,
            self.member_names,
            portable=self.portable,
            complete=self.complete and not strict,
        )
        schema = object_root(schema, notes)
        profile = self.strict if strict else self.plain
        if profile is not None:
            schema = subset(schema, profile, notes)
        if self.complete and "properties" not in schema:
            notes.add("an empty 'properties' is added", ())
            schema["properties"] = {}
        too_large = exceeded(schema) if strict else None
        if too_large is not None:
            raise Unsuitable(too_large)
        visible = _unmarked(schema)
        undo = Restoration(schema, names, strict) if names or visible != schema else None
        return Definition(visible, notes.sentences(), undo, strict)


@dataclass(frozen=True, slots=True, eq=False)
class Restoration:
    """The way to undo the changes of a schema in a model's arguments."""

    schema: dict[str, Any]
    """The schema with the marks ``OPTIONAL``."""
    names: dict[str, str]
    """The model's names of members, and the tool's."""
    strict: bool

    def apply(self, value: Any) -> Any:
        """Return a copy of ``value`` as the tool expects it."""
        return self._restored([self.schema], value)

    def _restored(self, schemas: list[dict[str, Any]], value: Any) -> Any:
        parts = [part for schema in schemas for part in self._applied(schema, value)]
        if type(value) is list:
            items = [part["items"] for part in parts if type(part.get("items")) is dict]
            return [self._restored(items, item) for item in value]
        if type(value) is not dict:
            return value
        mentioned = {name for part in parts for name in _mentioned_names(part)}
        optional = {name for part in parts for name in part.get(OPTIONAL, ())}
        more = [part.get("additionalProperties") for part in parts]
        out = {}
        for name, item in value.items():
            if item is not None or name not in optional:
                inner = [part["properties"].get(name) for part in parts if "properties" in part]
                inner = [one for one in inner if one is not None] or more
                own = self.names.get(name, name) if name in mentioned else name
                out[own] = self._restored([one for one in inner if type(one) is dict], item)
        return out

    def _applied(self, schema: dict[str, Any], value: Any) -> Iterator[dict[str, Any]]:
        """Yield ``schema``, and the schemas in it that are about the same value."""
        yield schema
        same = [one for keyword in _SAME for one in schema.get(keyword, ())]
        same += [schema[keyword] for keyword in _SAME_ONE if keyword in schema]
        same += schema.get("dependentSchemas", {}).values()
        if self.strict:  # the first alternative that fits defines what to undo
            same = [one for one in same if _fits(one, value)][:1] or same
        for one in same:
            yield from self._applied(one, value)


def _unmarked(schema: Any) -> Any:
    """Return a copy of ``schema`` without the marks ``OPTIONAL``."""
    if type(schema) is dict:
        return {key: _unmarked(item) for key, item in schema.items() if type(item) is not tuple}
    return [_unmarked(item) for item in schema] if type(schema) is list else schema


def _mentioned_names(schema: dict[str, Any]) -> Iterator[str]:
    """Return the names of members that ``schema`` itself describes."""
    yield from schema.get("properties", ())
    yield from schema.get("required", ())
    yield from schema.get("dependentSchemas", ())
    for name, others in schema.get("dependentRequired", {}).items():
        yield name
        yield from others


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


def exceeded(schema: dict[str, Any]) -> str | None:
    """Return the limit of OpenAI that the strict ``schema`` exceeds, as a clause; None for none."""
    members = values = chars = deepest = longest = 0
    waiting = [(schema, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        properties = node.get("properties", {})
        members += len(properties)
        enum = node.get("enum", ())
        values += len(enum)
        in_enum = sum(len(item) for item in enum if type(item) is str)
        chars += sum(map(len, properties)) + in_enum
        if len(enum) > _MANY_VALUES:
            longest = max(longest, in_enum)
        waiting += [(member, depth + 1) for member in properties.values()]
        waiting += [(option, depth) for option in node.get("anyOf", ())]
        if "items" in node:
            waiting.append((node["items"], depth + 1))
    if deepest > _MAX_LEVELS:
        return f"it is nested {deepest} levels deep, and strict mode takes {_MAX_LEVELS}"
    if longest > _MAX_VALUES_CHARS:
        return (
            f"the values of one 'enum' have {longest:,} characters, and strict mode takes "
            f"{_MAX_VALUES_CHARS:,} of more than {_MANY_VALUES} values"
        )
    if members > _MAX_MEMBERS or values > _MAX_VALUES or chars > _MAX_CHARS:
        return "it has more members or values than strict mode takes"
    return None


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits for all strict tools of one request."""

    tools: int
    optional: int
    """Members that are not required, at any depth."""
    unions: int
    """Schemas with ``anyOf``, or of several types."""

    def chosen(
        self, schemas: Mapping[str, dict[str, Any]], before: Collection[str], taken: int
    ) -> set[str]:
        """Return the names of the strict tools.

        Those that were strict ``before`` remain strict, then as many as possible are added, those
        with the lowest cost first. ``taken`` is the number of other strict tools.
        """
        counts = {name: _counts(schema) for name, schema in schemas.items()}

        def cost(name: str) -> tuple[bool, float]:
            optional, unions = counts[name]
            return name not in before, optional / self.optional + unions / self.unions

        found: set[str] = set()
        optional = unions = 0
        for name in sorted(counts, key=cost):
            more_optional, more_unions = optional + counts[name][0], unions + counts[name][1]
            if len(found) + taken == self.tools:
                break
            if more_optional <= self.optional and more_unions <= self.unions:
                optional, unions = more_optional, more_unions
                found.add(name)
        return found

    def refusal(self, provider: str, schema: dict[str, Any]) -> str:
        """Return why a tool is not among the ``chosen``, as a clause."""
        optional, unions = _counts(schema)
        return (
            f"{provider} takes {self.tools} strict tools in one request, with {self.optional} "
            f"optional members and {self.unions} unions in all of them, and those of other tools "
            f"come first; it has {optional} and {unions}"
        )


def _counts(schema: dict[str, Any]) -> tuple[int, int]:
    """The optional members and the unions of ``schema``."""
    optional = unions = 0
    for part, role, _, _, _ in walk(schema):
        if role is Role.SCHEMA and type(part) is dict:
            optional += len(part.get("properties", {}).keys() - set(part.get("required", ())))
            is_mixed = "type" not in part and "enum" in part
            unions += "anyOf" in part or type(part.get("type")) is list or is_mixed
    return optional, unions
