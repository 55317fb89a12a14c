"""What lazy servers with a lock file save: a host of ten real servers, beside the same one eager.

    python -m tests.bench.lazy [--servers 10] [--tools 20] [--rounds 5]

Both hosts have the same servers (``server.py``, a process each). Each round opens one eager and one
lazy, which take turns in going first, and measures the milliseconds from making the host until its
first list, and until the first result of a call. The processes are counted when the call is over.
The medians are printed, and the sentence of the README. Nothing is asserted but that the work was
done, and that a lazy host started one process.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from mcp_client import Host, ServerConfig, StdioServer, Timeouts, allow_all

SERVER = Path(__file__).with_name("server.py")
LAZY, EAGER = "lazy, with a lock file", "eager"


def _servers(number: int, tools: int, lazy: bool) -> dict[str, Any]:
    words = ["-I", str(SERVER), "--tools", str(tools)]
    server = StdioServer(sys.executable, words)
    return {f"server{n}": ServerConfig(server, lazy=lazy) for n in range(number)}


async def _measured(number: int, tools: int, lock: Path, lazy: bool) -> tuple[float, float, int]:
    """Return the milliseconds until the first list and the first result, and the processes."""
    servers = _servers(number, tools, lazy)
    began = time.perf_counter()
    host = Host(servers, pins=lock, approval=allow_all, timeouts=Timeouts(connect=120, close=0.5))
    async with host:
        found = len(await host.list_tools())
        listed = time.perf_counter()
        result = await host.call_tool("server0__echo", {"text": "hello"})
        called = time.perf_counter()
        assert found == number * tools and not result.is_error, (found, result)
        return (listed - began) * 1e3, (called - began) * 1e3, len(host.sessions)


async def _run(number: int, tools: int, rounds: int) -> None:
    lock = Path(tempfile.mkdtemp(), "mcp.lock")
    await _measured(number, tools, lock, False)  # writes the lock file, and warms up
    times: dict[str, list[tuple[float, float, int]]] = {EAGER: [], LAZY: []}
    for turn in range(rounds):
        for kind in (EAGER, LAZY) if turn % 2 else (LAZY, EAGER):
            times[kind].append(await _measured(number, tools, lock, kind is LAZY))
    assert {processes for *_, processes in times[LAZY]} == {1}
    print(f"{number} servers with {tools} tools each: first list, first call, processes")
    first = {}
    for kind, measured in times.items():
        first[kind], called = (statistics.median(m[n] for m in measured) for n in (0, 1))
        print(f"{kind:24} {first[kind]:8.1f} ms {called:8.1f} ms {measured[-1][2]:4}")
    print(
        f"A host with {number} servers lists its tools in {first[LAZY]:.0f} ms if they are lazy "
        f"and have a lock file; it takes {first[EAGER]:.0f} ms if all of them are started."
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lazy")
    parser.add_argument("--servers", type=int, default=10)
    parser.add_argument("--tools", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    anyio.run(_run, options.servers, options.tools, options.rounds)


if __name__ == "__main__":
    main()
