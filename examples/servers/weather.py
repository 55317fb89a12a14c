"""A small MCP server in the standard library alone, in both eras, so the examples need no network.

It answers ``server/discover`` (2026-07-28) and ``initialize`` (2025-11-25 and older), and has two
tools: one that only looks, and one that changes something.
"""

import json
import sys
from typing import Any

TOOLS: list[dict[str, Any]] = [
    {
        "name": "get_weather",
        "title": "Weather",
        "description": "The weather at a place, today.",
        "inputSchema": {
            "type": "object",
            "properties": {"location": {"type": "string"}},
            "required": ["location"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {"temperature": {"type": "number"}, "conditions": {"type": "string"}},
            "required": ["temperature", "conditions"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "set_alarm",
        "title": "Storm alarm",
        "description": "Sound the siren when a storm is near a place.",
        "inputSchema": {
            "type": "object",
            "properties": {"location": {"type": "string"}, "loud": {"type": "boolean"}},
            "required": ["location"],
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": True},
    },
]
CAPABILITIES: dict[str, Any] = {"tools": {}}
INFO = {"name": "weather", "version": "1.0.0"}
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")


class NoSuchMethod(Exception):
    pass


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    location = arguments.get("location")
    if not isinstance(location, str) or not location:
        return {"content": [text("location is missing: name a place")], "isError": True}
    if name == "set_alarm":
        return {"content": [text(f"Alarm set for {location}.")]}
    weather = {"temperature": 22.5, "conditions": "Partly cloudy"}
    return {
        "content": [text(f"{location}: 22.5 °C, partly cloudy")],
        "structuredContent": weather,
    }


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def respond(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "server/discover":
        meta = {"io.modelcontextprotocol/serverInfo": INFO}
        return {
            "supportedVersions": ["2026-07-28", *HANDSHAKE],
            "capabilities": CAPABILITIES,
            "_meta": meta,
        }
    if method == "initialize":
        wanted = params.get("protocolVersion")
        agreed = wanted if wanted in HANDSHAKE else HANDSHAKE[0]
        return {"protocolVersion": agreed, "capabilities": CAPABILITIES, "serverInfo": INFO}
    if method == "tools/list":
        return {"tools": TOOLS, "ttlMs": 300_000, "cacheScope": "public"}
    if method == "tools/call" and params.get("name") in ("get_weather", "set_alarm"):
        return call(params["name"], params.get("arguments") or {})
    if method == "ping":
        return {}
    raise NoSuchMethod(method)


def serve() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        params = message.get("params") or {}
        try:
            reply["result"] = {"resultType": "complete", **respond(message["method"], params)}
        except NoSuchMethod as missing:
            reply["error"] = {"code": -32601, "message": f"no such method or tool: {missing}"}
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
