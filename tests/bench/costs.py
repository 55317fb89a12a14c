"""What each protection costs a call, in microseconds.

    python -m tests.bench.costs

CPU time of one process, client and in-memory server together, so that differences are exact: each
row is a session with the protection less the same without it, run in turns; the best of seven. What
cannot be left out (the freezing of a call, the check of a frame's depth) is timed on its own.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import anyio

from mcp_client import (
    Allow,
    AuditLog,
    MemoryServer,
    Rule,
    Rules,
    Session,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.protocol.canonical_json import canonical, sha256
from mcp_client.protocol.jsonrpc import parse
from mcp_client.validation import Validation
from tests.bench.server import Server

_CALLS = 500
_ON_DISK = 320
_ROUNDS = 7
_PLAIN: dict[str, Any] = {
    "approval": allow_all,
    "validation": Validation(results="off", arguments="off"),
}


async def _allow(call: ToolCall) -> Allow:
    return Allow()


def _server() -> MemoryServer:
    server = Server(0)

    def respond(message: dict[str, Any]) -> Any:
        if "id" not in message:
            return None
        reported: dict[str, Any] = json.loads(server.answer(json.dumps(message).encode()) or "{}")
        return reported.get("result", NotImplemented)

    return MemoryServer(respond)


async def _seconds(session: Session, tool: str, arguments: Mapping[str, Any]) -> float:
    began = process_time()
    for _ in range(_CALLS):
        await session.call_tool(tool, dict(arguments))
    return (process_time() - began) / _CALLS


async def _difference(tool: str, base: dict[str, Any], more: dict[str, Any]) -> float:
    arguments = {"text": "hello"} if tool == "echo" else {}
    without, with_it = {**_PLAIN, **base}, {**_PLAIN, **base, **more}
    async with (
        connect(_server(), **without) as plain,
        connect(_server(), **with_it) as guarded,
    ):
        for session in (plain, guarded):
            await _seconds(session, tool, arguments)
        plains, guardeds = [], []
        for _ in range(_ROUNDS):
            plains.append(await _seconds(plain, tool, arguments))
            guardeds.append(await _seconds(guarded, tool, arguments))
    return min(guardeds) - min(plains)


async def _waiting(log: AuditLog, at_once: int) -> float:
    """Seconds of a call, of which ``at_once`` wait for the disk together."""
    async with connect(_server(), **_PLAIN, audit=log) as session:

        async def some() -> None:
            for _ in range(_ON_DISK // at_once):
                await session.call_tool("echo", {"text": "hello"})

        await session.list_tools()
        began = perf_counter()
        async with anyio.create_task_group() as tasks:
            for _ in range(at_once):
                tasks.start_soon(some)
        return (perf_counter() - began) / _ON_DISK


def _alone(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        began = process_time()
        for _ in range(2_000):
            work()
        best = min(best, (process_time() - began) / 2_000)
    return best


async def _measure(directory: Path) -> dict[str, float]:
    rules = Rules([*[Rule("deny", tool=f"delete_{n}") for n in range(9)], Rule("allow", tool="*")])
    frame = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}'
    arguments = {"text": "hello", "limit": 10, "tags": ["red", "green"]}
    check = {"validation": "strict"}
    async with connect(_server(), **_PLAIN) as session:
        await _seconds(session, "echo", {"text": "hello"})
        whole = min([await _seconds(session, "echo", {"text": "hello"}) for _ in range(_ROUNDS)])
    return {
        "a call without them, and an in-memory server's work": whole,
        "gate: an async hook instead of allow_all": await _difference(
            "echo", {}, {"approval": _allow}
        ),
        "gate: ten rules instead of allow_all": await _difference("echo", {}, {"approval": rules}),
        "freeze: arguments in canonical form, and their digest": _alone(
            lambda: sha256(canonical(arguments))
        ),
        "audit: a file": await _difference("echo", {}, {"audit": directory / "calls.jsonl"}),
        **{
            f"audit: fsync, {number} at once (seconds that pass, not CPU)": await _waiting(
                AuditLog(directory / f"on-disk-{number}.jsonl", fsync=True), number
            )
            for number in (1, 32)
        },
        "validation: arguments": await _difference(
            "echo", {}, {"validation": Validation(arguments="warn")}
        ),
        "validation: a result of twenty fields": await _difference("record", {}, check),
        "limits: a frame read with depth and shape, less json.loads": _alone(
            lambda: parse(frame, 64)
        )
        - _alone(lambda: json.loads(frame)),
    }


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as directory:
        for name, seconds in anyio.run(_measure, Path(directory)).items():
            print(f"{name:60}{seconds * 1e6:8.1f} us")


if __name__ == "__main__":
    main()
