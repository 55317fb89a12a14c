"""Connect to a server over HTTP, with a token."""

import sys
from pathlib import Path

import anyio

from mcp_client import HttpServer, allow_all, connect
from mcp_client.errors import AuthError

sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))
from weather_http import serving  # type: ignore[import-not-found]


async def token() -> str:
    return "token-1"  # called before each request, so that a token may change


async def main() -> None:
    with serving() as url:
        async with connect(HttpServer(url, auth=token), approval=allow_all) as session:
            result = await session.call_tool("get_weather", {"location": "New York"})
            print(session.protocol_version, result.text)
        try:
            await connect(url)
        except AuthError as error:
            print("Without a token:", error.http_status)


anyio.run(main)
