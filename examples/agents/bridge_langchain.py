"""The tools of a host for LangChain (``langchain-core``), as a model's tool calls use them."""

import sys
from typing import Any

import anyio

from mcp_client import Host, StdioServer, allow_all
from mcp_client.adapters import openai_chat

try:
    from langchain_core.tools import StructuredTool
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install langchain-core")

WEATHER = StdioServer(sys.executable, ["examples/servers/weather.py"])


def tools_of(kit: openai_chat.Toolset, host: Host) -> list[StructuredTool]:
    def tool(name: str, parameters: dict[str, Any], description: str = "") -> StructuredTool:
        async def call(**arguments: Any) -> str:
            calls = [{"id": "1", "function": {"name": name, "arguments": arguments}}]
            (response,) = await kit.run(host, calls)
            content: str = response["content"]
            return content

        return StructuredTool(
            name=name, description=description or name, args_schema=parameters, coroutine=call
        )

    return [tool(**each["function"]) for each in kit.tools]


async def main() -> None:
    async with Host({"weather": WEATHER}, approval=allow_all) as host:
        kit = openai_chat.toolset(await host.list_tools())
        tools = {tool.name: tool for tool in tools_of(kit, host)}  # model.bind_tools([*tools])
        arguments = {"location": "Oslo"}
        call = {"type": "tool_call", "id": "1", "name": "weather__get_weather", "args": arguments}
        print((await tools[call["name"]].ainvoke(call)).content)


anyio.run(main)
