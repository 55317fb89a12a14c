"""MCP servers over ``http_server``, one for each era; tools are functions of their arguments.

A tool may return a result's text, or write the reply itself and return None. ``LibraryApp`` is the
library over HTTP: a stream for each listener, and in the handshake era a GET stream.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio

from tests.support.http_server import Reply, Request
from tests.support.library import Library

__all__ = ["Handshake", "Legacy", "LibraryApp", "Stateless", "answer", "failure", "text"]

_STATELESS = "2026-07-28"


def answer(request: Request, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": result}


def failure(request: Request, code: int, message: str = "no", data: Any = None) -> dict[str, Any]:
    error = {"code": code, "message": message, "data": data}
    return {"jsonrpc": "2.0", "id": request.message.get("id"), "error": error}


def text(reported: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": reported}], "resultType": "complete"}


def _echo(arguments: Mapping[str, Any]) -> str:
    return str(arguments)


class _App:
    def __init__(self, *, sse: bool = False, **tools: Callable[..., Any]) -> None:
        self.sse = sse
        self.tools: dict[str, Callable[..., Any]] = {"echo": _echo, **tools}
        self.schemas: dict[str, Any] = {}
        self.annotations: dict[str, Any] = {}
        self.calls: list[dict[str, Any]] = []

    def listed(self) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "inputSchema": self.schemas.get(name, {"type": "object"}),
                "annotations": self.annotations.get(name, {}),
            }
            for name in self.tools
        ]

    async def send(self, request: Request, reply: Reply, result: Any, **headers: str) -> None:
        """Answer as this server answers."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if not self.sse:
            await reply.json(answer(request, result), headers=named)
            return
        await reply.stream(named)
        await reply.event(answer(request, result))
        await reply.end()

    async def call(self, request: Request, reply: Reply) -> None:
        params = request.message["params"]
        self.calls.append(params)
        tool = self.tools[params["name"]]
        wanted = len(inspect.signature(tool).parameters)
        reported = tool(*(params["arguments"], request, reply)[:wanted])
        if inspect.isawaitable(reported):
            reported = await reported
        if reported is not None:
            await self.send(request, reply, text(reported))


class Stateless(_App):
    """2026-07-28, JSON or events."""

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method != "POST":
            await reply.send(405)
            return
        match request.rpc_method:
            case "server/discover":
                discovered = {
                    "supportedVersions": [_STATELESS],
                    "capabilities": {"tools": {}},
                    "resultType": "complete",
                }
                await self.send(request, reply, discovered)
            case "tools/list":
                result = {"tools": self.listed(), "resultType": "complete", "ttlMs": 60_000}
                await self.send(request, reply, result)
            case "tools/call":
                await self.call(request, reply)
            case _:
                await reply.json(failure(request, -32601), 404)


class Handshake(_App):
    """2025-03-26 to 2025-11-25: sessions that can be ended, and a GET stream."""

    revision = "2025-11-25"

    def __init__(self, *, sse: bool = False, get: int = 200, **tools: Callable[..., Any]) -> None:
        super().__init__(sse=sse, **tools)
        self.get = get
        self.session = 0
        self.ended: set[str] = set()
        self.listeners: list[Reply] = []
        self.answers: list[dict[str, Any]] = []
        self.answered = anyio.Event()

    async def __call__(self, request: Request, reply: Reply) -> None:
        expected, id = request.rpc_method, request.headers.get("mcp-session-id")
        if expected == "initialize":
            await self._initialize(request, reply)
        elif request.method == "POST" and id is None:
            await reply.send(400, b"Bad Request: Mcp-Session-Id header is required")
        elif id in self.ended:
            await reply.json(failure(request, -32001, "Session not found"), 404)
        elif request.method == "GET":
            await self._listen(request, reply)
        elif request.method == "DELETE":
            self.ended.add(str(id))
            await reply.send(200)
        elif expected == "tools/list":
            await self.send(request, reply, {"tools": self.listed()})
        elif expected == "tools/call":
            await self.call(request, reply)
        elif expected == "ping":
            await self.send(request, reply, {})
        else:
            if "result" in request.message or "error" in request.message:
                self.answers.append(request.message)
                self.answered.set()
            await reply.send(202)

    async def _initialize(self, request: Request, reply: Reply) -> None:
        self.session += 1
        result = {
            "protocolVersion": self.revision,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "handshake", "version": "1"},
        }
        await self.send(request, reply, result, Mcp_Session_Id=f"session-{self.session}")

    async def _listen(self, request: Request, reply: Reply) -> None:
        if self.get != 200:
            await reply.send(self.get)
            return
        await reply.stream()
        self.listeners.append(reply)
        try:
            await reply.hold()
        finally:
            self.listeners.remove(reply)


class Legacy(_App):
    """HTTP+SSE of 2024-11-05 at ``/sse``, with its endpoint at ``/messages``."""

    def __init__(self, endpoint: str = "/messages?id=1", **tools: Callable[..., Any]) -> None:
        super().__init__(sse=True, **tools)
        self.endpoint = endpoint
        self.stream: Reply | None = None

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method == "GET":
            await reply.stream()
            self.stream = reply
            await reply.event(self.endpoint, kind="endpoint")
            await reply.hold()
        if not request.path.startswith("/messages"):
            await reply.send(405, b"Method Not Allowed")
            return
        await reply.send(202, b"Accepted")
        match request.rpc_method:
            case "initialize":
                result: Any = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}}
            case "tools/list":
                result = {"tools": self.listed()}
            case "tools/call":
                params = request.message["params"]
                self.calls.append(params)
                reported = self.tools[params["name"]](params["arguments"])
                if reported is None:
                    return
                result = text(reported)
            case "ping":
                result = {}
            case _:
                return
        assert self.stream is not None
        await self.stream.event(answer(request, result))


class LibraryApp:
    def __init__(self, library: Library) -> None:
        self.library = library

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method == "GET":
            await self._stream(reply, None)
        elif request.method == "DELETE":
            await reply.send(200)
        elif request.rpc_method == "subscriptions/listen":
            await self._stream(reply, request)
        else:
            response = self.library.reply(request.message, lambda message: None)
            if response is None:
                await reply.send(202)
            else:
                unknown = response.get("error", {}).get("code") == -32601
                head = {"Mcp-Session-Id": "one"} if request.rpc_method == "initialize" else {}
                await reply.json(response, 404 if unknown else 200, head)

    async def _stream(self, reply: Reply, request: Request | None) -> None:
        """Send messages until the client goes away."""
        sender, receiver = anyio.create_memory_object_stream[Any](math.inf)
        await reply.stream()
        async with sender, receiver, anyio.create_task_group() as tasks:
            if request is None:
                self.library.send = sender.send_nowait
            else:
                self.library.respond(request.message, sender.send_nowait)

            async def send() -> None:
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it has gone
                    async for message in receiver:
                        await reply.event(message)

            async def hang_on() -> None:
                try:
                    await reply.hold()
                except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    tasks.cancel_scope.cancel()

            tasks.start_soon(send)
            tasks.start_soon(hang_on)
        if request is None:
            self.library.send = lambda message: None
        else:
            self.library.streams.pop(request.message["id"], None)
        reply.hang_up()
