"""An agent on Anthropic's Messages. Without ANTHROPIC_API_KEY, a script acts as the model."""

import os
import sys
from typing import Any

import anyio

from mcp_client import Allow, Deny, Host, StdioServer, ToolCall
from mcp_client.adapters import anthropic

MODEL = os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-5-5")
WEATHER = StdioServer(sys.executable, ["examples/servers/weather.py"])
LOOK = {"type": "tool_use", "name": "weather__get_weather", "input": {"location": "Oslo"}}
WAKE = {"type": "tool_use", "name": "weather__set_alarm", "input": {"location": "Oslo"}}
SCRIPT: list[list[dict[str, Any]]] = [
    [{"type": "text", "text": "I look."}, {"id": "toolu_1", **LOOK}, {"id": "toolu_2", **WAKE}],
    [{"type": "text", "text": "Oslo is partly cloudy. The alarm is not set."}],
]


async def ask_model(**request: Any) -> Any:
    if os.environ.get("ANTHROPIC_API_KEY"):
        from anthropic import AsyncAnthropic

        create = AsyncAnthropic().messages.create
        response = await create(model=MODEL, max_tokens=1_000, **request)
        return response.model_dump(exclude_none=True)
    return {"type": "message", "role": "assistant", "content": SCRIPT.pop(0)}


def approve(call: ToolCall) -> Allow | Deny:
    return Allow() if call.hints.read_only else Deny("the neighbours sleep")


async def main() -> None:
    messages: list[Any] = [{"role": "user", "content": "Sound the alarm if a storm nears Oslo."}]
    async with Host({"weather": WEATHER}, approval=approve, trusted=True) as host:
        kit = anthropic.toolset(await host.list_tools())
        while messages[-1]["role"] == "user":
            response = await ask_model(messages=messages, tools=kit.tools)
            messages.append({"role": "assistant", "content": response["content"]})
            messages += await kit.run(host, response, timeout=30)
    for message in messages:
        print(message["role"], "-", message["content"])


anyio.run(main)
