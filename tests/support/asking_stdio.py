"""A server over stdio that asks back, notifies and withdraws. The standard library, both eras.

``python asking_stdio.py handshake|stateless``. Each tool does one thing a server may do to its
client in the middle of a call; its result contains what the client did.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

STATELESS, HANDSHAKE = "2026-07-28", "2025-11-25"

QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "form": (
        "elicitation/create",
        {
            "message": "Who are you?",
            "requestedSchema": {
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"],
            },
        },
    ),
    "url": (
        "elicitation/create",
        {
            "mode": "url",
            "message": "Log in",
            "url": "https://example.com/login",
            "elicitationId": "visit",
        },
    ),
    "sample": (
        "sampling/createMessage",
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "rain"}}],
            "maxTokens": 9,
        },
    ),
    "roots": ("roots/list", {}),
}
TOOLS = [*QUESTIONS, "ask-and-take-back", "chatter", "echo", "slow", "last-reason", "grow", "die"]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def notify(method: str, **params: Any) -> None:
    send({"method": f"notifications/{method}", "params": params})


def text(value: Any) -> dict[str, Any]:
    reported = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return {"content": [{"type": "text", "text": reported}]}


class Server:
    def __init__(self, era: str) -> None:
        self.stateless = era == "stateless"
        self.tools = list(TOOLS)
        self.asking: dict[str, Any] = {}
        self.reason = ""

    def take(self, message: dict[str, Any]) -> None:
        id, params = message.get("id"), message.get("params", {})
        match message.get("method"):
            case None:
                self.answered(message)
            case "server/discover" if self.stateless:
                capabilities = {"tools": {"listChanged": True}, "logging": {}}
                send({"id": id, "result": {"supportedVersions": [STATELESS],
                                          "capabilities": capabilities}})  # fmt: skip
            case "initialize" if not self.stateless:
                capabilities = {"tools": {"listChanged": True}, "logging": {}}
                info = {"name": "asking", "version": "1"}
                send({"id": id, "result": {"protocolVersion": HANDSHAKE, "serverInfo": info,
                                          "capabilities": capabilities}})  # fmt: skip
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]
                send({"id": id, "result": {"tools": tools, "ttlMs": 3_600_000,
                                          "cacheScope": "public"}})  # fmt: skip
            case "tools/call":
                self.call(id, params)
            case "ping" | "logging/setLevel":
                send({"id": id, "result": {}})
            case "notifications/cancelled":
                self.reason = params.get("reason", "")
            case _ if id is not None:
                send({"id": id, "error": {"code": -32601, "message": "method not found"}})

    def call(self, id: Any, params: dict[str, Any]) -> None:
        name, arguments = params["name"], params.get("arguments", {})
        token = params.get("_meta", {}).get("progressToken")
        match name:
            case "echo":
                send({"id": id, "result": text(arguments)})
            case "chatter":
                for level in ("info", "error"):
                    notify("message", level=level, logger="chat", data={"said": level})
                send({"id": id, "result": text("done")})
            case "slow":
                notify("progress", progressToken=token, progress=1, message="on my way")
            case "last-reason":
                send({"id": id, "result": text(self.reason)})
            case "grow":
                self.tools.append("grown")
                notify("tools/list_changed")
                send({"id": id, "result": text("grown")})
            case "die":
                os._exit(3)
            case "ask-and-take-back":
                method, fields = QUESTIONS["form"]
                send({"id": "taken back", "method": method, "params": fields})
                notify("cancelled", requestId="taken back", reason="never mind")
                send({"id": id, "result": text("never mind")})
            case _ if self.stateless and "inputResponses" in params:
                send({"id": id, "result": text(params["inputResponses"]["q"])})
            case _ if self.stateless:
                method, fields = QUESTIONS[name]
                asked = {"q": {"method": method, "params": fields}}
                send({"id": id, "result": {"resultType": "input_required", "inputRequests": asked,
                                          "requestState": "s"}})  # fmt: skip
            case _:
                method, fields = QUESTIONS[name]
                self.asking[f"q{id}"] = id
                send({"id": f"q{id}", "method": method, "params": fields})

    def answered(self, message: dict[str, Any]) -> None:
        call = self.asking.pop(message["id"], None)
        if call is not None:
            send({"id": call, "result": text(message.get("result", message.get("error")))})


def main() -> None:
    server = Server(sys.argv[1])
    for line in sys.stdin:
        server.take(json.loads(line))


if __name__ == "__main__":
    main()
