"""A small HTTP/1.1 server for one ASGI application and a few people on this machine.

One request a connection, which is then closed: the page needs no more. The head of a request, its
body, the time it takes and the number of connections are limited. Facing a network is not what it
is for: there, mount the page in an application that an ordinary server runs.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import anyio
from anyio.abc import Listener, SocketStream

from .asgi import Receive, Scope, Send

__all__ = ["serve_connections"]

_log = logging.getLogger("mcp_client.desk")
_MAX_HEAD = 64 * 1024
_MAX_BODY = 4 * 1024 * 1024
_SECONDS = 15.0
"""For a request to arrive; and for its response, a stream's after its own end."""
_LINGER = 2.0
"""Seconds for the rest of a request that was refused before it was read."""
_CONNECTIONS = 64

App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def serve_connections(listener: Listener[SocketStream], app: App) -> None:
    """Answer requests until it is cancelled. Beyond ``_CONNECTIONS`` the oldest is closed."""
    open_connections: deque[anyio.CancelScope] = deque()

    async def connection(stream: SocketStream) -> None:
        if len(open_connections) >= _CONNECTIONS:
            open_connections.popleft().cancel()
        async with stream:
            with anyio.move_on_after(4 * _SECONDS) as scope:
                open_connections.append(scope)
                await _serve(stream, app)
            with suppress(ValueError):  # it may have been closed as the oldest
                open_connections.remove(scope)

    await listener.serve(connection)


async def _serve(stream: SocketStream, app: App) -> None:
    try:
        with anyio.fail_after(_SECONDS):
            scope, body = await _read(stream)
        await _Exchange(stream, body).run(app, scope)
    except _Malformed as error:
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
            await stream.send(_head(error.status, [(b"content-length", b"0")]))
            await stream.send_eof()
            with anyio.move_on_after(_LINGER):  # closed at once, the answer would be lost
                while True:
                    await stream.receive()
    except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError, TimeoutError):
        return
    except Exception:  # noqa: BLE001 - one request must not end the others
        _log.exception("a request to the approval page failed")


class _Malformed(Exception):
    def __init__(self, status: int = 400) -> None:
        self.status = status


async def _read(stream: SocketStream) -> tuple[Scope, bytes]:
    received = b""
    while b"\r\n\r\n" not in received:
        received += await stream.receive()
        if len(received) > _MAX_HEAD:
            raise _Malformed(431)
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
        raise _Malformed
    headers = [_header(line) for line in lines]
    names = [name for name, _ in headers]
    if names.count(b"host") != 1 or names.count(b"content-length") > 1:
        raise _Malformed
    if b"transfer-encoding" in names:
        raise _Malformed(411)
    length = dict(headers).get(b"content-length", b"0")
    if not length.isdigit():
        raise _Malformed
    if len(length) > 9 or int(length) > _MAX_BODY:
        raise _Malformed(413)
    while len(body) < int(length):
        body += await stream.receive()
    path, _, query = words[1].partition(b"?")
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": words[0].decode("latin-1").upper(),
        "scheme": "http",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": headers,
    }
    return scope, body[: int(length)]


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name or name != name.strip():
        raise _Malformed
    return name.lower(), value.strip()


class _Exchange:
    """One request and its response, as ASGI has them."""

    def __init__(self, stream: SocketStream, body: bytes) -> None:
        self._stream = stream
        self._body: bytes | None = body
        self._over = anyio.Event()

    async def run(self, app: App, scope: Scope) -> None:
        await app(scope, self._receive, self._send)

    async def _receive(self) -> MutableMapping[str, Any]:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while not self._over.is_set():
                await self._stream.receive()  # what else arrives is of no request
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        data = (
            _head(message["status"], message["headers"])
            if message["type"] == "http.response.start"
            else message.get("body", b"")
        )
        try:
            if data:
                await self._stream.send(data)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                self._over.set()
                await self._stream.send_eof()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise OSError("the connection was closed") from error


def _head(status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
    lines += [name + b": " + value for name, value in (*headers, (b"connection", b"close"))]
    return b"\r\n".join(lines) + b"\r\n\r\n"
