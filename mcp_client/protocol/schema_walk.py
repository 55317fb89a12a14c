"""The objects and arrays of a JSON Schema, each with its role.

One walk for all code that examines schemas. It is iterative, so no depth of nesting stops it, and
it accepts any JSON value. Keywords are those of 2020-12 and draft-07.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, TypeAlias

__all__ = ["Part", "Role", "copy_of", "walk"]


class Role(Enum):
    """The role of an object or array in a schema."""

    SCHEMA = "schema"
    """A schema, or an array of schemas."""
    PROPERTIES = "properties"
    """The members of ``properties``: names of a value's own members, each with a schema."""
    NAMED = "named"
    """Schemas by other names: definitions, patterns, dependencies."""
    DATA = "data"
    """A value, or values, as in ``default`` and ``enum``."""
    NAMES = "names"
    """Names of properties or types, as in ``required``."""


Path: TypeAlias = tuple[str, ...] | None
Part: TypeAlias = tuple[Any, Role, int, Path, bool]
"""An object or array in a schema: its role and its place.

It has the depth of nesting, from 1; the names of the properties that lead to it, None if other
keywords do; and whether only known keywords lead to it.
"""

_ROLES = {
    "properties": Role.PROPERTIES,
    **dict.fromkeys(
        ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"),
        Role.NAMED,
    ),
    **dict.fromkeys(("const", "default", "enum", "example", "examples", "x-mcp-header"), Role.DATA),
    **dict.fromkeys(("required", "type", "dependentRequired"), Role.NAMES),
    **dict.fromkeys(
        ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "contains", "propertyNames"),
        Role.SCHEMA,
    ),
    **dict.fromkeys(("items", "prefixItems", "additionalProperties"), Role.SCHEMA),
    **dict.fromkeys(("contentSchema", "unevaluatedItems", "unevaluatedProperties"), Role.SCHEMA),
}


def walk(schema: Any) -> Iterator[Part]:
    """Every object and array in ``schema``, itself included, in the order of its text."""
    if type(schema) is not dict and type(schema) is not list:
        return
    waiting: list[Part] = [(schema, Role.SCHEMA, 1, (), True)]
    while waiting:
        part = waiting.pop()
        yield part
        value, role, depth, path, known = part
        depth += 1
        inner: list[Part]
        if role is Role.DATA or role is Role.NAMES or type(value) is list:
            items = value if type(value) is list else value.values()
            # In draft 3, the list of types may contain schemas.
            its = Role.SCHEMA if role is Role.NAMES and type(value) is list else role
            inner = [
                (item, its, depth, None, known and its is role)
                for item in items
                if type(item) is dict or type(item) is list
            ]
        elif role is Role.SCHEMA:
            inner = []
            for keyword, item in value.items():
                if type(item) is dict or type(item) is list:
                    found = _ROLES.get(keyword)
                    if found is None:
                        inner.append((item, Role.SCHEMA, depth, None, False))
                    else:
                        below = path if found is Role.PROPERTIES else None
                        inner.append((item, found, depth, below, known))
        elif role is Role.PROPERTIES and path is not None:
            inner = [
                (item, Role.SCHEMA, depth, (*path, name), known)
                for name, item in value.items()
                if type(item) is dict or type(item) is list
            ]
        else:
            inner = [
                (item, Role.SCHEMA, depth, None, known)
                for item in value.values()
                if type(item) is dict or type(item) is list
            ]
        if len(inner) > 1:
            inner.reverse()
        waiting += inner


def copy_of(value: Any) -> Any:
    """Return a copy of a JSON value."""
    if type(value) is dict:
        return {key: copy_of(item) for key, item in value.items()}
    if type(value) is list:
        return [copy_of(item) for item in value]
    return value
