r"""Sizes of values and regular expressions whose cost is known before they are used.

``re`` backtracks, so a short pattern can take years. A *simple* pattern cannot: wherever there is a
choice, the next character alone decides. What is repeated begins with other characters than what
may follow it; alternatives begin with different characters, or are fixed texts of which none
begins another. So a wrong choice fails after at most one look at each item of the pattern. Each
character that is read opens at most two choices a level of nesting. One attempt to match is
therefore linear in the text; a pattern that does not begin with ``^`` is attempted at every
character. Outside of groups, at most two repeats may be followed by what they could go on with, as
in ``[^@]+@[^@]+\.[a-z]+``: each can end at every character of the text, and multiplies the bound by
their number.

A pattern is judged by the tree that ``re`` itself parses it to, and searches with: literals, ``.``,
ASCII sets, ``\d \w \s``, groups without flags or look-around, alternatives, ``* + ? {n,m}``,
``^`` first and ``$`` or ``\Z`` last. Whatever else is in the tree, back-references and lazy
repeats among it, makes a pattern not simple. ``re`` compiles every simple pattern without a warning
and in time proportional to its length.

All of it runs in this process and in the worker, and imports only the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

__all__ = ["SimplePattern", "Size", "has_at_most", "simple_pattern", "size_of"]

_MAX_CHARS = 300
_MAX_DEPTH = 8
_MAX_REPEAT = 9_999
_MAX_OVERLAPS = 2

_WARNED_OF = re.compile(r"(?<!\[)(?<!\[\^)--|&&|\|\||~~|\[\^?\[")
"""The sequences in a set of characters for which ``re`` warns."""

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
    "CATEGORY_DIGIT": _DIGITS,
    "CATEGORY_NOT_DIGIT": _ANY & ~_DIGITS,
    "CATEGORY_WORD": _WORDS,
    "CATEGORY_NOT_WORD": _ANY & ~_WORDS,
    "CATEGORY_SPACE": _SPACES,
    "CATEGORY_NOT_SPACE": _ANY & ~_SPACES,
}
_DOT = _ANY & ~(1 << ord("\n"))


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
    continues_with: int
    """The characters with which a repeat at its end would go on."""
    fixed: tuple[int, ...] | None = None
    """The characters it reads one after the other, where that is always the same number."""


_NOTHING = _Part(0, True, 0, ())


@lru_cache(maxsize=4096)
def simple_pattern(source: str) -> SimplePattern | None:
    """Return ``source`` if it is simple, else None."""
    if len(source) > _MAX_CHARS or _WARNED_OF.search(source):
        return None
    found = _Measure()
    try:
        tree = _tree(source)
        marks = [str(argument) for _, argument in tree]
        anchored = marks[:1] == ["AT_BEGINNING"]
        ends = marks[-1:] == ["AT_END"] or marks[-1:] == ["AT_END_STRING"]
        found.sequence(tree[anchored : len(tree) - ends], 0)
    except (_NotSimple, re.error, OverflowError, RecursionError):
        return None
    steps_per_char = 4 * (found.levels + 1) * (found.items + 2)
    return SimplePattern(source, anchored, found.overlaps, steps_per_char)


def _tree(source: str) -> list[Any]:
    try:
        tree: Any = import_module("re._parser").parse(source)
        flags = tree.state.flags
    except (ImportError, AttributeError):
        raise _NotSimple from None  # not a documented module: it may go in a version to come
    if flags & ~re.UNICODE:
        raise _NotSimple
    return [*tree]


class _Measure:
    """Goes through the tree of a pattern, and counts what bounds its search."""

    def __init__(self) -> None:
        self.overlaps = 0
        self.items = 0
        self.levels = 0

    def sequence(self, nodes: Iterable[Any], depth: int) -> _Part:
        if depth > _MAX_DEPTH:
            raise _NotSimple
        self.levels = max(self.levels, depth)
        whole = _NOTHING
        for operator, argument in nodes:
            part = self._item(str(operator), argument, depth)
            if whole.continues_with & part.first:
                self.overlaps += 1
                if depth or self.overlaps > _MAX_OVERLAPS:
                    raise _NotSimple
            whole = _then(whole, part)
        return whole

    def _item(self, operator: str, argument: Any, depth: int) -> _Part:
        if operator == "MAX_REPEAT":
            low, high, body = argument
            (one,) = body if len(body) == 1 else [("SUBPATTERN", (None, 0, 0, body))]
            return _repeat(self._item(str(one[0]), one[1], depth), low, high)
        self.items += 1
        if operator == "SUBPATTERN":
            _, flags_set, flags_cleared, body = argument
            if flags_set or flags_cleared:
                raise _NotSimple
            return self.sequence(body, depth + 1)
        if operator == "BRANCH":
            return _either([self.sequence(branch, depth + 1) for branch in argument[1]])
        mask = _characters(operator, argument)
        return _Part(mask, False, 0, (mask,))


def _characters(operator: str, argument: Any) -> int:
    """The characters that a node of the tree reads one of."""
    match operator:
        case "LITERAL":
            return 1 << argument if argument < 128 else _BEYOND
        case "NOT_LITERAL":
            return _ANY & ~(1 << argument) if argument < 128 else _ANY
        case "ANY":
            return _DOT
        case "CATEGORY" if str(argument) in _CLASSES:
            return _CLASSES[str(argument)]
        case "RANGE" if argument[1] < 128:
            low, high = int(argument[0]), int(argument[1])
            return (1 << (high + 1)) - (1 << low)
        case "IN":
            members = [(str(kind), value) for kind, value in argument]
            negated = members[0][0] == "NEGATE"
            mask = 0
            for kind, value in members[negated:]:
                mask |= _characters(kind, value)
            if not negated:
                return mask
            # One character beyond ASCII represents its whole kind: others of it are still there.
            literals = any([kind == "LITERAL" and value >= 128 for kind, value in members[1:]])
            return (_ANY & ~mask) | (_BEYOND if literals else 0)
    raise _NotSimple  # a boundary, an anchor within, a back-reference, a look-around


def _either(branches: list[_Part]) -> _Part:
    """Branches of which at most one can match."""
    first, continues_with = 0, 0
    for number, branch in enumerate(branches):
        if branch.may_be_empty or (
            first & branch.first
            and not all([_exclude_each_other(branch, one) for one in branches[:number]])
        ):
            raise _NotSimple
        first |= branch.first
        continues_with |= branch.continues_with
    return _Part(first, False, continues_with)


def _then(part: _Part, other: _Part) -> _Part:
    """``part`` and behind it ``other``."""
    first = part.first | other.first if part.may_be_empty else part.first
    continues_with = other.continues_with | (part.continues_with if other.may_be_empty else 0)
    fixed = None if part.fixed is None or other.fixed is None else part.fixed + other.fixed
    return _Part(first, part.may_be_empty and other.may_be_empty, continues_with, fixed)


def _repeat(part: _Part, low: int, high: int) -> _Part:
    if low > _MAX_REPEAT or not high or (high > _MAX_REPEAT and str(high) != "MAXREPEAT"):
        raise _NotSimple
    if part.may_be_empty or (high > 1 and part.continues_with & part.first):
        raise _NotSimple
    continues_with = part.continues_with | (part.first if high > low else 0)
    return _Part(part.first, not low, continues_with)


def _exclude_each_other(one: _Part, other: _Part) -> bool:
    """Whether no text begins with both."""
    if one.fixed is None or other.fixed is None:
        return not one.first & other.first
    return any([not mine & its for mine, its in zip(one.fixed, other.fixed, strict=False)])


class Size(NamedTuple):
    """The size of a value."""

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
