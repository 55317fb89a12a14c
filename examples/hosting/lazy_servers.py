"""List the tools of servers from a lock file, and start a server only when a call needs it."""

import sys
import tempfile
from pathlib import Path

import anyio

from mcp_client import Host, ServerConfig, StdioServer, allow_all
from mcp_client.adapters import anthropic

WEATHER = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "weather.py")])


async def main() -> None:
    lock = Path(tempfile.mkdtemp(), "mcp.lock")
    async with Host({"weather": WEATHER}, pins=lock) as host:  # or: mcp-client pins ... --pins
        await host.list_tools()  # the first list is stored

    servers = {"weather": ServerConfig(WEATHER, lazy=True)}
    async with Host(servers, pins=lock, approval=allow_all) as host:
        tools = await host.list_tools()
        kit = anthropic.toolset(tools)  # what a model is shown
        print(f"{len(tools)} tools are listed; the server is {host.status()['weather'].state}")

        result = await host.call_tool("weather__get_weather", {"location": "New York"})
        print(f"{result.text}; the server is {host.status()['weather'].state}")

        # The definitions did not change, so a provider's prompt cache holds.
        assert kit.updated(await host.list_tools()).tools == kit.tools


anyio.run(main)
