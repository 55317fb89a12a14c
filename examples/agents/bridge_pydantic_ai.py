"""The tools of a host for Pydantic AI (``pydantic-ai-slim``), called here by its test model."""

import sys
from typing import Any

import anyio

from mcp_client import Host, StdioServer, allow_all
from mcp_client.adapters import openai_chat

try:
    from pydantic_ai import Agent, Tool
    from pydantic_ai.models.test import TestModel
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install pydantic-ai-slim")

WEATHER = StdioServer(sys.executable, ["examples/servers/weather.py"])


def tools_of(kit: openai_chat.Toolset, host: Host) -> list[Tool[Any]]:
    def tool(name: str, parameters: dict[str, Any], description: str = "") -> Tool[Any]:
        async def call(**arguments: Any) -> str:
            calls = [{"id": "1", "function": {"name": name, "arguments": arguments}}]
            (response,) = await kit.run(host, calls)
            content: str = response["content"]
            return content

        return Tool.from_schema(call, name, description, parameters)

    return [tool(**each["function"]) for each in kit.tools]


async def main() -> None:
    async with Host({"weather": WEATHER}, approval=allow_all) as host:
        kit = openai_chat.toolset(await host.list_tools())
        agent = Agent(TestModel(), tools=tools_of(kit, host))
        print((await agent.run("How is the weather?")).output)


anyio.run(main)
