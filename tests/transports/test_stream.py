"""``StreamServer``: a transport of the host's own. The contract is in ``test_contract.py``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    ConfigError,
    ConnectError,
    Timeouts,
    allow_all,
    connect,
    sync,
)
from mcp_client.approval import ManagedPolicy
from mcp_client.errors import ConnectionLost, StartDenied
from mcp_client.transports import StreamServer
from tests.support.answering import Wire, tool
from tests.support.timing import Clock, quickly

ERAS = {"handshake": "2025-11-25", "stateless": "2026-07-28"}


def answer(message: dict[str, Any]) -> Any:
    match message["method"]:
        case "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        case "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        case "tools/list":
            return {"tools": [tool()]}
        case "tools/call":
            return {"content": [{"type": "text", "text": "done"}]}
    return None


def as_text(message: dict[str, Any]) -> str:
    return json.dumps(message, indent=1)


def as_bytes(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("spell", [dict, as_text, as_bytes])
async def test_a_session_over_streams_is_a_session(era: str, spell: Any) -> None:
    wire = Wire(answer, spell)
    async with connect(StreamServer(wire.open), revision=era, approval=allow_all) as session:
        assert session.protocol_version == ERAS[era]
        assert (await session.call_tool("echo")).text == "done"
        assert session.stats.junk_lines == 0
    assert all(type(message) is dict for message in wire.messages)
    assert len(wire.opened) == 1
    assert wire.opened == wire.closed, "the task that entered the context manager exited it"


async def test_a_receiving_stream_may_be_any_async_iterator() -> None:
    wire = Wire(answer)

    class Iterator:
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __aiter__(self) -> Iterator:
            return self

        async def __anext__(self) -> Any:
            try:
                return await self._stream.receive()
            except anyio.EndOfStream:
                raise StopAsyncIteration from None

    @asynccontextmanager
    async def open() -> AsyncIterator[Any]:
        async with wire.open() as (receive, send):
            yield Iterator(receive), send

    async with connect(StreamServer(open), approval=allow_all) as session:
        assert (await session.call_tool("echo")).text == "done"


async def test_any_task_may_close_it() -> None:
    wire = Wire(answer)
    session = await connect(StreamServer(wire.open))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.aclose)
    assert wire.closed == wire.opened


@pytest.mark.one_backend
def test_it_is_used_without_an_event_loop() -> None:
    wire = Wire(answer)
    with sync.connect(StreamServer(wire.open), approval=allow_all) as session:
        assert session.call_tool("echo").text == "done"
    assert len(wire.closed) == 1


# ------------------------------------------------------------------ errors


async def test_an_error_of_opening_names_the_transport() -> None:
    @asynccontextmanager
    async def to_the_moon() -> AsyncIterator[Any]:
        async with anyio.create_task_group():
            raise OSError("connection refused")
        yield

    with pytest.raises(ConnectError) as raised:
        await connect(StreamServer(to_the_moon))
    assert "cannot open the transport to_the_moon: OSError: " in str(raised.value)
    assert "connection refused" in str(raised.value)
    assert type(raised.value.__cause__) is OSError
    assert "initialize" not in str(raised.value)


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
@pytest.mark.parametrize("raises", [True, False])
async def test_an_end_before_the_session_is_open_names_the_transport(
    method: str, raises: bool
) -> None:
    def ends(message: dict[str, Any]) -> Any:
        if message["method"] == method:
            if raises:
                raise anyio.ClosedResourceError
            assert wire.line is not None
            wire.line.close()
            return None
        return answer(message)

    wire = Wire(ends)
    era = "handshake" if method == "initialize" else "stateless"
    with pytest.raises(ConnectError) as raised:
        await connect(StreamServer(wire.open, name="carrier"), name="desk", revision=era)
    reported = "ClosedResourceError" if raises else "the stream of messages ended"
    assert "the transport carrier ended: " + reported in str(raised.value)
    assert "refuses" not in str(raised.value)
    assert len(wire.opened) == len(wire.closed)


async def test_an_end_during_a_call_names_the_transport_and_the_next_use_opens_another() -> None:
    lost = False

    def ends(message: dict[str, Any]) -> Any:
        nonlocal lost
        if message["method"] == "tools/call" and not lost:
            lost = True
            raise OSError("cable cut")
        return answer(message)

    wire = Wire(ends)
    async with connect(StreamServer(wire.open, name="carrier"), approval=allow_all) as session:
        with pytest.raises(ConnectionLost, match="the transport carrier ended: OSError: cable cut"):
            await session.call_tool("echo")
        assert (await session.call_tool("echo")).text == "done"
        assert session.generation == 2
    assert len(wire.opened) == len(wire.closed) == 2


async def test_a_message_that_cannot_be_sent_names_the_transport() -> None:
    wire = Wire(answer)

    class Broken:
        async def send(self, message: Any) -> None:
            raise anyio.BrokenResourceError

    @asynccontextmanager
    async def open() -> AsyncIterator[Any]:
        async with wire.open() as (receive, _):
            yield receive, Broken()

    with pytest.raises(ConnectError, match="the transport open ended: BrokenResourceError"):
        await connect(StreamServer(open), revision="handshake")


@pytest.mark.parametrize("failing", ["notifications/initialized", "tools/list"])
async def test_a_failure_to_send_is_reported_at_once_with_its_words(failing: str) -> None:
    wire = Wire(answer)

    @asynccontextmanager
    async def open() -> AsyncIterator[Any]:
        async with wire.open() as (receive, send):

            class Failing:
                async def send(self, message: Any) -> None:
                    if message["method"] == failing:
                        raise OSError("cable cut")
                    await send.send(message)

            yield receive, Failing()

    with (
        anyio.fail_after(10),
        pytest.raises(ConnectError, match="the transport open ended: OSError: cable cut"),
    ):
        async with connect(StreamServer(open), revision="handshake") as session:
            await session.call_tool("echo")


async def test_neither_opening_nor_closing_hangs(clock: Clock) -> None:
    wire = Wire(answer)

    @asynccontextmanager
    async def never_opens() -> AsyncIterator[Any]:
        await anyio.sleep_forever()
        yield

    @asynccontextmanager
    async def never_closes() -> AsyncIterator[Any]:
        async with wire.open() as pair:
            try:
                yield pair
            finally:
                await anyio.sleep_forever()

    clock.stop()
    async with quickly(clock):
        with pytest.raises(ConnectError, match="never_opens did not open within 30 s"):
            await connect(StreamServer(never_opens))
        async with connect(StreamServer(never_closes), timeouts=Timeouts(close=3)):
            pass
    assert wire.closed == wire.opened


@pytest.mark.parametrize("junk", [OSError("bad frame"), {"a": {1, 2}}, [1], None, "{", b"\xff", 7])
async def test_what_is_not_a_message_is_counted_and_skipped(junk: Any) -> None:
    def also(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/call":
            assert wire.line is not None
            wire.line.send_nowait(junk)
        return answer(message)

    wire = Wire(also)
    async with connect(StreamServer(wire.open), approval=allow_all) as session:
        assert (await session.call_tool("echo")).text == "done"
        assert session.stats.junk_lines == 1


@pytest.mark.parametrize("pair", [None, 5, (1, 2), (1, 2, 3), "ab"])
async def test_what_is_not_a_pair_of_streams_is_refused(pair: Any) -> None:
    @asynccontextmanager
    async def open() -> AsyncIterator[Any]:
        yield pair

    with pytest.raises(ConfigError, match="not a pair of streams"):
        await connect(StreamServer(open))


@pytest.mark.parametrize("passed", [5, None, "wss://a.example"])
def test_what_is_not_a_function_is_refused(passed: Any) -> None:
    with pytest.raises(ConfigError, match="give a function that returns"):
        StreamServer(passed)


@pytest.mark.parametrize("option", ["name", "identity"])
def test_its_names_are_texts(option: str) -> None:
    with pytest.raises(ConfigError, match=rf"StreamServer\({option}=5\)"):
        StreamServer(Wire(answer).open, **{option: 5})  # type: ignore[arg-type]


async def test_a_policy_that_lists_servers_does_not_allow_it() -> None:
    wire = Wire(answer)
    policy = ManagedPolicy(allow=["https://a.example/*"])
    with pytest.raises(StartDenied, match="cannot judge a StreamServer"):
        await connect(StreamServer(wire.open), policy=policy)
    assert wire.opened == []


async def test_a_remembered_approval_needs_its_identity(tmp_path: Path) -> None:
    asked: list[str] = []

    def hook(request: Any) -> Any:
        asked.append(request.tool.name)
        return Allow(remember="always")

    for identity, expected in ((None, 2), ("files", 1)):
        asked.clear()
        for _ in range(2):
            server = StreamServer(Wire(answer).open, identity=identity)
            async with connect(
                server, name=f"desk-{identity}", approval=hook, state=tmp_path
            ) as session:
                await session.call_tool("echo")
        assert len(asked) == expected
