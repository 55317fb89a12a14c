"""A session's facts about its server: the whole first response, the session's id, ``_meta``."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_client import HttpServer, connect, sync
from mcp_client.testing import MemoryServer
from tests.support.answering import ERAS, WIRES, answering, tool
from tests.support.http_apps import Handshake, Stateless
from tests.support.http_server import Reply, Request, serving

OPENED: dict[str, dict[str, Any]] = {
    "handshake": {"protocolVersion": "2025-11-25", "capabilities": {}, "x-of": {"nested": [1]}},
    "stateless": {"supportedVersions": ["2026-07-28"], "capabilities": {}, "x-of": None},
}
METHOD = {"handshake": "initialize", "stateless": "server/discover"}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("wire", WIRES)
async def test_the_whole_first_response_is_had(wire: str, era: str) -> None:
    async with (
        answering(wire, era, {METHOD[era]: OPENED[era]}) as server,
        connect(server, revision=era) as session,
    ):
        assert session.server_response == OPENED[era]
        with pytest.raises(TypeError):
            session.server_response["capabilities"] = 1  # type: ignore[index]


LISTS = {
    "list_tools": ("tools/list", {"tools": [tool()]}),
    "list_resources": ("resources/list", {"resources": [{"uri": "x:1", "name": "one"}]}),
    "list_resource_templates": (
        "resources/templates/list",
        {"resourceTemplates": [{"uriTemplate": "x:{a}", "name": "one"}]},
    ),
    "list_prompts": ("prompts/list", {"prompts": [{"name": "one"}]}),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_list_has_the_meta_of_its_first_page(wire: str, era: str) -> None:
    reported: list[Any] = [{"of": {"page": 1}}]

    def respond(page: dict[str, Any]) -> Any:
        def page_of(params: dict[str, Any]) -> dict[str, Any]:
            if "cursor" in params:
                return {**page, "_meta": {"of": {"page": 2}}}
            return {**page, "_meta": reported[0], "nextCursor": "2"}

        return page_of

    answers = {method: respond(page) for method, page in LISTS.values()}
    async with (
        answering(wire, era, answers) as server,
        connect(server, revision=era) as session,
    ):
        for reported[0], expected in (
            ({"of": {"page": 1}}, {"of": {"page": 1}}),
            ({"of": "later"}, {"of": "later"}),
            ("not an object", {}),
            (None, {}),
        ):
            for name in LISTS:
                listed = await getattr(session, name)(refresh=True)
                assert listed.meta == expected, name
                assert len(listed) == 1


async def test_an_old_list_keeps_its_meta() -> None:
    broken = False

    def respond(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            return "no list" if broken else {"tools": [tool()], "_meta": {"n": 1}}
        return NotImplemented

    async with connect(MemoryServer(respond)) as session:
        await session.list_tools()
        broken = True
        old = await session.list_tools()
    assert [finding.kind for finding in old.own_findings] == ["stale_list"]
    assert old.meta == {"n": 1}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_gives_no_session_id_has_none(wire: str, era: str) -> None:
    async with answering(wire, era, {}) as server, connect(server, revision=era) as session:
        assert session.session_id is None


@pytest.mark.parametrize("end", [True, False])
async def test_the_id_of_a_session_is_had_and_whether_it_is_ended_is_the_hosts_choice(
    end: bool,
) -> None:
    async with serving(Handshake()) as server:
        target = HttpServer(server.url, end_session=end)
        async with connect(target) as session:
            assert session.session_id == "session-1"
            assert "session-1" not in repr(session) + repr(target)
        assert len(server.saying("DELETE")) == end
        assert session.session_id == "session-1", "it is the one to go on with"


async def test_the_id_is_that_of_the_session_in_use() -> None:
    app = Handshake()
    over: set[str] = set()

    async def handler(request: Request, reply: Reply) -> None:
        if request.headers.get("mcp-session-id") in over:
            await reply.send(404)
        else:
            await app(request, reply)

    async with serving(handler) as server, connect(server.url) as session:
        over.add("session-1")
        await session.list_tools()
        assert session.session_id == "session-2"


async def test_an_unusable_id_is_none_and_the_stateless_era_has_none() -> None:
    async with serving(Stateless()) as server, connect(server.url) as session:
        assert session.session_id is None


@pytest.mark.one_backend
def test_both_are_had_without_an_event_loop() -> None:
    def respond(message: dict[str, Any]) -> Any:
        return OPENED["handshake"] if message["method"] == "initialize" else NotImplemented

    with sync.connect(MemoryServer(respond), revision="handshake") as session:
        assert session.server_response == OPENED["handshake"]
        assert session.session_id is None
    assert repr(HttpServer("https://a.example", end_session=False)).endswith("end_session=False)")
