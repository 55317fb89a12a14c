"""An agent on OpenAI's Chat Completions. Without OPENAI_API_KEY, a script acts as the model."""

import os
import sys
from typing import Any

import anyio

from mcp_client import Allow, Deny, Host, StdioServer, ToolCall
from mcp_client.adapters import openai_chat

MODEL = os.environ.get("OPENAI_MODEL", "gpt-6-sol")
WEATHER = StdioServer(sys.executable, ["examples/servers/weather.py"])
OSLO = '{"location": "Oslo"}'
LOOK = {"type": "function", "function": {"name": "weather__get_weather", "arguments": OSLO}}
WAKE = {"type": "function", "function": {"name": "weather__set_alarm", "arguments": OSLO}}
SCRIPT: list[dict[str, Any]] = [
    {"tool_calls": [{"id": "call_1", **LOOK}, {"id": "call_2", **WAKE}], "content": None},
    {"content": "Oslo is partly cloudy. The alarm is not set: the neighbours sleep."},
]


async def ask_model(**request: Any) -> Any:
    if os.environ.get("OPENAI_API_KEY"):
        from openai import AsyncOpenAI

        response = await AsyncOpenAI().chat.completions.create(model=MODEL, **request)
        return response.model_dump(exclude_none=True)
    return {"choices": [{"index": 0, "message": {"role": "assistant", **SCRIPT.pop(0)}}]}


def approve(call: ToolCall) -> Allow | Deny:
    return Allow() if call.hints.read_only else Deny("the neighbours sleep")


async def main() -> None:
    messages: list[Any] = [{"role": "user", "content": "Sound the alarm if a storm nears Oslo."}]
    async with Host({"weather": WEATHER}, approval=approve, trusted=True) as host:
        kit = openai_chat.toolset(await host.list_tools())
        while messages[-1]["role"] != "assistant":
            response = await ask_model(messages=messages, tools=kit.tools)
            messages.append(response["choices"][0]["message"])
            messages += await kit.run(host, response, timeout=30)
    for message in messages:
        print(message["role"], "-", message.get("content"))  # a call has none


anyio.run(main)
