"""JSON Schema: compiled once, bounded, both ways.

A ``Checker`` answers in two steps. ``surely_valid`` is a compiled check of our own over the
keywords that most tools use; it may say "I cannot tell" but never calls an invalid value valid.
Only where it cannot tell does ``jsonschema`` judge, and is first imported. So an ordinary tool
costs microseconds, and every verdict is the one ``jsonschema`` gives.

Dialects (2026-07-28 ``basic/index``, JSON Schema usage): 2020-12 by default, and whatever
``$schema`` names among draft 3, 4, 6, 7, 2019-09 and 2020-12; any other is ``InvalidSchema``.
``$ref`` is followed inside the schema and to those dialects' own meta-schemas, never to a network
or file address. ``format`` is an annotation, as 2020-12 has it: it is not checked.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from .display import safe_text
from .errors import InvalidSchema
from .protocol.canonical import canonical
from .tool import Tool

__all__ = ["Checker", "Problem", "checker_for", "input_checker", "output_checker"]

Test: TypeAlias = Callable[[Any], bool]

_KEPT = 1024
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Problem:
    """The first thing wrong with a value: where (a JSON pointer), and what was expected."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path or 'the whole value'}: {self.message}"


class Checker:
    """One schema, ready to judge values."""

    __slots__ = ("_schema", "_validator", "surely_valid")

    def __init__(self, schema: Any) -> None:
        """Raises ``InvalidSchema``."""
        self._schema = schema
        self._validator: Any = None
        test = _compile(schema)
        self.surely_valid: Test = test or _cannot_tell
        """True: the value fits. False: it does not, or only ``problem`` can tell."""
        if test is None:
            self._validator = _validator(schema)

    def problem(self, value: Any) -> Problem | None:
        """The most telling thing wrong with ``value``, or None. Raises ``InvalidSchema``."""
        if self.surely_valid(value):
            return None
        if self._validator is None:
            self._validator = _validator(self._schema)
        return _judge(self._validator, value)


def input_checker(tool: Tool) -> Checker:
    """The checker of a tool's arguments. Raises ``InvalidSchema``."""
    checker: Checker | None = tool._memo.get("input")
    if checker is None:
        checker = tool._memo["input"] = checker_for(tool._definition["inputSchema"])
    return checker


def output_checker(tool: Tool) -> Checker | None:
    """The checker of a tool's structured content; None where it has no output schema."""
    schema = tool._definition.get("outputSchema")
    if schema is None:
        return None
    checker: Checker | None = tool._memo.get("output")
    if checker is None:
        checker = tool._memo["output"] = checker_for(schema)
    return checker


_checkers: OrderedDict[str, Checker] = OrderedDict()


def checker_for(schema: Any) -> Checker:
    """The checker of ``schema``, shared by all who use an equal one. Raises ``InvalidSchema``."""
    try:
        key = canonical(schema)
    except ValueError as error:
        raise InvalidSchema(f"the schema is not JSON: {error}") from None
    checker = _checkers.get(key)
    if checker is None:
        checker = _checkers[key] = Checker(schema)
        if len(_checkers) > _KEPT:
            _checkers.popitem(last=False)
    else:
        _checkers.move_to_end(key)
    return checker


def _validator(schema: Any) -> Any:
    import jsonschema
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.jsonschema import EMPTY_REGISTRY

    if not isinstance(schema, dict | bool):
        raise InvalidSchema("a schema is a JSON object, true or false")
    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    newest: Any = jsonschema.Draft202012Validator
    cls: Any = validator_for(schema, default=cast(Any, None)) if dialect else newest
    if cls is None:
        raise InvalidSchema(f"the schema's dialect {safe_text(dialect, 80)!r} is not supported")
    try:
        cls.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise InvalidSchema(f"the schema is no schema: {_problem(error)}") from None
    except RecursionError:
        raise InvalidSchema("the schema refers to itself without end") from None
    registry: Registry[Any] = EMPTY_REGISTRY
    return cls(schema, registry=registry)


def _judge(validator: Any, value: Any) -> Problem | None:
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    try:
        error = best_match(validator.iter_errors(value))
    except Unresolvable as error:
        raise InvalidSchema(
            f"the schema refers to {safe_text(error.ref, 120)!r}, which is not in it; "
            "addresses outside a schema are never fetched"
        ) from None
    except RecursionError:
        raise InvalidSchema("the schema refers to itself without end") from None
    except re.error as error:
        raise InvalidSchema(f"the schema has a pattern that is none: {error}") from None
    return None if error is None else _problem(error)


def _problem(error: Any) -> Problem:
    path = "".join(
        f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in error.absolute_path
    )
    return Problem(safe_text(path, _SHOWN), safe_text(error.message, _SHOWN))


# --------------------------------------------------------------- the quick check
#
# Each compiler below returns a test that is True only for values that surely fit, or None where
# this schema is beyond it. Equality of numbers and booleans, patterns, references that lead back
# to themselves and every keyword not named here are left to jsonschema.

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


def _cannot_tell(value: Any) -> bool:
    return False


def _compile(schema: Any) -> Test | None:
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
