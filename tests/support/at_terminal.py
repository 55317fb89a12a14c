"""A host whose calls are approved at the terminal; its argument chooses what it does.

Lines that start with "= " report what happened.
"""

from __future__ import annotations

import json
import signal
import sys
import termios
from pathlib import Path
from typing import Any

import anyio

from mcp_client import CallDenied, MemoryServer, Session, Timeouts, connect

given: dict[str, Any] = {
    "backend": "asyncio",
    "tool": {"name": "rm", "inputSchema": {"type": "object"}},
    "calls": [{"path": "/"}],
    "together": False,
    "seconds": 600,
    "do": "",
    "flag": "",
    **json.loads(sys.argv[1]),
}
sent: list[Any] = []
# As a shell starts what runs in front: a job that runs behind has its children ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


def say(*words: object) -> None:
    # In one piece: what a person types is echoed in between otherwise.
    sys.stdout.write(" ".join(map(str, ("=", *words))) + "\n")
    sys.stdout.flush()


def server(message: dict[str, Any]) -> Any:
    match message["method"]:
        case "tools/list":
            return {"tools": [given["tool"]]}
        case "tools/call":
            sent.append(message["params"]["arguments"])
            return {"content": [{"type": "text", "text": "it ran"}]}
    return NotImplemented


async def call(session: Session, arguments: Any) -> None:
    try:
        result = await session.call_tool(given["tool"]["name"], arguments)
    except CallDenied as error:
        say("DENIED", error.source, error.reason)
    else:
        say("RESULT", result.text, json.dumps(sent[-1]))


async def told() -> None:
    """Until the test releases it, by a file."""
    while not Path(given["flag"]).exists():
        await anyio.sleep(0.01)


async def beside(scope: anyio.CancelScope) -> None:
    match given["do"]:
        case "print":
            await told()
            say("OTHER OUTPUT")
        case "cancel":
            await told()
            scope.cancel()
        case "listen":
            while True:  # a host that waits for its standard input, and leaves it there
                await anyio.wait_readable(sys.stdin)
                await anyio.sleep(0.01)


async def calls() -> None:
    timeouts = Timeouts(approval=given["seconds"])
    async with connect(MemoryServer(server), name="files", timeouts=timeouts) as session:
        if given["do"] == "ahead":
            say("TYPE AHEAD")
            await anyio.wait_readable(sys.stdin)
        async with anyio.create_task_group() as group:
            group.start_soon(beside, group.cancel_scope)
            if given["together"]:
                async with anyio.create_task_group() as asking:
                    for arguments in given["calls"]:
                        asking.start_soon(call, session, arguments)
            else:
                for arguments in given["calls"]:
                    await call(session, arguments)
            group.cancel_scope.cancel()


async def main() -> None:
    await calls()
    say("SETTINGS", "KEPT" if termios.tcgetattr(0) == before else "CHANGED")
    if given["do"] == "wait":
        say("WAITING")
        await anyio.sleep_forever()


before = termios.tcgetattr(0)
try:
    anyio.run(main, backend=given["backend"])
except KeyboardInterrupt:
    say("INTERRUPTED")
say("SENT", len(sent))
