"""Annotations count only from servers the host trusts, and only where they are JSON booleans."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Hints, Tool
from mcp_client.trust import hints_of

WORST = Hints(read_only=False, destructive=True, idempotent=False, open_world=True)
NAMES = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
any_annotations: st.SearchStrategy[Any] = st.one_of(
    json_values,
    st.dictionaries(st.sampled_from(NAMES), st.booleans() | json_values),
)


def hints(said: Any, trusted: bool) -> Hints:
    definition = {"name": "t", "inputSchema": {}, "annotations": said}
    return hints_of(Tool("t", "s", trusted, definition))


@given(any_annotations)
def test_no_annotation_of_an_untrusted_server_changes_a_hint(said: Any) -> None:
    assert hints(said, trusted=False) == WORST


def test_the_worst_case_is_what_the_specification_assumes() -> None:
    assert Hints() == WORST
    assert not WORST.said


@pytest.mark.parametrize(
    ("said", "expected"),
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
def test_a_trusted_server_is_taken_at_its_word(said: Any, expected: Hints | None) -> None:
    found = hints(said, trusted=True)
    if expected is None:
        assert (found.read_only, found.destructive) == (False, True)
    else:
        assert found == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("odd", [1, 0, "true", "false", None, [], [True], {}, {"value": True}])
def test_only_json_booleans_are_hints(name: str, odd: Any) -> None:
    assert hints({name: odd}, trusted=True) == WORST


@pytest.mark.parametrize("odd", [None, True, "readOnlyHint", ["readOnlyHint"], 7])
def test_annotations_that_are_no_object_say_nothing(odd: Any) -> None:
    assert hints(odd, trusted=True) == WORST


@given(st.dictionaries(st.sampled_from(NAMES[2:]), st.booleans()))
def test_a_tool_that_contradicts_itself_counts_as_the_worst_case(more: dict[str, bool]) -> None:
    said = {"readOnlyHint": True, "destructiveHint": True, **more}
    assert hints(said, trusted=True) == WORST


@given(any_annotations)
def test_a_better_hint_than_the_worst_is_always_the_servers_word(said: Any) -> None:
    found = hints(said, trusted=True)
    for hint in ("read_only", "idempotent", "open_world"):
        if getattr(found, hint) != getattr(WORST, hint):
            assert hint in found.said
    if not found.destructive:
        assert "destructive" in found.said or found.read_only


@pytest.mark.parametrize("truthy", [1, "yes", object()])
def test_trust_is_the_hosts_word_alone(truthy: Any) -> None:
    definition = {"name": "t", "inputSchema": {}, "trusted": truthy, "_meta": {"trusted": True}}
    definition["annotations"] = {"readOnlyHint": True}
    assert hints_of(Tool("t", "s", False, definition)) == WORST
