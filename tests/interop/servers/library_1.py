"""The same on the official SDK 1.x, which has no changes to report."""

from mcp.server.fastmcp import FastMCP  # type: ignore[import-not-found,unused-ignore]

server = FastMCP("library")
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


if __name__ == "__main__":
    server.run("stdio")
