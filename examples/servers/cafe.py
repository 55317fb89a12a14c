"""A small MCP server in the standard library alone: questions, progress, a prompt.

It speaks 2026-07-28. ``order`` asks a question of the user first, ``describe`` one of the host's
model. ``brew`` sends progress. The prompt is ``recommend``.
"""

import json
import sys
from typing import Any

SIZES = {
    "type": "string",
    "title": "Size",
    "oneOf": [{"const": "s", "title": "small"}, {"const": "l", "title": "large"}],
    "default": "s",
}
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "title": "Your name"}, "size": SIZES},
    "required": ["name"],
}
TOOLS = [
    {
        "name": "order",
        "description": "Order a coffee.",
        "inputSchema": {"type": "object"},
    },
    {
        "name": "brew",
        "description": "Brew it.",
        "inputSchema": {"type": "object", "properties": {"steps": {"type": "integer"}}},
    },
    {
        "name": "describe",
        "description": "Describe the taste of today's coffee.",
        "inputSchema": {"type": "object", "properties": {"tokens": {"type": "integer"}}},
    },
]
PROMPTS = [{"name": "recommend", "arguments": [{"name": "weather", "required": True}]}]


def send(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def text_result(text: str) -> dict[str, Any]:
    return {"resultType": "complete", "content": [{"type": "text", "text": text}]}


def order(params: dict[str, Any]) -> dict[str, Any]:
    respond = params.get("inputResponses", {}).get("who")
    if respond is None:
        question = {"message": "What may it be?", "requestedSchema": FORM}
        asked = {"who": {"method": "elicitation/create", "params": question}}
        state = "nothing is remembered between the two"
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}
    if respond["action"] != "accept":
        return text_result("No coffee then.")
    return text_result(f"A coffee ({respond['content']['size']}) for {respond['content']['name']}.")


def describe(params: dict[str, Any]) -> dict[str, Any]:
    respond = params.get("inputResponses", {}).get("taste")
    if respond is not None:
        return text_result(f"Our barista would say: {respond['content']['text']}")
    text = {"type": "text", "text": "Describe the taste of Sidamo in one sentence."}
    question = {
        "messages": [{"role": "user", "content": text}],
        "maxTokens": params["arguments"].get("tokens", 50),
    }
    asked = {"taste": {"method": "sampling/createMessage", "params": question}}
    return {"resultType": "input_required", "inputRequests": asked, "requestState": "taste"}


def recommend(params: dict[str, Any]) -> dict[str, Any]:
    text = f"Recommend a coffee for this weather: {params['arguments']['weather']}."
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


def brew(params: dict[str, Any]) -> dict[str, Any]:
    steps, token = params["arguments"].get("steps", 3), params["_meta"].get("progressToken")
    for step in range(1, steps + 1):
        if token is not None:
            reported = {"progressToken": token, "progress": step, "total": steps}
            send({"method": "notifications/progress", "params": reported})
    return text_result("The coffee is ready.")


def respond(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "server/discover":
        offered: dict[str, Any] = {"tools": {}, "prompts": {}}
        return {"supportedVersions": ["2026-07-28"], "capabilities": offered}
    if method == "tools/list":
        return {"tools": TOOLS, "ttlMs": 300_000, "cacheScope": "public"}
    if method == "tools/call":
        return {"order": order, "brew": brew, "describe": describe}[params["name"]](params)
    if method == "prompts/list":
        return {"prompts": PROMPTS, "ttlMs": 300_000, "cacheScope": "public"}
    if method == "prompts/get":
        return recommend(params)
    return None


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        result = respond(message["method"], message.get("params", {}))
        failed = {"error": {"code": -32601, "message": "no such method"}}
        send({"id": message["id"], **({"result": result} if result else failed)})
