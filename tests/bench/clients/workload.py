"""The work, the same for every contender, and the clock it is measured with.

A contender is a script. It measures its own import before it imports this, and passes a
function that connects and returns a ``Peer``. The clock is the CPU time of the process,
user and system, of all its threads and none of its children: the server is not in it.

It imports little, for what it imports counts in the cold start of all.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - the floor is bare asyncio, and all are driven by the same loop
import gc
import json
import resource
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from time import perf_counter, process_time
from typing import Any

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "floor", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]

BIG = 8 * 1024 * 1024
TOOLS = 10_000
_ECHOES = 2_000
_TOGETHER = 32
_ASLEEP = 1_000
_SECONDS = 0.8
_RECORDS = 1_000
_LISTS = 3
_BIGS = 6
_WARM = 100
_SESSIONS = 200


class Peer:
    """A connected contender: how to call, and how to read the response."""

    def __init__(
        self,
        call: Call,
        count_tools: Callable[[], Awaitable[int]],
        text: Callable[[Any], str],
        structured: Callable[[Any], Any],
    ) -> None:
        self.call = call
        self.count_tools = count_tools
        """List every page again, past any cache, and count the tools."""
        self.text = text
        self.structured = structured


Connect = Callable[[list[str]], AbstractAsyncContextManager[Peer]]


def main(import_seconds: float, connect: Connect) -> None:
    """``script.py ROW SERVER...``: print ``{"figure": seconds}``, of one unit of the row's work.

    Of the row ``memory`` it is bytes. ``passed`` are the seconds that passed, where they count.
    """
    row, *server = sys.argv[1:]
    if row == "import":
        figures = {"figure": import_seconds}
    else:
        figures = asyncio.run(_run(row, server, connect))
    print(json.dumps(figures))


def where(server: list[str]) -> str | list[str]:
    """The URL of a server that runs already, or else the command that starts one."""
    return server[0] if server[0].startswith("http://") else server


async def _run(row: str, server: list[str], connect: Connect) -> dict[str, float]:
    async with connect(server) as peer:
        if row == "cold":
            await _echo_once(peer)
            return {"figure": process_time()}
        await _echo_once(peer)
        if row in _OPENED:
            return {"figure": await _sessions(server, connect, _OPENED[row])}
        work, units = _ROWS[row]
        await work(peer, True)
        gc.collect()
        began, started = perf_counter(), process_time()
        await work(peer, False)
        figure = (process_time() - started) / units
        return {"figure": figure, "passed": (perf_counter() - began) / units}


async def _sessions(server: list[str], connect: Connect, clock: Callable[[], float]) -> float:
    async with AsyncExitStack() as opened:
        gc.collect()
        started = clock()
        peers = [await opened.enter_async_context(connect(server)) for _ in range(_SESSIONS)]
        taken = (clock() - started) / _SESSIONS
        for peer in peers:
            await _echo_once(peer)
        return taken


def _resident() -> float:
    """Bytes of this process that are in memory, garbage not counted. Linux only."""
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


async def _echo_once(peer: Peer) -> None:
    _expect(peer.text(await peer.call("echo", {"text": "hello"})), "hello")


async def _echo(peer: Peer, warming: bool) -> None:
    call = peer.call
    for _ in range(_WARM if warming else _ECHOES):
        await call("echo", {"text": "hello"})


async def _echo_together(peer: Peer, warming: bool) -> None:
    async def some() -> None:
        call = peer.call
        for _ in range(_WARM // _TOGETHER if warming else _ECHOES // _TOGETHER):
            await call("echo", {"text": "hello"})

    await asyncio.gather(*[some() for _ in range(_TOGETHER)])


async def _big(peer: Peer, warming: bool) -> None:
    for _ in range(1 if warming else _BIGS):
        _expect(len(peer.text(await peer.call("big", {"bytes": BIG}))), BIG)


async def _list(peer: Peer, warming: bool) -> None:
    for _ in range(1 if warming else _LISTS):
        _expect(await peer.count_tools(), TOOLS)


async def _sleep(peer: Peer, warming: bool) -> None:
    call, count = peer.call, _WARM if warming else _ASLEEP
    results = await asyncio.gather(*[call("sleep", {"seconds": _SECONDS}) for _ in range(count)])
    _expect(peer.text(results[-1]), str(count))


async def _record(peer: Peer, warming: bool) -> None:
    call = peer.call
    for _ in range(_WARM if warming else _RECORDS):
        result = await call("record", {})
    _expect(len(peer.structured(result)), 20)


_ROWS: dict[str, tuple[Callable[[Peer, bool], Awaitable[None]], int]] = {
    "echo": (_echo, _ECHOES),
    "together": (_echo_together, _ECHOES // _TOGETHER * _TOGETHER),
    "big": (_big, _BIGS),
    "list": (_list, _LISTS),
    "sleep": (_sleep, 1),
    "record": (_record, _RECORDS),
}


_OPENED: dict[str, Callable[[], float]] = {"sessions": process_time, "memory": _resident}


def _expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise SystemExit(f"the work was not done: {found!r:.80} where {wanted!r:.80} was due")
