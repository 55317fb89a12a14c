"""What is judged in place is cheap, and found so cheaply."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_client.validation.checker import fits_in_place


def fits(schema: Any, value: Any) -> bool:
    return fits_in_place(schema, len(str(schema)), value)


def names(count: int, tag: object = "") -> list[str]:
    return [f"name{tag}{number}" for number in range(count)]


TWENTY = {
    "type": "object",
    "properties": {name: {"type": "string", "minLength": 1} for name in names(20)},
    "required": names(20),
    "additionalProperties": False,
}
CHEAP: dict[str, tuple[Any, Any]] = {
    "an ordinary tool": (TWENTY, dict.fromkeys(names(20), "some text")),
    "a few rows": ({"items": TWENTY}, [dict.fromkeys(names(20), 7)] * 3),
    "a tagged union": (
        {"oneOf": [{"properties": {"kind": {"const": str(n)}}} for n in range(8)]},
        {"kind": "3"},
    ),
    "a reference": ({"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}, [1, 2]),
    "a tree": ({"properties": {"kids": {"items": {"$ref": "#"}}}}, {"kids": [{"kids": []}]}),
    "a simple pattern": ({"pattern": "^[a-z]+@[a-z]+$"}, "a" * 60),
    "draft-07 tuples": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}, {}]},
        [1, 2],
    ),
}
NEST: dict[str, Any] = {"anyOf": [{}] * 500}
PARTS = dict.fromkeys(names(500))
IN_EACH_PLACE: dict[str, tuple[Any, Any]] = {
    **{place: ({place: {"items": NEST}}, [1] * 500) for place in ("not", "if", "then", "else")},
    **{place: ({place: [{"items": NEST}]}, [1] * 500) for place in ("allOf", "anyOf", "oneOf")},
    "dependentSchemas": ({"dependentSchemas": {"name0": {"propertyNames": NEST}}}, PARTS),
    "dependencies": (
        {
            "dependencies": {"name0": {"$ref": "#/$defs/nest"}},
            "$defs": {"nest": {"propertyNames": NEST}},
        },
        PARTS,
    ),
    "properties": ({"properties": dict.fromkeys(PARTS, NEST)}, PARTS),
    "additionalProperties": ({"additionalProperties": NEST, "properties": {"name0": {}}}, PARTS),
    "propertyNames": ({"propertyNames": NEST}, PARTS),
    "prefixItems": ({"prefixItems": [NEST] * 500}, [1] * 500),
    "items": ({"items": NEST}, [1] * 500),
    "contains": ({"contains": NEST}, [1] * 500),
    "$ref": ({"items": {"$ref": "#/$defs/nest"}, "$defs": {"nest": NEST}}, [1] * 100),
}
DEAR: dict[str, tuple[Any, Any]] = {
    "names in required under anyOf": (
        {"items": {"anyOf": [{"required": names(350, j)} for j in range(8)]}},
        [{}] * 100,
    ),
    "dependentRequired": (
        {"items": {"anyOf": [{"dependentRequired": {"a": names(350, j)}} for j in range(8)]}},
        [{"a": 1}] * 100,
    ),
    "dependencies": (
        {"items": {"anyOf": [{"dependencies": {"a": names(350, j)}} for j in range(8)]}},
        [{"a": 1}] * 100,
    ),
    "one required of very many names": ({"required": names(9_000)}, {}),
    "properties of very many names": ({"properties": {name: {} for name in names(40_000)}}, {}),
    "enum against many": ({"items": {"enum": [[i] for i in range(500)]}}, [[-1]] * 100),
    "one enum of very many": ({"enum": [[i] for i in range(9_999)]}, 1),
    "unique among many": ({"uniqueItems": True}, [{"a": i} for i in range(200)]),
    "a large schema shown often": (
        {"items": {"not": {"type": "integer", "title": "x" * 50_000}}},
        [1] * 100,
    ),
    "a large value shown often": ({"allOf": [{"type": "string"}] * 200}, ["x" * 1_000] * 60),
    "a large value": ({"type": "string"}, ["x"] * 3_000),
    "a long text": ({"type": "integer"}, "x" * 100_000),
    "a reference to itself": ({"$ref": "#"}, 1),
    "a reference that multiplies": (
        {
            "$ref": "#/$defs/d0",
            "$defs": {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(24)}
            | {"d24": {}},
        },
        1,
    ),
    "a reference that multiplies down the value": (
        {"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]},
        [[[[[[[[[[[[[[1]]]]]]]]]]]]]],
    ),
    "a long reference": ({"$ref": "#/" + "a/" * 500}, 1),
    "a pattern that runs away": ({"pattern": "^(a+)+$"}, "a"),
    "a pattern over a long text": ({"pattern": "a+b+c+d"}, "a" * 2_000),
    "many patterns to compile": ({"anyOf": [{"pattern": f"{n:x}" * 6} for n in range(60)]}, ""),
    "patterns of names": ({"patternProperties": {"^a": {}}}, {"a": 1}),
    "an address elsewhere": ({"$ref": "http://example.com/"}, 1),
    "an anchor": ({"$ref": "#a", "$anchor": "a"}, 1),
    "a part with an address of its own": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$id": "https://example.com/", "type": "object"}}},
        1,
    ),
    "another dialect inside": (
        {"items": {"$schema": "http://json-schema.org/draft-07/schema#"}},
        [1],
    ),
    "an older dialect": ({"$schema": "http://json-schema.org/draft-04/schema#"}, 1),
    "a keyword that is not known": ({"unevaluatedProperties": False}, {}),
    "properties that are not an object": ({"properties": None}, {}),
    "a number as schema": ({"items": 7}, [1]),
    "a reference to a value": ({"$ref": "#/default", "default": [1]}, 1),
    **{f"a nest in {place}": case for place, case in IN_EACH_PLACE.items()},
}


@pytest.mark.parametrize("name", CHEAP)
def test_what_is_cheap_is_judged_in_place(name: str) -> None:
    assert fits(*CHEAP[name])


@pytest.mark.parametrize("name", DEAR)
def test_a_costly_or_unknown_check_is_sent_to_the_worker(name: str) -> None:
    assert not fits(*DEAR[name])


def test_a_keyword_of_the_hosts_own_costs_nothing() -> None:
    assert fits({"x-anything": {"a": [1]}, "type": "object"}, {})
