"""The verdict on a schema by looking at it agrees with ``jsonschema``, both ways."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema.validators import validator_for

from mcp_client import Limits
from mcp_client.validation import schema_shape
from mcp_client.validation.schema_shape import (
    is_known_dialect,
    listed_schema_fault,
    survey_schema,
)
from tests.support.properties import examples

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
LEAVES = st.sampled_from([None, True, False, -1, 0, 2, 1.0, 0.5, "", "string", "objekt", "[", "a"])
KEYWORDS = [
    *("type", "properties", "required", "items", "enum", "pattern", "anyOf", "minimum", "if"),
    *("multipleOf", "minLength", "$ref", "$defs", "patternProperties", "dependentRequired"),
    *("title", "default", "const", "uniqueItems", "not", "additionalProperties", "prefixItems"),
    *("description", "examples", "readOnly", "format", "definitions", "dependencies", "$comment"),
    *("dependentSchemas", "minContains", "writeOnly", "contentSchema"),
]
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=3)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=8,
)
ORDINARY = {"type": "object", "properties": {"a": {"type": "string", "description": "A name."}}}
DIALECTS = [None, DRAFT_7, "https://json-schema.org/draft/2020-12/schema"]


def is_schema(schema: Any) -> bool:
    """The verdict of ``jsonschema``."""
    judge: Any = jsonschema.Draft202012Validator
    if type(schema) is dict:
        judge = validator_for(schema, default=judge)
    try:
        judge.check_schema(schema)
    except jsonschema.SchemaError:
        return False
    return True


@pytest.mark.parametrize("dialect", DIALECTS)
@given(schema=VALUES)
@example(schema={"$defs": {"a": {"type": 7}}})
@example(schema={"items": [{"type": 7}]})
@example(schema={"items": []})
@example(schema={"definitions": {"a": {"prefixItems": [{"required": 1}]}}})
@examples(400)
def test_what_is_called_sound_or_broken_is_so_to_jsonschema(
    dialect: str | None, schema: Any
) -> None:
    if dialect is not None and type(schema) is dict:
        schema = {"$schema": dialect, **schema}
    survey = survey_schema(schema, Limits())
    if survey.is_sound():
        assert is_schema(schema)
    if survey.fault:
        assert not is_schema(schema)


@given(schema=VALUES)
@examples(300)
def test_the_short_cut_for_lists_states_what_the_whole_survey_states(schema: Any) -> None:
    texts: list[str] = []
    survey = survey_schema(schema, Limits())
    assert listed_schema_fault(schema, Limits(), texts) == survey.fault
    assert set(texts) == set(survey.texts)


SOUND: list[Any] = [
    True,
    {},
    {"type": "object", "additionalProperties": False},
    {"type": ["string", "null"], "pattern": "^[a-z]+$", "maxLength": 5},
    {"$defs": {"n": {"type": "integer", "minimum": 0}}, "items": {"$ref": "#/$defs/n"}},
    {"anyOf": [{"const": 1}, {"enum": ["a", None]}], "default": None, "examples": [1]},
    {"properties": {"a": {"x-mcp-header": "A", "description": "d"}}, "required": ["a"]},
    {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {}},
    {"$schema": DRAFT_7, "$id": "https://example.com/tool.json", "type": "object"},
    {"prefixItems": [{"type": "string"}], "dependentRequired": {"a": ["b"]}, "maxItems": 2.0},
    {"properties": {"kids": {"items": {"$ref": "#"}}}},
]


@pytest.mark.parametrize("schema", SOUND)
def test_an_ordinary_schema_needs_no_jsonschema(schema: Any) -> None:
    assert survey_schema(schema, Limits()).is_sound()


BROKEN: list[tuple[Any, str]] = [
    ({"required": ["a", "a"]}, "required: expected an array of different names, got an array"),
    ({"required": "a"}, "got 'a'"),
    ({"required": [1]}, "required"),
    ({"type": ["string", "string"]}, "type"),
    ({"type": []}, "type"),
    ({"properties": {"a": {"items": 1, "type": "x"}}}, "of a: expected"),
    ({"enum": "a"}, "enum: expected an array"),
    ({"anyOf": []}, "anyOf: expected an array of schemas"),
    ({"anyOf": {}}, "anyOf"),
    ({"minLength": -1}, "got -1"),
    ({"minimum": "1"}, "minimum: expected a number"),
    ({"minimum": True}, "got true"),
    ({"multipleOf": 0}, "multipleOf"),
    ({"uniqueItems": 1}, "uniqueItems"),
    ({"properties": {"a": []}}, "properties"),
    ({"properties": None}, "got null"),
    ({"$defs": {"a": 1}}, "$defs"),
    ({"not": None}, "not: expected a schema, got null"),
    ({"description": 1}, "description: expected a text"),
    ({"$ref": 1}, "$ref"),
    ({"maxLength": 10**4400}, ""),
    ({"minimum": {"a": 10**4400}}, "got an object"),
    ({"items": [{}]}, "items: expected a schema"),
    ({"dependentRequired": {"a": ["b", "b"]}}, "dependentRequired"),
    ({"prefixItems": [3]}, "prefixItems"),
    (None, "a schema is a JSON object, true or false"),
    ([], "a schema is a JSON object"),
    ("object", "a schema is a JSON object"),
]


@pytest.mark.parametrize(("schema", "expected"), BROKEN)
def test_a_broken_schema_is_named_with_its_fault(schema: Any, expected: str) -> None:
    survey = survey_schema(schema, Limits())
    assert expected in survey.fault
    assert survey.is_sound() is not bool(expected)


DOUBTFUL: list[Any] = [
    {"pattern": "["},
    {"pattern": "^(a+)+$"},
    {"patternProperties": {"[": {}}},
    {"$ref": "#/nowhere"},
    {"$ref": "#/default", "default": {"type": "objekt"}},
    {"$ref": "http://example.com/"},
    {"$id": "urn:x"},
    {"properties": {"a": {"$id": "https://example.com/a"}}},
    {"$anchor": "a"},
    {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"},
    {"$schema": DRAFT_7, "items": [{}]},
    {"$schema": DRAFT_7, "$defs": {"a": 1}},
]


@pytest.mark.parametrize("schema", DOUBTFUL)
def test_what_only_jsonschema_can_judge_is_neither_sound_nor_broken(schema: Any) -> None:
    survey = survey_schema(schema, Limits())
    assert not survey.fault
    assert not survey.is_sound()


def test_what_a_model_would_read_is_gathered() -> None:
    schema = {
        "title": "T",
        "properties": {"path": {"description": "D", "enum": ["E", 1], "default": "F"}},
        "items": {"anyOf": [{"description": "G"}]},
        "required": ["path", "R"],
    }
    gathered = {"T", "path", "D", "E", "F", "G", "R"}
    assert set(survey_schema(schema, Limits()).texts) == gathered
    texts: list[str] = []
    assert listed_schema_fault(schema, Limits(), texts) == ""
    assert set(texts) == gathered


def test_texts_under_keywords_that_are_unknown_are_gathered_too() -> None:
    schema = {"x-note": "N", "x-more": {"a": ["deep"], "default": {"k": "v"}}, "type": 7}
    assert {"N", "deep", "a", "k", "v"} <= set(survey_schema(schema, Limits()).texts)


def test_a_schema_beyond_a_cap_is_left_to_its_call() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"items": schema}
    assert "Limits.schema_depth" in survey_schema(schema, Limits()).over_limit
    assert listed_schema_fault(schema, Limits(), []) == ""


def test_dialects_that_can_be_judged_are_known() -> None:
    assert is_known_dialect({})
    assert is_known_dialect(True)
    assert is_known_dialect({"$schema": "http://json-schema.org/draft-04/schema#"})
    assert not is_known_dialect({"$schema": "https://example.com/own"})
    assert not is_known_dialect({"$schema": 7})


def test_an_ordinary_schema_is_not_surveyed(monkeypatch: pytest.MonkeyPatch) -> None:
    surveyed: list[Any] = []

    def survey(schema: Any, limits: Limits) -> Any:
        surveyed.append(schema)
        return survey_schema(schema, limits)

    monkeypatch.setattr(schema_shape, "survey_schema", survey)
    deep: Any = ORDINARY
    for _ in range(20):
        deep = {"type": "object", "properties": {"inner": deep}}
    for schema in (ORDINARY, {**ORDINARY, "if": {}}, deep):
        texts: list[str] = []
        assert listed_schema_fault(schema, Limits(), texts) == ""
        assert "A name." in texts
    assert surveyed == [{**ORDINARY, "if": {}}, deep]
