"""A small MCP server that reads and writes any file that it can reach."""

import json
import sys
from pathlib import Path
from typing import Any

TEXT = {"type": "string"}
READ = {"type": "object", "properties": {"path": TEXT}, "required": ["path"]}
WRITE = {"type": "object", "properties": {"path": TEXT, "text": TEXT}, "required": ["path", "text"]}
TOOLS = [{"name": "read", "inputSchema": READ}, {"name": "write", "inputSchema": WRITE}]


def call(name: str, arguments: dict[str, str]) -> dict[str, Any]:
    path = Path(arguments["path"])
    try:
        text = path.read_text() if name == "read" else str(path.write_text(arguments["text"]))
    except OSError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {"content": [{"type": "text", "text": text}]}


def respond(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            version = params["protocolVersion"]
            info = {"name": "files", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return call(params["name"], params["arguments"])
    raise NotImplementedError


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    head = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        reply = {**head, "result": respond(message["method"], message.get("params", {}))}
    except NotImplementedError:
        reply = {**head, "error": {"code": -32601, "message": "there is no such method"}}
    print(json.dumps(reply), flush=True)
