"""A session belongs to the event loop in which it was opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from mcp_client import ConfigError, MemoryServer, Session, allow_all, connect
from tests.support.asking import LATEST, Asking


@pytest.mark.parametrize("other", ["asyncio", "trio"])
@pytest.mark.parametrize(
    "use",
    [
        lambda session: session.call_tool("plain"),
        lambda session: session.list_tools(),
        lambda session: session.get_tool("plain"),
        lambda session: session.ping(),
        lambda session: session.aclose(),
    ],
    ids=["call_tool", "list_tools", "get_tool", "ping", "aclose"],
)
async def test_using_a_session_in_another_event_loop_is_refused_before_anything_is_sent(
    use: Callable[[Session], Awaitable[Any]], other: str
) -> None:
    server = Asking(LATEST)
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.list_tools()
        sent = len(server.messages)
        with pytest.raises(ConfigError, match="belongs to another event loop"):
            await anyio.to_thread.run_sync(lambda: anyio.run(use, session, backend=other))
        assert len(server.messages) == sent
        assert (await session.call_tool("plain")).text == "plain"
