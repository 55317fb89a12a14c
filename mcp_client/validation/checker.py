"""Validate values against JSON Schemas, within bounded time.

A ``Checker`` uses the cheapest of three ways that gives a result.

1. ``is_known_valid``: the schema compiled to Python (``fast_path``). It may be undecided, but it
   never accepts an invalid value. Microseconds.
2. ``jsonschema`` in this process, if a dry run shows that it takes at most some milliseconds
   (``cost``). It is imported on first use, in a thread (``engine``).
3. ``jsonschema`` in a worker process, which is killed when its time is up (``worker_pool``). The
   first use takes some 200 milliseconds, later ones well below one plus the check itself.

So an ordinary tool costs microseconds, no schema can block the event loop, and every result is that
of ``jsonschema``. A schema is checked by its shape (``schema_shape``) if possible, else by
``jsonschema`` in the worker, once.

Dialects (2026-07-28 ``basic/index``, JSON Schema usage): 2020-12 by default, and those that
``$schema`` names among draft 3, 4, 6, 7, 2019-09 and 2020-12; any other, at the root or inside,
raises ``InvalidSchema``. ``$ref`` is followed inside the schema and to the meta-schemas of those
dialects, never to a network or file address; a reference that cannot be resolved makes the schema
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
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import anyio

from ..errors import InvalidSchema
from ..protocol.canonical_json import canonical
from ..runtime.daemon_thread import NoThread, run_in_thread
from ..runtime.frozen import frozen_dataclass
from ..runtime.limits import Limits
from ..runtime.safe_text import safe_text
from . import engine
from .cost import fits_in_place
from .fast_path import compile_fast_path
from .schema_shape import NO_LIMITS, SchemaSurvey, survey_schema
from .usable_schema import UsableSchema
from .worker_pool import WorkerFailed, WorkerPool

__all__ = ["Checker", "Problem", "checker_for", "checker_of"]

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
