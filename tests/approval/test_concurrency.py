"""Calls made side by side are asked about side by side, and none of them waits without a clock."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcp_client import (
    Allow,
    CallDenied,
    ConfigError,
    Deny,
    MemoryServer,
    Rule,
    Rules,
    Session,
    Timeouts,
    ToolCall,
    connect,
)
from mcp_client.approval import Decisions, Remember, one_at_a_time
from mcp_client.transports.memory import MemoryTransport
from tests.support.terminal import call_of
from tests.support.timing import Clock


class Server:
    """One tool, and the arguments of every call that arrived."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def handle(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "ping":
                return {}
            case "tools/list":
                return {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                self.ran.append(message["params"]["arguments"])
                return {"content": [{"type": "text", "text": "ran"}]}
        return NotImplemented

    def connect(self, approval: Any, seconds: float = 30, **options: Any) -> Any:
        timeouts = Timeouts(approval=seconds)
        return connect(MemoryServer(self.handle), approval=approval, timeouts=timeouts, **options)


class Judge:
    """Says yes to everything once ``together`` questions are open at the same time."""

    def __init__(self, together: int = 1) -> None:
        self.together = together
        self.asked: list[Any] = []
        self.now = 0
        self.most = 0
        self.all_in = anyio.Event()

    async def __call__(self, call: ToolCall) -> Allow:
        self.asked.append(call.arguments["n"])
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now == self.together:
            self.all_in.set()
        await self.all_in.wait()
        for _ in range(5):
            await checkpoint()
        self.now -= 1
        return Allow()


async def make_calls(*sessions: Session, count: int = 8) -> None:
    """Calls at once, begun in order, over the sessions in turn."""
    async with anyio.create_task_group() as group:
        for n in range(count):
            session = sessions[n % len(sessions)]
            group.start_soon(functools.partial(session.call_tool, "t", {"n": n}))
            await checkpoint()


# ------------------------------------------------------------------- side by side


@pytest.mark.parametrize("wrap", [lambda hook: hook, lambda hook: Rules([], ask=hook)])
async def test_calls_made_side_by_side_are_asked_about_side_by_side(
    wrap: Callable[[Any], Any],
) -> None:
    server, judge = Server(), Judge(together=8)
    async with server.connect(wrap(judge)) as one, server.connect(wrap(judge)) as two:
        await make_calls(one, two)
    assert judge.most == 8
    assert len(server.ran) == 8


async def test_a_sync_hook_is_asked_side_by_side_in_threads() -> None:
    server = Server()
    together = threading.Barrier(8, timeout=30)
    threads: set[int] = set()

    def hook(call: ToolCall) -> Allow:
        together.wait()
        threads.add(threading.get_ident())
        return Allow()

    async with server.connect(hook) as session:
        await make_calls(session)
    assert len(threads) == 8
    assert threading.get_ident() not in threads
    assert len(server.ran) == 8


async def test_attributes_on_a_function_change_nothing() -> None:
    threads: list[int] = []

    def hook(call: ToolCall) -> Allow:
        threads.append(threading.get_ident())
        return Allow()

    hook.immediate = True  # type: ignore[attr-defined]
    hook.concurrent = False  # type: ignore[attr-defined]
    async with Server().connect(hook) as session:
        await session.call_tool("t")
    assert threads[0] != threading.get_ident()


# ---------------------------------------------------------------------- in turn


async def test_one_at_a_time_asks_in_order_and_shares_the_turn_between_sessions() -> None:
    server, judge = Server(), Judge()
    hook = one_at_a_time(judge)
    async with server.connect(hook) as one, server.connect(hook) as two:
        await one.list_tools()
        await two.list_tools()
        await make_calls(one, two)
    assert judge.most == 1
    assert judge.asked == list(range(8))
    assert len(server.ran) == 8


async def test_one_at_a_time_holds_across_event_loops() -> None:
    busy = threading.Lock()
    collisions: list[str] = []

    def hook(call: ToolCall) -> Allow:
        if not busy.acquire(blocking=False):
            collisions.append("two at once")
            return Allow()
        threading.Event().wait(0.01)
        busy.release()
        return Allow()

    shared, servers = one_at_a_time(hook), (Server(), Server())

    async def main(server: Server) -> None:
        async with server.connect(shared) as session:
            await make_calls(session, count=4)

    others = [threading.Thread(target=anyio.run, args=(main, server)) for server in servers]
    for thread in others:
        thread.start()
    for thread in others:
        await anyio.to_thread.run_sync(thread.join, 30)
    assert not collisions
    assert [len(server.ran) for server in servers] == [4, 4]


async def test_waiting_for_the_turn_counts_on_the_approval_timeout() -> None:
    server, asked = Server(), []

    async def never(call: ToolCall) -> Allow:
        asked.append(call.arguments["n"])
        await anyio.sleep_forever()
        return Allow()

    refused: list[int] = []

    async def call(session: Session, n: int) -> None:
        with pytest.raises(CallDenied, match="none within"):
            await session.call_tool("t", {"n": n})
        refused.append(n)

    async with (
        server.connect(one_at_a_time(never), 0.05) as session,
        anyio.create_task_group() as group,
    ):
        for n in range(3):
            group.start_soon(call, session, n)
    assert sorted(refused) == [0, 1, 2]
    assert server.ran == []


async def test_a_call_cancelled_while_it_waits_for_its_turn_is_never_asked_about() -> None:
    held, server, asked = anyio.Event(), Server(), []

    async def hook(call: ToolCall) -> Allow:
        asked.append(call.arguments["n"])
        await held.wait()
        return Allow()

    async with (
        server.connect(one_at_a_time(hook)) as session,
        anyio.create_task_group() as group,
    ):
        await session.list_tools()
        group.start_soon(functools.partial(session.call_tool, "t", {"n": 0}))
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.01):
            await session.call_tool("t", {"n": 1})
        held.set()
    assert asked == [0]
    assert len(server.ran) == 1


async def test_a_refusal_or_a_fault_gives_the_turn_to_the_next_call() -> None:
    async def hook(call: ToolCall) -> Any:
        await checkpoint()
        match call.arguments["n"] % 4:
            case 0:
                return Deny("no")
            case 1:
                raise ValueError
            case 2:
                return None
        return Allow()

    server, refused = Server(), []

    async def call(session: Session, n: int) -> None:
        try:
            await session.call_tool("t", {"n": n})
        except CallDenied:
            refused.append(n)

    async with (
        server.connect(one_at_a_time(hook)) as session,
        anyio.create_task_group() as group,
    ):
        for n in range(8):
            group.start_soon(call, session, n)
    assert sorted(refused) == [0, 1, 2, 4, 5, 6]
    assert sorted(sent["n"] for sent in server.ran) == [3, 7]


@pytest.mark.parametrize("odd", [None, 7, Allow(), Rules([Rule("deny")])])
def test_one_at_a_time_takes_a_hook_and_nothing_else(odd: Any) -> None:
    with pytest.raises(ConfigError, match="one_at_a_time"):
        one_at_a_time(odd)


# ---------------------------------------------------------------- every wait has a clock


async def test_hooks_that_never_return_do_not_keep_later_calls_from_the_file_of_decisions(
    tmp_path: Path,
) -> None:
    release, server, file = threading.Event(), Server(), tmp_path / "answers.json"

    def never(call: ToolCall) -> Allow:
        release.wait(60)
        return Allow()

    refused: list[int] = []

    async def call(session: Session, n: int) -> None:
        with pytest.raises(CallDenied, match="none within"):
            await session.call_tool("t", {"n": n})
        refused.append(n)

    class Known(MemoryTransport):
        stable_identity = "the server"

    transport = Known(server.handle)
    timeouts = Timeouts(approval=0.2)
    try:
        async with connect(
            transport, approval=never, state=Decisions(file), timeouts=timeouts
        ) as session:
            async with anyio.create_task_group() as group:
                for n in range(45):
                    group.start_soon(call, session, n)
            with anyio.fail_after(60):
                await call(session, 45)
                tool = await session.get_tool("t")
                made = call_of(server=session.name, name=tool.name)
                made = replace(made, tool=tool, hints=tool.hints)
                Decisions(file).add(made, Remember("always"), "the server")
                await session.call_tool("t", {"n": 61})
    finally:
        release.set()
    assert len(refused) == 46
    assert server.ran == [{"n": 61}]


async def test_more_hanging_hooks_than_threads_are_refused_by_the_clock() -> None:
    release, server, refused = threading.Event(), Server(), []

    def never(call: ToolCall) -> Allow:
        release.wait(60)
        return Allow()

    async def call(session: Session) -> None:
        with pytest.raises(CallDenied, match="none within"):
            await session.call_tool("t")
        refused.append(1)

    try:
        async with server.connect(never, 0.2) as session, anyio.create_task_group() as group:
            with anyio.fail_after(30):
                for _ in range(260):
                    group.start_soon(call, session)
    finally:
        release.set()
    assert len(refused) == 260
    assert server.ran == []


async def test_a_file_of_decisions_that_never_comes_is_under_the_approval_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, server = threading.Event(), Server()

    def hang(self: Decisions, call: ToolCall, identity: str) -> None:
        release.wait(60)

    class Known(MemoryTransport):
        stable_identity = "the server"

    monkeypatch.setattr(Decisions, "find", hang)
    options: dict[str, Any] = {
        "state": Decisions(tmp_path / "a.json"),
        "timeouts": Timeouts(approval=0.1),
    }
    try:
        async with connect(Known(server.handle), approval=Judge(), **options) as session:
            with anyio.fail_after(60), pytest.raises(CallDenied, match="none within"):
                await session.call_tool("t", {"n": 1})
    finally:
        release.set()
    assert server.ran == []


# ---------------------------------------------------------------------- closing


def waiting_in_a_thread(asked: anyio.Event, release: threading.Event) -> Any:
    def hook(call: ToolCall) -> Allow:
        anyio.from_thread.run_sync(asked.set)
        release.wait(60)
        return Allow()

    return hook


def waiting_in_the_task(asked: anyio.Event, release: threading.Event) -> Any:
    async def hook(call: ToolCall) -> Allow:
        asked.set()
        await anyio.sleep_forever()
        return Allow()

    return hook


def swallowing_the_cancellation(asked: anyio.Event, release: threading.Event) -> Any:
    async def hook(call: ToolCall) -> Allow:
        asked.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            pass
        return Allow()

    return hook


def in_turn(asked: anyio.Event, release: threading.Event) -> Any:
    return one_at_a_time(waiting_in_the_task(asked, release))


@pytest.mark.parametrize(
    "make", [waiting_in_a_thread, waiting_in_the_task, swallowing_the_cancellation, in_turn]
)
async def test_closing_a_session_ends_the_calls_its_hook_is_deciding(make: Any) -> None:
    server, asked, release = Server(), anyio.Event(), threading.Event()
    ended: list[str] = []

    async def call(session: Session) -> None:
        with pytest.raises(CallDenied, match="the session was closed") as caught:
            await session.call_tool("t")
        assert caught.value.source == "gate"
        ended.append("denied")

    try:
        async with anyio.create_task_group() as group:
            session = await server.connect(make(asked, release))
            group.start_soon(call, session)
            group.start_soon(call, session)
            await asked.wait()
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(60):
                await session.aclose()
    finally:
        release.set()
    assert ended == ["denied", "denied"]
    assert server.ran == []


async def test_an_approval_after_its_clock_is_a_denial_where_the_hook_held_up_the_event_loop(
    clock: Clock,
) -> None:
    async def hook(call: ToolCall) -> Allow:
        clock.jump(61)
        return Allow()

    server = Server()
    async with server.connect(hook, seconds=60) as session:
        with pytest.raises(CallDenied, match="none within 60 s"):
            await session.call_tool("t")
    assert server.ran == []


async def test_closing_one_session_leaves_the_questions_of_another_open() -> None:
    server, judge = Server(), Judge(together=2)
    async with server.connect(judge) as one, anyio.create_task_group() as group:
        two = await server.connect(judge)
        await two.list_tools()
        group.start_soon(functools.partial(one.call_tool, "t", {"n": 1}))
        while judge.now < 1:
            await checkpoint()
        await two.aclose()
        group.start_soon(functools.partial(one.call_tool, "t", {"n": 2}))
    assert sorted(call["n"] for call in server.ran) == [1, 2]


async def test_an_approval_that_swallowed_its_callers_cancellation_is_not_remembered() -> None:
    asked, server, store = anyio.Event(), Server(), Decisions()

    async def hook(call: ToolCall) -> Allow:
        asked.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            pass
        return Allow(remember="session")

    async with server.connect(hook, state=store) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(session.call_tool, "t")
            await asked.wait()
            group.cancel_scope.cancel()
        assert session.decisions.list() == ()
    assert server.ran == []


# --------------------------------------------------------------- a hook that calls a tool


def calling(session: list[Session], seen: list[CallDenied]) -> dict[str, Any]:
    """Hooks that call a tool on the session whose call they are deciding."""

    async def directly(call: ToolCall) -> Allow:
        with pytest.raises(CallDenied) as caught:
            await session[0].call_tool("t", {"n": "inner"})
        seen.append(caught.value)
        return Allow()

    async def in_a_child_task(call: ToolCall) -> Allow:
        async with anyio.create_task_group() as group:
            group.start_soon(directly, call)
        return Allow()

    def from_a_thread(call: ToolCall) -> Allow:
        anyio.from_thread.run(directly, call)
        anyio.from_thread.check_cancelled()
        return Allow()

    return {
        "directly": directly,
        "in a child task": in_a_child_task,
        "from a thread": from_a_thread,
        "in its turn": one_at_a_time(directly),
        "below rules": Rules([], ask=directly),
    }


@pytest.mark.parametrize("how", list(calling([], [])))
async def test_a_hook_that_calls_a_tool_on_its_own_session_is_informed_at_once(how: str) -> None:
    server = Server()
    session: list[Session] = []
    seen: list[CallDenied] = []
    async with server.connect(calling(session, seen)[how]) as opened:
        session.append(opened)
        with anyio.fail_after(60):
            await opened.call_tool("t", {"n": "outer"})
    assert len(seen) == 1
    assert "the hook itself made this call" in seen[0].reason
    assert server.ran == [{"n": "outer"}]


async def test_the_refusal_of_a_hook_that_lets_the_inner_error_through_gives_the_reason() -> None:
    server = Server()
    session: list[Session] = []

    async def hook(call: ToolCall) -> Allow:
        await session[0].call_tool("t")
        return Allow()

    async with server.connect(hook) as opened:
        session.append(opened)
        with pytest.raises(CallDenied, match="the hook itself made this call"):
            await opened.call_tool("t")
    assert server.ran == []


async def test_a_hook_may_call_what_rules_allow_and_other_sessions() -> None:
    server, other = Server(), Server()
    session: list[Session] = []
    rules = Rules([Rule("allow", arguments={"/n": {"equals": "allowed"}})])

    async with other.connect(Judge()) as second:

        async def hook(call: ToolCall) -> Allow:
            await session[0].call_tool("t", {"n": "allowed"})
            await second.call_tool("t", {"n": "elsewhere"})
            return Allow()

        async with server.connect(Rules(rules, ask=hook)) as opened:
            session.append(opened)
            await opened.call_tool("t", {"n": "outer"})
    assert server.ran == [{"n": "allowed"}, {"n": "outer"}]
    assert other.ran == [{"n": "elsewhere"}]


async def test_a_task_the_hook_left_behind_may_call_tools_once_the_hook_has_answered() -> None:
    server, answered = Server(), anyio.Event()
    session: list[Session] = []

    async def later() -> None:
        await answered.wait()
        await session[0].call_tool("t", {"n": "later"})

    async with anyio.create_task_group() as group:

        async def hook(call: ToolCall) -> Allow:
            if call.arguments["n"] == "first":
                group.start_soon(later)
            return Allow()

        opened = await server.connect(hook)
        session.append(opened)
        await opened.call_tool("t", {"n": "first"})
        answered.set()
    await opened.aclose()
    assert server.ran == [{"n": "first"}, {"n": "later"}]


# ------------------------------------------------------------------------ the log


async def test_a_failing_hook_is_logged_with_its_traceback_once_per_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "mcp_client.approval")

    async def hook(call: ToolCall) -> Allow:
        if call.arguments["n"] == "typo":
            return Alow()  # type: ignore[name-defined, no-any-return] # noqa: F821
        if call.arguments["n"] == "key":
            return call.arguments["key"]  # type: ignore[no-any-return]
        raise ValueError("a third kind")

    async with Server().connect(hook) as session:
        for n in ("typo", "typo", "key", "typo", "other", "key"):
            with pytest.raises(CallDenied):
                await session.call_tool("t", {"n": n})
    logged = [record for record in caplog.records if record.name == "mcp_client.approval"]
    assert len(logged) == 6
    whole = [record for record in logged if record.exc_info]
    assert [record.exc_info[0] for record in whole if record.exc_info] == [
        NameError,
        KeyError,
        ValueError,
    ]
    assert all(record.levelname == "ERROR" for record in whole)
    assert all("memory/t is refused: the approval hook raised" in r.getMessage() for r in logged)


async def test_a_decision_of_the_wrong_type_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with Server().connect(lambda call: None) as session:
        with pytest.raises(CallDenied):
            await session.call_tool("t")
    assert "the approval hook returned NoneType, neither Allow nor Deny" in caplog.text


async def test_a_timeout_is_not_logged_as_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def never(call: ToolCall) -> Allow:
        await anyio.sleep_forever()
        return Allow()

    async with Server().connect(never, 0.01) as session:
        with pytest.raises(CallDenied):
            await session.call_tool("t")
    assert not [record for record in caplog.records if record.name == "mcp_client.approval"]
