"""The shape that the value of each keyword of JSON Schema has to have.

Keywords are those of 2020-12 and draft-07, which differ little in this. It imports nothing but the
standard library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..runtime.frozen import frozen_dataclass

__all__ = ["SHAPES", "TYPES", "Shape", "is_names", "is_schema_list", "is_type"]

TYPES = frozenset({"object", "string", "integer", "number", "boolean", "array", "null"})
"""The names of types."""


@frozen_dataclass
class Shape:
    """The required shape of a keyword's value."""

    check: Callable[[Any], bool]
    expected: str
    is_newer: bool = False
    """Whether 2020-12 has the keyword and draft-07 does not."""


def is_type(value: Any) -> bool:
    """Return whether ``value`` is valid for ``type``."""
    if type(value) is str:
        return value in TYPES
    return is_names(value) and bool(value) and TYPES.issuperset(value)


def _is_schema(value: Any) -> bool:
    return type(value) is dict or type(value) is bool


def is_schema_list(value: Any) -> bool:
    """Return whether ``value`` is a list of schemas."""
    return type(value) is list and bool(value) and all(map(_is_schema, value))


def _is_schema_map(value: Any) -> bool:
    return type(value) is dict and all(map(_is_schema, value.values()))


def is_names(value: Any) -> bool:
    """Return whether ``value`` is a list of names."""
    return (
        type(value) is list
        and all([type(name) is str for name in value])
        and len(set(value)) == len(value)
    )


def _is_names_map(value: Any) -> bool:
    return type(value) is dict and all(map(is_names, value.values()))


def _is_dependencies(value: Any) -> bool:
    return type(value) is dict and all(
        [_is_schema(item) or is_names(item) for item in value.values()]
    )


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_array(value: Any) -> bool:
    return type(value) is list


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _is_divisor(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_size(value: Any) -> bool:
    # 1.0 is an integer, as in JSON Schema.
    return (type(value) is int or (type(value) is float and value.is_integer())) and value >= 0


def _any(value: Any) -> bool:
    return True


def _each(keywords: str, check: Callable[[Any], bool], expected: str, **rest: Any) -> Any:
    return dict.fromkeys(keywords.split(), Shape(check, expected, **rest))


SHAPES: dict[str, Shape] = {
    "type": Shape(is_type, f"one or several of {', '.join(sorted(TYPES))}"),
    **_each("title description $comment", _is_text, "a text"),
    **_each("format contentEncoding contentMediaType $ref", _is_text, "a text"),
    **_each("uniqueItems readOnly", _is_flag, "true or false"),
    **_each("deprecated writeOnly", _is_flag, "true or false", is_newer=True),
    **_each("enum examples", _is_array, "an array"),
    **_each("default const", _any, "any value"),
    **_each(
        "minLength maxLength minItems maxItems minProperties maxProperties",
        _is_size,
        "a whole number, 0 or more",
    ),
    **_each("minContains maxContains", _is_size, "a whole number, 0 or more", is_newer=True),
    **_each("minimum maximum exclusiveMinimum exclusiveMaximum", _is_number, "a number"),
    **_each("multipleOf", _is_divisor, "a number above 0"),
    **_each("required", is_names, "an array of different names"),
    **_each("properties definitions", _is_schema_map, "an object of schemas"),
    **_each("$defs dependentSchemas", _is_schema_map, "an object of schemas", is_newer=True),
    **_each("patternProperties", _is_schema_map, "an object of schemas"),
    **_each("dependentRequired", _is_names_map, "an object of arrays of names", is_newer=True),
    **_each("dependencies", _is_dependencies, "an object of schemas or arrays of names"),
    **_each("anyOf allOf oneOf", is_schema_list, "an array of schemas"),
    **_each("prefixItems", is_schema_list, "an array of schemas", is_newer=True),
    **_each(
        "additionalProperties items contains not if then else propertyNames", _is_schema, "a schema"
    ),
    **_each(
        "unevaluatedItems unevaluatedProperties contentSchema",
        _is_schema,
        "a schema",
        is_newer=True,
    ),
    **_each("pattern", _is_text, "a text"),
}
