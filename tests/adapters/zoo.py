"""A zoo of JSON Schemas: hostile ones, old ones, and odd ones that servers have."""

from __future__ import annotations

from typing import Any

__all__ = ["ZOO"]


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
