"""A pool of HTTP/1.1 connections to one origin, over h11 and anyio streams.

Stock httpx costs several times as much as the exchange itself. It walks its pool for each request,
so with many requests in flight the cost of one doubles. Here a request takes the connection that
was used last, or opens another, and h11 parses the bytes.

*A connection serves one exchange at a time.* It returns to the pool only if both sides have
finished the message, neither asked to close the connection, and nothing came after the response.
Unrequested bytes could be taken for the response to the next request. In every other case,
cancellation included, it is closed.

*An idle connection is checked before it is used again.* Servers close theirs after some seconds. If
anything can be read from it (the end of the stream, or unrequested bytes), the connection is closed
before anything is sent on it, and another is used. Over TLS there may also be a session ticket,
which is read and means nothing.

*A server may answer before it has read the whole request.* A body that does not fit into the
buffers of the sockets is therefore sent by a task of its own while the response is awaited. A
response other than success ends the sending, as RFC 9112 section 9.6 asks.

Bounds on time are the caller's, except the one for connecting. What a response may have in headers
is bounded here; what it may have in its body, by ``HttpResponse``.

The simulation of ``tests/`` replaces ``dial``, so that the pool runs over a network of its own.
"""

from __future__ import annotations

import logging
import os
import re
import select
import socket
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from ssl import SSLContext
from typing import Any, NamedTuple, Self

import anyio
import h11
import httpx
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSStream

from ..runtime.daemon_thread import NoThread
from ..runtime.event_loop import Backend, Handle, current
from .http_response import InvalidHttp
from .http_stock import SIGNS_OF_LIFE, RequestBody

__all__ = ["Dialled", "HttpPool", "PooledStream", "dial", "request_head"]

_log = logging.getLogger("mcp_client")
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MAX_IDLE = 1024
_MAX_INLINE_BODY_BYTES = 64 * 1024
"""Bytes of a body that are sent together with the headers."""
_WRITE_BYTES = 256 * 1024
_READ_BYTES = 256 * 1024
_MAX_HEAD_BYTES = 100 * 1024
"""Bytes that the headers of a response may have, as in httpx."""
_MAX_INFORMATIONAL = 100
_FIELDS = [("host", "."), ("transfer-encoding", "chunked")]
_KEEP_ALIVE_REQUEST = h11.Request(method="POST", target="/", headers=_FIELDS)
_LAST_REQUEST = h11.Request(method="POST", target="/", headers=[*_FIELDS, ("connection", "close")])
"""The request that h11 is given, because it needs its kind to parse the response. It is not what is
sent: writing a request is simple, and h11 takes as long for it as for all of the response."""
_HOP_BY_HOP = dict.fromkeys((b"content-length", b"transfer-encoding"), "framing")
_HOP_BY_HOP[b"connection"] = "connection"
_EARLY_SECONDS = 0.02  # asyncio may ring a timer early: the clock of Windows has steps of 16 ms
_TICKET_SECONDS = 0.02
"""Seconds in which bytes that are there must turn out to be data, or are a session ticket."""


def request_head(request: httpx.Request, length: int) -> tuple[bytes, bool]:
    """Request line and fields, as they travel, and whether they ask to close the connection.

    How the body is framed is decided here: it has ``length`` bytes. Raises ``ValueError`` if HTTP
    cannot carry a field.
    """
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    close = False
    for name, value in request.headers.raw:
        kind = _kind_of(name)
        if kind is None:
            lines.append(b"%b: %b" % (name, value))
        elif kind == "connection":
            lines.append(b"%b: %b" % (name, value))
            close = True
    if length or request.method == "POST":
        lines.append(b"Content-Length: %d" % length)
    head = b"\r\n".join(lines) + b"\r\n\r\n"
    ends = len(lines) + 1
    if head.count(b"\n") != ends or head.count(b"\r") != ends or b"\0" in head:
        raise ValueError("a header contains a line break or a NUL")
    if not head.isascii():
        raise ValueError("a header has a character that is not ASCII")
    return head, close


@lru_cache(256)
def _kind_of(name: bytes) -> str | None:
    """Return the meaning of a field for the connection, or None. Raises ``ValueError``."""
    if not _TOKEN.fullmatch(name):
        raise ValueError("a header has a name that HTTP cannot carry")
    return _HOP_BY_HOP.get(name.lower())


class HttpPool(httpx.AsyncBaseTransport):
    """A pool of connections to ``host``, which stay open between requests.

    It is driven with httpx's own requests and responses, and without ``httpx.AsyncClient``, which
    costs as much as all of this: row "echo after echo, HTTP JSON".
    """

    def __init__(
        self, host: str, port: int, tls: SSLContext | None, *, connect: float, keep: float
    ) -> None:
        """Create an empty pool.

        ``connect``: seconds that connecting may take, with the TLS handshake; ``keep``: seconds
        that an idle connection stays open.
        """
        self.backend: Backend = current()
        self._host = host
        self._port = port
        self._tls = tls
        self._connect_seconds = connect
        self._keep_seconds = keep
        self._idle: list[_Connection] = []  # an empty deque takes ten times the memory
        """The one used last is at the right."""
        self._busy: set[_Connection] = set()
        self._timer: Handle | None = None
        """Set while there are idle connections, for the one that is idle longest."""
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send ``request`` and return once the headers of its response are there.

        Raises ``OSError``, ``TimeoutError`` or ``ssl.SSLError`` if no connection can be made, and
        what h11 and anyio raise; ``RequestBody.begun`` is true if anything has been sent.
        """
        body = request.stream
        if not isinstance(body, RequestBody):
            body = RequestBody(await request.aread())
        head, close = request_head(request, len(body.data))
        while True:
            reused = await self._reusable()
            connection = reused or await self._connect()
            self._busy.add(connection)
            try:
                if self._closed:
                    raise anyio.ClosedResourceError
                if await connection.send(head, body, close=close):
                    status, fields = await connection.head()
                    stream = PooledStream(connection)
                    facts = {"network_stream": stream}
                    return httpx.Response(
                        status, headers=fields, stream=stream, extensions=facts, request=request
                    )
                if reused is None:
                    raise ConnectionError("the server closed the connection at once")
            except BaseException:
                await connection.aclose()
                raise
            await connection.aclose()

    async def _reusable(self) -> _Connection | None:
        await self._close_expired()
        idle = self._idle
        while idle:
            connection = idle.pop()
            try:
                if not connection._dialled.has_input() or await connection.has_only_a_ticket():
                    return connection
            except BaseException:
                await connection.aclose()
                raise
            await connection.aclose()
        return None

    async def _connect(self) -> _Connection:
        async with self.backend.time_limit(self._connect_seconds):
            dialled = await dial(self._host, self._port)
            if self._tls is None:
                return _Connection(self, dialled)
            plain = dialled.stream
            try:
                tls = await TLSStream.wrap(
                    plain,
                    server_side=False,
                    hostname=self._host,
                    ssl_context=self._tls,
                    standard_compatible=False,
                )
                return _Connection(self, dialled._replace(stream=tls))
            except BaseException as error:
                await close(plain)
                if isinstance(error, anyio.EndOfStream):
                    raise ConnectionError(
                        "the connection was closed in the TLS handshake"
                    ) from None
                raise

    def keep(self, connection: _Connection) -> bool:
        """Take a connection back. Returns False if the pool is full."""
        self._busy.discard(connection)
        if self._closed or len(self._idle) >= _MAX_IDLE:
            return False
        connection.idle_since = self.backend.now()
        self._idle.append(connection)
        if self._timer is None:
            self._set_timer()
        return True

    def _set_timer(self) -> None:
        when = self._idle[0].idle_since + self._keep_seconds
        self._timer = self.backend.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.backend.spawn(self._close_expired)

    async def _close_expired(self) -> None:
        idle, now = self._idle, self.backend.now() + _EARLY_SECONDS
        while idle and idle[0].idle_since + self._keep_seconds <= now:
            await idle.pop(0).aclose()
        if idle and self._timer is None and not self._closed:
            self._set_timer()

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        while self._idle:
            await self._idle.pop().aclose()
        for connection in list(self._busy):
            await connection.aclose()


class _Connection:
    __slots__ = ("_dialled", "_http", "_next", "_pool", "_stream", "_writer", "idle_since")

    def __init__(self, pool: HttpPool, dialled: Dialled) -> None:
        self.idle_since: float = 0.0
        self._pool = pool
        self._dialled = dialled
        self._stream = dialled.stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._writer: Handle | None = None
        self._next: Any = None
        """An event of h11 that came with the one before it."""

    async def has_only_a_ticket(self) -> bool:
        """Whether what there is to read is nothing but a part of TLS."""
        if not isinstance(self._stream, TLSStream):
            return False
        with anyio.move_on_after(_TICKET_SECONDS) as scope:
            try:
                await self._stream.receive(1)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
        return scope.cancelled_caught

    # --------------------------------------------------------------- one exchange

    async def send(self, head: bytes, body: RequestBody, *, close: bool) -> bool:
        """Send a request. Returns False if the connection has ended and no byte of it has left."""
        body.check()
        http, data = self._http, body.data
        http.send(_LAST_REQUEST if close else _KEEP_ALIVE_REQUEST)
        if len(data) > _MAX_INLINE_BODY_BYTES:
            body.begun = True
            self._writer = self._pool.backend.spawn(lambda: self._write(head, data))
            return True
        http.send(h11.EndOfMessage())
        head += data
        try:
            sent = self._send_now(head)
        except OSError:
            return False
        body.begun = True
        if sent < len(head):
            try:
                await self._stream.send(head[sent:])
            except (OSError, anyio.BrokenResourceError):
                pass  # there may be a response; if not, receiving reports what is wrong
        return True

    def _send_now(self, data: bytes) -> int:
        """Return how many bytes the socket takes without waiting.

        Raises ``OSError`` if it has ended.

        This shows whether anything was sent, and saves a turn of the event loop. The stream itself
        has nothing left to send, because each ``send`` waits until everything is sent.
        """
        if isinstance(self._stream, TLSStream):
            return 0
        try:
            return self._dialled.write(data)
        except BlockingIOError:
            return 0

    async def _write(self, head: bytes, data: bytes) -> None:
        stream, view = self._stream, memoryview(data)
        try:
            await stream.send(head)
            for start in range(0, len(data), _WRITE_BYTES):
                await stream.send(bytes(view[start : start + _WRITE_BYTES]))
            self._http.send(h11.EndOfMessage())
            self._writer = None
        except Exception as error:  # noqa: BLE001 - the task that reads sees what is wrong
            _log.debug("a request was not sent completely: %s", type(error).__name__)

    def _next_event(self) -> Any:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise InvalidHttp(str(error)) from None

    async def head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Return the status and the fields of the response."""
        http = self._http
        for _ in range(_MAX_INFORMATIONAL):
            while (event := self._next_event()) is h11.NEED_DATA:
                data = await self._receive()
                if not data:
                    raise InvalidHttp("the server disconnected without sending a response")
                http.receive_data(data)
            if type(event) is h11.Response:
                if event.status_code >= 300:
                    self._stop_writing()
                return event.status_code, list(event.headers)
        raise InvalidHttp("the server sends one informational response after another")

    async def _receive(self) -> bytes:
        try:
            return await self._stream.receive(_READ_BYTES)
        except anyio.EndOfStream:
            return b""
        except anyio.BrokenResourceError as error:
            raise ConnectionError(str(error.__cause__ or "the connection broke")) from None

    async def read(self) -> tuple[bytes, bool]:
        """Return some more of the body, and whether that is its end.

        The connection goes back to the pool as soon as the end has come, so that it need not be
        read again.
        """
        event, self._next = self._next, None
        while True:
            event = event or self._next_event()
            if type(event) is h11.Data:
                self._next = self._what_came()
                if type(self._next) is not h11.EndOfMessage:
                    return event.data, False
                await self._finish()
                return event.data, True
            if event is not h11.NEED_DATA:
                await self._finish()
                return b"", True
            self._http.receive_data(await self._receive())
            event = None

    def _what_came(self) -> Any:
        """Return the next event, if it is there; what is wrong with it is found when it is read."""
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError:
            return None
        return None if event is h11.NEED_DATA else event

    async def _finish(self) -> None:
        self._next = None
        if self._writer is not None:
            await anyio.lowlevel.checkpoint()  # it may have sent all, and not run since
        if self._can_serve_another():
            self._http.start_next_cycle()
            if self._pool.keep(self):
                return
        await self.aclose()

    def _can_serve_another(self) -> bool:
        http = self._http
        done = http.our_state is h11.DONE and http.their_state is h11.DONE
        if not done or http.trailing_data != (b"", False):
            return False
        if not isinstance(self._stream, TLSStream):
            return True
        return not self._stream.extra(TLSAttribute.ssl_object).pending()  # noqa: S610

    # -------------------------------------------------------------------- its end

    def _stop_writing(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.cancel()

    async def aclose(self) -> None:
        self._pool._busy.discard(self)
        self._stop_writing()
        await close(self._stream)


class PooledStream(httpx.AsyncByteStream):
    """The body of a response, with the facts of its connection."""

    def __init__(self, connection: _Connection) -> None:
        self._connection: _Connection | None = connection

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        connection = self._connection
        if connection is None:
            raise StopAsyncIteration
        try:
            data, ended = await connection.read()
        except BaseException:
            await self.aclose()
            raise
        if ended:
            self._connection = None
            if not data:
                raise StopAsyncIteration
        return data

    @property
    def ended(self) -> bool:
        """Whether it was read to its end, or given up."""
        return self._connection is None

    def get_extra_info(self, name: str) -> Any:
        """Return the extra information that httpx has in ``network_stream``."""
        if self._connection is None:
            return None
        return self._connection._stream.extra(SocketAttribute.remote_address, None)  # noqa: S610

    async def aclose(self) -> None:
        """Give the response up; one that was not read to its end costs the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()


class Dialled(NamedTuple):
    """A TCP connection, and what is asked of its socket past the stream."""

    stream: ByteStream
    write: Callable[[bytes], int]
    """Return how many bytes the socket takes now. Raises ``OSError`` if it takes none."""
    has_input: Callable[[], bool]
    """Whether there is anything to read, the end of the stream included."""


async def dial(host: str, port: int) -> Dialled:
    """Open a TCP connection."""
    try:
        stream = await anyio.connect_tcp(host, port)
    except RuntimeError as error:  # the name is looked up in a thread
        raise NoThread(error) from None
    try:
        raw = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in SIGNS_OF_LIFE:
            raw.setsockopt(*option)
    except BaseException:
        await close(stream)
        raise
    return Dialled(stream, partial(_write, raw), partial(_is_readable, raw))


async def close(stream: ByteStream) -> None:
    """Close it, also while the caller is being cancelled."""
    with anyio.CancelScope(shield=True):  # without a closing handshake nothing is waited for
        try:
            await stream.aclose()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass


def _write(raw: socket.socket, data: bytes) -> int:
    if sys.platform == "win32":  # where ``os.write`` does not write to sockets
        raise BlockingIOError
    return os.write(raw.fileno(), data)


def _is_readable(raw: socket.socket) -> bool:
    try:
        if sys.platform == "win32" or not hasattr(select, "poll"):
            return bool(select.select([raw], [], [], 0)[0])
        poll = select.poll()
        poll.register(raw.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    except (OSError, ValueError):  # it is closed
        return True
