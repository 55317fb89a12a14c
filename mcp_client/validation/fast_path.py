"""Surely valid: a compiled check over the keywords that most tools use.

It may say "I cannot tell", but it never calls valid what ``jsonschema`` calls invalid. Each
compiler below returns a test that is True only for values that surely fit, or None where this
schema is beyond it. Equality of numbers and booleans, patterns, references and every keyword not
named here are left to ``jsonschema``.

No test takes longer than the number of values in what it tests, times one more than the number of
branches under ``anyOf`` and ``allOf``: whoever calls a test bounds that product first.

It runs in this process and in the worker, and imports nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

__all__ = ["Test", "quick_test"]

Test: TypeAlias = Callable[[Any], bool]

_IGNORED = frozenset(
    {
        "$comment",
        "default",
        "deprecated",
        "description",
        "examples",
        "format",
        "readOnly",
        "title",
        "writeOnly",
        "x-mcp-header",
    }
)
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DRAFT7 = "http://json-schema.org/draft-07/schema"


def quick_test(schema: Any) -> Test | None:
    """The test of ``schema``, or None where it is beyond us."""
    if not isinstance(schema, dict):
        return None
    dialect = schema.get("$schema", _DIALECT)
    if not isinstance(dialect, str) or dialect.rstrip("#") not in (_DIALECT, _DRAFT7):
        return None
    body = {key: item for key, item in schema.items() if key != "$schema"}
    return _test(body, 0)


def _annotations_sound(schema: dict[str, Any]) -> bool:
    texts = all(isinstance(schema.get(key, ""), str) for key in ("title", "description", "format"))
    return (
        texts
        and isinstance(schema.get("$comment", ""), str)
        and not any(
            key in schema and not isinstance(schema[key], kind)
            for key, kind in (
                ("examples", list),
                ("deprecated", bool),
                ("readOnly", bool),
                ("writeOnly", bool),
            )
        )
    )


def _test(schema: Any, depth: int) -> Test | None:
    if schema is True:
        return lambda value: True
    if not isinstance(schema, dict) or depth > 16 or not _annotations_sound(schema):
        return None
    tests: list[Test] = []
    for keyword in schema:
        if keyword in _IGNORED:
            continue
        build = _KEYWORDS.get(keyword)
        test = build(schema, depth) if build else None
        if test is None:
            return None
        tests.append(test)
    return _all(tests)


def _all(tests: list[Test]) -> Test:
    if not tests:
        return lambda value: True
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda value: first(value) and second(value)
    if len(tests) == 3:
        first, second, third = tests
        return lambda value: first(value) and second(value) and third(value)
    return lambda value: all([test(value) for test in tests])


_TYPES: dict[str, Test] = {
    "object": lambda value: type(value) is dict,
    "array": lambda value: type(value) is list,
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) is int or type(value) is float,
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
}


def _type(schema: dict[str, Any], depth: int) -> Test | None:
    named = schema["type"]
    if isinstance(named, str):
        return _TYPES.get(named)
    if not isinstance(named, list) or not named or len(set(map(str, named))) != len(named):
        return None
    tests = [_TYPES.get(name) if isinstance(name, str) else None for name in named]
    known = [test for test in tests if test is not None]
    if len(known) != len(tests):
        return None
    return lambda value: any([test(value) for test in known])


def _properties(schema: dict[str, Any], depth: int) -> Test | None:
    named = schema["properties"]
    if not isinstance(named, dict):
        return None
    tests: dict[str, Test] = {}
    for name, subschema in named.items():
        test = _test(subschema, depth + 1)
        if test is None:
            return None
        tests[name] = test
    find = tests.get

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return True
        for name, item in value.items():
            test = find(name)
            if test is not None and not test(item):
                return False
        return True

    return check


def _required(schema: dict[str, Any], depth: int) -> Test | None:
    names = schema["required"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    needed = frozenset(names)
    if len(needed) != len(names):
        return None
    return lambda value: type(value) is not dict or needed <= value.keys()


def _additional(schema: dict[str, Any], depth: int) -> Test | None:
    allowed = schema["additionalProperties"]
    if "patternProperties" in schema:
        return None
    named = frozenset(schema.get("properties", ()))
    if allowed is False:
        return lambda value: type(value) is not dict or value.keys() <= named
    test = _test(allowed, depth + 1)
    if test is None:
        return None
    return lambda value: (
        type(value) is not dict
        or all([test(item) for name, item in value.items() if name not in named])
    )


def _items(schema: dict[str, Any], depth: int) -> Test | None:
    test = _test(schema["items"], depth + 1) if "prefixItems" not in schema else None
    if test is None:
        return None
    return lambda value: type(value) is not list or all(map(test, value))


def _enum(schema: dict[str, Any], depth: int) -> Test | None:
    values = schema["enum"]
    if not isinstance(values, list) or not values:
        return None
    texts = frozenset(value for value in values if isinstance(value, str))
    if len(texts) != len(values):
        return None
    return lambda value: type(value) is str and value in texts


def _unique(schema: dict[str, Any], depth: int) -> Test | None:
    wanted = schema["uniqueItems"]
    if type(wanted) is not bool:
        return None
    if not wanted:
        return lambda value: True
    return lambda value: (
        type(value) is not list
        or (all([type(item) is str for item in value]) and len(set(value)) == len(value))
    )


def _const(schema: dict[str, Any], depth: int) -> Test | None:
    wanted = schema["const"]
    return (
        (lambda value: type(value) is str and value == wanted) if isinstance(wanted, str) else None
    )


def _any_of(schema: dict[str, Any], depth: int) -> Test | None:
    tests = _list_of_tests(schema["anyOf"], depth)
    return tests and (lambda value: any([test(value) for test in tests]))


def _all_of(schema: dict[str, Any], depth: int) -> Test | None:
    tests = _list_of_tests(schema["allOf"], depth)
    return tests and _all(tests)


def _list_of_tests(schemas: Any, depth: int) -> Any:
    if not isinstance(schemas, list) or not schemas:
        return None
    tests = [_test(schema, depth + 1) for schema in schemas]
    return None if None in tests else tests


def _number(keyword: str, fits: Callable[[Any, Any], bool]) -> Callable[[Any, int], Test | None]:
    def build(schema: dict[str, Any], depth: int) -> Test | None:
        bound = schema[keyword]
        if type(bound) not in (int, float):
            return None
        return lambda value: (
            (type(value) is not int and type(value) is not float) or fits(value, bound)
        )

    return build


def _size(keyword: str, kind: Any, fits: Callable[[int, int], bool]) -> Any:
    def build(schema: dict[str, Any], depth: int) -> Test | None:
        bound = schema[keyword]
        if type(bound) is not int or bound < 0:
            return None
        return lambda value: type(value) is not kind or fits(len(value), bound)

    return build


_KEYWORDS: dict[str, Callable[[dict[str, Any], int], Test | None]] = {
    "type": _type,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "items": _items,
    "enum": _enum,
    "const": _const,
    "uniqueItems": _unique,
    "anyOf": _any_of,
    "allOf": _all_of,
    "minimum": _number("minimum", lambda value, bound: value >= bound),
    "maximum": _number("maximum", lambda value, bound: value <= bound),
    "exclusiveMinimum": _number("exclusiveMinimum", lambda value, bound: value > bound),
    "exclusiveMaximum": _number("exclusiveMaximum", lambda value, bound: value < bound),
    "minLength": _size("minLength", str, lambda length, bound: length >= bound),
    "maxLength": _size("maxLength", str, lambda length, bound: length <= bound),
    "minItems": _size("minItems", list, lambda length, bound: length >= bound),
    "maxItems": _size("maxItems", list, lambda length, bound: length <= bound),
    "minProperties": _size("minProperties", dict, lambda length, bound: length >= bound),
    "maxProperties": _size("maxProperties", dict, lambda length, bound: length <= bound),
}
