"""Call tools from two threads that share one session, without an event loop.

Ctrl-C cancels the calls of both threads.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mcp_client import Allow, Deny, McpError, StdioServer, ToolCall
from mcp_client.sync import connect

WEATHER = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "weather.py")])


def approve(call: ToolCall) -> Allow | Deny:
    return Allow() if call.hints.read_only else Deny("only reading is allowed here")


with connect(WEATHER, approval=approve, trusted=True) as session:
    print(", ".join(tool.name for tool in session.list_tools()))

    def weather(place: str) -> str:
        return session.call_tool("get_weather", {"location": place}, timeout=10).text

    with ThreadPoolExecutor(2) as threads:
        for line in threads.map(weather, ["Oslo", "New York"]):
            print(line)

    try:
        session.call_tool("set_alarm", {"location": "Oslo"})
    except McpError as error:
        print(error.message)
