"""Validate values against JSON Schemas, within bounded time.

A ``Checker`` uses the cheapest of three ways that gives a result.

1. ``is_known_valid``: the schema compiled to Python (``fast_path``). It may be undecided, but it
   never accepts an invalid value. Microseconds.
2. ``jsonschema`` in this process, if a dry run shows that it takes at most some milliseconds. It is
   imported on first use, in a thread (``engine``).
3. ``jsonschema`` in a worker process, which is killed when its time is up (``worker_pool``). The
   first use takes some 200 milliseconds, later ones well below one plus the check itself.

So an ordinary tool costs microseconds, no schema can block the event loop, and every result is that
of ``jsonschema``. A schema is checked by its shape (``schema_shape``) if possible, else by
``jsonschema`` in the worker, once.

Dialects (2026-07-28 ``basic/index``, JSON Schema usage): 2020-12 by default, and those that
``$schema`` names among draft 3, 4, 6, 7, 2019-09 and 2020-12. Any other, at the root or inside,
raises ``InvalidSchema``. ``$ref`` is followed inside the schema and to the meta-schemas of those
dialects, never to a network or file address. A reference that cannot be resolved makes the schema
``InvalidSchema`` even if no value reaches it. ``format`` is an annotation, as in 2020-12, and is
not checked. Patterns are Python's: one that ``re`` cannot compile makes the schema
``InvalidSchema``. Schemas of servers first pass ``usable_schema``: it translates patterns and skips
parts that cannot be checked, so that ``InvalidSchema`` is left for the rest.

Decisions where JSON is not specific:

- Numbers: integers are exact up to the 4,300 digits that Python parses; a message with a longer one
  is not valid JSON. A fraction beyond a double (``1e999``) is parsed as infinity and compares so;
  if a keyword cannot be applied to it (``multipleOf``), the value is not valid.
- ``1.0`` is an integer and ``true`` is not ``1``, as in JSON Schema.
- NaN and Infinity are not JSON: a message with them cannot be parsed, arguments with them are
  refused.
- A duplicate key: the last one counts, as in Python's own parser.
- Lone surrogates: in a result they are characters like any other, each of length 1; in a schema
  they raise ``InvalidSchema``; in arguments they are refused, because UTF-8 cannot encode them.

The dry run follows the schema down the value as ``jsonschema`` does, with its references, but tests
nothing. Every branch counts as tried, and every keyword as failed. Each step has a price, and the
dry run stops when they exceed what the event loop can wait for. So it ends soon itself, whatever
the schema, and a schema that multiplies or comes back to itself is found out by being followed. A
keyword whose price is not known here ends it, too: such a value goes to the worker. Prices are
microseconds, several times what a fast machine takes. An error is the dearest: its text shows the
value, and for some keywords the schema.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio

from ..errors import InvalidSchema
from ..protocol.canonical_json import canonical
from ..protocol.json_paths import parse, resolve
from ..runtime.daemon_thread import NoThread, run_in_thread
from ..runtime.frozen import frozen_dataclass
from ..runtime.limits import Limits
from ..runtime.safe_text import safe_text
from . import engine
from .fast_path import compile_fast_path
from .known_cost import simple_pattern, size_of
from .schema_shape import COMMON_DIALECTS, NO_LIMITS, SchemaSurvey, survey_schema
from .usable_schema import UsableSchema
from .worker_pool import WorkerFailed, WorkerPool

__all__ = ["Checker", "Problem", "checker_for", "checker_of", "fits_in_place"]

_MAX_CHECKERS = 1024
_MAX_TEXT_CHARS = 200

_ids = itertools.count(1)


@frozen_dataclass
class Problem:
    """The problem of a value, in texts that are safe to show.

    The fields describe the most relevant problem; ``others`` and ``more`` the remaining ones.
    """

    path: str
    """A JSON pointer; empty for the whole value."""
    expected: str
    came: str
    """The value at ``path``, shortened."""
    undecided: str = ""
    """The reason why the value could not be checked; empty if it was."""
    is_of_schema: bool = False
    """Whether it could not be judged because the schema cannot be used, whatever the value."""
    others: tuple[Problem, ...] = ()
    """Further problems, at most four. Their own ``others`` are empty."""
    more: str = ""
    """The number of problems beside those: "3 more", "at least 59 more"."""

    def __str__(self) -> str:
        return self.undecided or "; ".join(self._lines())

    @property
    def places(self) -> str:
        """The places of the problems, without the values."""
        places = dict.fromkeys(one.path or "the whole value" for one in (self, *self.others))
        return ", ".join([*places, self.more] if self.more else places)

    def _lines(self) -> list[str]:
        where = self.path or "the whole value"
        lines = [f"{where}: expected {self.expected}, got {self.came}"]
        lines += [f"at {other}" for other in self.others]
        return [*lines, f"and {self.more}"] if self.more else lines

    def of(self, what: str, schema: str) -> str:
        """Return a sentence that ``what`` is not valid for ``schema``, with the place."""
        if self.undecided:
            return f"{what} could not be checked against {schema}: {self.undecided}"
        return f"{what} broke {schema} at {self}"


class Checker:
    """One schema, ready to check values. Shared by every session that meets an equal schema."""

    __slots__ = (
        *("_chars", "_fast_path", "_fault", "_id", "_schema", "_validator"),
        *("is_known_valid", "is_sound"),
    )

    def __init__(self, schema: Any, survey: SchemaSurvey) -> None:
        self._schema = schema
        self._chars = survey.chars
        self._id = next(_ids)
        self._validator: Any = None
        self._fault: str | None = None
        self._fast_path = compile_fast_path(schema)
        self.is_sound: bool
        """Whether the schema is known to be one, and every reference in it to lead somewhere."""
        self.is_known_valid: Callable[[Any], bool]
        """A function that returns True for a valid value; False if only ``problem`` can decide."""
        self._set_sound(survey.is_sound())

    def _set_sound(self, is_sound: bool) -> None:
        self.is_sound, fast_path = is_sound, self._fast_path
        self.is_known_valid = fast_path.accepts if is_sound and fast_path else _undecided

    async def prepare(self, workers: WorkerPool, budget: float) -> None:
        """Find out whether the schema can be used at all. Raises ``InvalidSchema``.

        ``budget`` is in seconds. It is asked once: an ordinary schema is known to be one already.
        """
        if self.is_sound:
            return
        if self._fault is None:
            try:
                response = await workers.ask(self._id, self._schema, None, False, budget)
            except WorkerFailed as error:
                raise InvalidSchema(f"cannot check the schema: {error}") from None
            self._read(response)
            self._set_sound(self._fault is None)
        if self._fault is not None:
            raise InvalidSchema(self._fault)

    async def problem(self, value: Any, workers: WorkerPool, budget: float) -> Problem | None:
        """Return the problem of ``value``, or None; for values that are not known to be valid.

        ``budget`` is in seconds. Raises ``InvalidSchema``.
        """
        await self.prepare(workers, budget)
        if self.is_known_valid(value):
            return None
        if fits_in_place(self._schema, self._chars, value):
            if not engine.is_loaded():
                await _load_engine()
            try:
                return self._problem_in_place(value)
            except RecursionError:
                pass  # the host's own stack is deep already; the worker has its own
        try:
            response = await workers.ask(self._id, self._schema, value, True, budget)
        except WorkerFailed as error:
            return Problem("", "", "", safe_text(error, _MAX_TEXT_CHARS))
        found = self._read(response)
        if self._fault is not None:
            raise InvalidSchema(self._fault)
        return found

    def _problem_in_place(self, value: Any) -> Problem | None:
        try:
            if self._validator is None:
                self._validator = engine.build_validator(self._schema, is_sound=True)
            return _problem(engine.find_problems(self._validator, value))
        except engine.UnusableSchema as error:
            self._read({"unusable": str(error)})
        raise InvalidSchema(self._fault or "")

    def _read(self, response: dict[str, Any]) -> Problem | None:
        if "unusable" in response:
            self._fault = f"the schema cannot be used: {safe_text(response['unusable'], 400)}"
            self._set_sound(False)
        return _problem(response.get("problems"))


def _undecided(value: Any) -> bool:
    return False


async def _load_engine() -> None:
    """Import ``jsonschema`` in a thread, so that the loop runs on meanwhile."""
    try:
        await run_in_thread(engine.load, limiter=anyio.CapacityLimiter(1))
    except NoThread:
        engine.load()


def _problem(found: Any) -> Problem | None:
    if found is None:
        return None
    problems, more = found
    texts = [[safe_text(text, _MAX_TEXT_CHARS) for text in problem] for problem in problems]
    others = tuple(Problem(path, expected, came) for path, expected, came in texts[1:])
    path, expected, came = texts[0]
    return Problem(path, expected, came, others=others, more=safe_text(more, _MAX_TEXT_CHARS))


_checkers: OrderedDict[str, Checker] = OrderedDict()


def checker_for(schema: Any, limits: Limits) -> Checker:
    """The checker of ``schema``, shared by all who use an equal one. Raises ``InvalidSchema``."""
    survey = survey_schema(schema, limits)
    if survey.over_limit:
        raise InvalidSchema(survey.over_limit)
    if survey.fault:
        raise InvalidSchema(f"the schema cannot be used: {survey.fault}")
    try:
        key = canonical(schema)
    except ValueError as error:
        raise InvalidSchema(f"the schema is not JSON: {error}") from None
    checker = _checkers.get(key)
    if checker is None:
        checker = _checkers[key] = Checker(schema, survey)
        if len(_checkers) > _MAX_CHECKERS:
            _checkers.popitem(last=False)
    else:
        _checkers.move_to_end(key)
    return checker


def checker_of(schema: Any, usable: UsableSchema, limits: Limits) -> Checker:
    """Return the checker of what can be judged of ``schema``. Raises ``InvalidSchema``.

    The limits hold for the schema as the server wrote it: translated patterns may be longer.
    """
    if usable.schema is schema:
        return checker_for(schema, limits)
    over_limit = survey_schema(schema, limits).over_limit
    if over_limit:
        raise InvalidSchema(over_limit)
    return checker_for(usable.schema, NO_LIMITS)


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
