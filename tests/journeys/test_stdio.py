"""The journey over stdio, with real servers of every published revision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from mcp_client import StdioServer, allow_all, connect
from mcp_client.errors import NegotiationError
from tests.interop import peers
from tests.journeys.story import BRISK, EVERYTHING, OFFICIAL, Peer, close_in_the_middle, play
from tests.support.selection import WAYS

pytestmark = pytest.mark.interop

Start = Callable[[], StdioServer]
SDK_2_3, SDK_1_12, SDK_1_6, SDK_1_2 = (
    partial(peers.official, version) for version in ("2.3.0", "1.12.4", "1.6.0", "1.2.0")
)

AGREED: dict[str, tuple[Start, Peer]] = {
    "official-2.3": (SDK_2_3, Peer("2026-07-28", OFFICIAL)),
    "official-1.12": (SDK_1_12, Peer("2025-06-18", OFFICIAL)),
    "official-1.6": (SDK_1_6, Peer("2024-11-05", OFFICIAL, structured=False, stoppable=False)),
    "official-1.2": (SDK_1_2, Peer("2024-11-05", OFFICIAL, structured=False, stoppable=False)),
    "everything": (peers.everything, Peer("2025-11-25", EVERYTHING)),
}


def _pinned(peer: Peer, revision: str, *, structured: bool) -> Peer:
    return replace(peer, revision=revision, pin=revision, structured=structured)


PINNED: dict[str, tuple[Start, Peer]] = {
    f"{name}-{pin}": (AGREED[name][0], _pinned(AGREED[name][1], pin, structured=structured))
    for name, pin, structured in [
        ("official-2.3", "2025-11-25", True),
        ("official-2.3", "2025-03-26", False),
        ("official-2.3", "2024-11-05", False),
        ("official-1.12", "2025-03-26", False),
        ("official-1.6", "2024-11-05", False),
        ("everything", "2025-06-18", True),
    ]
}


def _each(table: dict[str, tuple[Start, Peer]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("start", "peer"), list(table.values()), ids=list(table))


other_ways = pytest.mark.parametrize("stdio_way", WAYS[1:], indirect=True)
"""Of running a process: tried with one server that goes on after the probe, and one that exits. The
other tests are about the server."""


@_each(AGREED)
async def test_a_whole_session(start: Start, peer: Peer) -> None:
    await play(start(), peer)


@other_ways
@pytest.mark.parametrize("name", ["official-2.3", "official-1.2"])
async def test_a_whole_session_each_other_way(name: str, stdio_way: str) -> None:
    start, peer = AGREED[name]
    await play(start(), peer)


@_each(PINNED)
async def test_a_whole_session_of_the_revision_that_was_asked_for(start: Start, peer: Peer) -> None:
    await play(start(), peer)


@_each(AGREED)
async def test_another_task_may_close_the_session_during_a_call(start: Start, peer: Peer) -> None:
    await close_in_the_middle(start(), peer)


@other_ways
async def test_another_task_may_close_it_each_other_way(stdio_way: str) -> None:
    start, peer = AGREED["official-2.3"]
    await close_in_the_middle(start(), peer)


@pytest.mark.parametrize("start", [SDK_1_6, SDK_1_2], ids=["official-1.6", "official-1.2"])
async def test_a_server_that_exits_on_the_probe_is_restarted_once_and_remembered(
    start: Start,
) -> None:
    server = start()
    async with connect(server, approval=allow_all, timeouts=BRISK) as session:
        assert session.protocol_version == "2024-11-05"
        assert session.stats.restarts == 1
    async with connect(server, approval=allow_all, timeouts=BRISK) as session:
        assert session.protocol_version == "2024-11-05"
        assert session.stats.restarts == 0


@pytest.mark.parametrize(
    ("start", "pin"),
    [(SDK_1_12, "2025-11-25"), (SDK_1_6, "2025-06-18"), (peers.everything, "2026-07-28")],
    ids=["official-1.12", "official-1.6", "everything"],
)
async def test_an_unsupported_revision_is_named_and_leaves_no_process(
    start: Start, pin: str
) -> None:
    with pytest.raises(NegotiationError, match=pin):
        await connect(start(), approval=allow_all, revision=pin, timeouts=BRISK)
