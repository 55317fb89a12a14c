"""The view of a tool is read and judged: its type, its document, its policy and permissions."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcp_client import HttpServer, Limits, ServerError, Session, allow_all, connect
from mcp_client.content import ResourceResult
from mcp_client.errors import InvalidArguments, ProtocolViolation
from mcp_client.extensions import Apps, ClientInfo, UiResource
from mcp_client.protocol.uris import RESTRICTIVE
from mcp_client.testing import Recording, ReplayServer
from tests.support.starting import in_memory
from tests.support.views import MIME_TYPE, VIEW, HandshakeViews, StatelessViews, Views

pytestmark = pytest.mark.one_backend


@asynccontextmanager
async def showing(views: Views, **options: Any) -> AsyncIterator[Session]:
    server = in_memory(views)
    async with connect(
        server,
        name="clock",
        approval=allow_all,
        client_info=ClientInfo("tests", "1", extensions=[Apps()]),
        **options,
    ) as session:
        yield session


@pytest.fixture(params=[HandshakeViews, StatelessViews])
def views(request: pytest.FixtureRequest) -> Views:
    views: Views = request.param()
    return views


def view(limit: int = 1_000_000, **contents: Any) -> UiResource:
    """The view that a server has which sends this."""
    piece = {"uri": VIEW, "mimeType": MIME_TYPE, "text": "<p>14", **contents}
    piece = {name: value for name, value in piece.items() if value is not None}
    return UiResource.from_result(
        ResourceResult.from_wire({"contents": [piece]}, "clock", VIEW), most=limit
    )


def with_ui(ui: Any) -> UiResource:
    return view(_meta={"ui": ui})


async def test_the_view_of_a_tool_is_read_with_its_rights(views: Views) -> None:
    views.document["_meta"] = {
        "ui": {
            "csp": {"connectDomains": ["https://time.example.com"]},
            "permissions": {"geolocation": {}, "camera": {}},
            "domain": "clock.example.net",
            "prefersBorder": False,
        }
    }
    async with showing(views) as session:
        displayed = await session.read_ui(await session.get_tool("show"))
    assert displayed.uri == VIEW
    assert displayed.html == "<!doctype html><title>Clock</title>"
    assert "connect-src 'self' https://time.example.com;" in displayed.csp
    assert displayed.allow == "camera; geolocation"
    assert displayed.domain == "clock.example.net"
    assert displayed.prefers_border is False
    assert displayed.domains == ("https://time.example.com",)
    assert displayed.findings == ()
    assert displayed.server == "clock"
    assert views.count("resources/list") == 0


async def test_the_host_declares_that_it_renders(views: Views) -> None:
    async with showing(views):
        pass
    request = next(m for m in views.messages if m["method"] in ("initialize", "server/discover"))
    if isinstance(views, HandshakeViews):
        request = next(m for m in views.messages if m["method"] == "initialize")
        capabilities = request["params"]["capabilities"]
    else:
        capabilities = request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    declared = capabilities["extensions"]["io.modelcontextprotocol/ui"]
    assert declared == {"mimeTypes": ["text/html;profile=mcp-app"]}


async def test_the_rights_in_the_list_count_where_the_contents_have_none(views: Views) -> None:
    views.listed = {"ui": {"prefersBorder": True, "permissions": {"camera": {}}}}
    async with showing(views) as session:
        tool = await session.get_tool("show")
        displayed = await session.read_ui(tool)
        assert (displayed.prefers_border, displayed.allow, displayed.csp) == (
            True,
            "camera",
            RESTRICTIVE,
        )
        views.document["_meta"] = {"ui": {"prefersBorder": False}}
        displayed = await session.read_ui(tool)
        assert (displayed.prefers_border, displayed.allow) == (False, "")


async def test_a_list_that_cannot_be_had_leaves_the_restrictive_policy(views: Views) -> None:
    def fails(params: dict[str, Any]) -> Any:
        return {"resources": 5, "resultType": "complete"}

    views._resources_list = fails  # type: ignore[method-assign]
    async with showing(views) as session:
        displayed = await session.read_ui(await session.get_tool("show"))
    assert (displayed.csp, displayed.allow) == (RESTRICTIVE, "")


@pytest.mark.parametrize(
    ("contents", "problem"),
    [
        ({"mimeType": "text/html"}, r"the mimeType 'text/html', and must have 'text/html;profile"),
        ({"mimeType": "text/html; profile=mcp-app"}, "the mimeType 'text/html; profile=mcp-app'"),
        ({"mimeType": "TEXT/HTML;profile=mcp-app"}, "the mimeType 'TEXT/HTML"),
        ({"mimeType": "text/uri-list"}, "the mimeType 'text/uri-list'"),
        ({"mimeType": None}, "no mimeType"),
        ({"uri": "https://example.com"}, "is not a ui:// URI"),
        ({"uri": "UI://views/clock.html"}, "is not a ui:// URI"),
        ({"text": None}, "neither text nor blob"),
        ({"blob": "PHA+"}, "neither text nor blob, or both"),
        ({"text": None, "blob": "not Base64"}, "not Base64"),
        ({"text": None, "blob": base64.b64encode(b"\xff\xfe").decode()}, "not UTF-8"),
        ({"text": "\ud800"}, "not UTF-8"),
    ],
)
def test_what_is_not_a_view_is_refused_by_its_reason(
    contents: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ProtocolViolation, match=problem) as caught:
        view(**contents)
    assert caught.value.server == "clock"


def test_a_resource_without_contents_is_refused() -> None:
    empty = ResourceResult.from_wire({"contents": []}, "clock", VIEW)
    with pytest.raises(ProtocolViolation, match="no contents"):
        UiResource.from_result(empty, most=100)


def test_the_first_piece_counts_and_no_other() -> None:
    piece = {"uri": VIEW, "mimeType": MIME_TYPE, "text": "<p>14"}
    result = ResourceResult.from_wire({"contents": [5, piece]}, "clock", VIEW)
    with pytest.raises(ProtocolViolation, match="not a JSON object"):
        UiResource.from_result(result, most=100)
    result = ResourceResult.from_wire({"contents": [piece, piece]}, "clock", VIEW)
    displayed = UiResource.from_result(result, most=100)
    assert tuple(map(str, displayed.findings)) == (
        "it has more than one piece of contents: the first one counts",
    )


def test_a_blob_is_decoded() -> None:
    html = "<p>zwölf"
    assert view(text=None, blob=base64.b64encode(html.encode()).decode()).html == html


def test_a_document_of_more_than_the_limit_is_refused() -> None:
    assert view(9, text="<p>zwölf").html == "<p>zwölf"
    blob = base64.b64encode("<p>zwölf".encode()).decode()
    for contents in ({"text": "<p>zwölf"}, {"text": None, "blob": blob}):
        with pytest.raises(ProtocolViolation, match=r"8 bytes, Limits\(view_bytes=\.\.\.\)"):
            view(8, **contents)


async def test_the_limit_is_that_of_the_session(views: Views) -> None:
    async with showing(views, limits=Limits(view_bytes=10)) as session:
        with pytest.raises(ProtocolViolation, match="view_bytes"):
            await session.read_ui(await session.get_tool("show"))


def test_what_is_wrong_with_the_rights_is_found_and_ignored() -> None:
    assert tuple(map(str, with_ui(5).findings)) == ("_meta.ui is not a JSON object: ignored",)
    assert with_ui(5).csp == RESTRICTIVE
    assert with_ui({"domain": "a; b"}).domain is None
    assert tuple(map(str, with_ui({"domain": "a; b"}).findings)) == (
        "_meta.ui.domain is not the name of a host: ignored",
    )
    assert with_ui({"prefersBorder": "yes"}).prefers_border is None
    assert len(with_ui({"prefersBorder": "yes", "csp": 5, "permissions": []}).findings) == 3
    assert with_ui(None).findings == ()


def test_contents_of_another_uri_are_named() -> None:
    assert tuple(map(str, view(uri="ui://views/other.html").findings)) == (
        "its contents have another uri: 'ui://views/other.html'",
    )


def test_the_digest_changes_with_what_is_shown() -> None:
    same = [view(), view(), view(annotations={"priority": 1})]
    others = [view(text="<p>15"), with_ui({"csp": {}}), with_ui({"permissions": {"camera": {}}})]
    assert len({one.digest for one in same}) == 1
    assert len({one.digest for one in [*same, *others]}) == 4


def test_the_document_is_not_in_the_repr() -> None:
    assert "<p>14" not in repr(view())


async def test_the_policy_is_logged_and_outside_domains_are_a_warning(
    views: Views, caplog: pytest.LogCaptureFixture
) -> None:
    csp = {"connectDomains": ["https://time.example.com", "*"]}
    views.document["_meta"] = {"ui": {"csp": csp}}
    with caplog.at_level(logging.INFO, "mcp_client"):
        async with showing(views) as session:
            displayed = await session.read_ui(await session.get_tool("show"))
    reported = {(one.levelno, one.getMessage()) for one in caplog.records}
    assert (logging.INFO, f"clock: {VIEW}: Content-Security-Policy: {displayed.csp}") in reported
    assert (logging.WARNING, f"clock: {VIEW} may connect to https://time.example.com") in reported
    assert (logging.WARNING, f"clock: {VIEW}: {displayed.findings[0]}") in reported


async def test_only_a_tool_of_this_server_with_a_view_has_one_to_read(views: Views) -> None:
    async with showing(views) as session:
        show = await session.get_tool("show")
        with pytest.raises(InvalidArguments, match="no view"):
            await session.read_ui(await session.get_tool("plain"))
        with pytest.raises(InvalidArguments, match="give a Tool"):
            await session.read_ui("show")  # type: ignore[arg-type]
    async with connect(in_memory(type(views)()), name="other") as other:
        with pytest.raises(InvalidArguments, match="one of the server 'clock'"):
            await other.read_ui(show)
    assert views.count("resources/read") == 0


async def test_a_view_that_the_server_does_not_have_is_its_error(views: Views) -> None:
    views.tools[0]["_meta"]["ui"]["resourceUri"] = "ui://views/none.html"
    async with showing(views) as session:
        with pytest.raises(ServerError, match=r"no resource 'ui://views/none\.html'"):
            await session.read_ui(await session.get_tool("show"))


def at(url: str, views: Views) -> HttpServer:
    """The server as one at ``url``."""

    def respond(request: httpx.Request) -> httpx.Response:
        if request.method != "POST":
            return httpx.Response(405)
        response = views.reply(json.loads(request.content), lambda message: None)
        return httpx.Response(202) if response is None else httpx.Response(200, json=response)

    return HttpServer(url, client=httpx.AsyncClient(transport=httpx.MockTransport(respond)))


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("https://views.example/mcp", False),
        ("http://10.0.0.1/mcp", False),
        ("http://127.0.0.1:9/mcp", True),
        ("https://localhost/mcp", True),
    ],
)
async def test_a_view_reaches_this_machine_only_if_its_server_is_on_it(
    views: Views, url: str, is_local: bool
) -> None:
    there = "http://127.0.0.1:3000"
    views.document["_meta"] = {"ui": {"csp": {"connectDomains": [there, "https://a.example"]}}}
    server = at(url, views)
    assert server.client is not None
    async with (
        server.client,
        connect(
            server,
            name="clock",
            approval=allow_all,
            client_info=ClientInfo("tests", "1", extensions=[Apps()]),
        ) as session,
    ):
        displayed = await session.read_ui(await session.get_tool("show"))
    assert (there in displayed.csp) is is_local
    assert (there in displayed.domains) is is_local
    assert "https://a.example" in displayed.csp
    refused = "connectDomains: 'http://127.0.0.1:3000' left out: it is this machine"
    assert any(refused in str(one) for one in displayed.findings) is not is_local


async def test_a_view_of_a_program_or_of_this_process_may_reach_this_machine_and_of_a_record_not(
    views: Views, tmp_path: Path
) -> None:
    record, csps = tmp_path / "record.jsonl", list[str]()
    ways: list[tuple[Any, dict[str, Any]]] = [
        (lambda: Recording(in_memory(views), record), {}),
        (lambda: ReplayServer(record), {}),
    ]
    views.document["_meta"] = {"ui": {"csp": {"connectDomains": ["http://localhost:3000"]}}}
    for server, options in ways:
        async with connect(
            server(),
            name="clock",
            approval=allow_all,
            client_info=ClientInfo("tests", "1", extensions=[Apps()]),
            **options,
        ) as session:
            csps.append((await session.read_ui(await session.get_tool("show"))).csp)
    assert ["http://localhost:3000" in csp for csp in csps] == [True, False]
