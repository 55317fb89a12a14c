"""A TCP server for tests of HTTP itself: each connection is a function of its stream."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute
from anyio.streams.tls import TLSListener

__all__ = ["Conversation", "Heard", "Line", "listening"]


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

    async def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            await self.stream.send(piece)

    async def end_sending(self) -> None:
        await self.stream.send_eof()

    async def until_hung_up(self) -> None:
        while True:
            await self._more()


Conversation: TypeAlias = Callable[[Line], Awaitable[None]]


@dataclass
class Heard:
    port: int
    lines: list[Line] = field(default_factory=list)


@asynccontextmanager
async def listening(
    converse: Conversation, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Heard]:
    """Each connection is closed when ``converse`` returns."""
    plain = await anyio.create_tcp_listener(local_host=host)
    heard = Heard(plain.extra(SocketAttribute.local_port))
    listener: Listener[Any] = plain if tls is None else TLSListener(plain, tls, False)

    async def connection(stream: Any) -> None:
        line = Line(stream, len(heard.lines) + 1)
        heard.lines.append(line)
        async with stream:
            try:
                await converse(line)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, connection)
        yield heard
        tasks.cancel_scope.cancel()
