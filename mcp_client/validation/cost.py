"""Whether ``jsonschema`` may judge a value in place: a dry run that adds up what it could cost.

The schema is followed down the value as ``jsonschema`` follows it, references included, but no
test is made: every branch is taken to be tried, and every keyword to fail. Each step has a price,
and the dry run stops when they exceed what the event loop can wait for. So it ends soon itself,
whatever the schema, and a schema that multiplies or comes back to itself is found out by being
followed. A keyword whose price is not known here ends it, too: such a value goes to the worker.

Prices are microseconds, several times what a fast machine takes. An error is the dearest: its text
shows the value, and for some keywords the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..protocol.json_pointer import parse, resolve
from .schema_shape import COMMON_DIALECTS
from .simple_patterns import simple_pattern
from .value_size import size_of

__all__ = ["fits_in_place"]

_IN_PLACE = 10_000.0
_MAX_VALUES = 2_000
_MAX_CHARS = 64 * 1024
_SUBSCHEMA = 20.0
_KEYWORD = 1.0
_NAME = 0.3
_ERROR = 15.0
_ERROR_LEVEL = 2.0
"""What an error costs for each level of the schema it is passed up through."""
_SHOWN_VALUE = 0.2
_SHOWN_CHAR = 0.02
_EQUAL = 2.0
_SEARCH_STEP = 0.01
_COMPILED_PATTERN = 150.0
_COMPILED_CHAR = 3.0
_MAX_REFERENCE = 200


def fits_in_place(schema: Any, schema_chars: int, value: Any) -> bool:
    """Whether judging ``value`` takes some milliseconds at the most.

    ``schema_chars`` is the size of the schema, as ``SchemaSurvey.chars``.
    """
    size = size_of(value, _MAX_VALUES)
    if size is None or size.chars > _MAX_CHARS:
        return False
    shown_value = size.values * _SHOWN_VALUE + size.chars * _SHOWN_CHAR
    return _DryRun(schema, schema_chars * (_SHOWN_VALUE + _SHOWN_CHAR), shown_value).ends(value)


class _Unknown(Exception):
    """A keyword, or a shape of one, whose price is not known."""


_Step: TypeAlias = tuple[Any, Any, int]
"""A schema, the value it is applied to, and how many schemas lead to it."""


@dataclass(slots=True)
class _DryRun:
    """A walk over a schema and a value that adds up what checking them would take."""

    root: Any
    shown_schema: float
    shown_value: float
    left: float = _IN_PLACE
    steps: list[_Step] = field(default_factory=list)
    compiled: set[str] = field(default_factory=set)

    def ends(self, value: Any) -> bool:
        """Whether the dry run ends before the time is used up."""
        self.steps.append((self.root, value, 0))
        try:
            while self.steps and self.left >= 0:
                self._follow(*self.steps.pop())
        except (_Unknown, LookupError, ValueError):
            return False
        return self.left >= 0

    def _follow(self, schema: Any, value: Any, level: int) -> None:
        error = _ERROR + _ERROR_LEVEL * level + self._shown(value)
        if type(schema) is bool:
            self.left -= _KEYWORD if schema else error
            return
        if type(schema) is not dict:
            raise _Unknown
        self.left -= _SUBSCHEMA
        for keyword, item in schema.items():
            price = _PRICES.get(keyword)
            if price is not None:
                self.left -= _KEYWORD + error + price(self, item, value, schema, level + 1)
            elif keyword in _ANNOTATIONS or keyword.startswith("x-"):
                self.left -= _KEYWORD
            elif keyword != "$id" or schema is not self.root:
                raise _Unknown
            if self.left < 0:
                return

    def _shown(self, value: Any) -> float:
        if type(value) is dict or type(value) is list:
            return self.shown_value
        return len(value) * _SHOWN_CHAR if type(value) is str else _SHOWN_VALUE + self.shown_value

    def each(self, schemas: list[Any], value: Any, level: int) -> float:
        """Apply several schemas to one value."""
        self.left -= len(schemas) * _NAME
        if self.left >= 0:
            self.steps += [(schema, value, level) for schema in schemas]
        return 0.0

    def on_each(self, schema: Any, values: list[Any], level: int) -> float:
        """Apply one schema to several values."""
        self.left -= len(values) * _NAME
        if self.left >= 0:
            self.steps += [(schema, value, level) for value in values]
        return 0.0

    def search(self, source: str, value: Any) -> float:
        pattern = simple_pattern(source)
        if pattern is None:
            raise _Unknown
        price = 0.0
        if source not in self.compiled:
            self.compiled.add(source)
            price += _COMPILED_PATTERN + _COMPILED_CHAR * len(source)
        return (
            price + pattern.search_steps(len(value)) * _SEARCH_STEP if type(value) is str else price
        )


Price: TypeAlias = Callable[[_DryRun, Any, Any, dict[str, Any], int], float]


def _small(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    return 0.0


def _type(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    if type(item) is list:
        return len(item) * _KEYWORD
    return 0.0


def _dialect(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    if (
        schema is not run.root
        or type(item) is not str
        or item.removesuffix("#") not in COMMON_DIALECTS
    ):
        raise _Unknown
    return 0.0


def _one(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    return run.each([item], value, level)


def _negated(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    return run.shown_schema + run.each([item], value, level)


def _several(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    return run.each(_list(item), value, level)


def _one_of(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    return run.shown_schema + run.each(_list(item), value, level)


def _properties(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    if type(value) is not dict:
        return 0.0
    named = _dict(item)
    run.steps += [(named[name], part, level) for name, part in value.items() if name in named]
    return (len(named) + len(value)) * _NAME


def _additional(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    if "patternProperties" in schema:
        raise _Unknown
    if type(value) is not dict:
        return 0.0
    named = _dict(schema.get("properties", {}))
    if type(item) is dict:
        run.on_each(item, [part for name, part in value.items() if name not in named], level)
    return len(value) * _KEYWORD + run.shown_value


def _names(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    return run.on_each(item, list(value), level) if type(value) is dict else 0.0


def _items(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    if type(value) is not list:
        return 0.0
    if type(item) is list:
        return _prefix(run, item, value, schema, level)
    return run.on_each(item, value, level)


def _prefix(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    if type(value) is list:
        run.steps += [(one, part, level) for one, part in zip(_list(item), value, strict=False)]
    return 0.0


def _required(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    return _missing(item, value, level)


def _dependent(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    price = 0.0
    for name, needed in _dict(item).items():
        price += _NAME
        if type(value) is not dict or name not in value:
            continue
        if type(needed) is list:
            price += _missing(needed, value, level)
        else:
            run.each([needed], value, level)
    return price


def _missing(names: Any, value: Any, level: int) -> float:
    """Each name that is missing is an error of its own."""
    if type(value) is not dict:
        return 0.0
    missing = sum([name not in value for name in _list(names) if type(name) is str])
    return len(names) * _NAME + missing * (_ERROR + _ERROR_LEVEL * level)


def _enum(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    return run.shown_schema + _compared(run, item, value)


def _compared(run: _DryRun, item: Any, value: Any) -> float:
    most = int(max(0.0, run.left) / _EQUAL)
    size = size_of(item, most)
    return run.left + 1 if size is None else size.values * _EQUAL


def _unique(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    # Each item may be compared with each other, down to the last value in it.
    if type(value) is not list:
        return 0.0
    size = size_of(value, _MAX_VALUES)
    return len(value) * (_MAX_VALUES if size is None else size.values) * _EQUAL


def _pattern(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    return run.search(_text(item), value)


def _reference(run: _DryRun, item: Any, value: Any, schema: dict[str, Any], level: int) -> float:
    reference = _text(item)
    if len(reference) > _MAX_REFERENCE or not (reference == "#" or reference.startswith("#/")):
        raise _Unknown
    steps = parse(reference[1:])
    target = run.root
    for step in steps:
        target = resolve(target, [step])
        if type(target) is dict and not target.keys().isdisjoint(("$id", "id")):
            raise _Unknown  # a part with an address of its own: references in it start there
    run.each([target], value, level)
    return _SUBSCHEMA + _KEYWORD * len(reference)


def _list(item: Any) -> list[Any]:
    if type(item) is not list:
        raise _Unknown
    return item


def _dict(item: Any) -> dict[str, Any]:
    if type(item) is not dict:
        raise _Unknown
    return item


def _text(item: Any) -> str:
    if type(item) is not str:
        raise _Unknown
    return item


_ANNOTATIONS = frozenset(
    {"$comment", "$defs", "contentEncoding", "contentMediaType", "contentSchema", "default"}
    | {"definitions", "deprecated", "description", "examples", "format", "maxContains"}
    | {"minContains", "readOnly", "title", "writeOnly"}
)
"""Keywords that ``jsonschema`` passes over, or reads with another."""
_PRICES: dict[str, Price] = {
    "$schema": _dialect,
    "$ref": _reference,
    "type": _type,
    "enum": _enum,
    "const": _enum,
    "pattern": _pattern,
    "required": _required,
    "dependentRequired": _dependent,
    "dependentSchemas": _dependent,
    "dependencies": _dependent,
    "properties": _properties,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "items": _items,
    "prefixItems": _prefix,
    "contains": _items,
    "uniqueItems": _unique,
    "allOf": _several,
    "anyOf": _several,
    "oneOf": _one_of,
    "not": _negated,
    "if": _one,
    "then": _one,
    "else": _one,
    **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], _small),
    **dict.fromkeys(["multipleOf", "minLength", "maxLength", "minItems", "maxItems"], _small),
    **dict.fromkeys(["minProperties", "maxProperties"], _small),
}
