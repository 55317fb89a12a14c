"""Notifications of a server: a stream that is opened when it is needed, and opened again."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest

from mcp_client import MemoryServer, Session, Timeouts, allow_all, connect
from mcp_client.catalog.watch import ToolChanges
from mcp_client.testing import FakeServer, JsonRpcError
from mcp_client.transports.multiplexer import LineExchange
from tests.support.answering import answering, tool
from tests.support.timing import Clock, quickly

ID = "io.modelcontextprotocol/subscriptionId"
CHANGED = "notifications/tools/list_changed"
CANCELLED = "notifications/cancelled"


@pytest.fixture(autouse=True)
async def no_change_is_found_by_the_clock(clock: Clock) -> None:
    clock.stop()


class Server:
    """A server of the stateless era that acknowledges, changes and ends streams on command."""

    def __init__(self, *names: str, ttl: int = 3_600_000, listens: bool = True) -> None:
        self.tools = dict.fromkeys(names, "")
        self.ttl = ttl
        self.listens = listens
        self.honours: dict[str, Any] = {"toolsListChanged": True}
        self.acknowledges = True
        self.refuses: JsonRpcError | None = None
        self.streams: list[int] = []
        self.messages: list[dict[str, Any]] = []
        self.gate: anyio.Event | None = None

    async def __call__(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        self.messages.append(message)
        self.send = send
        match message["method"]:
            case "server/discover":
                declared = {"listChanged": True} if self.listens else {}
                return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": declared}}
            case "tools/list":
                if self.gate is not None:
                    await self.gate.wait()
                tools = [
                    {"name": name, "description": text, "inputSchema": {"type": "object"}}
                    for name, text in self.tools.items()
                ]
                return {"tools": tools, "ttlMs": self.ttl, "cacheScope": "public"}
            case "tools/call":
                return {"content": []}
            case "subscriptions/listen":
                if self.refuses is not None:
                    raise self.refuses
                self.streams.append(message["id"])
                if self.acknowledges:
                    self.acknowledge()
        return None

    def count(self, method: str) -> int:
        return sum(message["method"] == method for message in self.messages)

    def notify(self, method: str, **params: Any) -> None:
        params["_meta"] = {ID: self.streams[-1]}
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def acknowledge(self) -> None:
        self.notify("notifications/subscriptions/acknowledged", notifications=self.honours)

    def change(self, **tools: str) -> None:
        self.tools = tools
        self.notify(CHANGED)

    def end_stream(self, **response: Any) -> None:
        response = response or {
            "result": {"resultType": "complete", "_meta": {ID: self.streams[-1]}}
        }
        self.send({"jsonrpc": "2.0", "id": self.streams[-1], **response})


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not true():
            await anyio.sleep(0)


class Pauses:
    """Stands in for sleeping between two streams: ends when it is let."""

    def __init__(self, session: Session) -> None:
        self.asked: list[float] = []
        self.let = anyio.Event()
        session._subscriptions.tools._sleep = self
        session._subscriptions.tools._jitter = lambda: 1.0

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        await self.let.wait()


def names(changes: ToolChanges) -> tuple[list[str], list[str], list[str]]:
    return (
        [tool.name for tool in changes.added],
        [tool.name for tool in changes.removed],
        [tool.name for tool in changes.changed],
    )


# ---------------------------------------------------------------- who needs it


async def test_no_stream_is_opened_for_a_list_or_a_call_that_fetched_what_it_uses() -> None:
    server = Server("a")
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.list_tools()
        await session.list_tools(refresh=True)
        await session.ping()
    assert server.count("subscriptions/listen") == 0


async def test_a_stream_is_opened_once_where_a_list_is_relied_on() -> None:
    server = Server("a")
    async with connect(MemoryServer(server), approval=allow_all) as session:
        for _ in range(5):
            await session.call_tool("a")
            await session.list_tools()
        await until(lambda: server.streams != [])
        assert server.count("subscriptions/listen") == 1
        request = next(m for m in server.messages if m["method"] == "subscriptions/listen")
        assert request["params"]["notifications"] == {"toolsListChanged": True}
        assert server.count("tools/list") == 1, "the list is within its ttl"
        server.change(a="new")
        await until(lambda: session._catalog.outdated)
        assert (await session.get_tool("a")).description == "new"
        assert server.count("tools/list") == 2


async def test_no_stream_is_opened_where_the_server_does_not_declare_it() -> None:
    server = Server("a", listens=False)
    async with connect(MemoryServer(server)) as session:
        await session.list_tools()
        await session.list_tools()
        async with session.tool_changes():
            pass
    assert server.count("subscriptions/listen") == 0


async def test_a_list_that_is_past_its_ttl_when_the_stream_opens_is_fetched_for_the_next_use() -> (
    None
):
    server = Server("a", ttl=0)
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.call_tool("a")
        await session.call_tool("a")
        await until(lambda: server.streams != [])
        assert server.count("tools/list") == 1
        await session.call_tool("a")
        await session.call_tool("a")
    assert server.count("tools/list") == 2


# -------------------------------------------------------------------- changes


async def test_changes_are_reported_one_after_another_as_added_removed_and_changed() -> None:
    server = Server("a", "b")
    async with connect(MemoryServer(server)) as session, session.tool_changes() as changes:
        server.change(a="new", c="")
        first = await anext(changes)
        assert names(first) == (["c"], ["b"], ["a"])
        assert first.changed[0].description == "new"
        assert [tool.name for tool in first.before] == ["a", "b"]
        assert [tool.name for tool in first.tools] == ["a", "c"]
        server.change(a="new")
        assert names(await anext(changes)) == ([], ["c"], [])


async def test_changes_can_be_iterated_without_a_with() -> None:
    server = Server("a")
    async with connect(MemoryServer(server)) as session:
        await session.list_tools()
        changes = session.tool_changes()
        server.tools = {"a": "", "b": ""}
        async for change in changes:
            assert names(change) == (["b"], [], [])
            await changes.aclose()


@pytest.mark.parametrize("how", ["by a call", "elsewhere", "unlisted"])
async def test_a_change_before_the_first_step_is_reported_where_no_list_was_fetched(
    how: str,
) -> None:
    server = Server("a", listens=how != "unlisted")
    response = server.__call__

    async def changed_by_a_call(message: dict[str, Any], send: Any) -> Any:
        if message["method"] == "tools/call":
            server.tools = {"a": "new", "b": ""}
        return await response(message, send)

    target = MemoryServer(changed_by_a_call)
    async with connect(target, approval=allow_all) as session:
        changes = session.tool_changes()
        if how == "by a call":
            await session.call_tool("a")
        else:
            await until(lambda: server.count("tools/list") == 1)
            await session.ping()
            server.tools = {"a": "new", "b": ""}
        if how == "unlisted":
            await session.list_tools(refresh=True)
        assert names(await anext(changes)) == (["b"], [], ["a"])
        await changes.aclose()


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_changes_are_compared_with_the_first_list_of_any_caller(revision: str) -> None:
    server = FakeServer({"a": lambda: None})
    async with connect(server, revision=revision) as session:
        changes = session.tool_changes()
        await session.list_tools()
        server.add_tool("b", lambda: None)
        await session.list_tools()
        with anyio.fail_after(60):
            assert names(await anext(changes)) == (["b"], [], [])


async def test_a_watch_that_is_never_begun_ends_with_its_session() -> None:
    server = Server("a")
    server.gate = anyio.Event()
    async with connect(MemoryServer(server)) as session:
        session.tool_changes()
        await until(lambda: server.count("tools/list") == 1)
    assert server.count("subscriptions/listen") == 0


async def test_a_storm_of_notices_during_a_fetch_is_one_more_fetch() -> None:
    server = Server("a")
    async with connect(MemoryServer(server)) as session, session.tool_changes() as changes:
        listed = server.count("tools/list")
        server.gate = anyio.Event()
        server.change(b="")
        async with anyio.create_task_group() as group:
            got: list[Any] = []

            async def wait() -> None:
                got.append(await anext(changes))

            group.start_soon(wait)
            await until(lambda: server.count("tools/list") == listed + 1)
            for _ in range(1_000):
                server.notify(CHANGED)
            server.gate.set()
        await session.list_tools()
    assert names(got[0]) == (["b"], ["a"], [])
    assert server.count("tools/list") == listed + 2


@pytest.mark.parametrize("wire", ["memory", "stdio", "sse"])
@pytest.mark.parametrize("comes_and_goes", [True, False])
async def test_a_server_that_cries_change_at_every_list_is_asked_less_and_less_often(
    wire: str, comes_and_goes: bool, clock: Clock
) -> None:
    listed: list[int] = []
    calm = False

    def page(params: Any) -> Any:
        listed.append(1)
        odd = [tool("odd")] if comes_and_goes and len(listed) % 2 else []
        return {"tools": [tool("last")] if calm else [tool("a"), *odd]}

    def cry(request: Any, response: Any) -> list[bytes]:
        notices = [{"jsonrpc": "2.0", "method": CHANGED}] * (request["method"] == "tools/list")
        reported = [response] if calm else [*notices, response]
        return [json.dumps(one).encode() for one in reported]

    def reached(fetches: int) -> bool:
        return len(listed) >= fetches

    answers = {"tools/list": page, "capabilities": {"tools": {"listChanged": True}}}
    seen: list[list[str]] = []

    async def watch(session: Session) -> None:
        async with session.tool_changes() as changes:
            async for change in changes:
                seen.append([tool.name for tool in change.now])

    async with (
        answering(wire, "handshake", answers, cry) as server,
        connect(server) as session,
        anyio.create_task_group() as group,
    ):
        group.start_soon(watch, session)
        # Four fetches: the first list, and three that are not delayed.
        for expected, pause in enumerate((0.5, 1.0, 2.0, 4.0, 5.0, 5.0), 4):
            await until(partial(reached, expected))
            clock.jump(0.9 * pause)
            for _ in range(3):
                await session.ping()
            assert len(listed) == expected
            clock.jump(0.2 * pause)
        await until(partial(reached, 10))
        calm = True
        clock.jump(6.0)
        await until(lambda: seen[-1:] == [["last"]])
        group.cancel_scope.cancel()


async def test_a_watch_that_waits_for_a_storm_to_end_can_be_closed_and_ends_with_its_session() -> (
    None
):
    server = Server("a")
    crying = Server.__call__

    async def cry(message: dict[str, Any], send: Any) -> Any:
        if message["method"] == "tools/list" and server.streams:
            server.notify(CHANGED)
        return await crying(server, message, send)

    for closes_session in (True, False):
        async with connect(MemoryServer(cry)) as session:
            before = server.count("tools/list")
            async with anyio.create_task_group() as group:
                changes = session.tool_changes()

                async def end(changes: Any = changes) -> None:
                    with pytest.raises(StopAsyncIteration):
                        await anext(changes)

                group.start_soon(end)
                await until(lambda: server.count("tools/list") == before + 4)  # noqa: B023
                await (session.aclose() if closes_session else changes.aclose())


async def test_a_change_that_another_use_found_is_reported_as_well() -> None:
    server = Server("a", listens=False)
    async with connect(MemoryServer(server)) as session, session.tool_changes() as changes:
        server.tools = {"b": ""}
        await session.list_tools(refresh=True)
        assert names(await anext(changes)) == (["b"], ["a"], [])


async def test_a_fetch_that_fails_raises_and_the_next_step_tries_again() -> None:
    server = Server("a")
    fails = False

    async def failing(message: dict[str, Any], send: Any) -> Any:
        if fails and message["method"] == "tools/list":
            raise JsonRpcError(-32000, "busy")
        return await server(message, send)

    async with connect(MemoryServer(failing)) as session, session.tool_changes() as changes:
        fails = True
        server.change(b="")
        with pytest.raises(Exception, match="busy"):
            await anext(changes)
        fails = False
        assert names(await anext(changes)) == (["b"], ["a"], [])


async def test_letting_go_of_the_last_watch_cancels_the_stream() -> None:
    server = Server("a")
    async with connect(MemoryServer(server)) as session:
        async with session.tool_changes(), session.tool_changes():
            await until(lambda: server.streams != [])
        await until(lambda: server.count(CANCELLED) == 1)
        cancelled = next(m for m in server.messages if m["method"] == CANCELLED)
        assert cancelled["params"]["requestId"] == server.streams[0]
    assert server.count("subscriptions/listen") == 1


async def test_the_stream_stays_where_a_list_is_relied_on() -> None:
    server = Server("a")
    async with connect(MemoryServer(server)) as session:
        async with session.tool_changes():
            await session.get_tool("a")
            await session.get_tool("a")
        await session.ping()
        assert server.count(CANCELLED) == 0
        server.change(a="new")
        await until(lambda: session._catalog.outdated)
        assert (await session.get_tool("a")).description == "new"


@pytest.mark.parametrize("which", ["watch", "session"])
async def test_a_task_that_waits_for_a_change_is_released_at_the_close(
    which: str, clock: Clock
) -> None:
    clock.resume()
    server = Server("a")
    session = await connect(MemoryServer(server))
    changes = session.tool_changes()
    seen: list[Any] = []

    async def wait() -> None:
        seen.extend([change async for change in changes])
        seen.append("over")

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await until(lambda: server.streams != [])
        await anyio.wait_all_tasks_blocked()
        await (changes if which == "watch" else session).aclose()
    assert seen == ["over"]
    await session.aclose()


# ---------------------------------------------------------- loss and refusal


async def test_a_lost_stream_is_opened_again_after_a_pause_that_doubles() -> None:
    server = Server("a")
    async with connect(MemoryServer(server)) as session:
        pauses = Pauses(session)
        pauses.let.set()
        async with session.tool_changes():
            server.acknowledges = False
            for _ in range(4):
                pauses.asked.append(0)
                server.end_stream(error={"code": -32000, "message": "restarting"})
                await until(lambda: len(server.streams) == pauses.asked.count(0) + 1)
            assert [pause for pause in pauses.asked if pause] == [1, 2, 4, 8]
            server.acknowledge()
            await until(lambda: session._subscriptions.tools.epoch is not None)
            server.end_stream()
            await until(lambda: len(pauses.asked) == 9)
            assert pauses.asked[-1] == 16, "an acknowledgement alone is not progress"
            assert session._subscriptions.tools.epoch is None


@pytest.mark.parametrize("progress", ["nothing", "a log line", "a change", "time"])
async def test_only_a_stream_that_lasted_or_brought_a_change_resets_the_pause(
    progress: str, clock: Clock
) -> None:
    server = Server("a")
    async with connect(MemoryServer(server)) as session:
        pauses = Pauses(session)
        pauses.let.set()
        clock.stop()
        async with session.tool_changes():
            for number in range(1, 5):
                await until(lambda: session._subscriptions.tools.epoch is not None)
                if progress == "a log line":
                    server.notify("notifications/message", level="info", data="still here")
                elif progress == "a change":
                    server.change(**{f"t{number}": ""})
                elif progress == "time":
                    clock.jump(6)
                server.end_stream()
                await until(lambda number=number: len(server.streams) > number)  # type: ignore[misc]
        lasted = progress in ("a change", "time")
        assert pauses.asked[:4] == ([1, 1, 1, 1] if lasted else [1, 2, 4, 8])


async def test_what_happened_while_no_stream_was_open_is_found_when_it_is_open_again() -> None:
    server = Server("a")
    async with connect(MemoryServer(server)) as session:
        pauses = Pauses(session)
        async with session.tool_changes() as changes:
            server.end_stream(error={"code": -32000, "message": "restarting"})
            await until(lambda: pauses.asked != [])
            server.tools = {"b": ""}
            pauses.let.set()
            assert names(await anext(changes)) == (["b"], ["a"], [])
    assert len(server.streams) == 2


async def test_a_stream_the_server_ends_well_is_not_cancelled_and_opened_again() -> None:
    server = Server("a")
    async with connect(MemoryServer(server)) as session:
        pauses = Pauses(session)
        async with session.tool_changes():
            server.end_stream()
            await until(lambda: pauses.asked != [])
            assert server.count(CANCELLED) == 0
            pauses.let.set()
            await until(lambda: len(server.streams) == 2)


@pytest.mark.parametrize(
    "honours", [{}, {"toolsListChanged": False}, None, {"promptsListChanged": 1}]
)
async def test_a_filter_that_was_not_acknowledged_is_not_waited_for(honours: Any) -> None:
    server = Server("a")
    server.honours = honours
    async with connect(MemoryServer(server)) as session:
        async with session.tool_changes():
            await until(lambda: server.count(CANCELLED) == 1)
        await session.list_tools()
        async with session.tool_changes():
            pass
    assert server.count("subscriptions/listen") == 1


async def test_a_server_without_the_method_is_asked_once() -> None:
    server = Server("a")
    server.refuses = JsonRpcError(-32601, "no such method")
    async with connect(MemoryServer(server)) as session:
        for _ in range(3):
            async with session.tool_changes():
                await session.list_tools()
    assert server.count("subscriptions/listen") == 1
    assert server.count(CANCELLED) == 0


async def test_a_server_that_never_acknowledges_blocks_nothing(clock: Clock) -> None:
    server = Server("a")
    server.acknowledges = False
    async with connect(MemoryServer(server), timeouts=Timeouts(connect=1)) as session:
        pauses = Pauses(session)
        async with quickly(clock), session.tool_changes():
            pass
        assert server.count("tools/list") == 1
        assert len(pauses.asked) <= 1
    await until(lambda: server.count(CANCELLED) == 1)


async def test_a_change_stated_before_the_acknowledgement_is_found_all_the_same() -> None:
    server = Server("a")
    server.acknowledges = False
    async with connect(MemoryServer(server)) as session:
        await session.list_tools()
        changes = session.tool_changes()
        async with anyio.create_task_group() as group:
            got: list[Any] = []

            async def wait() -> None:
                got.append(await anext(changes))

            group.start_soon(wait)
            await until(lambda: server.streams != [])
            server.change(b="")
            server.acknowledge()
        assert names(got[0]) == (["b"], ["a"], [])
        await changes.aclose()


async def test_a_restarted_server_is_subscribed_to_again(clock: Clock) -> None:
    server = Server("a")
    transport = MemoryServer(server)
    async with (
        connect(transport) as session,
        session.tool_changes() as changes,
        quickly(clock),
    ):
        transport.end()
        server.tools = {"b": ""}
        assert names(await anext(changes)) == (["b"], ["a"], [])
        await until(lambda: len(server.streams) == 2)
        server.change(c="")
        assert names(await anext(changes)) == (["c"], ["b"], [])
    assert session.stats.restarts == 1


async def test_a_stream_that_is_closed_frees_its_place_on_the_line() -> None:
    server = Server("a")
    async with connect(MemoryServer(server)) as session:
        multiplexer = session._connection.transport._multiplexer  # type: ignore[attr-defined]
        async with session.tool_changes():
            assert len(multiplexer.exchanges) == 1
        await until(lambda: not multiplexer.exchanges)
        assert all(isinstance(x, LineExchange) for x in multiplexer.exchanges.values())


# -------------------------------------------------------------- handshake era


@pytest.mark.parametrize("declared", [True, False])
async def test_in_the_handshake_era_notices_come_without_a_stream(declared: bool) -> None:
    tools = ["a"]
    asked: list[str] = []

    def server(message: dict[str, Any], send: Any) -> Any:
        asked.append(message["method"])
        match message["method"]:
            case "initialize":
                return {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True} if declared else {}},
                    "serverInfo": {"name": "old", "version": "1"},
                }
            case "tools/list":
                return {"tools": [{"name": name, "inputSchema": {}} for name in tools]}
            case "ping":
                tools[:] = ["b"]
                send({"jsonrpc": "2.0", "method": CHANGED})
                return {}
        return NotImplemented

    async with (
        connect(MemoryServer(server), revision="2025-11-25") as session,
        session.tool_changes() as changes,
    ):
        await session.list_tools()
        await session.ping()
        assert names(await anext(changes)) == (["b"], ["a"], [])
    assert "subscriptions/listen" not in asked
    # Without a declaration the notice is heard, but could not be relied on: each use asks.
    assert asked.count("tools/list") == (2 if declared else 3)


# ------------------------------------------------------------ cancelled by the server


async def test_a_stream_that_the_server_cancels_is_opened_again_after_a_pause() -> None:
    server = Server("a")
    async with connect(MemoryServer(server), approval=allow_all) as session:
        pauses = Pauses(session)
        async with session.tool_changes() as changes:
            await until(lambda: len(server.streams) == 1)
            server.tools = {"a": "", "b": ""}
            server.send(
                {
                    "jsonrpc": "2.0",
                    "method": CANCELLED,
                    "params": {"requestId": server.streams[-1], "reason": "shutting down"},
                }
            )
            await until(lambda: pauses.asked == [1.0])
            assert session._subscriptions.tools.epoch is None
            assert server.count(CANCELLED) == 0, "what the server ended needs no cancelling"
            pauses.let.set()
            assert names(await anext(changes)) == (["b"], [], [])
        assert server.count("subscriptions/listen") == 2


async def test_a_stream_that_is_cancelled_before_it_is_open_is_tried_again() -> None:
    server = Server("a")
    server.acknowledges = False
    async with connect(MemoryServer(server), timeouts=Timeouts(connect=600)) as session:
        pauses = Pauses(session)
        pauses.let.set()
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                async with session.tool_changes():
                    pass

            group.start_soon(watch)
            await until(lambda: len(server.streams) == 1)
            server.acknowledges = True
            params = {"requestId": server.streams[-1]}
            server.send({"jsonrpc": "2.0", "method": CANCELLED, "params": params})
            await until(lambda: len(server.streams) == 2)


@pytest.mark.parametrize("params", [{}, {"requestId": None}, {"requestId": []}, {"requestId": -1}])
async def test_a_cancellation_of_anything_else_leaves_the_stream_alone(params: Any) -> None:
    server = Server("a")
    async with connect(MemoryServer(server)) as session, session.tool_changes() as changes:
        server.send({"jsonrpc": "2.0", "method": CANCELLED, "params": params})
        server.change(b="")
        with anyio.fail_after(60):
            assert names(await anext(changes)) == (["b"], ["a"], [])
        assert len(server.streams) == 1
