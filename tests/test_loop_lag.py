"""The measure of the tests that bound how long the event loop is blocked."""

from __future__ import annotations

import anyio

from tests.support.timing import loop_lag


async def test_work_in_the_event_loop_is_seen_and_waiting_is_not() -> None:
    async with loop_lag() as idle:
        await anyio.sleep(0.1)
    async with loop_lag() as busy:
        await anyio.sleep(0.02)
        for _ in range(3_000_000):
            pass
        await anyio.sleep(0.02)
    assert idle.worst < 1 < busy.worst
