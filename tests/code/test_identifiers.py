"""How servers and tools are called in a script."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.code.bindings import Bindings, arguments_of, spell, spell_server
from tests.support.properties import examples
from tests.support.schemas import tool_of

NAMES = st.one_of(st.text(max_size=80), st.from_regex(r"[a-z_\-]{1,6}(_[0-9a-f]{10})?"))


@given(NAMES, NAMES)
@examples(300)
def test_two_names_are_never_spelled_alike_and_each_is_an_identifier(one: str, other: str) -> None:
    for spelling in (spell, spell_server):
        for name in (one, other):
            reported = spelling(name)
            assert reported.isascii()
            assert reported.isidentifier()
            assert not keyword.iskeyword(reported)
            assert not reported.startswith("_")
            assert len(reported) <= 64
        assert (spelling(one) == spelling(other)) is (one == other)


@pytest.mark.parametrize("name", ["get_weather", "a", "createIssue", "with__two"])
def test_a_name_that_python_takes_is_spelled_as_it_is(name: str) -> None:
    assert spell(name) == spell_server(name) == name


@pytest.mark.parametrize("name", ["print", "json", "CallDenied", "PermissionError", "time"])
def test_a_server_shadows_nothing_of_the_language(name: str) -> None:
    assert spell_server(name) != name
    assert spell(name) == name


def test_a_spelling_of_ours_that_a_server_chose_as_a_name_is_another_one() -> None:
    ours = spell("get-weather")
    assert ours.startswith("get_weather_")
    assert spell(ours) not in (ours, "get-weather")


def test_a_tool_is_found_as_it_is_spelled_and_by_its_own_server_alone() -> None:
    odd, plain = tool_of({"type": "object"}, "get-weather"), tool_of({"type": "object"}, "look")
    bindings = Bindings([odd, plain])
    (server,) = bindings.servers
    assert bindings.find(server, spell("get-weather")) is odd
    assert bindings.find(server, "look") is plain
    assert bindings.find(server, "get-weather") is None
    assert bindings.find("other", "look") is None
    assert bindings.by_name[f"{server}.look"] is plain


def test_of_two_tools_that_a_server_made_to_be_spelled_alike_the_first_is_called() -> None:
    names = "a.-.-..-.-.--.....--.--", "a.......-..-..--------."
    assert spell(names[0]) == spell(names[1]), "a part of the digest can be had"
    tools = [tool_of({"type": "object"}, name) for name in names]
    bindings = Bindings(tools)
    (server,) = bindings.servers
    assert bindings.find(server, spell(names[1])) is tools[0]
    (reported,) = bindings.left_out
    assert names[1] in reported


def test_arguments_that_are_not_identifiers_are_passed_as_they_are_spelled() -> None:
    schema = {"type": "object", "properties": {"if-match": {}, "title": {}}}
    tool = tool_of(schema, "save")
    arguments = {spell("if-match"): 1, "title": 2, "more": 3}
    assert arguments_of(tool, arguments) == {"if-match": 1, "title": 2, "more": 3}
    assert arguments_of(tool_of({"type": "object", "properties": 5}, "x"), {"a": 1}) == {"a": 1}
