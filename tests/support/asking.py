"""A server in this process whose tool ``ask`` asks back, in the way of whichever revision it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio

__all__ = ["FORM", "LATEST", "NEWEST_HANDSHAKE", "REVISIONS", "Asking", "form"]

LATEST = "2026-07-28"
NEWEST_HANDSHAKE = "2025-11-25"
REVISIONS = (LATEST, NEWEST_HANDSHAKE)
"""One of each era, with all kinds of questions."""

Question = tuple[str, dict[str, Any]]


def form(message: str = "Who are you?", **properties: Any) -> Question:
    schema = {"type": "object", "properties": properties, "required": sorted(properties)}
    return "elicitation/create", {"message": message, "requestedSchema": schema}


FORM = form(name={"type": "string"})


class Asking:
    """Responses to its questions are stored in ``answers``, results as well as errors."""

    def __init__(self, revision: str, *questions: Question, state: str | None = "s~t=") -> None:
        self.revision = revision
        self.questions = questions
        self.state = state
        self.messages: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {}
        self.send: Callable[[Any], None] = lambda message: None
        self._answered: dict[str, anyio.Event] = {}

    @property
    def declared(self) -> Any:
        """The client's capabilities as they came last."""
        for message in reversed(self.messages):
            params = message.get("params", {})
            meta = params.get("_meta", {})
            if "io.modelcontextprotocol/clientCapabilities" in meta:
                return meta["io.modelcontextprotocol/clientCapabilities"]
            if message.get("method") == "initialize":
                return params["capabilities"]
        return None

    def all(self, method: str) -> list[dict[str, Any]]:
        """The parameters of every message of this method."""
        return [m.get("params", {}) for m in self.messages if m.get("method") == method]

    async def __call__(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        self.messages.append(message)
        self.send = send
        match message.get("method"):
            case None:
                self.answers[message["id"]] = message.get("result", message.get("error"))
                self._answered.setdefault(message["id"], anyio.Event()).set()
            case "server/discover" if self.revision == LATEST:
                return {"supportedVersions": [LATEST], "capabilities": {"tools": {}}}
            case "initialize":
                capabilities: dict[str, Any] = {"tools": {}, "logging": {}}
                return {"protocolVersion": self.revision, "capabilities": capabilities}
            case "tools/list":
                names = ("ask", "plain")
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
                return {"tools": tools, "ttlMs": 3_600_000, "cacheScope": "public"}
            case "tools/call" if message["params"]["name"] == "plain":
                return text_result("plain")
            case "tools/call":
                return await self.called(message, send)
            case "ping" | "logging/setLevel":
                return {}
        return NotImplemented

    async def called(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        if self.revision == LATEST:
            return self.round(message["params"])
        for number, question in enumerate(self.questions):
            await self.ask(f"q{number}", question)
        return text_result(json.dumps(self.answers))

    def round(self, params: dict[str, Any]) -> Any:
        if "inputResponses" in params:
            self.answers = params["inputResponses"]
            return text_result(json.dumps(self.answers))
        asked = {
            f"q{number}": {"method": method, "params": fields}
            for number, (method, fields) in enumerate(self.questions)
        }
        state = {} if self.state is None else {"requestState": self.state}
        return {"resultType": "input_required", "inputRequests": asked, **state}

    def put(self, id: Any, question: Question) -> None:
        """Ask, and do not wait."""
        method, params = question
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    async def ask(self, id: Any, question: Question) -> Any:
        self._answered.pop(id, None)  # an id may be used again
        self.put(id, question)
        return await self.answer(id)

    async def answer(self, id: Any) -> Any:
        await self._answered.setdefault(id, anyio.Event()).wait()
        return self.answers[id]

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})


def text_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}
