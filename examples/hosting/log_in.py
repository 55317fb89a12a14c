"""Log in to a server: the browser opens once, and the tokens are stored for the next run.

    python examples/hosting/log_in.py [URL]

Without a URL, the example starts a server that asks for no password.
"""

import sys
from contextlib import nullcontext
from pathlib import Path

import anyio

from mcp_client import HttpServer, OAuth, allow_all, connect
from mcp_client.auth import FileTokens

sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))
from login_http import serving  # type: ignore[import-not-found]


async def main(passed: list[str]) -> None:
    with nullcontext(passed[0]) if passed else serving() as url:
        auth = OAuth(client_name="Weather example", store=FileTokens())
        async with connect(HttpServer(url, auth=auth), approval=allow_all) as session:
            result = await session.call_tool("get_weather", {"location": "New York"})
            print(result.text)


anyio.run(main, sys.argv[1:])
