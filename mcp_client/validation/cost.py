"""Whether ``jsonschema`` may judge a value in place: a dry run that adds up what it could cost.

The schema is followed down the value as ``jsonschema`` does, with its references, but nothing is
tested. Every branch counts as tried, and every keyword as failed. Each step has a price, and the
dry run stops when they exceed what the event loop can wait for. So it ends soon itself, whatever
the schema, and a schema that multiplies or comes back to itself is found out by being followed. A
keyword whose price is not known here ends it, too: such a value goes to the worker.

Prices are microseconds, several times what a fast machine takes. An error is the dearest: its text
shows the value, and for some keywords the schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..protocol.json_pointer import parse, resolve
from .schema_shape import COMMON_DIALECTS
from .simple_patterns import simple_pattern
from .value_size import size_of

__all__ = ["fits_in_place"]

_MAX_MICROSECONDS = 10_000.0
_MAX_VALUES = 2_000
_MAX_CHARS = 64 * 1024
_SUBSCHEMA = 20.0
_KEYWORD = 1.0
_NAME = 0.3
_ERROR = 15.0
_ERROR_LEVEL = 2.0
"""The cost of an error for each level of the schema it is passed up through."""
_VALUE = 0.2
_CHAR = 0.02
_EQUAL = 2.0
_SEARCH_STEP = 0.01
_COMPILED_PATTERN = 150.0
_COMPILED_CHAR = 3.0
_MAX_REFERENCE_CHARS = 200


def fits_in_place(schema: Any, schema_chars: int, value: Any) -> bool:
    """Whether judging ``value`` takes some milliseconds at the most.

    ``schema_chars`` is the size of the schema, as ``SchemaSurvey.chars``.
    """
    size = size_of(value, _MAX_VALUES)
    if size is None or size.chars > _MAX_CHARS:
        return False
    quoted_value = size.values * _VALUE + size.chars * _CHAR
    return _DryRun(schema, schema_chars * (_VALUE + _CHAR), quoted_value).ends(value)


class _Unknown(Exception):
    """A keyword, or a shape of one, whose price is not known."""


_Step: TypeAlias = tuple[Any, Any, int]
"""A schema, the value it is applied to, and how many schemas lead to it."""


@dataclass(slots=True, eq=False, repr=False)
class _DryRun:
    """A walk over a schema and a value that adds up what checking them would take."""

    root: Any
    quoted_schema: float
    quoted_value: float
    left: float = _MAX_MICROSECONDS
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
        error = _ERROR + _ERROR_LEVEL * level + self._quoted(value)
        if type(schema) is bool:
            self.left -= _KEYWORD if schema else error
            return
        if type(schema) is not dict:
            raise _Unknown
        self.left -= _SUBSCHEMA
        for keyword, item in schema.items():
            self.left -= _KEYWORD
            if keyword in _CHEAP:
                self.left -= error
            elif keyword not in _ANNOTATIONS and not keyword.startswith("x-"):
                self.left -= error + self._price(keyword, item, value, schema)
                self._go_on(keyword, item, value, schema, level + 1)
            if self.left < 0:
                return

    def _quoted(self, value: Any) -> float:
        if type(value) is dict or type(value) is list:
            return self.quoted_value
        return len(value) * _CHAR if type(value) is str else _VALUE + self.quoted_value

    def _price(self, keyword: str, item: Any, value: Any, schema: dict[str, Any]) -> float:
        """Return the maximum cost of the keyword itself, beside one error."""
        match keyword:
            case "$schema":
                dialect = _of(str, item).removesuffix("#")
                if schema is not self.root or dialect not in COMMON_DIALECTS:
                    raise _Unknown
            case "$ref":
                return _SUBSCHEMA + _KEYWORD * len(_of(str, item))
            case "pattern":
                return self._search(_of(str, item), value)
            case "enum" | "const":
                return self.quoted_schema + self._counted(item) * _EQUAL
            case "not" | "oneOf":
                return self.quoted_schema
            case "required" | "dependentRequired" | "dependencies":
                return self._counted(item) * _ERROR if type(value) is dict else 0.0
            case "uniqueItems":
                # Each item may be compared with each other, down to the last value in it.
                return len(value) * self._counted(value) * _EQUAL if type(value) is list else 0.0
            case "properties" | "additionalProperties" | "propertyNames":
                names = len(value) if type(value) is dict else 0
                return (names + len(item if type(item) is dict else ())) * _KEYWORD
            case "$id" if schema is self.root:
                pass
            case _ if keyword not in _FOLLOWED:
                raise _Unknown
        return 0.0

    def _go_on(
        self, keyword: str, item: Any, value: Any, schema: dict[str, Any], level: int
    ) -> None:
        """Follow the schemas in a keyword, each with the values it is applied to."""
        pairs: Iterable[tuple[Any, Any]] = ()
        match keyword, value:
            case "$ref", _:
                pairs = [(self._target(item), value)]
            case (("not" | "if" | "then" | "else"), _):
                pairs = [(item, value)]
            case (("allOf" | "anyOf" | "oneOf"), _):
                pairs = [(each, value) for each in _of(list, item)]
            case (("dependentSchemas" | "dependencies"), dict()):
                pairs = [
                    (needed, value)
                    for name, needed in _of(dict, item).items()
                    if name in value and type(needed) is not list
                ]
            case "properties", dict():
                named = _of(dict, item)
                pairs = [(named[name], part) for name, part in value.items() if name in named]
            case "additionalProperties", dict():
                named = _of(dict, schema.get("properties", {}))
                if "patternProperties" in schema:
                    raise _Unknown
                pairs = [(item, part) for name, part in value.items() if name not in named]
            case "propertyNames", dict():
                pairs = [(item, name) for name in value]
            case (("items" | "prefixItems"), list()) if type(item) is list:
                pairs = zip(item, value, strict=False)
            case (("items" | "contains"), list()):
                pairs = [(item, part) for part in value]
        before = len(self.steps)
        self.steps += [(inner, part, level) for inner, part in pairs]
        self.left -= (len(self.steps) - before) * _NAME

    def _counted(self, item: Any) -> float:
        size = size_of(item, int(max(0.0, self.left)))
        return _MAX_MICROSECONDS if size is None else size.values

    def _search(self, source: str, value: Any) -> float:
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

    def _target(self, reference: str) -> Any:
        if len(reference) > _MAX_REFERENCE_CHARS or reference[:2] not in ("#", "#/"):
            raise _Unknown
        target = self.root
        for step in parse(reference[1:]):
            target = resolve(target, [step])
            if type(target) is dict and not target.keys().isdisjoint(("$id", "id")):
                raise _Unknown  # a part with an address of its own: references in it start there
        return target


def _of(kind: type, item: Any) -> Any:
    if type(item) is not kind:
        raise _Unknown
    return item


_ANNOTATIONS = frozenset(
    {"$comment", "$defs", "contentEncoding", "contentMediaType", "contentSchema", "default"}
    | {"definitions", "deprecated", "description", "examples", "format", "maxContains"}
    | {"minContains", "readOnly", "title", "writeOnly"}
)
"""Keywords that ``jsonschema`` passes over, or reads with another."""
_FOLLOWED = frozenset(
    {"allOf", "anyOf", "if", "then", "else", "dependentSchemas", "items", "prefixItems", "contains"}
)
_CHEAP = frozenset(
    {"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
)
