"""A small MCP server with notes to read, in the standard library alone, in both eras.

Its tools write a note and look notes up. A result has resource links, one of them on the web.
Clients may subscribe to changes: with ``resources/subscribe`` in the handshake era, and with
``subscriptions/listen`` in the stateless era.
"""

import json
import sys
from typing import Any

NOTES = {"note:monday": "Buy milk.", "note:tuesday": "Call Ana."}
WEB = "https://example.com/calendar"
CAPABILITIES = {"tools": {}, "resources": {"subscribe": True}}
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
STREAM = "io.modelcontextprotocol/subscriptionId"
TOOLS = [
    {"name": "write", "description": "Write a note.", "inputSchema": {"type": "object"}},
    {"name": "look_up", "description": "Find notes.", "inputSchema": {"type": "object"}},
]
subscribed: set[str] = set()
streams: dict[Any, list[str]] = {}


class NotThere(Exception):
    pass


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def notify(what: str, stream: Any = None, **params: Any) -> None:
    meta = {} if stream is None else {"_meta": {STREAM: stream}}
    send(method=f"notifications/{what}", params={**params, **meta})


def write(uri: str, text: str) -> None:
    NOTES[uri] = text
    if uri in subscribed:
        notify("resources/updated", uri=uri)
    for stream, uris in streams.items():
        if uri in uris:
            notify("resources/updated", stream, uri=uri)


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    found: list[dict[str, Any]] = [{"type": "text", "text": "written"}]
    if name == "write":
        write(arguments["uri"], arguments["text"])
    else:
        found = [{"type": "text", "text": "two places"}]
        for uri in ("note:tuesday", WEB):
            found.append({"type": "resource_link", "uri": uri, "name": uri.rpartition("/")[2]})
    return {"content": found}


def read(uri: str) -> dict[str, Any]:
    if uri not in NOTES:
        raise NotThere(uri)
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": NOTES[uri]}]}


def respond(id: Any, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "server/discover":
            return {"supportedVersions": ["2026-07-28", *HANDSHAKE], "capabilities": CAPABILITIES}
        case "initialize":
            version, info = params["protocolVersion"], {"name": "notes", "version": "1.0.0"}
            agreed = version if version in HANDSHAKE else HANDSHAKE[0]
            return {"protocolVersion": agreed, "capabilities": CAPABILITIES, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS, "ttlMs": 300_000, "cacheScope": "public"}
        case "tools/call":
            return call(params["name"], params.get("arguments") or {})
        case "resources/list":
            return {"resources": [{"uri": uri, "name": uri.partition(":")[2]} for uri in NOTES]}
        case "resources/read":
            return read(params["uri"])
        case "resources/subscribe":
            subscribed.add(params["uri"])
        case "resources/unsubscribe":
            subscribed.discard(params["uri"])
        case "subscriptions/listen":
            wanted = {"resourceSubscriptions": params["notifications"]["resourceSubscriptions"]}
            streams[id] = wanted["resourceSubscriptions"]
            notify("subscriptions/acknowledged", id, notifications=wanted)
            return None
        case _:
            raise NotImplementedError(method)
    return {}


def serve() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        id, params = message.get("id"), message.get("params") or {}
        if message.get("method") == "notifications/cancelled":
            streams.pop(params.get("requestId"), None)
        if id is None:
            continue
        try:
            result = respond(id, message["method"], params)
            if result is not None:
                send(id=id, result={"resultType": "complete", **result})
        except NotThere as missing:
            data = {"uri": str(missing)}
            send(id=id, error={"code": -32602, "message": "Resource not found", "data": data})
        except NotImplementedError as unknown:
            send(id=id, error={"code": -32601, "message": f"no such method: {unknown}"})


if __name__ == "__main__":
    serve()
