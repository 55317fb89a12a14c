"""The MCP server of a simulated life, of either era, over any wire.

``handle`` is given each message and a ``Peer`` to talk to. What it does with a call is drawn by the
call's argument ``n``, so that a life without that call differs in nothing else. It tells the
observer which calls reached it, which of them ran, and what it said.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import anyio

from .observer import Observer
from .tasks import REQUIRES, SimTasks
from .world import SHORT, World, faults

__all__ = ["REVISIONS", "Peer", "SimServer"]

STATELESS = "2026-07-28"
REVISIONS = (
    STATELESS,
    STATELESS,
    STATELESS,
    "2025-11-25",
    "2025-06-18",
    "2025-03-26",
    "2024-11-05",
)
WITH_TASKS = "2025-11-25"
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_TTL_SECONDS = 30.0
_PATIENCE_SECONDS = 4.0
"""After these the client does not wait for a stream of changes any more: nothing is sent on it."""

ACTS = faults(
    "error result",
    "error answer",
    "no answer",
    "progress",
    "two answers",
    "foreign answer",
    "bad result",
    "broken schema",
    "junk",
    "question",
    "change under the call",
    "ends before it ran",
    "ends after it ran",
    "half an answer",
    "lacks a capability",
    "asks to visit a URL",
    "asks a model",
    "asks for roots",
)
faults("change", "change behind a list", "list fails", "list in pages", "bad tool")
faults("no answer to a request", "slow answer", "cancels stream", "schema is too deep")
BAD_LIST = "list breaks the protocol"
faults(BAD_LIST)
_UNREADABLE = {"tools": 7}
READS = "reads what is not there"
faults(READS)
QUESTIONS = ("question", "asks a model", "asks for roots")
_ERRORS: dict[str, dict[str, Any]] = {
    "error answer": {"code": -32000},
    "lacks a capability": {"code": -32021, "data": {"requiredCapabilities": {"sampling": {}}}},
    "asks to visit a URL": {"code": -32042},
}
"""What a call is answered with instead of a result."""


_DEEP: dict[str, Any] = {}
for _ in range(70):  # more than Limits.schema_depth
    _DEEP = {"type": "array", "items": _DEEP}


class Peer(Protocol):
    """One connection of a client, as the server has it."""

    client: str

    @property
    def alive(self) -> bool: ...

    def send(self, message: Any, delivered: Callable[[], None] | None = None) -> None:
        """Send a message, or bytes; ``delivered`` is called when the client has all of it."""

    def end(self, rest: bytes = b"") -> None:
        """End the connection, after ``rest``."""


class SimServer:
    def __init__(self, world: World, observer: Observer, name: str) -> None:
        self.world = world
        self.name = name
        self.revision = world.draw(f"{name} revision", REVISIONS)
        if "asks to visit a URL" in world.focus:
            self.revision = "2025-11-25"  # no other has that
        if REQUIRES in world.focus:
            self.revision = WITH_TASKS
        self.stateless = self.revision == STATELESS
        self.notifies = world.draw(f"{name} notifies", (True, True, False))
        self.ttl = world.draw(f"{name} ttl", (None, _TTL_SECONDS)) if self.stateless else None
        self.is_deep = world.fault("schema is too deep", name)
        self.requires_tasks = self.revision == WITH_TASKS and world.fault(REQUIRES, name)
        self.tasks = SimTasks(world, observer, self)
        self.version = 0
        self._observer = observer
        self._listeners: dict[tuple[Peer, Any], str] = {}
        """Who is told of changes, and with which id of a subscription."""
        self._answers: dict[tuple[Peer, Any], tuple[anyio.Event, list[Any]]] = {}
        self._under_way: dict[tuple[Peer, Any], str] = {}
        """The calls that are not answered, and which no one reported as given up."""
        self._questions = 0

    # --------------------------------------------------------------------- tools

    def definitions(self, version: int | None = None) -> list[dict[str, Any]]:
        """The tools at a version: one that never changes, one that does, one that comes and goes.

        The description of a tool contains the version at which it last changed.
        """
        version = self.version if version is None else version
        n = {"n": {"type": "string"}, "to": {"type": "integer"}}
        schema = {"type": "object", "properties": n, "required": ["n"]}
        answer = {"type": "object", "properties": {"said": {"type": "string"}}}
        typed = {**schema, "properties": {**n, "deep": _DEEP}} if self.is_deep else schema
        tools: list[dict[str, Any]] = [
            {"name": "work", "description": "v0", "inputSchema": schema},
            {"name": "turn", "description": f"v{version}", "inputSchema": schema},
            {"name": "typed", "description": "v0", "inputSchema": typed, "outputSchema": answer},
        ]
        if version % 2 == 0:
            tools.append({"name": "odd", "description": f"v{version}", "inputSchema": schema})
        if self.requires_tasks:
            support = {"work": "required", "turn": "required", "typed": "optional"}
            for tool in tools:
                tool["execution"] = {"taskSupport": support.get(tool["name"], "forbidden")}
        return tools

    def change(self) -> None:
        """Change the tools, and notify those who listen."""
        self.version += 1
        self.world.note(self.name, f"has tools of version {self.version}")
        if not self.notifies:
            return
        version = self.version
        for peer, id in list(self._listeners):
            params = {} if id is None else {"_meta": {_SUBSCRIPTION: id}}
            notice = {"method": "notifications/tools/list_changed", "params": params}
            self.tell(peer, notice, version)

    def tell(self, peer: Peer, notice: dict[str, Any], version: int) -> None:
        def delivered() -> None:
            self._observer.announced(peer.client, self.name, version)

        peer.send({"jsonrpc": "2.0", **notice}, delivered)

    async def live(self) -> None:
        """Change now and then."""
        for turn in range(3):
            await anyio.sleep(self.world.latency(f"{self.name} change {turn}"))
            if self.world.fault("change", self.name):
                self.change()

    def gone(self, peer: Peer) -> None:
        """The connection has ended."""
        for known in (self._under_way, self._listeners):
            for key in [key for key in known if key[0] is peer]:
                del known[key]

    def let_go(self, request: tuple[Peer, Any]) -> None:
        """A call has ended, or is given up by its client."""
        self._under_way.pop(request, None)

    def waited_for(self, client: str) -> list[str]:
        """The calls that the client has not given up, as far as the server knows."""
        return [
            n for (peer, _), n in self._under_way.items() if peer.client == client and peer.alive
        ]

    # ------------------------------------------------------------------ messages

    async def handle(self, message: dict[str, Any], peer: Peer, at: float) -> None:
        """``at`` is when the client sent the message."""
        method, id = message.get("method"), message.get("id")
        if self.world.messages:
            self.world.note(self.name, f"< {message}")
        if method is None:
            event, answers = self._answers.setdefault((peer, id), (anyio.Event(), []))
            answers.append(message.get("result", message.get("error")))
            event.set()
            return
        params = message.get("params") or {}
        if id is None:
            if method == "notifications/cancelled":
                self.tasks.withdrawn((peer, params.get("requestId")))
                for known in (self._under_way, self._listeners):
                    known.pop((peer, params.get("requestId")), None)
            return
        if method == "tools/call":
            await self._call(id, params, peer, at)
            return
        where = f"{self.name} {method}"
        if method == "tasks/cancel":
            self.tasks.cancels(params)
        slow = self.world.fault("slow answer", where)
        await anyio.sleep(60.0 if slow else self.world.draw(f"latency {where}", SHORT))
        if method != "initialize" and self.world.fault("no answer to a request", where):
            return
        if method == "subscriptions/listen" and self.world.now() - at > _PATIENCE_SECONDS:
            return
        answer: dict[str, Any] | None
        if method.startswith("tasks/"):
            answer = await self.tasks.answer(method, params, peer, at)
        else:
            answer = self._answer(id, method, params, peer)
        if answer is None:
            return
        delivered = None
        if method == "tools/list" and answer.get("result", _UNREADABLE) != _UNREADABLE:
            delivered = self._observer.listing(peer.client, self.name, self.version)
        peer.send({"jsonrpc": "2.0", "id": id, **answer}, delivered)
        if delivered is not None and self.world.fault("change behind a list", self.name):
            self.change()

    def _answer(self, id: Any, method: str, params: Any, peer: Peer) -> dict[str, Any] | None:
        capabilities = {"tools": {"listChanged": True} if self.notifies else {}}
        capabilities |= self.tasks.capabilities
        if READS in self.world.rates:
            capabilities["resources"] = {}
        match method:
            case "initialize" if not self.stateless:
                self._listeners[peer, None] = peer.client
                info = {"name": self.name, "version": "1"}
                agreed = {"protocolVersion": self.revision, "capabilities": capabilities}
                return {"result": {**agreed, "serverInfo": info}}
            case "server/discover" if self.stateless:
                agreed = {"supportedVersions": [STATELESS], "capabilities": capabilities}
                return {"result": agreed}
            case "tools/list":
                return self._list(params)
            case "resources/read":
                error = {"code": -32602 if self.stateless else -32002, "message": "it is not there"}
                return {"error": {**error, "data": {"uri": params.get("uri")}}}
            case "ping" if not self.stateless:
                return {"result": {}}
            case "subscriptions/listen" if self.stateless and self.notifies:
                meta = {"_meta": {_SUBSCRIPTION: id}}
                wanted = {"notifications": params.get("notifications", {}), **meta}
                method = "notifications/subscriptions/acknowledged"
                peer.send({"jsonrpc": "2.0", "method": method, "params": wanted})
                self._listeners[peer, id] = peer.client
                if self.world.fault("cancels stream", self.name):
                    del self._listeners[peer, id]
                    return {"result": {}}
                return None
        return {"error": {"code": -32601, "message": f"method not found: {method}"}}

    def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.world.fault("list fails", self.name):
            return {"error": {"code": -32603, "message": "the list is not there now"}}
        if self.world.fault(BAD_LIST, self.name):
            return {"result": _UNREADABLE}
        tools = self.definitions()
        if self.world.fault("bad tool", self.name):
            tools.append({"name": "bad", "inputSchema": "none"})
        result: dict[str, Any] = {"tools": tools}
        cursor = params.get("cursor")
        if cursor is not None or self.world.fault("list in pages", self.name):
            result["tools"] = tools[:1] if cursor is None else tools[1:]
            if cursor is None:
                result["nextCursor"] = "1"
        if self.ttl is not None:
            result |= {"ttlMs": int(self.ttl * 1000), "cacheScope": "private"}
        return {"result": result}

    # --------------------------------------------------------------------- calls

    async def _call(self, id: Any, params: dict[str, Any], peer: Peer, at: float) -> None:
        world, tool, arguments = self.world, params["name"], params.get("arguments") or {}
        n = str(arguments.get("n"))
        is_round = "inputResponses" in params or "requestState" in params
        if not is_round:
            self._observer.received(peer.client, self.name, tool, arguments, at)
        self._under_way[peer, id] = n
        act = next((act for act in ACTS if world.fault(act, n)), "ok")
        await anyio.sleep(world.latency(f"{n} begins"))
        if act == "ends before it ran":
            self._under_way.pop((peer, id), None)
            peer.end()
            return
        if act in QUESTIONS and not is_round:
            asked = self.question(f"who, for {n}", act)
            if self.stateless:
                self._under_way.pop((peer, id), None)
                result = {"resultType": "input_required", "inputRequests": {"q": asked}}
                peer.send({"jsonrpc": "2.0", "id": id, "result": {**result, "requestState": n}})
                return
            await self.ask(asked, peer)
        if act in _ERRORS:
            self._under_way.pop((peer, id), None)
            error = {**_ERRORS[act], "message": f"no {n}"}
            if act != "error answer":
                self._observer.refused(n)
            if act == "asks to visit a URL":
                visit = {"mode": "url", "url": "https://a.example/", "elicitationId": n}
                error["data"] = {"elicitations": [{**visit, "message": f"who, for {n}"}]}
            peer.send({"jsonrpc": "2.0", "id": id, "error": error})
            return
        if self.tasks.becomes_one(n, params):
            make = partial(self._made, act, n, tool)
            created, delivered = self.tasks.begin(n, (peer, id), make)
            peer.send({"jsonrpc": "2.0", "id": id, "result": created}, delivered)
            return
        result = self._made(act, n, tool)
        if act == "progress":
            token = (params.get("_meta") or {}).get("progressToken")
            fields = {"progressToken": token, "progress": 1, "message": "on it"}
            if token is not None:
                notice = {"method": "notifications/progress", "params": fields}
                peer.send({"jsonrpc": "2.0", **notice})
        if act == "change under the call":
            self.change()
        await anyio.sleep(world.latency(f"{n} runs"))
        self._say(id, act, result, peer)

    def _made(self, act: str, n: str, tool: str) -> dict[str, Any]:
        """Run a call, and return its result."""
        said = self._observer.ran(n)
        result: dict[str, Any] = {"content": [{"type": "text", "text": said}]}
        if tool == "typed":
            broken = act == "broken schema"
            result["structuredContent"] = {"said": 7 if broken else said}
        if act == "error result":
            result["isError"] = True
        if act == "bad result":
            result["content"] = said
        return result

    def _say(self, id: Any, act: str, result: dict[str, Any], peer: Peer) -> None:
        answer = {"jsonrpc": "2.0", "id": id, "result": result}
        if act == "no answer":
            return
        self._under_way.pop((peer, id), None)
        match act:
            case "ends after it ran":
                peer.end()
                return
            case "half an answer":
                peer.end(json.dumps(answer).encode()[:40])
                return
            case "foreign answer":
                peer.send({**answer, "id": 99_999})
            case "two answers":
                peer.send(answer)
            case "junk":
                peer.send(b"[1, this is no JSON")
        peer.send(answer)

    def question(self, message: str, act: str = "question") -> dict[str, Any]:
        """What the server asks the client within a call."""
        if act == "asks for roots":
            return {"method": "roots/list"}
        if act == "asks a model":
            said = {"role": "user", "content": {"type": "text", "text": message}}
            return {
                "method": "sampling/createMessage",
                "params": {"messages": [said], "maxTokens": 9},
            }
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        params = {"message": message, "requestedSchema": schema}
        return {"method": "elicitation/create", "params": params}

    async def ask(self, asked: dict[str, Any], peer: Peer) -> None:
        """Ask the client something by a request, and wait for the answer."""
        self._questions += 1
        own = f"q{self._questions}"
        event, _ = self._answers.setdefault((peer, own), (anyio.Event(), []))
        peer.send({"jsonrpc": "2.0", "id": own, **asked})
        await event.wait()
