"""What a model is shown of a schema: acceptable to its provider, and never refusing what the tool
accepts, except where strict mode has to."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.adapters.zoo import ZOO
from tests.support.properties import examples
from tests.support.provider_shapes import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    PROVIDERS,
    RESPONSES,
    Provider,
    every_provider,
    strict_providers,
)
from tests.support.schemas import arguments, fits, object_schemas, tool_of


def offered(provider: Provider, schema: dict[str, Any], **options: Any) -> dict[str, Any]:
    kit = provider.toolset([tool_of(schema)], **options)
    return provider.schemas(kit)["tool"]


@functools.cache
def check_once(schema: str) -> None:
    """Several providers are shown the same; of thousands of members, this takes a second."""
    jsonschema.Draft202012Validator.check_schema(json.loads(schema))


def about_one_value(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """``schema``, and the schemas in it that are about the same value."""
    yield schema
    inner = [schema[keyword] for keyword in ("not", "if", "then", "else") if keyword in schema]
    inner += [one for keyword in ("allOf", "anyOf", "oneOf") for one in schema.get(keyword, ())]
    for one in [*inner, *schema.get("dependentSchemas", {}).values()]:
        yield from about_one_value(one)


def as_model(names: dict[str, str], schemas: list[Any], value: Any) -> Any:
    """The arguments ``value`` as a model would write them: with the members' other ``names``."""
    parts = [part for one in schemas if isinstance(one, dict) for part in about_one_value(one)]
    if isinstance(value, list):
        return [as_model(names, [part.get("items") for part in parts], item) for item in value]
    if not isinstance(value, dict):
        return value
    keywords = ("properties", "dependentSchemas", "required", "dependentRequired")
    mentioned = json.dumps(
        [
            part.get(keyword) if "equired" in keyword else [*part.get(keyword, ())]
            for part in parts
            for keyword in keywords
        ]
    )
    found = {}
    for old, item in value.items():
        new = names.get(old, old)
        new = new if json.dumps(new) in mentioned else old
        inner = [part["properties"].get(new) for part in parts if "properties" in part]
        others = [part.get("additionalProperties") for part in parts]
        found[new] = as_model(names, [one for one in inner if one is not None] or others, item)
    return found


@pytest.mark.slow
@every_provider
@examples(60)
@given(schema=object_schemas(), given_arguments=st.lists(arguments, min_size=3, max_size=3))
def test_what_the_shown_schema_refuses_the_tools_own_refuses(
    provider: Provider, schema: dict[str, Any], given_arguments: list[dict[str, Any]]
) -> None:
    tool = tool_of(schema)
    kit = provider.toolset([tool])
    found = provider.schemas(kit)["tool"]
    jsonschema.Draft202012Validator.check_schema(found)
    undo = kit.dialect.definition(tool, False).undo
    names = {} if undo is None else {old: new for new, old in undo.names.items()}
    for value in given_arguments:
        model = as_model(names, [found], value)
        if undo is not None:
            assert undo.apply(model) == value
        try:
            fitting = fits(schema, value)
        except Exception:  # a reference leads out of the schema
            continue
        if fitting:
            assert fits(found, model), kit.changes


ITSELF = {"$ref": "#/properties/a"}
WITH_X = {"type": "object", "properties": {"x": ITSELF}, "required": ["x"]}
CUT_WITHIN: dict[str, tuple[dict[str, Any], Any]] = {
    "not": ({"not": WITH_X}, {"x": {"x": 1}}),
    "oneOf": ({"oneOf": [WITH_X, {"type": "object"}]}, {"x": 5}),
    "oneOf beside anyOf": ({"oneOf": [WITH_X, {"type": "object"}], "anyOf": [{}]}, {"x": 5}),
    "if": ({"if": WITH_X, "then": False}, {"x": {"x": 1}}),
    "contains": (
        {"type": "array", "contains": ITSELF, "minContains": 0, "maxContains": 1},
        [[[], []], [[], []]],
    ),
    "unevaluatedProperties": ({"$ref": "#", "unevaluatedProperties": False}, {"a": {}}),
}
"""A schema that refers to itself where accepting more means accepting less; and what fits it."""


@every_provider
@pytest.mark.parametrize("name", CUT_WITHIN)
def test_a_cut_never_makes_a_schema_refuse_more(provider: Provider, name: str) -> None:
    member, value = CUT_WITHIN[name]
    schema = {"type": "object", "properties": {"a": member}}
    assert fits(schema, {"a": value})
    assert fits(offered(provider, schema), {"a": value})


@every_provider
@pytest.mark.parametrize("name", ZOO)
def test_a_hostile_schema_becomes_one_that_a_request_can_carry(
    provider: Provider, name: str
) -> None:
    for strict in (False, True):
        _check_carried(provider, provider.toolset([tool_of(ZOO[name])], strict=strict))


def _check_carried(provider: Provider, kit: Any) -> None:
    text = json.dumps(kit.tools, allow_nan=False, ensure_ascii=False)
    assert len(text.encode()) < 200_000
    found = provider.schemas(kit)["tool"]
    check_once(json.dumps(found))
    assert found["type"] == "object"
    assert not found.keys() & {"anyOf", "oneOf", "allOf", "not", "enum", "$ref", "$defs", "$schema"}
    assert not any("could not be converted" in change for change in kit.changes)
    json.dumps(kit.changes).encode()


@every_provider
def test_a_tool_whose_schema_is_acceptable_is_not_changed(provider: Provider) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Where"}},
        "required": ["city"],
    }
    kit = provider.toolset([tool_of(schema)])
    assert provider.schemas(kit) == {"tool": schema}
    assert kit.changes == ()


REFUSED_BY_GEMINI: dict[str, dict[str, Any]] = {
    "$schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string"},
    "type lists": {"type": ["string", "null"], "maxLength": 3},
    "$ref": {"$ref": "#/$defs/D"},
    "oneOf": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    "const": {"const": "a"},
    "integer enums": {"type": "integer", "enum": [1, 2]},
    "exclusiveMinimum": {"type": "integer", "exclusiveMinimum": 0},
    "an array without items": {"type": "array"},
    "allOf": {"allOf": [{"type": "string"}, {"minLength": 1}]},
}
GEMINI_TAKES = {
    *("type", "properties", "required", "items", "anyOf", "enum", "description", "title"),
    *("format", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"),
    *("pattern", "minProperties", "maxProperties", "additionalProperties"),
}


def keywords(schema: Any) -> set[str]:
    found = set(schema)
    for member in schema.get("properties", {}).values():
        found |= keywords(member)
    for option in schema.get("anyOf", ()):
        found |= keywords(option)
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            found |= keywords(schema[keyword])
    return found


@pytest.mark.parametrize("what", REFUSED_BY_GEMINI)
def test_gemini_is_given_nothing_that_it_refuses(what: str) -> None:
    member = REFUSED_BY_GEMINI[what]
    schema = {"type": "object", "properties": {"a": member}, "$defs": {"D": {"type": "string"}}}
    found = offered(GEMINI, schema)
    assert keywords(found) <= GEMINI_TAKES
    assert found["properties"]["a"]


@pytest.mark.parametrize("name", ZOO)
def test_gemini_is_given_nothing_that_it_refuses_of_a_hostile_schema(name: str) -> None:
    found = offered(GEMINI, ZOO[name])
    assert keywords(found) <= GEMINI_TAKES
    for member in re.findall(r'"properties": \{"(.*?)":', json.dumps(found)):
        assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", member)


def test_what_a_provider_does_not_take_is_reported_in_the_description() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "multipleOf": 5, "default": 10, "description": "How many"}
        },
    }
    kit = GEMINI.toolset([tool_of(schema)])
    member = GEMINI.schemas(kit)["tool"]["properties"]["n"]
    assert member == {"type": "integer", "description": "How many (multipleOf: 5; default: 10)"}
    more = "; the model's schema accepts more than the tool's"
    assert kit.changes == (
        f"tool 'tool': 'multipleOf' is moved to the description at /properties/n{more}",
        "tool 'tool': 'default' is moved to the description at /properties/n",
    )


@every_provider
def test_references_are_inlined_and_recursion_is_cut_and_reported(provider: Provider) -> None:
    node = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/Node"}},
        "required": ["name"],
    }
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": node},
    }
    kit = provider.toolset([tool_of(schema)])
    tree = provider.schemas(kit)["tool"]["properties"]["tree"]
    assert tree["properties"]["name"] == {"type": "string"}
    assert tree["properties"]["child"]["type"] == "object"
    assert "Node" in tree["properties"]["child"]["description"]
    assert any("'#/$defs/Node' is inlined at /properties/tree" in one for one in kit.changes)
    cut = [one for one in kit.changes if "recursive" in one]
    assert len(cut) == 1
    assert "/properties/tree/properties/child" in cut[0]
    assert cut[0].endswith("accepts more than the tool's")


@every_provider
def test_members_with_names_that_a_provider_refuses_come_back_under_their_own(
    provider: Provider,
) -> None:
    inner = {"type": "object", "properties": {"sort by": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"per page": {"type": "integer"}, "options": inner, "per_page": {}},
        "required": ["per page"],
    }
    kit = provider.toolset([tool_of(schema)])
    found = provider.schemas(kit)["tool"]
    pattern = {"anthropic": r"[a-zA-Z0-9_.-]{1,64}", "gemini": r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"}
    for name in (*found["properties"], *found["properties"]["options"]["properties"]):
        assert re.fullmatch(pattern.get(provider.name, ".*"), name)
    (per_page,) = found["required"]
    (sort_by,) = found["properties"]["options"]["properties"]
    given_by_model = {per_page: 5, "options": {sort_by: "x"}, "per_page": 1}
    (call,) = kit.calls(provider.response([("1", "tool", given_by_model)]))
    assert call.arguments == {"per page": 5, "options": {"sort by": "x"}, "per_page": 1}


@pytest.mark.parametrize(
    "schema",
    [
        {"required": ["a b"]},
        {"dependentRequired": {"x": ["a b"]}},
        {"dependentSchemas": {"x": {"required": ["a b"]}}},
        {"allOf": [{"if": {"required": ["a b"]}, "then": {"minProperties": 2}}]},
    ],
    ids=lambda schema: next(iter(schema)),
)
def test_a_name_that_a_schema_mentions_without_declaring_it_comes_back(
    schema: dict[str, Any],
) -> None:
    kit = ANTHROPIC.toolset([tool_of({"type": "object", **schema})])
    assert "a b" not in json.dumps(kit.tools)
    assert "a_b" in json.dumps(kit.tools)
    (call,) = kit.calls(ANTHROPIC.response([("1", "tool", {"a_b": 1, "x": 2})]))
    assert call.arguments == {"a b": 1, "x": 2}


def test_what_is_added_for_an_array_or_several_types_is_reported() -> None:
    schema = {
        "type": "object",
        "properties": {"list": {"type": "array"}, "either": {"type": ["string", "integer"]}},
    }
    for provider in PROVIDERS:
        kit = provider.toolset([tool_of(schema)])
        properties = provider.schemas(kit)["tool"]["properties"]
        is_new = properties != schema["properties"]
        response = " ".join(kit.changes)
        assert ("an empty 'items' is added" in response) is ("items" in properties["list"])
        assert ("alternatives of 'anyOf' at /properties/either" in response) is (
            "anyOf" in properties["either"]
        )
        assert bool(kit.changes) is is_new


def test_members_are_renamed_wherever_a_schema_mentions_them_and_patterns_of_names_go() -> None:
    inner = {
        "type": "object",
        "properties": {"a b": {"type": "string"}, "c": False},
        "allOf": [{"not": {"required": ["a b"]}}],
        "patternProperties": {"^d": {"not": {"type": "string"}}},
        "additionalProperties": False,
    }
    kit = ANTHROPIC.toolset([tool_of({"type": "object", "properties": {"o": inner}})])
    found = ANTHROPIC.schemas(kit)["tool"]["properties"]["o"]
    assert found == {
        "type": "object",
        "properties": {"a_b": {"type": "string"}, "c": {"not": {}}},
        "allOf": [{"not": {"required": ["a_b"]}}],
    }
    assert any("by pattern is left out" in change for change in kit.changes)


def test_what_no_value_fits_is_left_out_for_a_provider_without_a_word_for_it() -> None:
    none = {"type": "array", "items": False}
    members = {
        "never": False,
        "none": none,
        "pair": {**none, "prefixItems": [{"type": "string"}, {"type": "integer"}]},
        "either": {"anyOf": [False, {"type": "string"}]},
        "closed": {"type": "object", "additionalProperties": {"not": {}}},
    }
    schema = {"type": "object", "properties": members, "required": ["never", "pair"]}
    assert offered(GEMINI, schema) == {
        "type": "object",
        "properties": {
            "none": {"type": "array", "items": {}, "maxItems": 0},
            "pair": {
                "type": "array",
                "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "maxItems": 2,
            },
            "either": {"type": "string"},
            "closed": {"type": "object", "additionalProperties": False},
        },
        "required": ["pair"],
    }


# ------------------------------------------------------------------------------- strict

openai = pytest.mark.parametrize("provider", [CHAT, RESPONSES], ids=str)

STRICT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "units": {"enum": ["c", "f"]},
        "limit": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "needed": {"type": ["string", "null"]},
        "window": {
            "type": "object",
            "properties": {"from": {"type": "string"}, "to": {"type": "string"}},
            "required": ["from"],
        },
        "places": {
            "type": "array",
            "items": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"lat": {"type": "number"}, "name": {"type": "string"}},
                        "required": ["lat"],
                    },
                    {
                        "type": "object",
                        "properties": {
                            "code": {"type": "string"},
                            "name": {"type": ["string", "null"]},
                        },
                        "required": ["code", "name"],
                    },
                ]
            },
        },
    },
    "required": ["city", "needed"],
}


def objects_in(schema: Any) -> list[dict[str, Any]]:
    found = []
    if isinstance(schema, dict):
        if "properties" in schema:
            found.append(schema)
        for value in schema.values():
            found += objects_in(value)
    elif isinstance(schema, list):
        for value in schema:
            found += objects_in(value)
    return found


@strict_providers
def test_strict_mode_allows_no_other_member_and_openai_requires_all(provider: Provider) -> None:
    kit = provider.toolset([tool_of(STRICT_SCHEMA)], strict=True)
    (declared,) = provider.declarations(kit)
    assert declared["strict"] is True
    objects = objects_in(provider.schema(declared))
    assert len(objects) == 4
    assert all(one["additionalProperties"] is False for one in objects)
    required = [one["required"] for one in objects]
    properties = objects[0]["properties"]
    assert properties["city"] == {"type": "string"}
    if provider.name == "anthropic":
        assert required == [["city", "needed"], ["from"], ["lat"], ["code", "name"]]
        assert properties["limit"] == {"type": "integer"}
        assert properties["units"] == {"type": "string", "enum": ["c", "f"]}
    else:
        assert required == [list(one["properties"]) for one in objects]
        assert properties["limit"] == {"type": ["integer", "null"]}
        assert properties["units"] == {"type": ["string", "null"], "enum": ["c", "f", None]}
    assert any("refuses more" in change for change in kit.changes)


@openai
def test_nulls_for_what_was_left_out_are_removed_before_the_call_is_made(
    provider: Provider,
) -> None:
    kit = provider.toolset([tool_of(STRICT_SCHEMA)], strict=True)
    given_by_model = {
        "city": "Oslo",
        "units": None,
        "limit": 3,
        "note": None,
        "needed": None,
        "window": {"from": "a", "to": None},
        "places": [{"lat": 1.5, "name": None}, {"code": "x", "name": None}],
    }
    assert fits(provider.schemas(kit)["tool"], given_by_model)
    (call,) = kit.calls(provider.response([("1", "tool", given_by_model)]))
    assert call.arguments == {
        "city": "Oslo",
        "limit": 3,
        "needed": None,
        "window": {"from": "a"},
        "places": [{"lat": 1.5}, {"code": "x", "name": None}],
    }
    assert fits(STRICT_SCHEMA, call.arguments)


def test_of_anthropic_a_null_is_removed_where_the_tool_takes_none() -> None:
    kit = ANTHROPIC.toolset([tool_of(STRICT_SCHEMA)], strict=True)
    given_by_model = {"city": "Oslo", "limit": None, "note": None, "needed": None}
    (call,) = kit.calls(ANTHROPIC.response([("1", "tool", given_by_model)]))
    assert call.arguments == {"city": "Oslo", "note": None, "needed": None}


scalars = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"enum": ["x", "y"]}])


def simple_objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3).flatmap(
        lambda properties: st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.just(properties),
                "required": st.lists(st.sampled_from(sorted(properties)), unique=True),
            }
        )
    )


def simple(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    lists = inner.map(lambda items: {"type": "array", "items": items})
    either = st.lists(inner, min_size=1, max_size=2).map(lambda options: {"anyOf": options})
    return simple_objects(inner) | lists | either


suitable = simple_objects(st.recursive(scalars, simple, max_leaves=6))
"""Schemas that strict mode takes, so that every member can be given or left out."""


@st.composite
def meant(draw: st.DrawFn, schema: dict[str, Any], nulls: bool) -> tuple[Any, Any]:
    """A value that fits ``schema``, and the same as a model gives it in strict mode: with
    ``nulls`` for what is left out."""
    if "anyOf" in schema:
        return draw(meant(draw(st.sampled_from(schema["anyOf"])), nulls))
    if "enum" in schema:
        value = draw(st.sampled_from(schema["enum"]))
        return value, value
    match schema["type"]:
        case "string":
            return "s", "s"
        case "integer":
            return 1, 1
        case "array":
            pairs = draw(st.lists(meant(schema["items"], nulls), max_size=2))
            return [one for one, _ in pairs], [other for _, other in pairs]
    value, given_by_model = {}, {}
    for name, member in schema["properties"].items():
        if name in schema["required"] or draw(st.booleans()):
            value[name], given_by_model[name] = draw(meant(member, nulls))
        elif nulls:
            given_by_model[name] = None
    return value, given_by_model


@strict_providers
@examples(60)
@given(data=st.data())
def test_without_the_nulls_of_strict_mode_the_tool_gets_what_the_model_meant(
    provider: Provider, data: st.DataObject
) -> None:
    schema = data.draw(suitable)
    value, given_by_model = data.draw(meant(schema, nulls=provider.name != "anthropic"))
    kit = provider.toolset([tool_of(schema)], strict=True)
    (declared,) = provider.declarations(kit)
    assert declared["strict"] is True
    assert fits(provider.schema(declared), given_by_model)
    (call,) = kit.calls(provider.response([("1", "tool", given_by_model)]))
    assert fits(schema, call.arguments)
    if "anyOf" not in json.dumps(schema):  # where two alternatives fit, either may be meant
        assert call.arguments == value


@strict_providers
@pytest.mark.parametrize(
    ("member", "reason"),
    [
        ({"type": "object"}, "members of any name"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "members of any name"),
        ({"type": "array"}, "items of any type"),
        ({"description": "anything"}, "values of any type"),
    ],
    ids=["an open object", "a map", "any items", "any value"],
)
def test_a_tool_that_cannot_be_strict_stays_as_it_is_and_that_is_reported(
    provider: Provider, member: dict[str, Any], reason: str
) -> None:
    schema = {"type": "object", "properties": {"a": member}}
    tools = [tool_of(schema, "loose"), tool_of(STRICT_SCHEMA, "firm")]
    kit = provider.toolset(tools, strict=True)
    loose, firm = provider.declarations(kit)
    assert loose.get("strict", False) is False
    assert firm["strict"] is True
    assert provider.schema(loose) == provider.schemas(provider.toolset(tools))["loose"]
    assert any("loose" in one and reason in one for one in kit.changes)


def test_gemini_has_no_strict_mode_and_reports_it() -> None:
    kit = GEMINI.toolset([tool_of(STRICT_SCHEMA)], strict=True)
    assert kit.tools == GEMINI.toolset([tool_of(STRICT_SCHEMA)]).tools
    assert any("no strict mode" in change for change in kit.changes)
