"""The way back: from the arguments a model gave to those the tool's own schema means.

A model sees a schema in which members may have other names, and in strict mode has to give null
for what it leaves out. ``Restoration`` undoes both, before the call is made: the approver sees what
is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .schema_subset import OPTIONAL

__all__ = ["Restoration", "restoration_of"]

_SAME = ("allOf", "anyOf", "oneOf")
_SAME_ONE = ("if", "then", "else", "not")


@dataclass(slots=True)
class Restoration:
    """What to undo in one value; its members and items have their own."""

    names: dict[str, str] = field(default_factory=dict)
    """The model's names of members, and the tool's."""
    optional: frozenset[str] = frozenset()
    """Members that the tool's schema does not require, by the model's names."""
    members: dict[str, Restoration] = field(default_factory=dict)
    others: Restoration | None = None
    items: Restoration | None = None
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
    kinds = schema.get("type")
    if not any(_is(value, kind) for kind in ([kinds] if type(kinds) is str else kinds or ())):
        return False
    if type(value) is dict:
        properties = schema.get("properties", {})
        return value.keys() == properties.keys() and all(
            _fits(properties[name], item) for name, item in value.items()
        )
    if type(value) is list and "items" in schema:
        return all(_fits(schema["items"], item) for item in value)
    return True


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "object":
            return type(value) is dict
        case "array":
            return type(value) is list
        case "string":
            return type(value) is str
        case "boolean":
            return type(value) is bool
        case "null":
            return value is None
        case "integer":
            return type(value) is int or (type(value) is float and value.is_integer())
    return type(value) in (int, float)
