"""The journey over HTTP, with real servers: JSON, events, and HTTP+SSE, in both eras."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import pytest

from mcp_client import allow_all, connect
from tests.interop import http_peers
from tests.journeys.story import EVERYTHING, OFFICIAL, Peer, close_in_the_middle, play

pytestmark = pytest.mark.interop

Start: TypeAlias = Callable[[], AbstractAsyncContextManager[str]]
HTTP = "streamable-http"

_NEW = Peer("2026-07-28", OFFICIAL)
_OLD = Peer("2025-06-18", OFFICIAL)
_TS = Peer("2025-11-25", EVERYTHING)


def _official(version: str, *words: str) -> Start:
    return partial(http_peers.official, version, *words)


TABLE: dict[str, tuple[Start, Peer]] = {
    "official-2.3-events": (_official("2.3.0", HTTP), _NEW),
    "official-2.3-json": (
        _official("2.3.0", HTTP, "json"),
        replace(_NEW, announces=False, hears=False),
    ),
    "official-2.3-2025-11-25": (
        _official("2.3.0", HTTP),
        replace(_NEW, revision="2025-11-25", pin="2025-11-25"),
    ),
    "official-2.3-sse": (_official("2.3.0", "sse"), replace(_NEW, revision="2025-11-25")),
    "official-1.12-events": (_official("1.12.4", HTTP), replace(_OLD, beside=True)),
    "official-1.12-json": (_official("1.12.4", HTTP, "json"), replace(_OLD, beside=True)),
    "official-1.12-stateless-events": (
        _official("1.12.4", HTTP, "stateless"),
        replace(_OLD, announces=False, hears=False),
    ),
    "official-1.12-stateless-json": (
        _official("1.12.4", HTTP, "stateless", "json"),
        replace(_OLD, announces=False, hears=False),
    ),
    "official-1.12-sse": (_official("1.12.4", "sse"), _OLD),
    "everything": (partial(http_peers.everything, "streamableHttp"), _TS),
    "everything-sse": (partial(http_peers.everything, "sse"), _TS),
}


@pytest.mark.parametrize(("start", "peer"), list(TABLE.values()), ids=list(TABLE))
async def test_a_whole_session(start: Start, peer: Peer) -> None:
    async with start() as url:
        await play(url, peer)


@pytest.mark.parametrize(
    ("start", "peer"),
    [TABLE[name] for name in ("official-2.3-events", "official-1.12-events", "everything-sse")],
    ids=["stateless", "handshake", "sse"],
)
async def test_another_task_may_close_the_session_during_a_call(start: Start, peer: Peer) -> None:
    async with start() as url:
        await close_in_the_middle(url, peer)


@pytest.mark.parametrize("version", ["1.2.0", "1.6.0"])
async def test_servers_of_the_first_revision_are_reached(version: str) -> None:
    async with (
        http_peers.official(version, "sse") as url,
        connect(url, approval=allow_all) as session,
    ):
        assert session.protocol_version == "2024-11-05"
        assert (await session.call_tool("echo", {"text": "hello"})).text == "hello"
