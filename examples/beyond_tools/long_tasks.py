"""Wait for a call that became a task, and resume another one in a later session."""

import sys
from pathlib import Path

import anyio

from mcp_client import StdioServer, allow_all, connect, deny_all

ROASTER = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "roaster.py")])


def watch(progress: float, total: float | None, message: str | None) -> None:
    print(f"{progress:g}: {message}")


async def main() -> None:
    async with connect(ROASTER, name="roaster", approval=allow_all) as session:
        result = await session.call_tool("roast", {"beans": "Sidamo"}, on_progress=watch)
        print(result.text)

        task = await session.start_tool("roast", {"beans": "Harrar"})
        print(task)
        saved = task.to_json()  # a dict, which cannot be changed: it is under a MAC

    # Later, in another session: approval is not asked again, so deny_all does no harm.
    async with connect(ROASTER, name="roaster", approval=deny_all) as session:
        result = await session.resume_task(saved).result()
        print(result.text)


anyio.run(main)
