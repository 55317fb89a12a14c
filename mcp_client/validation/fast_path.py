"""A compiled check for valid values, over the keywords that most tools use.

It may be undecided, but it never accepts a value that ``jsonschema`` rejects. The function that
each compiler below returns is true only for values that are certainly valid, and is
``_undecided`` if it does not support a schema. Equality of numbers and booleans, ``oneOf``,
``not``, recursive references and all other keywords are left to ``jsonschema``.

Its time is bounded before it runs. A schema without keywords for all items of an array or all
members of an object examines a value once for each of its subschemas, regardless of its size.
``items`` with only a type are examined in C, up to a number. Any other schema examines each value
at most once, and again for each branch under ``anyOf`` and ``allOf``, including references: there,
the size of the value is bounded. A pattern is simple (see ``known_cost``) and adds the maximum
number of steps of a search.

It runs in this process and in the worker, and imports nothing but the standard library.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from .known_cost import SimplePattern, has_at_most, simple_pattern, size_of

__all__ = ["FastPath", "Test", "compile_fast_path"]

Test: TypeAlias = Callable[[Any], bool]

_MAX_VALUES = 100_000
_MAX_SEARCH_STEPS = 1_000_000
_MAX_TYPED_ITEMS = 1_000_000
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
    """The requirements on a value."""

    kinds: frozenset[type] | None
    """The permitted types; None for any."""
    test: Test | None
    """Such that this is true; None where there is nothing more to test."""


def _always(value: Any) -> bool:
    return True


def _undecided(value: Any) -> bool:
    return False


_ANYTHING = _Part(None, None)
_UNKNOWN = _Part(None, _undecided)


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
        for array in compiler.typed if self._is_bounded else ():
            array.longest = _MAX_TYPED_ITEMS // len(compiler.typed)

    def accepts(self, value: Any) -> bool:
        """Return True if ``value`` is valid; False if it is not, or if this is undecided.

        The result is correct only if the schema as a whole is known to be valid.
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
    is_usable = part.test is not _undecided and compiler.subschemas <= _MAX_SUBSCHEMAS
    return FastPath(part, compiler) if is_usable else None


class _Compiler:
    """Compiles the subschemas of one schema, and counts what they cost."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.branches: int = 0
        self.visits_all = False
        """Whether the check examines all items of an array, or all members of an object.

        Items in ``typed`` do not count.
        """
        self.searches: list[_Search] = []
        self.typed: list[_TypedItems] = []
        self.root = root
        self.subschemas: int = 0
        self._within: set[str] = set()
        """The references being followed."""

    def part(self, schema: Any, depth: int) -> _Part:
        if schema is True:
            return _ANYTHING
        self.subschemas += 1
        is_within = depth <= _MAX_DEPTH and self.subschemas <= _MAX_SUBSCHEMAS
        if not isinstance(schema, dict) or not is_within:
            return _UNKNOWN
        kinds = None
        if "type" in schema:
            kinds = _kinds(schema["type"])
            if kinds is None:
                return _UNKNOWN
        tests: list[Test] = []
        # Each builder once: one looks at all keywords about the members of an object.
        builders = dict.fromkeys([_KEYWORDS.get(keyword, _OTHER) for keyword in schema])
        for applies, build in builders:
            test = build(self, schema, depth)
            if test is _undecided:
                return _UNKNOWN
            if test is not _always:
                sure = applies is None or (kinds is not None and kinds <= applies)
                tests.append(test if sure else _where(applies, test))
        return _Part(kinds, _all(tests))

    def test(self, schema: Any, depth: int) -> Test:
        """The part for ``schema`` as one test."""
        kinds, test = self.part(schema, depth)
        if kinds is None:
            return test or _always
        if test is None:
            return lambda value: type(value) in kinds
        return lambda value: type(value) in kinds and test(value)

    def tests(self, schemas: Any, depth: int) -> list[Test]:
        if not isinstance(schemas, list) or not schemas:
            return [_undecided]
        self.branches += len(schemas)
        return [self.test(schema, depth + 1) for schema in schemas]

    def referred(self, reference: Any, depth: int) -> Test:
        """The test of ``#/$defs/NAME`` or ``#/definitions/NAME``."""
        if not isinstance(reference, str) or reference in self._within:
            return _undecided
        head, _, name = reference.rpartition("/")
        named = self.root.get(head[2:]) if head in ("#/$defs", "#/definitions") else None
        if not isinstance(named, dict) or name not in named or not _PLAIN_NAME.match(name):
            return _undecided
        self._within.add(reference)
        test = self.test(named[name], depth + 1)
        self._within.discard(reference)
        return test


_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")


def _all(tests: list[Test]) -> Test | None:
    if not tests:
        return None
    if _undecided in tests:
        return _undecided
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


def _unknown(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
    return _undecided


def _ignored(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
    return _always


def _dialect(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
    return _always if schema is compiler.root else _undecided


def _object(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
    properties, names = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(names, list):
        return _undecided
    if not all([isinstance(name, str) for name in names]):
        return _undecided
    parts = {name: compiler.part(properties[name], depth + 1) for name in properties}
    needed, checked = frozenset(names), {n: part for n, part in parts.items() if part != _ANYTHING}
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

    return _all([check, *_additional(compiler, schema, depth)]) or check


def _additional(compiler: _Compiler, schema: dict[str, Any], depth: int) -> list[Test]:
    allowed = schema.get("additionalProperties", True)
    if allowed is True:
        return []
    named = frozenset(schema.get("properties", {}))
    if "patternProperties" in schema:
        return [_undecided]
    if allowed is False:
        return [lambda value: value.keys() <= named]
    test = compiler.test(allowed, depth + 1)
    compiler.visits_all = True
    return [lambda value: all([test(item) for name, item in value.items() if name not in named])]


def _items(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
    if "prefixItems" in schema:
        return _undecided
    part = compiler.part(schema["items"], depth + 1)
    if part == _ANYTHING:
        return _always
    kinds, test = part.kinds or frozenset(), part.test
    if test is None:
        array = _TypedItems(kinds)
        compiler.typed.append(array)
        return array.test
    compiler.visits_all = True
    if not kinds:
        return lambda value: all(map(test, value))
    return lambda value: kinds.issuperset(map(type, value)) and all(map(test, value))


class _TypedItems:
    """A check of all items of an array, for which only the type is specified."""

    __slots__ = ("_kinds", "longest")

    def __init__(self, kinds: frozenset[type]) -> None:
        self._kinds = kinds
        self.longest = sys.maxsize
        """The longest array that is examined; unbounded if the size of the value is bounded."""

    def test(self, value: list[Any]) -> bool:
        return len(value) <= self.longest and self._kinds.issuperset(map(type, value))


def _enum(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
    values = schema["enum"]
    if not isinstance(values, list):
        return _undecided
    texts = frozenset([value for value in values if isinstance(value, str)])
    if all([isinstance(value, str) for value in values]):
        return lambda value: type(value) is str and value in texts
    if all([value is None or isinstance(value, str) for value in values]):
        return lambda value: value is None or (type(value) is str and value in texts)
    return _undecided


def _unique(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
    wanted = schema["uniqueItems"]
    if wanted is not True:
        return _always if wanted is False else _undecided
    compiler.visits_all = True
    return lambda value: _STR.issuperset(map(type, value)) and len(set(value)) == len(value)


def _const(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
    return _enum(compiler, {"enum": [schema["const"]]}, depth)


def _any_of(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
    tests = [test for test in compiler.tests(schema["anyOf"], depth) if test is not _undecided]
    return (lambda value: any([test(value) for test in tests])) if tests else _undecided


def _all_of(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
    return _all(compiler.tests(schema["allOf"], depth)) or _always


def _reference(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
    # Draft-07 ignores keywords beside a reference: to ask for both is stricter, never wrong.
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


def _pattern(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
    source = schema["pattern"]
    pattern = simple_pattern(source) if isinstance(source, str) else None
    if pattern is None:
        return _undecided
    search = _Search(pattern)
    compiler.searches.append(search)
    sources = {each.pattern.source for each in compiler.searches}
    if sum(map(len, sources)) > _MAX_PATTERN_CHARS:
        return _undecided  # compiling them would take milliseconds
    return search.test


def _bound(keyword: str, make: Callable[[Any], Test]) -> _Build:
    def build(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
        bound = schema[keyword]
        return make(bound) if type(bound) in (int, float) else _undecided

    return build


def _size(keyword: str, make: Callable[[int], Test]) -> _Build:
    def build(compiler: _Compiler, schema: dict[str, Any], depth: int) -> Test:
        bound = schema[keyword]
        return make(bound) if type(bound) is int and bound >= 0 else _undecided

    return build


def _at_least(bound: int) -> Test:
    return lambda value: len(value) >= bound


def _at_most(bound: int) -> Test:
    return lambda value: len(value) <= bound


_Build: TypeAlias = Callable[[_Compiler, dict[str, Any], int], Test]
_Keyword: TypeAlias = tuple[frozenset[type] | None, _Build]
_OTHER: _Keyword = (None, _unknown)
_SIZED = {"Length": _STR, "Items": _LIST, "Properties": _DICT}
_KEYWORDS: dict[str, _Keyword] = {
    **dict.fromkeys([*_IGNORED, "type"], (None, _ignored)),
    **dict.fromkeys(["properties", "required", "additionalProperties"], (_DICT, _object)),
    "$schema": (None, _dialect),
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
    **{f"min{of}": (kinds, _size(f"min{of}", _at_least)) for of, kinds in _SIZED.items()},
    **{f"max{of}": (kinds, _size(f"max{of}", _at_most)) for of, kinds in _SIZED.items()},
}
