"""The contract of ``transports/base.py``, stated once and run over every transport."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import pytest

from mcp_client.errors import ConnectError, ConnectionLost
from mcp_client.protocol.jsonrpc import Notification, Request, Response
from mcp_client.runtime.limits import Limits, Timeouts
from mcp_client.runtime.session_context import Stats
from mcp_client.transports import StreamServer, Transport
from mcp_client.transports.base import TransportContext
from mcp_client.transports.memory import MemoryTransport
from mcp_client.transports.stdio import StdioTransport
from tests.support.answering import Wire
from tests.support.selection import WAYS, use_way
from tests.support.starting import scripted

pytestmark = pytest.mark.below_the_gate

Make: TypeAlias = Callable[[], Transport]


def _memory() -> MemoryTransport:
    return MemoryTransport(_server())


def _stream() -> Transport:
    return StreamServer(Wire(_server()).open)._transport()


def _server() -> Callable[[dict[str, Any], Any], Any]:
    held: list[Any] = []

    def server(message: dict[str, Any], send: Any) -> Any:
        if message.get("method") != "tools/call":
            return None
        arguments = message["params"].get("arguments", {})
        match message["params"]["name"]:
            case "never":
                return None
            case "hold":
                held.append(message["id"])
                return None
            case "release":
                while held:
                    id = held.pop()
                    reported = {"content": [{"type": "text", "text": str(id)}]}
                    send({"jsonrpc": "2.0", "id": id, "result": reported})
                text: Any = "released"
            case "length":
                text = len(arguments["text"])
            case _:
                text = json.dumps(arguments)
        return {"content": [{"type": "text", "text": str(text)}]}

    return server


@pytest.fixture(params=[*WAYS, "memory", "stream"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A server in memory, over streams, or over stdio each way."""
    if request.param in ("memory", "stream"):
        return _memory if request.param == "memory" else _stream
    use_way(request.param, monkeypatch)
    return lambda: StdioTransport(scripted())


def _ignore(message: Request | Notification) -> None:
    return None


@asynccontextmanager
async def _opened(make: Make) -> AsyncIterator[tuple[Transport, Stats]]:
    transport, stats = make(), Stats()
    await transport.open(TransportContext("server", _ignore, Limits(), Timeouts(close=1), stats))
    try:
        yield transport, stats
    finally:
        await transport.aclose()


def _call(id: int, name: str, **arguments: Any) -> str:
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})


async def _ask(transport: Transport, id: int, name: str, **arguments: Any) -> str:
    until = anyio.current_time() + 20
    exchange = await transport.exchange(id, _call(id, name, **arguments), {}, until)
    try:
        response = await exchange.receive(until)
        assert isinstance(response, Response) and response.id == id
        reported: str = response.result["content"][0]["text"]
        return reported
    finally:
        await exchange.aclose()


async def test_answers_may_come_in_any_order(make: Make) -> None:
    async with _opened(make) as (transport, _):
        order: list[str] = []

        async def wait(id: int) -> None:
            order.append(await _ask(transport, id, "hold"))

        async with anyio.create_task_group() as group:
            for id in range(1, 9):
                group.start_soon(wait, id)
            await anyio.wait_all_tasks_blocked()
            assert await _ask(transport, 9, "release") == "released"
        assert sorted(order) == [str(id) for id in range(1, 9)]


async def test_concurrent_long_lines_are_not_torn(make: Make) -> None:
    async with _opened(make) as (transport, _):
        right: list[int] = []

        async def write(id: int) -> None:
            length = 65_536 + id * 1000
            assert await _ask(transport, id, "length", text="y" * length) == str(length)
            right.append(id)

        async with anyio.create_task_group() as group:
            for id in range(1, 21):
                group.start_soon(write, id)
        assert sorted(right) == list(range(1, 21))


async def test_a_cancelled_writer_leaves_the_line_whole(make: Make) -> None:
    async with _opened(make) as (transport, _):
        async with anyio.create_task_group() as group:
            for id in range(1, 6):
                group.start_soon(_ask, transport, id, "never")
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        async with anyio.create_task_group() as group:
            for id in range(6, 12):

                async def write(id: int = id) -> None:
                    await _ask(transport, id, "length", text="z" * 500_000)

                group.start_soon(write)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert await _ask(transport, 20, "echo", a=1) == '{"a": 1}'


async def test_a_timeout_leaves_the_exchange_usable(make: Make) -> None:
    async with _opened(make) as (transport, _):
        until = anyio.current_time() + 20
        exchange = await transport.exchange(1, _call(1, "hold"), {}, until)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await exchange.receive(anyio.current_time() + 0.02)
        await _ask(transport, 2, "release")
        assert isinstance(await exchange.receive(until), Response)
        await exchange.aclose()


async def test_what_comes_after_an_exchange_is_closed_is_counted(make: Make) -> None:
    async with _opened(make) as (transport, stats):
        exchange = await transport.exchange(1, _call(1, "hold"), {}, anyio.current_time() + 20)
        await exchange.aclose()
        await exchange.aclose()
        assert await _ask(transport, 2, "release") == "released"
        assert stats.late_answers == 1


async def test_closing_settles_what_waits_from_another_task_and_twice(make: Make) -> None:
    async with _opened(make) as (transport, _):
        lost: list[int] = []

        async def wait(id: int) -> None:
            with pytest.raises(ConnectionLost) as caught:
                await _ask(transport, id, "never")
            assert caught.value.why
            assert "may have run" not in caught.value.why
            lost.append(id)

        async with anyio.create_task_group() as group:
            group.start_soon(wait, 1)
            group.start_soon(wait, 2)
            await anyio.wait_all_tasks_blocked()
            await _ask(transport, 3, "echo")  # so both have left, also where threads write
            group.start_soon(transport.aclose)
            group.start_soon(transport.aclose)
        assert sorted(lost) == [1, 2]
        assert not transport.alive
        await transport.aclose()


async def test_what_is_closed_states_at_once_that_nothing_was_sent(make: Make) -> None:
    async with _opened(make) as (transport, _):
        await transport.aclose()
        with anyio.fail_after(60):
            with pytest.raises(ConnectError):
                await transport.exchange(1, _call(1, "echo"), {}, anyio.current_time() + 3_600)
            with pytest.raises(ConnectError):
                await transport.send("{}", {})
            transport.send_soon("{}", {})


async def test_a_fresh_transport_reaches_the_same_server(make: Make) -> None:
    first = make()
    assert first.clone().identity == first.identity
    async with _opened(first.clone) as (transport, _):
        assert await _ask(transport, 1, "echo") == "{}"


async def test_closing_what_was_never_opened_is_nothing(make: Make) -> None:
    await make().aclose()


async def test_a_transport_in_memory_has_one_session_at_a_time() -> None:
    server = _memory()
    async with _opened(lambda: server):
        with pytest.raises(Exception, match="already has a session"):
            async with _opened(lambda: server):
                raise AssertionError("opened twice")


async def test_a_memory_handler_sees_messages_in_order_and_its_bugs_are_answers() -> None:
    seen: list[int] = []

    def server(message: dict[str, Any]) -> Any:
        seen.append(message["id"])
        return {"not": {"json"}}

    async with _opened(lambda: MemoryTransport(server)) as (transport, _):
        until = anyio.current_time() + 5
        exchanges = [await transport.exchange(id, _call(id, "x"), {}, until) for id in range(1, 40)]
        for exchange in exchanges:
            failure: Any = await exchange.receive(until)
            assert "TypeError" in failure.message
        assert seen == list(range(1, 40))
