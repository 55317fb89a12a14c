"""What ten thousand tools cost: to list, to keep, to search, and on the way of a call.

    python -m tests.bench.catalogue [--rounds 5]

Everything runs in one process, against a server in memory. Nothing is asserted: the table is for
reading. Ratios travel from machine to machine, absolute figures do not. A list is judged, looked
through and stored; ``pages`` is 100 tools each. The latency of a call is the median of its rounds,
each of 300 calls in a row, and is given as a ratio to that with 10 tools.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import tracemalloc
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import anyio

from mcp_client import MemoryServer, Pins, Tool, allow_all, connect
from mcp_client.catalog.tool_index import ToolIndex
from tests.bench.server import PAGE, _definitions

_CALLS = 300
_SIZES = (10, 1_000, 10_000)


def server(count: int) -> MemoryServer:
    definitions = _definitions(count)

    def respond(message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                at = int((message.get("params") or {}).get("cursor", 0))
                more = {"nextCursor": str(at + PAGE)} if at + PAGE < count else {}
                return {"tools": definitions[at : at + PAGE], **more}
            case "tools/call":
                return {"content": [{"type": "text", "text": "ok"}]}
        return NotImplemented

    return MemoryServer(respond)


async def listing(count: int, rounds: int) -> float:
    """Seconds of CPU to list once, the server's own work and the wire included."""
    found = []
    async with connect(server(count)) as session:
        for _ in range(rounds):
            started = process_time()
            assert len(await session.list_tools(refresh=True)) == count
            found.append(process_time() - started)
    return statistics.median(found)


async def memory(count: int) -> tuple[int, int]:
    """Bytes stored for the list, and the length of the same as JSON."""
    text = len(json.dumps(_definitions(count)))
    async with connect(server(count)) as session:
        tracemalloc.start()
        await session.list_tools()
        stored = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    return stored, text


async def calling(rounds: int) -> dict[int, float]:
    """Seconds a call, by how many tools are cached; the sizes take turns."""
    found: dict[int, list[float]] = {count: [] for count in _SIZES}
    for _ in range(rounds):
        for count in _SIZES:
            async with connect(server(count), approval=allow_all) as session:
                await session.call_tool("echo", {"text": "a"})
                started = perf_counter()
                for _ in range(_CALLS):
                    await session.call_tool("echo", {"text": "a"})
                found[count].append((perf_counter() - started) / _CALLS)
    return {count: statistics.median(times) for count, times in found.items()}


async def pinning(count: int) -> tuple[float, float]:
    """Seconds to list with a lock file: the first time, and when nothing has changed."""
    with tempfile.TemporaryDirectory() as directory:
        pins = Pins(Path(directory) / "mcp.lock")
        async with connect(server(count), name="bench", pins=pins) as session:
            started = perf_counter()
            await session.list_tools()
            first = perf_counter() - started
            started = perf_counter()
            await session.list_tools(refresh=True)
            return first, perf_counter() - started


_QUERIES = ("read a file", "weather", "item 77 as text", "tool echo text of the item and the name")


def searching(count: int, rounds: int) -> tuple[float, float, float]:
    """Seconds of CPU: to index in all, the longest slice of it, and for the slowest query."""
    tools = [
        Tool(each["name"], "bench", False, each, _qualified_name=f"bench__{each['name']}")
        for each in _varied(count)
    ]
    index = ToolIndex(tools)
    slices = [process_time()]
    while index.read():
        slices.append(process_time())
    slices.append(process_time())
    longest = max(end - begin for begin, end in pairwise(slices))
    found: dict[str, list[float]] = {query: [] for query in _QUERIES}
    for _ in range(rounds):
        for query, times in found.items():
            started = process_time()
            index.search(query, 8)
            times.append(process_time() - started)
    slowest = max(statistics.median(times) for times in found.values())
    return slices[-1] - slices[0], longest, slowest


def _varied(count: int) -> list[dict[str, Any]]:
    nouns = ("file", "issue", "user", "channel", "invoice", "calendar", "page", "table", "image")
    verbs = ("get", "list", "create", "delete", "update", "search", "send", "read")
    return [
        {
            "name": f"{verb}_{noun}_{number}",
            "description": f"{verb.title()} the {noun} {number} and return the text of the item as "
            f"JSON. Use this tool to {verb} a {noun} by its id or name.",
            "inputSchema": {"type": "object", "properties": {"id": {}, f"{noun}Name": {}}},
        }
        for number in range(count)
        for verb, noun in [(verbs[number % len(verbs)], nouns[number // 7 % len(nouns)])]
    ]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    small, large = await listing(1_000, rounds), await listing(10_000, rounds)
    print(f"list  1,000 tools   {small * 1e3:8.1f} ms   {small * 1e3:6.1f} us a tool")
    print(f"list 10,000 tools   {large * 1e3:8.1f} ms   {large * 1e2:6.1f} us a tool", end="")
    print(f"   {large / small:.1f} times as much for 10 times as many")
    stored, text = await memory(10_000)
    print(
        f"keep 10,000 tools   {stored / 2**20:8.1f} MiB  {stored / text:6.1f} bytes a byte of JSON"
    )
    first, again = await pinning(10_000)
    print(f"pin  10,000 tools   {first * 1e3:8.1f} ms first, {again * 1e3:.1f} ms unchanged")
    indexed, longest, search = searching(20_000, rounds)
    print(f"index 20,000 tools  {indexed * 1e3:8.1f} ms, at most {longest * 1e3:.1f} ms at a time")
    print(f"search 20,000 tools {search * 1e3:8.2f} ms")
    latency = await calling(rounds)
    for count, seconds in latency.items():
        ratio = seconds / latency[_SIZES[0]]
        print(f"call with {count:6,} cached {seconds * 1e6:6.0f} us   {ratio:6.2f}")


if __name__ == "__main__":
    anyio.run(main)
