"""The clock that a test may stop and move forward."""

from __future__ import annotations

import anyio
import pytest

from tests.support.timing import Clock


async def test_a_wait_ends_when_the_clock_jumps_past_it(clock: Clock) -> None:
    before = anyio.current_time()
    clock.stop()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.sleep, 30)
        await anyio.wait_all_tasks_blocked()
        clock.jump(29)
        await anyio.wait_all_tasks_blocked()
        assert anyio.current_time() - before < 30
        clock.jump(1)
    assert 30 <= anyio.current_time() - before < 60


async def test_no_time_passes_while_the_clock_is_stopped(clock: Clock) -> None:
    clock.stop()
    before = anyio.current_time()
    await anyio.to_thread.run_sync(sum, range(100_000))
    assert anyio.current_time() == before
    clock.resume()
    await anyio.sleep(0.01)
    assert anyio.current_time() >= before + 0.01


async def test_a_wait_without_end_fails_although_the_clock_is_stopped(clock: Clock) -> None:
    clock.stop(bound=0.05, then=25)
    with pytest.raises(TimeoutError), anyio.fail_after(20):
        await anyio.sleep_forever()
