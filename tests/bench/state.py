"""What a call costs with each kind of state, and how that grows with the stored entries.

    python -m tests.bench.state [--rows 1000000]

Microseconds that pass, and of CPU in this process (the client and an in-memory server; PostgreSQL
runs in its own), for each call; the median of 21 groups, the states in turns. A call is covered by
a remembered yes and recorded in the state's audit; with a key, it is in the journal, too. The last
rows are of two databases: with 100 calls and 100 decisions, and with ``--rows`` calls and a tenth
as many decisions.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import anyio
import psycopg

from mcp_client import Allow, FileState, Session, ToolCall, connect
from mcp_client.state import MemoryState, PostgresState, State
from mcp_client.transports.memory import MemoryTransport
from tests.bench import rounds
from tests.support.postgres import PostgresServer, new_cluster

__all__ = ["Known", "approve", "fill"]

_CALLS = 20
_GROUPS = 21
_FILL = """
insert into mcp_client.object (kind, key, body, due)
select kind, convert_to(lpad(number::text, 48, '0'), 'UTF8'), body, due
from generate_series(1, %s) as number,
  lateral (
    select kind, body, due from mcp_client.object where kind = %s order by key desc limit 1
  ) as one
on conflict do nothing
"""


class Known(MemoryTransport):
    """A server with one tool, which answers at once."""

    stable_identity = "the server of the benchmark"

    def __init__(self) -> None:
        super().__init__(_respond)


def _respond(message: dict[str, Any]) -> Any:
    match message["method"]:
        case "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": "hello"}]}
    return NotImplemented


async def approve(call: ToolCall) -> Allow:
    return Allow(remember="always")


def fill(url: str, calls: int, decisions: int) -> None:
    """So many more of each as the last one that is there."""
    with psycopg.connect(url, autocommit=True) as connection:
        for kind, count in (("calls", calls), ("decisions", decisions)):
            connection.execute(_FILL, (count, kind))
        connection.execute("vacuum (analyze) mcp_client.object")
        connection.execute("checkpoint")


async def _group(session: Session, name: str, with_key: bool) -> tuple[float, float]:
    passed, worked = perf_counter(), process_time()
    for n in range(_CALLS):
        key = f"{name}/{n}" if with_key else None
        await session.call_tool("echo", {"n": 1}, idempotency_key=key)
    return (perf_counter() - passed) / _CALLS, (process_time() - worked) / _CALLS


async def _measure(states: dict[str, State]) -> dict[str, float]:
    """Prints two rows for each state, measured in turns, and returns what passes for each."""
    figures = {}
    async with AsyncExitStack() as opened:
        sessions = {
            title: await opened.enter_async_context(
                connect(Known(), name="bench", approval=approve, state=state)
            )
            for title, state in states.items()
        }
        for with_key in (False, True):
            groups: dict[str, list[tuple[float, float]]] = {title: [] for title in sessions}
            for number in range(-1, _GROUPS):
                for title, session in sessions.items():
                    group = await _group(session, f"{number}", with_key)
                    groups[title] += [group] if number >= 0 else []
            for title, found in groups.items():
                passed, worked = (median(one) * 1e6 for one in zip(*found, strict=True))
                row = f"{title}, {'with' if with_key else 'without'} a key"
                print(f"  {row:52}{passed:8.0f} us{worked:8.0f} us CPU", flush=True)
                figures[row] = passed
    return figures


async def _measure_all(directory: Path, server: PostgresServer, rows: int) -> None:
    few, many = server.new_database(), server.new_database()
    plain = {"MemoryState": MemoryState(), "FileState": FileState(directory / "state")}
    await _measure({**plain, "PostgresState": PostgresState(server.new_database())})
    for url, calls, decisions in ((few, 100, 100), (many, rows, rows // 10)):
        state = PostgresState(url)
        async with connect(Known(), name="bench", approval=approve, state=state) as session:
            await session.call_tool("echo", {"n": 1}, idempotency_key="the first")
        state.close()
        fill(url, calls, decisions)
    names = "100 calls and decisions", f"{rows:,} calls, {rows // 10:,} decisions"
    states = dict(zip(names, map(PostgresState, (few, many)), strict=True))
    figures = [*(await _measure({**states})).values()]
    for number, name in enumerate(("without", "with")):
        few_us, many_us = figures[2 * number : 2 * number + 2]
        print(f"  {name} a key, times as much: {many_us / few_us:.2f}")
    for each in states.values():
        each.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.state")
    parser.add_argument("--rows", type=int, default=1_000_000)
    chosen = parser.parse_args()
    print(f"for each call, {rounds.pin()}")
    cluster = new_cluster()
    try:
        with (
            tempfile.TemporaryDirectory() as directory,
            PostgresServer(cluster, fsync="on") as server,
        ):
            anyio.run(_measure_all, Path(directory), server, chosen.rows)
    finally:
        shutil.rmtree(cluster)


if __name__ == "__main__":
    main()
