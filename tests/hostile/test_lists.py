"""Lists without an end, and malformed ones: complete or an error, never short."""

from __future__ import annotations

import pytest

from mcp_client import Limits, connect
from mcp_client.errors import ProtocolViolation
from tests.support.starting import scripted

pytestmark = pytest.mark.one_backend


async def test_an_empty_cursor_is_a_cursor() -> None:
    async with connect(scripted("--list", "empty-cursor")) as session:
        assert (await session.list_tools())[-1].name == "more-"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("endless", r"more than 5 pages \(Limits.pages\)"),
        ("no-array", "without an array"),
    ],
)
async def test_an_incomplete_list_is_an_error(kind: str, reason: str) -> None:
    async with connect(scripted("--list", kind), limits=Limits(pages=5)) as session:
        with pytest.raises(ProtocolViolation, match=reason):
            await session.list_tools()
        await session.ping()


async def test_more_tools_than_the_cap_is_an_error() -> None:
    async with connect(scripted(), limits=Limits(tools=3)) as session:
        with pytest.raises(ProtocolViolation, match=r"more than 3 tools \(Limits.tools\)"):
            await session.list_tools()


async def test_a_list_that_asks_back_is_an_error() -> None:
    async with connect(scripted("--era", "stateless", "--list", "asks-back")) as session:
        with pytest.raises(ProtocolViolation, match="a request for input"):
            await session.list_tools()


async def test_half_a_surrogate_pair_in_a_cursor_is_returned_as_it_came() -> None:
    async with connect(scripted("--list", "surrogates")) as session:
        assert "echo" in [tool.name for tool in await session.list_tools()]
