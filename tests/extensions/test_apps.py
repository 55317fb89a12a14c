"""What a view may do: call tools of its own server through the gate, and read its resources."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    CallDenied,
    ConfigError,
    Deny,
    Host,
    Limits,
    MemoryServer,
    NotSent,
    Rule,
    Rules,
    Session,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.approval import Decisions
from mcp_client.errors import InvalidArguments, UnknownTool
from mcp_client.extensions import App
from tests.support.starting import in_memory
from tests.support.starting import views as views_program
from tests.support.timing import clock_of_the_loop
from tests.support.views import VIEW, HandshakeViews, StatelessViews, Views, tool

pytestmark = pytest.mark.one_backend


@pytest.fixture(params=[HandshakeViews, StatelessViews])
def views(request: pytest.FixtureRequest) -> Views:
    views: Views = request.param()
    return views


@asynccontextmanager
async def opened_view(
    views: Views, approval: Any = allow_all, *, server: MemoryServer | None = None, **options: Any
) -> AsyncIterator[tuple[Session, App]]:
    """A session, and the app of its tool ``show``."""
    async with connect(
        server or in_memory(views), name="clock", approval=approval, **options
    ) as session:
        yield session, session.app(await session.get_tool("show"))


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id: Any, name: str, **arguments: Any) -> dict[str, Any]:
    return request(id, "tools/call", name=name, arguments=arguments)


# ------------------------------------------------------------------------ the gate


async def test_a_call_of_a_view_passes_the_gate_as_one_of_an_app(views: Views) -> None:
    asked: list[ToolCall] = []

    def approve(call: ToolCall) -> Allow | Deny:
        asked.append(call)
        return Deny("not now") if call.arguments else Allow()

    async with opened_view(views, approve) as (session, app):
        result = await app.call_tool("refresh")
        assert result.structured_content == {"h": 14}
        with pytest.raises(CallDenied, match="not now"):
            await app.call_tool("show", {"zone": "UTC"})
        await session.call_tool("show")
    assert [(one.tool.name, one.origin) for one in asked] == [
        ("refresh", "app"),
        ("show", "app"),
        ("show", "host"),
    ]
    assert len(views.calls) == 2
    assert len({asked[1].key, asked[2].key}) == 2


async def test_a_tool_without_app_in_its_visibility_is_refused_before_anybody_is_asked(
    views: Views,
) -> None:
    asked: list[ToolCall] = []

    def approve(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    async with opened_view(views, approve) as (session, app):
        for name, reason in [("model_only", "not offer the tool to its views"), ("nobody", "nor")]:
            with pytest.raises(NotSent, match=reason) as caught:
                await app.call_tool(name)
            assert caught.value.tool == name
        with pytest.raises(UnknownTool):
            await app.call_tool("other__show")
        with pytest.raises(NotSent, match="only to its views"):
            await session.call_tool("refresh")
        assert not asked
        await app.call_tool("plain")  # both may, if a tool states nothing
    assert [one.tool.name for one in asked] == ["plain"]
    assert len(views.calls) == 1


async def test_a_tool_that_stops_being_for_apps_while_approval_is_asked_is_not_called() -> None:
    views = HandshakeViews()
    views.capabilities["tools"] = {"listChanged": True}

    async def approve(call: ToolCall) -> Allow:
        views.tools[1] = tool("refresh", resourceUri=VIEW, visibility=["model"])
        views.changed("tools")
        return Allow()

    async with opened_view(views, approve) as (_, app):
        with pytest.raises(NotSent, match="not offer the tool to its views"):
            await app.call_tool("refresh")
    assert not views.calls


async def test_the_audit_states_that_a_view_called(views: Views) -> None:
    records: list[Mapping[str, Any]] = []
    async with opened_view(views, audit=records.append) as (session, app):
        await app.call_tool("show")
        await session.call_tool("show")
        with pytest.raises(NotSent):
            await app.call_tool("model_only")
    opened = [one for one in records if one["event"] == "opened"]
    assert [(one["tool"], one.get("origin")) for one in opened] == [
        ("show", "app"),
        ("show", None),
        ("model_only", "app"),
    ]


@pytest.mark.parametrize("remember", ["session", "always"])
async def test_a_decision_remembered_for_one_origin_holds_for_none_of_the_other(
    remember: Any, tmp_path: Path
) -> None:
    asked: list[str] = []

    def approve(call: ToolCall) -> Allow:
        asked.append(call.origin)
        return Allow(remember=remember)

    answers = tmp_path / "answers.json"
    async with connect(
        views_program(), name="clock", approval=approve, state=Decisions(answers)
    ) as session:
        app = session.app(await session.get_tool("show"))
        for _ in range(2):
            await session.call_tool("show")
            await app.call_tool("show")
        assert asked == ["host", "app"]
        stored = session.decisions.list() if remember == "session" else Decisions(answers).list()
        assert [one.origin for one in stored] == ["host", "app"]
        (session.decisions if remember == "session" else Decisions(answers)).revoke(stored[1].id)
        await session.call_tool("show")
        await app.call_tool("show")
        assert asked == ["host", "app", "app"]


async def test_rules_may_distinguish_the_origins(views: Views) -> None:
    rules = Rules(
        [
            Rule("deny", tool="show", origin="app"),
            Rule("allow", tool="refresh", origin="app"),
            Rule("allow", tool="*"),
        ],
        ask=lambda call: Deny("asked"),
    )
    async with opened_view(views, rules) as (session, app):
        await session.call_tool("show")
        await app.call_tool("refresh")
        with pytest.raises(CallDenied, match="asked"):
            await app.call_tool("plain")
        with pytest.raises(CallDenied, match="origin=app"):
            await app.call_tool("show")


async def test_the_context_is_the_apps_unless_a_call_names_its_own(views: Views) -> None:
    asked: list[Any] = []

    def approve(call: ToolCall) -> Allow:
        asked.append(call.context)
        return Allow()

    async with connect(in_memory(views), name="clock", approval=approve) as session:
        app = session.app(await session.get_tool("show"), context="ana")
        await app.call_tool("show")
        await app.call_tool("show", context="bo")
        await app.handle(call(1, "show"))
    assert asked == ["ana", "bo", "ana"]


@pytest.mark.both_backends
async def test_a_hosts_own_list_has_the_tools_whose_views_a_session_reads() -> None:
    async with Host({"one": in_memory(StatelessViews()), "two": views_program()}) as host:
        tools = {tool.qualified_name: tool for tool in await host.list_tools()}
        session = await host.session(tools["two__show"].server)
        assert (await session.read_ui(tools["two__show"])).server == "two"
        with pytest.raises(InvalidArguments, match="views call only their own server"):
            session.app(tools["one__show"])
        with pytest.raises(CallDenied):  # the host's own gate
            await session.app(tools["two__show"]).call_tool("refresh")
        with pytest.raises(NotSent, match="only to its views"):
            await host.call_tool("two__refresh")


async def test_an_app_is_for_a_tool_of_its_own_server(views: Views) -> None:
    async with opened_view(views) as (session, app):
        show = await session.get_tool("show")
        async with connect(in_memory(type(views)()), name="other") as other:
            with pytest.raises(InvalidArguments, match="views call only their own server"):
                other.app(show)
        with pytest.raises(InvalidArguments, match="give a Tool"):
            session.app("show")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="cannot open a view") as caught:
            session.app(await session.get_tool("plain"))
        assert caught.value.tool == "plain"
        assert repr(app) == "<App of clock/show, open>"


async def test_a_resource_is_read_from_the_views_own_server_without_asking(views: Views) -> None:
    async with opened_view(views, lambda call: Deny()) as (_, app):
        assert (await app.read_resource("data:hours")).text.endswith("14")


# --------------------------------------------------------------------- its messages


async def test_messages_of_a_view_are_answered(views: Views) -> None:
    async with opened_view(views) as (_, app):
        response = await app.handle(call(1, "refresh"))
        assert response is not None
        assert (response["jsonrpc"], response["id"]) == ("2.0", 1)
        assert response["result"]["structuredContent"] == {"h": 14}
        response = await app.handle(request("two", "resources/read", uri="data:hours"))
        assert response is not None
        assert response["result"]["contents"] == [{"uri": "data:hours", "text": "14"}]
        assert await app.handle({"jsonrpc": "2.0", "id": 3, "method": "ping"}) == {
            "jsonrpc": "2.0",
            "id": 3,
            "result": {},
        }
        json.dumps(response)


async def test_the_views_own_meta_is_not_sent(views: Views) -> None:
    async with opened_view(views) as (_, app):
        await app.handle(request(1, "tools/call", name="show", _meta={"com.example/x": 1}, task={}))
    (sent,) = views.calls
    assert "com.example/x" not in sent.get("_meta", {})
    assert set(sent) <= {"name", "arguments", "_meta"}


async def test_messages_for_the_host_are_left_to_it(views: Views) -> None:
    async with opened_view(views) as (_, app):
        before = len(views.messages)
        for message in (
            request(1, "ui/initialize", protocolVersion="2026-01-26"),
            request(2, "ui/message", role="user"),
            request(3, "ui/open-link", url="https://example.com/help"),
            {"jsonrpc": "2.0", "method": "ui/notifications/initialized"},
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "\x1b[31m"}},
            {"jsonrpc": "2.0", "method": "notifications/anything", "params": []},
            {"jsonrpc": "2.0", "id": 4, "result": {}},
            {"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "no"}},
            "scripts in a page post other things to their parent, too",
            [request(1, "tools/call", name="show")],
            {"source": "devtools", "id": 1, "method": "ping"},
            {"jsonrpc": "1.0", "id": 1, "method": "ping"},
            None,
        ):
            assert await app.handle(message) is None
        assert len(views.messages) == before


@pytest.mark.parametrize(
    ("message", "code", "id"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, -32600, 1),
        ({"jsonrpc": "2.0", "id": 1}, -32600, 1),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600, None),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, -32600, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, -32600, None),
        ({"jsonrpc": "2.0", "id": "x" * 1_000, "method": "ping"}, -32600, None),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, -32602, 1),
        (request(1, "tools/list"), -32601, 1),
        (request(1, "initialize"), -32601, 1),
        (request(1, "resources/list"), -32601, 1),
        (request(1, "sampling/createMessage"), -32601, 1),
        (request(1, "logging/setLevel", level="debug"), -32601, 1),
        (request(1, "UI/open-link", url="https://example.com"), -32601, 1),
        (request(1, "tools/call"), -32602, 1),
        (request(1, "tools/call", name=5), -32602, 1),
        (request(1, "tools/call", name="show", arguments=[]), -32602, 1),
        (request(1, "resources/read"), -32602, 1),
        (request(1, "resources/read", uri=["data:hours"]), -32602, 1),
        (request(1, "resources/read", uri=""), -32602, 1),
        (call(1, "no_such_tool"), -32602, 1),
        (call(1, "model_only"), -32000, 1),
        (call(1, "show", fail=True), -32050, 1),
        (request(1, "ui/open-link", url="javascript:alert(1)"), -32000, 1),
        (request(1, "ui/open-link", url="http://example.com"), -32000, 1),
        (request(1, "ui/open-link"), -32000, 1),
    ],
)
async def test_any_other_request_is_refused(views: Views, message: Any, code: int, id: Any) -> None:
    async with opened_view(views) as (_, app):
        before = views.count("resources/read")
        response = await app.handle(message)
        assert response is not None
        assert (response["id"], response["error"]["code"]) == (id, code)
        assert len(views.calls) == (code == -32050)
        assert views.count("resources/read") == before


async def test_a_deep_message_is_refused(views: Views) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    async with opened_view(views) as (_, app):
        response = await app.handle(call(1, "show", deep=deep))
        assert response is not None
        assert response["error"]["code"] == -32602
        while deep:  # not by recursion
            deep = deep[0]
    assert not views.calls


async def test_a_view_does_not_learn_who_refused_nor_why(views: Views) -> None:
    def approve(call: ToolCall) -> Deny:
        return Deny("Ana is on holiday", by="bo")

    async with opened_view(views, approve) as (_, app):
        response = await app.handle(call(1, "show"))
    assert response is not None
    assert response["error"] == {"code": -32000, "message": "the call was not approved"}


async def test_a_link_names_where_it_leads(views: Views) -> None:
    async with opened_view(views) as (_, app):
        assert app.link("https://example.com/help").host == "example.com"
        assert app.link("https://good.example@evil.example/").warnings
        with pytest.raises(InvalidArguments, match="neither https"):
            app.link("file:///etc/passwd")


async def test_requests_of_a_view_are_limited_within_a_minute() -> None:
    views, clock = StatelessViews(), clock_of_the_loop()
    async with opened_view(views, limits=Limits(view_requests_per_minute=2)) as (_, app):
        clock.stop()
        try:
            for id, accepted in ((1, True), (2, True), (3, False), (4, False)):
                assert ("result" in (await app.handle(call(id, "show")) or {})) is accepted
            assert "result" in (await app.handle(request(5, "ping")) or {})
            clock.jump(59.9)
            response = await app.handle(call(6, "show"))
            assert response is not None
            assert response["error"]["message"] == "too many requests within a minute"
            clock.jump(0.2)
            assert "result" in (await app.handle(call(7, "show")) or {})
        finally:
            clock.resume()
    assert len(views.calls) == 3


# ------------------------------------------------------- what is under way, and its end


class Questions:
    """An approval hook that waits until a test releases it."""

    def __init__(self) -> None:
        self.asked = 0
        self.withdrawn = 0
        self.go_on = anyio.Event()

    async def __call__(self, call: ToolCall) -> Allow:
        self.asked += 1
        try:
            await self.go_on.wait()
        except BaseException:
            self.withdrawn += 1
            raise
        return Allow()


async def until(condition: Any) -> None:
    with anyio.fail_after(30):
        while not condition():
            await anyio.lowlevel.checkpoint()


@pytest.mark.both_backends
async def test_closing_an_app_withdraws_what_its_view_asks_for() -> None:
    views, questions = StatelessViews(), Questions()
    replies: list[Any] = []
    async with opened_view(views, questions) as (_, app):

        async def ask(id: int) -> None:
            replies.append(await app.handle(call(id, "show")))

        async with anyio.create_task_group() as tasks:
            for id in range(3):
                tasks.start_soon(ask, id)
            await until(lambda: questions.asked == 3)
            app.close()
        assert replies == [None, None, None]
        assert questions.withdrawn == 3
        response = await app.handle(call(4, "show"))
        assert response is not None
        assert response["error"] == {"code": -32000, "message": "the view was closed"}
        with pytest.raises(NotSent, match="closed"):
            await app.call_tool("show")
        with pytest.raises(NotSent, match="closed"):
            await app.read_resource("data:hours")
        assert repr(app) == "<App of clock/show, closed>"
    assert not views.calls


@pytest.mark.both_backends
async def test_a_view_may_cancel_its_own_request_and_no_other() -> None:
    views, questions = StatelessViews(), Questions()
    replies: dict[Any, Any] = {}
    async with opened_view(views, questions) as (_, app):

        async def ask(id: Any) -> None:
            replies[id] = await app.handle(call(id, "show"))

        async with anyio.create_task_group() as tasks:
            for id in (1, "1"):
                tasks.start_soon(ask, id)
            await until(lambda: questions.asked == 2)
            for params in ({}, {"requestId": 2}, {"requestId": [1]}, {"requestId": 1}):
                message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
                assert await app.handle(message) is None
            await until(lambda: 1 in replies)
            questions.go_on.set()
    assert replies[1] is None
    assert replies["1"]["result"]["structuredContent"] == {"h": 14}
    assert len(views.calls) == 1


@pytest.mark.both_backends
async def test_a_read_that_is_cancelled_is_not_answered() -> None:
    views = StatelessViews()
    response = in_memory(views)
    arrived = anyio.Event()

    def handler(message: dict[str, Any], send: Any) -> None:
        if message.get("method") == "resources/read":
            arrived.set()
            return
        response._handler(message, send)

    async with opened_view(views, server=MemoryServer(handler)) as (_, app):
        replies: list[Any] = []

        async def ask() -> None:
            replies.append(await app.handle(request(1, "resources/read", uri="data:hours")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            with anyio.fail_after(30):
                await arrived.wait()
            app.close()
        assert replies == [None]


@pytest.mark.both_backends
async def test_requests_under_way_are_limited_and_have_ids_of_their_own() -> None:
    views, questions = StatelessViews(), Questions()
    replies: list[Any] = []
    async with opened_view(views, questions, limits=Limits(questions=2)) as (_, app):

        async def ask(id: int) -> None:
            replies.append(await app.handle(call(id, "show")))

        async with anyio.create_task_group() as tasks:
            for id in (1, 2):
                tasks.start_soon(ask, id)
            await until(lambda: questions.asked == 2)
            response = await app.handle(call(1, "show"))
            assert response is not None
            assert response["error"]["message"] == "a request with this id is under way"
            response = await app.handle(call(3, "show"))
            assert response is not None
            assert response["error"]["message"] == "too many requests are under way"
            assert await app.handle(request(4, "ping")) is not None
            questions.go_on.set()
        assert all("result" in one for one in replies)
        assert "result" in ((await app.handle(call(1, "show"))) or {})
    assert len(views.calls) == 3
