"""What ours takes with something that costs, and without it, in one process.

    own.py ROW SERVER...

Prints ``{"figure": ..., "base": ...}``, seconds of CPU each unless the row is marked otherwise.
``base`` is the same without. The server is a command, or in memory where that is all the same.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

import anyio

from mcp_client import (
    Allow,
    FileState,
    MemoryServer,
    Rule,
    Rules,
    Session,
    Tool,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.adapters import anthropic
from mcp_client.approval import quick
from mcp_client.state import MemoryState, State
from tests.bench import catalogue, growth, sandbox, state

Figures = dict[str, float]

_CALLS = 300
_GROUPS = 7
_TOOLS = 20_000
_WATCHED_SECONDS = 4.0
_INNER_CALLS = 50


async def _import_sync(server: list[str]) -> Figures:
    """What a script that is not async imports, each time in a fresh process."""

    async def imported(names: str) -> float:
        timed = f"from time import process_time\nbegan = process_time()\n{names}\n"
        code = f"{timed}print(process_time() - began)"
        return float((await anyio.run_process([sys.executable, "-c", code])).stdout)

    return await _in_turns(
        lambda: imported("from mcp_client.sync import connect"),
        lambda: imported("from mcp_client import Allow, StdioServer, connect"),
    )


def _beside_plain(**options: Any) -> Callable[[list[str]], Awaitable[Figures]]:
    """A call with these options, beside one with ``allow_all`` and nothing else."""

    async def work(server: list[str]) -> Figures:
        async with (
            connect(server, **{"approval": allow_all, **options}) as chosen,
            connect(server, approval=allow_all) as plain,
        ):
            return await _in_turns(lambda: _echoes(chosen), lambda: _echoes(plain))

    return work


async def _ask(call: ToolCall) -> Allow:
    return Allow()


def _decide(call: ToolCall) -> Allow:
    return Allow()


@quick
def _decide_quickly(call: ToolCall) -> Allow:
    return Allow()


_RULES = Rules([Rule("deny", tool="delete_*"), Rule("allow", tool="echo")])


async def _audit(server: list[str]) -> Figures:
    """A call that is recorded in a file."""
    with tempfile.TemporaryDirectory() as directory:
        return await _beside_plain(audit=Path(directory, "calls.jsonl"))(server)


async def _many(server: list[str]) -> Figures:
    """A call with 1,000 in flight, beside one with 32."""

    def some(count: int) -> Callable[[], Awaitable[float]]:
        async def work() -> float:
            began = time.process_time()
            await growth._echoes(session, count)
            return (time.process_time() - began) / (count * max(2, growth._CALLS // count))

        return work

    async with connect(server, approval=allow_all) as session:
        return await _in_turns(some(1_000), some(32))


async def _toolset(server: list[str]) -> Figures:
    """A tool that ``toolset`` declares to a model, of 20,000, beside one of 1,000."""

    def some(tools: Sequence[Tool]) -> Callable[[], Awaitable[float]]:
        async def work() -> float:
            began = time.process_time()
            assert anthropic.toolset(tools).tools
            return (time.process_time() - began) / len(tools)

        return work

    async with connect(_catalogue()) as session:
        tools = list(await session.list_tools())
        return await _in_turns(some(tools), some(tools[:1_000]))


async def _search(server: list[str]) -> Figures:
    """The first ``search_tools`` over 20,000 tools."""
    async with connect(_catalogue()) as session:
        await session.list_tools()
        began = time.process_time()
        assert await session.search_tools("read a file")
        return {"figure": time.process_time() - began}


async def _search_block(server: list[str]) -> Figures:
    """How long that keeps the event loop from its other work, at most."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began = time.thread_time()
            await anyio.lowlevel.checkpoint()
            longest = max(longest, time.thread_time() - began)

    async with connect(_catalogue()) as session:
        await session.list_tools()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await anyio.lowlevel.checkpoint()
            assert await session.search_tools("read a file")
            tasks.cancel_scope.cancel()
    return {"figure": longest}


def _catalogue() -> MemoryServer:
    """Its list holds for a time, so that a search does not ask for it again."""
    tools = {"tools": catalogue._varied(_TOOLS), "ttlMs": 600_000}
    known = {"tools/list": tools}
    return MemoryServer(lambda message: known.get(message["method"], NotImplemented))


async def _idle(server: list[str]) -> Figures:
    """How often a session that is watched, and has nothing to do, wakes the process: a second."""

    async def watch() -> None:
        async for _ in session.tool_changes():
            pass

    async with (
        connect(server, revision="2025-11-25") as session,
        anyio.create_task_group() as tasks,
    ):
        await session.list_tools()
        tasks.start_soon(watch)
        try:
            await anyio.sleep(0.5)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
            await anyio.sleep(_WATCHED_SECONDS)
            woken = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before
        finally:
            tasks.cancel_scope.cancel()
    return {"figure": max(0, woken - 2) / _WATCHED_SECONDS}  # its own sleep begins and ends


async def _state(stored: State, *, key: bool) -> Figures:
    """A call that a remembered yes covers and the state's audit records; ``key``: with an
    idempotency key. The same with a ``MemoryState`` is the base."""
    async with AsyncExitStack() as opened:
        sessions = [
            await opened.enter_async_context(
                connect(state.Known(), name="bench", approval=state.approve, state=one)
            )
            for one in (stored, MemoryState())
        ]
        taken: list[list[float]] = [[], []]
        for number in range(-1, _GROUPS):
            for session, found in zip(sessions, taken, strict=True):
                _, worked = await state._group(session, f"{number}", key)
                found += [worked] if number >= 0 else []
    return dict(zip(("figure", "base"), map(median, taken), strict=True))


async def _directory(server: list[str], *, key: bool = False) -> Figures:
    with tempfile.TemporaryDirectory() as directory:
        return await _state(FileState(Path(directory, "state")), key=key)


async def _directory_key(server: list[str]) -> Figures:
    return await _directory(server, key=True)


async def _postgres(server: list[str], *, key: bool = False) -> Figures:
    from mcp_client.state import PostgresState
    from tests.support.postgres import PostgresServer, new_cluster

    cluster = new_cluster()
    try:
        with PostgresServer(cluster, fsync="on") as database:
            stored = PostgresState(database.new_database())
            try:
                return await _state(stored, key=key)
            finally:
                stored.close()
    finally:
        shutil.rmtree(cluster)


async def _postgres_key(server: list[str]) -> Figures:
    return await _postgres(server, key=True)


async def _code(server: list[str]) -> Figures:
    """A call that a script makes, with its part of the run, beside a plain one."""
    from tests.code.worlds import run

    async def script() -> float:
        began = time.process_time()
        await run(session, code)
        return (time.process_time() - began) / _INNER_CALLS

    code = f"for n in range({_INNER_CALLS}):\n    await bench.echo(text='hello')\n'done'"
    async with connect(server, name="bench", approval=allow_all) as session:
        return await _in_turns(script, lambda: _echoes(session))


async def _sandbox(server: list[str]) -> Figures:
    """Seconds that pass until a sandboxed server's tools are listed."""
    await sandbox.measure("auto", 1)
    opened: list[list[float]] = [[], []]
    for _ in range(3):
        for engine, found in zip(("auto", None), opened, strict=True):
            found.append((await sandbox.measure(engine, 1))[0])
    return dict(zip(("figure", "base"), map(median, opened), strict=True))


async def _echoes(session: Session) -> float:
    began = time.process_time()
    for _ in range(_CALLS):
        await session.call_tool("echo", {"text": "hello"})
    return (time.process_time() - began) / _CALLS


async def _in_turns(
    work: Callable[[], Awaitable[float]], base: Callable[[], Awaitable[float]]
) -> Figures:
    taken = [(await work(), await base()) for _ in range(_GROUPS + 1)][1:]
    figure, without = (median(each) for each in zip(*taken, strict=True))
    return {"figure": figure, "base": without}


WORK: dict[str, Callable[[list[str]], Awaitable[Figures]]] = {
    "import-sync": _import_sync,
    "hook": _beside_plain(approval=_ask),
    "function": _beside_plain(approval=_decide),
    "quick": _beside_plain(approval=_decide_quickly),
    "rules": _beside_plain(approval=_RULES),
    "audit": _audit,
    "many": _many,
    "toolset": _toolset,
    "search": _search,
    "search-block": _search_block,
    "idle": _idle,
    "folder": _directory,
    "folder-key": _directory_key,
    "postgres": _postgres,
    "postgres-key": _postgres_key,
    "code": _code,
    "sandbox": _sandbox,
}


def main() -> None:
    row, *server = sys.argv[1:]
    sys.path[0] = os.getcwd()
    reported: Any = anyio.run(WORK[row], server)
    print(json.dumps(reported))


if __name__ == "__main__":
    main()
