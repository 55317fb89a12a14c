"""Constraints on arguments: paths into the arguments, and conditions on the values there.

```python
{"/path": {"glob": "/srv/*"}, "/lines": {"min": 1, "max": 100}, "/mode": {"in": ["r", "rb"]}}
```

A path is a JSON pointer (RFC 6901) into the arguments; the empty path is the arguments themselves.
A step ``*`` into an array matches each of its elements: ``/paths/*``. All conditions on a path must
be met:

- ``equals``: the value is this JSON value. 1 and 1.0 are one number; ``true`` is not a number.
- ``in``: the value is one of these.
- ``glob``: the value is a string that the pattern matches completely: ``*`` is any text, ``?`` any
  character, ``[abc]`` one of these; upper and lower case differ. Patterns do not understand paths:
  ``*`` matches slashes, and ``/srv/*`` matches ``/srv/../etc/passwd``.
- ``min``, ``max``: the value is a number that is not below, or not above.

The result is true, false or undecided. It is undecided if a server might parse the value as the
expected one. That is possible if the value is missing, or has another type: ``"true"`` for
``true``, 1 for ``"1"``. It is also possible for two numbers that 64-bit floats cannot distinguish.
With ``*`` the result is true if every element of a non-empty array meets the conditions, false if
no element does, and otherwise undecided.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ..errors import ConfigError
from ..protocol import json_paths as json_pointer
from ..protocol.canonical_json import FrozenObject, NotJson, canonical_of, frozen, plain
from ..runtime.safe_text import safe_text

__all__ = ["Constraints", "glob"]

Test: TypeAlias = Callable[[Any], bool | None]

_NOTHING: Any = object()
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class Constraints:
    """A set of constraints, checked on creation; raises ``ConfigError`` if malformed."""

    __slots__ = ("_tests", "wanted")

    wanted: Mapping[str, Any]
    """The constraints as they were passed in, deeply immutable."""

    def __init__(self, wanted: Mapping[str, Mapping[str, Any]] | None) -> None:
        try:
            value = plain({} if wanted is None else wanted)
            canonical_of(value)  # NaN is not JSON either
            self.wanted = frozen(value)
        except NotJson as error:
            raise ConfigError(f"a constraint is not JSON: {error}") from None
        if type(self.wanted) is not FrozenObject:
            raise ConfigError('constraints are a mapping: {"/path": {"glob": "/srv/*"}}')
        self._tests = tuple(_parsed(path, asked) for path, asked in self.wanted.items())

    def __bool__(self) -> bool:
        return bool(self._tests)

    def __str__(self) -> str:
        """On one line, safe to show."""
        return ", ".join(
            f"{path or 'arguments'} {word} {json.dumps(value, ensure_ascii=False)}"
            for path, asked in self.wanted.items()
            for word, value in asked.items()
        )

    def hold(self, arguments: Any) -> bool | None:
        """Return whether the arguments meet all constraints; None if that is undecided."""
        verdict: bool | None = True
        for steps, tests in self._tests:
            for test in tests:
                result = _ask(test, arguments, steps)
                if result is False:
                    return False
                if result is None:
                    verdict = None
        return verdict


def glob(pattern: str) -> Callable[[str], object]:
    """Return a function that returns whether ``pattern`` matches a whole string."""
    return re.compile(fnmatch.translate(pattern)).match


# ------------------------------------------------------------------- what is asked


def _parsed(path: str, asked: Any) -> tuple[tuple[str, ...], tuple[Test, ...]]:
    quoted = safe_text(path, 80)
    try:
        steps = json_pointer.parse(path)
    except ValueError:
        raise ConfigError(
            f"{quoted!r} is not a JSON pointer: write '/' and the name of the argument; '~' in it "
            "is '~0' and '/' is '~1'"
        ) from None
    if type(asked) is not FrozenObject or not asked:
        raise ConfigError(f'{quoted!r} has no condition: write one, such as {{"equals": 1}}')
    tests: list[Test] = []
    for word, wanted in asked.items():
        make = _WORDS.get(word)
        if make is None:
            raise ConfigError(
                f"{quoted!r}: unknown constraint {safe_text(word, 40)!r}; "
                f"use one of {', '.join(_WORDS)}"
            )
        try:
            tests.append(make(wanted))
        except TypeError as error:
            raise ConfigError(f"{quoted!r}: {word!r} takes {error}") from None
    return steps, tuple(tests)


def _equals(wanted: Any) -> Test:
    return lambda value: _same(value, wanted)


def _in(wanted: Any) -> Test:
    if not isinstance(wanted, tuple) or not wanted:
        raise TypeError("a list of at least one value")
    return lambda value: _any(_same(value, one) for one in wanted)


def _glob(wanted: Any) -> Test:
    if type(wanted) is not str:
        raise TypeError("a pattern, which is a string")
    match = glob(wanted)
    return lambda value: match(value) is not None if type(value) is str else None


def _min(wanted: Any) -> Test:
    least = _number(wanted)
    return lambda value: _judged(value, least, value >= least) if _is_number(value) else None


def _max(wanted: Any) -> Test:
    most = _number(wanted)
    return lambda value: _judged(value, most, value <= most) if _is_number(value) else None


def _judged(value: Any, limit: Any, holds: bool) -> bool | None:
    """Return ``holds``, or None if only exact numbers distinguish the two."""
    return None if _equal_numbers(value, limit) is None else holds


def _number(value: Any) -> int | float:
    if not _is_number(value) or value != value or abs(value) == float("inf"):
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


def _ask(test: Test, value: Any, steps: Sequence[str]) -> bool | None:
    for number, step in enumerate(steps):
        if isinstance(value, dict):
            value = value.get(step, _NOTHING)
        elif not isinstance(value, tuple | list):
            return None
        elif step == "*":
            rest = steps[number + 1 :]
            return _all({_ask(test, element, rest) for element in value})
        elif _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
        if value is _NOTHING:
            return None
    return test(value)


def _all(answers: set[bool | None]) -> bool | None:
    return answers.pop() if len(answers) == 1 else None if answers else False


def _any(answers: Iterable[bool | None]) -> bool | None:
    none_holds = _every(None if result is None else not result for result in answers)
    return None if none_holds is None else not none_holds


def _same(one: Any, other: Any) -> bool | None:
    """Whether two JSON values are equal; None where a server might take one for the other."""
    if _is_number(one) and _is_number(other):
        return _equal_numbers(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        names = one.keys() | other.keys()
        return _every(_same_member(one, other, name) for name in names)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and _every(map(_same, one, other))
    if type(one) is not type(other):
        return None
    return bool(one == other)


def _same_member(one: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool | None:
    if name in one and name in other:
        return _same(one[name], other[name])
    # Many servers take null for a member that is missing.
    return None if one.get(name) is None and other.get(name) is None else False


def _every(answers: Iterable[bool | None]) -> bool | None:
    found: bool | None = True
    for result in answers:
        if result is False:
            return False
        if result is None:
            found = None
    return found


def _equal_numbers(one: Any, other: Any) -> bool | None:
    if one == other:
        return True
    return None if _as_float(one) == _as_float(other) else False


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)
