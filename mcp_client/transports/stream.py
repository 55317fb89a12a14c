"""A transport of the host's own: any pair of streams of JSON objects, such as a WebSocket.

``StreamServer(open)`` is what ``connect`` takes. ``open()`` returns an async context manager that
yields two streams: one to receive from (``await receive()``, or an async iterator), and one to send
to (``await send(message)``). A received message is a dict, or JSON as text or bytes; a sent one is
a dict.

One task of the session enters the context manager, reads, writes, and exits it, because cancel
scopes may only be left in the task that entered them. So any task may close the session. The
streams are used as one shared line: see ``multiplexer``.
"""

from __future__ import annotations

import inspect
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import anyio

from ..errors import Advice, ConfigError, ConnectError, ConnectionLost, McpError, StartDenied
from ..protocol.jsonrpc import Id
from ..runtime.background import BackgroundTask, BackgroundTasks
from ..runtime.event_loop import LoopEvent, current
from ..runtime.limits import seconds_text
from ..runtime.option_names import with_option_names
from ..runtime.safe_text import one_line, safe_text
from ..runtime.session_context import StartPolicy
from .base import Transport, TransportContext, UnmatchedOutput
from .multiplexer import LineExchange, Multiplexer

__all__ = ["StreamServer", "StreamTransport"]

Open: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]
_MAX_BACKLOG_CHARS = 1024 * 1024
_CANCEL_SECONDS = 0.5
_MAX_REASON_CHARS = 300


class StreamServer:
    """A server behind a transport of the host's own: ``connect(StreamServer(open_websocket))``.

    Each connection calls ``open()`` again, also where a lost one is replaced.

    Args:
        open: A function that returns an async context manager, which yields ``(receive, send)``:
            streams of JSON objects, as the module ``mcp_client.transports.stream`` describes.
        name: What errors call the transport; by default the name of ``open``.
        identity: A text that distinguishes this server from others, in another process too.
            Approvals are remembered "always" only with one, and pins are bound to it.

    Raises:
        ConfigError: ``open`` is not a function, or the name or the identity is not a text.
    """

    @with_option_names()
    def __init__(self, open: Open, *, name: str | None = None, identity: str | None = None) -> None:
        if not callable(open):
            kind = type(open).__name__
            raise ConfigError(
                f"StreamServer({kind}): give a function that returns an async context manager"
            )
        for option, value in (("name", name), ("identity", identity)):
            if value is not None and not (isinstance(value, str) and value):
                raise ConfigError(f"StreamServer({option}={value!r}): give a str such as 'files'")
        self._open = open
        self._name = name
        self._identity = identity

    def __repr__(self) -> str:
        return f"<StreamServer {self._name or _name_of(self._open)}>"

    def _transport(self) -> StreamTransport:
        return StreamTransport(self)


class StreamTransport(Transport):
    """The way to a ``StreamServer``, of one session."""

    multiplexed = True
    only_its_word = True

    def __init__(self, server: StreamServer) -> None:
        self._server = server
        self._name = safe_text(server._name or _name_of(server._open), 80)
        self.name: str = server._name or "server"
        self._task: BackgroundTask | None = None
        self._closed = self._over = False
        self._why = ""
        self._cause: BaseException | None = None
        self._line: anyio.CancelScope | None = None
        self._outbox: deque[_Outgoing] = deque()
        self._leaving: _Outgoing | None = None
        """The message that is being sent now."""
        self._backlog = 0

    def clone(self) -> StreamTransport:
        """Return a new, unopened transport to the same server."""
        return StreamTransport(self._server)

    @property
    def stable_identity(self) -> str | None:
        """A text that identifies the program or address, equal in every process."""
        identity = self._server._identity
        return None if identity is None else f"stream:{identity}"

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine."""
        return False  # its destination is unknown

    @property
    def alive(self) -> bool:
        """Whether a request can be sent now."""
        return self._task is not None and not self._over and not self._closed

    def unmatched_output(self) -> UnmatchedOutput | None:
        """Return the server's output that is not a response to a request."""
        return self._multiplexer.unmatched_output()

    def permit(self, policy: StartPolicy | None) -> None:
        """Raise ``StartDenied`` if ``policy`` refuses the server that this leads to."""
        if policy is not None and policy.allow is not None:
            reason = "it lists what may be connected to, and cannot judge a StreamServer"
            raise StartDenied(
                f"the policy refuses the transport {self._name}: {reason}",
                reason=reason,
                source="policy",
                server=self.name,
            )

    # ----------------------------------------------------------------- opening

    async def open(self, context: TransportContext) -> None:
        """Make the connection, for one session. Raises ``ConnectError``."""
        if self._task is not None:
            raise ConfigError(
                "this transport already has a session. Create a transport for each session"
            )
        self.permit(context.policy)
        self._context = context
        self._multiplexer = Multiplexer(current(), context, lambda: self.owner)
        self._more, self._settled, self._ended = LoopEvent(), LoopEvent(), LoopEvent()
        self._tasks = BackgroundTasks(current(), context.server)
        self._task = self._tasks.start(self._run)
        seconds = context.timeouts.connect
        try:
            async with current().time_limit(seconds):
                await self._settled.wait()
        except TimeoutError:
            await self.aclose()
            raise ConnectError(
                f"the transport {self._name} did not open within {seconds_text(seconds)} "
                "(connect timeout)",
                retryable=True,
            ) from None
        except BaseException:
            await self.aclose()
            raise
        if self._over:
            cause = self._cause
            if isinstance(cause, McpError):
                raise cause
            raise ConnectError(
                f"cannot open the transport {self._name}: {self._why}", retryable=True
            ) from cause

    async def _run(self) -> None:
        """Own the streams, from their opening until they are closed."""
        try:
            manager = self._server._open()
            if self._server._name is None and getattr(manager, "gen", None) is not None:
                self._name = _name_of(manager.gen)  # type: ignore[attr-defined]
            async with manager as pair:
                receive, send = _streams(pair)
                owner = getattr(send, "__self__", None)
                self.has_headers: bool = getattr(owner, "takes_headers", False) is True
                with anyio.CancelScope() as self._line:
                    self._settled.set()
                    if not self._closed:
                        async with anyio.create_task_group() as both:
                            both.start_soon(self._write, send)
                            await self._read(receive)
                            both.cancel_scope.cancel()
                self._end("the stream of messages ended")
        except Exception as error:  # noqa: BLE001 - the host's own code, reported to the waiter
            self._end(_described(error), _leaf(error))
        finally:
            self._end("it was cancelled")
            self._settled.set()
            self._ended.set()

    def _end(self, why: str, cause: BaseException | None = None) -> None:
        """The streams are over: settle what waits."""
        if self._over:
            return
        secrets = self._context.secrets
        self._over, self._cause = True, cause
        self._why = why if secrets is None else secrets.text(why)
        for item in self._outbox:
            exchange = None if item.id is None else self._multiplexer.exchanges.get(item.id)
            if exchange is not None and not exchange.settled:
                exchange.fail(self._not_sent())
            item.left.set()
        self._outbox.clear()
        if self._leaving is not None:
            self._leaving.left.set()
        self._multiplexer.end(self._lost)

    # ---------------------------------------------------------------- messages

    async def _read(self, receive: AsyncIterator[Any]) -> None:
        async for message in receive:
            if isinstance(message, str | bytes | bytearray):
                frame = message.encode("utf-8", "replace") if isinstance(message, str) else message
            else:
                try:
                    frame = json.dumps(message).encode()
                except (TypeError, ValueError, RecursionError):
                    frame = safe_text(repr(type(message)), 80).encode()  # counted as invalid
            self._multiplexer.take(bytes(frame))

    async def _write(self, send: Callable[..., Any]) -> None:
        while True:
            while self._outbox:
                item = self._leaving = self._outbox.popleft()
                item.begun = True
                self._backlog -= len(item.text)
                message = json.loads(item.text)
                await (send(message, item.headers) if self.has_headers else send(message))
                item.sent = True
                item.left.set()
            self._more = LoopEvent()
            await self._more.wait()

    def _put(self, text: str, headers: Mapping[str, str], id: Id | None = None) -> _Outgoing:
        always = {} if self.era is None else self.era.session_headers
        item = _Outgoing(text, {**always, **headers} if self.has_headers else headers, id)
        self._outbox.append(item)
        self._backlog += len(text)
        self._more.set()
        return item

    async def exchange(
        self, id: Id, text: str, headers: Mapping[str, str], until: float
    ) -> LineExchange:
        """Send a request, or make it ready to leave. Raises ``NotSent``."""
        if not self.alive:
            raise self._not_sent()
        exchange = self._multiplexer.exchange(id)
        self._put(text, headers, id)  # not waited for: ``withdraw`` takes it back
        return exchange

    def withdraw(self, id: Id) -> bool:
        """Remove a line if nothing of it has been written, and return whether that was so."""
        return any(self._take_back(item) for item in tuple(self._outbox) if item.id == id)

    def _take_back(self, item: _Outgoing) -> bool:
        if item.begun or item not in self._outbox:
            return False
        self._outbox.remove(item)
        self._backlog -= len(item.text)
        return True

    async def send(self, text: str, headers: Mapping[str, str]) -> None:
        """Send a one-way message and wait until it has left. Raises ``ConnectError``."""
        if not self.alive:
            raise self._not_sent()
        item = self._put(text, headers)
        try:
            async with current().time_limit(self._context.timeouts.idle):
                await item.left.wait()
        except TimeoutError:
            self._take_back(item)
            why = f"the transport {self._name} does not send"
            raise ConnectError(why, server=self._context.server, retryable=True) from None
        except BaseException:
            self._take_back(item)
            raise
        if not item.sent:
            raise self._not_sent()

    def send_soon(self, text: str, headers: Mapping[str, str]) -> None:
        """Send a one-way message some time soon; if the connection is gone, do not."""
        if self._backlog > _MAX_BACKLOG_CHARS:
            self._context.stats.unsent += 1
        elif self.alive:
            self._put(text, headers)

    # ------------------------------------------------------------------ ending

    @property
    def _how(self) -> str:
        if self._closed:
            return self.closed_because
        return f"the transport {self._name} ended: {self._why}"

    def _not_sent(self) -> ConnectError:
        return ConnectError(self._how, server=self._context.server, retryable=True)

    def _lost(self) -> McpError:
        how = self._how
        return ConnectionLost(
            f"{how}, while the request was under way; it may have run",
            why=how,
            server=self._context.server,
        )

    def exit_advice(self) -> Advice | None:
        """Return a possible reason why the server ended, and what to do; None if unknown."""
        return None

    async def aclose(self) -> None:
        """End it, in any task, any number of times, within bounded time."""
        self._closed = True
        if self._task is None or self._ended.is_set():
            return
        if self._line is None:
            self._task.cancel()  # it is not open yet
        else:
            self._line.cancel()
        with anyio.move_on_after(self._context.timeouts.close, shield=True):
            await self._ended.wait()
        self._end(self.closed_because)
        await self._tasks.aclose(_CANCEL_SECONDS)


class _Outgoing:
    """One message on its way out."""

    __slots__ = ("begun", "headers", "id", "left", "sent", "text")

    def __init__(self, text: str, headers: Mapping[str, str], id: Id | None) -> None:
        self.text = text
        self.headers = headers
        self.id = id
        self.begun = self.sent = False
        self.left = LoopEvent()


def _streams(pair: Any) -> tuple[AsyncIterator[Any], Callable[..., Any]]:
    """Return how to receive and to send, of what ``open()`` yielded. Raises ``ConfigError``."""
    try:
        receive, send = pair
    except (TypeError, ValueError):
        receive = send = None
    if hasattr(receive, "__aiter__") and callable(getattr(send, "send", None)):
        return aiter(receive), send.send
    if callable(getattr(receive, "receive", None)) and callable(getattr(send, "send", None)):
        return _received(receive), send.send
    raise ConfigError(
        f"StreamServer(open): open() yielded a {type(pair).__name__}, not a pair of streams: "
        "yield (receive, send): one has receive(), the other has send()"
    )


async def _received(stream: Any) -> AsyncIterator[Any]:
    while True:
        try:
            message = await stream.receive()
        except (anyio.EndOfStream, StopAsyncIteration):
            return
        yield message


def _leaf(error: BaseException) -> BaseException:
    """Return the first exception in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _described(error: BaseException) -> str:
    leaf = _leaf(error)
    text = one_line(leaf)
    kind = type(leaf).__name__
    return safe_text(f"{kind}: {text}" if text else kind, _MAX_REASON_CHARS)


def _name_of(open: Any) -> str:
    """Return a name for a function, as its author wrote it."""
    open = inspect.unwrap(getattr(open, "func", open))
    name = str(getattr(open, "__qualname__", type(open).__name__))
    return safe_text(name.rpartition("<locals>.")[2], 80)
