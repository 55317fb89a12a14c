"""The index of tools: what is found, in which order, and that nothing but its content matters."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Tool
from mcp_client.host.search import ToolIndex
from mcp_client.host.words import words
from tests.properties import examples


def tool(
    name: str,
    description: str | None = None,
    *,
    title: str | None = None,
    parameters: tuple[str, ...] = (),
    server: str = "s",
) -> Tool:
    definition: dict[str, Any] = {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {"type": "object", "properties": {name: {} for name in parameters}},
    }
    return Tool(name, server, False, definition)


def index_of(*tools: Tool) -> ToolIndex:
    index = ToolIndex()
    for each in tools:
        index.add(each.name, each)
    return index


def names(index: ToolIndex, query: str, limit: int = 8) -> list[str]:
    return [each.name for each in index.search(query, limit=limit)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("read_file", ["read", "file"]),
        ("read-file", ["read", "file"]),
        ("readFile", ["read", "file", "readfil"]),
        ("ReadFILEName", ["read", "file", "name", "readfilenam"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("sha256", ["sha", "256", "sha256"]),
        ("a.b/c:d", ["a", "b", "c", "d"]),
        ("Café", ["cafe"]),
        ("\uff46\uff55\uff4c\uff4c", ["full"]),
        ("天气预报", ["天气", "气预", "预报"]),
        ("GPS坐标", ["gps", "坐标"]),
        ("", []),
        ("--- ___", []),
    ],
)
def test_a_name_is_split_where_its_writing_shows_words(text: str, found: list[str]) -> None:
    assert list(words(text)) == found


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("file", "files"),
        ("query", "queries"),
        ("movie", "movies"),
        ("search", "searches"),
        ("database", "databases"),
        ("class", "classes"),
        ("box", "boxes"),
        ("key", "keys"),
        ("cache", "caches"),
        ("status", "status"),
        ("branch", "branches"),
    ],
)
def test_singular_and_plural_find_each_other(one: str, many: str) -> None:
    assert names(index_of(tool(one)), many) == [one]
    assert names(index_of(tool(many)), one) == [many]


def test_names_titles_descriptions_and_parameters_are_searched() -> None:
    index = index_of(
        tool("alpha", "tells the weather"),
        tool("beta", title="Weather"),
        tool("gamma", parameters=("weatherStation",)),
        tool("get_weather"),
        tool("delta", "something else"),
        tool("omega", server="weather"),
    )
    assert names(index, "weather")[0] == "get_weather"
    assert set(names(index, "weather")) == {"alpha", "beta", "gamma", "get_weather", "omega"}


@pytest.mark.parametrize("query", ["read_file", "readFile", "read file", "READ-FILE", "readfile"])
def test_a_name_is_found_however_it_is_written(query: str) -> None:
    index = index_of(
        *(tool(f"read_file_{n}", "read file") for n in range(5)),
        tool("read_file"),
        tool("file_reader", "read file read file read file"),
    )
    assert names(index, query)[0] == "read_file"


def test_a_rare_word_counts_more_than_a_frequent_one() -> None:
    index = index_of(*(tool(f"get_{n}", "get it") for n in range(20)), tool("x", "invoice"))
    assert names(index, "get invoice")[0] == "x"


def test_a_word_counts_more_where_there_are_fewer_others() -> None:
    index = index_of(
        tool("a", "weather", parameters=tuple(f"p{n}" for n in range(30))),
        tool("b", "weather", title="What a long title for such a simple thing"),
        tool("c", "weather"),
    )
    assert names(index, "weather") == ["c", "b", "a"]


def test_common_words_count_only_where_there_is_nothing_else() -> None:
    index = index_of(tool("a1", "what is the use of this"), tool("b1", "an invoice"))
    assert names(index, "what is the invoice") == ["b1"]
    assert names(index, "what is this") == ["a1"]


def test_equal_tools_come_in_the_order_of_their_names() -> None:
    qualified = [f"t{n:04}" for n in range(600)]
    index = ToolIndex()
    for name in reversed(qualified):
        index.add(name, tool("same", name, title="The same text"))
    assert [each.description for each in index.search("same", limit=5)] == qualified[:5]


@pytest.mark.parametrize("query", ["", "   ", "the", "§$%", "unheard"])
def test_what_fits_nothing_finds_nothing(query: str) -> None:
    assert index_of(tool("read", "a file")).search(query) == []
    assert ToolIndex().search(query) == []


def test_no_more_than_the_limit_is_found() -> None:
    index = index_of(*(tool(f"read{n}") for n in range(20)))
    assert len(index.search("read")) == 8
    assert len(index.search("read", limit=3)) == 3
    assert len(index.search("read", limit=100)) == 20
    assert index.search("read", limit=0) == []


def test_a_tool_that_is_replaced_or_removed_is_not_found_any_more() -> None:
    index = index_of(tool("x", "weather"), tool("y", "weather"))
    index.add("x", tool("x", "invoices"))
    assert names(index, "weather") == ["y"]
    assert names(index, "invoice") == ["x"]
    index.remove("y")
    index.remove("y")
    assert names(index, "weather") == []
    assert "y" not in index
    assert len(index) == 1


def test_a_tool_cannot_come_first_by_repeating_words() -> None:
    index = index_of(
        tool("send_invoice", "Send an invoice."),
        tool("evil", "invoice send " * 1_000),
        *(tool(f"other{n}", "something of another kind, with its own words") for n in range(30)),
    )
    assert names(index, "send an invoice")[0] == "send_invoice"


def test_hostile_texts_are_read_up_to_a_limit() -> None:
    many = " ".join(map("".join, itertools.permutations("abcdefgh", 6)))
    index = index_of(
        tool("a" * 1_000_000, many, title=many, parameters=tuple(f"p{n}q" for n in range(5_000))),
        tool("b", "\ud800\udfff \x00 \u202e " + "ﷺ" * 10_000 + "天" * 10_000 + "_" * 10_000),
        tool("c", "\uff21" * 10_000 + "aA" * 10_000),
    )
    assert max(len(words) for words in _words_of(index)) <= 400
    assert names(index, "hgfedc") == []
    assert index.search("b" * 1_000_000 + many) == []


def _words_of(index: ToolIndex) -> list[set[str]]:
    by_slot: dict[int, set[str]] = {}
    for word, weights in index._weights.items():
        for slot in weights:
            by_slot.setdefault(slot, set()).add(word)
    return list(by_slot.values())


_WORDS = st.sampled_from(["read", "file", "get", "user", "list", "page", "x"])
_TOOLS = st.builds(
    lambda name, text, parameters: tool(
        "_".join(name), " ".join(text), parameters=tuple(parameters)
    ),
    st.lists(_WORDS, min_size=1, max_size=3),
    st.lists(_WORDS, max_size=12),
    st.lists(_WORDS, max_size=3),
)
_CATALOGS = st.dictionaries(st.sampled_from([f"n{n}" for n in range(30)]), _TOOLS).map(
    lambda tools: {name: replace(each, server=name) for name, each in tools.items()}
)
_QUERIES = st.lists(_WORDS, max_size=4).map(" ".join)


@given(before=_CATALOGS, after=_CATALOGS, query=_QUERIES, order=st.randoms())
@examples(200)
def test_the_order_depends_on_what_is_held_and_not_on_how_it_came(
    before: dict[str, Tool], after: dict[str, Tool], query: str, order: Any
) -> None:
    changed, fresh = ToolIndex(), ToolIndex()
    changed.update(before)
    changed.search(query)
    changed.update(after)
    shuffled = list(after.items())
    order.shuffle(shuffled)
    for name, each in shuffled:
        fresh.add(name, each)
    assert changed.search(query, limit=50) == fresh.search(query, limit=50)
    assert _weights_of(changed) == _weights_of(fresh)


def _weights_of(index: ToolIndex) -> dict[str, dict[str | None, int]]:
    return {
        word: {index._names[slot]: weight for slot, weight in weights.items()}
        for word, weights in index._weights.items()
    }


@given(st.sets(st.integers(0, 599), max_size=300), _QUERIES)
@examples(30)
def test_many_tools_that_come_and_go_are_searched_as_if_they_were_new(
    changed: set[int], query: str
) -> None:
    """Above 256 tools the weights of a word are kept as one integer, until one of them changes."""
    verbs = ["read", "file", "get", "user", "list", "page"]
    before = {f"n{n}": tool(f"n{n}", " ".join(verbs[n % 5 :])) for n in range(600)}
    after = {
        name: tool(name, verbs[n % 6]) if n in changed else each
        for n, (name, each) in enumerate(before.items())
        if n not in changed or n % 2
    }
    index, fresh = ToolIndex(), ToolIndex()
    index.update(before)
    for verb in verbs:
        index.search(verb)
    index.update(after)
    fresh.update(after)
    assert names(index, query, 700) == names(fresh, query, 700)


@given(st.integers(0, 2**32), _QUERIES)
@examples(50)
def test_frequent_words_are_added_up_as_rare_ones_are(seed: int, query: str) -> None:
    """Above 256 tools the integers of ``_lane`` are used: the same scores as a plain sum."""
    verbs = ["read", "file", "get", "user", "list", "page"]
    tools = {
        f"n{n:03}": tool(f"n{n:03}", " ".join(verbs[(seed >> k) % 6 :: 1 + (n * 7 + k) % 3]))
        for n in range(300)
        for k in [n % 20]
    }
    index = ToolIndex()
    index.update(tools)
    assert names(index, query, 300) == _plain(index, tools, query)


def _plain(index: ToolIndex, tools: dict[str, Tool], query: str) -> list[str]:
    """BM25 as the books have it, over the words that the index took from each tool."""
    counts = {name: Counter(entry.counts) for name, entry in index._entries.items()}
    having = Counter(word for each in counts.values() for word in each)
    scores: dict[str, int] = {}
    for name, each in counts.items():
        slowly = 1.2 * (0.25 + 0.75 * index._entries[name].length / index._pivot)
        for word in {*words(query)} & {*each}:
            rarity = math.log(1 + (len(tools) - having[word] + 0.5) / (having[word] + 0.5))
            weight = round(each[word] * 2.2 / (each[word] + slowly) * 4_096)
            scores[name] = scores.get(name, 0) + weight * max(1, round(rarity * 1_024))
    return sorted(scores, key=lambda name: (-scores[name], name))
