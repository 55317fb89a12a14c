"""What a sandbox costs: opening a server, and a call to it, beside the same without.

    python -m tests.bench.sandbox [--rounds 15] [--calls 500]

Each round opens the server in every way, one after the other, so that all of them meet the same
machine. Printed are the medians, in milliseconds of wall time: opening is until the tools are
listed; a call is an echo of a few bytes. The target is an opening of at most 1.5 times that
without, or 0.15 s more.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

import anyio

from mcp_client import ConnectError, Sandbox, StdioServer, allow_all, connect
from tests.bench import rounds

RATIO, SECONDS_MORE = 1.5, 0.15


async def measure(engine: str | None, calls: int) -> tuple[float, float]:
    """Seconds until the tools are listed, and seconds a call."""
    words = ["-I", str(rounds.HERE / "server.py"), "--tools", "10"]
    sandbox = Sandbox() if engine else None
    server = StdioServer(sys.executable, words, sandbox=sandbox)
    began = time.perf_counter()
    async with connect(server, approval=allow_all, name="bench") as session:
        await session.list_tools()
        opened = time.perf_counter()
        for _ in range(calls):
            await session.call_tool("echo", {"text": "hello"})
        return opened - began, (time.perf_counter() - opened) / calls


async def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.bench.sandbox")
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--calls", type=int, default=500)
    chosen = options.parse_args()
    ways: list[str | None] = [None]
    for engine in ("bubblewrap",):
        try:
            await measure(engine, 1)  # it also tries the engine, once in a process
            ways.append(engine)
        except ConnectError as error:
            print(f"{engine}: {error}")
    taken: dict[Any, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(chosen.rounds):
        for way in ways:
            taken[way].append(await measure(way, chosen.calls))
    base = [statistics.median(column) for column in zip(*taken[None], strict=True)]
    print(f"{'':12} {'opening':>11} {'ratio':>6} {'more':>11} {'a call':>11} {'ratio':>6}")
    for way in ways:
        opening, call = (statistics.median(column) for column in zip(*taken[way], strict=True))
        ratio, more = opening / base[0], opening - base[0]
        held = "" if ratio <= RATIO or more <= SECONDS_MORE else "  more than the target"
        print(
            f"{way or 'without':12} {opening * 1000:8.1f} ms {ratio:6.2f} {more * 1000:8.1f} ms "
            f"{call * 1000:8.3f} ms {call / base[1]:6.2f}{held}"
        )


if __name__ == "__main__":
    anyio.run(main)
