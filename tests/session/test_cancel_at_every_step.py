"""A call is cancelled at each point at which it waits, in every way in which a host can cancel.

The call runs in a wrapper that cancels as the call waits for the n-th time; n goes up until a call
ends before it. Whatever a hook or handler does with the cancellation, three things must hold: no
``tools/call`` is sent once the caller has left, the call reports whether anything was sent, and no
cancellation is left behind for what the host awaits next.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - asyncio's own ways to cancel
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcp_client import (
    Allow,
    CancelToken,
    Handlers,
    MemoryServer,
    Session,
    ToolCall,
    ToolResult,
    allow_all,
    connect,
)
from mcp_client.errors import CallCancelled, CallWithdrawn
from mcp_client.handlers import Accept
from mcp_client.runtime.event_loop import being_cancelled, cancel_requests
from mcp_client.transports.memory import MemoryTransport
from tests.support.asking import FORM, LATEST, REVISIONS, Asking

MANY = 200
"""More steps than any call here takes."""


class CancelAt(Awaitable[ToolResult]):
    """Awaits ``call``, and does ``cancel`` as it waits for the ``step``-th time."""

    def __init__(
        self, call: Coroutine[Any, Any, ToolResult], step: int, cancel: Callable[[], object]
    ) -> None:
        self._call, self._step, self._cancel = call, step, cancel
        self.done = False
        """Whether ``cancel`` was done."""

    def __await__(self) -> Generator[Any, Any, ToolResult]:
        resume: Callable[[], Any] = lambda: self._call.send(None)  # noqa: E731
        for step in range(1, MANY):
            try:
                waits_for = resume()
            except StopIteration as end:
                result: ToolResult = end.value
                return result
            if step == self._step:
                self.done = True
                self._cancel()
            try:
                value = yield waits_for
            except BaseException as error:  # handed on as it came
                resume = lambda error=error: self._call.throw(error)  # type: ignore[misc]  # noqa: E731
            else:
                resume = lambda value=value: self._call.send(value)  # type: ignore[misc]  # noqa: E731
        raise AssertionError("the call does not end")


class Wire(MemoryTransport):
    """Counts the calls that are sent, and those sent although the caller was cancelled."""

    def __init__(self, server: Asking) -> None:
        super().__init__(server)
        self.token = CancelToken()
        self.sent = self.too_late = 0

    async def exchange(self, id: Any, text: str, *rest: Any) -> Any:
        if '"tools/call"' in text:
            self.sent += 1
            self.too_late += self.token.cancelled or being_cancelled()
        return await super().exchange(id, text, *rest)


Cancel: TypeAlias = Callable[[Session, Wire, int], Awaitable[bool]]
"""Makes a call, cancels it at a step, and returns whether it came to that step."""


async def _make(session: Session, wire: Wire, step: int, cancel: Callable[[], object]) -> bool:
    call = CancelAt(session.call_tool("ask", cancel=wire.token), step, cancel)
    before = wire.sent
    try:
        await call
    except CallWithdrawn:
        assert wire.sent == before
    except CallCancelled:
        assert wire.sent > before
    for _ in range(3):
        await checkpoint()
    return call.done


async def by_token(session: Session, wire: Wire, step: int) -> bool:
    done = await _make(session, wire, step, wire.token.cancel)
    assert cancel_requests() == 0
    return done


async def by_token_from_a_thread(session: Session, wire: Wire, step: int) -> bool:
    def cancel() -> None:
        thread = threading.Thread(target=wire.token.cancel)
        thread.start()
        thread.join()

    done = await _make(session, wire, step, cancel)
    assert cancel_requests() == 0
    return done


async def by_scope(session: Session, wire: Wire, step: int) -> bool:
    with anyio.CancelScope() as scope:
        return await _make(session, wire, step, scope.cancel)
    return True


async def by_scope_and_token(session: Session, wire: Wire, step: int) -> bool:
    with anyio.CancelScope() as scope:

        def cancel() -> None:
            wire.token.cancel()
            scope.cancel()

        await _make(session, wire, step, cancel)
        return False
    return True


async def by_task(session: Session, wire: Wire, step: int) -> bool:
    async def make() -> bool:
        task = asyncio.current_task()
        assert task is not None
        return await _make(session, wire, step, task.cancel)

    task = asyncio.create_task(make())
    with suppress(asyncio.CancelledError):
        return await task
    return True


async def by_timeout(session: Session, wire: Wire, step: int) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(None) as timeout:
            return await _make(session, wire, step, lambda: timeout.reschedule(0))
    return True


async def by_wait_for(session: Session, wire: Wire, step: int) -> bool:
    made: list[asyncio.Task[Any] | None] = []

    async def make() -> bool:
        made.append(asyncio.current_task())
        return await _make(session, wire, step, lambda: made[0] and made[0].cancel())

    async def wait() -> bool:
        return await asyncio.wait_for(make(), 30)

    # Since Python 3.12 ``wait_for`` runs what it is given in the task that calls it, and a task
    # keeps counting the cancellations of the steps before: so each step has a task of its own.
    with suppress(asyncio.CancelledError):
        return await asyncio.create_task(wait())
    return True


async def by_task_group(session: Session, wire: Wire, step: int) -> bool:
    failing = asyncio.Event()

    async def fail() -> None:
        await failing.wait()
        raise LookupError

    done = True
    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            sibling = group.create_task(fail())
            done = await _make(session, wire, step, failing.set)
            sibling.cancel()
    return done


EVERYWHERE: list[Cancel] = [by_token, by_token_from_a_thread, by_scope, by_scope_and_token]
ON_ASYNCIO: list[Cancel] = [by_task, by_timeout, by_wait_for, by_task_group]


async def swallows() -> None:
    with suppress(BaseException):
        for _ in range(3):
            await checkpoint()


async def yes_whatever_happens(call: ToolCall) -> Allow:
    await swallows()
    return Allow()


async def yes_soon(call: ToolCall) -> Allow:
    await checkpoint()
    return Allow()


async def fills_in_whatever_happens(request: object) -> Accept:
    await swallows()
    return Accept({"name": "Ada"})


async def records(record: Mapping[str, Any]) -> None:
    await checkpoint()


HOOKS = [allow_all, yes_soon, yes_whatever_happens]


async def _every_step(cancel: Cancel, **options: Any) -> None:
    for step in range(1, MANY):
        wire = Wire(Asking(options.get("revision", LATEST), FORM))
        async with connect(wire, **options) as session:
            came_to_it = await cancel(session, wire, step)
            assert wire.too_late == 0
            assert (await session.call_tool("plain")).text == "plain"
        if not came_to_it:
            assert step > 1
            return
    raise AssertionError("no call ended before its step")


OPTIONS: dict[str, Any] = {"handlers": Handlers(elicitation=fills_in_whatever_happens)}


@pytest.mark.parametrize("cancel", EVERYWHERE, ids=lambda cancel: cancel.__name__)
@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
async def test_no_call_is_sent_after_it_was_cancelled(cancel: Cancel, hook: Any) -> None:
    await _every_step(cancel, approval=hook, **OPTIONS)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("cancel", ON_ASYNCIO, ids=lambda cancel: cancel.__name__)
@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
async def test_no_call_is_sent_after_asyncio_cancelled_its_task(
    cancel: Cancel, hook: Any, anyio_backend: str
) -> None:
    await _every_step(cancel, approval=hook, **OPTIONS)


@pytest.mark.parametrize("cancel", EVERYWHERE, ids=lambda cancel: cancel.__name__)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_no_call_that_is_recorded_is_sent_after_it_was_cancelled(
    cancel: Cancel, revision: str
) -> None:
    await _every_step(
        cancel, approval=yes_whatever_happens, audit=records, revision=revision, **OPTIONS
    )


@pytest.mark.parametrize("cancel", [by_token, by_scope], ids=lambda cancel: cancel.__name__)
async def test_a_hook_that_cancels_its_own_call_and_approves_sends_nothing(cancel: Cancel) -> None:
    """Without waiting at all, so that there is no step at which a cancellation could be raised."""
    wire = Wire(Asking(LATEST, FORM))
    scope = anyio.CancelScope()

    async def approve(call: ToolCall) -> Allow:
        (wire.token if cancel is by_token else scope).cancel()
        return Allow()

    async with connect(wire, approval=approve, **OPTIONS) as session:
        with scope, pytest.raises(CallWithdrawn):
            await session.call_tool("ask", cancel=wire.token)
        assert scope.cancelled_caught is (cancel is by_scope)
        await checkpoint()
    assert wire.sent == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_progress_callback_that_cancels_its_own_call_leaves_nothing_behind(backend: str) -> None:
    """In a loop of its own: the answer is there already when the callback is called."""

    async def server(message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        if message.get("method") == "server/discover":
            return {"supportedVersions": [LATEST], "capabilities": {"tools": {}}}
        if message.get("method") == "tools/list":
            return {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        params = {"progressToken": message["id"], "progress": 1}
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        return {"content": []}

    async def main() -> None:
        token = CancelToken()
        async with connect(MemoryServer(server), approval=allow_all) as session:
            with pytest.raises(CallCancelled):
                await session.call_tool("t", on_progress=lambda *_: token.cancel(), cancel=token)
            for _ in range(3):
                await checkpoint()
            await session.call_tool("t")

    anyio.run(main, backend=backend)
