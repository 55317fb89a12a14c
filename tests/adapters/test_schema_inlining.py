"""Each keyword of a tool's own schema, references inlined: what remains, and what is reported."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from mcp_client.adapters.schema_inlining import clean_data, clean_text, inline
from mcp_client.adapters.schema_merging import Effect, Notes

CASES = Path(__file__).with_name("inlining_cases.jsonl").read_text().splitlines()
"""Each line: a schema, the pattern of names that members may have, what becomes of it, the members'
new names with their own, and the notes, with ``+`` where more is accepted."""
CUT = "a part that is nested too deep or too large is cut"


def notes_in(notes: Notes) -> list[str]:
    return [one.replace(Effect.ACCEPTS_MORE.value, " +") for one in notes.sentences()]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_schema_inlined(number: int) -> None:
    schema, legal, *wanted = json.loads(CASES[number])
    found, names, notes = inline(schema, None if legal is None else re.compile(legal))
    assert [found, names, notes_in(notes)] == wanted
    assert type(found.get("minLength", 0)) is int


def is_cut(schema: dict[str, Any]) -> bool:
    _, _, notes = inline(schema)
    return any(one.startswith(CUT) for one in notes_in(notes))


def test_forty_levels_are_the_most() -> None:
    schemas = []
    for levels in (40, 41):
        schema: dict[str, Any] = {"type": "string"}
        for _ in range(levels):
            schema = {"items": schema}
        schemas.append(schema)
    assert [is_cut(schema) for schema in schemas] == [False, True]


def test_three_thousand_schemas_are_the_most() -> None:
    wide: list[dict[str, Any]] = [
        {"properties": {f"m{n}": {} for n in range(number)}} for number in (2_999, 3_000)
    ]
    assert [is_cut(schema) for schema in wide] == [False, True]


def test_of_a_text_twenty_thousand_characters_are_left() -> None:
    text = "x" * 20_000
    assert clean_text(text) == text
    assert clean_text(f"{text}yz") == f"{text} [2 more characters are left out]"
    assert clean_text("\ud800é") == "?é"
    for chars, wanted in ((20_000, []), (20_001, ["'description' is shortened"])):
        assert notes_in(inline({"description": "x" * chars})[2]) == wanted


def nested(levels: int, of: type) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if of is list else {"a": value}
    return value


@pytest.mark.parametrize("of", [list, dict])
def test_data_may_have_41_levels(of: type) -> None:
    assert clean_data(nested(41, of)) == nested(41, of)
    with pytest.raises(ValueError, match="too deep"):
        clean_data(nested(42, of))


def test_data_that_a_request_cannot_carry_is_refused() -> None:
    assert clean_data({"\ud800": ["\ud800", 1.5, 10**300, None, True]}) == {
        "?": ["?", 1.5, 10**300, None, True]
    }
    for value in (math.inf, math.nan, [-math.inf]):
        with pytest.raises(ValueError, match="not finite"):
            clean_data(value)
    for number in (10**301, -(10**301)):
        with pytest.raises(ValueError, match="too large"):
            clean_data(number)
    assert inline({"const": math.inf})[0] == {}


def test_of_the_places_of_a_change_four_are_named() -> None:
    notes = Notes()
    for number in range(4):
        notes.add("it goes", (f"{number}",))
        notes.add("it goes", (f"{number}",))
    assert notes.sentences() == ("it goes at /0, /1, /2, /3",)
    notes.add("it goes", ())
    assert notes.sentences() == ("it goes at /0, /1, /2, /3 and 1 more places",)
    notes.add("the root", ())
    notes.add("more", ("x" * 120,), Effect.ACCEPTS_MORE)
    assert notes.sentences()[1] == "the root"
    assert notes_in(notes)[2] == f"more at /{'x' * 119}… (1 more characters) +"
    assert notes.widened == 1


def test_a_change_without_a_note_of_its_own_is_noted() -> None:
    same: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"required": ["a"]}, {"required": ["b"]}),
        ({"not": {"type": "null"}}, {"not": {}}),
        ({"anyOf": [{}, {}]}, {"anyOf": [{"type": "null"}, {}]}),
        ({"properties": {"a": {}}}, {"properties": {"a": {"type": "null"}}}),
    ]
    other: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"type": "null"}, {}),
        ({"not": {"type": "null"}}, {}),
        ({"anyOf": [{}, {}]}, {"anyOf": [{}]}),
        ({"properties": {"a": {}}}, {"properties": {"b": {}}}),
        ({"additionalProperties": False}, {"additionalProperties": True}),
    ]
    for is_noted, pairs in ((False, same), (True, other)):
        for before, after in pairs:
            notes = Notes()
            notes.compare(before, after, ("p",))
            assert notes.sentences() == (("it is written another way at /p",) if is_noted else ())
    notes.compare({}, {"type": "null"}, ("p",))
    notes.add("it goes", ("q",))
    notes.compare({}, {"type": "null"}, ("q",))
    assert notes.sentences() == ("it is written another way at /p", "it goes at /q")
    notes.not_merged(["a", "b", "a"], ())
    assert [one.partition("' is")[0] for one in notes_in(notes)[2:]] == ["'a", "'b"]
