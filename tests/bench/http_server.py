"""``server.py`` over HTTP/1.1 with persistent connections: the standard library, cheap.

    python -m tests.bench.http_server

It prints its origin and serves until standard input ends. ``/json`` answers with JSON, ``/sse``
with a stream of one event, sent and ended in one write; below ``/old-json`` and ``/old-sse`` only
the handshake era is spoken, without sessions. What ``sleep`` would answer later is not served.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - bare asyncio, so that the server takes little of the core
import sys

from tests.bench.server import Server

_OK = b"HTTP/1.1 200 OK\r\ncontent-type: "
_ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"
_NOT_ALLOWED = b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n"


class Connection(asyncio.Protocol):
    def __init__(self, server: Server) -> None:
        self._server = server
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end]
            whole = end + 4 + _length(head)
            if len(self._received) < whole:
                return
            body, self._received = self._received[end + 4 : whole], self._received[whole:]
            self._transport.write(self._answer(head, body))

    def _answer(self, head: bytes, body: bytes) -> bytes:
        method, path, _ = head.split(b"\r\n", 1)[0].split(b" ")
        if method != b"POST":
            return _NOT_ALLOWED
        if path.startswith(b"/old") and b'"server/discover"' in body:
            return _BAD_REQUEST
        response = self._server.answer(body)
        if response is None:
            return _ACCEPTED
        message = response.encode().rstrip()
        if path.endswith(b"json"):
            return b"%bapplication/json\r\ncontent-length: %d\r\n\r\n%b" % (
                _OK,
                len(message),
                message,
            )
        event = b"event: message\ndata: %b\n\n" % message
        return (
            b"%btext/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n"
            b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (_OK, len(event), event)
        )


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def _serve() -> None:
    server = Server(0)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0, backlog=1024)
    host, port = listening.sockets[0].getsockname()
    print(f"http://{host}:{port}", flush=True)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(_serve())
