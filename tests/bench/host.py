"""What many servers cost as one set of tools: CPU time of the client process, and seconds.

    python -m tests.bench.host [--servers 50] [--tools 200] [--calls 1000] [--rounds 9]

Opens one host over so many servers (``server.py``, a process each) with so many tools each, lists
them all, lists them again with nothing changed, searches them, and makes the calls spread over all
servers: through ``host.call_tool``, and through ``call_tool`` of each server's session. Those two
take turns, round by round, so that whatever else the machine does meets both alike; the last line
is the median of the rounds' ratios. Nothing is asserted but that the work was done.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio

from mcp_client import Host, StdioServer, Timeouts, allow_all
from tests.bench import rounds

SERVER = Path(__file__).with_name("server.py")
QUERIES = ("entry 17", "look up by key", "tool number 42", "what is known")


def _server(tools: int) -> StdioServer:
    return StdioServer(sys.executable, ["-I", str(SERVER), "--tools", str(tools)])


async def _timed(what: str, work: Callable[[], Awaitable[object]], times: int = 1) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        await work()
    wall, cpu = (time.perf_counter() - wall) / times, (time.process_time() - cpu) / times
    print(f"{what:42} {cpu * 1e3:9.2f} ms CPU {wall * 1e3:9.1f} ms", flush=True)


async def _run(servers: int, tools: int, calls: int, turns: int) -> None:
    named = {f"server{number}": _server(tools) for number in range(servers)}
    host = Host(named, approval=allow_all, timeouts=Timeouts(connect=120, close=0.5))
    try:
        await _timed(f"{servers} servers opened and listed", host._open)
        found = len(await host.list_tools())
        assert found == servers * tools, found
        await _timed(f"{found} tools listed again, fetched", lambda: host.list_tools(refresh=True))
        await _timed("the list while nothing changed", host.list_tools, 20)
        await _timed("first search", lambda: host.search_tools(QUERIES[0]))
        for query in QUERIES[1:]:
            await _timed(f"search {query!r}", partial(host.search_tools, query), 20)
        await _compare(host, list(named), calls, turns)
    finally:
        await _timed("closed", host.aclose)


async def _compare(host: Host, names: list[str], calls: int, turns: int) -> None:
    sessions = host.sessions

    async def through_sessions() -> None:
        for number in range(calls):
            session = sessions[names[number % len(names)]]
            await session.call_tool("echo", {"text": "x"}, timeout=10)

    async def through_host() -> None:
        for number in range(calls):
            await host.call_tool(names[number % len(names)] + "__echo", {"text": "x"}, timeout=10)

    taken: dict[str, list[float]] = {"session": [], "host": []}
    for turn in range(turns + 1):
        pair = [("session", through_sessions), ("host", through_host)]
        for who, work in pair if turn % 2 else reversed(pair):
            began = time.process_time()
            await work()
            if turn:  # the first is for nothing
                taken[who].append(time.process_time() - began)
    for who, seconds in taken.items():
        print(f"{calls} calls, {who}.call_tool {statistics.median(seconds) / calls * 1e6:22.1f} us")
    ratios = [mine / theirs for mine, theirs in zip(taken["host"], taken["session"], strict=True)]
    print(f"host/session {statistics.median(ratios):.3f} (target <= 1.10)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.host")
    parser.add_argument("--servers", type=int, default=50)
    parser.add_argument("--tools", type=int, default=200)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    chosen = parser.parse_args()
    print(f"Python {platform.python_version()}, {rounds.pin()}")
    anyio.run(_run, chosen.servers, chosen.tools, chosen.calls, chosen.rounds)


if __name__ == "__main__":
    main()
