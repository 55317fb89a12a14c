"""Servers in this process that make tasks of calls.

``Tasking`` makes one of each call (``io.modelcontextprotocol/tasks``). ``CoreTasking`` has the
tasks of 2025-11-25, which are made if the client asks for one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from mcp_client import MemoryServer
from mcp_client.testing import JsonRpcError
from tests.support.asking import LATEST
from tests.support.http_apps import answer, failure
from tests.support.http_server import Reply, Request

__all__ = [
    "ID",
    "RELATED",
    "TASKS",
    "CoreTasking",
    "Tasking",
    "TaskingOverHttp",
    "done",
    "text",
    "working",
]

TASKS = "io.modelcontextprotocol/tasks"
ID = "task-0123456789abcdef-secret"
_CREATED = {"createdAt": "2026-07-28T09:00:00Z", "lastUpdatedAt": "2026-07-28T09:00:00Z"}


def working(message: str | None = None, **members: Any) -> dict[str, Any]:
    status = {} if message is None else {"statusMessage": message}
    return {"status": "working", **status, **members}


def done(text: str = "done", **members: Any) -> dict[str, Any]:
    result = {"content": [{"type": "text", "text": text}], **members}
    return {"status": "completed", "result": result}


class Tasking:
    """Each poll takes the next of ``states``, and the last one again and again; a state may be a
    ``JsonRpcError``, or a function to be awaited for one. All messages are in ``messages``."""

    def __init__(self, *states: Any, created: Mapping[str, Any] | None = None) -> None:
        self.states = list(states) or [done()]
        self.created = created
        self.messages: list[dict[str, Any]] = []
        self.got = anyio.Event()
        """Of the first poll."""
        self.tool: dict[str, Any] = {}
        """Members of the tool's definition."""
        self.lists = True
        """Whether it lists its tools."""
        self.on_cancel: Any = {}
        self.on_update: Any = {}

    def all(self, method: str) -> list[dict[str, Any]]:
        return [m["params"] for m in self.messages if m.get("method") == method]

    @property
    def methods(self) -> list[str]:
        """What was sent of calls and their tasks, in order."""
        kinds = ("tools/call", "tasks/", "notifications/")
        return [m["method"] for m in self.messages if m["method"].startswith(kinds)]

    async def __call__(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        self.messages.append(message)
        params = message.get("params", {})
        match message["method"]:
            case "server/discover":
                capabilities: Any = {"tools": {}, "prompts": {}, "extensions": {TASKS: {}}}
                return {"supportedVersions": [LATEST], "capabilities": capabilities}
            case "tools/list" if self.lists:
                tool = {"name": "slow", "inputSchema": {"type": "object"}, **self.tool}
                quick = {"name": "quick", "inputSchema": {"type": "object"}}
                return {"tools": [tool, quick], "ttlMs": 3_600_000, "cacheScope": "public"}
            case "tools/call" if params["name"] == "quick":
                return {"content": [{"type": "text", "text": "at once"}]}
            case "tools/call":
                return await self.call(params)
            case "prompts/get":
                return self.creation()
            case "tasks/get":
                self.got.set()
                status = self.states.pop(0) if len(self.states) > 1 else self.states[0]
                status = await status() if callable(status) else status
                if isinstance(status, Exception):
                    raise status
                return {"resultType": "complete", **self.common(), **status}
            case "tasks/update":
                return await self.evaluated(self.on_update)
            case "tasks/cancel":
                return await self.evaluated(self.on_cancel)
        return NotImplemented

    async def call(self, params: dict[str, Any]) -> Any:
        return self.creation()

    def creation(self) -> dict[str, Any]:
        return {"resultType": "task", **self.common(), **working(), **(self.created or {})}

    def common(self) -> dict[str, Any]:
        return {"taskId": ID, **_CREATED, "ttlMs": 60_000, "pollIntervalMs": 50}

    async def evaluated(self, reply: Any) -> Any:
        reply = await reply() if callable(reply) else reply
        if isinstance(reply, JsonRpcError):
            raise reply
        return {"resultType": "complete", **reply}


class TaskingOverHttp:
    """The same over HTTP. ``names`` has each method with its ``Mcp-Name``, where it has one."""

    def __init__(self, server: Tasking) -> None:
        self.server = server
        self.names: list[tuple[str, str]] = []

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method != "POST":
            await reply.send(405)
            return
        if "mcp-name" in request.headers:
            self.names.append((request.headers["mcp-method"], request.headers["mcp-name"]))
        try:
            status = await self.server(request.message, lambda message: None)
        except JsonRpcError as error:
            await reply.json(failure(request, error.code, error.message, error.data))
        else:
            known = status is not NotImplemented
            await reply.json(answer(request, status) if known else failure(request, -32601))


RELATED = "io.modelcontextprotocol/related-task"
_TIMES = {"createdAt": "2025-11-25T09:00:00Z", "lastUpdatedAt": "2025-11-25T09:00:00Z"}


def text(status: str, **members: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": status}], **members}


class CoreTasking:
    """Each poll takes the next of ``states``, and the last one again and again: a status, or what
    ``tasks/get`` answers beside it, or an error, or a function for one of these. ``result`` is what
    ``tasks/result`` answers, likewise. All messages are in ``messages``."""

    def __init__(
        self, *states: Any, support: str | None = "required", result: Any = None, **tool: Any
    ) -> None:
        self.states = list(states) or ["completed"]
        self.support = support
        self.result: Any = text("done") if result is None else result
        self.tool = tool
        self.revision = "2025-11-25"
        self.declares: Any = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        self.created: Any = None
        """In place of the answer that creates a task."""
        self.cancels: Any = None
        self.messages: list[dict[str, Any]] = []
        self.got = anyio.Event()
        """Of the first poll."""
        self.asked = anyio.Event()
        """For a result."""
        self._answers: dict[Any, anyio.Event] = {}
        self.answers: dict[Any, dict[str, Any]] = {}
        self.send: Callable[[Any], None] = lambda message: None

    @property
    def server(self) -> MemoryServer:
        return MemoryServer(self)

    def all(self, method: str) -> list[dict[str, Any]]:
        return [m["params"] for m in self.messages if m.get("method") == method]

    @property
    def methods(self) -> list[str]:
        """What was sent of calls and their tasks, in order."""
        kinds = ("tools/call", "tasks/", "notifications/cancelled")
        return [m["method"] for m in self.messages if m.get("method", "").startswith(kinds)]

    async def __call__(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        self.send = send
        if "method" not in message:
            self.answers[message["id"]] = message
            self._answers[message["id"]].set()
            return None
        self.messages.append(message)
        params = message.get("params", {})
        match message["method"]:
            case "initialize":
                tasks = {} if self.declares is None else {"tasks": self.declares}
                return {
                    "protocolVersion": self.revision,
                    "capabilities": {"tools": {}, **tasks},
                    "serverInfo": {"name": "s", "version": "1"},
                }
            case "ping":
                return {}
            case "tools/list":
                execution = {} if self.support is None else {"taskSupport": self.support}
                tool = {"name": "slow", "inputSchema": {"type": "object"}, "execution": execution}
                return {"tools": [{**tool, **self.tool}]}
            case "tools/call":
                if "task" not in params:
                    if self.support == "required":
                        raise JsonRpcError(-32601, "requires task augmentation")
                    return text("at once")
                created = {"task": self.state("working")}
                return await _status(created if self.created is None else self.created)
            case "tasks/get":
                self.got.set()
                status = self.states.pop(0) if len(self.states) > 1 else self.states[0]
                status = await _status(status)
                return (
                    self.state(status) if isinstance(status, str) else {**self.state(""), **status}
                )
            case "tasks/result":
                self.asked.set()
                result = await _status(self.result)
                return {**result, "_meta": {RELATED: {"taskId": ID}, "kept": 1}}
            case "tasks/cancel":
                if self.cancels is not None:
                    return await _status(self.cancels)
                self.states = ["cancelled"]
                return self.state("cancelled")
        return NotImplemented

    def state(self, status: str, **members: Any) -> dict[str, Any]:
        common = {"taskId": ID, **_TIMES, "ttl": 60_000, "pollInterval": 1_000}
        return {**common, "status": status, **members}

    async def ask(self, id: Any, **meta: Any) -> dict[str, Any]:
        """Ask a question of the task as a request, and wait for the answer."""
        self._answers[id] = anyio.Event()
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        params = {"message": "Who?", "requestedSchema": schema, "_meta": meta}
        if not meta:
            params["_meta"] = {RELATED: {"taskId": ID}}
        method = "elicitation/create"
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        await self._answers[id].wait()
        return self.answers[id]


async def _status(status: Any) -> Any:
    status = status() if callable(status) else status
    status = await status if inspect.isawaitable(status) else status
    if isinstance(status, Exception):
        raise status
    return status
