"""A schema in the subset of JSON Schema that a provider takes.

``subset`` takes an inlined schema (``schema_inlining``, ``schema_merging``) and gives one with
nothing but what its ``Profile`` names. What has to go is added to the description, where a model
reads it.
Without ``strict`` the result accepts whatever the original accepts.

With ``strict`` the provider guarantees arguments that fit, and wants more of a schema: every value
has a type, and objects take no other members than those declared. For OpenAI all of these are
required: a member that was optional may be null instead, and is marked with ``OPTIONAL`` for the
way back (see ``definitions``). If that is impossible, ``Unsuitable`` is raised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .portable import is_portable
from .schema_inlining import EMPTY_ITEMS
from .schema_merging import (
    Effect,
    Notes,
    Path,
    both,
    described,
    identity_of,
    is_never,
    is_of,
    type_of_value,
    types_of,
)

__all__ = ["OPTIONAL", "Profile", "Unsuitable", "subset"]

OPTIONAL = "\0optional"
"""The mark of members that the original does not require, in an object of a strict schema.

It is a tuple, which is never the value of a keyword or member.
"""

_MORE, _LESS = Effect.ACCEPTS_MORE, Effect.REFUSES_MORE
_SCALARS = ("string", "number", "integer", "boolean", "null")
_ALL_TYPES = ("object", "array", "string", "number", "boolean", "null")
_OF_TYPE: dict[str, frozenset[str]] = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": frozenset(
        {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"}
    ),
    "object": frozenset(
        {
            *("properties", "required", "additionalProperties", "patternProperties"),
            *("minProperties", "maxProperties", "propertyNames", "dependentRequired"),
            *("dependentSchemas", "unevaluatedProperties"),
        }
    ),
    "array": frozenset(
        {
            *("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
            *("minContains", "maxContains", "unevaluatedItems"),
        }
    ),
    "boolean": frozenset(),
    "null": frozenset(),
}
_OF_TYPE["integer"] = _OF_TYPE["number"]
_SHAPES: dict[tuple[str, ...], frozenset[str]] = {
    ("object",): frozenset({"properties", "required", "additionalProperties", "patternProperties"}),
    ("array",): frozenset({"items", "prefixItems"}),
}
_SHAPE = frozenset().union(*_SHAPES.values())
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_ANY_TYPE = ("not", "if", "then", "else")
_HINTS = ("default", "examples")
_ANNOTATIONS = ("type", "title", "description", *_HINTS)
_MAX_SCHEMAS = 2_000
_MAX_LEVELS = 40
_MAX_OPTIONS = 40


class Unsuitable(Exception):
    """The schema cannot be expressed in strict mode; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The keywords that a provider accepts beside ``type``, ``properties`` and ``items``."""

    name: str
    """The provider's, for people."""
    keeps: frozenset[str]
    """Keywords of strings, numbers, arrays and objects that it takes."""
    formats: frozenset[str]
    """The values of ``format`` that it takes."""
    any_enum: bool = False
    """Whether an ``enum`` may have other values than strings."""
    strict: bool = False
    """Whether it guarantees arguments that fit, and wants more of a schema for that."""
    type_lists: bool = False
    """Whether ``type`` may be a list of scalar types; else it becomes ``anyOf``."""
    non_capturing: bool = False
    """Whether patterns may have groups with ``(?:``."""
    optional: bool = False
    """Whether members may be optional in strict mode; else they are required and may be null."""


def subset(schema: dict[str, Any], profile: Profile, notes: Notes) -> dict[str, Any]:
    """Return ``schema`` in the subset of ``profile``. A strict profile may raise ``Unsuitable``."""
    return _Subset(profile, notes).schema(schema, (), 0)


class _Subset:
    def __init__(self, profile: Profile, notes: Notes) -> None:
        self._profile = profile
        self._strict = profile.strict
        self._notes = notes
        self._left = _MAX_SCHEMAS

    def schema(self, node: dict[str, Any], path: Path, depth: int) -> dict[str, Any]:
        found = self._made(node, path, depth)
        self._notes.compare(node, {k: v for k, v in found.items() if k != OPTIONAL}, path)
        return found

    def _made(self, node: dict[str, Any], path: Path, depth: int) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0 or depth > _MAX_LEVELS:
            self._fail("its schema is too large or nested too deep")
            self._notes.add("a part that is nested too deep or too large is cut", path, _MORE)
            return {}
        node = self._flat(node, path)
        if "anyOf" in node:
            return self._alternatives(node, node["anyOf"], path, depth)
        if "enum" in node or "const" in node:
            return self._values(node, path, depth)
        types = types_of(node) or self._types_meant(node, path)
        if not types:
            return self._without(node, {}, path, *_ANY_TYPE)
        if len(types) > 1 and not (
            self._profile.type_lists and all(name in _SCALARS for name in types)
        ):
            self._notes.add("its types become alternatives of 'anyOf'", path)
            options = [{"type": name} for name in types]
            return self._alternatives({**node, "type": list(types)}, options, path, depth)
        return self._typed(node, types, path, depth)

    def _is_portable(self, pattern: str) -> bool:
        return is_portable(pattern) and (self._profile.non_capturing or "(?:" not in pattern)

    def _fail(self, why: str) -> None:
        if self._strict:
            raise Unsuitable(why)

    # -------------------------------------------------------- one schema of several

    def _flat(self, node: dict[str, Any], path: Path) -> dict[str, Any]:
        """Return ``node`` without ``allOf``, ``oneOf``, and an ``anyOf`` of a single schema."""
        lost: list[str] = []
        for _ in range(_MAX_LEVELS):
            if "allOf" in node:
                parts = node["allOf"]
                node = {k: v for k, v in node.items() if k != "allOf"}
                self._notes.add("'allOf' is merged", path)
                for part in parts:
                    node = both(node, part, lost)
            elif "oneOf" in node:
                options = node["oneOf"]
                node = {k: v for k, v in node.items() if k != "oneOf"}
                if "anyOf" in node:
                    self._notes.add("'oneOf' is moved to the description", path, _MORE)
                    node = described(node, {"oneOf": options})
                else:
                    self._notes.add("'oneOf' becomes 'anyOf'", path, _MORE)
                    node = {**node, "anyOf": options}
            elif len(node.get("anyOf", ())) == 1:
                self._notes.add("'anyOf' of one schema is merged", path)
                node = {**node, "allOf": node["anyOf"]}
                del node["anyOf"]
            else:
                break
        self._notes.not_merged(lost, path)
        return node

    def _alternatives(
        self, node: dict[str, Any], options: list[dict[str, Any]], path: Path, depth: int
    ) -> dict[str, Any]:
        """Return ``anyOf``, with the members beside it merged into each of its schemas."""
        outside = _texts(node)
        hints = {k: node[k] for k in _HINTS if k in node}
        rest = {k: v for k, v in node.items() if k not in {"anyOf", *outside, *hints}}
        if len(options) > _MAX_OPTIONS and rest.keys() - {"type"}:
            self._notes.add("'anyOf' is moved to the description", path, _MORE)
            return self.schema(described({**rest, **outside}, {"anyOf": options}), path, depth + 1)
        if hints:
            self._notes.add("'default' or 'examples' are moved to the description", path)
            outside = described(outside, hints)
        lost: list[str] = []
        found: dict[object, dict[str, Any]] = {}
        for number, option in enumerate(options):
            whole = both(option, _relevant(rest, option), lost) if rest else option
            if is_never(option) or is_never(whole):
                continue
            trimmed = self.schema(whole, (*path, "anyOf", str(number)), depth + 1)
            several = trimmed["anyOf"] if set(trimmed) == {"anyOf"} else [trimmed]
            for one in several:
                found.setdefault(identity_of(one), one)
        self._notes.not_merged(lost, path)
        different = list(found.values())
        if len(different) == 1:
            return {**different[0], **outside}
        if not different or any(not set(one) - {"title", "description"} for one in different):
            self._fail("it takes values of any type")
            return outside
        return {**outside, "anyOf": different}

    # --------------------------------------------------------------- values and types

    def _types_meant(self, node: dict[str, Any], path: Path) -> tuple[str, ...]:
        """The types of a schema that names none, but has keywords for some."""
        meant = [name for name in _ALL_TYPES if not _OF_TYPE[name].isdisjoint(node)]
        if not self._strict:
            return _ALL_TYPES if meant else ()
        if not meant:
            raise Unsuitable("it takes values of any type")
        self._notes.add(f"'type' is set to '{meant[0]}'", path, _LESS)
        return (meant[0],)

    def _values(self, node: dict[str, Any], path: Path, depth: int) -> dict[str, Any]:
        """Convert ``enum`` and ``const``."""
        values = [node["const"]] if "const" in node else node["enum"]
        types = types_of(node)
        kinds: dict[str, list[Any]] = {}
        for value in values:
            kind = type_of_value(value)
            if not types or is_of(kind, types):
                kinds.setdefault(kind, []).append(value)
        rest = {k: v for k, v in node.items() if k not in ("enum", "const", "type")}
        if not kinds or (self._strict and not kinds.keys() <= set(_SCALARS)):
            self._fail("a value has to be one of given objects or arrays")
            self._notes.add("'enum' is moved to the description", path, _MORE)
            rest = described(rest, {"enum": values})
            return self.schema({**rest, "type": list(types)} if types else rest, path, depth + 1)
        if self._profile.any_enum:
            accepted = [value for some in kinds.values() for value in some]
            named = list(kinds)
            head = {"type": named[0] if len(named) == 1 else named, "enum": accepted}
            if len(named) > 1 and not self._profile.type_lists:
                del head["type"]
            relevant = frozenset().union(*[_OF_TYPE[name] for name in named])
            return self._without(rest, head, path, *_ANY_TYPE, *sorted(relevant))
        if "const" in node or len(kinds) > 1 or "string" not in kinds:
            self._notes.add("'const' or 'enum' is written another way", path)
        options = [self._listed(kind, some, path) for kind, some in kinds.items()]
        rest = {k: v for k, v in rest.items() if k in ("title", "description", *_HINTS)}
        if len(options) == 1:
            descriptions = [
                one["description"] for one in (rest, options[0]) if "description" in one
            ]
            joined = {"description": " ".join(descriptions)} if descriptions else {}
            return self._without(rest, {**options[0], **joined}, path)
        return self._without(rest, {"anyOf": options}, path)

    def _listed(self, kind: str, values: list[Any], path: Path) -> dict[str, Any]:
        """Return a schema for some values of one type."""
        out: dict[str, Any] = {"type": kind}
        exact = kind == "null"
        if kind == "string" and all(values):
            return {**out, "enum": values}
        if kind in ("integer", "number"):
            out |= {"minimum": min(values), "maximum": max(values)}
            exact = len(values) == 1
        elif kind == "boolean":
            exact = len(values) == 2
        elif kind == "array":
            out["items"] = {}
        if exact:
            return out
        self._notes.add("'enum' is moved to the description", path, _MORE)
        return described(out, {"one of": values})

    def _typed(
        self, node: dict[str, Any], types: tuple[str, ...], path: Path, depth: int
    ) -> dict[str, Any]:
        out: dict[str, Any] = {"type": types[0] if len(types) == 1 else list(types)}
        if types == ("object",):
            self._object(out, node, path, depth)
        elif types == ("array",):
            self._array(out, node, path, depth)
        relevant = frozenset().union(*[_OF_TYPE[name] for name in types]) - _SHAPE
        removed = []
        for keyword in sorted(relevant & node.keys()):
            value = node[keyword]
            if keyword == "pattern" and not self._is_portable(value):
                removed.append(keyword)
            elif keyword == "format":
                if value in self._profile.formats:
                    out[keyword] = value
                else:
                    removed.append(keyword)
            elif keyword in self._profile.keeps:
                if keyword == "minItems" and value > 1 and "maxItems" not in self._profile.keeps:
                    removed.append(keyword)  # a provider that takes only this one takes 0 and 1
                else:
                    out.setdefault(keyword, value)
            elif keyword in _EXCLUSIVE and "minimum" in self._profile.keeps:
                if _inclusive(out, keyword, node, types):
                    self._notes.add(f"'{keyword}' becomes '{_EXCLUSIVE[keyword]}'", path)
                else:
                    removed.append(keyword)
            else:
                removed.append(keyword)
        if "then" in node or "else" in node:
            removed += [keyword for keyword in ("if", "then", "else") if keyword in node]
        if "not" in node:
            removed.append("not")
        shape = _SHAPES.get(types, frozenset())
        known = {*relevant, *shape, *_ANNOTATIONS, *_ANY_TYPE}
        for keyword in (keyword for keyword in node if keyword not in known):
            self._notes.add(f"'{keyword}' is left out", path)  # it does not limit these types
        return self._without(node, out, path, *removed)

    def _without(
        self, node: dict[str, Any], out: dict[str, Any], path: Path, *removed: str
    ) -> dict[str, Any]:
        """Return ``out`` with the texts of ``node``, which name the ``removed`` keywords."""
        found = _texts(node) | out
        moved = {keyword: node[keyword] for keyword in removed if keyword in node}
        moved |= {keyword: node[keyword] for keyword in _HINTS if keyword in node}
        for keyword in moved:
            effect = Effect.NONE if keyword in (*_HINTS, "format") else _MORE
            self._notes.add(f"'{keyword}' is moved to the description", path, effect)
        return described(found, moved) if moved else found

    # -------------------------------------------------------------- objects and arrays

    def _object(self, out: dict[str, Any], node: dict[str, Any], path: Path, depth: int) -> None:
        properties: dict[str, Any] = {}
        required = list(node.get("required", ()))
        more = node.get("additionalProperties", True)
        if "patternProperties" in node:
            self._fail("members may have any name that matches a pattern")
            self._notes.add("'patternProperties' is left out", path, _MORE)
            more = True
        for name, schema in node.get("properties", {}).items():
            here = (*path, "properties", name)
            if is_never(schema):
                self._notes.add("a member that is never allowed is left out", here, _MORE)
                required = [one for one in required if one != name]
            else:
                properties[name] = self.schema(schema, here, depth + 1)
        for name in required:
            if name not in properties:
                here = (*path, "properties", name)
                self._notes.add("a required member that is not declared is added", here)
                properties[name] = self.schema({} if type(more) is bool else more, here, depth + 1)
        if self._strict:
            self._closed(out, node, properties, required, path)
            return
        if properties or not path:
            if "properties" not in node:
                self._notes.add("an empty 'properties' is added", path)
            out["properties"] = properties
        elif "properties" in node:
            self._notes.add("an empty 'properties' is left out", path)
        if required:
            out["required"] = required
        if type(more) is dict:
            more = not is_never(more) and self.schema(
                more, (*path, "additionalProperties"), depth + 1
            )
        if "additionalProperties" in node and "patternProperties" not in node:
            out["additionalProperties"] = more

    def _closed(
        self,
        out: dict[str, Any],
        node: dict[str, Any],
        properties: dict[str, Any],
        required: list[str],
        path: Path,
    ) -> None:
        more = node.get("additionalProperties")
        if more is None and "properties" not in node:
            raise Unsuitable("an object may have members of any name")
        if more is True or (type(more) is dict and not is_never(more)):
            raise Unsuitable("an object may have members of any name")
        if more is None:
            self._notes.add("'additionalProperties' is set to false", path, _LESS)
        optional = [name for name in properties if name not in required]
        out["properties"] = properties
        out["additionalProperties"] = False
        if self._profile.optional:
            if required:
                out["required"] = required
            # Null is not among what the model may give; where it gives one, it means nothing.
            absent = [name for name in optional if not _may_be_null(properties[name])]
            if absent:
                out[OPTIONAL] = tuple(absent)
            return
        for name in optional:
            here = (*path, "properties", name)
            if _may_be_null(properties[name]):
                what = "is required, and null in it means that it is left out"
                self._notes.add(f"an optional member {what}", here, _LESS)
            else:
                properties[name] = _nullable(properties[name], self._profile.type_lists)
                self._notes.add("an optional member is required, and may be null instead", here)
        out["required"] = list(properties)
        if not properties and "required" not in node:
            self._notes.add("an empty 'required' is added", path)
        if optional:
            out[OPTIONAL] = tuple(optional)

    def _array(self, out: dict[str, Any], node: dict[str, Any], path: Path, depth: int) -> None:
        items = node.get("items")
        first = node.get("prefixItems")
        if first is not None:
            self._notes.add("'prefixItems' becomes one schema for all items", path, _MORE)
            if items is not None and is_never(items):
                self._at_most(out, node, len(first))
                items = {"anyOf": first}
            else:
                items = None if items is None else {"anyOf": [*first, items]}
        elif items is not None and is_never(items):
            self._notes.add("'items' that allow none become 'maxItems'", path)
            self._at_most(out, node, 0)
            items = None
        if items is None:
            self._fail("an array may have items of any type")
            self._notes.add(EMPTY_ITEMS, path)
            out["items"] = {}
        else:
            out["items"] = self.schema(items, (*path, "items"), depth + 1)

    def _at_most(self, out: dict[str, Any], node: dict[str, Any], items: int) -> None:
        if "maxItems" in self._profile.keeps:
            out["maxItems"] = min(items, node.get("maxItems", items))


def _texts(schema: dict[str, Any]) -> dict[str, Any]:
    return {k: schema[k] for k in ("title", "description") if k in schema}


def _relevant(rest: dict[str, Any], option: dict[str, Any]) -> dict[str, Any]:
    """Return the part of ``rest`` that applies to values of the option's types."""
    types = types_of(option)
    if not types:
        return rest
    others = frozenset().union(*_OF_TYPE.values())
    others -= frozenset().union(*[_OF_TYPE[name] for name in types])
    return {k: v for k, v in rest.items() if k not in others}


def _inclusive(
    out: dict[str, Any], keyword: str, node: dict[str, Any], types: tuple[str, ...]
) -> bool:
    """Write an exclusive bound of a number as an inclusive one; whether that means the same."""
    value, bound = node[keyword], _EXCLUSIVE[keyword]
    whole = types == ("integer",)
    if whole:
        value = math.floor(value) + 1 if bound == "minimum" else math.ceil(value) - 1
    if bound in node:
        value = max(node[bound], value) if bound == "minimum" else min(node[bound], value)
    out[bound] = value
    return whole


def _may_be_null(schema: dict[str, Any]) -> bool:
    if "anyOf" in schema:
        return any(_may_be_null(option) for option in schema["anyOf"])
    return "null" in types_of(schema) or None in schema.get("enum", ())


def _nullable(schema: dict[str, Any], type_lists: bool) -> dict[str, Any]:
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    types = types_of(schema)
    if not type_lists or not all(name in _SCALARS for name in types):
        outside = _texts(schema)
        inside = {k: v for k, v in schema.items() if k not in outside}
        return {**outside, "anyOf": [inside, {"type": "null"}]}
    out = {**schema, "type": [*types, "null"]}
    if "enum" in schema:
        out["enum"] = [*schema["enum"], None]
    return out
