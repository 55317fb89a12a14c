"""A server in the same process, for users' own tests: no process, no network.

``mcp_client.testing.FakeServer`` makes one of functions. Here a function handles the messages:

```python
def server(message):
    match message["method"]:
        case "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": str(message["params"]["arguments"])}]}
    return NotImplemented

async with connect(MemoryServer(server), approval=allow_all) as session: ...
```
"""

from __future__ import annotations

import inspect
import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import anyio

from ..errors import ConfigError, ConnectError, ConnectionLost, McpError
from ..protocol.jsonrpc import Id
from ..runtime.event_loop import current
from ..runtime.option_names import with_option_names
from .base import Transport, TransportContext, UnmatchedOutput
from .multiplexer import LineExchange, Multiplexer

__all__ = ["JsonRpcError", "MemoryServer", "MemoryTransport", "ServerInProcess"]

Handler: TypeAlias = Callable[..., Any]


class JsonRpcError(Exception):
    """An exception for a handler: the response is a JSON-RPC error.

    Args:
        code: The code of the error, such as -32602.
        message: The message of the error.
        data: The ``data`` of the error; none by default.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code: int = code
        self.message: str = message
        self.data: Any = data


class ServerInProcess:
    """A server in this process, for ``connect``: ``MemoryServer`` or ``ReplayServer``."""

    def __init__(self, identity: str | None = None) -> None:
        self._open: set[MemoryTransport] = set()
        self._identity = identity

    def end(self) -> None:
        """Play a server that goes away, for every session that it has now."""
        for transport in tuple(self._open):
            transport.end()

    def _transport(self) -> MemoryTransport:
        """Return a transport for one session."""
        raise NotImplementedError


class MemoryServer(ServerInProcess):
    """A server that is a function of this process: ``connect(MemoryServer(handler))``.

    ``handler`` is called with each message the client sends, as the parsed JSON object, and may be
    async. For a request it returns the ``result`` object, or raises ``JsonRpcError``. If it returns
    ``NotImplemented``, this class responds: ``initialize`` is accepted as requested, all else gets
    the error "method not found". Returning None leaves a request without a response. A handler with
    a second parameter also receives ``send``, which sends any object (a notification, a question, a
    response of its own making) or raw bytes. Everything passes through JSON text both ways, as on a
    real wire. Several sessions may use one ``MemoryServer``: they share the handler.

    A cancelled call or a timeout does not cancel the handler. It continues, as a server may, and
    its result is dropped. It is notified as any server is, by ``notifications/cancelled``. Closing
    the session cancels every handler that still runs.

    ``identity`` is a name that distinguishes this server from others, as the command does for
    programs. Without one, an approval for "always" is stored until the session ends.
    """

    @with_option_names()
    def __init__(self, handler: Handler, *, identity: str | None = None) -> None:
        made = type(self).__name__
        if not callable(handler):
            kind = type(handler).__name__
            raise ConfigError(f"{made}({kind}): give a function from message to result")
        if identity is not None and not (isinstance(identity, str) and identity):
            raise ConfigError(f"{made}(identity={identity!r}): give a str such as 'files'")
        super().__init__(identity)
        self._handler = handler

    def _transport(self) -> MemoryTransport:
        return MemoryTransport(self._handler, self._open, self._identity)


class MemoryTransport(Transport):
    """The way to a ``MemoryServer`` of one session. ``all_open`` has it while it is open."""

    multiplexed = True
    name = "memory"
    closed_because = "the server went away"

    def __init__(
        self,
        handler: Handler,
        all_open: set[MemoryTransport] | None = None,
        identity: str | None = None,
    ) -> None:
        self._handler = handler
        self._identity = identity
        self._all_open = set() if all_open is None else all_open
        self._wants_send = len(inspect.signature(handler).parameters) > 1
        self._open = False
        self._handling: set[anyio.CancelScope] = set()
        self._sent: deque[str] = deque()

    def clone(self) -> MemoryTransport:
        """Return a new, unopened transport to the same server."""
        return MemoryTransport(self._handler, self._all_open, self._identity)

    @property
    def stable_identity(self) -> str | None:
        """A text that identifies the program or address, equal in every process."""
        return None if self._identity is None else f"memory:{self._identity}"

    @property
    def alive(self) -> bool:
        """Whether a request can be sent now."""
        return self._open

    def unread(self) -> int:
        """Return the number of sent bytes that the server has not read yet."""
        return 0

    def unmatched_output(self) -> UnmatchedOutput | None:
        """Return the server's output that is not a response to a request."""
        return self._multiplexer.unmatched_output()

    async def open(self, context: TransportContext) -> None:
        """Make the connection, for one session. Raises ``ConnectError``."""
        if self._open:
            raise ConfigError(
                "this transport already has a session. Create a transport for each session"
            )
        self._context = context
        self._backend = current()
        self._multiplexer = Multiplexer(self._backend, context, lambda: self.owner)
        self._open = True
        self._all_open.add(self)

    async def exchange(
        self, id: Id, text: str, headers: Mapping[str, str], until: float
    ) -> LineExchange:
        """Send a request, or make it ready to leave. Raises ``NotSent``."""
        if not self._open:
            raise self._not_sent()
        exchange = self._multiplexer.exchange(id)
        self.send_soon(text, headers)
        return exchange

    async def send(self, text: str, headers: Mapping[str, str]) -> None:
        """Send a one-way message and wait until it has left. Raises ``ConnectError``."""
        if not self._open:
            raise self._not_sent()
        self.send_soon(text, headers)

    def send_soon(self, text: str, headers: Mapping[str, str]) -> None:
        """Send a one-way message some time soon; if the connection is gone, do not."""
        if self._open:
            self._sent.append(text)
            self._backend.spawn(self._handle)

    async def _handle(self) -> None:
        # trio starts tasks in any order; the handler is to see messages in the order sent.
        if not self._sent:
            return
        message = json.loads(self._sent.popleft())
        with anyio.CancelScope() as scope:
            self._handling.add(scope)
            try:
                await self._respond(message)
            finally:
                self._handling.discard(scope)

    async def _respond(self, message: dict[str, Any]) -> None:
        id = message.get("id")
        try:
            extra = (self._send,) if self._wants_send else ()
            result = self._handler(message, *extra)
            if inspect.isawaitable(result):
                result = await result
            if result is NotImplemented:
                result = _minimal(message)
            if result is not None and id is not None and "method" in message:
                self._send({"jsonrpc": "2.0", "id": id, "result": result})
        except JsonRpcError as error:
            body = {"code": error.code, "message": error.message, "data": error.data}
            self._send({"jsonrpc": "2.0", "id": id, "error": body})
        except Exception as error:  # noqa: BLE001 - the handler is the server: its bug, its response
            body = {"code": -32603, "message": f"{type(error).__name__}: {error}"}
            self._send({"jsonrpc": "2.0", "id": id, "error": body})

    def _send(self, message: Mapping[str, Any] | bytes) -> None:
        if self._open:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self._backend.run_soon(lambda: self._receive(line + b"\n"))

    def _receive(self, line: bytes) -> None:
        if self._open:
            self._multiplexer.feed(line)

    def end(self) -> None:
        """End the line."""
        if not self._open:
            return
        self._open = False
        self._all_open.discard(self)
        self._sent.clear()
        for scope in tuple(self._handling):
            scope.cancel()
        self._multiplexer.end(self._lost)

    def _not_sent(self) -> ConnectError:
        return ConnectError("the server is closed", server=self._context.server, retryable=True)

    def _lost(self) -> McpError:
        return ConnectionLost(
            f"{self.closed_because} while the request was under way; it may have run",
            why=self.closed_because,
            server=self._context.server,
        )

    async def aclose(self) -> None:
        """End it, in any task, any number of times, within bounded time."""
        self.end()


def _minimal(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the response of a server that offers tools and nothing else."""
    if "id" not in message or "method" not in message:
        return None
    if message["method"] != "initialize":
        raise JsonRpcError(-32601, f"method not found: {message['method']}")
    return {
        "protocolVersion": message["params"]["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "memory", "version": "0"},
    }
