"""Lists whose pages do not mark where the list ends, and entries that come twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from mcp_client import McpError, ServerError, allow_all, connect
from mcp_client.catalog.tools import Catalog
from tests.support.answering import ERAS, WIRES, answering, tool
from tests.support.feed import Feed, source_of

pytestmark = pytest.mark.one_backend


class Server:
    """Answers the requests for pages in turn, and notes them."""

    def __init__(self, *pages: Any) -> None:
        self.pages = list(pages)
        self.asked: list[dict[str, Any]] = []
        self.catalog = Catalog(source_of(self.fetch, lambda: 0.0), Feed(), False)

    async def fetch(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(dict(fields))
        found = self.pages.pop(0)
        if isinstance(found, Exception):
            raise found
        copy: dict[str, Any] = json.loads(json.dumps(found))
        return copy


def page(*names: str, **members: Any) -> dict[str, Any]:
    return {"tools": [tool(name) for name in names], **members}


ENDS: list[tuple[list[Any], str, str]] = [
    # pages in the order they are asked for, the tools, and the finding
    ([page("a", "b", nextCursor="")] * 2, "a b", "comes again"),
    ([page("a", "b", nextCursor="x")] * 2, "a b", "comes again"),
    ([page("a", nextCursor="x"), page("a", nextCursor="y")], "a", "comes again"),
    ([page(nextCursor="x"), page(nextCursor="x")], "", "comes again"),
    ([page("a", nextCursor="x"), page("b", nextCursor="x")], "a b", "lead back"),
    (
        [page("a", nextCursor="1"), page("b", nextCursor="2"), page("c", nextCursor="1")],
        "a b c",
        "lead back",
    ),
    (
        [page("a", nextCursor="1"), page("b", nextCursor="2"), page("a", nextCursor="1")],
        "a b",
        "comes again",
    ),
    (
        [page("a", nextCursor="1"), page("b", nextCursor="2"), page("a", nextCursor="3")],
        "a b",
        "comes again",
    ),
    (
        [
            page("a", nextCursor="1"),
            page("b", nextCursor="2"),
            {"tools": [tool("a", title="now"), tool("c")], "nextCursor": "1"},
        ],
        "a b c",
        "lead back",
    ),
    ([page("a", nextCursor=""), ServerError("?", code=-32602)], "a", "refuses"),
    ([page("a", nextCursor=""), ServerError("?", code=-32603)], "a", "refuses"),
    ([page("a", nextCursor=""), ServerError("?", code=None, http_status=400)], "a", "refuses"),
    ([page("a", nextCursor=0), ServerError("?", code=-32602)], "a", "refuses"),
    ([page("a", nextCursor=7), page("b")], "a b", "is a number"),
    ([page("a", nextCursor=0)] * 2, "a", "is a number"),
    ([page("a", nextCursor=False)], "a", "of false"),
    ([{"tools": None}], "", "null in place of its entries"),
    ([page("a", nextCursor="x"), {"tools": None}], "a", "null in place of its entries"),
]


@pytest.mark.parametrize(("pages", "names", "expected"), ENDS)
async def test_a_list_ends_where_nothing_new_can_come_and_reports_it(
    pages: list[Any], names: str, expected: str
) -> None:
    server = Server(*pages)
    tools = await server.catalog.all()
    assert [tool.name for tool in tools] == names.split()
    assert len(server.asked) == len(pages)
    assert {finding.kind for finding in tools.own_findings} == {"deviation"}
    assert any(expected in str(finding) for finding in tools.own_findings)
    assert not tools.rejected


async def test_empty_pages_with_new_cursors_and_an_empty_cursor_that_leads_on_are_ordinary() -> (
    None
):
    pages = [page(nextCursor="1"), page(nextCursor="2"), page("a", nextCursor=""), page("b")]
    tools = await Server(*pages).catalog.all()
    assert [tool.name for tool in tools] == ["a", "b"]
    assert tools.own_findings == ()


async def test_a_cursor_that_is_a_number_is_sent_as_it_came_and_as_text_if_refused() -> None:
    refused = ServerError("not a string", code=-32602)
    server = Server(page("a", nextCursor=7), refused, page("a", nextCursor=7), page("b"))
    assert [tool.name for tool in await server.catalog.all()] == ["a", "b"]
    assert server.asked == [{}, {"cursor": 7}, {}, {"cursor": "7"}]


async def test_a_tool_that_is_listed_twice_alike_is_one_tool_with_a_finding() -> None:
    twin = tool("a", title="A")
    turned = dict(reversed(twin.items()))
    server = Server({"tools": [twin, tool("b")], "nextCursor": "x"}, {"tools": [turned, tool("c")]})
    tools = await server.catalog.all()
    assert [tool.name for tool in tools] == ["a", "b", "c"]
    assert [(one.kind, one.about) for one in tools.own_findings] == [("deviation", "a")]
    assert not tools.rejected


async def test_tools_of_one_name_that_differ_are_all_left_out() -> None:
    differing = [tool("a"), tool("a"), tool("a", title="other"), tool("b")]
    tools = await Server({"tools": differing}).catalog.all()
    assert [tool.name for tool in tools] == ["b"]
    assert {(one.name, one.kind) for one in tools.rejected} == {("a", "same_name")}


# ------------------------------------------------------------------- on the wire

MEMBERS = {"tools": "tools", "resources": "resources", "prompts": "prompts"}


def entry(feature: str, name: str) -> dict[str, Any]:
    return tool(name) if feature == "tools" else {"name": name, "uri": f"x:{name}"}


@pytest.mark.both_backends
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("era", ERAS)
async def test_each_list_of_a_server_ends_and_null_is_an_empty_list(wire: str, era: str) -> None:
    for cursor in ("", "again", 1):
        answers = {
            f"{feature}/list": {member: [entry(feature, "a")] * 2, "nextCursor": cursor}
            for feature, member in MEMBERS.items()
        }
        for kind, expected in ((answers, ["a"]), (_nulls(), [])):
            with anyio.fail_after(60):
                async with answering(wire, era, kind) as server, connect(server) as session:
                    for listing in (
                        session.list_tools,
                        session.list_resources,
                        session.list_prompts,
                    ):
                        listed = await listing()
                        assert [one.name for one in listed] == expected
                        assert {one.kind for one in listed.own_findings} == {"deviation"}
                        assert not listed.rejected


def _nulls() -> dict[str, Any]:
    return {f"{feature}/list": {member: None} for feature, member in MEMBERS.items()}


@pytest.mark.both_backends
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("era", ERAS)
async def test_null_in_other_results_counts_as_absent(wire: str, era: str) -> None:
    answers = {
        "tools/call": {"content": None, "isError": None, "structuredContent": None, "_meta": None},
        "resources/read": {"contents": None},
        "prompts/get": {"messages": None, "description": None},
    }
    nulls = {"resultType": None} if era == "stateless" else {}
    with anyio.fail_after(60):
        async with (
            answering(wire, era, {k: {**v, **nulls} for k, v in answers.items()}) as server,
            connect(server, approval=allow_all) as session,
        ):
            result = await session.call_tool("echo", {})
            assert (result.content, result.is_error, result.structured_content) == ((), False, None)
            assert (await session.read_resource("x:a")).contents == ()
            assert (await session.get_prompt("p")).messages == ()


@pytest.mark.parametrize("members", [{"content": "x"}, {"isError": "no"}, {"content": {}}], ids=str)
async def test_other_types_in_their_place_stay_refused(members: Any) -> None:
    async with (
        answering("memory", "stateless", {"tools/call": members}) as server,
        connect(server, approval=allow_all) as session,
    ):
        with pytest.raises(McpError, match="invalid tool result"):
            await session.call_tool("echo", {})


async def test_other_icons_are_the_same_tool_with_a_finding() -> None:
    old, new = tool("a", icons=[{"src": "https://x/1.png"}]), tool("a", icons=None, title=None)
    server = Server({"tools": [old]}, {"tools": [new]})
    first = await server.catalog.all()
    second = await server.catalog.all(refresh=True)
    assert first[0].fingerprint == second[0].fingerprint
    assert [(one.kind, one.about) for one in second.own_findings] == [
        ("definition_changed", "icons")
    ]
