"""A server on the official SDK 2.x whose tools change while it runs."""

import sys

from mcp.server.mcpserver import Context, MCPServer  # type: ignore[import-not-found,unused-ignore]

server = MCPServer("growing")


@server.tool()  # type: ignore[untyped-decorator,unused-ignore]
async def grow(name: str, ctx: Context) -> str:
    """Add a tool of that name."""

    def grown(number: int) -> int:
        """Give the number back."""
        return number

    server.add_tool(grown, name=name)
    await ctx.notify_tools_changed()
    return name


@server.tool()  # type: ignore[untyped-decorator,unused-ignore]
async def shrink(name: str, ctx: Context) -> str:
    """Remove the tool of that name."""
    server.remove_tool(name)
    await ctx.notify_tools_changed()
    return name


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
