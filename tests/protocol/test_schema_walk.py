"""The walk over a schema names what each part of it represents."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_client.protocol.json_paths import Role, walk

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "items", "anyOf", "$defs", "enum", "x", "type"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


def containers(value: Any) -> int:
    if type(value) is dict:
        return 1 + sum(map(containers, value.values()))
    return 1 + sum(map(containers, value)) if type(value) is list else 0


@given(JSON)
def test_each_object_and_array_is_visited_once(value: Any) -> None:
    assert len([*walk(value)]) == containers(value)


def test_each_part_has_its_role_its_path_and_its_depth() -> None:
    schema = {
        "properties": {"a": {"items": {"properties": {"b": {}}}, "properties": {"c": {}}}},
        "required": ["a"],
        "enum": [{"properties": {"d": {}}}],
        "$defs": {"e": {"properties": {"f": {}}}},
        "x-own": {"properties": {"g": {}}},
    }
    names = {"properties": Role.PROPERTIES, "$defs": Role.NAMED, "enum": Role.DATA}
    parts = [*walk(schema)]
    roles = {id(part): (role, depth, path, known) for part, role, depth, path, known in parts}

    def of(*steps: str | int) -> Any:
        part: Any = schema
        for step in steps:
            part = part[step]
        return roles[id(part)]

    for keyword, role in names.items():
        assert of(keyword)[0] is role
    assert of() == (Role.SCHEMA, 1, (), True)
    assert of("required")[0] is Role.NAMES
    assert of("properties", "a") == (Role.SCHEMA, 3, ("a",), True)
    assert of("properties", "a", "properties", "c") == (Role.SCHEMA, 5, ("a", "c"), True)
    assert of("properties", "a", "items") == (Role.SCHEMA, 4, None, True)
    assert of("properties", "a", "items", "properties", "b") == (Role.SCHEMA, 6, None, True)
    assert of("enum", 0, "properties")[0] is Role.DATA
    assert of("$defs", "e", "properties", "f") == (Role.SCHEMA, 5, None, True)
    assert of("x-own", "properties", "g")[3] is False
    assert parts[0][0] is schema


def test_a_deep_schema_is_walked_without_recursion() -> None:
    schema: dict[str, Any] = {}
    for _ in range(50_000):
        schema = {"items": schema}
    assert max(depth for _, _, depth, _, _ in walk(schema)) == 50_001
