"""Names are unique, legal and permanent, whatever servers and tools are called."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import ConfigError
from mcp_client.host import Naming
from mcp_client.host.naming import MAX_CHARS, Names, naming_of
from tests.support.properties import examples

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

tricky = st.text(st.sampled_from("ab_-.: /é\u202e\0" + "0123456789f"), min_size=1, max_size=80)
ordinary = st.sampled_from(
    ["a", "b", "a_", "_a", "a__b", "__", "_", "search", "Search", "a_deadbeef", "x" * 64, "x" * 200]
)
name = st.one_of(ordinary, tricky, st.text(min_size=1, max_size=300))
tools = st.lists(st.tuples(name, name), max_size=30, unique=True)


def named(names: Names, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    found = {}
    for pair in pairs:
        try:
            found[pair] = names.of(*pair)
        except ValueError:
            continue
    return found


@given(tools)
@examples(300)
def test_no_two_tools_have_one_name(pairs: list[tuple[str, str]]) -> None:
    for naming in ("prefix", "bare", "random", "uri"):
        found = named(Names(naming), pairs)
        assert len(set(found.values())) == len(found)
        assert len(found) == len(pairs)


@given(tools)
@examples(300)
def test_names_are_what_every_model_provider_accepts(pairs: list[tuple[str, str]]) -> None:
    for naming in ("prefix", "bare", "random"):
        for displayed in named(Names(naming), pairs).values():
            assert LEGAL.match(displayed), displayed
            assert len(displayed) <= MAX_CHARS


@given(tools, st.randoms())
@examples(200)
def test_with_a_prefix_a_name_depends_on_its_server_and_tool_alone(
    pairs: list[tuple[str, str]], random: Any
) -> None:
    alone = {pair: Names("prefix").of(*pair) for pair in pairs}
    shuffled = list(pairs)
    random.shuffle(shuffled)
    assert named(Names("prefix"), shuffled) == alone


@given(tools, tools)
@examples(200)
def test_a_name_stays_whatever_comes_later(
    first: list[tuple[str, str]], later: list[tuple[str, str]]
) -> None:
    for naming in ("prefix", "bare", "random", "uri"):
        names = Names(naming)
        before = named(names, first)
        named(names, later)
        assert named(names, first) == before


@given(name, st.lists(name, max_size=30), st.lists(name, min_size=1, max_size=5))
@examples(200)
def test_no_tool_takes_a_name_of_another_server(
    victim: str, hostile: list[str], tools_of_victim: list[str]
) -> None:
    undisturbed = [Names("prefix").of(victim, tool) for tool in tools_of_victim]
    for naming in ("prefix", "random"):
        names = Names(naming)
        servers = {f"{victim}x", "x", f"{victim}__"} - {victim}
        taken = {names.of(server, tool) for server in servers for tool in [*hostile, *undisturbed]}
        assert not taken & {names.of(victim, tool) for tool in tools_of_victim}


@pytest.mark.parametrize(
    ("server", "tool", "expected"),
    [
        ("weather", "get_weather", "weather__get_weather"),
        ("my-server", "a-b_c", "my-server__a-b_c"),
        ("a", "b__c", "a__b__c"),
        ("s" * 20, "t" * 42, "s" * 20 + "__" + "t" * 42),
    ],
)
def test_ordinary_names_are_only_joined(server: str, tool: str, expected: str) -> None:
    assert Names("prefix").of(server, tool) == expected


@pytest.mark.parametrize(
    ("server", "tool", "expected"),
    [
        ("a__b", "c", r"a_b_[0-9a-f]{8}__c\Z"),
        ("a_", "c", r"a_[0-9a-f]{8}__c\Z"),
        ("my server", "c", r"my_server_[0-9a-f]{8}__c\Z"),
        ("s", "user.get", r"s__user_get_[0-9a-f]{8}\Z"),
        ("s", "get_deadbeef", r"s__get_deadbeef_[0-9a-f]{8}\Z"),
        ("s", "t" * 200, r"s__t{52}_[0-9a-f]{8}\Z"),
        ("s", "…", r"s__x_[0-9a-f]{8}\Z"),
    ],
)
def test_what_is_altered_has_a_suffix(server: str, tool: str, expected: str) -> None:
    assert re.match(expected, Names("prefix").of(server, tool))


def test_a_suffix_is_the_same_in_every_run() -> None:
    # Written down: a change of it would break prompts, rules and logs of those who use it.
    assert Names("prefix").of("s", "user.get") == "s__user_get_ad045552"


def test_bare_names_go_to_the_first_server_that_has_them() -> None:
    names = Names("bare")
    assert names.of("one", "search") == "search"
    assert names.of("two", "search") == "two__search"
    assert names.of("two", "other") == "other"
    assert names.of("one", "search") == "search"


def test_a_bare_name_cannot_look_like_one_with_a_prefix() -> None:
    names = Names("bare")
    assert names.of("hostile", "two__search") == "hostile__two__search"
    names.of("one", "search")
    assert names.of("two", "search") == "two__search"


def test_a_server_can_take_only_so_many_bare_names() -> None:
    names = Names("bare", most=3)
    assert [names.of("s", tool) for tool in "abcd"] == ["a", "b", "c", "s__d"]
    assert names.of("other", "d") == "d"


def test_random_prefixes_last_as_long_as_the_host() -> None:
    names = Names("random")
    first = names.of("weather", "get")
    assert re.match(r"[a-z][a-z0-9]{4}__get\Z", first)
    assert names.of("weather", "get") == first
    assert names.of("weather", "set").split("__")[0] == first.split("__")[0]
    assert Names("random").of("weather", "get") != first


def test_random_prefixes_are_chosen_again_where_two_are_equal() -> None:
    letters = iter("aaaaaaaaaabbbbb")
    names = Names("random", choose=lambda _: next(letters))
    assert [names.of("one", "t"), names.of("two", "t")] == ["aaaaa__t", "bbbbb__t"]


def test_uri_names_have_the_host_of_the_url() -> None:
    places = {"one": "weather.example.com", "two": "weather.example.com", "three": None}
    names = Names("uri", authority=lambda server: places[server])
    assert names.of("one", "get") == "weather.example.com:get"
    assert re.match(r"weather\.example\.com:get_[0-9a-f]{8}\Z", names.of("two", "get"))
    assert names.of("three", "get") == "three:get"


def test_a_function_may_name_the_tools() -> None:
    names = Names(lambda server, tool: f"{server}/{tool}")
    assert names.of("a", "b") == "a/b"
    assert names.of("a", "b") == "a/b"


@pytest.mark.parametrize("returned", [None, "", " ", 3, "a\u202eb", "x" * 300])
def test_a_function_that_gives_no_name_is_reported_with_what_is_wrong(returned: Any) -> None:
    with pytest.raises(ValueError, match="naming function returned"):
        Names(lambda server, tool: returned).of("a", "b")


def test_a_function_that_repeats_itself_costs_the_second_tool() -> None:
    names = Names(lambda server, tool: "same")
    assert names.of("a", "b") == "same"
    with pytest.raises(ValueError, match="the name of a/b"):
        names.of("a", "c")


def test_a_function_that_raises_costs_the_tool() -> None:
    def broken(server: str, tool: str) -> str:
        raise KeyError(tool)

    with pytest.raises(ValueError, match="raised KeyError"):
        Names(broken).of("a", "b")


@pytest.mark.parametrize("naming", ["prefixes", None, 3])
def test_any_other_naming_is_refused(naming: Any) -> None:
    with pytest.raises(ConfigError, match="naming="):
        naming_of(naming)


@pytest.mark.parametrize("naming", ["prefix", "bare", "uri"])
@given(st.tuples(name, name))
def test_a_tool_that_was_left_out_is_found_by_the_name_it_would_have(
    naming: Naming, pair: tuple[str, str]
) -> None:
    displayed = Names(naming).of(*pair)
    assert Names(naming).would_be(*pair, displayed)


E32, Y58 = "e" * 32, "y" * 58


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("weather", "get", "weather__get"),
        ("we__a", "get", "we_a_0e9bce44__get"),
        ("a_", "get", "a_8a8488e3__get"),
        (E32, "get", f"{E32}__get"),
        (f"{E32}e", "get", f"{'e' * 23}_61865836__get"),
        ("a", f"{Y58}yyy", f"a__{Y58}yyy"),
        ("a", f"{Y58}yyyy", f"a__{'y' * 52}_ecd876d2"),
        ("a.b", "c d", "a_b_34f3db2d__c_d_c4326f5a"),
        ("é", "é", "x_1369b7f2__x_f8a25816"),
        ("a", "b_0123abcd", "a__b_0123abcd_4a59b06d"),
    ],
)
def test_the_name_with_a_prefix_is_the_same_in_each_release(
    server: str, tool: str, name: str
) -> None:
    """Rules and what people have approved name tools by it."""
    assert Names("prefix").of(server, tool) == name


@pytest.mark.parametrize(
    ("authority", "tool", "name"),
    [
        ("e.com:80", "get", "e.com:80:get"),
        (None, "get", "s:get"),
        (E32, "get", f"{E32}:get"),
        (f"{E32}e", "get", "s:get"),
        ("e\u200b", "get", "s:get"),
        ("e.com", "a:b", "e.com:a_b_8fd982e4"),
        ("e.com", "a\u200bb", "e.com:a_b_4a2bc52a"),
        ("e.com", "a_0123abcd", "e.com:a_0123abcd_c75d75d6"),
        ("e.com", Y58, f"e.com:{Y58}"),
        ("e.com", f"{Y58}y", f"e.com:{'y' * 49}_3ccb26f3"),
    ],
)
def test_the_name_with_the_host_of_a_server(authority: str | None, tool: str, name: str) -> None:
    assert Names("uri", authority=lambda server: authority).of("s", tool) == name


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("n" * 256, None),
        ("n" * 257, "at most 256 visible characters"),
        ("a\u200b", "at most 256 visible characters"),
        ("", "returned '', not a name"),
        (" ", "returned ' ', not a name"),
        (5, "returned 5, not a name"),
    ],
)
def test_the_name_of_a_function_is_checked(returned: Any, expected: str | None) -> None:
    names = Names(lambda server, tool: returned)
    if expected is None:
        assert names.of("s", "t") == returned
    else:
        with pytest.raises(ValueError, match=expected):
            names.of("s", "t")
