"""The index of tools: what is found, in which order, and that nothing but its content matters."""

from __future__ import annotations

import itertools
import math
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_client import Tool
from mcp_client.catalog import tool_index
from mcp_client.catalog.tool_index import COMMON, ToolIndex, joined, words
from tests.support.properties import examples


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
    return ToolIndex(tools)


def names(index: ToolIndex, query: str, limit: int = 8) -> list[str]:
    return [each.name for each in index.search(query, limit)]


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
    same = [
        replace(tool("same", name, title="The same text"), _qualified_name=name)
        for name in reversed(qualified)
    ]
    found = index_of(*same).search("same", 5)
    assert [each.description for each in found] == qualified[:5]


@pytest.mark.parametrize("query", ["", "   ", "the", "§$%", "unheard"])
def test_what_fits_nothing_finds_nothing(query: str) -> None:
    assert index_of(tool("read", "a file")).search(query, 8) == []
    assert index_of().search(query, 8) == []


def test_no_more_than_the_limit_is_found() -> None:
    index = index_of(*(tool(f"read{n}") for n in range(20)))
    assert len(index.search("read", 3)) == 3
    assert len(index.search("read", 100)) == 20
    assert index.search("read", 0) == []


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
        *(tool(f"t{n}", many[n * 4_000 :]) for n in range(8)),
        tool("a" * 1_000_000, many, title=many, parameters=tuple(f"p{n}q" for n in range(5_000))),
        tool("b", "\ud800\udfff \x00 \u202e " + "ﷺ" * 10_000 + "天" * 10_000 + "_" * 10_000),
        tool("c", "\uff21" * 10_000 + "aA" * 10_000),
    )
    assert max(len(words) for words in _words_of(index)) <= 400
    stored: Any = tool_index._words_of_run
    assert len(stored.__self__) <= 2_048
    assert max(map(len, stored.__self__)) <= 32
    assert names(index, "hgfedc") == []
    assert index.search("b" * 1_000_000 + many, 8) == []


def _words_of(index: ToolIndex) -> list[Collection[str]]:
    index.search("", 8)
    return [each.keys() for each in _counts_in(index)]


def _counts_in(index: ToolIndex) -> list[dict[str, int]]:
    """How often each word of each tool counts."""
    found: list[dict[str, int]] = [{} for _ in index._tools]
    for word, postings in index._having.items():
        for posting in [postings] if isinstance(postings, int) else postings:
            place, count = divmod(posting, 16)
            found[place][word] = count
    return found


def test_a_catalogue_is_read_in_slices_of_a_few_tools_each() -> None:
    short = [tool(f"tool_{n}", "Reads an item and returns its text.") for n in range(3_000)]
    index, sizes = index_of(*short), [0]
    while index.read():
        sizes.append(len(index._tools))
    assert max(end - begin for begin, end in itertools.pairwise([*sizes, 3_000])) <= 200
    assert len(sizes) <= 40  # and no more of them than that takes

    hostile = tool("x" * 256, "aB" * 2_000, title="a b " * 60, parameters=tuple("abcdefgh"))
    index, sizes = index_of(*(replace(hostile, name=f"t{n}") for n in range(20))), [0]
    while index.read():
        sizes.append(len(index._tools))
    assert max(end - begin for begin, end in itertools.pairwise([*sizes, 20])) == 1


def test_a_list_that_is_read_by_two_is_read_once() -> None:
    tools = [tool(f"tool_{n}", "weather") for n in range(500)]
    index = index_of(*tools)
    index.read()
    assert len(index.search("weather", 1_000)) == 500
    assert not index.read()


@pytest.mark.slow
def test_no_query_looks_up_more_than_a_few_milliseconds_take() -> None:
    tools = [tool(f"t{n}", "get item text page" + " rare" * (n == 7)) for n in range(25_000)]
    index = index_of(*tools)
    index.search("", 8)
    looked_up = 0

    class Counted(list[int]):
        def __iter__(self) -> Any:
            nonlocal looked_up
            looked_up += len(self)
            return super().__iter__()

    known: dict[str, Any] = index._having
    known.update({word: Counted(one) for word, one in known.items() if not isinstance(one, int)})
    assert names(index, "item get rare text page", 1) == ["t7"]
    assert 25_000 <= looked_up <= 25_001


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
    lambda tools: {
        name: replace(each, server=name, _qualified_name=name) for name, each in tools.items()
    }
)
_QUERIES = st.lists(_WORDS, max_size=4).map(" ".join)


@given(catalog=_CATALOGS, query=_QUERIES, order=st.randoms())
@examples(200)
def test_the_order_depends_on_what_is_held_and_not_on_how_it_came(
    catalog: dict[str, Tool], query: str, order: Any
) -> None:
    shuffled = list(catalog.values())
    order.shuffle(shuffled)
    assert ToolIndex(catalog.values()).search(query, 50) == ToolIndex(shuffled).search(query, 50)


_SPELLED = ("read", "files", "getUser", "HTTPServer", "sha256", "Café", "天气预报", "the", "_", "x")
_TEXTS = st.lists(st.sampled_from([*_SPELLED, "\u2028", "-"]), max_size=20).map(" ".join)
_VARIED = st.builds(
    lambda name, title, text, parameters, server: tool(
        name or "x", text, title=title, parameters=tuple(parameters), server=server
    ),
    *(_TEXTS, st.none() | _TEXTS, st.none() | _TEXTS, st.lists(_TEXTS, max_size=3), _TEXTS),
)


_EVERYWHERE = tool("x", "x x x x x", title="x", parameters=("x",), server="x")


@given(st.lists(_VARIED, min_size=1, max_size=12), _TEXTS | _QUERIES)
@example([tool("x"), _EVERYWHERE, tool("read")], "x")
@examples(200)
def test_tools_are_ranked_as_the_books_have_it(tools: list[Tool], query: str) -> None:
    listed = [replace(each, _qualified_name=f"n{n}_{each.name}") for n, each in enumerate(tools)]
    index = index_of(*listed)
    found, scores = index.search(query, 50), _plain(listed, query)
    for each, *text in zip(listed, _counts_in(index), index._lengths, strict=True):
        assert text == [*_counted(each)]
    assert {each.qualified_name for each in found} == set(scores)
    assert all(
        scores[better.qualified_name] >= scores[worse.qualified_name] - 1e-9
        for better, worse in itertools.pairwise(found)
    ), ([e.raw for e in tools], scores, [e.raw["name"] for e in found])


def _plain(tools: list[Tool], query: str) -> dict[str, float]:
    """BM25 as a book has it, over what ``tool_index`` documents that it counts."""
    counts = {each.qualified_name: _counted(each) for each in tools}
    having = Counter(word for times, _ in counts.values() for word in times)
    mean = sum(length for _, length in counts.values()) / len(counts) or 1
    scores: dict[str, float] = {}
    for name, (each, length) in counts.items():
        slowly = 1.2 * (0.25 + 0.75 * length / mean)
        for word in each.keys() & _asked(query):
            rarity = math.log(1 + (len(counts) - having[word] + 0.5) / (having[word] + 0.5))
            scores[name] = scores.get(name, 0) + each[word] / (each[word] + slowly) * rarity
    return scores


def _counted(tool: Tool) -> tuple[Counter[str], int]:
    reported = list(words(tool.description or ""))
    named = {*words(tool.name), joined(tool.name), joined(tool.qualified_name)} - {None}
    parameters = {word for each in tool.input_schema["properties"] for word in words(each[:64])}
    counts = Counter({word: min(4, often) for word, often in Counter(reported).items()})
    length = len(reported)
    for times, found in (
        (4, named),
        (2, {*words(tool.server)}),
        (2, {*words(tool.title or "")}),
        (2, parameters),
    ):
        counts.update({word: times for word in found if word is not None})
        length += times * len(found)
    return counts, length


def _asked(query: str) -> set[str | None]:
    found = {*words(query)}
    return {*(found - COMMON or found), joined(query)}


def test_threads_that_search_first_read_the_tools_in_turns() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def listed() -> Iterator[Tool]:
        yield tool("first", "weather")
        inside.set()
        assert go_on.wait(30)
        yield tool("second", "weather")

    index = ToolIndex(listed())
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(names, index, "weather")
        assert inside.wait(30)
        other = threads.submit(names, index, "weather")
        wait([other], 0.05)  # nothing shows from outside that it waits
        go_on.set()
        assert one.result(30) == other.result(30) == ["first", "second"]
