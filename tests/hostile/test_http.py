"""One misbehaviour of an HTTP server a test, each with the figure of its bound."""

from __future__ import annotations

import functools
import gc
import gzip
import json
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from mcp_client import CallTimeout, ConnectError, Limits, Timeouts, allow_all, connect
from mcp_client.errors import ConnectionLost, ProtocolViolation
from mcp_client.transports import http_client
from tests.support.http_apps import Handshake, Stateless, answer, text
from tests.support.http_server import Reply, Request, serving
from tests.support.timing import Clock, quickly

pytestmark = pytest.mark.usefixtures("http_way")

QUICK = Timeouts(connect=30, idle=40, total=60, close=0.5)
MIB = 2**20


def _connect(server: Any, **options: Any) -> Any:
    return connect(server, **{"approval": allow_all, "timeouts": QUICK, **options})


@contextmanager
def _peak_below(most: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak / MIB:.1f} MiB"


@functools.cache
def _bomb(mib: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    piece = b"x" * MIB
    return b"".join([*(packer.compress(piece) for _ in range(mib)), packer.flush()])


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_a_compressed_bomb_stops_at_the_cap_and_not_in_memory(kind: str) -> None:
    bomb = _bomb(200)

    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.send(200, bomb, {"Content-Type": kind, "Content-Encoding": "gzip"})

    limits = Limits(message_bytes=MIB)
    async with (
        serving(Stateless(work=work)) as server,
        _connect(server.url, limits=limits) as session,
    ):
        await session.list_tools()
        refused = pytest.raises(ProtocolViolation, match="longer than 1048576 bytes")
        with _peak_below(6 * MIB), anyio.fail_after(60), refused:
            await session.call_tool("work")
        assert (await session.call_tool("echo", {})).text == "{}"


async def test_a_compressed_bomb_as_an_error_page_is_not_unpacked() -> None:
    bomb = _bomb(200)

    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.send(500, bomb, {"Content-Encoding": "gzip"})

    async with serving(Stateless(work=work)) as server, _connect(server.url) as session:
        await session.list_tools()
        with _peak_below(6 * MIB), pytest.raises(Exception, match="HTTP 500"):
            await session.call_tool("work")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate"])
async def test_honest_compression_is_read(coding: str) -> None:
    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        body = json.dumps(answer(request, text("x" * MIB))).encode()
        if coding == "gzip":
            body = gzip.compress(body)
        else:
            packer = zlib.compressobj(wbits=zlib.MAX_WBITS if coding == "deflate" else -15)
            body = packer.compress(body) + packer.flush()
        head = {"Content-Type": "application/json", "Content-Encoding": coding.split()[-1]}
        await reply.send(200, body, head)

    async with serving(Stateless(work=work)) as server, _connect(server.url) as session:
        assert len((await session.call_tool("work")).text) == MIB


@pytest.mark.parametrize(
    ("coding", "body", "expected"),
    [("gzip", b"not gzip at all", "cannot be decompressed"), ("br", b"xxxx", "'br'")],
)
async def test_a_body_with_false_compression_is_an_error_that_names_the_cause(
    coding: str, body: bytes, expected: str
) -> None:
    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        head = {"Content-Type": "application/json", "Content-Encoding": coding}
        await reply.send(200, body, head)

    async with serving(Stateless(work=work)) as server, _connect(server.url) as session:
        with pytest.raises(ProtocolViolation, match=expected):
            await session.call_tool("work")


@pytest.mark.parametrize("sse", [False, True], ids=["json", "events"])
async def test_a_result_of_sixteen_mebibytes_is_read_by_default(sse: bool) -> None:
    app = Stateless(sse=sse, work=lambda: "x" * (16 * MIB))
    async with serving(app) as server, _connect(server.url) as session:
        with anyio.fail_after(60):
            assert len((await session.call_tool("work")).text) == 16 * MIB


@pytest.mark.parametrize("era", [Stateless, Handshake])
@pytest.mark.parametrize("sse", [False, True], ids=["json", "events"])
async def test_a_message_beyond_the_cap_fails_its_call_alone(era: Any, sse: bool) -> None:
    app = era(sse=sse, work=lambda: "x" * (2 * MIB))
    limits = Limits(message_bytes=MIB)
    async with serving(app) as server, _connect(server.url, limits=limits) as session:
        with pytest.raises(ProtocolViolation, match=r"Limits\.message_bytes"):
            await session.call_tool("work")
        assert (await session.call_tool("echo", {})).text == "{}"


async def test_a_body_without_end_stops_at_the_cap() -> None:
    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream({"Content-Type": "application/json"})
        while True:
            await reply.chunk(b" " * 65_536)

    limits = Limits(message_bytes=MIB)
    async with (
        serving(Stateless(work=work)) as server,
        _connect(server.url, limits=limits) as session,
    ):
        with anyio.fail_after(60), pytest.raises(ProtocolViolation, match="longer than"):
            await session.call_tool("work")


@pytest.mark.parametrize("era", [Stateless, Handshake])
async def test_comments_without_end_are_stopped_by_the_clock(era: Any) -> None:
    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream()
        while True:
            await reply.chunk(b": still here\n\n" * 1_000)

    async with serving(era(work=work)) as server, _connect(server.url) as session:
        await session.list_tools()
        with anyio.fail_after(60), pytest.raises(CallTimeout):
            await session.call_tool("work", timeout=0.5)


@pytest.mark.parametrize("era", [Stateless, Handshake])
async def test_a_slow_drip_is_stopped_by_the_clock(era: Any) -> None:
    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream({"Content-Type": "application/json"})
        while True:
            await reply.chunk(b" ")
            await anyio.sleep(0.02)

    async with serving(era(work=work)) as server, _connect(server.url) as session:
        await session.list_tools()
        with anyio.fail_after(60), pytest.raises(CallTimeout):
            await session.call_tool("work", timeout=0.5)


async def test_headers_that_drip_are_stopped_by_the_connect_clock() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.raw(b"HTTP/1.1 200 OK\r\n")
        while True:
            await reply.raw(b"X: y\r\n")
            await anyio.sleep(0.05)

    timeouts = Timeouts(connect=0.6, idle=5, total=5, close=0.2)
    async with serving(handler) as server:
        with anyio.fail_after(60), pytest.raises(ConnectError, match=r"within 0\.6 s"):
            await _connect(server.url, timeouts=timeouts)


async def test_headers_without_end_are_refused() -> None:
    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.raw(b"HTTP/1.1 200 OK\r\n")
        while True:
            await reply.raw(b"X: " + b"y" * 60_000 + b"\r\n")

    async with serving(Stateless(work=work)) as server, _connect(server.url) as session:
        with anyio.fail_after(60), pytest.raises(ConnectionLost):
            await session.call_tool("work")


async def test_a_response_that_is_not_http_is_an_error_that_names_the_cause() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        reply.hang_up()

    async with serving(handler) as server:
        with anyio.fail_after(60), pytest.raises(ConnectError, match="may not speak HTTP"):
            await _connect(server.url)


@pytest.mark.parametrize("era", [Stateless, Handshake])
async def test_nothing_is_read_past_the_response(era: Any) -> None:
    """A server that goes on talking costs a twentieth of a second, and is believed no more."""

    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream()
        await reply.event(answer(request, text("first")))
        await reply.event(answer(request, text("second")))
        while True:
            await reply.chunk(b": more\n\n" * 100)

    async with serving(era(work=work)) as server, _connect(server.url) as session:
        await session.list_tools()
        with anyio.fail_after(60):
            assert (await session.call_tool("work")).text == "first"
        assert session.stats.stray_answers == 0


async def test_streams_held_open_after_their_responses_delay_three_calls_and_are_closed(
    clock: Clock,
) -> None:
    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream()
        await reply.event(answer(request, text("done")))
        await reply.hold()

    async with serving(Stateless(work=work)) as server, _connect(server.url) as session:
        await session.list_tools()
        clock.stop()
        async with quickly(clock):  # for the ends of the first streams we do wait
            for _ in range(3):
                assert (await session.call_tool("work")).text == "done"
        for _ in range(37):
            assert (await session.call_tool("work")).text == "done"
        clock.resume()
        with anyio.fail_after(60):
            while server.hangups < 40:
                await anyio.sleep(0.01)


@pytest.mark.parametrize("era", [Stateless, Handshake])
async def test_a_server_that_does_not_read_a_large_call_is_stopped_by_the_clock(
    era: Any, clock: Clock
) -> None:
    async with serving(era(), deaf_above=MIB) as server, _connect(server.url) as session:
        await session.list_tools()
        clock.stop()

        async def let_time_pass() -> None:
            await server.unread.wait()
            clock.jump(61)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(let_time_pass)
            with pytest.raises(CallTimeout):
                await session.call_tool("echo", {"text": "x" * (16 * MIB)}, timeout=60)
        clock.resume()
        gc.collect()  # what is left of an abandoned request is collected without a warning
        await anyio.sleep(0)


@pytest.mark.parametrize("era", [Stateless, Handshake])
async def test_junk_between_events_is_counted_and_skipped(era: Any) -> None:
    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        await reply.stream()
        for junk in ("hello", "{", "[]", '{"jsonrpc":"2.0"}', '{"id":[],"result":1}'):
            await reply.event(junk)
        await reply.event({"jsonrpc": "2.0", "id": 1}, kind="ping")
        await reply.event(answer(request, text("done")))
        await reply.end()

    async with serving(era(work=work)) as server, _connect(server.url) as session:
        assert (await session.call_tool("work")).text == "done"
        assert session.stats.junk_lines == 5


async def test_a_flood_of_questions_is_answered_within_bounds() -> None:
    app = Handshake()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method in ("tools/list", "tools/call", "initialize", "GET", "DELETE"):
            await app(request, reply)
        elif "method" in request.message:
            await reply.send(202)
        else:
            app.answers.append(request.message)
            await reply.hold()

    async with serving(handler) as server, _connect(server.url) as session:
        for number in range(500):
            question = {"jsonrpc": "2.0", "id": number, "method": "ping"}
            await app.listeners[0].event(question)
        assert (await session.call_tool("echo", {})).text == "{}"
        with anyio.fail_after(60):
            while session.stats.unsent < 400:
                await anyio.sleep(0.01)
        assert server.connections < 80
    assert len(app.answers) <= 64


async def test_a_deep_response_is_refused_before_it_is_parsed() -> None:
    async def work(arguments: Any, request: Request, reply: Reply) -> None:
        id = request.message["id"]
        deep = "[" * 100_000 + "]" * 100_000
        body = f'{{"jsonrpc":"2.0","id":{id},"result":{deep}}}'.encode()
        await reply.send(200, body, {"Content-Type": "application/json"})

    async with serving(Stateless(work=work)) as server, _connect(server.url) as session:
        with pytest.raises(ProtocolViolation, match="nested deeper"):
            await session.call_tool("work")


async def test_a_session_id_that_would_break_a_header_is_not_sent_back() -> None:
    app = Handshake()

    async def handler(request: Request, reply: Reply) -> None:
        if request.rpc_method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
            await reply.json(answer(request, result), headers={"Mcp-Session-Id": "a b\x7f"})
        elif request.rpc_method == "server/discover":
            await app(request, reply)
        else:
            assert "mcp-session-id" not in request.headers
            await reply.send(202)

    async with serving(handler) as server, _connect(server.url) as session:
        assert session.protocol_version == "2025-11-25"


@pytest.mark.slow
async def test_two_hundred_sessions_to_one_origin_open_and_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "KEEP_ALIVE_SECONDS", 600.0)  # however long all of it takes
    async with serving(Stateless()) as server:
        sessions = [await _connect(server.url) for _ in range(200)]
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for session in sessions:
                    tasks.start_soon(session.call_tool, "echo", {})
            for session in sessions:
                await session.aclose()
        assert server.connections == 200
