"""A server behind a WebSocket: a transport of the program's own, in a dozen lines."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio

from mcp_client import allow_all, connect
from mcp_client.transports import StreamServer

try:
    from websockets.asyncio.client import connect as dial
    from websockets.asyncio.server import serve
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install websockets")

RESULTS: dict[str, Any] = {  # of the server, for this example
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}},
    "tools/list": {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "Good morning."}]},
}


async def respond(socket: Any) -> None:
    async for text in socket:
        message = json.loads(text)
        if result := RESULTS.get(message["method"]):
            reported = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            await socket.send(json.dumps(reported))


class Sender(NamedTuple):
    socket: Any

    async def send(self, message: dict[str, Any]) -> None:
        await self.socket.send(json.dumps(message))


@asynccontextmanager
async def websocket() -> AsyncIterator[Any]:
    async with serve(respond, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        async with dial(f"ws://{host}:{port}") as socket:
            yield socket, Sender(socket)  # a socket is an iterator of what it receives


async def main() -> None:
    server = StreamServer(websocket)
    async with connect(server, revision="handshake", approval=allow_all) as session:
        print((await session.call_tool("greet")).text)


anyio.run(main)
