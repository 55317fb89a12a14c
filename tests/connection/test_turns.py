"""``Limits(in_flight=)``: calls under way at once, and those that wait for their turn in order."""

from __future__ import annotations

import math
import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import mcp_client.sync
from mcp_client import (
    Allow,
    CancelToken,
    ConfigError,
    Handlers,
    Host,
    Limits,
    MemoryServer,
    NotSent,
    Timeouts,
    allow_all,
    connect,
)
from mcp_client.connection.connection import Turns
from mcp_client.errors import CallWithdrawn
from mcp_client.handlers import Accept
from tests.support.asking import FORM, REVISIONS, Asking
from tests.support.http_apps import Handshake, Stateless
from tests.support.http_server import serving
from tests.support.timing import Clock
from tests.support.toolbox import Toolbox

TWO = Limits(in_flight=2)


class Holding(Toolbox):
    """A server whose tool ``hold`` answers once its number is released."""

    def __init__(self) -> None:
        super().__init__("hold")
        self.began: list[int] = []
        self.most = self.now = 0
        self.held: dict[int, anyio.Event] = {}
        self.changed = anyio.Event()

    async def call(self, name: str, arguments: dict[str, Any], **rest: Any) -> Any:
        number = arguments["n"]
        self.began.append(number)
        self.now += 1
        self.most = max(self.most, self.now)
        self.changed.set()
        self.changed = anyio.Event()
        try:
            await self.held.setdefault(number, anyio.Event()).wait()
        finally:
            self.now -= 1
        return {"content": [{"type": "text", "text": str(number)}]}

    def release(self, *numbers: int) -> None:
        for number in numbers:
            self.held.setdefault(number, anyio.Event()).set()

    async def until(self, count: int) -> None:
        with anyio.fail_after(20):
            while len(self.began) < count:
                await self.changed.wait()


refused: list[NotSent] = []
"""What calls of ``start`` raised."""


async def start(
    tasks: Any, session: Any, call: Any, numbers: range, done: list[Any], **options: Any
) -> None:
    """Begin calls in order; each waits, or is sent, before the next one begins."""
    turns = session._caller._rounds.turns

    async def one(number: int) -> None:
        try:
            result = await call(number, **options)
            done.append(int(result.text))
        except NotSent as error:
            done.append(type(error))
            refused.append(error)

    for number in numbers:
        before = turns._taken + len(turns._waiting)
        tasks.start_soon(one, number)
        with anyio.fail_after(20):
            while turns._taken + len(turns._waiting) == before:
                await anyio.sleep(0)


@pytest.mark.parametrize("face", ["session", "host"])
async def test_more_calls_wait_their_turn_in_order(face: str) -> None:
    server, done = Holding(), list[Any]()
    host = Host({"one": server.server}, approval=allow_all, limits=TWO)
    connecting = connect(server.server, approval=allow_all, limits=TWO)
    opening: Any = connecting if face == "session" else host
    async with opening as target:
        session = target if face == "session" else host.sessions["one"]

        async def call(number: int) -> Any:
            name = "hold" if face == "session" else "one__hold"
            return await target.call_tool(name, {"n": number})

        async with anyio.create_task_group() as tasks:
            await start(tasks, session, call, range(6), done)
            assert server.began == [0, 1]
            for count, number in enumerate((1, 0, 2, 3), start=3):  # one turn at a time
                server.release(number)
                await server.until(count)
            server.release(*range(6))
        assert server.began == list(range(6)) and server.most == 2
        assert sorted(done) == list(range(6))


async def test_one_that_is_cancelled_while_it_waits_leaves_nothing() -> None:
    server, done = Holding(), list[Any]()
    async with connect(server.server, approval=allow_all, limits=Limits(in_flight=1)) as session:
        token, scope = CancelToken(), anyio.CancelScope()

        async def call(number: int, **options: Any) -> Any:
            return await session.call_tool("hold", {"n": number}, **options)

        async def abandoned() -> None:
            with scope:
                await call(2)

        async with anyio.create_task_group() as tasks:
            await start(tasks, session, call, range(1), done)
            await start(tasks, session, call, range(1, 2), done, cancel=token)
            tasks.start_soon(abandoned)
            await anyio.wait_all_tasks_blocked()
            await start(tasks, session, call, range(3, 4), done)
            token.cancel()
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(20):
                while done != [CallWithdrawn]:
                    await anyio.sleep(0)
            assert server.began == [0]
            server.release(0, 3)
        assert server.began == [0, 3]
        server.release(4)
        assert (await call(4)).text == "4"  # the turn is free again
        assert done == [CallWithdrawn, 0, 3]


async def test_one_that_is_cancelled_when_its_turn_comes_passes_it_on() -> None:
    turns = Turns(1)
    came: list[int] = []
    assert turns.take()

    async def wait(number: int) -> None:
        assert await turns.wait(math.inf)
        try:
            await anyio.lowlevel.checkpoint()
            came.append(number)
        finally:
            turns.give_back()

    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as inner:
                inner.start_soon(wait, 1)
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(wait, 2)
                await anyio.wait_all_tasks_blocked()
                turns.give_back()
                scope.cancel()
    assert came == [2] and turns.take() and not turns.take()


async def test_waiting_counts_for_the_total_timeout_and_sends_nothing(clock: Clock) -> None:
    server, done = Holding(), list[Any]()
    clock.stop()
    timeouts = Timeouts(total=30, idle=1000)
    async with connect(
        server.server, approval=allow_all, limits=Limits(in_flight=1), timeouts=timeouts
    ) as session:

        async def call(number: int, **options: Any) -> Any:
            return await session.call_tool("hold", {"n": number}, **options)

        async with anyio.create_task_group() as tasks:
            await start(
                tasks, session, call, range(1), done, timeout=Timeouts(total=1000, idle=1000)
            )
            await start(tasks, session, call, range(1, 2), done)
            await start(tasks, session, call, range(2, 3), done, timeout=60)
            clock.jump(31)
            with anyio.fail_after(100):
                while not done:
                    await anyio.lowlevel.checkpoint()
            assert done == [NotSent] and server.began == [0]
            assert refused[-1].retryable and "in_flight" in refused[-1].message
            server.release(0, 2)
        assert server.began == [0, 2] and done == [NotSent, 0, 2]


@pytest.mark.parametrize("app", [Handshake, Stateless])
async def test_turns_hold_over_http(app: Any) -> None:
    now = most = 0

    async def echo(arguments: Any) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        now -= 1
        return "done"

    async with (
        serving(app(echo=echo)) as served,
        connect(served.url, approval=allow_all, limits=TWO) as session,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(6):
            tasks.start_soon(session.call_tool, "echo")
    assert most <= 2


async def test_a_call_that_is_asked_about_again_does_not_hold_a_turn() -> None:
    server, done = Holding(), list[Any]()
    displayed: list[str] = []
    ask, asked = anyio.Event(), anyio.Event()

    async def approve(request: Any) -> Any:
        displayed.append(str(request.tool.description))
        if request.tool.description == "new" and request.arguments["n"] == 1:
            asked.set()
            await ask.wait()
        return Allow()

    async with connect(server.server, approval=approve, limits=Limits(in_flight=1)) as session:

        async def call(number: int) -> Any:
            return await session.call_tool("hold", {"n": number})

        async with anyio.create_task_group() as tasks:
            await start(tasks, session, call, range(2), done)
            server.offer({"name": "hold", "description": "new", "inputSchema": {"type": "object"}})
            await anyio.wait_all_tasks_blocked()
            server.release(0, 1, 2)
            with anyio.fail_after(20):
                await asked.wait()
            await start(tasks, session, call, range(2, 3), done)
            with anyio.fail_after(20):
                while 2 not in done:
                    await anyio.wait_all_tasks_blocked()
            assert server.began == [0, 2]
            ask.set()
        assert server.began == [0, 2, 1]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_handler_may_call_the_server_that_asks(revision: str) -> None:
    server = Asking(revision, FORM)

    async def respond(request: Any) -> Accept:
        await anyio.lowlevel.checkpoint()
        nested.append(await session.call_tool("plain"))
        return Accept({"name": "Ana"})

    nested: list[Any] = []
    async with connect(
        MemoryServer(server),
        approval=allow_all,
        limits=Limits(in_flight=1),
        handlers=Handlers(elicitation=respond),
        revision=revision,
    ) as session:
        with anyio.fail_after(20):
            await session.call_tool("ask")
        assert len(nested) == 1


def test_the_limit_holds_for_threads_too() -> None:
    lock, now, most = threading.Lock(), [0], [0]

    async def handler(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            return {"tools": [{"name": "run", "inputSchema": {"type": "object"}}]}
        if message["method"] != "tools/call":
            return NotImplemented
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        await anyio.sleep(0)
        with lock:
            now[0] -= 1
        return {"content": []}

    limits = Limits(in_flight=1)
    with mcp_client.sync.connect(
        MemoryServer(handler), approval=allow_all, limits=limits
    ) as session:
        threads = [threading.Thread(target=session.call_tool, args=("run",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert most == [1]


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "2"])
def test_it_is_a_whole_number(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="in_flight"):
        Limits(in_flight=wrong)
