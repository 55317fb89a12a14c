"""A call that is called off: by its own handle, in every stage, on every kind of task."""

from __future__ import annotations

import asyncio  # noqa: TID251 - what a host on asyncio does with a call
import inspect
from collections.abc import Coroutine
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    Call,
    CallCancelled,
    CallWithdrawn,
    Deny,
    MemoryServer,
    NotSent,
    OutcomeUnknown,
    Session,
    ToolCall,
    allow_all,
    connect,
)
from tests.server.asking import LATEST, NEWEST_HANDSHAKE, REVISIONS, Asking, said

EACH_ERA = pytest.mark.parametrize("revision", REVISIONS)


class Slow(Asking):
    """Its tool ``ask`` waits until it is let go."""

    def __init__(self, revision: str) -> None:
        super().__init__(revision)
        self.under_way, self.let_go, self.cancelled = anyio.Event(), anyio.Event(), anyio.Event()

    async def __call__(self, message: dict[str, Any], send: Any) -> Any:
        result = await super().__call__(message, send)
        if message.get("method") == "notifications/cancelled":
            self.cancelled.set()
        return result

    async def called(self, message: dict[str, Any], send: Any) -> Any:
        self.under_way.set()
        await self.let_go.wait()
        return said("done")


async def _cancelled(call: Call[Any], error: type[Exception], when: anyio.Event) -> Any:
    """Cancel once ``when`` is set, and what the awaiter got."""
    caught: list[Exception] = []

    async def await_it() -> None:
        with pytest.raises(error) as raised:
            await call
        caught.append(raised.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(await_it)
        await when.wait()
        call.cancel("lunch")
    return caught[0]


@EACH_ERA
async def test_a_call_under_way_is_called_off_and_the_server_told_why(revision: str) -> None:
    server = Slow(revision)
    async with connect(MemoryServer(server), name="desk", approval=allow_all) as session:
        await session.list_tools()
        call = session.call_tool("ask")
        error = await _cancelled(call, CallCancelled, server.under_way)
        await server.cancelled.wait()
        assert issubclass(CallCancelled, OutcomeUnknown)
        assert error.reason == "lunch"
        assert str(error) == "desk/ask: the call was cancelled: lunch; it may have run"
        (asked,) = (m for m in server.messages if m.get("method") == "tools/call")
        assert server.all("notifications/cancelled") == [
            {"requestId": asked["id"], "reason": "lunch"}
        ]
        server.let_go.set()
        while not session.stats.late_answers:
            await anyio.lowlevel.checkpoint()
        assert (await session.call_tool("plain")).text == "plain"
        assert session.stats.stray_answers == 0


async def test_a_call_cancelled_while_approval_is_asked_was_never_sent() -> None:
    asked, hook_ended = anyio.Event(), anyio.Event()

    async def approve(call: ToolCall) -> Allow:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            hook_ended.set()
        return Allow()

    server = Slow(LATEST)
    async with connect(MemoryServer(server), approval=approve) as session:
        error = await _cancelled(session.call_tool("ask"), CallWithdrawn, asked)
    assert issubclass(CallWithdrawn, NotSent)
    assert error.reason == "lunch"
    assert hook_ended.is_set()
    assert server.all("tools/call") == []


async def test_a_call_cancelled_before_it_began_asks_nobody() -> None:
    seen: list[ToolCall] = []

    def approve(call: ToolCall) -> Deny:
        seen.append(call)
        return Deny()

    async with connect(MemoryServer(Slow(LATEST)), approval=approve) as session:
        call = session.call_tool("ask")
        call.cancel()
        with pytest.raises(CallWithdrawn, match="changed their mind"):
            await call
    assert seen == []


async def test_a_call_that_has_ended_stays_as_it_ended() -> None:
    async with connect(MemoryServer(Slow(LATEST)), approval=allow_all) as session:
        call = session.call_tool("plain")
        assert (await call).text == "plain"
        call.cancel("too late")
        call.cancel("again")
        assert (await session.call_tool("plain")).text == "plain"


async def test_only_the_first_reason_counts_and_a_long_one_is_cut() -> None:
    server = Slow(NEWEST_HANDSHAKE)
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.list_tools()
        call = session.call_tool("ask")
        async with anyio.create_task_group() as tasks:

            async def await_it() -> None:
                with pytest.raises(CallCancelled):
                    await call

            tasks.start_soon(await_it)
            await server.under_way.wait()
            call.cancel("x" * 9_000)
            call.cancel("another")
        await server.cancelled.wait()
    assert server.all("notifications/cancelled")[0]["reason"] == "x" * 500


async def test_cancelling_the_task_instead_is_the_tasks_own_cancellation() -> None:
    server = Slow(NEWEST_HANDSHAKE)
    ended: list[BaseException] = []
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.list_tools()
        async with anyio.create_task_group() as tasks:

            async def await_it() -> None:
                try:
                    await session.call_tool("ask")
                except BaseException as error:
                    ended.append(error)
                    raise

            tasks.start_soon(await_it)
            await server.under_way.wait()
            tasks.cancel_scope.cancel()
        await server.cancelled.wait()
    assert isinstance(ended[0], anyio.get_cancelled_exc_class())
    assert server.all("notifications/cancelled")[0]["reason"] == "the client gave up waiting"


async def test_what_call_tool_returns_is_good_for_every_way_to_run_a_coroutine() -> None:
    async with connect(MemoryServer(Slow(LATEST)), approval=allow_all) as session:
        call = session.call_tool("plain")
        assert isinstance(call, Coroutine)
        assert inspect.isawaitable(call)
        assert "Call" in repr(call)
        assert (await call).text == "plain"
        with pytest.raises(RuntimeError):
            await call
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.call_tool, "plain")
        closed = session.call_tool("plain")
        closed.close()


def test_a_call_that_was_never_made_has_no_attributes_and_looks_for_none_without_end() -> None:
    with pytest.raises(AttributeError):
        Call.__new__(Call).cr_frame  # noqa: B018


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_asyncio_makes_a_task_of_it(anyio_backend: str) -> None:
    server = Slow(LATEST)
    async with connect(MemoryServer(server), approval=allow_all) as session:
        assert (await asyncio.create_task(session.call_tool("plain"))).text == "plain"
        assert (await asyncio.wait_for(session.call_tool("plain"), 30)).text == "plain"
        both = await asyncio.gather(session.call_tool("plain"), session.call_tool("plain"))
        assert [result.text for result in both] == ["plain", "plain"]
        call = session.call_tool("ask")
        task = asyncio.create_task(call)
        await server.under_way.wait()
        call.cancel("enough")
        with pytest.raises(CallCancelled, match="enough"):
            await task
        assert not task.cancelled()


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_trio_starts_it_in_a_nursery(anyio_backend: str) -> None:
    import trio

    async with connect(MemoryServer(Slow(LATEST)), approval=allow_all) as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.call_tool, "plain")
        assert session.stats.requests >= 2


async def test_a_call_cancelled_as_its_answer_comes_ends_one_way_or_the_other() -> None:
    outcomes: set[str] = set()
    server = Slow(LATEST)
    async with connect(MemoryServer(server), approval=allow_all) as session:
        for pause in range(12):
            server.under_way, server.let_go = anyio.Event(), anyio.Event()
            call = session.call_tool("ask")

            async def await_it(session: Session, call: Call[Any] = call) -> None:
                try:
                    outcomes.add((await call).text)
                except CallCancelled:
                    outcomes.add("cancelled")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(await_it, session)
                await server.under_way.wait()
                server.let_go.set()
                for _ in range(pause):
                    await anyio.lowlevel.checkpoint()
                call.cancel("now")
        assert (await session.call_tool("plain")).text == "plain"
    assert outcomes <= {"done", "cancelled"}
    assert outcomes


@pytest.mark.parametrize("call_first", [True, False])
async def test_a_call_and_its_task_cancelled_at_once_end_as_the_task(call_first: bool) -> None:
    server = Slow(NEWEST_HANDSHAKE)
    ended: list[BaseException] = []
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.list_tools()
        call = session.call_tool("ask")
        async with anyio.create_task_group() as tasks:

            async def await_it() -> None:
                try:
                    await call
                except BaseException as error:
                    ended.append(error)
                    raise

            tasks.start_soon(await_it)
            await server.under_way.wait()
            if call_first:
                call.cancel("lunch")
            tasks.cancel_scope.cancel()
            call.cancel("lunch")
        assert isinstance(ended[0], anyio.get_cancelled_exc_class())
        assert (await session.call_tool("plain")).text == "plain"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_of_asyncio_whose_call_was_called_off_goes_on_uncancelled(
    anyio_backend: str,
) -> None:
    server = Slow(LATEST)
    async with connect(MemoryServer(server), approval=allow_all) as session:

        async def one(call: Call[Any]) -> int:
            with pytest.raises(CallCancelled):
                await call
            task = asyncio.current_task()
            assert task is not None
            return task.cancelling()

        call = session.call_tool("ask")
        task = asyncio.create_task(one(call))
        await server.under_way.wait()
        call.cancel()
        assert await task == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_of_asyncio_cancelled_with_its_call_is_cancelled(anyio_backend: str) -> None:
    server = Slow(LATEST)
    async with connect(MemoryServer(server), approval=allow_all) as session:
        call = session.call_tool("ask")
        task = asyncio.create_task(call)
        await server.under_way.wait()
        call.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
