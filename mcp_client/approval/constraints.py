"""What arguments must be: places in them, and what must hold there.

```python
{"/path": {"glob": "/srv/*"}, "/lines": {"min": 1, "max": 100}, "/mode": {"in": ["r", "rb"]}}
```

A place is a JSON pointer (RFC 6901) into the arguments; the empty one is the arguments themselves.
Of what is asked about it, all must hold:

- ``equals``: it is this JSON value. 1 and 1.0 are one number; ``true`` is none.
- ``in``: it is one of these values.
- ``glob``: it is a text that the pattern matches as a whole: ``*`` is any text, ``?`` any
  character, ``[abc]`` one of these; upper and lower case differ. It knows nothing of paths: ``*``
  matches slashes, and ``/srv/*`` matches ``/srv/../etc/passwd``.
- ``min``, ``max``: it is a number and not below, not above.

Where there is nothing at that place, or nothing that can be asked this (``glob`` of a number,
``max`` of a text), the answer is neither yes nor no.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ..errors import ConfigError
from ..protocol.canonical_json import FrozenObject, NotJson, canonical_of, frozen, plain
from ..runtime.safe_text import safe_text

__all__ = ["Constraints", "glob"]

Test: TypeAlias = Callable[[Any], bool | None]

_NOTHING: Any = object()
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class Constraints:
    """Checked once, when made; raises ``ConfigError`` for what is no set of constraints."""

    __slots__ = ("_tests", "wanted")

    wanted: Mapping[str, Any]
    """As they were given, deeply immutable."""

    def __init__(self, wanted: Mapping[str, Mapping[str, Any]] | None) -> None:
        try:
            value = plain({} if wanted is None else wanted)
            canonical_of(value)  # NaN is no JSON either
            self.wanted = frozen(value)
        except NotJson as error:
            raise ConfigError(f"a constraint is no JSON: {error}") from None
        if type(self.wanted) is not FrozenObject:
            raise ConfigError('constraints are a mapping: {"/path": {"glob": "/srv/*"}}')
        self._tests = tuple(_parsed(place, asked) for place, asked in self.wanted.items())

    def __bool__(self) -> bool:
        return bool(self._tests)

    def __eq__(self, other: object) -> bool:
        return type(other) is Constraints and self.wanted == other.wanted

    def __hash__(self) -> int:
        return hash(tuple(self.wanted))

    def __repr__(self) -> str:
        return f"Constraints({json.dumps(self.wanted)})"

    def __str__(self) -> str:
        """On one line, safe to show."""
        return ", ".join(
            f"{place or 'arguments'} {word} {json.dumps(value, ensure_ascii=False)}"
            for place, asked in self.wanted.items()
            for word, value in asked.items()
        )

    def hold(self, arguments: Any) -> bool | None:
        """Whether all hold; None where none is broken and one cannot be told."""
        verdict: bool | None = True
        for steps, tests in self._tests:
            value = _at(arguments, steps)
            for test in tests:
                said = None if value is _NOTHING else test(value)
                if said is False:
                    return False
                if said is None:
                    verdict = None
        return verdict


def glob(pattern: str) -> Callable[[str], object]:
    """A function that tells whether ``pattern`` matches the whole of a text."""
    return re.compile(fnmatch.translate(pattern)).match


# ------------------------------------------------------------------- what is asked


def _parsed(place: str, asked: Any) -> tuple[tuple[str, ...], tuple[Test, ...]]:
    shown = safe_text(place, 80)
    if place and (not place.startswith("/") or re.search(r"~(?![01])", place)):
        raise ConfigError(
            f"{shown!r} is no JSON pointer: write '/' and the name of the argument; '~' in it is "
            "'~0' and '/' is '~1'"
        )
    if type(asked) is not FrozenObject or not asked:
        raise ConfigError(f'{shown!r}: say what must hold there, as in {{"equals": 1}}')
    steps = tuple(step.replace("~1", "/").replace("~0", "~") for step in place.split("/")[1:])
    tests: list[Test] = []
    for word, wanted in asked.items():
        make = _WORDS.get(word)
        if make is None:
            raise ConfigError(
                f"{shown!r}: there is no {safe_text(word, 40)!r}; it is one of {', '.join(_WORDS)}"
            )
        try:
            tests.append(make(wanted))
        except TypeError as error:
            raise ConfigError(f"{shown!r}: {word!r} takes {error}") from None
    return steps, tuple(tests)


def _equals(wanted: Any) -> Test:
    return lambda value: _same(value, wanted)


def _in(wanted: Any) -> Test:
    if type(wanted) is not tuple or not wanted:
        raise TypeError("a list of at least one value")
    return lambda value: any(_same(value, one) for one in wanted)


def _glob(wanted: Any) -> Test:
    if type(wanted) is not str:
        raise TypeError("a pattern, which is a text")
    match = glob(wanted)
    return lambda value: match(value) is not None if type(value) is str else None


def _min(wanted: Any) -> Test:
    least = _number(wanted)
    return lambda value: value >= least if type(value) in (int, float) else None


def _max(wanted: Any) -> Test:
    most = _number(wanted)
    return lambda value: value <= most if type(value) in (int, float) else None


def _number(value: Any) -> int | float:
    if type(value) not in (int, float) or value != value or abs(value) == float("inf"):
        raise TypeError("a number")
    number: int | float = value
    return number


_WORDS: dict[str, Callable[[Any], Test]] = {
    "equals": _equals,
    "in": _in,
    "glob": _glob,
    "min": _min,
    "max": _max,
}


# ------------------------------------------------------------------- what is there


def _at(value: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step, _NOTHING)
        elif isinstance(value, tuple | list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return _NOTHING
    return value


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal, for which Python takes True and 1 to be."""
    if type(one) is bool or type(other) is bool:
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
