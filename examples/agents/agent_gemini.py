"""An agent on Google's Gemini. Without GEMINI_API_KEY, a script acts as the model."""

import os
import sys
from typing import Any

import anyio

from mcp_client import Allow, Deny, Host, StdioServer, ToolCall
from mcp_client.adapters import gemini

MODEL = os.environ.get("GEMINI_MODEL", "gemini-3.8-flash")
WEATHER = StdioServer(sys.executable, ["examples/servers/weather.py"])
OSLO = {"location": "Oslo"}
LOOK = {"functionCall": {"id": "1", "name": "weather__get_weather", "args": OSLO}}
WAKE = {"functionCall": {"id": "2", "name": "weather__set_alarm", "args": OSLO}}
SCRIPT: list[list[dict[str, Any]]] = [
    [LOOK, WAKE],
    [{"text": "Oslo is partly cloudy. The alarm is not set."}],
]


async def ask_model(contents: list[Any], **config: Any) -> Any:
    if os.environ.get("GEMINI_API_KEY"):
        from google import genai

        generate = genai.Client().aio.models.generate_content
        response = await generate(model=MODEL, contents=contents, config=config)
        return response.model_dump(exclude_none=True)
    return {"candidates": [{"content": {"role": "model", "parts": SCRIPT.pop(0)}}]}


def approve(call: ToolCall) -> Allow | Deny:
    return Allow() if call.hints.read_only else Deny("the neighbours sleep")


async def main() -> None:
    contents: list[Any] = [{"role": "user", "parts": [{"text": "How is Oslo? Any alarm?"}]}]
    async with Host({"weather": WEATHER}, approval=approve, trusted=True) as host:
        kit = gemini.toolset(await host.list_tools())
        while contents[-1]["role"] == "user":
            response = await ask_model(contents, tools=kit.tools)
            contents.append(response["candidates"][0]["content"])
            contents += await kit.run(host, response, timeout=30)
    for content in contents:
        print(content["role"], "-", content["parts"])


anyio.run(main)
