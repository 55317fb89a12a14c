"""How the cost of our client grows with calls in flight, sessions, the catalogue, a message.

    python -m tests.bench.growth

CPU time of this process; the servers, ``server.py`` and ``http_server.py``, run in their own. Each
figure is the best of three. What is flat or linear has a last column near 1: the figure beside that
of the first row, for each call, session, tool or byte.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from time import process_time
from typing import Any

import anyio

import mcp_client
from mcp_client import Session, allow_all
from tests.bench import http, rounds

_CALLS = 2_000
_MIB = 1024 * 1024


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    best = float("inf")
    for _ in range(3):
        gc.collect()
        began = process_time()
        await work()
        best = min(best, process_time() - began)
    return best


async def _echoes(session: Session, in_flight: int) -> None:
    each = max(2, _CALLS // in_flight)

    async def some() -> None:
        for _ in range(each):
            await session.call_tool("echo", {"text": "hello"})

    async with anyio.create_task_group() as tasks:
        for _ in range(in_flight):
            tasks.start_soon(some)


async def _in_flight(server: Any) -> list[tuple[str, float]]:
    rows = []
    async with mcp_client.connect(server, approval=allow_all) as session:
        await _echoes(session, 32)
        for count in (32, 1, 100, 320, 1_000):
            calls = count * max(2, _CALLS // count)
            taken = await _seconds(lambda count=count: _echoes(session, count))  # type: ignore[misc]
            rows.append((f"{count:,} in flight, a call", taken / calls))
    return rows


async def _sessions(url: str) -> list[tuple[str, float]]:
    rows = []
    async with mcp_client.connect(url, approval=allow_all) as session:
        await _echoes(session, 1)
    for count in (50, 100, 200, 400):

        async def open_all(count: int = count) -> None:
            async with AsyncExitStack() as opened:
                for _ in range(count):
                    await opened.enter_async_context(mcp_client.connect(url, approval=allow_all))

        rows.append((f"{count} sessions opened and closed, each", await _seconds(open_all) / count))
    return rows


async def _catalogue() -> list[tuple[str, float]]:
    rows = []
    for count in (10, 100, 1_000, 10_000):
        command = [sys.executable, "-IS", str(rounds.HERE / "server.py"), "--tools", str(count)]
        async with mcp_client.connect(command, approval=allow_all) as session:
            await session.list_tools()
            taken = await _seconds(lambda session=session: _echoes(session, 1))  # type: ignore[misc]
            rows.append((f"{count:,} tools cached, a call", taken / _CALLS))
    return rows


async def _sizes(server: Any) -> list[tuple[str, float]]:
    rows = []
    async with mcp_client.connect(server, approval=allow_all) as session:
        for size in (_MIB // 4, _MIB, 4 * _MIB, 16 * _MIB):

            async def fetch(size: int = size) -> None:
                for _ in range(16 * _MIB // size):
                    assert len((await session.call_tool("big", {"bytes": size})).text) == size

            rows.append((f"{size // 1024:,} KiB in a result, a MiB", await _seconds(fetch) / 16))
    return rows


def _print(title: str, rows: Sequence[tuple[str, float]]) -> None:
    print(f"\n{title}")
    for name, seconds in rows:
        print(f"  {name:42}{seconds * 1e6:10.0f} us{seconds / rows[0][1]:8.2f}")


async def _measure(origin: str) -> None:
    stdio = [sys.executable, "-IS", str(rounds.HERE / "server.py")]
    for path in ("json", "sse", "old-json"):
        _print(f"HTTP, /{path}", await _in_flight(f"{origin}/{path}"))
    _print("stdio", await _in_flight(stdio))
    _print("HTTP", await _sessions(f"{origin}/json"))
    _print("stdio", await _catalogue())
    for path in ("json", "sse"):
        _print(f"HTTP, /{path}", await _sizes(f"{origin}/{path}"))
    _print("stdio", await _sizes(stdio))


def main() -> None:
    print(f"CPU time of the client, {rounds.pin()}")
    with http.serving() as origin:
        anyio.run(_measure, origin)


if __name__ == "__main__":
    main()
