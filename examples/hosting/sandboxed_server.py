"""Run a server in a sandbox: it reaches one directory, no home directory and no network."""

import sys
import tempfile
from pathlib import Path

import anyio

from mcp_client import ConnectError, Sandbox, StdioServer, allow_all, connect

FILES = str(Path(__file__).parents[1] / "servers" / "files.py")


async def look_around(directory: Path) -> None:
    (directory / "notes").mkdir()
    (directory / "secret.txt").write_text("private")
    # Besides this, the server reaches its own program and a temporary directory.
    sandbox = Sandbox(write=[directory / "notes"])
    try:
        async with connect(
            StdioServer(sys.executable, [FILES], sandbox=sandbox), approval=allow_all
        ) as session:
            assert session.sandbox is not None
            print(*session.sandbox.sentences, sep="\n")
            for name, path in (("write", "notes/monday"), ("write", "x"), ("read", "secret.txt")):
                arguments = {"path": str(directory / path), "text": "milk"}
                result = await session.call_tool(name, arguments)
                print(name, path, "refused" if result.is_error else "done")
    except ConnectError as error:  # never a weaker sandbox: nothing was started
        print(error)


with tempfile.TemporaryDirectory() as directory:
    anyio.run(look_around, Path(directory))
