"""Use many servers as one set of tools. One of them cannot start, and costs only its own tools."""

import sys
from pathlib import Path

import anyio

from mcp_client import Allow, ConnectError, Host, ServerConfig, StdioServer, ToolCall
from mcp_client.errors import UnknownTool

SERVERS = Path(__file__).parents[1] / "servers"


def approve(call: ToolCall) -> Allow:
    print(f"{call.context} calls {call.server}/{call.tool.name}")
    return Allow()


async def main() -> None:
    async with Host(
        {
            "weather": StdioServer(sys.executable, [str(SERVERS / "weather.py")]),
            "notes": ServerConfig([sys.executable, str(SERVERS / "notes.py")], exclude=["write*"]),
            "broken": StdioServer("no-such-program"),
        },
        approval=approve,
    ) as host:
        tools = await host.list_tools()
        print([tool.qualified_name for tool in tools])
        print(tools.findings[0])
        result = await host.call_tool("weather__get_weather", {"location": "Oslo"}, context="ana")
        print(result.text)
        for name in ("notes__write", "weather__get_wether"):  # left out, and mistyped
            try:
                await host.call_tool(name)
            except UnknownTool as error:
                print(error.message)
        try:
            await host.session("broken")
        except ConnectError as error:
            print("to be tried again" if error.retryable else "not to be tried again")
        print({name: status.state for name, status in host.status().items()})


anyio.run(main)
