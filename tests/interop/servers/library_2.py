"""A server on the official SDK 2.x with resources, templates, prompts, completion, and changes."""

import sys

from mcp.server.mcpserver import Context, MCPServer  # type: ignore[import-not-found,unused-ignore]
from mcp.server.mcpserver.resources import (  # type: ignore[import-not-found,unused-ignore]
    TextResource,
)
from mcp.types import (  # type: ignore[import-not-found,unused-ignore]
    Completion,
    ResourceLink,
)

server = MCPServer("library")
books = {"emma": "Emma Woodhouse", "ulysses": "Stately, plump"}


@server.resource("book://emma", mime_type="text/plain")  # type: ignore[untyped-decorator,unused-ignore]
def emma() -> str:
    """The one that is listed."""
    return books["emma"]


@server.resource("cover://emma", mime_type="image/png")  # type: ignore[untyped-decorator,unused-ignore]
def cover() -> bytes:
    """Bytes, and no text."""
    return b"\x89PNG cover"


@server.resource("shelf://{title}")  # type: ignore[untyped-decorator,unused-ignore]
def shelf(title: str) -> str:
    """Any book by its title."""
    return books[title]


@server.prompt()  # type: ignore[untyped-decorator,unused-ignore]
def summary(title: str) -> str:
    """Sum up a book."""
    return f"Sum up {title}."


@server.completion()  # type: ignore[untyped-decorator,unused-ignore]
async def complete(ref: object, argument: object, context: object) -> Completion:
    typed = argument.value  # type: ignore[attr-defined]
    return Completion(values=[title for title in books if title.startswith(typed)], total=1)


@server.tool()  # type: ignore[untyped-decorator,unused-ignore]
def find() -> list[ResourceLink]:
    """Where the book is."""
    return [ResourceLink(uri="book://emma", name="emma", mime_type="text/plain")]


@server.tool()  # type: ignore[untyped-decorator,unused-ignore]
async def write(text: str, ctx: Context) -> str:
    """Write the book again, and announce it."""
    books["emma"] = text
    await ctx.notify_resource_updated("book://emma")
    return text


@server.tool()  # type: ignore[untyped-decorator,unused-ignore]
async def add(title: str, ctx: Context) -> str:
    """Put another book up, and announce it."""
    server.add_resource(TextResource(uri=f"book://{title}", name=title, text=title))
    await ctx.notify_resources_changed()
    return title


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
