"""What a schema may cost: the caps, and the bound that says where a value may be judged.

Nothing here follows a server's wish: a schema is walked once, iteratively, and the walk stops at
the first cap of ``Limits`` it exceeds. What is left is asked two questions.

*Is making its validator cheap?* Then that is done in place, else in the worker.

*How long can judging this value take, whatever the value says?* A bound, not a guess: at each
depth below the root the number of subschemas that can meet one and the same part of the value
(``_Load``), times the number of parts; to that the search tree of each pattern over the longest
text (``_steps``), the comparisons ``uniqueItems`` makes, and the texts of the errors. References
are followed by the bound as by the judge, so an exponential nest of them is found, and a schema
that comes back to itself without going down the value is without bound. What the bound does not
understand (``unevaluated*``, ``$dynamicRef``, references to anywhere but ``#``, a pattern with a
look-around, a back-reference or flags) counts as without bound too, and goes to the worker.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from ..errors import InvalidSchema
from ..runtime.limits import Limits
from ..runtime.safe_text import safe_text

__all__ = ["SchemaCost", "Weight", "survey", "weigh"]

_LARGE = 256 * 1024
_DEEP = 24
_IN_PLACE = 0.05
_CHEAP_SUBSCHEMAS = 60
_WIDE = 200_000
_COUNTED_SUBSCHEMAS = 400
_SUBSCHEMA = 15e-6
_STEP = 20e-9
_CHAR = 20e-9
_EQUAL = 0.5e-6

_DIALECTS = frozenset(
    {
        "http://json-schema.org/draft-03/schema",
        "http://json-schema.org/draft-04/schema",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    }
)
_NAMED = frozenset({"properties", "$defs", "definitions", "dependentSchemas", "dependencies"})
_DATA = frozenset({"const", "default", "enum", "examples"})
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_DOUBTFUL = frozenset({"$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"})


class Weight(NamedTuple):
    """The size of a value, as far as it was looked at: ``large`` ones are not looked at whole."""

    values: int
    chars: int
    longest_text: int
    longest_array: int
    depth: int
    large: bool


@dataclass(slots=True)
class SchemaCost:
    """What ``survey`` found in one schema."""

    schema: Any
    chars: int = 0
    subschemas: int = 0
    references: int = 0
    branches: int = 0
    """Under ``anyOf`` and ``allOf``."""
    patterns: list[str] = field(default_factory=list)
    unique: bool = False
    doubtful: bool = False
    named_inside: bool = False
    """Whether a part of it has an address of its own."""
    data: int = 0
    """Values under ``enum``, ``const`` and the like that are no texts."""
    mixed_array: int = 0
    """Items of its longest array that is not all texts: its square is work for ``uniqueItems``."""
    _load: _Load | None = None

    @property
    def cheap_to_prepare(self) -> bool:
        return (
            self.subschemas <= _CHEAP_SUBSCHEMAS
            and self.chars <= 16 * 1024
            and self.mixed_array <= 200
            and self._cheap_patterns
        )

    @property
    def _cheap_patterns(self) -> bool:
        """Whether they can be compiled in place, where each may be compiled anew."""
        return (
            sum(map(len, self.patterns)) <= 16 * 1024
            and all([_tree(pattern) is not None for pattern in self.patterns])
            and sum([_width(pattern) for pattern in self.patterns]) <= _WIDE
        )

    @property
    def has_inner_ids(self) -> bool:
        return self.named_inside and self.references > 0

    def fits_in_place(self, weight: Weight) -> bool:
        """Whether judging such a value surely takes no longer than the event loop can wait."""
        if weight.large or weight.depth > _DEEP or self.doubtful or self.has_inner_ids:
            return False
        if self.subschemas > _COUNTED_SUBSCHEMAS or not self._cheap_patterns:
            return False
        if self._load is None:
            self._load = _Load(self.schema, self.chars, self.data)
        load = max([self._load.at_depth(depth) for depth in range(weight.depth + 1)])
        seconds = load * weight.values * _SUBSCHEMA
        shown = weight.chars + 10 * weight.values
        seconds += load * shown * (weight.depth + 1) * _CHAR
        for pattern in self.patterns:
            seconds += load * weight.values * _steps(pattern, weight.longest_text) * _STEP
        if self.unique:
            seconds += load * weight.values * weight.longest_array * _EQUAL
        return seconds <= _IN_PLACE


def weigh(value: Any) -> Weight:
    values, chars, text, array, deepest = 1, 0, 0, 0, 0
    waiting: list[tuple[Any, int]] = [([value], -1)]
    while waiting and values * 4 + chars <= _LARGE:
        one, depth = waiting.pop()
        deepest = max(deepest, depth + 1)
        values += len(one)
        if values > _LARGE // 4:
            break
        if type(one) is dict:
            names = [len(name) for name in one]
            chars += sum(names)
            text = max(text, *names, 0)
            items: Any = one.values()
        else:
            items = one
            array = max(array, len(one))
        for item in items:
            kind = type(item)
            if kind is str:
                chars += len(item)
                if len(item) > text:
                    text = len(item)
            elif kind is dict or kind is list:
                waiting.append((item, depth + 1))
            elif kind is int:
                chars += item.bit_length() >> 2
    large = values * 4 + chars > _LARGE
    return Weight(values, chars, text, array, deepest, large)


# --------------------------------------------------------------------- the caps


def survey(schema: Any, limits: Limits) -> SchemaCost:
    """Raises ``InvalidSchema`` for what is no schema, of no known dialect, or beyond a cap."""
    if not isinstance(schema, dict | bool):
        raise InvalidSchema("a schema is a JSON object, true or false")
    found = SchemaCost(schema)
    waiting: list[tuple[Any, int, str]] = [(schema, 1, "schema")]
    while waiting:
        one, depth, role = waiting.pop()
        found.data += role == "data" and type(one) is not str
        if type(one) is str:
            found.chars += len(one)
        elif type(one) is dict:
            found.subschemas += 1
            found.chars += sum(map(len, one))
            for keyword, item in one.items():
                _look_at(found, keyword, item, one is schema, role, limits)
                waiting.append((item, depth + 1, _role(keyword, role)))
        elif type(one) is list:
            _cap(len(one), limits.enum_values, "items in one array", "enum_values")
            found.chars += len(one)
            if any([type(item) is not str for item in one]):
                found.mixed_array = max(found.mixed_array, len(one))
            waiting += [(item, depth + 1, role) for item in one]
        else:
            found.chars += 1
            continue
        _cap(depth - (type(one) is str), limits.schema_depth, "levels", "schema_depth")
        _cap(found.chars, limits.schema_bytes, "characters", "schema_bytes")
        _cap(found.subschemas, limits.subschemas, "objects", "subschemas")
        _cap(found.references, limits.references, "references", "references")
    return found


def _cap(count: int, most: int, what: str, knob: str) -> None:
    if count > most:
        raise InvalidSchema(f"the schema has more than {most} {what} (Limits.{knob})")


def _role(keyword: str, role: str) -> str:
    """What stands under a keyword: a schema, names of schemas, or data."""
    if role == "data" or role == "names":
        return "data" if role == "data" else "schema"
    return "names" if keyword in _NAMED else "data" if keyword in _DATA else "schema"


def _look_at(
    found: SchemaCost, keyword: str, item: Any, at_root: bool, role: str, limits: Limits
) -> None:
    # Whatever a reference may point to is judged as a schema, so data and names count as well:
    # only the dialect is asked for nowhere but where a schema stands.
    if keyword == "$schema" and role == "schema":
        if not isinstance(item, str) or item.removesuffix("#") not in _DIALECTS:
            shown = safe_text(item, 80)
            raise InvalidSchema(f"the schema's dialect {shown!r} is not one that is supported")
        # A part in another dialect is judged by that one; the bound knows only their union.
    elif keyword == "pattern" and isinstance(item, str):
        _note_pattern(found, item, limits)
    elif keyword == "patternProperties" and isinstance(item, dict):
        for pattern in item:
            _note_pattern(found, pattern, limits)
    elif keyword in _REFERENCES and isinstance(item, str):
        found.references += 1
        found.doubtful = found.doubtful or not item.startswith("#")
    elif keyword in ("anyOf", "allOf") and isinstance(item, list):
        found.branches += len(item)
    elif keyword == "uniqueItems":
        found.unique = True
    elif keyword in ("$id", "id") and isinstance(item, str) and not at_root:
        found.named_inside = True
    if keyword in _DOUBTFUL:
        found.doubtful = True


def _note_pattern(found: SchemaCost, pattern: str, limits: Limits) -> None:
    _cap(len(pattern), limits.pattern_chars, "characters in one pattern", "pattern_chars")
    found.patterns.append(pattern)


# --------------------------------------------------------------------- the load

_WITHIN = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "type", "disallow", "extends"}
)
_WITHIN_BY_NAME = frozenset({"dependentSchemas", "dependencies"})
_BELOW = frozenset({"items", "prefixItems", "additionalItems", "contains", "additionalProperties"})
_SHOWN_WHOLE = frozenset({"oneOf", "not", "enum", "const"})


class _Load:
    """How many subschemas may meet one part of a value, by its depth below the root."""

    def __init__(self, schema: Any, chars: int, data: int) -> None:
        self._schema = schema
        self._shown = chars / 2_000 + data / 4
        self._found: dict[tuple[int, int], float] = {}

    def at_depth(self, depth: int) -> float:
        try:
            return self._of(self._schema, depth)
        except RecursionError:
            return math.inf

    def _of(self, schema: Any, depth: int) -> float:
        if type(schema) is not dict:
            return 1.0
        key = (id(schema), depth)
        known = self._found.get(key)
        if known is None:
            self._found[key] = math.inf  # what it is, should the way lead back here
            known = self._found[key] = self._sum(schema, depth)
        return known

    def _sum(self, schema: dict[str, Any], depth: int) -> float:
        total = 0.0 if depth else 1.0
        for keyword, item in schema.items():
            if not depth:
                total += len(item) * 0.05 if type(item) in (dict, list) else 0.1
                total += self._shown if keyword in _SHOWN_WHOLE else 0.0
            if keyword in _WITHIN:
                total += sum([self._of(part, depth) for part in _parts(item)])
            elif keyword in _WITHIN_BY_NAME and type(item) is dict:
                total += sum([self._of(part, depth) for part in item.values()])
            elif keyword == "$ref":
                total += self._of_reference(item, depth)
            elif depth and keyword in _BELOW:
                total += sum([self._of(part, depth - 1) for part in _parts(item)])
            elif depth and type(item) is dict:
                below = [self._of(part, depth - 1) for part in item.values()]
                if keyword == "properties" and below:
                    total += max(below)
                elif keyword == "patternProperties":
                    total += sum(below)
                elif keyword == "propertyNames" and depth == 1:
                    total += self._of(item, 0)
        return total

    def _of_reference(self, reference: Any, depth: int) -> float:
        target = _pointed_at(self._schema, reference)
        return math.inf if target is None else self._of(target, depth)


def _parts(item: Any) -> list[Any]:
    if type(item) is list:
        return [part for part in item if type(part) is dict or type(part) is bool]
    return [item] if type(item) is dict else []


def _pointed_at(schema: Any, reference: Any) -> Any:
    """What a local JSON pointer points to; None for anything else."""
    if not isinstance(reference, str) or not re.match(r"#(/|\Z)", reference):
        return None
    from urllib.parse import unquote  # only now: it is dear to import, and seldom needed

    at = schema
    for step in unquote(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if type(at) is dict and name in at:
            at = at[name]
        elif type(at) is list and name.isdecimal() and int(name[:9]) < len(at):
            at = at[int(name[:9])]
        else:
            return None
    return at


# ----------------------------------------------------------------- the patterns

_ODD = re.compile(r"\[\[|--|&&|\|\||~~")
"""What ``re`` warns of."""


@lru_cache(maxsize=4096)
def _tree(pattern: str) -> tuple[Any, ...] | None:
    """The pattern as ``re`` reads it, or None where the bound does not understand it."""
    if _ODD.search(pattern):
        return None
    try:
        # The package's own name for it; where it has another, every pattern goes to the worker.
        parser: Any = import_module("re._parser")
        parsed = parser.parse(pattern)
        if parsed.state.flags & ~re.UNICODE:
            return None
        return tuple(_plain(parsed))
    except (ImportError, AttributeError, TypeError, _Beyond, RecursionError):
        return None
    except (re.error, OverflowError, ValueError):
        return None


@lru_cache(maxsize=4096)
def _width(pattern: str) -> int:
    """How many characters its sets name: what compiling it takes grows with that."""
    found = re.findall(r"(.)-(.)|\\[uUx]", pattern, re.DOTALL)
    return sum([abs(ord(last) - ord(first)) if first else 65_536 for first, last in found])


class _Beyond(Exception):
    pass


def _plain(parsed: Any) -> Iterator[tuple[Any, ...]]:
    for operator, argument in parsed:
        name = str(operator)
        if name in ("LITERAL", "NOT_LITERAL", "IN", "ANY", "CATEGORY"):
            yield ("one",)
        elif name == "AT":
            yield ("start",) if str(argument) == "AT_BEGINNING" else ("at",)
        elif name == "SUBPATTERN":
            _, on, off, inner = argument
            if on or off:
                raise _Beyond
            yield ("group", tuple(_plain(inner)))
        elif name == "BRANCH":
            yield ("branch", tuple([tuple(_plain(inner)) for inner in argument[1]]))
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, inner = argument
            yield ("repeat", int(low), int(high), tuple(_plain(inner)))
        else:
            raise _Beyond


@lru_cache(maxsize=4096)
def _steps(pattern: str, length: int) -> float:
    """The most a search may try in ``length`` characters: the size of its whole search tree."""
    tree = _tree(pattern)
    if tree is None:
        return math.inf
    anchored = bool(tree) and tree[0] == ("start",)
    return _tried(tree, 1.0, length) * (1 if anchored else length + 1)


def _tried(tree: tuple[Any, ...], rest: float, length: int) -> float:
    """What ``tree`` and then ``rest`` may cost; ``rest`` is tried once for each way through."""
    for item in reversed(tree):
        if item[0] == "group":
            rest = _tried(item[1], rest, length)
        elif item[0] == "branch":
            rest = sum([_tried(branch, rest, length) for branch in item[1]])
        elif item[0] == "repeat":
            rest = _repeated(item[1], item[2], item[3], rest, length)
        rest += 1
        if rest > 1e12:
            return math.inf
    return rest


def _repeated(low: int, high: int, body: tuple[Any, ...], rest: float, length: int) -> float:
    times = min(high, max(length, low))
    once = _tried(body, 0.0, length)
    ways = _tried(body, 1.0, length) - once
    if not math.isfinite(once) or not math.isfinite(ways):
        return math.inf
    if ways <= 1:
        return once * (times + 1) + rest * (times - low + 1 if body == (("one",),) else times + 1)
    total = rest
    for _ in range(times):
        total = once + ways * total + rest
        if total > 1e12:
            return math.inf
    return total
