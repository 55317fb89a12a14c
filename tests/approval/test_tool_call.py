"""A call as it is shown and stored: its changes, its JSON form, and examples of calls."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from mcp_client import ApprovalRequest, ConfigError, Tool, ToolCall
from mcp_client.approval import Script
from mcp_client.catalog.drift import Drift
from tests.support.terminal import call_of

PINNED = {"name": "rm", "description": "Lists files", "inputSchema": {"type": "object"}}


def changed(old: list[str], new: list[str]) -> str:
    """The fact that compares two definitions whose descriptions have these lines."""
    call = call_of(description="\n".join(new))
    pinned = {**call.tool.raw, "description": "\n".join(old)}
    drifted = replace(call, drift=Drift.of(call.tool, "changed", pinned))
    return next(fact.text for fact in drifted.facts() if fact.kind == "changes")


def test_the_comparison_shows_both_texts_of_what_changed_and_nothing_far_from_it() -> None:
    lines = [f"line {number}" for number in range(40)]
    displayed = changed(lines, [*lines[:20], "now another", *lines[21:]]).splitlines()
    assert [line for line in displayed if line[0] in "+-"] == ["-line 20\\n", "+now another\\n"]
    assert " line 18\\n" in displayed
    assert " line 22\\n" in displayed
    assert not any("line 17" in line or "line 23" in line for line in displayed)


def test_a_comparison_of_many_lines_states_how_many_are_not_shown() -> None:
    displayed = changed(["old"] * 300, ["new"] * 300).splitlines()
    assert len(displayed) == 401
    total = 2 * 300 + 3  # a line of context before, two after
    assert displayed[-1] == f"… {total - 400} more lines"


def test_a_comparison_of_a_huge_definition_states_how_much_was_not_compared() -> None:
    lines = [f"line {number}" for number in range(5_000)]
    displayed = changed(lines, ["first", *lines[1:]]).splitlines()
    assert displayed[-1].endswith("lines further down are not compared")
    assert any(line == "+first\\n" or line.endswith("first\\n") for line in displayed)


def test_a_call_whose_definition_changed_comes_back_with_how_it_changed() -> None:
    call = call_of()
    drifted = replace(call, drift=Drift.of(call.tool, "changed", PINNED))
    again = ApprovalRequest.from_json(json.loads(json.dumps(drifted.to_json())))
    assert isinstance(again, ToolCall)
    assert again.drift is not None
    assert (again.drift.kind, again.drift.pinned) == ("changed", PINNED)
    assert again.drift.differences
    assert again.facts() == drifted.facts()


def test_the_digest_is_for_one_connection_and_the_key_for_all() -> None:
    call = call_of()
    later = replace(call, generation=2)
    assert call.key == later.key
    assert call.digest != later.digest
    assert call.digest == replace(call, id="2").digest


@pytest.mark.parametrize(
    ("member", "value"),
    [("generation", "1"), ("generation", True), ("arguments", []), ("meta", [1])],
)
def test_a_call_with_a_member_of_the_wrong_type_is_not_read(member: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"generation|not a JSON object"):
        ApprovalRequest.from_json({**call_of(meta={}).to_json(), member: value})


TOOL = Tool("rm", "files", True, {"name": "rm", "inputSchema": {}})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tool": 7}, "the tool is a int: give a name"),
        ({"tool": {}}, "has no name"),
        ({"tool": {"name": 7}}, "has no name"),
        ({"tool": TOOL, "trusted": False}, "has its hints and its trust already"),
        ({"tool": TOOL, "read_only": True}, "has its hints and its trust already"),
        ({"arguments": {"a": object()}}, "ToolCall.example()"),
        ({"meta": {"a": float("nan")}}, "ToolCall.example()"),
        ({"script": "print()"}, "the script is a str: give a Script"),
    ],
)
def test_an_example_that_cannot_be_made_names_what_to_give(
    options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ToolCall.example(**options)
    assert expected in str(caught.value)


def test_the_hints_of_an_example_count_because_they_make_it_trusted() -> None:
    passed = {"name": "rm", "annotations": {"title": "Remove", "readOnlyHint": False}}
    call = ToolCall.example(passed, read_only=True, open_world=False)
    assert (call.trusted, call.hints.read_only, call.hints.open_world) == (True, True, False)
    assert call.tool.raw["annotations"]["title"] == "Remove"
    assert ToolCall.example(passed).trusted is False
    unbelieved = ToolCall.example(passed, read_only=True, trusted=False)
    assert (unbelieved.trusted, unbelieved.hints.read_only) == (False, False)
    assert ToolCall.example(TOOL).trusted is True


def test_an_example_of_a_script_comes_from_code() -> None:
    assert ToolCall.example(script=Script("r", "x")).origin == "code"
    assert ToolCall.example(origin="app").origin == "app"
