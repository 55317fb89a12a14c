"""The pool of connections over TLS 1.3, where a server may send session tickets at any time.

OpenSSL sends them by itself after the handshake, and again when the client has answered a request
for its certificate after the handshake (RFC 8446 sections 4.6.1 and 4.6.2). The second kind comes
while the connection is idle: that is how these tests have tickets come late.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import httpx
import pytest

from mcp_client.transports.http_pool import HttpPool
from mcp_client.transports.http_stock import RequestBody
from tests.support.certificates import self_signed
from tests.support.http_server import Line, listening

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
T = TypeVar("T")


class Tls:
    """The server's side of TLS on one connection, record by record."""

    def __init__(self, line: Line, context: ssl.SSLContext) -> None:
        self._stream = line.stream
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_side=True)

    async def _until_done(self, step: Callable[[], T]) -> T:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                await self.send(self._to_send.read())
                self._received.write(await self._stream.receive())

    async def send(self, records: bytes) -> None:
        if records:
            await self._stream.send(records)

    async def request(self) -> bytes:
        """A request, which here has a body of two bytes."""
        request = b""
        while not request.endswith(b"\r\n\r\n{}"):
            request += await self._until_done(lambda: self._tls.read(65536))
        return request

    async def answer(self, *, asks_for_certificate: bool = False) -> None:
        if asks_for_certificate:
            self._tls.verify_client_post_handshake()
            self._tls.do_handshake()
        self._tls.write(OK)
        await self.send(self._to_send.read())

    async def tickets(self) -> bytes:
        """The records with new tickets, not sent yet: the client has answered the request."""
        while not self._to_send.pending:
            self._received.write(await self._stream.receive())
            with pytest.raises(ssl.SSLWantReadError):
                self._tls.read(65536)
        return self._to_send.read()

    def goodbye(self) -> bytes:
        """The record that ends the connection."""
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.unwrap()
        return self._to_send.read()


@pytest.fixture
def contexts(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The client's and the server's."""
    certificate, server = self_signed(tmp_path)
    server.minimum_version = ssl.TLSVersion.TLSv1_3
    server.verify_mode, server.post_handshake_auth = ssl.CERT_OPTIONAL, True
    client = ssl.create_default_context(cafile=str(certificate))
    client.post_handshake_auth = True
    return client, server


@asynccontextmanager
async def _pool(port: int, tls: ssl.SSLContext) -> AsyncIterator[HttpPool]:
    pool = HttpPool("127.0.0.1", port, tls, connect=20.0, keep=60.0)
    try:
        yield pool
    finally:
        await pool.aclose()


async def _ask(pool: HttpPool) -> bytes:
    fields = {"Host": "test", "Content-Length": "2"}
    body = RequestBody(b"{}")
    request = httpx.Request("POST", "https://test/mcp", headers=fields, stream=body)
    return await (await pool.handle_async_request(request)).aread()


@pytest.mark.parametrize("together", [True, False], ids=["whole", "in two pieces"])
async def test_a_ticket_on_an_idle_line_does_not_end_it(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], together: bool
) -> None:
    client, context = contexts
    came = anyio.Event()
    requests = 0

    async def converse(line: Line) -> None:
        nonlocal requests
        tls = Tls(line, context)
        await tls.request()
        requests += 1
        await tls.answer(asks_for_certificate=True)
        tickets = await tls.tickets()
        first = len(tickets) if together else len(tickets) // 3
        await tls.send(tickets[:first])
        came.set()
        await tls.request()
        requests += 1
        await tls.send(tickets[first:])
        await tls.answer()
        await line.until_hung_up()

    with anyio.fail_after(60):
        async with listening(converse) as server, _pool(server.port, client) as pool:
            assert await _ask(pool) == b"ok"
            await came.wait()
            assert pool._idle[0]._dialled.has_input()
            assert await _ask(pool) == b"ok"
            assert (len(server.lines), requests) == (1, 2)


@pytest.mark.parametrize("ends", [True, False], ids=["its end", "data"])
async def test_what_comes_after_a_late_ticket_ends_the_line_and_answers_nothing(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], ends: bool
) -> None:
    client, context = contexts
    came = anyio.Event()
    requests: list[int] = []

    async def converse(line: Line) -> None:
        tls = Tls(line, context)
        await tls.request()
        requests.append(line.number)
        await tls.answer(asks_for_certificate=line.number == 1)
        if line.number == 1 and ends:
            await tls.send(await tls.tickets() + tls.goodbye())
            await line.end_sending()
        elif line.number == 1:
            await tls.send(await tls.tickets())
            await tls.answer()
        came.set()
        await tls.request()
        requests.append(line.number)

    with anyio.fail_after(60):
        async with listening(converse) as server, _pool(server.port, client) as pool:
            assert await _ask(pool) == b"ok"
            await came.wait()
            assert await _ask(pool) == b"ok"
            assert requests == [1, 2]
