"""Background work is started by tasks and by loop callbacks, and ended by any of them."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from mcp_client.runtime.background import BackgroundTask, BackgroundTasks
from mcp_client.runtime.event_loop import LoopEvent, current
from tests.support.runners import watch_loop_callbacks


async def _in_a_callback(function: Callable[[], object]) -> None:
    """Run ``function`` as a loop callback, and wait until it has run."""
    done = LoopEvent()

    def callback() -> None:
        try:
            function()
        finally:
            done.set()

    current().call_at(current().now(), callback)
    await done.wait()


async def test_work_starts_in_a_loop_callback_and_is_cancelled_in_another() -> None:
    tasks = BackgroundTasks(current(), "desk")
    began, ended = anyio.Event(), anyio.Event()
    started: list[BackgroundTask] = []

    async def work() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    await _in_a_callback(lambda: started.append(tasks.start(work)))
    await began.wait()
    assert not started[0].done
    await _in_a_callback(started[0].cancel)
    await ended.wait()
    await tasks.none_left()
    assert started[0].done


async def test_work_that_is_cancelled_before_it_begins_still_cleans_up() -> None:
    tasks = BackgroundTasks(current(), "desk")
    ended = anyio.Event()

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    tasks.start(work).cancel()
    await ended.wait()
    await tasks.none_left()


async def test_what_is_started_does_not_run_before_its_handle_is_there() -> None:
    seen: list[str] = []

    async def work() -> None:
        seen.append("work")

    tasks = BackgroundTasks(current(), "desk")
    tasks.start(work)
    seen.append("handle")
    await tasks.none_left()
    assert seen == ["handle", "work"]


async def test_an_event_created_in_a_loop_callback_wakes_all_who_wait() -> None:
    events: list[LoopEvent] = []
    await _in_a_callback(lambda: events.append(LoopEvent()))
    (event,) = events
    woken: list[int] = []

    async def wait(number: int) -> None:
        await event.wait()
        woken.append(number)

    async with anyio.create_task_group() as waiting:
        for number in range(3):
            waiting.start_soon(wait, number)
        with anyio.move_on_after(0):
            await event.wait()  # one who gives up is not in the way
        await _in_a_callback(event.set)
    assert sorted(woken) == [0, 1, 2]
    await event.wait()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # on trio, callbacks run in tasks
@pytest.mark.parametrize(
    "create", [anyio.Event, anyio.Lock, lambda: anyio.Semaphore(1)], ids=["event", "lock", "sem"]
)
async def test_an_anyio_object_created_in_a_loop_callback_is_noticed(
    create: Callable[[], object], anyio_backend: str
) -> None:
    with watch_loop_callbacks() as created:
        create()
        assert not created
        await _in_a_callback(create)
    assert len(created) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_scope_cannot_be_created_in_a_loop_callback_here_as_under_asyncio_run(
    anyio_backend: str,
) -> None:
    raised: list[Exception] = []

    def callback() -> None:
        try:
            anyio.CancelScope()
        except Exception as error:
            raised.append(error)

    with watch_loop_callbacks():
        await _in_a_callback(callback)
    assert len(raised) == 1
    assert "async" in str(raised[0])
