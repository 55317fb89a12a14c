"""Each keyword of a schema in the subset of a provider: what remains, what is written another way,
and what only the description contains."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_client.adapters.schema_merging import Effect, Notes
from mcp_client.adapters.schema_subset import Profile, Unsuitable, subset

TEXT = {"type": "string"}
NEVER: dict[str, Any] = {"not": {}}
NOTHING, NO_FORMATS = frozenset[str](), frozenset[str]()
BOUNDS = frozenset({"minimum", "maximum", "minItems", "minLength", "pattern"})
PROFILES = {
    "none": Profile("P", NOTHING, NO_FORMATS),
    "bounds": Profile("P", BOUNDS, frozenset({"date"})),
    "items": Profile("P", frozenset({"minItems", "maxItems"}), NO_FORMATS),
    "enums": Profile("P", NOTHING, NO_FORMATS, any_enum=True),
    "lists": Profile("P", NOTHING, NO_FORMATS, any_enum=True, type_lists=True),
    "strict": Profile("P", NOTHING, NO_FORMATS, strict=True),
    "strict lists": Profile("P", NOTHING, NO_FORMATS, any_enum=True, strict=True, type_lists=True),
    "strict optional": Profile("P", NOTHING, NO_FORMATS, strict=True, optional=True),
}

CASES = Path(__file__).with_name("subset_cases.jsonl").read_text().splitlines()
"""Each line: a profile, a schema, its subset, and its notes, with ``+`` where the subset accepts
more, and with ``-`` where it refuses more."""


def notes_in(notes: Notes) -> list[str]:
    more, less = Effect.ACCEPTS_MORE.value, Effect.REFUSES_MORE.value
    return [one.replace(more, " +").replace(less, " -") for one in notes.sentences()]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_schema_in_the_subset_of_a_profile(number: int) -> None:
    profile, schema, wanted, reported = json.loads(CASES[number])
    notes = Notes()
    found = subset(schema, PROFILES[profile], notes)
    assert json.loads(json.dumps(found)) == wanted  # its marks are tuples
    assert notes_in(notes) == reported


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({}, "it takes values of any type"),
        ({"anyOf": [TEXT, {"description": "d"}]}, "it takes values of any type"),
        ({"type": "array"}, "an array may have items of any type"),
        ({"type": "array", "items": NEVER}, "an array may have items of any type"),
        ({"enum": [[1], "a"]}, "a value has to be one of given objects or arrays"),
        ({"type": "object"}, "an object may have members of any name"),
        (
            {"type": "object", "properties": {}, "additionalProperties": True},
            "an object may have members of any name",
        ),
        (
            {"type": "object", "properties": {}, "additionalProperties": TEXT},
            "an object may have members of any name",
        ),
        (
            {"type": "object", "properties": {}, "patternProperties": {"^b": TEXT}},
            "members may have any name that matches a pattern",
        ),
    ],
)
def test_a_schema_that_strict_mode_cannot_have(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(Unsuitable, match=f"^{why}$"):
        subset(schema, PROFILES["strict"], Notes())


def nested(levels: int, around: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    schema: dict[str, Any] = TEXT
    for _ in range(levels):
        schema = around(schema)
    return schema


AROUND: dict[str, Callable[[Any], dict[str, Any]]] = {
    "items": lambda inner: {"type": "array", "items": inner},
    "properties": lambda inner: {"type": "object", "properties": {"a": inner}},
    "additionalProperties": lambda inner: {"type": "object", "additionalProperties": inner},
}
CUT = "a part that is nested too deep or too large is cut"


def is_cut(schema: dict[str, Any]) -> bool:
    notes = Notes()
    subset(schema, PROFILES["bounds"], notes)
    found = any(one.startswith(CUT) for one in notes_in(notes))
    assert bool(notes.widened) is found
    return found


@pytest.mark.parametrize("name", AROUND)
def test_forty_levels_are_the_most(name: str) -> None:
    assert [is_cut(nested(levels, AROUND[name])) for levels in (40, 41)] == [False, True]
    with pytest.raises(Unsuitable, match="too large or nested too deep"):
        subset(nested(41, AROUND["items"]), PROFILES["strict"], Notes())


def test_two_thousand_schemas_are_the_most() -> None:
    schemas = [
        {"type": "object", "properties": {f"m{n}": TEXT for n in range(number)}}
        for number in (1_999, 2_000)
    ]
    assert [is_cut(schema) for schema in schemas] == [False, True]


def test_bounds_beside_more_than_forty_alternatives_leave_these_to_the_description() -> None:
    for number, stored in ((40, True), (41, False)):
        options = [{"minLength": n} for n in range(number)]
        schema: dict[str, Any] = {"type": "string", "maxLength": 3, "anyOf": options}
        found = subset(schema, PROFILES["bounds"], Notes())
        assert ("anyOf" in found) is stored
        assert ("anyOf: " in found.get("description", "")) is not stored
        del schema["maxLength"]
        assert "anyOf" in subset(schema, PROFILES["bounds"], Notes())
