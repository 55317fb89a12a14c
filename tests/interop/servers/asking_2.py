"""A server on the official SDK 2.x that asks back: a form, a model, the roots; and that logs."""

import sys
from typing import Annotated, Literal

from mcp.server.mcpserver import (  # type: ignore[import-not-found,unused-ignore]
    Context,
    Elicit,
    ElicitationResult,
    ListRoots,
    MCPServer,
    Resolve,
    Sample,
)
from mcp_types import (  # type: ignore[import-not-found,unused-ignore]
    CreateMessageResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel, Field  # type: ignore[import-not-found,unused-ignore]

server = MCPServer("asking")


class Order(BaseModel):  # type: ignore[misc,unused-ignore]
    size: Literal["small", "large"] = "small"
    cups: int = Field(default=2, ge=1, le=9)
    name: str
    milk: bool = False


def ask_order() -> Elicit[Order]:
    return Elicit("What may it be?", Order)


def ask_model(subject: str) -> Sample:
    reported = SamplingMessage(role="user", content=TextContent(type="text", text=subject))
    return Sample([reported], max_tokens=50, system_prompt="Be brief.")


def ask_roots() -> ListRoots:
    return ListRoots()


async def order(response: Annotated[ElicitationResult[Order], Resolve(ask_order)]) -> str:
    """Asks for a form."""
    if response.action != "accept":
        return str(response.action)
    made = response.data
    return f"{made.cups} {made.size} for {made.name}, milk {made.milk}"


async def summary(
    subject: str, reported: Annotated[CreateMessageResult, Resolve(ask_model)]
) -> str:
    """Asks for a model."""
    return f"{reported.model}: {reported.content.text}"


async def where(roots: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Asks for the roots."""
    return ", ".join(str(root.uri) for root in roots.roots)


async def both(
    response: Annotated[Order, Resolve(ask_order)],
    roots: Annotated[ListRootsResult, Resolve(ask_roots)],
) -> str:
    """Asks two things."""
    return f"{response.name} at {len(roots.roots)} roots"


async def chatter(ctx: Context) -> str:
    """Logs a line of each level."""
    for level in ("debug", "info", "warning", "error"):
        await ctx.log(level, {"said": level}, logger_name="chat")
    return "done"


for tool in (order, summary, where, both, chatter):
    server.add_tool(tool)

if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            server.run("stdio")
        case [transport, port]:
            server.run(transport, port=int(port))
