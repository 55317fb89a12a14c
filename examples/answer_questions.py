"""A tool asks back: the form is filled in, judged, and the call goes on by itself.

The handler is told which server asks, by the name given here, and every field with its title,
choices and default. Whoever gives no handler declares none, and such a question is refused.
"""

import sys
from pathlib import Path

import anyio

from mcp_client import Accept, Decline, ElicitRequest, Handlers, StdioServer, allow_all, connect

CAFE = StdioServer(sys.executable, [str(Path(__file__).parent / "servers" / "cafe.py")])


def fill_in(request: ElicitRequest) -> Accept | Decline:
    print(f"{request.server} asks: {request.message}")
    if request.mode == "url":
        return Decline()  # show request.url, request.host and request.warnings, and ask first
    for field in request.fields:
        choices = ", ".join(choice.title for choice in field.choices)
        print(f"  {field.title}{f' ({choices})' if choices else ''}: default {field.default!r}")
    return Accept({"name": "Ada"})  # what is left out gets its default


async def main() -> None:
    handlers = Handlers(elicitation=fill_in)
    async with connect(CAFE, name="cafe", approval=allow_all, handlers=handlers) as session:
        print((await session.call_tool("order")).text)


anyio.run(main)
