"""What the shapes of the providers cost: a toolset of a thousand tools, and a model's calls.

    python -m tests.bench.adapters [--rounds 5]

Everything runs in one process, against a server in memory. Nothing is asserted: the table is for
reading. Figures are CPU time, the medians of their rounds. "first" reads every schema; "again" is
what each later request of an agent costs, with the same list of tools. A call through ``run`` is
compared with one through ``call_tool``; eight calls are those of one response.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Awaitable, Callable
from functools import partial
from time import process_time
from types import ModuleType
from typing import Any

import anyio

from mcp_client import Session, allow_all, connect
from mcp_client.catalog.tool import Tool
from tests.bench.catalogue import server
from tests.bench.server import _definitions
from tests.support.provider_shapes import PROVIDERS

_TOOLS = 1_000
_CALLS = 200
_ECHO = {"text": "a"}


def _tools() -> list[Tool]:
    return [Tool(one["name"], "bench", False, one) for one in _definitions(_TOOLS)]


def making(module: ModuleType, options: dict[str, bool], rounds: int) -> tuple[float, float, int]:
    """Seconds to make a toolset first and again, and the length of its tools as JSON."""
    first: list[float] = []
    again: list[float] = []
    size = 0
    for _ in range(rounds):
        tools = _tools()
        for times in (first, again):
            started = process_time()
            kit = module.toolset(tools, **options)
            times.append(process_time() - started)
            size = len(json.dumps(kit.tools))
    return statistics.median(first), statistics.median(again), size


async def _timed(rounds: int, call: Callable[[], Awaitable[Any]], calls: int) -> float:
    """Seconds a call."""
    await call()
    found = []
    for _ in range(rounds):
        started = process_time()
        for _ in range(_CALLS // calls):
            await call()
        found.append((process_time() - started) / _CALLS)
    return statistics.median(found)


async def running(session: Session, rounds: int) -> None:
    tools = await session.list_tools()
    plain = await _timed(rounds, lambda: session.call_tool("echo", _ECHO), 1)
    print(f"call_tool                      {plain * 1e6:7.0f} us")
    for provider in PROVIDERS:
        kit = provider.toolset(tools)
        for count in (1, 8):
            wanted = [(str(number), "echo", _ECHO) for number in range(count)]
            response = provider.response(wanted)
            one = await _timed(rounds, partial(kit.run, session, response), count)
            what = f"run of {count}, {provider.name}"
            print(f"{what:30} {one * 1e6:7.0f} us a call   {one / plain:5.2f} of call_tool")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    for module in [provider.module for provider in PROVIDERS]:
        for options in ({}, {"strict": True}, {"search": True}):
            first, again, size = making(module, options, rounds)
            what = f"{module.__name__.rpartition('.')[2]} {' '.join(options)}"
            print(
                f"{_TOOLS:,} tools {what:24} {first * 1e3:7.1f} ms first {again * 1e3:7.1f} ms "
                f"again   {size / 1024:7.0f} KiB"
            )
    async with connect(server(_TOOLS), approval=allow_all) as session:
        await running(session, rounds)


if __name__ == "__main__":
    anyio.run(main)
