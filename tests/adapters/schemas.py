"""JSON Schemas for properties: random ones with values that may fit, and a zoo of hostile ones."""

from __future__ import annotations

from typing import Any

import jsonschema
from hypothesis import strategies as st

from mcp_client.catalog.tool import Tool

__all__ = ["ZOO", "arguments", "fits", "object_schemas", "tool_of", "values"]

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


def _deep(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"down": schema}, "required": ["down"]}
    return schema


def _doubling(count: int) -> dict[str, Any]:
    defs: dict[str, Any] = {f"n{count}": {"type": "string"}}
    for number in range(count):
        next = {"$ref": f"#/$defs/n{number + 1}"}
        defs[f"n{number}"] = {"type": "object", "properties": {"l": next, "r": next}}
    return {"type": "object", "properties": {"tree": {"$ref": "#/$defs/n0"}}, "$defs": defs}


ZOO: dict[str, dict[str, Any]] = {
    "empty": {},
    "an object alone": {"type": "object"},
    "no members": {"type": "object", "properties": {}, "additionalProperties": False},
    "wrong types of everything": {
        "type": 5,
        "properties": ["a"],
        "required": "a",
        "enum": {},
        "anyOf": {},
        "items": 3,
        "minimum": "x",
        "$ref": 7,
        "description": 1,
    },
    "a root of several types": {"type": ["object", "null"], "properties": {"a": {}}},
    "true and false": {"type": "object", "properties": {"a": True, "b": False}, "required": ["b"]},
    "itself": {"type": "object", "properties": {"self": {"$ref": "#"}}},
    "a reference at the root": {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"type": "object", "properties": {"a": {"type": "string"}}}},
    },
    "a reference to itself alone": {
        "type": "object",
        "properties": {"a": {"$ref": "#/properties/a"}},
    },
    "references that lead nowhere": {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/nowhere"},
            "b": {"$ref": "file:///etc/passwd"},
            "c": {"$dynamicRef": "#x"},
            "d": {"$ref": "#%zz"},
        },
    },
    "two to the thirtieth": _doubling(30),
    "very deep": _deep(60),
    "very wide": {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "enum": ["x"]} for n in range(4_000)},
    },
    "endless numbers": {
        "type": "object",
        "properties": {"a": {"minimum": float("inf"), "default": float("inf"), "maximum": 10**400}},
    },
    "half characters": {
        "type": "object",
        "description": "\ud800",
        "properties": {"\udfff": {"enum": ["\ud800"]}},
    },
    "long texts": {"type": "object", "description": "x" * 500_000},
    "draft 3": {
        "$schema": "http://json-schema.org/draft-03/schema#",
        "type": "object",
        "properties": {"a": {"type": "any", "required": True, "divisibleBy": 2}},
    },
    "draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://example.com/x",
        "type": "object",
        "properties": {
            "a": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            "b": {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
        },
    },
    "draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "definitions": {"P": {"type": "string"}},
        "properties": {"a": {"$ref": "#/definitions/P", "maxLength": 1}},
        "dependencies": {"a": ["b"]},
        "if": {"required": ["a"]},
        "then": {"required": ["b"]},
    },
    "alternatives at the root": {
        "type": "object",
        "oneOf": [
            {"properties": {"k": {"const": "a"}, "x": {"type": "string"}}, "required": ["k"]},
            {"properties": {"k": {"const": "b"}, "y": {"type": "integer"}}, "required": ["k"]},
        ],
    },
    "closed alternatives at the root": {
        "anyOf": [
            {
                "type": "object",
                "properties": {"k": {"const": name}},
                "required": ["k"],
                "additionalProperties": False,
            }
            for name in ("a", "b")
        ],
    },
    "all of it": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}},
            {"required": ["a"], "properties": {"a": {"minLength": 2}}},
        ]
    },
    "tuples": {
        "type": "object",
        "properties": {
            "p": {
                "type": "array",
                "prefixItems": [{"type": "number"}, {"type": "string"}],
                "items": False,
            },
            "q": {"type": "array", "items": False},
        },
    },
    "odd names": {
        "type": "object",
        "properties": {
            "": {"type": "string"},
            "a b": {"type": "string"},
            "a_b": {"type": "integer"},
            "a/b": {"type": "object", "properties": {"ü": {"type": "null"}}},
            "x" * 100: {"type": "string"},
            "\0optional": {"type": "string"},
            "$ref": {"type": "string"},
            "0": {"type": "string"},
        },
        "required": ["a b", "a/b"],
    },
    "values of all kinds": {
        "type": "object",
        "properties": {
            "mixed": {"enum": ["a", "", 1, 2.5, True, None, {"x": 1}, [1]]},
            "one": {"const": {"x": [None]}},
            "none": {"enum": []},
            "number": {"type": "integer", "enum": [3, 1, 2]},
            "flag": {"const": False},
            "nothing": {"const": None},
        },
    },
    "open maps": {
        "type": "object",
        "properties": {"m": {"type": "object", "additionalProperties": {"type": "integer"}}},
        "patternProperties": {"^x-": {"type": "string"}},
        "additionalProperties": False,
    },
    "what nothing fits": {
        "type": "object",
        "properties": {"a": {"allOf": [{"type": "string"}, {"type": "integer"}]}},
        "not": {},
    },
}
