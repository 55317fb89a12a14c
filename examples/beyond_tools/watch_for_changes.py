"""Wait for the change of a resource, and read the resource again."""

import sys
from pathlib import Path

import anyio

from mcp_client import StdioServer, allow_all, connect

NOTES = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "notes.py")])


async def main() -> None:
    for revision in ("2026-07-28", "2025-11-25"):  # both eras, the same lines
        async with connect(NOTES, approval=allow_all, revision=revision) as session:
            for resource in await session.list_resources():
                print(revision, resource.uri)
            async with session.subscribe_resource("note:monday") as updates:
                note = {"uri": "note:monday", "text": "Buy bread."}
                await session.call_tool("write", note)
                update = await anext(updates)  # or the connection was lost and made again
                read = await session.read_resource(update.uri)
                assert read.contents[0].text == "Buy bread."
                print(f"{update.uri} changed: {read.contents[0].text}")


anyio.run(main)
