"""What can be judged of a schema: nothing that the original accepts is refused."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema.validators import validator_for

from mcp_client import Limits
from mcp_client.validation.schema_shape import survey_schema
from mcp_client.validation.usable_schema import usable_schema
from tests.support.properties import examples

LATEST = "https://json-schema.org/draft/2020-12/schema"
DRAFT_4 = "http://json-schema.org/draft-04/schema"
DRAFT_7 = "http://json-schema.org/draft-07/schema"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
OUTSIDE = r"\p{Script=Greek}"
"""A pattern that cannot be translated."""


def accepts(schema: Any, value: Any) -> bool:
    """The verdict of ``jsonschema``."""
    judge: Any = jsonschema.Draft202012Validator
    if type(schema) is dict:
        judge = validator_for(schema, default=judge)
    judge.check_schema(schema)
    verdict: bool = judge(schema).is_valid(value)
    return verdict


def within(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


# Draft-04 is written as draft-07, which means the same and has less strict shapes.
SPELLINGS: list[tuple[Any, str | None]] = [
    *(
        (f"http{s}://json-schema.org/{name}/schema{end}", meant)
        for name, meant in (("draft-07", DRAFT_7), ("draft/2020-12", LATEST), ("draft-04", DRAFT_7))
        for s in ("", "s")
        for end in ("", "#", "/", "#/")
    ),
    ("http://json-schema.org/draft-05/schema#", DRAFT_7),
    ("https://json-schema.org/draft-06/schema", "http://json-schema.org/draft-06/schema"),
    (
        "http://json-schema.org/draft/2019-09/schema#",
        "https://json-schema.org/draft/2019-09/schema",
    ),
    ("http://www.json-schema.org/draft-07/schema#", DRAFT_7),
    ("HTTP://JSON-SCHEMA.ORG/draft-07/schema#", DRAFT_7),
    ("json-schema.org/draft-07/schema", DRAFT_7),
    ("//json-schema.org/draft-07/schema#", DRAFT_7),
    ("http://json-schema.org/draft-07/schema.json", DRAFT_7),
    ("http://json-schema.org/draft-07/hyper-schema#", DRAFT_7),
    ("https://json-schema.org/draft/2020-12", LATEST),
    (" http://json-schema.org/draft-07/schema# ", DRAFT_7),
    ("draft-07", DRAFT_7),
    ("draft7", DRAFT_7),
    ("2020-12", LATEST),
    ("http://json-schema.org/schema#", None),
    ("", None),
    ("#", None),
    (" ", None),
    (None, None),
]


@pytest.mark.parametrize(("spelled", "meant"), SPELLINGS)
def test_a_dialect_is_known_in_each_spelling(spelled: Any, meant: str | None) -> None:
    usable = usable_schema({"$schema": spelled, "type": "object", "definitions": {}})
    assert (usable.skipped, usable.unknown_dialect, usable.mixed) == ((), "", ())
    found = usable.schema.get("$schema", "")
    assert found.removesuffix("#") == (meant or "") or found == spelled
    assert not survey_schema(usable.schema, Limits()).fault


@pytest.mark.parametrize(
    "spelled",
    [
        "https://example.com/own",
        "draft-99",
        "http://json-schema.org/draft-02/schema#",
        7,
        [],
        "x" * 300,
    ],
)
def test_of_a_dialect_that_is_not_known_nothing_is_judged(spelled: Any) -> None:
    usable = usable_schema({"$schema": spelled, "type": "object", "required": ["a"]})
    assert usable.schema is True
    assert usable.unknown_dialect
    nested = usable_schema(within({"$schema": spelled, "type": "string"}))
    assert (nested.schema["properties"], len(nested.skipped)) == ({"a": {}}, 1)


OLDER: list[tuple[Any, list[Any], list[Any]]] = [
    (
        {"items": [{"type": "string"}, {"type": "integer"}]},
        [["a", 1], ["a"], []],
        [[1], ["a", "b"]],
    ),
    ({"items": [{"type": "string"}], "additionalItems": False}, [["a"]], [["a", 1]]),
    ({"items": [{}], "additionalItems": {"type": "integer"}}, [["a", 1]], [["a", "b"]]),
    ({"items": [], "additionalItems": {"type": "integer"}}, [[1]], [["b"]]),
    ({"items": []}, [[1]], []),
    ({"minimum": 1, "exclusiveMinimum": True}, [2, 1.5], [1, 0]),
    ({"maximum": 1, "exclusiveMaximum": True}, [0], [1, 2]),
    ({"minimum": 1, "exclusiveMinimum": False}, [1, 2], [0]),
    ({"exclusiveMinimum": True}, [-1], []),
]


@pytest.mark.parametrize("dialect", [None, LATEST, DRAFT_7, DRAFT_4])
@pytest.mark.parametrize(("schema", "good", "bad"), OLDER)
def test_what_older_drafts_write_means_the_same_in_each_dialect(
    dialect: str | None, schema: Any, good: list[Any], bad: list[Any]
) -> None:
    whole = {"properties": {"a": schema}}
    usable = usable_schema(whole if dialect is None else {"$schema": dialect, **whole})
    assert usable.skipped == ()
    assert bool(usable.mixed) is (dialect == LATEST)
    assert [accepts(usable.schema, {"a": value}) for value in good] == [True] * len(good)
    assert [accepts(usable.schema, {"a": value}) for value in bad] == [False] * len(bad)


IN_OLDER: list[tuple[str, Any, list[Any], list[Any]]] = [
    *((DRAFT_4, *row) for row in OLDER),
    *((DRAFT_7, *row) for row in OLDER),
    (DRAFT_4, {"type": "object", "required": []}, [{}], [1]),
    (DRAFT_4, {"const": 1, "contains": False, "propertyNames": False}, [2, [], {"a": 1}], []),
    (DRAFT_4, {"properties": {"b": True, "c": False}}, [{"b": 1}], [{"c": 1}]),
    (DRAFT_4, {"id": "http://e.com/a.json", "type": "string"}, ["x"], [1]),
    (DRAFT_7, {"dependencies": {"b": ["c"]}}, [{"b": 1, "c": 1}, {"c": 1}], [{"b": 1}]),
    (DRAFT_7, {"dependencies": {"b": {"required": ["c"]}}}, [{"b": 1, "c": 1}], [{"b": 1}]),
    (DRAFT_2019, {"dependencies": {"b": ["c"]}}, [{"b": 1}], []),
    (DRAFT_2019, {"items": [{"type": "string"}], "minItems": 1}, [["x", 1]], [[1], []]),
    (DRAFT_7, {"$ref": "#/$defs/x", "type": "string"}, [1], ["x"]),
    (DRAFT_7, {"unevaluatedProperties": False, "dependentRequired": {"b": ["c"]}}, [{"b": 1}], []),
    (DRAFT_7, {"type": "array", "prefixItems": [{"type": "string"}]}, [[1]], [1]),
]


@pytest.mark.parametrize("root", [{}, {"$schema": LATEST}])
@pytest.mark.parametrize(("dialect", "schema", "good", "bad"), IN_OLDER)
def test_a_part_with_an_older_dialect_of_its_own_means_what_it_means_there(
    root: Any, dialect: str, schema: Any, good: list[Any], bad: list[Any]
) -> None:
    more = {"$defs": {"x": {"type": "integer"}}}
    usable = usable_schema({**root, **within({"$schema": dialect, **schema}), **more})
    assert (usable.skipped, usable.mixed) == ((), ())
    assert [accepts(usable.schema, {"a": value}) for value in good] == [True] * len(good)
    assert [accepts(usable.schema, {"a": value}) for value in bad] == [False] * len(bad)


GUARDED: list[tuple[Any, Any]] = [
    ({"not": {"type": "string", "pattern": OUTSIDE}}, "a"),
    ({"not": {"not": {"pattern": OUTSIDE}}}, "a"),
    ({"oneOf": [{"type": "string"}, {"type": "string", "pattern": OUTSIDE}]}, "a"),
    ({"oneOf": [{"type": "string"}, None]}, "a"),
    ({"anyOf": [{"type": "integer"}, None]}, "a"),
    ({"if": {"pattern": OUTSIDE}, "then": False}, "a"),
    ({"if": {"pattern": OUTSIDE}, "else": False}, "a"),
    ({"contains": {"pattern": OUTSIDE}, "maxContains": 1}, ["a", "b"]),
    ({"patternProperties": {OUTSIDE: {}}, "additionalProperties": False}, {"a": 1}),
    ({"properties": {"a": {}}, "patternProperties": 7, "additionalProperties": False}, {"b": 1}),
    ({"properties": 7, "additionalProperties": False}, {"a": 1}),
    ({"prefixItems": 7, "items": False}, [1]),
    ({"allOf": [{"$ref": "#/$defs/no"}], "unevaluatedProperties": False}, {"a": 1}),
    ({"not": {"$ref": "#/$defs/s"}, "$defs": {"s": {"pattern": OUTSIDE}}}, "a"),
    ({"oneOf": [{}, {"$ref": "#/$defs/s"}], "$defs": {"s": {"$ref": "#/$defs/no"}}}, "a"),
    ({"$defs": {"s": None}, "not": {"$ref": "#/$defs/s"}}, "a"),
    ({"$schema": DRAFT_7, "$ref": "#/nowhere", "type": "string"}, 1),
    ({"enum": ["a"], "required": [None], "type": "any"}, "a"),
    ({"propertyNames": {"pattern": OUTSIDE}}, {"a": 1}),
]


@pytest.mark.parametrize(("schema", "value"), GUARDED)
def test_what_is_skipped_makes_nothing_else_refuse_more(schema: Any, value: Any) -> None:
    usable = usable_schema(schema)
    assert usable.skipped
    assert accepts(usable.schema, value)


@pytest.mark.parametrize(
    ("schema", "leads"),
    [
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, True),
        ({"$ref": "#/$defs/b", "$defs": {"a": {}}}, False),
        ({"$ref": "#a", "$defs": {"x": {"$anchor": "a"}}}, True),
        ({"$ref": "#a", "$defs": {"x": {"$id": "#a"}}}, True),
        ({"$ref": "#b", "$defs": {"x": {"$anchor": "a"}}}, False),
        ({"$ref": "#/$defs/a%20b", "$defs": {"a b": {}}}, True),
        ({"$ref": "#/title", "title": "x"}, False),
        ({"$ref": "item.json", "$defs": {"x": {"$id": "https://e.com/item.json"}}}, True),
        ({"$ref": "other.json", "$defs": {"x": {"$id": "https://e.com/item.json"}}}, False),
        ({"$ref": "#/components/schemas/a", "components": {"schemas": {"a": {}}}}, True),
        ({"$ref": DRAFT_7 + "#"}, True),
        ({"$ref": "4"}, False),
        ({"$ref": 7}, False),
        ({"$dynamicRef": "#nowhere"}, False),
        ({"$ref": "#"}, False),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, False),
        ({"items": {"$ref": "#"}}, True),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}, True),
    ],
)
def test_a_reference_that_leads_nowhere_or_back_is_skipped(schema: Any, leads: bool) -> None:
    usable = usable_schema({**schema, "type": "object"})
    assert (not usable.skipped) is leads
    assert usable.is_broken is not leads


TUPLE = {"t": {"items": [{"type": "integer"}]}}


@pytest.mark.parametrize("dialect", [None, LATEST, DRAFT_7, DRAFT_4])
def test_a_reference_to_an_item_of_a_tuple_leads_there_however_it_is_written(dialect: Any) -> None:
    schema = {**within({"$ref": "#/definitions/t/items/0"}), "definitions": TUPLE}
    usable = usable_schema(schema if dialect is None else {"$schema": dialect, **schema})
    assert usable.skipped == ()
    assert accepts(usable.schema, {"a": 1})
    assert not accepts(usable.schema, {"a": "x"})
    nowhere = {**within({"$ref": "#/definitions/t/items/1"}), "definitions": TUPLE}
    assert accepts(usable_schema(nowhere).schema, {"a": "x"})


@pytest.mark.parametrize("end", ["", "#", "#/definitions/simpleTypes"])
def test_a_reference_to_a_meta_schema_is_followed_in_each_spelling(end: str) -> None:
    usable = usable_schema(within({"$ref": f"https://json-schema.org/draft-07/schema{end}"}))
    assert usable.skipped == ()
    assert not accepts(usable.schema, {"a": 7})


LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 2, -1, "a", "any", "String", "string", "^a$", OUTSIDE, [], {}]
)
KEYWORDS = [
    *("type", "properties", "required", "items", "enum", "pattern", "anyOf", "oneOf", "allOf"),
    *("not", "if", "then", "else", "additionalProperties", "patternProperties", "prefixItems"),
    *("minimum", "exclusiveMinimum", "minLength", "uniqueItems", "contains", "maxContains"),
    *("dependentRequired", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "const"),
    *("$ref", "$defs", "description", "additionalItems"),
]
MARK = {"$comment": "here"}
_ONES = ("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
SOUND = st.recursive(
    st.sampled_from(
        [
            *(MARK, MARK, {**MARK, "type": "string"}, {"type": "string"}, {"type": "integer"}),
            *({"const": 0}, {"pattern": "^a$"}, {"$ref": "#/$defs/x"}, {"required": ["a"]}),
            *({"maxLength": 1}, {"type": "array"}, False),
        ]
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({}, optional=dict.fromkeys((*_ONES, *_UNEVALUATED), inner)),
        st.fixed_dictionaries(
            {},
            optional=dict.fromkeys(
                ("anyOf", "allOf", "oneOf", "prefixItems"),
                st.lists(inner, min_size=1, max_size=2),
            ),
        ),
        st.dictionaries(st.sampled_from("ab"), inner, max_size=2).map(
            lambda one: {"properties": one, "additionalProperties": False}
        ),
        st.dictionaries(st.sampled_from(["^a$", "b"]), inner, max_size=2).map(
            lambda one: {"patternProperties": one}
        ),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1, "a", "b", "ab"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=5,
)


def has_no_reference(schema: Any) -> bool:
    return "$ref" not in repr(schema)


def with_mark(schema: Any, what: Any) -> Any:
    """A copy with ``what`` added to each schema that has the mark; False takes its place."""
    if type(schema) is list:
        return [with_mark(one, what) for one in schema]
    if type(schema) is not dict:
        return schema
    if "$comment" in schema:
        return False if what is False else {**schema, **what}
    return {name: with_mark(one, what) for name, one in schema.items()}


EITHER: tuple[Any, ...] = ({}, False)
"""What a part that is not judged may mean: it is true of all values, or of none."""
UNJUDGED: list[dict[str, Any]] = [
    *({"pattern": OUTSIDE}, {"$ref": "#/$defs/nowhere"}, {"required": None}, {"type": "any"}),
    *({"enum": 7}, {"minLength": "1"}, {"properties": 7}, {"anyOf": [None]}, {"$ref": None}),
    *({"patternProperties": {OUTSIDE: False}}, {"dependentRequired": {"a": 7}}, {"not": 7}),
    *({"oneOf": [{"pattern": OUTSIDE}]}, {"prefixItems": [7]}, {"properties": {"a": "b"}}),
]


@given(
    schema=SOUND,
    defined=SOUND.filter(has_no_reference),
    slip=st.sampled_from(UNJUDGED),
    value=VALUES,
)
@example(schema={"not": MARK}, defined={}, slip={"pattern": OUTSIDE}, value="a")
@examples(1_000)
def test_a_part_that_cannot_be_judged_refuses_nothing(
    schema: Any, defined: Any, slip: dict[str, Any], value: Any
) -> None:
    whole = {"items": schema, "$defs": {"x": defined}}
    usable = usable_schema(with_mark(whole, slip))
    if any(accepts(with_mark(whole, what), [value]) for what in EITHER):
        assert accepts(usable.schema, [value])


@given(schema=SOUND, value=VALUES)
@examples(600)
def test_the_verdict_on_a_sound_schema_is_that_of_jsonschema(schema: Any, value: Any) -> None:
    whole = {"$defs": {"x": {"type": "string"}}, "items": schema}
    usable = usable_schema(whole)
    assert (usable.skipped, usable.slips) == ((), ())
    assert accepts(usable.schema, [value]) is accepts(whole, [value])


JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*KEYWORDS, "a", "b"]), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(schema=JSON)
@examples(600)
def test_whatever_is_left_of_a_schema_is_one(schema: Any) -> None:
    before = repr(schema)
    usable = usable_schema(schema)
    assert repr(schema) == before
    jsonschema.Draft202012Validator.check_schema(usable.schema)
    assert usable_schema(usable.schema).skipped == ()


def test_what_is_made_of_a_hostile_schema_is_bounded() -> None:
    long = "n" * 300_000
    members = {f"p{i}": {"type": None, "required": None, "enum": 7} for i in range(1_500)}
    usable = usable_schema({"properties": {long: {"properties": members}}})
    assert len(usable.skipped) == 100
    assert max(map(len, usable.skipped)) < 500
    assert usable.schema["properties"][long]["properties"]["p1499"] == {}
    properties = {f"p{i}": {"pattern": rf"\p{{L}}+{i}"} for i in range(60)}
    usable = usable_schema({"properties": properties})
    assert len(usable.skipped) == 20
    assert sum(map(len, usable.patterns)) < 250_000
    literals = {f"p{i}": {"pattern": "a{2}" * 100 + str(i)} for i in range(60)}
    usable = usable_schema({"properties": literals})
    assert len(usable.skipped) > 40
