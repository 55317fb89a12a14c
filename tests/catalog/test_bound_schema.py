"""The input schema that is shown: the arguments that the host sets are taken out wherever the
schema speaks of them, and all else can still be given."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_client.catalog.bound_schema import declared, without
from tests.support.properties import examples

pytestmark = pytest.mark.one_backend

T: dict[str, Any] = {"type": "string"}


def visible_schema(schema: dict[str, Any], *names: str) -> dict[str, Any]:
    before = copy.deepcopy(schema)
    found = without(schema, names or ("tenant",))
    assert declared(before, names or ("tenant",))
    return found


def test_a_property_is_taken_out_with_all_that_refers_to_it() -> None:
    schema = {
        "type": "object",
        "properties": {"tenant": T, "title": T},
        "required": ["title", "tenant"],
        "additionalProperties": False,
        "minProperties": 2,
        "maxProperties": 2,
        "examples": [{"tenant": "acme", "title": "a"}],
        "default": {"tenant": "acme"},
    }
    assert visible_schema(schema) == {
        "type": "object",
        "properties": {"title": T},
        "required": ["title"],
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
        "examples": [{"title": "a"}],
        "default": {},
    }


def test_members_of_other_arguments_keep_the_name() -> None:
    inner = {"type": "object", "properties": {"tenant": T}, "required": ["tenant"]}
    schema = {"properties": {"tenant": T, "other": inner}, "required": ["other"]}
    assert visible_schema(schema) == {"properties": {"other": inner}, "required": ["other"]}


@pytest.mark.parametrize("keyword", ["$defs", "definitions"])
def test_where_a_reference_leads_it_is_taken_out_and_a_nested_use_keeps_its_own(
    keyword: str,
) -> None:
    args = {
        "type": "object",
        "properties": {"tenant": T, "child": {"$ref": f"#/{keyword}/Args"}},
        "required": ["tenant"],
    }
    found = visible_schema({"$ref": f"#/{keyword}/Args", keyword: {"Args": args}})
    assert found["$ref"] == "#/$defs/Args_"
    assert found["$defs"]["Args_"] == {
        "type": "object",
        "properties": {"child": {"$ref": f"#/{keyword}/Args"}},
    }
    assert found[keyword]["Args"] == args


def test_a_definition_that_nothing_refers_to_any_more_is_not_shown() -> None:
    args = {"type": "object", "properties": {"tenant": T, "title": T}}
    chain = {"allOf": [{"$ref": "#/$defs/Args"}]}
    found = visible_schema(
        {"$ref": "#/$defs/Chain", "$defs": {"Args": args, "Chain": chain, "Other": T}}
    )
    assert "tenant" not in json.dumps(found)
    assert declared(found, ["title"]) == ("title",)


def test_a_reference_into_what_was_taken_out_leads_to_a_copy() -> None:
    schema = {
        "properties": {
            "tenant": {"type": "string", "pattern": "^a", "$comment": "as zod writes it"},
            "owner": {"$ref": "#/properties/tenant"},
            "others": {"type": "array", "items": {"$ref": "#/properties/tenant"}},
        }
    }
    found = visible_schema(schema)
    owner = found["properties"]["owner"]
    assert owner == found["properties"]["others"]["items"]
    jsonschema.validate({"owner": "abc", "others": ["a"]}, found)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"owner": "b"}, found)


def test_what_depends_on_it_always_applies() -> None:
    schema = {
        "properties": {"tenant": T, "a": T, "b": T},
        "dependentRequired": {"tenant": ["a"], "a": ["tenant", "b"]},
        "dependentSchemas": {"tenant": {"properties": {"b": {"minLength": 2}}}},
        "dependencies": {"tenant": ["a", "b"]},
    }
    assert visible_schema(schema) == {
        "properties": {"a": T, "b": T},
        "required": ["a", "b"],
        "dependentRequired": {"a": ["b"]},
        "allOf": [{"properties": {"b": {"minLength": 2}}}],
    }


def test_options_that_it_distinguishes_are_not_exclusive_any_more() -> None:
    options = [
        {"properties": {"tenant": {"const": one}, "a": T}, "required": ["tenant"]} for one in "xy"
    ]
    found = visible_schema({"type": "object", "oneOf": options})
    jsonschema.validate({"a": "text"}, found)
    assert "tenant" not in json.dumps(found)


def test_a_condition_about_it_is_left_out_and_another_stays() -> None:
    about = {"properties": {"tenant": {"const": "x"}}}
    other = {"properties": {"a": {"const": "x"}}, "required": ["a"]}
    then = {"required": ["b", "tenant"]}
    schema = {
        "properties": {"tenant": T, "a": T, "b": T},
        "if": about,
        "then": then,
        "not": about,
        "allOf": [{"if": other, "then": then}],
    }
    assert visible_schema(schema) == {
        "properties": {"a": T, "b": T},
        "allOf": [{"if": other, "then": {"required": ["b"]}}],
    }


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({}, ()),
        ({"properties": []}, ()),
        ({"patternProperties": {"^tenant$": T}}, ()),
        ({"properties": {"a": {"properties": {"tenant": T}}}}, ()),
        ({"allOf": [{"anyOf": [{"properties": {"tenant": T}}]}]}, ("tenant",)),
        ({"if": {}, "then": {"properties": {"tenant": T}}}, ("tenant",)),
        (
            {"$ref": "#a", "$defs": {"a": {"$anchor": "a", "properties": {"tenant": T}}}},
            ("tenant",),
        ),
        ({"$ref": "#"}, ()),
        ({"$ref": "#/nowhere"}, ()),
        ({"$ref": "https://example.com/schema"}, ()),
    ],
)
def test_what_is_declared(schema: dict[str, Any], found: tuple[str, ...]) -> None:
    assert declared(schema, ("tenant",)) == found


def test_a_schema_of_many_references_takes_time_in_proportion() -> None:
    names = [f"d{number}" for number in range(1_000)]
    defs: dict[str, Any] = {
        name: {"allOf": [{"$ref": f"#/$defs/{after}"}] * 2} for name, after in pairwise(names)
    }
    defs[names[-1]] = {"properties": {"tenant": T}}
    found = visible_schema({"$ref": "#/$defs/d0", "$defs": defs})
    assert len(json.dumps(found)) < 2 * len(json.dumps(defs))


keys = st.sampled_from(["tenant", "a", "b"])
values = st.sampled_from(["x", "y", 1, None])
leaves = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.dictionaries(keys, st.fixed_dictionaries({"const": values}) | st.just({})),
        "required": st.lists(keys, unique=True, max_size=2),
        "minProperties": st.integers(0, 3),
        "maxProperties": st.integers(0, 3),
        "dependentRequired": st.dictionaries(keys, st.lists(keys, unique=True, max_size=2)),
        "additionalProperties": st.booleans(),
        "$ref": st.sampled_from(["#/$defs/one", "#/$defs/two", "#/properties/tenant"]),
        "enum": st.lists(st.dictionaries(keys, values), min_size=1, max_size=2),
    },
)
nested = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda one, other: {**one, **other},
        leaves,
        st.dictionaries(
            st.sampled_from(["allOf", "anyOf", "oneOf"]), st.lists(inner, min_size=1, max_size=2)
        )
        | st.dictionaries(st.sampled_from(["if", "then", "else", "not"]), inner)
        | st.fixed_dictionaries({"dependentSchemas": st.dictionaries(keys, inner)}),
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(nested, leaves, leaves, st.dictionaries(keys, values), values)
@example({"oneOf": [{"required": ["tenant"]}, {}]}, {}, {}, {}, "x")
@example({"not": {"maxProperties": 1}}, {}, {}, {"a": "x"}, "x")
@examples(300)
def test_what_the_server_accepts_can_be_given_by_who_sees_the_rest(
    schema: dict[str, Any],
    one: dict[str, Any],
    two: dict[str, Any],
    others: dict[str, Any],
    tenant: Any,
) -> None:
    others.pop("tenant", None)
    one.pop("$ref", None)
    two.pop("$ref", None)
    properties = {"tenant": {}, **schema.get("properties", {})}
    whole = {**schema, "properties": properties, "$defs": {"one": one, "two": two}}
    accepted = jsonschema.Draft202012Validator(whole).is_valid({**others, "tenant": tenant})
    found = without(copy.deepcopy(whole), ["tenant"])
    assert "tenant" not in found["properties"]
    is_valid = jsonschema.Draft202012Validator(found).is_valid(others)  # no reference is broken
    assert is_valid or not accepted


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["tenant", "#", "#/properties/a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("properties", "required", "allOf", "oneOf", "if", "not", "$ref", "$defs"),
                    *("dependentRequired", "dependentSchemas", "dependencies", "definitions"),
                    *("minProperties", "enum", "examples", "const", "$anchor", "tenant", "a"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["properties", "$ref", "$defs", "allOf"]), anything))
@examples(300)
def test_whatever_the_schema_is_there_is_one_to_show(schema: dict[str, Any]) -> None:
    declared(schema, ["tenant"])
    assert isinstance(without(schema, ["tenant"]), dict)
