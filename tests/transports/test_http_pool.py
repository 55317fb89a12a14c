"""The pool of connections alone, against servers that do to a connection whatever they like."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from mcp_client.transports import http_pool
from mcp_client.transports.http_pool import HttpPool, _Connection, request_head
from mcp_client.transports.http_response import InvalidHttp
from mcp_client.transports.http_stock import RequestBody
from tests.support.http_server import Line, listening

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MANY = 20 * 1024 * 1024
_ANYIO = tuple(int(part) for part in version("anyio").split(".")[:2])
"""Older ones, such as 4.9, lose the socket when ``connect_tcp`` is cancelled as it connects."""


@asynccontextmanager
async def _pool(port: int, keep: float = 60.0, host: str = "127.0.0.1") -> AsyncIterator[HttpPool]:
    pool = HttpPool(host, port, None, connect=20.0, keep=keep)
    try:
        yield pool
    finally:
        await pool.aclose()


def _request(body: RequestBody, **headers: str) -> httpx.Request:
    fields = {"Host": "test", **headers}
    return httpx.Request("POST", "http://test/mcp", headers=fields, stream=body)


async def _send(pool: HttpPool, data: bytes = b"{}", **headers: str) -> httpx.Response:
    return await pool.handle_async_request(_request(RequestBody(data), **headers))


async def _ask(pool: HttpPool, data: bytes = b"{}", **headers: str) -> tuple[int, bytes]:
    response = await _send(pool, data, **headers)
    try:
        pieces = [piece async for piece in _stream(response)]
    finally:
        await response.aclose()
    return response.status_code, b"".join(pieces)


def _stream(response: httpx.Response) -> AsyncIterator[bytes]:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return aiter(response.stream)


async def _respond_to_all(line: Line) -> None:
    while True:
        await line.request()
        await line.send(OK)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# ------------------------------------------------------------------------ reuse


async def test_requests_one_after_another_share_one_connection() -> None:
    async with listening(_respond_to_all) as server, _pool(server.port) as pool:
        for _ in range(5):
            assert await _ask(pool) == (200, b"ok")
        assert len(server.lines) == 1


async def test_the_connection_that_was_used_last_is_used_next() -> None:
    served: list[int] = []

    async def converse(line: Line) -> None:
        while True:
            await line.request()
            served.append(line.number)
            await line.send(OK)

    async with listening(converse) as server, _pool(server.port) as pool:
        first, second = await _send(pool), await _send(pool)
        await second.aread()
        await first.aread()
        for _ in range(3):
            await _ask(pool)
        assert served == [1, 2, 1, 1, 1]
        assert len(server.lines) == 2


async def test_a_connection_that_was_idle_too_long_is_closed_and_not_used() -> None:
    async with listening(_respond_to_all) as server, _pool(server.port, keep=0.0) as pool:
        assert await _ask(pool) == (200, b"ok")
        assert await _ask(pool) == (200, b"ok")
        assert len(server.lines) == 2


async def test_idle_connections_are_closed_when_their_time_is_over() -> None:
    closed = anyio.Event()

    async def converse(line: Line) -> None:
        await line.request()
        await line.send(OK)
        try:
            await line.until_hung_up()
        finally:
            if line.number == 2:
                closed.set()

    async with listening(converse) as server, _pool(server.port, keep=0.1) as pool:
        first, second = await _send(pool), await _send(pool)
        await first.aread()
        await second.aread()
        await closed.wait()
        assert not pool._busy


async def test_a_timer_that_rings_early_is_not_set_again_and_again() -> None:
    async with listening(_respond_to_all) as server, _pool(server.port) as pool:
        await _ask(pool)
        pool._idle[0].idle_since = pool.backend.now() - 60.0 + 0.015
        await pool._close_expired()
        assert not pool._idle


async def test_a_connection_beyond_those_that_may_be_idle_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_pool, "_MAX_IDLE", 1)
    closed = anyio.Event()

    async def converse(line: Line) -> None:
        try:
            await _respond_to_all(line)
        finally:
            if line.number == 2:
                closed.set()

    async with listening(converse) as server, _pool(server.port) as pool:
        first, second = await _send(pool), await _send(pool)
        await first.aread()
        await second.aread()
        with anyio.fail_after(60):
            await closed.wait()
        assert not pool._busy
        assert await _ask(pool) == (200, b"ok")
        assert len(server.lines) == 2


@pytest.mark.parametrize(
    "goodbye",
    [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"],
    ids=["half-closed", "a status no one asked for"],
)
async def test_on_a_line_the_server_has_ended_nothing_is_sent(goodbye: bytes) -> None:
    ended = anyio.Event()

    async def converse(line: Line) -> None:
        await line.request()
        await line.send(OK)
        if line.number == 1:
            await line.send(goodbye)
            await line.end_sending()
            ended.set()
            await line.until_hung_up()
        await line.until_hung_up()

    async with listening(converse) as server, _pool(server.port) as pool:
        await _ask(pool)
        await ended.wait()
        before = len(server.lines[0].received)
        assert await _ask(pool, b'{"second": 1}') == (200, b"ok")
        assert len(server.lines) == 2
        assert len(server.lines[0].received) == before


async def test_bytes_after_a_response_never_answer_the_next_request() -> None:
    async def converse(line: Line) -> None:
        await line.request()
        forged = OK.replace(b"ok", b"no")
        await line.send(OK + forged if line.number == 1 else OK)
        await line.until_hung_up()

    async with listening(converse) as server, _pool(server.port) as pool:
        assert await _ask(pool) == (200, b"ok")
        assert await _ask(pool) == (200, b"ok")
        assert len(server.lines) == 2


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\n\r\nok",
    ],
)
async def test_a_response_that_ends_the_connection_is_read_and_the_next_gets_another(
    response: bytes,
) -> None:
    async def converse(line: Line) -> None:
        await line.request()
        await line.send(response)

    async with listening(converse) as server, _pool(server.port) as pool:
        assert await _ask(pool) == (200, b"ok")
        assert await _ask(pool) == (200, b"ok")
        assert len(server.lines) == 2


async def test_a_response_that_is_given_up_costs_its_connection() -> None:
    async def converse(line: Line) -> None:
        await line.request()
        await line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf")
        await line.until_hung_up()

    async with listening(converse) as server, _pool(server.port) as pool:
        for number in (1, 2):
            response = await _send(pool)
            assert await anext(_stream(response)) == b"half"
            await response.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(_stream(response))
            assert len(server.lines) == number


# ---------------------------------------------------------------------- framing


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"], b"ok"),
        (
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n",
                b"1;ext=1\r\no\r\n1\r\nk\r\n0\r\nX-Sum: 7\r\n\r\n",
            ],
            b"ok",
        ),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", OK], b"ok"),
        ([b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 20, OK], b"ok"),
        ([bytes([each]) for each in OK], b"ok"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], b""),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], b""),
    ],
    ids=["chunked", "trailers", "100", "103", "byte by byte", "204", "empty"],
)
async def test_every_framing_of_http_1_is_read_and_the_connection_lives(
    pieces: list[bytes], body: bytes
) -> None:
    async def converse(line: Line) -> None:
        while True:
            await line.request()
            await line.send(*pieces)

    async with listening(converse) as server, _pool(server.port) as pool:
        for _ in range(3):
            assert (await _ask(pool))[1] == body
        assert len(server.lines) == 1


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: gzip\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokk\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nX-Half",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_000,
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000 + b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x16\x03\x01\x00\xff" * 20,
        b"",
    ],
)
async def test_what_is_not_http_is_an_error_and_ends_the_connection(response: bytes) -> None:
    async def converse(line: Line) -> None:
        await line.request()
        await line.send(response)

    async with listening(converse) as server, _pool(server.port) as pool:
        for _ in range(2):
            with pytest.raises(InvalidHttp):
                await _ask(pool)
        assert len(server.lines) == 2


@pytest.mark.parametrize("taken", [None, 10], ids=["at once", "in parts"])
async def test_a_request_of_any_size_arrives_whole(
    taken: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever part of it the socket takes without waiting."""
    send_now, arrived = _Connection._send_now, list[bytes]()
    monkeypatch.setattr(_Connection, "_send_now", lambda self, data: send_now(self, data[:taken]))

    async def converse(line: Line) -> None:
        while True:
            arrived.append((await line.request()).partition(b"\r\n\r\n")[2])
            await line.send(OK)

    bodies = [bytes([size % 256]) * size for size in (1, 64 * 1024, 64 * 1024 + 1, 300_000)]
    async with listening(converse) as server, _pool(server.port) as pool:
        with anyio.fail_after(60):
            for body in bodies:
                assert await _ask(pool, body) == (200, b"ok")
    assert arrived == bodies


# ------------------------------------------- answers before the request is read


@pytest.mark.parametrize("status", [200, 413, 503])
async def test_a_response_comes_through_although_the_body_is_never_read(status: int) -> None:
    async def converse(line: Line) -> None:
        await line.stream.receive(100)
        await line.send(b"HTTP/1.1 %d Early\r\nContent-Length: 2\r\n\r\nok" % status)
        await anyio.sleep_forever()

    async with listening(converse) as server, _pool(server.port) as pool:
        assert await _ask(pool, b"x" * MANY) == (status, b"ok")
        assert await _ask(pool, b"x" * MANY) == (status, b"ok")
        assert len(server.lines) == 2  # half a request is on the first


async def test_a_server_that_hangs_up_in_the_middle_of_a_body_has_lost_it() -> None:
    async def converse(line: Line) -> None:
        await line.stream.receive(100)

    async with listening(converse) as server, _pool(server.port) as pool:
        with pytest.raises((InvalidHttp, OSError)):
            await _ask(pool, b"x" * MANY)


async def test_a_server_that_answers_before_it_is_asked_is_read() -> None:
    async def converse(line: Line) -> None:
        await line.send(OK)
        await line.until_hung_up()

    async with listening(converse) as server, _pool(server.port) as pool:
        assert await _ask(pool) == (200, b"ok")


@pytest.mark.slow
async def test_a_hundred_megabytes_go_each_way_and_the_connection_lives() -> None:
    size = 100 * 1024 * 1024

    async def converse(line: Line) -> None:
        while True:
            got = b""
            while b"\r\n\r\n" not in got:
                got += await line.stream.receive()
            left = size - len(got.partition(b"\r\n\r\n")[2])
            while left:
                left -= len(await line.stream.receive())
            await line.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            for _ in range(100):
                await line.send(b"y" * (size // 100))

    async with listening(converse) as server, _pool(server.port) as pool:
        for _ in range(2):
            response = await _send(pool, b"x" * size)
            total = 0
            async for piece in _stream(response):
                total += len(piece)
            assert total == size
        assert len(server.lines) == 1


# ------------------------------------------------------------------ cancellation


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 300_000], ids=["small", "large"])
async def test_a_request_may_be_cancelled_at_every_step_and_leaves_nothing(size: int) -> None:
    async def converse(line: Line) -> None:
        while True:
            await line.request()
            await line.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            await line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            await line.send(b"2\r\nok\r\n", b"0\r\n\r\n")

    async with listening(converse) as server, _pool(server.port) as pool:
        await _ask(pool)
        before = _descriptors()
        for fresh in (False, True) if _ANYIO >= (4, 16) else (False,):
            for steps in range(60):
                if fresh:
                    for each in list(pool._idle):
                        pool._idle.remove(each)
                        await each.aclose()
                done: list[Any] = []
                async with anyio.create_task_group() as tasks:

                    async def run(done: list[Any] = done) -> None:
                        done.append(await _ask(pool, b"x" * size))

                    tasks.start_soon(run)
                    for _ in range(steps):
                        await anyio.lowlevel.checkpoint()
                    tasks.cancel_scope.cancel()
                assert done in ([], [(200, b"ok")])
                assert await _ask(pool) == (200, b"ok")
                assert not pool._busy
                assert len(pool._idle) == 1
        while _descriptors() > before:  # the server's ends, when it has noticed
            await anyio.sleep(0.01)


async def test_closing_the_pool_ends_what_waits_and_what_comes_later() -> None:
    begun = anyio.Event()

    async def converse(line: Line) -> None:
        await line.request()
        begun.set()
        await line.until_hung_up()

    async with listening(converse) as server, _pool(server.port) as pool:
        failures: list[BaseException] = []

        async def ask() -> None:
            try:
                await _ask(pool)
            except (OSError, InvalidHttp, anyio.ClosedResourceError) as error:
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await begun.wait()
            await pool.aclose()
        assert len(failures) == 1
        await ask()
        assert len(failures) == 2


# -------------------------------------------------------------------- connecting


async def test_a_closed_port_an_unknown_name_and_no_response_are_distinguished() -> None:
    async with listening(_respond_to_all) as server:
        port = server.port
    async with _pool(port) as pool:
        with pytest.raises(OSError, match=r"attempts failed|refused"):
            await _ask(pool)
    async with _pool(80, host="no-such-host.invalid") as pool:
        with pytest.raises(socket.gaierror):
            await _ask(pool)


@pytest.mark.needs("IPv6")
async def test_an_ipv6_literal_is_connected_to() -> None:
    async with (
        listening(_respond_to_all, host="::1") as server,
        _pool(server.port, host="::1") as pool,
    ):
        assert await _ask(pool) == (200, b"ok")


def test_a_request_is_written_as_it_was_given() -> None:
    passed = {"Host": "a", "X-B": ""}
    request = httpx.Request("POST", "http://a/mcp?q=1", headers=passed, stream=RequestBody(b""))
    line = b"POST /mcp?q=1 HTTP/1.1\r\nHost: a\r\nX-B: \r\n"
    assert request_head(request, 0) == (line + b"Content-Length: 0\r\n\r\n", False)
    request.headers["Authorization"] = "Bearer x"
    request.headers["Content-Length"] = "7"  # only the pool may report it
    request.headers["connection"] = "close"
    head = line + b"Authorization: Bearer x\r\nconnection: close\r\nContent-Length: 2\r\n\r\n"
    assert request_head(request, 2) == (head, True)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "b\r\nX-C: d"},
        {"X-A": "b\nX-C: d"},
        {"X-A": "b\rX-C: d"},
        {"X-A\r\nX-B": "c"},
        {"X-A": "\0"},
        {"X A": "b"},
        {"X-A:": "b"},
        {"": "b"},
        {"X-Ä": "b"},
        {"X-A": "ä"},
    ],
)
def test_a_header_that_would_be_read_as_another_is_not_sent(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"header|ascii"):
        request_head(_request(RequestBody(b""), **headers), 0)
    request = _request(RequestBody(b""))

    def set_and_write() -> None:
        for name, value in headers.items():
            request.headers[name] = value
        request_head(request, 0)

    with pytest.raises(ValueError, match=r"header|ascii"):
        set_and_write()


async def test_a_host_that_asks_to_close_is_obeyed() -> None:
    async with listening(_respond_to_all) as server, _pool(server.port) as pool:
        for _ in range(2):
            assert await _ask(pool, Connection="close") == (200, b"ok")
        assert len(server.lines) == 2


# ------------------------------------------------------------------- withdrawn


async def test_nothing_is_sent_of_a_request_that_was_withdrawn_while_it_connected() -> None:
    received: list[bytes] = []

    async def converse(line: Line) -> None:
        received.append(await line.request())
        await line.send(OK)

    async with listening(converse) as server, _pool(server.port) as pool:
        body = RequestBody(b"{}")
        assert body.withdraw()
        with pytest.raises(anyio.ClosedResourceError):
            await pool.handle_async_request(_request(body))
        assert not body.begun
        assert received == []


def test_httpx_is_given_nothing_of_a_request_that_was_withdrawn() -> None:
    body = RequestBody(b"{}")
    assert body.withdraw()
    with pytest.raises(anyio.ClosedResourceError):
        aiter(body)
    begun = RequestBody(b"{}")
    aiter(begun)
    assert not begun.withdraw()
