"""Show a model three tools in place of many: it searches, and calls what it found.

The provider is OpenAI (Responses). Without OPENAI_API_KEY, a script acts as the model.
"""

import os
import sys
from typing import Any

import anyio

from mcp_client import Allow, Host, StdioServer, ToolCall
from mcp_client.adapters import openai_responses

MODEL = os.environ.get("OPENAI_MODEL", "gpt-6-sol")
NAMES = ("cafe", "notes", "weather")
SERVERS = {name: StdioServer(sys.executable, [f"examples/servers/{name}.py"]) for name in NAMES}
FIND = '{"query": "weather at a place"}'
LOOK = '{"name": "weather__get_weather", "arguments": {"location": "Oslo"}}'
SCRIPT = [
    {"type": "function_call", "call_id": "1", "name": "search_tools", "arguments": FIND},
    {"type": "function_call", "call_id": "2", "name": "call_tool", "arguments": LOOK},
    {"type": "message", "role": "assistant", "content": "It is partly cloudy."},
]


async def ask_model(**request: Any) -> Any:
    if os.environ.get("OPENAI_API_KEY"):
        from openai import AsyncOpenAI

        response = await AsyncOpenAI().responses.create(model=MODEL, **request)
        return response.model_dump(exclude_none=True)
    return {"output": [SCRIPT.pop(0)]}


def approve(call: ToolCall) -> Allow:
    print("called:", call.server, call.tool.name, call.arguments_json)
    return Allow()


async def main() -> None:
    items: list[Any] = [{"role": "user", "content": "How is the weather in Oslo?"}]
    async with Host(SERVERS, approval=approve) as host:
        kit = openai_responses.toolset(await host.list_tools(), search=True)
        print("shown:", [tool["name"] for tool in kit.tools], "for", len(kit.names), "tools")
        while items[-1].get("role") != "assistant":
            response = await ask_model(input=items, tools=kit.tools)
            items += response["output"]
            items += await kit.run(host, response, timeout=30)
    print(*items, sep="\n")


anyio.run(main)
