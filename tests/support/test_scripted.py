"""The scripted server itself: what other tests take for granted."""

from __future__ import annotations

import pytest

from mcp_client import allow_all, connect
from tests.support.scripted import TOOLS
from tests.support.starting import scripted


@pytest.mark.parametrize(
    ("era", "revision"), [("handshake", "2025-11-25"), ("stateless", "2026-07-28")]
)
async def test_it_speaks_both_eras_and_lists_its_tools(era: str, revision: str) -> None:
    async with connect(scripted("--era", era), approval=allow_all) as session:
        assert session.protocol_version == revision
        assert [tool.name for tool in await session.list_tools()] == TOOLS
        result = await session.call_tool("echo", {"a": [1, "ä"]})
        assert result.text == '{"a": [1, "\\u00e4"]}'
