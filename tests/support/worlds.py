"""A server in memory for the tests of running calls, with what it was asked to run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcp_client import MemoryServer, Session, allow_all, connect
from mcp_client.testing import JsonRpcError

__all__ = ["IMAGE", "Server", "opened"]

IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJg"
    "gg=="
)
"""A PNG of one pixel."""


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


class Server:
    """``echo`` returns its text, ``wait`` answers when released, ``fail`` reports an error,
    ``break`` answers with a JSON-RPC error, ``result`` returns the result in its arguments."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, Any]] = []
        self.waiting = 0
        self.all_wait = anyio.Event()
        self.go_on = anyio.Event()
        self.wanted = 0
        """How many calls of ``wait`` it takes for ``all_wait``."""

    async def __call__(self, message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            names = ("echo", "wait", "fail", "break", "result")
            return {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}
        if message["method"] != "tools/call":
            return NotImplemented
        name, arguments = message["params"]["name"], message["params"].get("arguments", {})
        self.ran.append((name, arguments))
        match name:
            case "echo":
                return text(arguments.get("text", ""))
            case "wait":
                self.waiting += 1
                if self.waiting == self.wanted:
                    self.all_wait.set()
                await self.go_on.wait()
                return text(f"waited {arguments.get('n')}")
            case "fail":
                return {**text("the disk is full"), "isError": True}
            case "result":
                return arguments["result"]
        raise JsonRpcError(-32000, "password=hunter2 is wrong for postgres://u:s3cret@db/x")


@asynccontextmanager
async def opened(server: Any, **options: Any) -> AsyncIterator[Session]:
    options = {"approval": allow_all, "name": "desk", **options}
    async with connect(MemoryServer(server), **options) as session:
        yield session
