"""The GET stream of the handshake era: cut, refused, and opened again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from mcp_client import HttpServer, Timeouts, allow_all, connect
from mcp_client.protocol.offers import ResourceUpdate
from mcp_client.transports import http_listener
from mcp_client.transports.http import HttpTransport
from mcp_client.transports.http_listener import pause_before_next
from tests.journeys.library_story import shelf
from tests.support.http_apps import Handshake, LibraryApp
from tests.support.http_server import Reply, Request, serving
from tests.support.timing import Clock

pytestmark = pytest.mark.usefixtures("http_way")

QUICK = Timeouts(connect=30, idle=40, total=60)
Get = Callable[[int, Request, Reply], Awaitable[None]]


class Listened:
    """A server whose GET is answered by a function of how many there have been."""

    def __init__(self, get: Get) -> None:
        self.app = Handshake()
        self.gets: list[Request] = []
        self.opened = anyio.Event()
        self._get = get

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method == "GET":
            self.gets.append(request)
            await self._get(len(self.gets), request, reply)
        else:
            await self.app(request, reply)

    async def hold_open(self, reply: Reply) -> None:
        await reply.stream()
        self.opened.set()
        await reply.hold()


def _transport(url: str) -> HttpTransport:
    return HttpTransport(HttpServer(url))


def _connect(server: Any, **options: Any) -> Any:
    return connect(server, approval=allow_all, timeouts=QUICK, **options)


async def _until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.01)


async def test_a_stream_that_is_cut_again_and_again_is_opened_again_each_time() -> None:
    async def get(number: int, request: Request, reply: Reply) -> None:
        if number > 9:
            await listened.hold_open(reply)
        await reply.stream()
        await reply.chunk(b"retry: 10\n\n")
        await reply.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await reply.end()

    listened = Listened(get)
    async with serving(listened) as server, _connect(server.url):
        with anyio.fail_after(60):
            await listened.opened.wait()


SIGNS_OF_LIFE: list[Any] = [
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "no stream for you"}},
    {"jsonrpc": "2.0", "id": 999, "result": {}},
    [{"jsonrpc": "2.0"}],
    {"jsonrpc": "2.0", "method": "notifications/heartbeat"},
    {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {}},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 999}},
]
"""What no one waits for, and is not a change."""


async def test_only_streams_that_bring_nothing_are_counted_as_in_vain(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def no_pause(in_vain: int, *_: Any) -> float:
        counted.append(in_vain)
        return 0.0

    async def get(number: int, request: Request, reply: Reply) -> None:
        if number > 5:
            await listened.hold_open(reply)
        await reply.stream()
        await reply.event({"jsonrpc": "2.0", "id": number, "method": "ping"})
        await reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
        for event in SIGNS_OF_LIFE:
            await reply.event(event)
        if number == 4:
            await reply.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await reply.end()

    monkeypatch.setattr(http_listener, "pause_before_next", no_pause)
    clock.stop()  # none of them lasts for a while
    listened = Listened(get)
    async with serving(listened) as server, _connect(server.url):
        await listened.opened.wait()
        clock.resume()
    assert counted == [1, 2, 3, 0, 1]


@pytest.mark.parametrize("status", [502, 429])
async def test_a_status_that_passes_is_tried_again(status: int) -> None:
    async def get(number: int, request: Request, reply: Reply) -> None:
        if number < 3:
            await reply.send(status, b"", {"Retry-After": "0"})
        else:
            await listened.hold_open(reply)

    listened = Listened(get)
    async with serving(listened) as server, _connect(server.url) as session:
        with anyio.fail_after(60):
            await listened.opened.wait()
        assert (await session.call_tool("echo", {})).text == "{}"


async def test_a_connection_that_breaks_before_any_response_is_tried_again() -> None:
    async def get(number: int, request: Request, reply: Reply) -> None:
        if number < 3:
            reply.hang_up()
        else:
            await listened.hold_open(reply)

    listened = Listened(get)
    async with serving(listened) as server, _connect(server.url):
        with anyio.fail_after(60):
            await listened.opened.wait()


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_server_without_such_a_stream_is_asked_for_it_once(status: int) -> None:
    async def get(number: int, request: Request, reply: Reply) -> None:
        await reply.send(status)

    listened = Listened(get)
    async with serving(listened) as server:
        transport = _transport(server.url)
        async with _connect(transport) as session:
            assert (await session.call_tool("echo", {})).text == "{}"
            assert transport.notification_epoch is None
            assert session.generation == 1
    assert len(listened.gets) == 1


def _forgetting(status: int) -> tuple[anyio.Event, Listened]:
    """A server that forgets the first session once its stream is cut, which the event does."""
    cut = anyio.Event()

    async def get(number: int, request: Request, reply: Reply) -> None:
        if request.headers["mcp-session-id"] != "session-1":
            await listened.hold_open(reply)
        elif number == 1:
            await reply.stream()
            await reply.chunk(b"retry: 10\n\n")
            await cut.wait()
            await reply.end()
        else:
            await reply.send(status)

    listened = Listened(get)
    return cut, listened


@pytest.mark.parametrize("status", [404, 410])
async def test_a_stream_that_is_not_found_any_more_states_that_the_session_is_gone(
    status: int,
) -> None:
    cut, listened = _forgetting(status)
    async with serving(listened) as server:
        transport = _transport(server.url)
        async with _connect(transport) as session:
            assert transport.notification_epoch == 1
            cut.set()
            await _until(lambda: not transport.alive)
            assert (await session.call_tool("echo", {})).text == "{}"
            assert session.generation == 2
            await listened.opened.wait()


async def test_an_idle_watch_is_informed_that_the_session_is_gone_and_begins_another() -> None:
    cut, listened = _forgetting(404)
    async with (
        serving(listened) as server,
        _connect(server.url) as session,
        session.tool_changes() as changes,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(changes.__anext__)
        cut.set()
        await _until(lambda: session.generation == 2)
        await listened.opened.wait()
        tasks.cancel_scope.cancel()


async def test_405_after_a_cut_ends_the_listening_and_not_the_session() -> None:
    async def get(number: int, request: Request, reply: Reply) -> None:
        if number == 1:
            await reply.stream()
            await reply.chunk(b"retry: 10\n\n")
            await reply.end()
        else:
            await reply.send(405)

    listened = Listened(get)
    async with serving(listened) as server, _connect(server.url) as session:
        await _until(lambda: len(listened.gets) == 2)
        assert (await session.call_tool("echo", {})).text == "{}"
        assert session.generation == 1


async def test_the_transport_reports_changes_and_that_it_may_have_missed_some() -> None:
    cut, again = anyio.Event(), anyio.Event()

    async def get(number: int, request: Request, reply: Reply) -> None:
        await reply.stream()
        await reply.chunk(b"retry: 10\n\n")
        if number == 1:
            await cut.wait()
            await reply.end()
        elif number == 2:
            reply.hang_up()
        else:
            again.set()
            await reply.hold()

    listened = Listened(get)
    async with serving(listened) as server:
        transport = _transport(server.url)
        assert transport.notification_epoch is None
        async with _connect(transport):
            first = transport.notification_epoch
            assert first is not None
            cut.set()
            await again.wait()
            await _until(lambda: transport.notification_epoch not in (None, first))
        assert transport.notification_epoch is None


async def test_what_happens_while_no_stream_is_open_counts_as_a_possible_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library, gets, may_open = LibraryApp(shelf("2025-11-25")), [0], anyio.Event()

    async def serve(request: Request, reply: Reply) -> None:
        gets[0] += request.method == "GET"
        if request.method == "GET" and gets[0] == 1:
            await reply.send(503)
            return
        if request.method == "GET":
            await may_open.wait()
        await library(request, reply)

    monkeypatch.setattr(http_listener, "pause_before_next", lambda *_: 0.0)
    async with (
        serving(serve) as server,
        _connect(server.url) as session,
        session.subscribe_resource("book:emma") as updates,
        session.subscribe_resource("book:ulysses") as others,
        session.resource_changes() as changes,
    ):
        await session.call_tool("write", {"uri": "book:emma", "text": "Handsome, clever"})
        await session.call_tool("add", {"uri": "book:new"})
        may_open.set()
        assert await anext(updates) == ResourceUpdate("book:emma", certain=False)
        assert await anext(others) == ResourceUpdate("book:ulysses", certain=False)
        assert [book.uri for book in (await anext(changes)).added] == ["book:new"]
        await session.call_tool("write", {"uri": "book:emma", "text": "and rich"})
        assert await anext(updates) == ResourceUpdate("book:emma")


@pytest.mark.parametrize(
    ("in_vain", "retry", "wait", "seconds"),
    [
        (0, None, 0.0, 0.5),
        (1, None, 0.0, 0.5),
        (3, None, 0.0, 2.0),
        (50, None, 0.0, 60.0),
        (0, 120.0, 0.0, 120.0),
        (50, 120.0, 0.0, 120.0),
        (0, 0.0, 0.0, 0.05),
        (2, None, 90.0, 90.0),
    ],
)
def test_pauses_grow_where_streams_bring_nothing_and_are_never_shorter_than_asked_for(
    in_vain: int, retry: float | None, wait: float, seconds: float
) -> None:
    assert pause_before_next(in_vain, retry, wait, jitter=lambda: 0.0) == seconds
    most = pause_before_next(in_vain, retry, wait, jitter=lambda: 1.0)
    assert seconds <= most <= 1.25 * seconds
    assert (most > seconds) is (seconds != retry)
    drawn = {pause_before_next(in_vain, retry, wait) for _ in range(50)}
    assert (len(drawn) > 1) is (seconds != retry)
