"""Record a session, then run the same calls without the server."""

import sys
import tempfile
from pathlib import Path

import anyio

from mcp_client import ServerError, StdioServer, allow_all, connect
from mcp_client.testing import Recording, ReplayServer

WEATHER = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "weather.py")])


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "session.jsonl")
        async with connect(Recording(WEATHER, path), approval=allow_all) as session:
            await session.call_tool("get_weather", {"location": "Oslo"})

        async with connect(ReplayServer(path), approval=allow_all) as session:
            result = await session.call_tool("get_weather", {"location": "Oslo"})
            print(result.text)
            try:
                await session.call_tool("get_weather", {"location": "Rome"})
            except ServerError as error:
                print(error.message)


anyio.run(main)
