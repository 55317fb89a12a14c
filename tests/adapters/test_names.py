"""The names that a model is shown: legal, distinct, and the same whatever else there is."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from mcp_client.adapters.portable import legal_names
from tests.support.provider_shapes import Provider, every_provider
from tests.support.schemas import tool_of

names = st.lists(st.text(min_size=1, max_size=90), max_size=6, unique=True)


@given(names=names, letter_first=st.booleans())
def test_names_are_legal_and_distinct(names: list[str], letter_first: bool) -> None:
    found = legal_names(names, letter_first=letter_first)
    assert list(found) == names
    assert len(set(found.values())) == len(names)
    for name in found.values():
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)
        assert not letter_first or re.match(r"[a-zA-Z_]", name)


@given(names=names, others=names)
def test_a_name_does_not_depend_on_the_other_tools(names: list[str], others: list[str]) -> None:
    alone = {name: legal_names([name])[name] for name in names}
    assert legal_names(list(dict.fromkeys([*others, *names]))).items() >= alone.items()


def test_a_legal_name_stays_and_another_keeps_a_digest_of_what_it_was() -> None:
    found = legal_names(["get_weather", "files.read", "a" * 70, "a" * 69 + "b"])
    assert found["get_weather"] == "get_weather"
    assert re.fullmatch(r"files_read_[0-9a-f]{8}", found["files.read"])
    assert found["a" * 70][:55] == found["a" * 69 + "b"][:55] == "a" * 55
    assert found["a" * 70] != found["a" * 69 + "b"]


def test_no_server_can_take_the_name_that_another_tool_is_shown_under() -> None:
    taken = legal_names(["files.read"])["files.read"]
    found = legal_names(["files.read", taken])
    assert found[taken] == taken
    assert found["files.read"] != taken


@every_provider
def test_a_call_by_the_shown_name_is_one_of_the_tool(provider: Provider) -> None:
    kit = provider.toolset([tool_of({"type": "object"}, name) for name in ("3d.print", "ok")])
    displayed = next(name for name, full in kit.names.items() if full == "3d.print")
    assert kit.names == {displayed: "3d.print", "ok": "ok"}
    assert [one["name"] for one in provider.declarations(kit)] == [displayed, "ok"]
    (call,) = kit.calls(provider.response([("1", displayed, {})]))
    assert (call.name, call.problem) == ("3d.print", None)
    assert f"tool '3d.print': it is shown as '{displayed}'" in kit.changes


@every_provider
def test_of_two_tools_with_one_name_the_first_is_shown(provider: Provider) -> None:
    tools = [tool_of({"type": "object"}, "same", description=text) for text in ("first", "second")]
    kit = provider.toolset(tools)
    assert [one["description"] for one in provider.declarations(kit)] == ["first"]
    assert "tool 'same': another tool has this name; left out" in kit.changes


@every_provider
def test_a_tool_that_is_for_apps_only_is_not_shown(provider: Provider) -> None:
    tools = [
        tool_of({"type": "object"}, "refresh", _meta={"ui": {"visibility": ["app"]}}),
        tool_of({"type": "object"}, "show", _meta={"ui": {"visibility": ["model", "app"]}}),
    ]
    kit = provider.toolset(tools)
    assert list(kit.names) == ["show"]
    assert any("refresh" in change for change in kit.changes)


@every_provider
def test_definitions_keep_order_and_text_when_tools_come_and_go(provider: Provider) -> None:
    tools = {name: tool_of({"type": "object"}, name) for name in ("b.1", "a", "c")}
    kit = provider.toolset(tools.values())
    before = [str(one) for one in provider.declarations(kit)]
    new = tool_of({"type": "object"}, "0 new")
    later = kit.updated([new, tools["c"], tools["b.1"], tools["a"]])
    assert [str(one) for one in provider.declarations(later)][:3] == before
    assert later.names[provider.declarations(later)[3]["name"]] == "0 new"
    fewer = later.updated([new, tools["a"], tools["b.1"]])
    assert list(fewer.names.values()) == ["b.1", "a", "0 new"]


@every_provider
def test_the_declarations_are_the_callers_to_change(provider: Provider) -> None:
    tool = tool_of({"type": "object", "properties": {"a": {"type": "string"}}})
    first = provider.toolset([tool])
    provider.schemas(first)["tool"]["properties"]["a"]["type"] = "changed"
    provider.declarations(first)[0]["cache_control"] = {"type": "ephemeral"}
    again = provider.toolset([tool])
    assert provider.schemas(again)["tool"]["properties"] == {"a": {"type": "string"}}
    assert "cache_control" not in provider.declarations(again)[0]
