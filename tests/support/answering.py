"""One server over each transport and in each era, whose answers and bytes a test chooses.

```python
async with answering("stdio", "stateless", {"tools/call": result}, spell) as server:
    async with connect(server, approval=allow_all) as session: ...
```

``answers`` has the result of a method, or a function of its parameters that returns it; ``Failure``
is a JSON-RPC error. ``spell`` makes the bytes of each response from the request and the response.
``Wire`` is a pair of streams of JSON objects with a server behind it, as ``StreamServer`` takes it:

```python
wire = Wire(answer)  # as a handler of ``MemoryServer``
async with connect(StreamServer(wire.open)) as session: ...
```
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectSendStream

from mcp_client import MemoryServer, StdioServer
from tests.support.http_server import Reply, Request, serving

__all__ = ["ERAS", "WIRES", "Failure", "Spell", "Wire", "answering", "tool"]

WIRES = ["memory", "stdio", "http", "sse"]
ERAS = ["handshake", "stateless"]
Message: TypeAlias = dict[str, Any]
Spell: TypeAlias = Callable[[Message, Message], "bytes | list[bytes]"]

_RELAY = """
import socket, sys, threading
line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def copy():
    while data := sys.stdin.buffer.raw.read(65536):
        line.sendall(data)
    line.shutdown(socket.SHUT_WR)
threading.Thread(target=copy, daemon=True).start()
while data := line.recv(65536):
    sys.stdout.buffer.raw.write(data)
"""


@dataclass
class Failure:
    """A JSON-RPC error."""

    code: int
    message: str
    data: Any = None


def tool(name: str = "echo", **members: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **members}


def as_json(request: Message, response: Message) -> bytes:
    return json.dumps(response).encode()


@asynccontextmanager
async def answering(
    wire: str, era: str, answers: Mapping[str, Any], spell: Spell = as_json
) -> AsyncIterator[Any]:
    """Yield what ``connect`` takes."""

    def frames(message: Message) -> list[bytes]:
        if "id" not in message or "method" not in message:
            return []
        reported = _reply(era, answers, message)
        if reported is None:
            return []
        spelled = spell(message, {"jsonrpc": "2.0", "id": message["id"], **reported})
        return spelled if isinstance(spelled, list) else [spelled]

    if wire == "memory":

        def handler(message: Message, send: Callable[[Any], None]) -> None:
            for frame in frames(message):
                send(frame)

        yield MemoryServer(handler)
    elif wire == "stdio":
        async with _lines(frames) as port:
            yield StdioServer(sys.executable, ["-ISc", _RELAY, str(port)])
    else:
        async with serving(_over_http(frames, streams=wire == "sse")) as served:
            yield served.url


def _reply(era: str, answers: Mapping[str, Any], message: Message) -> Message | None:
    method, params = message["method"], message.get("params") or {}
    found = answers.get(method, _ordinary(era, method, answers))
    result = found(params) if callable(found) else found
    if isinstance(result, Failure):
        data = {} if result.data is None else {"data": result.data}
        return {"error": {"code": result.code, "message": result.message, **data}}
    return None if result is None else {"result": result}


def _ordinary(era: str, method: str, answers: Mapping[str, Any]) -> Any:
    capabilities: dict[str, dict[str, Any]] = {
        feature: {} for feature in ("tools", "resources", "prompts")
    }
    for feature, value in capabilities.items():
        if any(name.startswith(f"{feature}/subscribe") for name in answers):
            value["subscribe"] = True
    capabilities = answers.get("capabilities", capabilities)
    match era, method:
        case "stateless", "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        case "handshake", "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities}
        case _, "tools/list":
            return {"tools": [tool()]}
        case _, "resources/list":
            return {"resources": []}
        case _, "resources/templates/list":
            return {"resourceTemplates": []}
        case _, "prompts/list":
            return {"prompts": []}
        case _, "tools/call":
            return {"content": [{"type": "text", "text": "done"}]}
        case "handshake", "ping":
            return {}
    return Failure(-32601, f"method not found: {method}")


@asynccontextmanager
async def _lines(frames: Callable[[Message], list[bytes]]) -> AsyncIterator[int]:
    async def serve(stream: SocketStream) -> None:
        async with stream:
            lines = BufferedByteReceiveStream(stream)
            try:
                while True:
                    line = await lines.receive_until(b"\n", 2**20)
                    for frame in frames(json.loads(line)):
                        await stream.send(frame + b"\n")
            except (anyio.IncompleteRead, anyio.BrokenResourceError):
                return

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


def _over_http(frames: Callable[[Message], list[bytes]], *, streams: bool) -> Any:
    async def handler(request: Request, reply: Reply) -> None:
        if request.method != "POST":
            await reply.send(405 if request.method == "GET" else 200)
            return
        reported = frames(request.message)
        if not reported:
            await reply.send(202)
        elif len(reported) == 1 and not streams:
            await reply.send(200, reported[0], {"Content-Type": "application/json"})
        else:
            await reply.stream()
            for frame in reported:
                await reply.chunk(b"data: " + frame + b"\n\n")
            await reply.end()

    return handler


class Wire:
    """Each ``open()`` is one connection to a server that is a function of its messages.

    ``spell`` makes what is received from each message of the server.
    """

    def __init__(
        self, response: Callable[..., Any], spell: Callable[[dict[str, Any]], Any] = dict
    ) -> None:
        self._answer = response
        self._spell = spell
        self._has_send = len(inspect.signature(response).parameters) > 1
        self.messages: list[dict[str, Any]] = []
        self.opened: list[Any] = []
        self.closed: list[Any] = []
        """The tasks that entered and exited the context manager."""
        self.line: MemoryObjectSendStream[Any] | None = None
        """What the server sends on; closing it ends the connection."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Any, Any]]:
        self.opened.append(anyio.get_current_task().id)
        sender, receiver = anyio.create_memory_object_stream[Any](100)
        self.line, received = anyio.create_memory_object_stream[Any](100)
        try:
            async with sender, receiver, self.line, received, anyio.create_task_group() as tasks:
                tasks.start_soon(self._serve, receiver, self.line)
                yield received, sender
                tasks.cancel_scope.cancel()
        finally:
            self.closed.append(anyio.get_current_task().id)

    async def _serve(self, receiver: Any, line: MemoryObjectSendStream[Any]) -> None:
        def send(message: dict[str, Any]) -> None:
            line.send_nowait(self._spell(message))

        async for message in receiver:
            self.messages.append(message)
            extra = (send,) if self._has_send else ()
            result = self._answer(message, *extra)
            if inspect.isawaitable(result):
                result = await result
            if result is NotImplemented and "id" in message:
                error = {"code": -32601, "message": "method not found"}
                send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            elif result is not None and "id" in message:
                send({"jsonrpc": "2.0", "id": message["id"], "result": result})
