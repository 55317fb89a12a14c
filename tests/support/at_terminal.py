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

options: dict[str, Any] = {
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


def report(*words: object) -> None:
    # In one piece: what a person types is echoed in between otherwise.
    sys.stdout.write(" ".join(map(str, ("=", *words))) + "\n")
    sys.stdout.flush()


def server(message: dict[str, Any]) -> Any:
    match message["method"]:
        case "tools/list":
            return {"tools": [options["tool"]]}
        case "tools/call":
            sent.append(message["params"]["arguments"])
            return {"content": [{"type": "text", "text": "it ran"}]}
    return NotImplemented


async def call(session: Session, arguments: Any) -> None:
    try:
        result = await session.call_tool(options["tool"]["name"], arguments)
    except CallDenied as error:
        report("DENIED", error.source, error.reason)
    else:
        report("RESULT", result.text, json.dumps(sent[-1]))


async def released() -> None:
    """Until the test releases it, by a file."""
    while not Path(options["flag"]).exists():
        await anyio.sleep(0.01)


async def beside(scope: anyio.CancelScope) -> None:
    match options["do"]:
        case "print":
            await released()
            report("OTHER OUTPUT")
        case "cancel":
            await released()
            scope.cancel()
        case "listen":
            while True:  # a host that waits for its standard input, and leaves it there
                await anyio.wait_readable(sys.stdin)
                await anyio.sleep(0.01)


async def calls() -> None:
    timeouts = Timeouts(approval=options["seconds"])
    async with connect(MemoryServer(server), name="files", timeouts=timeouts) as session:
        if options["do"] == "ahead":
            report("TYPE AHEAD")
            await anyio.wait_readable(sys.stdin)
        async with anyio.create_task_group() as group:
            group.start_soon(beside, group.cancel_scope)
            if options["together"]:
                async with anyio.create_task_group() as asking:
                    for arguments in options["calls"]:
                        asking.start_soon(call, session, arguments)
            else:
                for arguments in options["calls"]:
                    await call(session, arguments)
            group.cancel_scope.cancel()


async def main() -> None:
    await calls()
    report("SETTINGS", "KEPT" if termios.tcgetattr(0) == before else "CHANGED")
    if options["do"] == "wait":
        report("WAITING")
        await anyio.sleep_forever()


before = termios.tcgetattr(0)
try:
    anyio.run(main, backend=options["backend"])
except KeyboardInterrupt:
    report("INTERRUPTED")
report("SENT", len(sent))
