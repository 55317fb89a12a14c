"""Cancelling a call with a token: in every stage, from every task and thread."""

from __future__ import annotations

import asyncio  # noqa: TID251 - what a host on asyncio does with a call
import inspect
import threading
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    CancelToken,
    ConfigError,
    Deny,
    MemoryServer,
    NotSent,
    OutcomeUnknown,
    Session,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.connection.call_options import cancelled_by
from mcp_client.errors import CallCancelled, CallWithdrawn, McpError
from tests.support.asking import LATEST, NEWEST_HANDSHAKE, REVISIONS, Asking, text_result

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
        return text_result("done")


async def _cancelled(session: Session, error: type[Exception], when: anyio.Event) -> Any:
    """What a call of ``ask`` raises that is cancelled once ``when`` is set."""
    token = CancelToken()
    caught: list[Exception] = []

    async def make() -> None:
        with pytest.raises(error) as raised:
            await session.call_tool("ask", cancel=token)
        caught.append(raised.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make)
        await when.wait()
        token.cancel("lunch")
    return caught[0]


@EACH_ERA
async def test_cancelling_a_call_under_way_sends_the_reason_to_the_server(revision: str) -> None:
    server = Slow(revision)
    async with connect(MemoryServer(server), name="desk", approval=allow_all) as session:
        await session.list_tools()
        error = await _cancelled(session, CallCancelled, server.under_way)
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
        error = await _cancelled(session, CallWithdrawn, asked)
    assert issubclass(CallWithdrawn, NotSent)
    assert error.reason == "lunch"
    assert hook_ended.is_set()
    assert server.all("tools/call") == []


async def test_a_token_that_was_cancelled_before_the_call_refuses_it_without_asking() -> None:
    seen: list[ToolCall] = []

    def approve(call: ToolCall) -> Deny:
        seen.append(call)
        return Deny()

    token = CancelToken()
    assert not token.cancelled
    assert token.reason is None
    token.cancel()
    async with connect(MemoryServer(Slow(LATEST)), approval=approve) as session:
        with pytest.raises(CallWithdrawn, match="changed their mind") as caught:
            await session.call_tool("ask", cancel=token)
    assert seen == []
    assert token.cancelled
    assert caught.value.reason == token.reason == "the caller changed their mind"


async def test_a_call_that_has_ended_is_not_affected() -> None:
    token = CancelToken()
    async with connect(MemoryServer(Slow(LATEST)), approval=allow_all) as session:
        assert (await session.call_tool("plain", cancel=token)).text == "plain"
        token.cancel("too late")
        token.cancel("again")
        assert (await session.call_tool("plain")).text == "plain"


async def test_the_reason_of_a_cancellation_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = Slow(LATEST)
    async with connect(MemoryServer(server), name="desk", approval=allow_all) as session:
        await session.list_tools()
        with caplog.at_level("DEBUG", "mcp_client"):
            await _cancelled(session, CallCancelled, server.under_way)
    (call,) = (m for m in server.messages if m.get("method") == "tools/call")
    assert f"desk: stopped waiting for request id={call['id']}: lunch" in caplog.messages


async def test_only_the_first_reason_counts_and_a_long_one_is_cut() -> None:
    server, token = Slow(NEWEST_HANDSHAKE), CancelToken()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.list_tools()
        async with anyio.create_task_group() as tasks:

            async def make() -> None:
                with pytest.raises(CallCancelled):
                    await session.call_tool("ask", cancel=token)

            tasks.start_soon(make)
            await server.under_way.wait()
            token.cancel("x" * 9_000)
            token.cancel("another")
        await server.cancelled.wait()
    assert server.all("notifications/cancelled")[0]["reason"] == "x" * 500 == token.reason


async def test_one_token_cancels_all_the_calls_it_was_passed_to_and_no_other() -> None:
    server, token = Slow(NEWEST_HANDSHAKE), CancelToken()
    ended: list[str] = []
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.list_tools()

        async def make(name: str, cancel: CancelToken | None) -> None:
            try:
                ended.append((await session.call_tool("ask", cancel=cancel)).text)
            except CallCancelled:
                ended.append(f"{name} was cancelled")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(make, "one", token)
            tasks.start_soon(make, "two", token)
            tasks.start_soon(make, "three", None)
            while len(server.all("tools/call")) < 3:
                await anyio.lowlevel.checkpoint()
            token.cancel()
            while len(ended) < 2:
                await anyio.lowlevel.checkpoint()
            server.let_go.set()
    assert sorted(ended[:2]) == ["one was cancelled", "two was cancelled"]
    assert ended[2:] == ["done"]


async def test_a_token_may_be_cancelled_from_a_thread() -> None:
    server, token = Slow(NEWEST_HANDSHAKE), CancelToken()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.list_tools()
        async with anyio.create_task_group() as tasks:

            async def make() -> None:
                with pytest.raises(CallCancelled, match="from a thread"):
                    await session.call_tool("ask", cancel=token)

            tasks.start_soon(make)
            await server.under_way.wait()
            thread = threading.Thread(target=token.cancel, args=["from a thread"])
            thread.start()
            await anyio.to_thread.run_sync(thread.join)
        await server.cancelled.wait()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_token_may_be_cancelled_after_the_event_loop_has_ended(backend: str) -> None:
    server, token = Slow(LATEST), CancelToken()

    async def main() -> None:
        async with connect(MemoryServer(server), approval=allow_all) as session:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(lambda: session.call_tool("ask", cancel=token))
                    await server.under_way.wait()
                    scope.cancel()

    anyio.run(main, backend=backend)
    token.cancel()
    assert token.cancelled


async def test_what_is_not_a_token_is_refused_by_name() -> None:
    async with connect(MemoryServer(Slow(LATEST)), approval=allow_all) as session:
        with pytest.raises(ConfigError, match="cancel="):
            await session.call_tool("ask", cancel=anyio.CancelScope())  # type: ignore[arg-type]


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


async def test_call_tool_is_an_ordinary_coroutine_function() -> None:
    assert inspect.iscoroutinefunction(Session.call_tool)
    async with connect(MemoryServer(Slow(LATEST)), approval=allow_all) as session:
        call = session.call_tool("plain")
        assert inspect.iscoroutine(call)
        assert (await call).text == "plain"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.call_tool, "plain")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_asyncio_makes_a_task_of_it(anyio_backend: str) -> None:
    server = Slow(LATEST)
    async with connect(MemoryServer(server), approval=allow_all) as session:
        assert (await asyncio.create_task(session.call_tool("plain"))).text == "plain"
        assert (await asyncio.wait_for(session.call_tool("plain"), 30)).text == "plain"
        both = await asyncio.gather(session.call_tool("plain"), session.call_tool("plain"))
        assert [result.text for result in both] == ["plain", "plain"]
        token = CancelToken()
        task = asyncio.create_task(session.call_tool("ask", cancel=token))
        await server.under_way.wait()
        token.cancel("enough")
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


async def test_a_call_cancelled_as_its_response_comes_ends_one_way_or_the_other() -> None:
    outcomes: set[str] = set()
    server = Slow(LATEST)
    async with connect(MemoryServer(server), approval=allow_all) as session:
        for pause in range(12):
            server.under_way, server.let_go = anyio.Event(), anyio.Event()
            token = CancelToken()

            async def make(session: Session, token: CancelToken = token) -> None:
                try:
                    outcomes.add((await session.call_tool("ask", cancel=token)).text)
                except CallCancelled:
                    outcomes.add("cancelled")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(make, session)
                await server.under_way.wait()
                server.let_go.set()
                for _ in range(pause):
                    await anyio.lowlevel.checkpoint()
                token.cancel("now")
        assert (await session.call_tool("plain")).text == "plain"
    assert outcomes <= {"done", "cancelled"}
    assert outcomes


@pytest.mark.parametrize("call_first", [True, False])
async def test_cancelling_the_task_takes_precedence_over_cancelling_the_call(
    call_first: bool,
) -> None:
    server, token = Slow(NEWEST_HANDSHAKE), CancelToken()
    ended: list[BaseException] = []
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.list_tools()
        async with anyio.create_task_group() as tasks:

            async def make() -> None:
                try:
                    await session.call_tool("ask", cancel=token)
                except BaseException as error:
                    ended.append(error)
                    raise

            tasks.start_soon(make)
            await server.under_way.wait()
            if call_first:
                token.cancel("lunch")
            tasks.cancel_scope.cancel()
            token.cancel("lunch")
        assert isinstance(ended[0], anyio.get_cancelled_exc_class())
        assert (await session.call_tool("plain")).text == "plain"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_of_asyncio_goes_on_uncancelled_after_its_call_was_cancelled(
    anyio_backend: str,
) -> None:
    server, token = Slow(LATEST), CancelToken()
    async with connect(MemoryServer(server), approval=allow_all) as session:

        async def one() -> int:
            with pytest.raises(CallCancelled):
                await session.call_tool("ask", cancel=token)
            task = asyncio.current_task()
            assert task is not None
            return task.cancelling()

        task = asyncio.create_task(one())
        await server.under_way.wait()
        token.cancel()
        assert await task == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("call_first", [True, False])
async def test_a_task_of_asyncio_cancelled_with_its_call_is_cancelled(
    anyio_backend: str, call_first: bool
) -> None:
    server, token = Slow(LATEST), CancelToken()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        task = asyncio.create_task(session.call_tool("ask", cancel=token))
        await server.under_way.wait()
        for cancel in (token.cancel, task.cancel) if call_first else (task.cancel, token.cancel):
            cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()


async def test_a_body_that_a_token_cancels_does_not_begin_goes_on_or_ends_with_its_error() -> None:
    def error(token: CancelToken) -> McpError:
        return token._error("docs", "read", sent=False)

    async with cancelled_by(None, error):
        pass
    token = CancelToken()
    async with cancelled_by(token, error):
        token.cancel("late")  # the body waits for nothing more
    begun: list[CancelToken] = []

    async def body(token: CancelToken) -> None:
        async with cancelled_by(token, error):
            begun.append(token)
            token.cancel("the user left")
            await anyio.sleep_forever()

    other = CancelToken()
    for _ in range(2):
        with pytest.raises(CallWithdrawn, match="the user left") as raised:
            await body(other)
        assert raised.value.__cause__ is None and raised.value.__suppress_context__
    assert begun == [other]
    assert other._stops == token._stops == {}
