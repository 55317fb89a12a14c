"""The error of a connection that is not made, and what is remembered of one that was."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import pytest

from mcp_client import ConnectError, StdioServer, allow_all, connect
from mcp_client.connection import establish
from mcp_client.transports.memory import MemoryTransport


def test_only_so_many_servers_are_remembered_to_want_initialize() -> None:
    for number in range(300):
        establish._remember(number, True)
    establish._remember(299, False)
    establish._remember(None, True)
    assert list(establish._wants_initialize) == list(range(44, 299))


async def test_a_process_that_is_killed_before_it_answers_is_reported_by_its_signal() -> None:
    code = "import os; input(); os.kill(os.getpid(), 9)"
    with pytest.raises(ConnectError, match="was ended by signal 9 before") as caught:
        await connect(StdioServer(sys.executable, ["-S", "-c", code]))
    assert caught.value.exit_code == -9


async def test_a_connection_whose_caller_goes_just_before_it_is_ready_is_closed() -> None:
    made: list[MemoryTransport] = []
    almost_ready = anyio.Event()

    def server(message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                return {"tools": [{"name": "run", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                return {"content": []}
        return NotImplemented

    class Slow(MemoryTransport):
        def clone(self) -> MemoryTransport:
            made.append(Slow(server))
            return made[-1]

        async def ready(self) -> None:
            if made == [self]:
                almost_ready.set()
                await anyio.sleep_forever()

    first = Slow(server)
    async with connect(first, approval=allow_all) as session:
        first.end()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.call_tool, "run")
            await almost_ready.wait()
            tasks.cancel_scope.cancel()
        assert not made[0].alive
        await session.call_tool("run")
