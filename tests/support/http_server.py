"""HTTP servers for tests: real sockets on 127.0.0.1, and a handler that may misbehave.

```python
async def handler(request, reply):
    await reply.json({"hello": request.path})

async with serving(handler) as server:
    server.url, server.requests, server.connections
```

``listening`` is a TCP server for tests of HTTP itself: each connection is a function of its stream.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute, SocketStream
from anyio.streams.tls import TLSListener

__all__ = [
    "Conversation",
    "Handler",
    "Line",
    "Received",
    "Reply",
    "Request",
    "Served",
    "listening",
    "serving",
]


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.body) if self.body else {}
        return message

    @property
    def rpc_method(self) -> str:
        """The MCP method, or the HTTP method if the body has none."""
        return str(self.message.get("method", self.method))


@dataclass
class Served:
    url: str
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    hangups: int = 0
    """Connections the client closed while a reply was under way."""
    unread: anyio.Event = field(default_factory=anyio.Event)
    """Set once a body is not read."""

    def saying(self, what: str) -> list[Request]:
        return [request for request in self.requests if request.rpc_method == what]


class Reply:
    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self.keep = True
        self._chunked = False

    async def raw(self, data: bytes) -> None:
        await self._stream.send(data)

    async def send(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        head = {"Content-Length": str(len(body)), **(headers or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        await self.raw(f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode() + body)

    async def json(
        self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        head = {"Content-Type": "application/json", **(headers or {})}
        await self.send(status, json.dumps(value).encode(), head)

    async def stream(self, headers: Mapping[str, str] | None = None) -> None:
        """Begin a stream of events, or whatever ``headers`` declare."""
        head = {
            "Content-Type": "text/event-stream",
            "Transfer-Encoding": "chunked",
            **(headers or {}),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        await self.raw(f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode())

    async def chunk(self, data: bytes) -> None:
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def event(self, value: Any, id: str | None = None, kind: str = "message") -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        head = "" if id is None else f"id: {id}\n"
        await self.chunk(f"{head}event: {kind}\ndata: {text}\n\n".encode())

    async def end(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def hold(self) -> None:
        """Keep the reply open until the client goes away."""
        self.keep = False
        while True:
            await self._stream.receive()

    def hang_up(self) -> None:
        """Close the connection after this."""
        self.keep = False


Handler: TypeAlias = Callable[[Request, Reply], Awaitable[None]]


@asynccontextmanager
async def serving(
    handler: Handler,
    path: str = "/mcp",
    deaf_above: int = 2**40,
    tls: ssl.SSLContext | None = None,
    deaf_reply: bytes = b"",
) -> AsyncIterator[Served]:
    """Serve until the block is left. Bodies longer than ``deaf_above`` bytes are not read, and
    answered with ``deaf_reply``."""
    plain = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = plain.extra(SocketAttribute.local_port)
    listener: Listener[Any] = plain if tls is None else TLSListener(plain, tls, False)
    served = Served(f"{'http' if tls is None else 'https'}://127.0.0.1:{port}{path}")

    async def connection(stream: Any) -> None:
        served.connections += 1
        async with stream:
            try:
                await _converse(stream, served, handler, (deaf_above, deaf_reply))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                served.hangups += 1

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, connection)
        yield served
        tasks.cancel_scope.cancel()


async def _converse(
    stream: SocketStream, served: Served, handler: Handler, deaf: tuple[int, bytes]
) -> None:
    buffer = b""
    while True:
        while b"\r\n\r\n" not in buffer:
            try:
                buffer += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return
        head, _, buffer = buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        if length > deaf[0]:
            served.unread.set()
            await stream.send(deaf[1])
            await anyio.sleep_forever()
        while len(buffer) < length:
            buffer += await stream.receive()
        request = Request(method, path, headers, buffer[:length])
        buffer = buffer[length:]
        served.requests.append(request)
        reply = Reply(stream)
        await handler(request, reply)
        if not reply.keep:
            return


class Line:
    """One connection, as the server has it."""

    def __init__(self, stream: ByteStream, number: int) -> None:
        self.stream = stream
        self.number = number
        """From 1, in the order in which they were accepted."""
        self.received = b""
        """Everything so far."""
        self._rest = b""

    async def request(self) -> bytes:
        """The next request, head and body. Raises ``anyio.EndOfStream``."""
        while b"\r\n\r\n" not in self._rest:
            await self._more()
        head = self._rest.partition(b"\r\n\r\n")[0]
        length = 0
        for field_line in head.lower().split(b"\r\n"):
            if field_line.startswith(b"content-length:"):
                length = int(field_line.partition(b":")[2])
        whole = len(head) + 4 + length
        while len(self._rest) < whole:
            await self._more()
        request, self._rest = self._rest[:whole], self._rest[whole:]
        return request

    async def _more(self) -> None:
        data = await self.stream.receive()
        self.received += data
        self._rest += data

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            await self.stream.send(piece)

    async def end_sending(self) -> None:
        await self.stream.send_eof()

    async def until_hung_up(self) -> None:
        while True:
            await self._more()


Conversation: TypeAlias = Callable[[Line], Awaitable[None]]


@dataclass
class Received:
    port: int
    lines: list[Line] = field(default_factory=list)


@asynccontextmanager
async def listening(
    converse: Conversation, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Received]:
    """Each connection is closed when ``converse`` returns."""
    plain = await anyio.create_tcp_listener(local_host=host)
    received = Received(plain.extra(SocketAttribute.local_port))
    listener: Listener[Any] = plain if tls is None else TLSListener(plain, tls, False)

    async def connection(stream: Any) -> None:
        line = Line(stream, len(received.lines) + 1)
        received.lines.append(line)
        async with stream:
            try:
                await converse(line)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, connection)
        yield received
        tasks.cancel_scope.cancel()
