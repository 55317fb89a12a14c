"""Known to be valid: a compiled check over the keywords that most tools use.

It may say "I cannot tell", but it never calls a value valid that ``jsonschema`` calls invalid. Each
compiler below returns a test that is True only for values that certainly fit, or None where it does
not support a schema. Equality of numbers and booleans, ``oneOf``, ``not``, references that come
back to themselves and every keyword not named here are left to ``jsonschema``.

Its time is bounded before it runs. A test looks at each value at most once, and once more for each
branch under ``anyOf`` and ``allOf``, references followed; a pattern is simple (see
``simple_patterns``) and adds the most steps that a search can take.

It runs in this process and in the worker, and imports nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from .simple_patterns import SimplePattern, simple_pattern
from .value_size import has_at_most, size_of

__all__ = ["FastPath", "Test", "compile_fast_path"]

Test: TypeAlias = Callable[[Any], bool]

_MAX_VALUES = 100_000
_MAX_SEARCH_STEPS = 1_000_000
_MAX_SUBSCHEMAS = 2_000
_MAX_DEPTH = 16
_MAX_PATTERN_CHARS = 1_000
_IGNORED = frozenset(
    {"$comment", "$defs", "default", "definitions", "deprecated", "description", "examples"}
    | {"format", "readOnly", "title", "writeOnly", "x-mcp-header"}
)
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DRAFT7 = "http://json-schema.org/draft-07/schema"


@dataclass(frozen=True, slots=True)
class FastPath:
    """The compiled test of one schema, and what bounds its time."""

    _test: Test
    _max_values: int
    _branches: int
    _patterns: tuple[SimplePattern, ...]

    def accepts(self, value: Any) -> bool:
        """True: ``value`` fits. False: it does not, or this cannot tell.

        The answer is right only where the schema as a whole is known to be valid.
        """
        if self._patterns:
            if not self._can_search(value):
                return False
        elif not has_at_most(value, self._max_values):
            return False
        try:
            return self._test(value)
        except RecursionError:
            return False  # the caller's stack is deep already

    def _can_search(self, value: Any) -> bool:
        size = size_of(value, self._max_values)
        if size is None:
            return False
        # The texts together, as if each were as long as the longest.
        texts = min(size.values, 1 + size.chars // (size.longest_text or 1))
        most = max([pattern.search_steps(size.longest_text) for pattern in self._patterns])
        least = max([pattern.search_steps(0) for pattern in self._patterns])
        steps = (texts * most + size.values * least) * (1 + self._branches)
        return steps <= _MAX_SEARCH_STEPS


def compile_fast_path(schema: Any) -> FastPath | None:
    """The test of ``schema``, which may be any JSON value; None where it is not supported."""
    if not isinstance(schema, dict):
        return None
    dialect = schema.get("$schema", _DIALECT)
    if not isinstance(dialect, str) or dialect.removesuffix("#") not in (_DIALECT, _DRAFT7):
        return None
    compiler = _Compiler(schema)
    test = compiler.test(schema, 0)
    if test is None:
        return None
    most = _MAX_VALUES // (1 + compiler.branches)
    return FastPath(test, most, compiler.branches, tuple(compiler.patterns.values()))


class _Compiler:
    """Compiles the subschemas of one schema, and counts what they cost."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.branches = 0
        self.patterns: dict[str, SimplePattern] = {}
        self._root = root
        self._subschemas = 0
        self._within: set[str] = set()
        """The references being followed."""

    def test(self, schema: Any, depth: int) -> Test | None:
        if schema is True:
            return _always
        self._subschemas += 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return None
        if self._subschemas > _MAX_SUBSCHEMAS:
            return None
        tests: list[Test] = []
        for keyword in schema:
            if keyword in _IGNORED or (keyword == "$schema" and schema is self._root):
                continue
            build = _KEYWORDS.get(keyword)
            test = build(self, schema, depth) if build else None
            if test is None:
                return None
            tests.append(test)
        return _all(tests)

    def tests(self, schemas: Any, depth: int) -> list[Test] | None:
        if not isinstance(schemas, list) or not schemas:
            return None
        self.branches += len(schemas)
        tests = [self.test(schema, depth + 1) for schema in schemas]
        known = [test for test in tests if test is not None]
        return known if len(known) == len(tests) else None

    def referred(self, reference: Any, depth: int) -> Test | None:
        """The test of ``#/$defs/NAME`` or ``#/definitions/NAME``."""
        if not isinstance(reference, str) or reference in self._within:
            return None
        head, _, name = reference.rpartition("/")
        named = self._root.get(head[2:]) if head in ("#/$defs", "#/definitions") else None
        if not isinstance(named, dict) or name not in named or not _PLAIN_NAME.match(name):
            return None
        self._within.add(reference)
        test = self.test(named[name], depth + 1)
        self._within.discard(reference)
        return test


_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")


def _always(value: Any) -> bool:
    return True


def _all(tests: list[Test]) -> Test:
    if not tests:
        return _always
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


def _type(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    named = schema["type"]
    if isinstance(named, str):
        return _TYPES.get(named)
    if not isinstance(named, list) or not named:
        return None
    tests = [_TYPES.get(name) if isinstance(name, str) else None for name in named]
    known = [test for test in tests if test is not None]
    if len(known) != len(tests):
        return None
    return lambda value: any([test(value) for test in known])


def _properties(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    named = schema["properties"]
    if not isinstance(named, dict):
        return None
    tests: dict[str, Test] = {}
    for name, subschema in named.items():
        test = compiler.test(subschema, depth + 1)
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


def _required(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    names = schema["required"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    needed = frozenset(names)
    return lambda value: type(value) is not dict or needed <= value.keys()


def _additional(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    allowed, properties = schema["additionalProperties"], schema.get("properties", {})
    if "patternProperties" in schema or not isinstance(properties, dict):
        return None
    named = frozenset(properties)
    if allowed is False:
        return lambda value: type(value) is not dict or value.keys() <= named
    test = compiler.test(allowed, depth + 1)
    if test is None:
        return None
    return lambda value: (
        type(value) is not dict
        or all([test(item) for name, item in value.items() if name not in named])
    )


def _items(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    if "prefixItems" in schema:
        return None
    test = compiler.test(schema["items"], depth + 1)
    if test is None:
        return None
    return lambda value: type(value) is not list or all(map(test, value))


def _enum(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    values = schema["enum"]
    if not isinstance(values, list):
        return None
    texts = frozenset([value for value in values if isinstance(value, str)])
    if all([isinstance(value, str) for value in values]):
        return lambda value: type(value) is str and value in texts
    if all([value is None or isinstance(value, str) for value in values]):
        return lambda value: value is None or (type(value) is str and value in texts)
    return None


def _unique(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    wanted = schema["uniqueItems"]
    if type(wanted) is not bool:
        return None
    if not wanted:
        return _always
    return lambda value: (
        type(value) is not list
        or (all([type(item) is str for item in value]) and len(set(value)) == len(value))
    )


def _const(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    wanted = schema["const"]
    if not isinstance(wanted, str):
        return None
    return lambda value: type(value) is str and value == wanted


def _any_of(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    tests = compiler.tests(schema["anyOf"], depth)
    return None if tests is None else lambda value: any([test(value) for test in tests])


def _all_of(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    tests = compiler.tests(schema["allOf"], depth)
    return None if tests is None else _all(tests)


def _reference(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    # Draft-07 ignores what stands beside a reference: to ask for both is stricter, never wrong.
    compiler.branches += 1
    return compiler.referred(schema["$ref"], depth)


def _pattern(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    source = schema["pattern"]
    pattern = simple_pattern(source) if isinstance(source, str) else None
    if pattern is None:
        return None
    compiler.patterns[source] = pattern
    if sum(map(len, compiler.patterns)) > _MAX_PATTERN_CHARS:
        return None  # compiling them would take milliseconds
    search = re.compile(source).search
    return lambda value: type(value) is not str or search(value) is not None


def _number(keyword: str, fits: Callable[[Any, Any], bool]) -> Any:
    def build(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
        bound = schema[keyword]
        if type(bound) not in (int, float):
            return None
        return lambda value: (
            (type(value) is not int and type(value) is not float) or fits(value, bound)
        )

    return build


def _size(keyword: str, kind: Any, fits: Callable[[int, int], bool]) -> Any:
    def build(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
        bound = schema[keyword]
        if type(bound) is not int or bound < 0:
            return None
        return lambda value: type(value) is not kind or fits(len(value), bound)

    return build


_KEYWORDS: dict[str, Callable[[_Compiler, dict[str, Any], int], Test | None]] = {
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
    "$ref": _reference,
    "pattern": _pattern,
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
