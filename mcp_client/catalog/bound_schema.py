"""An input schema without the arguments that the host sets, for people and models.

Only arguments are removed, not members of their values, and calls are validated against the
server's own schema. The shown schema never accepts less than the tool does: options that may differ
in an argument that is not shown are no longer exclusive, and a condition about it is removed.

A JSON Schema (2020-12, draft-07) describes a value in three places: in itself, in the schemas that
it applies to the same value (``allOf`` and similar), and in the targets of their ``$ref``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from ..protocol.json_paths import Role, parse, pointer, resolve, walk

__all__ = ["declared", "without"]

_LISTS = ("allOf", "anyOf", "oneOf")
_ONES = ("if", "then", "else", "not")
_BY_NAME = ("dependentSchemas", "dependentRequired", "dependencies")
_OF_ALL_MEMBERS = (
    *("additionalProperties", "const", "enum", "maxProperties", "minProperties"),
    *("patternProperties", "propertyNames", "unevaluatedProperties"),
)
_DEFINITIONS = ("$defs", "definitions")


def declared(schema: dict[str, Any], names: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``names`` that ``schema`` declares as properties of the arguments."""
    names = tuple(names)
    left = set(names).difference(_object(schema, "properties"))
    if left:
        for part in _of_same_value(schema, _References(schema)):
            left.difference_update(_object(part, "properties"))
    return tuple([name for name in names if name not in left])


def without(schema: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return ``schema`` without the arguments ``names``. It modifies ``schema``: pass a copy."""
    return _Listed(schema, frozenset(names)).schema


def _object(part: dict[str, Any], keyword: str) -> dict[str, Any]:
    value = part.get(keyword)
    return value if type(value) is dict else {}


def _array(part: dict[str, Any], keyword: str) -> list[Any]:
    value = part.get(keyword)
    return value if type(value) is list else []


class _References:
    """The targets of the references in a schema."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root

    def target(self, ref: Any) -> Any:
        """Return the target of a reference; None if unknown."""
        if type(ref) is not str or ref[:1] != "#":
            return None
        try:
            return resolve(self._root, parse(ref[1:]))
        except (LookupError, ValueError):
            return self._anchors.get(ref[1:])

    @cached_property
    def _anchors(self) -> dict[str, Any]:
        parts = (part for part in _schemas(self._root) if type(part.get("$anchor")) is str)
        return {part["$anchor"]: part for part in parts}


def _schemas(root: Any) -> Iterator[dict[str, Any]]:
    """Every schema in ``root``."""
    return (part for part, role, *_ in walk(root) if role is Role.SCHEMA and type(part) is dict)


def _of_same_value(schema: Any, references: _References | None) -> Iterator[dict[str, Any]]:
    """Yield ``schema`` and every schema in it for the same value.

    With ``references``, also the targets of their references.
    """
    seen: set[int] = set()
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if type(part) is not dict or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        for keyword in _LISTS:
            waiting += _array(part, keyword)
        waiting += [part.get(keyword) for keyword in _ONES]
        for keyword in _BY_NAME:
            waiting += _object(part, keyword).values()
        if references is not None and "$ref" in part:
            waiting.append(references.target(part["$ref"]))


class _Listed:
    def __init__(self, root: dict[str, Any], names: frozenset[str]) -> None:
        self._names = names
        self._references = _References(root)
        self._known = {name for keyword in _DEFINITIONS for name in _object(root, keyword)}
        self._new: dict[str, Any] = {}
        """Definitions that are added."""
        self._places: dict[int, str] = {}
        """The targets of references to the arguments, by the ``id`` of the earlier targets."""
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        self.schema: dict[str, Any] = self._part(root)
        while self._waiting:
            name, target = self._waiting.pop()
            self._new[name] = self._part(target)
        if self._new:
            self.schema["$defs"] = {**_object(self.schema, "$defs"), **self._new}
        self._drop_unused()
        self._fix()

    # ----------------------------------------------------------------- one schema

    def _part(self, part: Any) -> Any:
        """Return ``part``, which is for all of the arguments, without the names."""
        if type(part) is not dict:
            return part
        found = dict(part)
        if self._is_about_them(found.get("if")):
            for keyword in ("if", "then", "else"):
                found.pop(keyword, None)
        if self._is_about_them(found.get("not")):
            del found["not"]
        for keyword in _ONES:
            if keyword in found:
                found[keyword] = self._part(found[keyword])
        for keyword in _LISTS:
            if type(found.get(keyword)) is list:
                found[keyword] = [self._part(option) for option in found[keyword]]
        if type(found.get("oneOf")) is list:
            options = {"anyOf": found.pop("oneOf")}
            found["allOf"] = [*_array(found, "allOf"), options]
        self._take_out_names(found)
        self._take_out_dependents(found)
        target = self._references.target(found.get("$ref"))
        if type(target) is dict:
            found["$ref"] = self._place_of(target, found["$ref"])
        return found

    def _is_about_them(self, condition: Any) -> bool:
        """Whether a condition is, or may be, about one of the names."""
        return any(
            "$ref" in part
            or any(keyword in part for keyword in _OF_ALL_MEMBERS)
            or any(self._names.intersection(_object(part, its)) for its in _BY_NAME)
            or self._names.intersection(_object(part, "properties"))
            or any(map(self._has, _array(part, "required")))
            for part in _of_same_value(condition, None)
        )

    def _has(self, name: Any) -> bool:
        return type(name) is str and name in self._names

    def _take_out_names(self, found: dict[str, Any]) -> None:
        if type(found.get("properties")) is dict:
            found["properties"] = self._value(found["properties"])
        if type(found.get("required")) is list:
            required = found.pop("required")
            left = [name for name in required if not self._has(name)]
            if left or not required:  # draft-04 has no empty one
                found["required"] = left
        for keyword in ("minProperties", "maxProperties"):
            if type(found.get(keyword)) is int:
                found[keyword] = max(0, found[keyword] - len(self._names))
        for keyword in ("default", "const"):
            if keyword in found:
                found[keyword] = self._value(found[keyword])
        for keyword in ("examples", "enum"):
            if type(found.get(keyword)) is list:
                found[keyword] = [self._value(value) for value in found[keyword]]

    def _value(self, value: Any) -> Any:
        """Return ``value``, of all of the arguments, without the names."""
        if type(value) is not dict:
            return value
        return {name: item for name, item in value.items() if name not in self._names}

    def _take_out_dependents(self, found: dict[str, Any]) -> None:
        """Apply the dependents of the names unconditionally: the names are always present."""
        for keyword in _BY_NAME:
            by_name, found[keyword] = _object(found, keyword), {}
            for name, its in by_name.items():
                is_schema = type(its) is not list
                its = self._part(its) if is_schema else [i for i in its if not self._has(i)]
                if name not in self._names:
                    found[keyword][name] = its
                elif is_schema:
                    found["allOf"] = [*_array(found, "allOf"), its]
                else:
                    required = _array(found, "required")
                    found["required"] = [*required, *(i for i in its if i not in required)]
            if not found[keyword]:
                del found[keyword]

    # ----------------------------------------------------------------- references

    def _place_of(self, target: dict[str, Any], ref: str) -> str:
        if id(target) not in self._places:
            self._places[id(target)], name = self._new_place(ref)
            self._waiting.append((name, target))
        return self._places[id(target)]

    def _new_place(self, ref: str) -> tuple[str, str]:
        """Return a reference to a definition that is to be added, and its name."""
        name = ref.rsplit("/", 1)[-1].strip("#~%") or "arguments"
        while name in self._known:
            name += "_"
        self._known.add(name)
        return "#" + pointer(("$defs", name)), name

    def _drop_unused(self) -> None:
        """Definitions that nothing refers to any more: they may have the names."""
        definitions = {
            (keyword, name): one
            for keyword in _DEFINITIONS
            for name, one in _object(self.schema, keyword).items()
        }
        used: dict[tuple[str, ...], Any] = {}
        waiting = [{k: its for k, its in self.schema.items() if k not in _DEFINITIONS}]
        while waiting:
            for part in _schemas(waiting.pop()):
                if "$dynamicRef" in part or not self._is_pointer(part.get("$ref", "#/")):
                    return
                place = tuple(parse(part.get("$ref", "#/")[1:])[:2])
                if place in definitions and place not in used:
                    used[place] = definitions[place]
                    waiting.append(definitions[place])
        for keyword in _DEFINITIONS:
            if _object(self.schema, keyword):
                self.schema[keyword] = {
                    name: one for (its, name), one in used.items() if its == keyword
                }

    def _is_pointer(self, ref: Any) -> bool:
        try:
            return type(ref) is str and ref[:2] == "#/" and bool(parse(ref[1:]))
        except ValueError:
            return False

    def _fix(self) -> None:
        """References into what was taken out lead to copies of it."""
        now = _References(self.schema)
        waiting: list[Any] = [self.schema]
        while waiting:
            for part in _schemas(waiting.pop()):
                ref = part.get("$ref")
                if type(ref) is not str or now.target(ref) is not None:
                    continue
                target = self._references.target(ref)
                if target is None:
                    continue
                if id(target) not in self._places:
                    self._places[id(target)], name = self._new_place(ref)
                    self.schema["$defs"] = {**_object(self.schema, "$defs"), name: target}
                    waiting.append(target)
                part["$ref"] = self._places[id(target)]
