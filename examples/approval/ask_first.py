"""Let the person at the terminal decide. Without a terminal every call is denied.

This is what ``connect`` does without ``approval=``.
"""

import sys
from pathlib import Path

import anyio

from mcp_client import CallDenied, StdioServer, connect

WEATHER = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "weather.py")])


async def main() -> None:
    async with connect(WEATHER) as session:
        try:
            result = await session.call_tool("set_alarm", {"location": "New York", "loud": True})
        except CallDenied as error:
            print(f"Not run. {error}")
        else:
            print(result.text)


anyio.run(main)
