"""A small MCP server whose tool has a view (MCP Apps), in the standard library alone, in both eras.

``show_clock`` is for models, and its results are shown in ``ui://clock/view.html``. ``tick`` is for
that view only.
"""

import json
import sys
from typing import Any

VIEW = "ui://clock/view.html"
UI = "io.modelcontextprotocol/ui"
CAPABILITIES: dict[str, Any] = {"tools": {}, "resources": {}, "extensions": {UI: {}}}
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
SCHEMA = {"type": "object"}
TOOLS = [
    {"name": "show_clock", "inputSchema": SCHEMA, "_meta": {"ui": {"resourceUri": VIEW}}},
    {
        "name": "tick",
        "inputSchema": SCHEMA,
        "_meta": {"ui": {"resourceUri": VIEW, "visibility": ["app"]}},
    },
]
RIGHTS = {
    "csp": {"connectDomains": ["https://time.example.com", "https://*"]},
    "permissions": {"clipboardWrite": {}},
}
HTML = "<!doctype html><title>Clock</title><p id=time>14:50"


def respond(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "server/discover":
            return {"supportedVersions": ["2026-07-28", *HANDSHAKE], "capabilities": CAPABILITIES}
        case "initialize":
            version, info = params["protocolVersion"], {"name": "clock", "version": "1.0.0"}
            agreed = version if version in HANDSHAKE else HANDSHAKE[0]
            return {"protocolVersion": agreed, "capabilities": CAPABILITIES, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS, "ttlMs": 300_000, "cacheScope": "public"}
        case "tools/call":
            time = {"hour": 14, "minute": 50 if params["name"] == "show_clock" else 51}
            text = "{hour}:{minute}".format(**time)
            return {"content": [{"type": "text", "text": text}], "structuredContent": time}
        case "resources/read":
            view = {"uri": VIEW, "mimeType": "text/html;profile=mcp-app", "text": HTML}
            return {"contents": [{**view, "_meta": {"ui": RIGHTS}}]}
    raise NotImplementedError(method)


def serve() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        id = message.get("id")
        if id is None:
            continue
        reported: dict[str, Any] = {"jsonrpc": "2.0", "id": id}
        try:
            result = respond(message["method"], message.get("params") or {})
            reported["result"] = {"resultType": "complete", **result}
        except NotImplementedError as unknown:
            reported["error"] = {"code": -32601, "message": f"no such method: {unknown}"}
        print(json.dumps(reported), flush=True)


if __name__ == "__main__":
    serve()
