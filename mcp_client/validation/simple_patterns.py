"""Regular expressions whose search time is known before they run.

``re`` backtracks, so a short pattern can take years. A *simple* pattern cannot: wherever there is a
choice, the next character alone decides. What is repeated begins with other characters than what
may follow it; alternatives begin with different characters, or are fixed texts of which none
begins another. So a wrong choice fails after at most one look at each item of the pattern. Each
character that is read opens at most two choices a level of nesting. One attempt to match is
therefore linear in the text; a pattern that does not begin with ``^`` is attempted at every
character. Outside of groups, at most two repeats may be followed by what they could go on with, as
in ``[^@]+@[^@]+\\.[a-z]+``: each has as many ways to end as the text has characters, and multiplies
the bound by that.

The grammar: literals, ``.``, ASCII sets, ``\\d \\w \\s``, groups without flags or look-around,
alternatives, ``* + ? {n} {n,} {n,m}``, ``^`` first and ``$`` last. Whatever else a pattern has,
back-references and lazy repeats among it, makes it not simple. ``re`` compiles every simple pattern
without a warning and in time proportional to its length.

It runs in this process and in the worker, and imports nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

__all__ = ["SimplePattern", "simple_pattern"]

_MAX_CHARS = 300
_MAX_DEPTH = 8
_MAX_REPEAT = 9_999
_MAX_OVERLAPS = 2

# A set of characters is a bit mask: a bit for each ASCII character, and one for each kind of
# character beyond: a digit, another character of words, white space, any other.
_BEYOND_DIGIT, _BEYOND_WORD, _BEYOND_SPACE, _BEYOND_REST = [1 << 128 + kind for kind in range(4)]
_BEYOND = _BEYOND_DIGIT | _BEYOND_WORD | _BEYOND_SPACE | _BEYOND_REST
_ANY = (1 << 132) - 1


def _ascii(matches: Callable[[str], bool]) -> int:
    return sum([1 << code for code in range(128) if matches(chr(code))])


_DIGITS = _ascii(str.isdecimal) | _BEYOND_DIGIT
_WORDS = _ascii(lambda char: char.isalnum() or char == "_") | _BEYOND_DIGIT | _BEYOND_WORD
_SPACES = _ascii(str.isspace) | _BEYOND_SPACE
_CLASSES = {
    "d": _DIGITS,
    "D": _ANY & ~_DIGITS,
    "w": _WORDS,
    "W": _ANY & ~_WORDS,
    "s": _SPACES,
    "S": _ANY & ~_SPACES,
}
_DOT = _ANY & ~(1 << ord("\n"))
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
_SPECIAL = frozenset("\\^$.|?*+()[]{}")
_IN_SET = re.compile(r"\\(.)|([^\\\]\[&~|])", re.DOTALL)
_COUNT = re.compile(r"\{([0-9]{1,4})(,([0-9]{0,4}))?\}")


class SimplePattern(NamedTuple):
    """A pattern and what bounds its search."""

    source: str
    anchored: bool
    overlaps: int
    """Repeats that could go on where the next item begins."""
    steps_per_char: int

    def search_steps(self, chars: int) -> int:
        """The most steps that a search in a text of ``chars`` characters can take."""
        power = 1 + self.overlaps + (not self.anchored)
        steps: int = (chars + 1) ** power * self.steps_per_char
        return steps

    def chars_within(self, steps: int) -> int:
        """The longest text in which a search takes at most so many steps; -1 where none is."""
        low, high = -1, steps
        while low < high:
            middle = (low + high + 1) // 2
            if self.search_steps(middle) <= steps:
                low = middle
            else:
                high = middle - 1
        return low


class _NotSimple(Exception):
    pass


class _Part(NamedTuple):
    """A piece of a pattern."""

    first: int
    """The characters it may begin with."""
    may_be_empty: bool
    goes_on_with: int
    """The characters with which a repeat at its end would go on."""
    fixed: tuple[int, ...] | None = None
    """The characters it reads one after the other, where that is always the same number."""


_NOTHING = _Part(0, True, 0, ())


@lru_cache(maxsize=4096)
def simple_pattern(source: str) -> SimplePattern | None:
    """``source`` if it is simple, else None."""
    if len(source) > _MAX_CHARS:
        return None
    try:
        parser = _Parser(source)
        parser.parse()
    except _NotSimple:
        return None
    steps_per_char = 4 * (parser.levels + 1) * (parser.items + 2)
    return SimplePattern(source, parser.anchored, parser.overlaps, steps_per_char)


class _Parser:
    def __init__(self, source: str) -> None:
        self.anchored = source.startswith("^")
        self.overlaps = 0
        self.items = 0
        self.levels = 0
        self._source = source
        self._at = int(self.anchored)
        self._end = len(source)
        if source.endswith("$") and not source.endswith("\\$"):
            self._end -= 1

    def parse(self) -> None:
        self._alternatives(0)
        if self._at != self._end:
            raise _NotSimple

    def _next(self) -> str:
        return self._source[self._at] if self._at < self._end else ""

    def _alternatives(self, depth: int) -> _Part:
        """Branches of which at most one can match."""
        if depth > _MAX_DEPTH:
            raise _NotSimple
        self.levels = max(self.levels, depth)
        branches = [self._sequence(depth)]
        while self._next() == "|":
            if not depth:
                raise _NotSimple  # "^" and "$" would belong to one branch only
            self._at += 1
            branches.append(self._sequence(depth))
        if len(branches) == 1:
            return branches[0]
        first, goes_on_with = 0, 0
        for number, branch in enumerate(branches):
            if branch.may_be_empty or (
                first & branch.first
                and not all([_exclude_each_other(branch, one) for one in branches[:number]])
            ):
                raise _NotSimple
            first |= branch.first
            goes_on_with |= branch.goes_on_with
        return _Part(first, False, goes_on_with)

    def _sequence(self, depth: int) -> _Part:
        whole = _NOTHING
        while self._next() not in ("", "|", ")"):
            part = self._repeated(depth)
            if whole.goes_on_with & part.first:
                self.overlaps += 1
                if depth or self.overlaps > _MAX_OVERLAPS:
                    raise _NotSimple
            whole = _then(whole, part)
        return whole

    def _repeated(self, depth: int) -> _Part:
        part = self._item(depth)
        mark = self._next()
        low, high = 1, 1
        if mark and mark in "*+?":
            self._at += 1
            low, high = int(mark == "+"), 1 if mark == "?" else _MAX_REPEAT
        elif mark == "{":
            found = _COUNT.match(self._source, self._at, self._end)
            if found is None:
                raise _NotSimple
            self._at = found.end()
            low = int(found[1])
            high = low if found[2] is None else int(found[3]) if found[3] else _MAX_REPEAT
            if high < low or not high:
                raise _NotSimple
        else:
            return part
        if self._next() and self._next() in "*+?{":
            raise _NotSimple  # lazy or possessive
        return _repeat(part, low, high)

    def _item(self, depth: int) -> _Part:
        char = self._next()
        self._at += 1
        self.items += 1
        if char == "(":
            if self._next() == "?":
                if self._source[self._at : self._at + 2] != "?:":
                    raise _NotSimple
                self._at += 2
            part = self._alternatives(depth + 1)
            if self._next() != ")":
                raise _NotSimple
            self._at += 1
            return part
        if char == "[":
            return _one(self._set())
        if char == ".":
            return _one(_DOT)
        if char == "\\":
            return _one(self._escaped(self._next()))
        if not char or char in _SPECIAL:
            raise _NotSimple
        return _one(_bit(char))

    def _escaped(self, char: str) -> int:
        self._at += 1
        return _escape(char)

    def _set(self) -> int:
        source = self._source
        negated = self._next() == "^"
        self._at += negated
        closing = self._at
        members: list[int | str] = []
        while True:
            found = _IN_SET.match(source, closing, self._end)
            if found is None:
                break
            closing = found.end()
            members.append(_escape(found[1]) if found[1] else found[2])
        if not members or source[closing : closing + 1] != "]" or closing >= self._end:
            raise _NotSimple
        self._at = closing + 1
        mask = _union(members)
        if not negated:
            return mask
        # One character beyond ASCII stands for its whole kind: others of it are still there.
        literals = any([isinstance(one, str) and not one.isascii() for one in members])
        return (_ANY & ~mask) | (_BEYOND if literals else 0)


def _escape(char: str) -> int:
    if char in _CLASSES:
        return _CLASSES[char]
    if char in _ESCAPES:
        return _bit(_ESCAPES[char])
    if not char or char.isalnum() or not char.isascii() or char == "_" or char.isspace():
        raise _NotSimple  # a back-reference, a boundary, a code point, or an error
    return _bit(char)


def _union(members: list[int | str]) -> int:
    """The characters of a set. A ``str`` stood there as it is, an ``int`` was escaped.

    ``-`` is a range between two characters, and itself where it is first or last; what ``re``
    warns of (``--``) is not simple.
    """
    mask, at = 0, 0
    while at < len(members):
        one = members[at]
        if members[at + 1 : at + 2] == ["-"] and at + 2 < len(members):
            last = members[at + 2]
            if last == "-":
                raise _NotSimple
            low, high = _code(one), _code(last)
            if low > high:
                raise _NotSimple
            mask |= (1 << (high + 1)) - (1 << low)
            at += 3
            continue
        if one == "-" and 0 < at < len(members) - 1:
            raise _NotSimple
        mask |= one if isinstance(one, int) else _bit(one)
        at += 1
    return mask


def _code(member: int | str) -> int:
    """The code of the one ASCII character that ``member`` is."""
    mask = member if isinstance(member, int) else _bit(member)
    if mask & _BEYOND or mask.bit_count() != 1:
        raise _NotSimple
    return mask.bit_length() - 1


def _bit(char: str) -> int:
    return 1 << ord(char) if char.isascii() else _BEYOND


def _one(mask: int) -> _Part:
    return _Part(mask, False, 0, (mask,))


def _then(part: _Part, other: _Part) -> _Part:
    """``part`` and behind it ``other``."""
    first = part.first | other.first if part.may_be_empty else part.first
    goes_on_with = other.goes_on_with | (part.goes_on_with if other.may_be_empty else 0)
    fixed = None if part.fixed is None or other.fixed is None else part.fixed + other.fixed
    return _Part(first, part.may_be_empty and other.may_be_empty, goes_on_with, fixed)


def _repeat(part: _Part, low: int, high: int) -> _Part:
    if part.may_be_empty or (high > 1 and part.goes_on_with & part.first):
        raise _NotSimple
    goes_on_with = part.goes_on_with | (part.first if high > low else 0)
    return _Part(part.first, not low, goes_on_with)


def _exclude_each_other(one: _Part, other: _Part) -> bool:
    """Whether no text begins with both."""
    if one.fixed is None or other.fixed is None:
        return not one.first & other.first
    return any([not mine & its for mine, its in zip(one.fixed, other.fixed, strict=False)])
