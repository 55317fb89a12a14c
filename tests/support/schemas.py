"""JSON Schemas for properties: random ones, with values that may fit."""

from __future__ import annotations

from typing import Any

import jsonschema
from hypothesis import strategies as st

from mcp_client.catalog.tool import Tool

__all__ = ["arguments", "fits", "object_schemas", "tool_of", "values"]

NAMES = ("a", "b", "c d", "per-page", "x.y")
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


def tool_of(schema: dict[str, Any], name: str = "tool", **more: Any) -> Tool:
    definition = {"name": name, "inputSchema": schema, **more}
    return Tool(name, "server", False, definition)


def fits(schema: Any, value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 8)
    | st.sampled_from([0.5, 2.0, -1.5])
    | st.sampled_from(["", "a", "ab", "abc", "b1"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)
arguments = st.dictionaries(st.sampled_from(NAMES), values, max_size=4)

_counts = st.integers(0, 3)
_names = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
_refs = st.sampled_from(
    ["#", "#/$defs/one", "#/$defs/two", "#/properties/a", "#here", "https://example.com/x"]
)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(_TYPES)
        | st.lists(st.sampled_from(_TYPES), min_size=1, unique=True),
        "enum": st.lists(values, min_size=1, max_size=3),
        "const": values,
        "minimum": st.integers(-2, 3),
        "exclusiveMinimum": st.integers(-2, 3),
        "exclusiveMaximum": st.integers(0, 5) | st.just(1.5),
        "maximum": st.integers(0, 5),
        "multipleOf": st.integers(1, 3),
        "minLength": _counts,
        "maxLength": _counts,
        "pattern": st.sampled_from(["^a", "b", "^(?!ab)", "[0-9]$"]),
        "format": st.sampled_from(["date-time", "email", "int32"]),
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "minItems": _counts,
        "maxItems": _counts,
        "uniqueItems": st.booleans(),
        "contains": inner,
        "minContains": _counts,
        "maxContains": _counts,
        "unevaluatedItems": inner,
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=1),
        "additionalProperties": inner,
        "unevaluatedProperties": inner,
        "propertyNames": inner,
        "required": _names,
        "minProperties": _counts,
        "maxProperties": _counts,
        "dependentRequired": st.dictionaries(st.sampled_from(NAMES), _names, max_size=1),
        "dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, max_size=1),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=3),
        "oneOf": st.lists(inner, min_size=1, max_size=3),
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "default": values,
        "description": st.sampled_from(["", "said"]),
    }
    some = st.sets(st.sampled_from(sorted(keywords)), min_size=1, max_size=4)
    return some.flatmap(
        lambda chosen: st.fixed_dictionaries({name: keywords[name] for name in sorted(chosen)})
    )


_leaves = (
    st.booleans()
    | st.fixed_dictionaries({"type": st.sampled_from(_TYPES)})
    | st.fixed_dictionaries({"$ref": _refs})
)
_any = st.recursive(_leaves, lambda inner: _schemas(inner) | _schemas(inner), max_leaves=12)


@st.composite
def object_schemas(draw: st.DrawFn) -> dict[str, Any]:
    """Schemas of arguments, with definitions that their references lead to."""
    root = draw(_schemas(_any))
    properties = draw(st.dictionaries(st.sampled_from(NAMES), _any, max_size=4))
    defs = {"one": draw(_any), "two": draw(_any)}
    if draw(st.booleans()) and isinstance(defs["one"], dict):
        defs["one"] = {**defs["one"], "$anchor": "here"}
    return {**root, "type": "object", "properties": properties, "$defs": defs}
