"""The cheap look at a schema never calls a broken one sound, and knows the ordinary ones."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.validation.schema_shape import is_known_dialect, survey

LEAVES = st.sampled_from([None, True, False, -1, 0, 2, "", "string", "objekt", "[", "a"])
KEYWORDS = """
    type properties required items enum pattern anyOf minimum multipleOf minLength $ref $defs
    patternProperties dependentRequired title default const uniqueItems not additionalProperties
    prefixItems description examples readOnly format
"""
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS.split()), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "dialect",
    [
        None,
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
@given(schema=VALUES)
def test_what_is_called_sound_is_sound_to_jsonschema(dialect: str | None, schema: Any) -> None:
    judge: Any = jsonschema.Draft202012Validator
    if dialect is not None and type(schema) is dict:
        schema = {"$schema": dialect, **schema}
        judge = jsonschema.validators.validator_for(schema)
    if survey(schema, []):
        judge.check_schema(schema)


SOUND: list[Any] = [
    True,
    {},
    {"type": "object", "additionalProperties": False},
    {"type": ["string", "null"], "pattern": "^[a-z]+$", "maxLength": 5},
    {"$defs": {"n": {"type": "integer", "minimum": 0}}, "items": {"$ref": "#/$defs/n"}},
    {"anyOf": [{"const": 1}, {"enum": ["a", None]}], "default": None, "examples": [1]},
    {"properties": {"a": {"x-mcp-header": "A", "description": "d"}}, "required": ["a"]},
    {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {}},
]


@pytest.mark.parametrize("schema", SOUND)
def test_an_ordinary_schema_needs_no_full_judgement(schema: Any) -> None:
    assert survey(schema, [])


BROKEN: list[Any] = [
    {"required": ["a", "a"]},
    {"required": "a"},
    {"required": [1]},
    {"type": ["string", "string"]},
    {"type": []},
    {"enum": "a"},
    {"anyOf": []},
    {"anyOf": {}},
    {"minLength": -1},
    {"minimum": "1"},
    {"multipleOf": 0},
    {"uniqueItems": 1},
    {"pattern": "["},
    {"patternProperties": {"[": {}}},
    {"properties": {"a": []}},
    {"$defs": {"a": 1}},
    {"not": None},
    {"description": 1},
    {"$ref": 1},
    {"dependentRequired": {"a": ["b", "b"]}},
    None,
    [],
    "object",
]


@pytest.mark.parametrize("schema", BROKEN)
def test_a_broken_schema_is_never_called_sound(schema: Any) -> None:
    assert not survey(schema, [])


def test_what_a_model_would_read_is_gathered() -> None:
    texts: list[str] = []
    schema = {
        "title": "T",
        "properties": {"path": {"description": "D", "enum": ["E", 1], "default": "F"}},
        "items": {"anyOf": [{"description": "G"}]},
    }
    assert survey(schema, texts)
    assert set(texts) == {"T", "path", "D", "E", "F", "G"}


def test_a_schema_that_is_too_deep_is_left_to_the_full_judgement() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"items": schema}
    assert not survey(schema, [])


def test_dialects_that_can_be_judged_are_known() -> None:
    assert is_known_dialect({})
    assert is_known_dialect({"$schema": "http://json-schema.org/draft-04/schema#"})
    assert not is_known_dialect({"$schema": "https://example.com/own"})
    assert not is_known_dialect({"$schema": 7})
