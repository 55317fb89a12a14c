"""A small MCP server in the standard library alone that makes a task of each call (2026-07-28).

The id of a task contains when it began and what it is for, so that the server stores nothing.
"""

import json
import sys
import time
from typing import Any

TASKS = "io.modelcontextprotocol/tasks"
BEANS = {"type": "object", "properties": {"beans": {"type": "string"}}, "required": ["beans"]}
TOOLS = [{"name": "roast", "description": "Roast coffee.", "inputSchema": BEANS}]


def task(id: str) -> dict[str, Any]:
    began, beans = id.split(" ", 1)
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(float(began)))
    times = {"createdAt": since, "lastUpdatedAt": since, "ttlMs": 60_000, "pollIntervalMs": 100}
    if time.time() < float(began) + 0.3:
        return {"taskId": id, **times, "status": "working", "statusMessage": f"roasting {beans}"}
    result = {"content": [{"type": "text", "text": f"{beans}, roasted."}]}
    return {"taskId": id, **times, "status": "completed", "result": result}


def respond(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "server/discover":
            capabilities: dict[str, Any] = {"tools": {}, "extensions": {TASKS: {}}}
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        case "tools/list":
            return {"tools": TOOLS, "ttlMs": 300_000, "cacheScope": "public"}
        case "tools/call":
            id = f"{time.time()} {params['arguments']['beans']}"
            return {**task(id), "resultType": "task"}
        case "tasks/get":
            return {**task(params["taskId"]), "resultType": "complete"}
        case "tasks/cancel":
            return {"resultType": "complete"}
    return None


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        result = respond(message["method"], message.get("params", {}))
        failed = {"error": {"code": -32601, "message": "no such method"}}
        reply = {
            "jsonrpc": "2.0",
            "id": message["id"],
            **({"result": result} if result else failed),
        }
        print(json.dumps(reply), flush=True)
