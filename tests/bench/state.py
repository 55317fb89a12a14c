"""What a call costs with each kind of state, and how that grows with what is kept.

    python -m tests.bench.state [--rows 1000000]

Microseconds that pass, and of CPU in this process (the client and an in-memory server; PostgreSQL
runs in its own), for each call; the median of nine groups. A call is covered by a remembered yes
and recorded in the state's audit; with a key, it is in the journal, too. Then the same with 100
calls in the journal and 100 decisions, and with ``--rows`` calls and a tenth as many decisions.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import anyio

from mcp_client import (
    Allow,
    FileState,
    MemoryState,
    PostgresState,
    Session,
    State,
    ToolCall,
    connect,
)
from mcp_client.transports.memory import MemoryTransport
from tests.bench import rounds
from tests.postgres import PostgresServer, new_cluster

__all__ = ["Known", "approve", "fill"]

_CALLS = 40
_GROUPS = 9
_FILL = """
insert into {object} (kind, key, body, due)
select kind, convert_to(lpad(number::text, 48, '0'), 'UTF8'), body, due
from generate_series(1, %s) as number,
  lateral (select kind, body, due from {object} where kind = %s order by key desc limit 1) as one
on conflict do nothing
"""


class Known(MemoryTransport):
    """A server with one tool, which answers at once."""

    lasting_identity = "the server of the benchmark"

    def __init__(self) -> None:
        super().__init__(_answer)


def _answer(message: dict[str, Any]) -> Any:
    match message["method"]:
        case "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": "hello"}]}
    return NotImplemented


async def approve(call: ToolCall) -> Allow:
    return Allow(remember="always")


def fill(state: PostgresState, calls: int, decisions: int) -> None:
    """So many more of each as the last one that is there."""
    statement = _FILL.format(object=state._table("object"))
    for kind, count in (("calls", calls), ("decisions", decisions)):
        with state._connection() as connection:
            connection.execute("set statement_timeout = 0", ())
            connection.execute(statement.encode(), (count, kind))
            connection.execute(f"analyze {state._table('object')}".encode(), ())
            connection.execute("set statement_timeout = 15000", ())


async def _group(session: Session, name: str, with_key: bool) -> tuple[float, float]:
    passed, worked = perf_counter(), process_time()
    for n in range(_CALLS):
        key = f"{name}/{n}" if with_key else None
        await session.call_tool("echo", {"n": 1}, idempotency_key=key)
    return (perf_counter() - passed) / _CALLS, (process_time() - worked) / _CALLS


async def _measure(title: str, state: State) -> list[float]:
    """Prints two rows, and returns what passes for each."""
    figures = []
    async with connect(Known(), name="bench", approval=approve, state=state) as session:
        await session.call_tool("echo", {"n": 1})
        for with_key in (False, True):
            name = f"{title} {with_key}"
            groups = [await _group(session, f"{name} {n}", with_key) for n in range(_GROUPS)]
            passed, worked = (median(one) * 1e6 for one in zip(*groups, strict=True))
            row = f"{title}, {'with' if with_key else 'without'} a key"
            print(f"  {row:52}{passed:8.0f} us{worked:8.0f} us CPU", flush=True)
            figures.append(passed)
    return figures


async def _measure_all(folder: Path, server: PostgresServer, rows: int) -> None:
    await _measure("MemoryState", MemoryState())
    await _measure("FileState", FileState(folder / "state"))
    state = PostgresState(server.new_database())
    await _measure("PostgresState", state)
    fill(state, 100, 100)
    few = await _measure("PostgresState, 100 calls and decisions", state)
    fill(state, rows, rows // 10)
    many = await _measure(f"PostgresState, {rows:,} and {rows // 10:,}", state)
    for name, one, other in zip(("without", "with"), few, many, strict=True):
        print(f"  {name} a key, times as much: {other / one:.2f}")
    state.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.state")
    parser.add_argument("--rows", type=int, default=1_000_000)
    chosen = parser.parse_args()
    print(f"for each call, {rounds.pin()}")
    cluster = new_cluster()
    with tempfile.TemporaryDirectory() as folder, PostgresServer(cluster, fsync="on") as server:
        anyio.run(_measure_all, Path(folder), server, chosen.rows)


if __name__ == "__main__":
    main()
