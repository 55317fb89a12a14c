"""List a server's tools, decide which calls may run, and call two tools."""

import sys
from pathlib import Path

import anyio

from mcp_client import Allow, CallDenied, Deny, StdioServer, ToolCall, connect

WEATHER = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "weather.py")])


async def approve(call: ToolCall) -> Allow | Deny:
    print(f"May {call.tool.name} run with {call.arguments_json}?", end=" ")
    decision = (
        Allow() if call.hints.read_only else Deny("it changes things, and no person was asked")
    )
    print("Yes." if decision == Allow() else "No.")
    return decision


async def main() -> None:
    async with connect(WEATHER, approval=approve, trusted=True) as session:
        for tool in await session.list_tools():
            print(f"{tool.name}: {tool.description}")
        result = await session.call_tool("get_weather", {"location": "New York"}, timeout=10)
        print(result.text)
        assert result.structured_content == {"temperature": 22.5, "conditions": "Partly cloudy"}
        try:
            await session.call_tool("set_alarm", {"location": "New York"})
        except CallDenied as error:
            print(error)
        else:
            raise AssertionError("the alarm must not sound")


anyio.run(main)
