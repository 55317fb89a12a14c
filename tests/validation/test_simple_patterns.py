"""Simple patterns are simple: their search is bounded, and ``re`` compiles them in silence."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.validation.known_cost import simple_pattern
from tests.support.properties import examples

SIMPLE = [
    "",
    "^$",
    "^[a-z0-9-]+$",
    r"^\d{4}-\d{2}-\d{2}$",
    "^#[0-9a-fA-F]{6}$",
    "^(foo|bar|baz)$",
    "^https?://",
    r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
    r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$",
    "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
    r"^\+?[1-9]\d{1,14}$",
    r"^\s*\S+\s*$",
    "^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$",
    "[--a]",
    "é+",
    "a|b",
    "ab|cd",
    "a{,3}",
    r"\u0041",
]
NOT_SIMPLE = [
    "^(a+)+$",
    "^(a|a)*$",
    "^(a|aa)+$",
    "^(foo|foobar)$",
    "^([a-z]+)*$",
    "(x+x+)+y",
    r"^(\w+\s?)*$",
    r"(.*)*\1",
    "^(a?){64}a{64}$",
    "^(?=(a+)+$)",
    "(?i)^a+$",
    "a*?b",
    "a++b",
    "a*a*a*a*b",
    "(((a{0,99}){0,99}){0,99})b",
    "^ab|cd",
    "ab|cd$",
    "a^",
    r"\bword",
    "[é-ü]",
    "[\u0101-\uffff]",
    "[[:alpha:]]",
    "[a--b]",
    "[+--]",
    "[a&&b]",
    "[a||b]",
    "[a~~b]",
    "[",
    "(",
    ")",
    "*",
    "a{2,1}",
    "a{99999}",
    "a" * 301,
]


@pytest.mark.parametrize("source", SIMPLE)
def test_the_patterns_people_write_are_simple(source: str) -> None:
    pattern = simple_pattern(source)
    assert pattern is not None
    re.compile(source)


@pytest.mark.parametrize("source", NOT_SIMPLE)
def test_patterns_that_may_run_away_or_warn_are_not(source: str) -> None:
    assert simple_pattern(source) is None


PIECES = st.sampled_from(
    [
        *"ab-^$.|()[]*+?{},12ds~& é",
        *("\\", "[a-z]", "[^a]", "(?:", "\\d", "\\w+", "{2}", "{1,3}", "a*", "a?", "b+"),
        *("(a|b)*", "(ab|ba)", "(a|b)?", "[ab]+", "\\s*"),
    ]
)
PATTERNS = st.lists(PIECES, max_size=9).map("".join)


@pytest.mark.slow
@examples(1_500)
@given(PATTERNS, st.text("ab-1 \né", max_size=14), st.booleans())
def test_no_search_takes_more_steps_than_its_bound(source: str, text: str, whole: bool) -> None:
    if whole:
        source = f"^{source}$"
    pattern = simple_pattern(source)
    if pattern is not None:
        compiled = re.compile(source)  # warnings are errors here
        steps, found = counted_search(source, text)
        assert found is (compiled.search(text) is not None)
        assert steps <= pattern.search_steps(len(text)), source


def test_the_bound_holds_on_texts_made_to_hurt() -> None:
    for source in SIMPLE:
        pattern = simple_pattern(source)
        assert pattern is not None
        for text in ("a" * 40, "a@" * 20, "-" * 40, "a-" * 20 + "!", "1" * 40, " " * 40, "foo" * 9):
            steps, _ = counted_search(source, text)
            assert steps <= pattern.search_steps(len(text)), (source, text)


# A backtracking matcher as ``re`` is one, which counts what it tries.


def counted_search(source: str, text: str) -> tuple[int, bool]:
    """How many steps a search takes, and whether it finds anything."""
    parser: Any = import_module("re._parser")
    tree = [*parser.parse(source)]
    steps = 0

    def match(items: list[Any], at: int, then: Any) -> bool:
        nonlocal steps
        steps += 1
        if not items:
            return bool(then(at))
        (operator, argument), rest = items[0], items[1:]
        name = str(operator)
        if name == "AT":
            ends = at == len(text) or text[at:] == "\n"
            fits = at == 0 if str(argument) == "AT_BEGINNING" else ends
            return fits and match(rest, at, then)
        if name == "SUBPATTERN":
            return match([*argument[3]], at, lambda end: match(rest, end, then))
        if name == "BRANCH":
            return any(
                match([*branch], at, lambda end: match(rest, end, then)) for branch in argument[1]
            )
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, body = argument
            return repeat([*body], int(low), int(high), at, lambda end: match(rest, end, then))
        return at < len(text) and one(operator, argument, text[at]) and match(rest, at + 1, then)

    def repeat(body: list[Any], low: int, high: int, at: int, then: Any) -> bool:
        nonlocal steps
        steps += 1
        if high and match(
            body, at, lambda end: end > at and repeat(body, max(0, low - 1), high - 1, end, then)
        ):
            return True
        return not low and bool(then(at))

    def one(operator: Any, argument: Any, char: str) -> bool:
        name = str(operator)
        if name == "ANY":
            return char != "\n"
        if name in ("LITERAL", "NOT_LITERAL"):
            return (ord(char) == argument) is (name == "LITERAL")
        if name == "RANGE":
            return bool(argument[0] <= ord(char) <= argument[1])
        if name == "CATEGORY":
            kind = str(argument).rpartition("_")[2]
            is_in = {
                "DIGIT": char.isdecimal(),
                "SPACE": char.isspace(),
                "WORD": char.isalnum() or char == "_",
            }[kind]
            return is_in is ("_NOT_" not in str(argument))
        assert name == "IN"
        members = [*argument]
        negated = str(members[0][0]) == "NEGATE"
        return any(one(member[0], member[1], char) for member in members[negated:]) is not negated

    found = any(match(tree, start, lambda end: True) for start in range(len(text) + 1))
    return steps, found


@pytest.mark.parametrize("source", ["^a+$", "a+", "[^@]+@[^@]+"])
@pytest.mark.parametrize("steps", [0, 1, 50, 1_000, 1_000_000])
def test_the_longest_text_within_some_steps_is_the_longest(source: str, steps: int) -> None:
    pattern = simple_pattern(source)
    assert pattern is not None
    longest = pattern.chars_within(steps)
    assert longest == -1 or pattern.search_steps(longest) <= steps
    assert pattern.search_steps(longest + 1) > steps
