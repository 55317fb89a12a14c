"""The tools of one server: complete or an error, fetched once, refreshed when needed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcp_client import Limits, McpError, ToolList
from mcp_client.catalog.read_requests import Page
from mcp_client.catalog.tools import Catalog
from mcp_client.errors import ProtocolViolation, UnknownTool
from tests.support.feed import Feed, source_of

pytestmark = pytest.mark.one_backend


def tool(name: Any = "a", **members: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **members}


class Server:
    """Answers ``tools/list`` from a table of pages by cursor, and counts."""

    def __init__(self, *pages: Any, limits: Limits | None = None) -> None:
        self.pages = list(pages)
        self.asked: list[dict[str, Any]] = []
        self.clock = 1_000.0
        self.gate: anyio.Event | None = None
        self.feed = Feed()
        self.source = source_of(self.fetch, lambda: self.clock, limits)
        self.catalog = Catalog(self.source, self.feed, False)

    async def fetch(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(dict(fields))
        if self.gate is not None:
            await self.gate.wait()
        await checkpoint()
        cursor = fields.get("cursor")
        at = 0
        if cursor is not None:
            at = next(i for i, p in enumerate(self.pages) if p.get("nextCursor") == cursor) + 1
        found: dict[str, Any] = self.pages[at]
        return found

    async def names(self, *, refresh: bool = False) -> list[str]:
        return [tool.name for tool in await self.catalog.all(refresh=refresh)]


def page(*names: str, **members: Any) -> dict[str, Any]:
    return {"tools": [tool(name) for name in names], **members}


# ------------------------------------------------------------------- pages


async def test_every_page_is_fetched_in_order() -> None:
    server = Server(page("a", nextCursor="2"), page("b", "c", nextCursor="3"), page("d"))
    assert await server.names() == ["a", "b", "c", "d"]
    assert server.asked == [{}, {"cursor": "2"}, {"cursor": "3"}]


async def test_an_empty_string_is_a_cursor() -> None:
    server = Server(page("a", nextCursor=""), page("b"))
    assert await server.names() == ["a", "b"]
    assert server.asked == [{}, {"cursor": ""}]


async def test_a_null_cursor_is_the_end() -> None:
    assert await Server(page("a", nextCursor=None)).names() == ["a"]


@pytest.mark.parametrize(
    ("pages", "limits", "expected"),
    [
        ([page(nextCursor="x"), page(nextCursor="y"), page()], Limits(pages=2), "Limits.pages"),
        ([page("a", "b", "c")], Limits(tools=2), "Limits.tools"),
        ([page("a", nextCursor="x"), page("b", "c")], Limits(tools=2), "Limits.tools"),
        ([page("a", nextCursor=True)], Limits(), "not a string"),
        ([page("a", nextCursor=["x"])], Limits(), "not a string"),
        ([{}], Limits(), "without an array"),
        ([{"tools": {"a": tool()}}], Limits(), "without an array"),
        ([page("a", nextCursor="x"), {"tools": "b"}], Limits(), "without an array"),
    ],
)
async def test_an_incomplete_list_is_an_error_and_never_a_short_list(
    pages: list[Any], limits: Limits, expected: str
) -> None:
    server = Server(*pages, limits=limits)
    for _ in range(2):  # nothing of it is stored
        with pytest.raises(ProtocolViolation, match=expected) as caught:
            await server.catalog.all()
        assert caught.value.server == "files"
        assert caught.value.result is not None


async def test_the_caps_themselves_are_within() -> None:
    server = Server(page("a", nextCursor="x"), page("b"), limits=Limits(pages=2, tools=2))
    assert await server.names() == ["a", "b"]


async def test_a_failed_refresh_leaves_the_list_at_hand_in_force() -> None:
    server = Server(page("a"))
    await server.catalog.all()
    server.pages = [{}]
    with pytest.raises(ProtocolViolation):
        await server.catalog.all(refresh=True)
    assert (await server.catalog.find("a")).name == "a"
    assert await server.names() == ["a"]


# -------------------------------------------------------------- quarantine


@pytest.mark.parametrize(
    ("definition", "name", "reason"),
    [
        (None, "", "not a JSON object"),
        ("a", "", "not a JSON object"),
        ([tool()], "", "not a JSON object"),
        ({}, "", "name is missing"),
        ({"inputSchema": {}}, "", "name is missing"),
        (tool(""), "", "name is missing, empty"),
        (tool(7), "", "not a string"),
        (tool(["a"]), "", "not a string"),
        ({"name": "x"}, "x", "inputSchema is missing"),
        ({"name": "x", "inputSchema": None}, "x", "inputSchema is missing or not a JSON object"),
        ({"name": "x", "inputSchema": True}, "x", "inputSchema"),
        ({"name": "x", "inputSchema": "{}"}, "x", "inputSchema"),
        ({"name": "x\x1b[31m\u202e"}, "x\\u{1b}[31m\\u{202e}", "inputSchema"),
    ],
)
async def test_a_malformed_tool_is_left_out_with_its_reason_and_spoils_no_other(
    definition: Any, name: str, reason: str
) -> None:
    server = Server({"tools": [tool("first"), definition, tool("last")]})
    tools = await server.catalog.all()
    assert [tool.name for tool in tools] == ["first", "last"]
    (rejected,) = tools.rejected
    assert rejected.name == name
    assert reason in rejected.reason
    assert rejected.kind == "invalid"


@pytest.mark.parametrize("odd", [None, True, False, {}, [], "{}", 7])
async def test_an_output_schema_of_any_type_is_taken(odd: Any) -> None:
    server = Server({"tools": [tool("a", outputSchema=odd)]})
    assert (await server.catalog.find("a")).output_schema == odd


async def test_of_two_tools_with_one_name_neither_is_taken() -> None:
    first, second = tool("twin", description="good"), tool("twin", description="evil")
    server = Server({"tools": [first, tool("a")], "nextCursor": "x"}, {"tools": [second]})
    tools = await server.catalog.all()
    assert [tool.name for tool in tools] == ["a"]
    assert [(one.name, one.kind) for one in tools.rejected] == [("twin", "same_name")] * 2
    with pytest.raises(UnknownTool, match="'twin' was rejected: 2 tools have this name"):
        await server.catalog.find("twin")


async def test_a_rejected_tool_is_refused_with_the_reason() -> None:
    with pytest.raises(UnknownTool, match="'x' was rejected: its inputSchema is missing"):
        await Server({"tools": [{"name": "x"}]}).catalog.find("x")


# --------------------------------------------------------------- freshness


@pytest.mark.both_backends
async def test_many_who_wait_cost_one_fetch() -> None:
    server = Server(page("a", nextCursor="2"), page("b"))
    server.gate = anyio.Event()
    found: list[Any] = []

    async def wait(refresh: bool) -> None:
        found.append(await server.catalog.all(refresh=refresh))

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(wait, number % 2 == 0)
        await anyio.wait_all_tasks_blocked()
        server.gate.set()
    assert server.asked == [{}, {"cursor": "2"}]
    assert len(found) == 20
    assert all(tools is found[0] for tools in found)


@pytest.mark.both_backends
async def test_finding_many_tools_at_once_costs_one_fetch() -> None:
    server = Server(page("a", "b"))
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(server.catalog.find, "ab"[number % 2])
    assert len(server.asked) == 1


@pytest.mark.both_backends
async def test_tasks_that_wait_are_served_although_the_fetching_task_failed() -> None:
    server = Server(page("a"))
    server.gate = anyio.Event()
    found: list[str] = []

    async def wait() -> None:
        found.extend(await server.names())

    async with anyio.create_task_group() as group:
        first = anyio.CancelScope()

        async def fetcher() -> None:
            with first:
                await server.catalog.all()

        group.start_soon(fetcher)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        server.gate.set()
    assert found == ["a"]


@pytest.mark.both_backends
async def test_the_list_is_stored_until_the_server_states_it_changed() -> None:
    server = Server(page("a"))
    first = await server.catalog.all()
    server.clock += 10**9
    assert await server.catalog.all() is first
    server.pages = [page("b")]
    server.feed.changed()
    assert await server.names() == ["b"]
    assert await server.names() == ["b"]
    assert len(server.asked) == 2


async def test_a_refresh_asks_again() -> None:
    server = Server(page("a"))
    await server.catalog.all()
    server.pages = [page("b")]
    assert await server.names() == ["a"]
    assert await server.names(refresh=True) == ["b"]


async def thrice(server: Server, *pages: Any) -> list[ToolList]:
    """Refreshed three times, with ``pages`` before the last."""
    lists = [await server.catalog.all(refresh=True) for _ in range(2)]
    server.pages = [*pages]
    return [*lists, await server.catalog.all(refresh=True)]


async def test_what_came_as_before_is_not_looked_through_again() -> None:
    server = Server(page("a", "b", nextCursor="x"), page("c"))
    _, before, now = await thrice(server, page("a", "b", nextCursor="x"), page("c"))
    assert now is before
    assert await server.catalog.find("c") is now[2]
    assert len(server.asked) == 6


@pytest.mark.parametrize(
    "changed",
    [
        {"annotations": {"readOnlyHint": 1}},
        {"annotations": {"readOnlyHint": 1.0}},
        {"annotations": {"readOnlyHint": True}, "x": 1},
        {"annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object", "minLength": 0}},
    ],
)
async def test_what_came_otherwise_is_another_list(changed: Any) -> None:
    server = Server({"tools": [tool(annotations={"readOnlyHint": True})]})
    _, before, now = await thrice(server, {"tools": [tool(**changed)]})
    assert now is not before
    assert now[0].raw == tool(**changed)


async def test_what_came_on_another_connection_is_looked_through_again() -> None:
    server = Server(page("a"))
    _, before = [await server.catalog.all(refresh=True) for _ in range(2)]
    server.source.connection.generation += 1
    assert await server.catalog.all(refresh=True) is not before


async def test_what_cannot_be_compared_is_looked_through_again() -> None:
    deep: Any = True
    for _ in range(3_000):
        deep = [deep]
    server = Server({"tools": [tool(), tool("b", deep=deep)]})
    # The bytes of a page are counted with json.dumps, which does not go so deep.
    server.source.page = lambda method, fields: _page(server.pages[0])
    _, before, now = await thrice(server, *server.pages)
    assert now is not before
    assert [tool.name for tool in now] == ["a", "b"]


async def _page(result: dict[str, Any]) -> Page:
    return Page(result, 1)


async def test_a_host_that_judges_tool_by_tool_is_asked_each_time() -> None:
    server = Server(page("a"))
    trusted = False
    server.catalog = Catalog(server.source, server.feed, lambda tool: trusted)
    assert [tools[0].trusted for tools in await thrice(server, page("a"))] == [False] * 3
    trusted = True
    assert (await server.catalog.all(refresh=True))[0].trusted


@pytest.mark.both_backends
async def test_a_notice_during_a_fetch_makes_what_is_fetched_stale() -> None:
    server = Server(page("a"))
    server.gate = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(server.catalog.all)
        await anyio.wait_all_tasks_blocked()
        server.feed.changed()
        server.gate.set()
    server.pages = [page("b")]
    assert await server.names() == ["b"]
    assert len(server.asked) == 2


@pytest.mark.both_backends
async def test_tasks_that_wait_during_a_change_notice_do_not_get_the_stale_list() -> None:
    server = Server(page("a"))
    server.gate = anyio.Event()
    found: list[list[str]] = []

    async def wait() -> None:
        found.append(await server.names())

    async with anyio.create_task_group() as group:
        group.start_soon(server.catalog.all)
        await anyio.wait_all_tasks_blocked()
        server.feed.changed()
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        server.gate.set()
    assert found == [["a"]]
    assert len(server.asked) == 2


@pytest.mark.both_backends
async def test_a_call_after_a_notice_uses_the_new_definition() -> None:
    server = Server(page("a"))
    old = await server.catalog.find("a")
    server.pages = [{"tools": [tool("a", description="new")]}]
    server.feed.changed()
    new = await server.catalog.find("a")
    assert (old.description, new.description) == (None, "new")
    assert new.fingerprint != old.fingerprint


async def test_a_list_is_fresh_for_its_ttl_from_when_it_came() -> None:
    server = Server(page("a", ttlMs=5_000))
    await server.catalog.all()
    server.clock += 4.9
    await server.catalog.all()
    assert len(server.asked) == 1
    server.clock += 0.2
    await server.catalog.all()
    assert len(server.asked) == 2


async def test_the_shortest_ttl_of_the_pages_counts() -> None:
    server = Server(page("a", nextCursor="x", ttlMs=1_000), page("b", ttlMs=60_000))
    await server.catalog.all()
    server.clock += 2
    await server.catalog.all()
    assert len(server.asked) == 4


async def test_a_call_lists_the_tools_again_once_the_time_that_came_with_them_is_over() -> None:
    public = {"cacheScope": "public"}
    first, last = page("a", nextCursor="x", ttlMs=0, **public), page("b", ttlMs=1_000, **public)
    server = Server(first, last)
    for _ in range(2):
        await server.catalog.find("a")
    assert len(server.asked) == 2
    server.clock += 0.9
    assert server.catalog.usable("a") is not None
    server.clock += 0.1
    assert server.catalog.usable("a") is None
    for _ in range(2):
        await server.catalog.find("a")
    assert len(server.asked) == 4


@pytest.mark.parametrize("ttl", [0, -1, -(10**30)])
async def test_a_ttl_of_nothing_costs_every_list_a_fetch_and_no_call_one(ttl: int) -> None:
    server = Server(page("a", ttlMs=ttl))
    for _ in range(3):
        await server.catalog.find("a")
    assert len(server.asked) == 1
    for _ in range(3):
        await server.catalog.all()
    assert len(server.asked) == 4


@pytest.mark.parametrize("ttl", [10**30, 1e300, "5", None, True, [1]])
async def test_an_odd_ttl_does_no_harm(ttl: Any) -> None:
    server = Server(page("a", ttlMs=ttl))
    await server.catalog.all()
    assert await server.names() == ["a"]
    assert len(server.asked) == 1


# ----------------------------------------------------------------- unknown


async def test_an_unknown_tool_is_looked_up_again_before_it_is_refused() -> None:
    server = Server(page("a"))
    await server.catalog.all()
    server.pages = [page("a", "late")]
    assert (await server.catalog.find("late")).name == "late"
    assert len(server.asked) == 2


async def test_an_unknown_tool_in_a_list_fetched_just_now_is_not_asked_for_again() -> None:
    server = Server(page("a"))
    with pytest.raises(UnknownTool):
        await server.catalog.find("b")
    assert len(server.asked) == 1


async def test_an_unknown_tool_is_refused_with_the_names_there_are_made_safe() -> None:
    server = Server(page("a", *(f"t{n}" for n in range(30))))
    with pytest.raises(UnknownTool) as caught:
        await server.catalog.find("b\u202e")
    text = str(caught.value)
    assert "no tool 'b\\u{202e}'" in text.replace("\\\\", "\\")
    assert text.endswith(", ...")
    assert "\x1b" not in text
    assert isinstance(caught.value, McpError)
    assert caught.value.server == "files"


async def test_a_rejected_name_is_never_shown_as_it_is() -> None:
    server = Server(page("a", "evil\x1b[2J"))
    with pytest.raises(UnknownTool, match=r"evil.*was rejected: its name has invisible") as caught:
        await server.catalog.find("evil\x1b[2J")
    assert "\x1b" not in str(caught.value)


async def test_an_unknown_tool_of_a_server_without_any_is_refused() -> None:
    with pytest.raises(UnknownTool, match="it has: none"):
        await Server(page()).catalog.find("a")


# ------------------------------------------------------------------- size


async def test_ten_thousand_tools_cost_ten_times_what_a_thousand_do() -> None:
    async def seconds(count: int) -> float:
        names = [f"tool-{number}" for number in range(count)]
        size = count // 10
        pages = [
            page(*names[at : at + size], **({"nextCursor": str(at)} if at + size < count else {}))
            for at in range(0, count, size)
        ]
        best = 1e9
        for _ in range(3):
            server = Server(*pages)
            started = time.process_time()
            assert len(await server.catalog.all()) == count
            best = min(best, time.process_time() - started)
        started = time.process_time()
        for name in names:
            await server.catalog.find(name)
        return best + time.process_time() - started

    for _ in range(8):  # one try that no other program disturbed is enough
        if await seconds(10_000) < 40 * await seconds(1_000):
            return
    pytest.fail("ten thousand tools took forty times as long as a thousand")
