"""The lock, the clock and the look at cancel scopes that need nothing of anyio on asyncio."""

from __future__ import annotations

import asyncio  # noqa: TID251 - its tasks are cancelled as only its own tasks are
import math
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcp_client.runtime.event_loop import LoopLock, current

pytestmark = pytest.mark.anyio

_SERVER = Path(__file__).parents[1] / "bench" / "server.py"
_UNUSED = (
    *("anyio._backends", "anyio.abc", "html"),
    *("mcp_client.approval.constraints", "mcp_client.approval.decisions", "mcp_client.state."),
)
"""Modules that take long to import, and that a first call has no use for."""
_FIRST_CALL = f"""
import asyncio, sys
import anyio
loaded = {{*sys.modules}}  # anyio 4.9 loads its abc at once
from mcp_client import allow_all, connect

async def main():
    async with connect([sys.executable, "-IS", {str(_SERVER)!r}], approval=allow_all) as session:
        assert (await session.call_tool("echo", {{"text": "a"}})).text == "a"
        later = sys.modules.keys() - loaded
        print(*sorted(name for name in later if name.startswith({_UNUSED!r})))

asyncio.run(main())
"""


async def test_a_lock_is_granted_in_the_order_in_which_tasks_ask() -> None:
    lock, order = LoopLock(), list[int]()

    async def take(number: int) -> None:
        async with lock:
            order.append(number)
            await checkpoint()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks, lock:
            for number in range(3):
                tasks.start_soon(take, number)
                await anyio.wait_all_tasks_blocked()
            order.append(-1)
    assert order == [-1, 0, 1, 2]


async def test_a_task_that_is_cancelled_while_it_waits_for_a_lock_does_not_keep_it() -> None:
    lock, taken = LoopLock(), anyio.Event()

    async def take() -> None:
        async with lock:
            taken.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            async with lock:
                async with anyio.create_task_group() as cancelled:
                    cancelled.start_soon(take)
                    await anyio.wait_all_tasks_blocked()
                    tasks.start_soon(take)
                    await anyio.wait_all_tasks_blocked()
                    cancelled.cancel_scope.cancel()
                assert not taken.is_set()
            await taken.wait()


@pytest.mark.parametrize("granted_first", [True, False])
async def test_a_lock_granted_to_a_task_that_is_cancelled_passes_to_the_next(
    granted_first: bool,
) -> None:
    lock, taken = LoopLock(), list[str]()

    async def take(name: str) -> None:
        async with lock:
            taken.append(name)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            await lock.__aenter__()
            async with anyio.create_task_group() as cancelled:
                cancelled.start_soon(take, "cancelled")
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(take, "next")
                await anyio.wait_all_tasks_blocked()
                if granted_first:
                    await lock.__aexit__()
                    cancelled.cancel_scope.cancel()
                else:
                    cancelled.cancel_scope.cancel()
                    await lock.__aexit__()
        async with lock:
            assert taken[-1] == "next"


def test_a_task_of_asyncio_that_is_cancelled_as_it_gets_a_lock_releases_it() -> None:
    async def main() -> None:
        lock = LoopLock()
        await lock.__aenter__()
        taker = asyncio.ensure_future(lock.__aenter__())
        await asyncio.sleep(0)
        await lock.__aexit__()
        taker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taker
        await asyncio.wait_for(lock.__aenter__(), 5)

    asyncio.run(main())


async def test_work_that_takes_longer_than_its_time_limit_is_cancelled() -> None:
    with anyio.fail_after(60):
        with pytest.raises(TimeoutError):
            async with current().time_limit(0):
                await anyio.sleep_forever()
        async with current().time_limit(float("inf")):
            await checkpoint()


async def test_a_time_limit_that_ends_in_a_clean_up_leaves_the_cancellation_to_its_scope() -> None:
    async def clean_up() -> None:
        passed = anyio.Event()
        current().call_at(current().now() + 0.02, passed.set)
        with anyio.CancelScope(shield=True):
            await passed.wait()

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        except BaseException:
            await clean_up()
            raise

    with anyio.fail_after(60), anyio.CancelScope() as scope:
        try:
            raise LookupError
        except LookupError:
            async with current().time_limit(0.01):
                scope.cancel()
                await work()
    assert scope.cancelled_caught
    await checkpoint()


async def test_a_cancelled_scope_around_the_caller_is_seen() -> None:
    assert current().effective_deadline() > -math.inf
    with anyio.CancelScope() as scope:
        scope.cancel()
        assert current().effective_deadline() == -math.inf


def test_a_program_on_asyncio_has_its_first_result_before_anyio_loads_all_of_itself() -> None:
    run = [sys.executable, "-c", _FIRST_CALL]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""
