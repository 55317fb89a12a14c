"""Paths into JSON values: JSON pointers (RFC 6901), and the walk through a JSON Schema.

``walk`` returns the objects and arrays of a schema, each with its role. It serves all code that
examines schemas. It is iterative, so no depth of nesting stops it, and it accepts any JSON value.
Keywords are those of 2020-12 and draft-07.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, TypeAlias

__all__ = [
    "Part",
    "Role",
    "copy_of",
    "escape",
    "parse",
    "pointer",
    "resolve",
    "walk",
]

_BAD_ESCAPE = re.compile("~(?![01])")


def escape(step: object) -> str:
    """Return one step of a pointer, with ``~`` and ``/`` escaped."""
    return str(step).replace("~", "~0").replace("/", "~1")


def pointer(steps: Iterable[object]) -> str:
    """Return the pointer that takes ``steps``: names of members and indices of items."""
    return "".join([f"/{escape(step)}" for step in steps])


def parse(text: str) -> tuple[str, ...]:
    """Return the steps of a pointer. Raises ``ValueError`` if ``text`` is not one."""
    if not text:
        return ()
    if text[0] != "/":
        raise ValueError("a JSON pointer is empty or begins with '/'")
    if "~" not in text:
        return tuple(text[1:].split("/"))
    if _BAD_ESCAPE.search(text):
        raise ValueError("'~' in a JSON pointer is written '~0', and '/' in a name '~1'")
    steps = text[1:].split("/")
    return tuple([step.replace("~1", "/").replace("~0", "~") for step in steps])


def resolve(value: Any, steps: Iterable[str]) -> Any:
    """Return the value that a pointer leads to. Raises ``LookupError`` without one."""
    for step in steps:
        if type(value) is dict:
            value = value[step]
        elif type(value) is list and step.isascii() and step.isdigit() and step[:1] != "0":
            value = value[int(step[:18])]
        elif type(value) is list and step == "0":
            value = value[0]
        else:
            raise LookupError(step)
    return value


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
    """Yield every object and array in ``schema``, itself included, in the order of its text."""
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
