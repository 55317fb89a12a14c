"""Progress is told while a call is under way, and a call can be called off by its own handle."""

import sys
from pathlib import Path

import anyio

from mcp_client import CallWithdrawn, StdioServer, allow_all, connect

CAFE = StdioServer(sys.executable, [str(Path(__file__).parent / "servers" / "cafe.py")])


def watch(progress: float, total: float | None, message: str | None) -> None:
    print(f"{progress:g} of {total:g}" if total is not None else f"{progress:g}")


async def main() -> None:
    async with connect(CAFE, approval=allow_all) as session:
        result = await session.call_tool("brew", {"steps": 3}, on_progress=watch)
        print(result.text)

        call = session.call_tool("brew", {"steps": 1_000})
        call.cancel("no more coffee for me")
        try:
            await call
        except CallWithdrawn as error:  # CallCancelled, had it been sent: then it may have run
            print(error)


anyio.run(main)
