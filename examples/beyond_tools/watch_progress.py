"""Print the progress of a call, and cancel a call with a token."""

import sys
from pathlib import Path

import anyio

from mcp_client import CancelToken, StdioServer, allow_all, connect
from mcp_client.errors import CallCancelled

CAFE = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "cafe.py")])
token = CancelToken()


def watch(progress: float, total: float | None, message: str | None) -> None:
    print(f"{progress:g} of {total:g}" if total is not None else f"{progress:g}")


def enough(progress: float, total: float | None, message: str | None) -> None:
    if progress >= 2:
        token.cancel("no more coffee for me")


async def main() -> None:
    async with connect(CAFE, approval=allow_all) as session:
        result = await session.call_tool("brew", {"steps": 3}, on_progress=watch)
        print(result.text)

        try:
            await session.call_tool("brew", {"steps": 1_000}, on_progress=enough, cancel=token)
        except CallCancelled as error:  # CallWithdrawn, had it not been sent yet
            print(error)


anyio.run(main)
