"""Known to be valid: a compiled check over the keywords that most tools use.

It may say "I cannot tell", but it never calls a value valid that ``jsonschema`` calls invalid. What
each compiler below returns is true only for values that certainly fit, or None where it does not
support a schema. Equality of numbers and booleans, ``oneOf``, ``not``, references that come back to
themselves and every keyword not named here are left to ``jsonschema``.

Its time is bounded before it runs. A schema without keywords for all items of an array or all
members of an object looks at a value once for each of its subschemas, however large the value is.
Any other looks at each value at most once, and once more for each branch under ``anyOf`` and
``allOf``, references followed: there, the size of the value is bounded. A pattern is simple (see
``simple_patterns``) and adds the most steps that a search can take.

It runs in this process and in the worker, and imports nothing but the standard library.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from .simple_patterns import SimplePattern, simple_pattern

__all__ = ["FastPath", "Size", "Test", "compile_fast_path", "has_at_most", "size_of"]

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
_ABSENT: Any = object()


class _Part(NamedTuple):
    """What a value has to be."""

    kinds: frozenset[type] | None
    """Of one of these types; None for any."""
    test: Test | None
    """Such that this is true; None where there is nothing more to test."""


_ANYTHING = _Part(None, None)


class FastPath:
    """The compiled test of one schema, and what bounds its time."""

    __slots__ = ("_branches", "_is_bounded", "_kinds", "_max_values", "_patterns", "_test")

    def __init__(self, part: _Part, compiler: _Compiler) -> None:
        self._kinds, self._test = part
        self._is_bounded = not compiler.visits_all
        self._branches = compiler.branches
        self._max_values = _MAX_VALUES // (1 + compiler.branches)
        self._patterns = [search.pattern for search in compiler.searches]
        for search in compiler.searches if self._is_bounded else ():
            search.longest = search.pattern.chars_within(
                _MAX_SEARCH_STEPS // len(compiler.searches)
            )

    def accepts(self, value: Any) -> bool:
        """True: ``value`` fits. False: it does not, or this cannot tell.

        The answer is right only where the schema as a whole is known to be valid.
        """
        if self._kinds is not None and type(value) not in self._kinds:
            return False
        if self._test is None:
            return True
        if not (self._is_bounded or self._is_small(value)):
            return False
        try:
            return self._test(value)
        except RecursionError:
            return False  # the caller's stack is deep already

    def _is_small(self, value: Any) -> bool:
        if not self._patterns:
            return has_at_most(value, self._max_values)
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
    part = compiler.part(schema, 0)
    return None if part is None else FastPath(part, compiler)


class _Compiler:
    """Compiles the subschemas of one schema, and counts what they cost."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.branches = 0
        self.visits_all = False
        """Whether it looks at all items of an array, or at all members of an object."""
        self.searches: list[_Search] = []
        self._root = root
        self._subschemas = 0
        self._within: set[str] = set()
        """The references being followed."""

    def part(self, schema: Any, depth: int) -> _Part | None:
        if schema is True:
            return _ANYTHING
        self._subschemas += 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return None
        if self._subschemas > _MAX_SUBSCHEMAS:
            return None
        kinds = None
        if "type" in schema:
            kinds = _kinds(schema["type"])
            if kinds is None:
                return None
        tests: list[Test] = []
        has_object_test = False
        for keyword in schema:
            if keyword in _IGNORED or keyword == "type":
                continue
            if keyword == "$schema" and schema is self._root:
                continue
            if keyword in _OBJECT_KEYWORDS:
                if has_object_test:
                    continue
                has_object_test = True
            applies, build = _KEYWORDS.get(keyword, _UNKNOWN)
            test = build(self, schema, depth)
            if test is None:
                return None
            if test is not _always:
                sure = applies is None or (kinds is not None and kinds <= applies)
                tests.append(test if sure else _where(applies, test))
        return _Part(kinds, _all(tests))

    def test(self, schema: Any, depth: int) -> Test | None:
        """The part for ``schema`` as one test."""
        part = self.part(schema, depth)
        if part is None:
            return None
        kinds, test = part
        if test is None:
            return _always if kinds is None else lambda value: type(value) in kinds
        return test if kinds is None else lambda value: type(value) in kinds and test(value)

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


def _all(tests: list[Test]) -> Test | None:
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda value: first(value) and second(value)
    return lambda value: all([test(value) for test in tests])


def _where(kinds: frozenset[type] | None, test: Test) -> Test:
    """``test``, for values of these types alone."""
    return test if kinds is None else lambda value: type(value) not in kinds or test(value)


_DICT, _LIST, _STR = frozenset({dict}), frozenset({list}), frozenset({str})
_NUMBER: frozenset[type] = frozenset({int, float})
_TYPES: dict[str, frozenset[type]] = {
    "object": _DICT,
    "array": _LIST,
    "string": _STR,
    "integer": frozenset({int}),
    "number": _NUMBER,
    "boolean": frozenset({bool}),
    "null": frozenset({type(None)}),
}


def _kinds(named: Any) -> frozenset[type] | None:
    names = named if isinstance(named, list) else [named]
    kinds = [_TYPES.get(name) if isinstance(name, str) else None for name in names]
    known = [kind for kind in kinds if kind is not None]
    return frozenset().union(*known) if known and len(known) == len(kinds) else None


# Each builder below returns a test for values of the types that ``_KEYWORDS`` names beside it.


def _unknown(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    return None


def _object(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    properties, names = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(names, list):
        return None
    if not all([isinstance(name, str) for name in names]):
        return None
    parts = {name: compiler.part(properties[name], depth + 1) for name in properties}
    known = [(name, part) for name, part in parts.items() if part is not None]
    if len(known) != len(parts):
        return None
    needed, checked = frozenset(names), {name: part for name, part in known if part != _ANYTHING}
    members, find = [(name, *part) for name, part in checked.items()], checked.get

    def check(value: dict[str, Any]) -> bool:
        if not needed <= value.keys():
            return False
        if len(value) < len(members):
            for name, item in value.items():
                kinds, test = find(name, _ANYTHING)
                if kinds is not None and type(item) not in kinds:
                    return False
                if test is not None and not test(item):
                    return False
            return True
        for name, kinds, test in members:
            item = value.get(name, _ABSENT)
            if item is _ABSENT:
                continue
            if kinds is not None and type(item) not in kinds:
                return False
            if test is not None and not test(item):
                return False
        return True

    if "additionalProperties" not in schema:
        return check
    others = _additional(compiler, schema, depth)
    return None if others is None else _all([check, others])


def _additional(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    if "patternProperties" in schema:
        return None
    allowed, named = schema["additionalProperties"], frozenset(schema.get("properties", {}))
    if allowed is False:
        return lambda value: value.keys() <= named
    test = compiler.test(allowed, depth + 1)
    if test is None or test is _always:
        return test
    compiler.visits_all = True
    return lambda value: all([test(item) for name, item in value.items() if name not in named])


def _items(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    if "prefixItems" in schema:
        return None
    part = compiler.part(schema["items"], depth + 1)
    if part is None or part == _ANYTHING:
        return None if part is None else _always
    compiler.visits_all = True
    kinds, test = part.kinds or frozenset(), part.test
    if test is None:
        return lambda value: kinds.issuperset(map(type, value))
    if not kinds:
        return lambda value: all(map(test, value))
    return lambda value: kinds.issuperset(map(type, value)) and all(map(test, value))


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
    compiler.visits_all = True
    return lambda value: _STR.issuperset(map(type, value)) and len(set(value)) == len(value)


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


class _Search:
    """One search for a simple pattern."""

    __slots__ = ("_search", "longest", "pattern")

    def __init__(self, pattern: SimplePattern) -> None:
        self.pattern = pattern
        self.longest = sys.maxsize
        """The longest text that is searched, in characters."""
        self._search: Callable[[str], object] | None = None

    def test(self, value: str) -> bool:
        search = self._search
        if search is None:
            search = self._search = re.compile(self.pattern.source).search
        return len(value) <= self.longest and search(value) is not None


def _pattern(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
    source = schema["pattern"]
    pattern = simple_pattern(source) if isinstance(source, str) else None
    if pattern is None:
        return None
    search = _Search(pattern)
    compiler.searches.append(search)
    sources = {each.pattern.source for each in compiler.searches}
    if sum(map(len, sources)) > _MAX_PATTERN_CHARS:
        return None  # compiling them would take milliseconds
    return search.test


def _bound(keyword: str, make: Callable[[Any], Test]) -> _Build:
    def build(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
        bound = schema[keyword]
        return make(bound) if type(bound) in (int, float) else None

    return build


def _size(keyword: str, make: Callable[[int], Test]) -> _Build:
    def build(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test | None:
        bound = schema[keyword]
        return make(bound) if type(bound) is int and bound >= 0 else None

    return build


def _at_least(bound: int) -> Test:
    return lambda value: len(value) >= bound


def _at_most(bound: int) -> Test:
    return lambda value: len(value) <= bound


_Build: TypeAlias = Callable[[_Compiler, dict[str, Any], int], Test | None]
_UNKNOWN: tuple[frozenset[type] | None, _Build] = (None, _unknown)
_OBJECT_KEYWORDS = frozenset({"properties", "required", "additionalProperties"})
_KEYWORDS: dict[str, tuple[frozenset[type] | None, _Build]] = {
    **dict.fromkeys(_OBJECT_KEYWORDS, (_DICT, _object)),
    "items": (_LIST, _items),
    "enum": (None, _enum),
    "const": (None, _const),
    "uniqueItems": (_LIST, _unique),
    "anyOf": (None, _any_of),
    "allOf": (None, _all_of),
    "$ref": (None, _reference),
    "pattern": (_STR, _pattern),
    "minimum": (_NUMBER, _bound("minimum", lambda bound: lambda value: value >= bound)),
    "maximum": (_NUMBER, _bound("maximum", lambda bound: lambda value: value <= bound)),
    "exclusiveMinimum": (
        _NUMBER,
        _bound("exclusiveMinimum", lambda bound: lambda value: value > bound),
    ),
    "exclusiveMaximum": (
        _NUMBER,
        _bound("exclusiveMaximum", lambda bound: lambda value: value < bound),
    ),
    "minLength": (_STR, _size("minLength", _at_least)),
    "maxLength": (_STR, _size("maxLength", _at_most)),
    "minItems": (_LIST, _size("minItems", _at_least)),
    "maxItems": (_LIST, _size("maxItems", _at_most)),
    "minProperties": (_DICT, _size("minProperties", _at_least)),
    "maxProperties": (_DICT, _size("maxProperties", _at_most)),
}


# ------------------------------------------------------------- how large a value is


class Size(NamedTuple):
    """How large a value is."""

    values: int
    """Itself and all values in it."""
    chars: int
    """The characters of its texts and names, and the digits of its numbers beyond a few."""
    longest_text: int


def has_at_most(value: Any, most: int) -> bool:
    """Whether there are at most ``most`` values in ``value``, itself included; stops when not."""
    waiting = [value]
    count = 1
    while waiting:
        one = waiting.pop()
        if type(one) is dict:
            count += len(one)
            if count > most:
                return False
            waiting += [item for item in one.values() if type(item) is dict or type(item) is list]
        elif type(one) is list:
            count += len(one)
            if count > most:
                return False
            waiting += [item for item in one if type(item) is dict or type(item) is list]
    return count <= most


def size_of(value: Any, most: int) -> Size | None:
    """The size of ``value``; None where there are more than ``most`` values in it."""
    values, chars, longest = 0, 0, 0
    waiting = [[value]]
    while waiting:
        one: Any = waiting.pop()
        values += len(one)
        if values > most:
            return None
        if type(one) is dict:
            for name in one:
                chars += len(name)
            one = one.values()
        for item in one:
            kind = type(item)
            if kind is str:
                size = len(item)
                chars += size
                if size > longest:
                    longest = size
            elif kind is dict or kind is list:
                waiting.append(item)
            elif kind is int:
                chars += item.bit_length() >> 2
    return Size(values, chars, longest)
