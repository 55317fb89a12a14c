"""Declarations of client and server: parsed leniently, and never more than was declared."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_client.protocol.capabilities import Implementation, ServerFacts, declares


@pytest.mark.parametrize(
    ("wire", "read"),
    [
        ({"name": "n", "version": "1"}, Implementation("n", "1")),
        ({"name": "n", "version": "1", "title": "T"}, Implementation("n", "1", "T")),
        ({"name": 7, "version": None, "title": []}, Implementation("", "")),
        ({}, Implementation("", "")),
        (None, None),
        ("n", None),
        ([], None),
    ],
)
def test_an_introduction_is_read_leniently(wire: Any, read: Implementation | None) -> None:
    assert Implementation.from_wire(wire) == read


def test_an_introduction_keeps_what_it_does_not_know() -> None:
    wire = {"name": "n", "version": "1", "websiteUrl": "https://example.com"}
    found = Implementation.from_wire(wire)
    assert found is not None
    assert found.raw["websiteUrl"] == "https://example.com"
    assert found.to_wire() == wire


def test_our_own_introduction_has_no_title_unless_it_has_one() -> None:
    assert Implementation("n", "1").to_wire() == {"name": "n", "version": "1"}
    assert Implementation("n", "1", "T").to_wire()["title"] == "T"


def test_the_fields_win_over_raw() -> None:
    assert Implementation("n", "1", raw={"name": "other", "x": 1}).to_wire() == {
        "name": "n",
        "version": "1",
        "x": 1,
    }


def test_facts_of_a_wrong_type_are_absent() -> None:
    facts = ServerFacts.from_wire({"capabilities": [], "instructions": 7}, 7)
    assert (facts.info, dict(facts.capabilities), facts.instructions) == (None, {}, None)


def test_capabilities_cannot_be_changed() -> None:
    facts = ServerFacts.from_wire({"capabilities": {"tools": {}}}, None)
    with pytest.raises(TypeError):
        facts.capabilities["x"] = {}  # type: ignore[index]


@pytest.mark.parametrize(
    ("capabilities", "declared"),
    [
        ({"tools": {"listChanged": True}}, True),
        ({"tools": {"listChanged": 1}}, False),
        ({"tools": {"listChanged": "true"}}, False),
        ({"tools": {"listChanged": False}}, False),
        ({"tools": {}}, False),
        ({"tools": True}, False),
        ({}, False),
    ],
)
def test_only_a_json_true_declares_a_feature(capabilities: Any, declared: bool) -> None:
    assert declares(capabilities, "tools", "listChanged") is declared
