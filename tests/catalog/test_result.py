"""The result of a call: nothing hidden, nothing lost."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from mcp_client import McpError, ToolFailed, ToolResult
from mcp_client.content import TextContent, UnknownContent


def result(**members: Any) -> ToolResult:
    return ToolResult.from_wire(members, "server", "tool")


def test_text_joins_all_blocks_and_names_what_is_not_text() -> None:
    displayed = result(
        content=[
            {"type": "text", "text": "one"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "u:1", "name": "n"},
            {"type": "resource", "resource": {"uri": "u:2", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "u:3", "blob": "AAAA"}},
            {"type": "hologram", "data": "x"},
            {"type": "text"},
            7,
            {"type": "text", "text": "two"},
        ]
    )
    lines = displayed.text.splitlines()
    assert lines[0] == "one"
    assert lines[-1] == "two"
    for part in ("image/png", "audio/wav", "u:1", "inside", "u:2", "u:3", "hologram"):
        assert part in displayed.text
    assert len(lines) == len(displayed.content) + 1  # the embedded text has a line of its own


@pytest.mark.parametrize("structure", [{"city": "Tromsø"}, [1, 2], "x", 0, False])
def test_a_result_with_structured_content_alone_has_that_as_its_text(structure: Any) -> None:
    alone = result(content=[], structuredContent=structure)
    assert json.loads(alone.text) == structure
    assert "\\u" not in alone.text
    failed = result(content=[], structuredContent=structure, isError=True)
    with pytest.raises(ToolFailed, match=re.escape(alone.text)):
        failed.raise_for_error()
    beside = result(content=[{"type": "text", "text": "said"}], structuredContent=structure)
    assert beside.text == "said"
    assert result(content=[], structuredContent=None).text == ""


def test_a_malformed_block_spoils_only_itself() -> None:
    blocks = [{"type": "text", "text": 7}, {"type": "text", "text": "x"}]
    first, second = result(content=blocks).content
    assert first == UnknownContent("text", {"type": "text", "text": 7})
    assert isinstance(second, TextContent)


def test_a_result_without_content_is_empty() -> None:
    empty = result()
    assert (empty.content, empty.text, empty.is_error) == ((), "", False)
    assert empty.structured_content is None


@pytest.mark.parametrize("odd", [{}, "text", 7])
def test_content_that_is_not_an_array_is_refused(odd: Any) -> None:
    with pytest.raises(ValueError, match="content is not an array"):
        result(content=odd)


@pytest.mark.parametrize("odd", [0, 1, "false", "true", [], {}])
def test_is_error_that_is_not_a_boolean_is_refused(odd: Any) -> None:
    with pytest.raises(ValueError, match="isError"):
        result(content=[], isError=odd)


@pytest.mark.parametrize("number", [float("inf"), float("-inf")])
def test_a_number_that_no_float_holds_is_refused_by_its_place(number: float) -> None:
    for value, place in (
        ({"rows": [{"x": number}]}, "/rows/0/x"),
        ([1, number], "/1"),
        ({"a": [{}] * 20 + [[number]]}, "/a/20/0"),
        ([[[[number, -number]]]], "/0/0/0/[01]"),
    ):
        with pytest.raises(ValueError, match=f"its member {place} is -?Infinity"):
            result(content=[], structuredContent=value)
    for fine in ({"x": [1e308, 1e308, 2**2000]}, [[1e308] * 2] * 20, 1e308):
        assert result(content=[], structuredContent=fine).structured_content == fine


@pytest.mark.parametrize("value", [None, 0, False, "", [], {}, "x", [1], {"a": 1}])
def test_structured_content_is_any_json_value(value: Any) -> None:
    found = result(content=[], structuredContent=value)
    assert found.structured_content == value
    assert "structuredContent" in found.raw


def test_meta_is_an_object_or_empty() -> None:
    assert result(content=[], _meta={"a": 1}).meta == {"a": 1}
    assert result(content=[], _meta=[1]).meta == {}
    assert result(content=[]).meta == {}


def test_what_came_is_stored() -> None:
    wire = {"content": [], "unknown": {"a": 1}}
    assert ToolResult.from_wire(wire, "s", "t").raw == wire


def test_raise_for_error_returns_the_result_where_there_is_none() -> None:
    fine = result(content=[], isError=False)
    assert fine.raise_for_error() is fine


def test_raise_for_error_raises_with_the_reason_and_the_result() -> None:
    bad = result(content=[{"type": "text", "text": "no such \x1b[31mcity"}], isError=True)
    with pytest.raises(ToolFailed, match="no such") as caught:
        bad.raise_for_error()
    assert isinstance(caught.value, McpError)
    assert caught.value.result is bad
    assert (caught.value.server, caught.value.tool) == ("server", "tool")
    assert "\x1b" not in str(caught.value)


def test_an_error_without_a_reason_reports_it() -> None:
    with pytest.raises(ToolFailed, match="no reason given"):
        result(content=[], isError=True).raise_for_error()


def test_the_links_of_a_result_are_data_and_know_whose_they_are() -> None:
    link = {"type": "resource_link", "uri": "u:1", "name": "n", "size": 12, "mimeType": "text/x"}
    odd = {"type": "resource_link", "uri": "u:2", "name": "n", "size": -1}
    text = {"type": "text", "text": "t"}
    found = result(content=[text, link, odd, {"type": "resource_link", "name": "x"}])
    assert [(one.uri, one.size, one.server) for one in found.links] == [
        ("u:1", 12, "server"),
        ("u:2", None, "server"),
    ]
    assert "[resource link: n, u:1, text/x, 12 bytes]" in found.text.splitlines()
    assert len(found.text.splitlines()) == 4, "nothing that is there is hidden"


def test_the_repr_of_a_large_result_is_short() -> None:
    picture = {"type": "image", "data": "A" * 4_000_000, "mimeType": "image/png"}
    large = result(
        content=[picture] * 1_000,
        structuredContent={"rows": [["x" * 1_000] * 1_000] * 1_000, "k\u202e": 1},
        isError=True,
    )
    displayed = repr(large)
    assert "3000000 bytes" in displayed
    assert "992 more" in displayed
    assert "is_error=True" in displayed
    assert "\u202e" not in displayed
    assert len(displayed) < 2_000


def test_the_repr_of_a_small_result_has_its_content() -> None:
    displayed = repr(
        result(content=[{"type": "text", "text": "21 °C"}], structuredContent={"t": 21})
    )
    assert "21 °C" in displayed
    assert "structured_content={'t': 21}" in displayed
