"""A small MCP server in the standard library alone that records in a file what it sells.

Its arguments are that file, and the most seconds that a payment takes.
"""

import json
import select
import sys
from pathlib import Path
from typing import Any

SOLD, SECONDS = Path(sys.argv[1]), float(sys.argv[2])
ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
TOOLS = [{"name": "buy", "description": "Buy something.", "inputSchema": ITEM}]


def buy(item: str) -> dict[str, Any]:
    with SOLD.open("a") as file:
        file.write(f"{item}\n")
    select.select([sys.stdin], [], [], SECONDS)  # or until the client sends more, or is gone
    return {"resultType": "complete", "content": [{"type": "text", "text": f"{item}: paid"}]}


def respond(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        case "tools/list":
            return {"tools": TOOLS, "ttlMs": 300_000, "cacheScope": "public"}
        case "tools/call":
            return buy(params["arguments"]["item"])
    return None


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        result = respond(message["method"], message.get("params", {}))
        failed = {"error": {"code": -32601, "message": "no such method"}}
        reply = {"id": message["id"], **({"result": result} if result else failed)}
        print(json.dumps({"jsonrpc": "2.0", **reply}), flush=True)
