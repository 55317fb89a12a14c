"""One session over HTTP for many users: each call has the token of its own user."""

import sys
from contextvars import ContextVar
from pathlib import Path

import anyio

from mcp_client import HttpServer, allow_all, connect
from mcp_client.errors import AuthError

sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))
from weather_http import serving  # type: ignore[import-not-found]

TOKENS = {"ana": "token-1", "bo": "one that the server does not know"}
user: ContextVar[str] = ContextVar("user", default="ana")  # ana's token also connects and lists


def headers() -> dict[str, str]:
    """Called before each request, in the context of the task whose call it is."""
    return {"Authorization": f"Bearer {TOKENS[user.get()]}"}


async def main() -> None:
    with serving() as url:
        async with connect(HttpServer(url, headers=headers), approval=allow_all) as session:
            for name in TOKENS:
                user.set(name)
                try:
                    result = await session.call_tool("get_weather", {"location": "Oslo"})
                    print(name, "-", result.text)
                except AuthError as error:
                    print(name, "-", error.http_status)


anyio.run(main)
