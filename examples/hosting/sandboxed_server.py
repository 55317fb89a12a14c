"""A server that can reach no further than it must: one folder, no home folder, no network."""

import sys
import tempfile
from pathlib import Path

import anyio

from mcp_client import ConnectError, Sandbox, StdioServer, allow_all, connect

FILES = str(Path(__file__).parents[1] / "servers" / "files.py")


async def look_around(folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "secret.txt").write_text("nobody's business")
    # sandbox=True: what the server is made of, and a temporary folder. Nothing else.
    sandbox = Sandbox(write=[folder / "notes"])
    try:
        async with connect(
            StdioServer(sys.executable, [FILES], sandbox=sandbox), approval=allow_all
        ) as session:
            assert session.sandbox is not None
            print(*session.sandbox.sentences, sep="\n")
            for name, path in (("write", "notes/monday"), ("write", "x"), ("read", "secret.txt")):
                arguments = {"path": str(folder / path), "text": "milk"}
                result = await session.call_tool(name, arguments)
                print(name, path, "refused" if result.is_error else "done")
    except ConnectError as error:  # never a weaker sandbox: nothing was started
        print(error)


with tempfile.TemporaryDirectory() as folder:
    anyio.run(look_around, Path(folder))
