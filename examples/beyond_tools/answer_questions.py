"""Answer the question of a tool with a handler that fills in the form.

The handler receives the name of the server, the call, and each field with its title, choices and
default. Without a handler nothing is declared to the server, and no server may ask.
"""

import sys
from pathlib import Path

import anyio

from mcp_client import Handlers, StdioServer, allow_all, connect
from mcp_client.handlers import Accept, Decline, ElicitRequest

CAFE = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "cafe.py")])


def fill_in(request: ElicitRequest) -> Accept | Decline:
    guest = request.call.context if request.call else "a guest"
    print(f"{request.server} asks {guest}: {request.message}")
    if request.mode == "url":
        return Decline()  # or show request.url, .host and .warnings, and open it after consent
    for field in request.fields:
        choices = ", ".join(choice.title for choice in field.choices)
        print(f"  {field.title}{f' ({choices})' if choices else ''}: default {field.default!r}")
    return Accept({"name": guest})  # fields left out get their defaults


async def main() -> None:
    handlers = Handlers(elicitation=fill_in)
    async with connect(CAFE, name="cafe", approval=allow_all, handlers=handlers) as session:
        print((await session.call_tool("order", context="Ada")).text)


anyio.run(main)
