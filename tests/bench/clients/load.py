"""One case of ``tests.bench.load`` with one client: ``load.py ours|official CASE TARGET...``.

Prints one line of JSON: CPU and wall seconds of the case, resident memory before it and at its
highest during it, and what shows that the work was done.
"""
# mypy: ignore-errors
# The official SDK lives in an environment of its own, out of the type checker's sight.

import gc
import json
import resource
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

SESSIONS = 1_000
IN_FLIGHT = 10_000
ASLEEP = 15.0
BIG = 64 * 1024 * 1024


@asynccontextmanager
async def ours(target):
    from mcp_client import Limits, StdioServer, Timeouts, allow_all, connect

    server = target[0] if len(target) == 1 else StdioServer(target[0], target[1:])
    limits = Limits(message_bytes=4 * BIG)
    clocks = Timeouts(connect=120, idle=300, total=600)
    async with connect(server, approval=allow_all, limits=limits, timeouts=clocks) as session:

        async def every_tool():
            return await session.list_tools()

        async def call(name, arguments):
            return (await session.call_tool(name, arguments)).text

        yield call, every_tool


@asynccontextmanager
async def official(target):
    import mcp
    from mcp.client.stdio import stdio_client

    at = target[0]
    if len(target) > 1:
        at = stdio_client(mcp.StdioServerParameters(command=target[0], args=list(target[1:])))
    async with mcp.Client(at) as client:

        async def every_tool():
            page = await client.list_tools()
            found = list(page.tools)
            while page.next_cursor is not None:
                page = await client.list_tools(cursor=page.next_cursor)
                found += page.tools
            return found

        async def call(name, arguments):
            return (await client.call_tool(name, arguments)).content[0].text

        yield call, every_tool


async def sessions(connect, target):
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(connect(target)) for _ in range(SESSIONS)]
        echoed = [await call("echo", {"text": "x"}) for call, _ in opened]
        gc.collect()
        return {"answered": echoed.count("x"), "kib_each": (_now() - BEFORE) / SESSIONS}


async def in_flight(connect, target):
    most = [0]
    async with connect(target) as (call, every_tool):
        await every_tool()

        async def one():
            most[0] = max(most[0], int(await call("sleep", {"seconds": ASLEEP})))

        async with anyio.create_task_group() as tasks:
            for _ in range(IN_FLIGHT):
                tasks.start_soon(one)
    return {"at_once": most[0]}


async def big(connect, target):
    async with connect(target) as (call, _):
        return {"characters": len(await call("big", {"bytes": BIG}))}


async def tools(connect, target):
    async with connect(target) as (_, every_tool):
        listed = await every_tool()
        return {"tools": len(listed)}


def _now():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def main():
    connect = {"ours": ours, "official": official}[sys.argv[1]]
    case = {"sessions": sessions, "in-flight": in_flight, "big": big, "tools": tools}[sys.argv[2]]
    wall, cpu = time.perf_counter(), time.process_time()
    taken = anyio.run(case, connect, sys.argv[3:])
    reported = {
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "before_kib": BEFORE,
        "most_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        **taken,
    }
    print(json.dumps(reported))


if sys.argv[1] == "ours":
    import httpx  # noqa: F401 - both have loaded what they need before memory is read

    import mcp_client  # noqa: F401
else:
    import mcp  # noqa: F401
BEFORE = _now()

if __name__ == "__main__":
    main()
