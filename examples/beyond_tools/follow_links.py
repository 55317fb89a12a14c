"""Read the resources that a result links to: only those you choose, and only through the server."""

import sys
from pathlib import Path

import anyio

from mcp_client import ServerError, StdioServer, allow_all, connect
from mcp_client.content import ResourceLink

NOTES = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "notes.py")])


def may_be_read(link: ResourceLink) -> bool:
    return link.uri.startswith("note:")  # the server chose the link; you choose what is read


async def main() -> None:
    async with connect(NOTES, name="notes", approval=allow_all) as session:
        result = await session.call_tool("look_up")
        print(result.text)  # for a model: the links are named in it
        for link in result.links:
            if may_be_read(link):
                print(f"{link.uri}: {(await session.follow(link)).contents[0].text}")
            else:
                print(f"{link.uri}: not read")
        try:
            await session.follow(result.links[1])  # asks the server for it: nothing is fetched
        except ServerError as error:
            print(error, error.data)


anyio.run(main)
