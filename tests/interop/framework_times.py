"""What a start and a call cost with the official client and with this one: run by name.

``python -m tests.interop.framework_times``, by the Python with the frameworks, prints for three of
them the milliseconds of a start (until the tools are there) and of a call, over stdio. Both clients
run in one process, in turns. Nothing depends on these numbers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from statistics import median
from typing import Any

import anyio

from mcp_client import StdioServer, allow_all, connect
from mcp_client.adapters import official

WORDS = [sys.executable, "examples/servers/weather.py"]
OSLO = {"location": "Oslo"}
STARTS, CALLS = 5, 100
mcp: Any = import_module("mcp")
stdio: Any = import_module("mcp.client.stdio")


@asynccontextmanager
async def official_client() -> AsyncIterator[Any]:
    parameters = stdio.StdioServerParameters(command=WORDS[0], args=WORDS[1:])
    async with stdio.stdio_client(parameters) as streams, mcp.ClientSession(*streams) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def our_client() -> AsyncIterator[Any]:
    server = StdioServer(WORDS[0], WORDS[1:])
    async with connect(server, revision="handshake", approval=allow_all) as session:
        yield official.client_session(session)


async def langchain(session: Any) -> Callable[[], Awaitable[Any]]:
    tools = await import_module("langchain_mcp_adapters.tools").load_mcp_tools(session)
    return lambda: tools[0].ainvoke(OSLO)


async def dspy(session: Any) -> Callable[[], Awaitable[Any]]:
    (first, *_) = (await session.list_tools()).tools
    tool = import_module("dspy").Tool.from_mcp_tool(session, first)
    return lambda: tool.acall(**OSLO)


async def llama_index(session: Any) -> Callable[[], Awaitable[Any]]:
    spec = import_module("llama_index.tools.mcp").McpToolSpec(client=session)
    (first, *_) = await spec.to_tool_list_async()
    return lambda: first.acall(**OSLO)


async def measure(client: Any, framework: Any) -> tuple[float, float]:
    """Return the milliseconds of a start and of a call."""
    began = time.perf_counter()
    async with client() as session:
        call = await framework(session)
        start = time.perf_counter() - began
        times = []
        for _ in range(CALLS):
            began = time.perf_counter()
            await call()
            times.append(time.perf_counter() - began)
    return start * 1000, median(times) * 1000


async def main() -> None:
    print(f"{'':14}{'start, official':>16}{'ours':>8}{'call, official':>16}{'ours':>8}   (ms)")
    for framework in (langchain, dspy, llama_index):
        await measure(our_client, framework)  # imports what it needs
        found: list[tuple[float, ...]] = []
        for _ in range(STARTS):
            one, other = [await measure(c, framework) for c in (official_client, our_client)]
            found.append((one[0], other[0], one[1], other[1]))
        one_start, our_start, one_call, our_call = (
            median(each) for each in zip(*found, strict=True)
        )
        numbers = f"{one_start:16.1f}{our_start:8.1f}{one_call:16.2f}{our_call:8.2f}"
        print(f"{framework.__name__:14}{numbers}")


if __name__ == "__main__":
    anyio.run(main)
