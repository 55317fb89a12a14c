"""Annotations count only from servers the host trusts, and only where they are JSON booleans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import ConfigError, MemoryServer, Tool, connect
from mcp_client.catalog.definition import Hints, hint_findings

pytestmark = pytest.mark.one_backend

WORST = Hints(read_only=False, destructive=True, idempotent=False, open_world=True)
NAMES = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

FIELDS = ("read_only", "destructive", "idempotent", "open_world")

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
any_annotations: st.SearchStrategy[Any] = st.one_of(
    json_values,
    st.dictionaries(st.sampled_from(NAMES), st.booleans() | json_values),
)


def hints(declared: Any, trusted: bool) -> Hints:
    definition = {"name": "t", "inputSchema": {}, "annotations": declared}
    return Tool("t", "s", trusted, definition).hints


@given(any_annotations)
def test_no_annotation_of_an_untrusted_server_changes_a_hint(declared: Any) -> None:
    assert hints(declared, trusted=False) == WORST


def test_the_worst_case_is_what_the_specification_assumes() -> None:
    assert Hints() == WORST
    assert not WORST.said


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, WORST),
        (
            {"readOnlyHint": True},
            Hints(read_only=True, destructive=False, said=frozenset({"read_only"})),
        ),
        ({"readOnlyHint": False}, Hints(said=frozenset({"read_only"}))),
        ({"destructiveHint": False}, Hints(destructive=False, said=frozenset({"destructive"}))),
        ({"idempotentHint": True}, Hints(idempotent=True, said=frozenset({"idempotent"}))),
        ({"openWorldHint": False}, Hints(open_world=False, said=frozenset({"open_world"}))),
        (
            {
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": False,
            },
            Hints(
                True,
                False,
                True,
                False,
                frozenset({"read_only", "destructive", "idempotent", "open_world"}),
            ),
        ),
        ({"readOnlyHint": False, "destructiveHint": True, "title": "x"}, None),
    ],
)
def test_a_trusted_server_is_taken_at_its_word(declared: Any, expected: Hints | None) -> None:
    found = hints(declared, trusted=True)
    if expected is None:
        assert (found.read_only, found.destructive) == (False, True)
    else:
        assert found == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("odd", [1, 0, "true", "false", None, [], [True], {}, {"value": True}])
def test_only_json_booleans_are_hints(name: str, odd: Any) -> None:
    assert hints({name: odd}, trusted=True) == WORST


@pytest.mark.parametrize("odd", [None, True, "readOnlyHint", ["readOnlyHint"], 7])
def test_annotations_that_are_not_an_object_are_ignored(odd: Any) -> None:
    assert hints(odd, trusted=True) == WORST


@given(st.dictionaries(st.sampled_from(NAMES[2:]), st.booleans()))
def test_a_tool_that_contradicts_itself_counts_as_the_worst_case(more: dict[str, bool]) -> None:
    declared = {"readOnlyHint": True, "destructiveHint": True, **more}
    found = hints(declared, trusted=True)
    assert replace(found, contradicted=frozenset()) == WORST
    for hint, wire in zip(FIELDS, NAMES, strict=True):
        assert found.source[hint] == ("contradiction" if wire in declared else "assumed")


@given(any_annotations)
def test_a_better_hint_than_the_worst_is_always_the_servers_word(declared: Any) -> None:
    found = hints(declared, trusted=True)
    for hint in ("read_only", "idempotent", "open_world"):
        if getattr(found, hint) != getattr(WORST, hint):
            assert hint in found.said
    if not found.destructive:
        assert "destructive" in found.said or found.read_only


@given(any_annotations, st.booleans())
def test_each_hint_names_where_its_value_comes_from(declared: Any, trusted: bool) -> None:
    found = hints(declared, trusted)
    for hint, wire in zip(FIELDS, NAMES, strict=True):
        counts = trusted and type(declared) is dict and type(declared.get(wire)) is bool
        assert (found.source[hint] != "assumed") is counts
        if found.source[hint] == "server":
            assert getattr(found, hint) is declared[wire]


def test_a_tool_that_contradicts_itself_is_a_finding_where_it_is_trusted() -> None:
    declared = {"readOnlyHint": True, "destructiveHint": True}
    definition = {"name": "t", "inputSchema": {}, "annotations": declared}
    (finding,) = hint_findings(definition["annotations"], True)
    assert "both read-only and destructive" in str(finding)
    assert hint_findings(definition["annotations"], False) == []


@given(any_annotations)
def test_no_annotation_of_an_untrusted_server_is_a_finding(declared: Any) -> None:
    definition = {"name": "t", "inputSchema": {}, "annotations": declared}
    assert hint_findings(definition["annotations"], False) == []


# ------------------------------------------------------------ tool by tool


ANNOTATED = [
    {"name": name, "inputSchema": {}, "annotations": {"readOnlyHint": True}} for name in ("a", "b")
]


def offers(message: dict[str, Any]) -> Any:
    return {"tools": ANNOTATED} if message["method"] == "tools/list" else NotImplemented


async def trusted_ones(trusted: Any) -> list[str]:
    async with connect(MemoryServer(offers), trusted=trusted) as session:
        tools = await session.list_tools()
    for tool in tools:
        assert tool.hints.read_only is tool.trusted
        assert (tool.annotations is not None) is tool.trusted
    return [tool.name for tool in tools if tool.trusted]


async def test_a_function_trusts_tool_by_tool_and_is_shown_them_untrusted() -> None:
    displayed: list[tuple[str, str, bool, Any]] = []

    def trust(tool: Tool) -> bool:
        displayed.append((tool.server, tool.name, tool.trusted, tool.annotations))
        return tool.name == "b"

    assert await trusted_ones(trust) == ["b"]
    assert displayed == [("memory", "a", False, None), ("memory", "b", False, None)]


def raises(tool: Tool) -> bool:
    raise RuntimeError("the host's own mistake")


def is_async(tool: Tool) -> Any:
    async def respond() -> bool:
        return True

    return respond()


@pytest.mark.parametrize("trust", [raises, is_async, lambda tool: 1, lambda tool: "yes"])
async def test_anything_but_true_of_a_function_is_a_denial_and_is_reported(
    trust: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert await trusted_ones(trust) == []
    assert [record.getMessage()[:27] for record in caplog.records] == [
        "memory/a is not trusted: tr",
        "memory/b is not trusted: tr",
    ]


async def test_a_function_sees_what_was_found_in_a_tool() -> None:
    odd = {"name": "t", "description": "a\u200bb", "inputSchema": {}, "annotations": {}}

    def server(message: dict[str, Any]) -> Any:
        return {"tools": [odd]} if message["method"] == "tools/list" else NotImplemented

    def trust(tool: Tool) -> bool:
        return not tool.findings

    async with connect(MemoryServer(server), trusted=trust) as session:
        (tool,) = await session.list_tools()
    assert tool.findings
    assert not tool.trusted


async def trust_later(tool: Tool) -> bool:
    return True


@pytest.mark.parametrize("odd", [1, None, "yes", trust_later])
def test_what_is_neither_a_bool_nor_a_plain_function_is_not_trust(odd: Any) -> None:
    with pytest.raises(ConfigError, match="trusted="):
        connect(MemoryServer(offers), trusted=odd)


@pytest.mark.parametrize("truthy", [1, "yes", object()])
def test_trust_is_the_hosts_word_alone(truthy: Any) -> None:
    definition = {"name": "t", "inputSchema": {}, "trusted": truthy, "_meta": {"trusted": True}}
    definition["annotations"] = {"readOnlyHint": True}
    assert Tool("t", "s", False, definition).hints == WORST
