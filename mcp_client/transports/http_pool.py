"""A pool of HTTP/1.1 connections to one origin, over h11 and anyio streams.

Stock httpx spends several times what the exchange itself costs, and its pool is walked for each
request, so with many requests in flight the cost of one doubles. Here a request takes the
connection that was used last, or opens another, and h11 says what the bytes mean.

*A connection serves one exchange at a time.* It goes back to the pool only when both sides have
finished the message, neither asked to close it, and nothing came after the response: bytes that
were not asked for could be taken for the answer to the next request. In every other case,
cancellation included, it is closed.

*An idle connection is checked before it is used again.* Servers close theirs after some seconds. If
there is anything to read, which is the end of the stream or something that was not asked for, the
connection is closed with nothing sent on it, and another is used. Over TLS there may also be a
session ticket, which is read and means nothing.

*A server may answer before it has read the whole request.* A body that does not fit into the
buffers of the sockets is therefore sent by a task of its own while the response is awaited. A
response other than success ends the sending, as RFC 9112 section 9.6 asks.

Bounds on time are the caller's, except the one for connecting. What a response may have in headers
is bounded here; what it may have in its body, by ``HttpResponse``.
"""

from __future__ import annotations

import logging
import os
import re
import select
import socket
import sys
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from ssl import SSLContext
from typing import Any, Protocol

import anyio
import h11
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSStream

from ..runtime.event_loop import Backend, Handle, current
from .http_message import Fields, PooledResponse
from .http_response import InvalidHttp
from .http_stock import SIGNS_OF_LIFE

__all__ = ["Body", "HttpPool", "PooledRequest"]

_log = logging.getLogger("mcp_client")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MOST_KEPT = 1024
_AT_ONCE = 64 * 1024
"""Bytes of a body that are sent together with the headers."""
_PIECE = 256 * 1024
_READ = 256 * 1024
_HEAD = 100 * 1024
"""Bytes that the headers of a response may have, as in httpx."""
_MOST_INFORMATIONAL = 100
_CAN_WRITE = sys.platform != "win32"
"""Whether ``os.write`` writes to sockets."""
_ONE = h11.Request(
    method="POST", target="/", headers=[("host", "."), ("transfer-encoding", "chunked")]
)
_LAST = h11.Request(
    method="POST",
    target="/",
    headers=[("host", "."), ("transfer-encoding", "chunked"), ("connection", "close")],
)
"""What h11 is told of a request, because it needs its kind to read the response. It is not what
is sent: writing a request is simple, and h11 takes as long for it as for all of the response."""
_TICKET = 0.02
"""Seconds in which bytes that are there must turn out to be data, or are a session ticket."""
_DISCONNECTED = "the server disconnected without sending a response"


class Body(Protocol):
    """The body of a request."""

    data: bytes
    begun: bool
    """Set before the first byte of the request leaves."""
    withdrawn: bool
    """Nothing may be sent: ``anyio.ClosedResourceError`` is raised instead."""


class PooledRequest:
    """One request."""

    __slots__ = ("_fields", "_given", "extensions", "method", "target", "url")

    def __init__(
        self, method: str, url: tuple[str, str], headers: Mapping[str, str], *, owner: object
    ) -> None:
        """``url``: all of it, and its path and query as they travel."""
        self.method = method
        self.url, self.target = url
        self.extensions = {"mcp_client": owner}
        self._given = headers
        self._fields: Fields | None = None

    @property
    def headers(self) -> Fields:
        """What is sent; it may be changed before that."""
        if self._fields is None:
            given = self._given
            self._fields = Fields([(n.lower().encode(), given[n].encode("ascii")) for n in given])
        return self._fields

    def head(self) -> bytes:
        """Request line and fields. Raises ``ValueError`` where HTTP cannot carry one of them."""
        fields = self._given if self._fields is None else dict(self._fields.multi_items())
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {fields[name]}" for name in fields]
        text = "\r\n".join(lines) + "\r\n\r\n"
        ends = len(lines) + 1
        if text.count("\n") != ends or text.count("\r") != ends or "\0" in text:
            raise ValueError("a header has a line break or a null in it")
        for name in fields:
            if not _is_name(name):
                raise ValueError("a header has a name that HTTP cannot carry")
        return text.encode("ascii")

    def asks_to_close(self) -> bool:
        """Whether its header says that the connection is to be closed after it."""
        fields = self._given if self._fields is None else dict(self._fields.multi_items())
        return any([name.lower() == "connection" for name in fields])


@lru_cache(256)
def _is_name(name: str) -> bool:
    return _TOKEN.fullmatch(name) is not None


class HttpPool:
    """Connections to ``host``, kept alive between requests."""

    def __init__(
        self, host: str, port: int, tls: SSLContext | None, *, connect: float, keep: float
    ) -> None:
        """``connect``: seconds that connecting may take, with the TLS handshake; ``keep``: seconds
        that an idle connection is kept."""
        self.backend: Backend = current()
        self._host = host
        self._port = port
        self._tls = tls
        self._connect_seconds = connect
        self._keep_seconds = keep
        self._idle: deque[_Connection] = deque()
        """The one used last is at the right."""
        self._busy: set[_Connection] = set()
        self._timer: Handle | None = None
        """Set while there are idle connections, for the one that is idle longest."""
        self._closed = False

    async def send(self, request: PooledRequest, body: Body) -> PooledResponse:
        """Send ``request`` and return once the headers of its response are there.

        Raises ``OSError``, ``TimeoutError`` or ``ssl.SSLError`` where no connection can be made,
        and what h11 and anyio raise; ``body.begun`` tells whether anything has been sent.
        """
        head = request.head()
        while True:
            reused = await self._reusable()
            connection = reused or await self._connect()
            self._busy.add(connection)
            try:
                if self._closed:
                    raise anyio.ClosedResourceError
                if await connection.send(request, head, body):
                    status, fields = await connection.head()
                    return PooledResponse(connection, request, status, fields)
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
                if not connection.has_input() or await connection.has_only_a_ticket():
                    return connection
            except BaseException:
                await connection.aclose()
                raise
            await connection.aclose()
        return None

    async def _connect(self) -> _Connection:
        with anyio.fail_after(self._connect_seconds):
            plain = await anyio.connect_tcp(self._host, self._port)
            try:
                raw = plain.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for option in SIGNS_OF_LIFE:
                    raw.setsockopt(*option)
                if self._tls is None:
                    return _Connection(self, plain, raw)
                tls = await TLSStream.wrap(
                    plain,
                    server_side=False,
                    hostname=self._host,
                    ssl_context=self._tls,
                    standard_compatible=False,
                )
                return _Connection(self, tls, raw)
            except anyio.EndOfStream:
                await _close(plain)
                raise ConnectionError("the connection was closed in the TLS handshake") from None
            except BaseException:
                await _close(plain)
                raise

    def keep(self, connection: _Connection) -> bool:
        """Take a connection back. False where the pool is full."""
        self._busy.discard(connection)
        if self._closed or len(self._idle) >= _MOST_KEPT:
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
        idle, now = self._idle, self.backend.now()
        while idle and idle[0].idle_since + self._keep_seconds <= now:
            await idle.popleft().aclose()
        if idle and self._timer is None and not self._closed:
            self._set_timer()

    def forget(self, connection: _Connection) -> None:
        self._busy.discard(connection)

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
    __slots__ = ("_http", "_next", "_pool", "_raw", "_socket", "_stream", "_writer", "idle_since")

    def __init__(self, pool: HttpPool, stream: ByteStream, raw: socket.socket) -> None:
        self.idle_since = 0.0
        self._pool = pool
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD)
        self._socket = raw
        self._raw = None if isinstance(stream, TLSStream) or not _CAN_WRITE else raw
        """The socket, where bytes can be written to it past ``stream``."""
        self._writer: Handle | None = None
        self._next: Any = None
        """An event of h11 that came with the one before it."""

    # ------------------------------------------------------------ while it is idle

    def has_input(self) -> bool:
        """Whether there is anything to read, the end of the stream included."""
        return _is_readable(self._socket)

    async def has_only_a_ticket(self) -> bool:
        """Whether what there is to read is nothing but a part of TLS."""
        if not isinstance(self._stream, TLSStream):
            return False
        with anyio.move_on_after(_TICKET) as scope:
            try:
                await self._stream.receive(1)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
        return scope.cancelled_caught

    # --------------------------------------------------------------- one exchange

    async def send(self, request: PooledRequest, head: bytes, body: Body) -> bool:
        """Send a request. False where the connection has ended and no byte of it has left."""
        if body.withdrawn:
            raise anyio.ClosedResourceError
        http, data = self._http, body.data
        http.send(_LAST if request.asks_to_close() else _ONE)
        if len(data) > _AT_ONCE:
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
                pass  # there may be a response all the same; if not, reading says what is wrong
        return True

    def _send_now(self, data: bytes) -> int:
        """How many bytes the socket takes without waiting. Raises ``OSError`` if it has ended.

        This tells whether anything has left, and saves a turn of the event loop: the stream has
        nothing of its own to send, since each of its ``send`` waits until all has gone.
        """
        if self._raw is None:
            return 0
        try:
            return os.write(self._raw.fileno(), data)
        except BlockingIOError:
            return 0

    async def _write(self, head: bytes, data: bytes) -> None:
        stream, view = self._stream, memoryview(data)
        try:
            await stream.send(head)
            for start in range(0, len(data), _PIECE):
                await stream.send(bytes(view[start : start + _PIECE]))
            self._http.send(h11.EndOfMessage())
            self._writer = None
        except Exception as error:  # noqa: BLE001 - the task that reads sees what is wrong
            _log.debug("a request was not sent to its end: %s", type(error).__name__)

    def _next_event(self) -> Any:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise InvalidHttp(str(error)) from None

    async def head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Status and fields of the response."""
        http = self._http
        for _ in range(_MOST_INFORMATIONAL):
            while (event := self._next_event()) is h11.NEED_DATA:
                data = await self._receive()
                if not data:
                    raise InvalidHttp(_DISCONNECTED)
                http.receive_data(data)
            if type(event) is h11.Response:
                if event.status_code >= 300:
                    self._stop_writing()
                return event.status_code, list(event.headers)
        raise InvalidHttp("the server sends one informational response after another")

    async def _receive(self) -> bytes:
        try:
            return await self._stream.receive(_READ)
        except anyio.EndOfStream:
            return b""
        except anyio.BrokenResourceError as error:
            raise ConnectionError(str(error.__cause__ or "the connection broke")) from None

    async def read(self) -> tuple[bytes, bool]:
        """Some more of the body, and whether that is its end, where the connection goes back to
        the pool: it does as soon as the end has come, so that it need not be read again."""
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
        """The next event, if it is there; what is wrong with it is found when it is read."""
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
        if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
            return False
        if http.trailing_data != (b"", False):
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
        self._pool.forget(self)
        self._stop_writing()
        await _close(self._stream)

    def server_address(self) -> Any:
        return self._stream.extra(SocketAttribute.remote_address, None)  # noqa: S610


async def _close(stream: ByteStream) -> None:
    with anyio.CancelScope(shield=True):  # without a closing handshake nothing is waited for
        try:
            await stream.aclose()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass


def _is_readable(raw: socket.socket) -> bool:
    try:
        if sys.platform == "win32" or not hasattr(select, "poll"):
            return bool(select.select([raw], [], [], 0)[0])
        poll = select.poll()
        poll.register(raw.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    except (OSError, ValueError):  # it is closed
        return True
