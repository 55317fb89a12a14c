"""The gate as a caller meets it: whatever a hook does, the server's record shows what ran."""

from __future__ import annotations

import asyncio  # noqa: TID251 - one test is about a task of asyncio's own
import functools
import io
import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
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
    Timeouts,
    ToolCall,
    allow_all,
    connect,
    deny_all,
)
from mcp_client.errors import InvalidArguments
from mcp_client.validation import Validation

pytestmark = pytest.mark.one_backend


class Server:
    """Two tools, and a record of every call that arrived."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def handle(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "ping":
                return {}
            case "tools/list":
                schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
                return {"tools": [{"name": name, "inputSchema": schema} for name in ("t", "u")]}
            case "tools/call":
                self.sent.append(message["params"])
                return {"content": [{"type": "text", "text": "ran"}]}
        return NotImplemented

    def connect(self, approval: Any, seconds: float = 30, **options: Any) -> Any:
        timeouts = Timeouts(approval=seconds)
        return connect(MemoryServer(self.handle), approval=approval, timeouts=timeouts, **options)

    async def call(self, approval: Any, arguments: Any = None, **options: Any) -> str:
        async with self.connect(approval, **options) as session:
            called: str = (await session.call_tool("t", arguments)).text
            return called

    async def refused(self, approval: Any, arguments: Any = None, **options: Any) -> CallDenied:
        """The refusal; the server must not have received the call."""
        with pytest.raises(CallDenied) as caught:
            await self.call(approval, arguments, **options)
        assert self.sent == []
        assert (caught.value.server, caught.value.tool) == ("memory", "t")
        return caught.value


# ---------------------------------------------------------- kinds of hook


async def async_hook(call: ToolCall) -> Allow:
    await checkpoint()
    return Allow()


def sync_hook(call: ToolCall) -> Allow:
    return Allow()


async def with_option(decision: Any, call: ToolCall) -> Any:
    return decision


def sync_with_option(decision: Any, call: ToolCall) -> Any:
    return decision


class AsyncObject:
    async def __call__(self, call: ToolCall) -> Allow:
        return Allow()

    async def method(self, call: ToolCall) -> Allow:
        return Allow()

    def sync_method(self, call: ToolCall) -> Allow:
        return Allow()


class SyncObject:
    __slots__ = ()

    def __call__(self, call: ToolCall) -> Allow:
        return Allow()


@dataclass
class Unhashable:
    answers: list[Any] = field(default_factory=list)

    async def __call__(self, call: ToolCall) -> Allow:
        return Allow()


HOOKS: list[tuple[str, Any]] = [
    ("async function", async_hook),
    ("sync function", sync_hook),
    ("async partial", functools.partial(with_option, Allow())),
    ("sync partial", functools.partial(sync_with_option, Allow())),
    ("partial of a partial", functools.partial(functools.partial(with_option, Allow()))),
    ("async object", AsyncObject()),
    ("sync object with slots", SyncObject()),
    ("unhashable object", Unhashable()),
    ("partial of an object", functools.partial(AsyncObject())),
    ("async method", AsyncObject().method),
    ("sync method", AsyncObject().sync_method),
    ("lambda that gives an awaitable", lambda call: async_hook(call)),
    ("allow_all", allow_all),
]


@pytest.mark.parametrize("hook", [row[1] for row in HOOKS], ids=[row[0] for row in HOOKS])
async def test_any_callable_is_a_hook(hook: Any) -> None:
    server = Server()
    assert await server.call(hook, {"n": 1}) == "ran"
    (sent,) = server.sent
    assert (sent["name"], sent["arguments"]) == ("t", {"n": 1})


async def test_a_sync_hook_runs_in_a_thread_and_an_async_one_in_the_callers_task() -> None:
    threads: list[int] = []

    def sync(call: ToolCall) -> Allow:
        threads.append(threading.get_ident())
        return Allow()

    async def in_task(call: ToolCall) -> Allow:
        threads.append(threading.get_ident())
        return Allow()

    await Server().call(sync)
    await Server().call(in_task)
    assert threads[0] != threading.get_ident() == threads[1]


async def test_a_hook_sees_the_call_it_decides() -> None:
    seen: list[ToolCall] = []

    async def look(call: ToolCall) -> Allow:
        seen.append(call)
        return Allow()

    await Server().call(look, {"n": 1, "b": [{}]})
    (call,) = seen
    assert (call.server, call.tool.name, call.trusted, call.edited) == ("memory", "t", False, False)
    assert call.arguments == {"n": 1, "b": ({},)}
    assert call.arguments_json == '{"b":[{}],"n":1}'
    with pytest.raises(TypeError):
        call.arguments["n"] = 2


async def test_every_call_is_asked_about_again() -> None:
    asked: list[str] = []

    async def count(call: ToolCall) -> Allow:
        asked.append(call.id)
        return Allow()

    async with Server().connect(count) as session:
        for _ in range(3):
            await session.call_tool("t", {"n": 1})
    assert len(set(asked)) == 3


# ------------------------------------------------------------ it fails closed


class Interrupted(BaseException):
    pass


def raising(error: BaseException) -> Callable[[ToolCall], Any]:
    async def hook(call: ToolCall) -> Allow:
        raise error

    return hook


def sync_raising(error: BaseException) -> Callable[[ToolCall], Any]:
    def hook(call: ToolCall) -> Allow:
        raise error

    return hook


@pytest.mark.parametrize("make", [raising, sync_raising])
@pytest.mark.parametrize("error", [ValueError("x"), TimeoutError(), KeyError(), CallDenied("no")])
async def test_a_hook_that_raises_is_a_denial(make: Any, error: Exception) -> None:
    denied = await Server().refused(make(error))
    assert f"it raised {type(error).__name__}" in str(denied)
    assert denied.__cause__ is error


@pytest.mark.both_backends
async def test_a_hook_that_raises_a_group_is_a_denial() -> None:
    async def hook(call: ToolCall) -> Allow:
        async with anyio.create_task_group() as group:
            group.start_soon(raising(ValueError("x")), call)
        return Allow()

    assert "ExceptionGroup" in str(await Server().refused(hook))


ANSWERS: list[Any] = [None, True, False, "yes", "Allow", Allow, 1, {}, {"allow": True}, (Allow(),)]


@pytest.mark.parametrize("decision", ANSWERS, ids=repr)
@pytest.mark.parametrize("with_decision", [with_option, sync_with_option])
async def test_a_decision_that_is_neither_allow_nor_deny_is_a_denial(
    with_decision: Any, decision: Any
) -> None:
    denied = await Server().refused(functools.partial(with_decision, decision))
    assert "neither Allow nor Deny" in str(denied)
    if decision is Allow:
        assert denied.reason.endswith("the class Allow, neither Allow nor Deny: write Allow()")
    else:
        assert type(decision).__name__ in denied.reason
        assert denied.reason.endswith("give Allow() or Deny(reason)")


@pytest.mark.both_backends
async def test_a_hook_that_waits_too_long_is_a_denial() -> None:
    async def never(call: ToolCall) -> Allow:
        await anyio.Event().wait()
        return Allow()

    with anyio.fail_after(60):
        denied = await Server().refused(never, seconds=0.05)
    assert "within 0.05 s, Timeouts(approval=...)" in str(denied)


@pytest.mark.both_backends
async def test_a_sync_hook_that_waits_too_long_is_a_denial_whatever_it_states_later() -> None:
    go = threading.Event()

    def late(call: ToolCall) -> Allow:
        go.wait(30)
        return Allow()

    server = Server()
    async with server.connect(late, 0.05) as session:
        with pytest.raises(CallDenied, match="within"):
            await session.call_tool("t")
        go.set()
        await anyio.wait_all_tasks_blocked()
        await session.ping()
    assert server.sent == []


async def test_a_cancelled_exception_of_the_hook_is_a_denial_and_not_the_callers_end() -> None:
    async def hook(call: ToolCall) -> Allow:
        raise anyio.get_cancelled_exc_class()()  # trio makes a TypeError of that: also no

    server = Server()
    await server.refused(hook)
    await checkpoint()
    assert await server.call(allow_all) == "ran"


@pytest.mark.both_backends
async def test_a_task_of_the_hook_that_is_cancelled_is_a_denial(anyio_backend: str) -> None:
    async def forever() -> Allow:
        await anyio.Event().wait()
        return Allow()

    async def hook(call: ToolCall) -> Allow | None:
        if anyio_backend == "trio":
            with anyio.CancelScope() as scope:
                scope.cancel()
                await forever()
            return None
        task = asyncio.ensure_future(forever())
        await checkpoint()
        task.cancel()
        return await task

    await Server().refused(hook)


@pytest.mark.both_backends
async def test_a_caller_cancelled_while_a_person_thinks_sends_nothing() -> None:
    asked, server = anyio.Event(), Server()

    async def think(call: ToolCall) -> Allow:
        asked.set()
        await anyio.Event().wait()
        return Allow()

    async with server.connect(think) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(session.call_tool, "t")
            await asked.wait()
            group.cancel_scope.cancel()
        await session.ping()
    assert server.sent == []


@pytest.mark.both_backends
async def test_a_hook_that_shields_its_approval_from_the_callers_cancelling_sends_nothing() -> None:
    asked, go, server = anyio.Event(), anyio.Event(), Server()

    async def stubborn(call: ToolCall) -> Allow:
        with anyio.CancelScope(shield=True):
            asked.set()
            await go.wait()
        return Allow()

    async with server.connect(stubborn) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(session.call_tool, "t")
            await asked.wait()
            group.cancel_scope.cancel()
            go.set()
        await session.ping()
    assert server.sent == []


async def test_a_base_exception_of_the_hook_is_raised_and_nothing_is_sent() -> None:
    server = Server()
    with pytest.raises(Interrupted):
        await server.call(raising(Interrupted()))
    assert server.sent == []


async def test_deny_gives_the_reason_to_the_caller_made_safe() -> None:
    denied = await Server().refused(deny_all)
    assert denied.reason == "deny_all refuses every call"
    denied = await Server().refused(functools.partial(with_option, Deny("ask \x1b[31mAna")))
    assert denied.reason == "ask \\u{1b}[31mAna"
    assert "not approved: ask" in str(denied)
    assert str(await Server().refused(functools.partial(with_option, Deny())))


async def test_without_a_terminal_the_refusal_names_the_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    denied = await Server().refused(None)
    assert "no terminal" in denied.reason
    assert "approval=" in denied.reason


@pytest.mark.parametrize("stream", ["stdin", "stderr"])
async def test_a_stream_that_is_missing_or_closed_is_not_a_terminal(
    stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = io.StringIO()
    closed.close()
    for odd in (None, closed):
        monkeypatch.setattr(sys, stream, odd)
        assert "approval=" in (await Server().refused(None)).reason


# ----------------------------------------------------------- other arguments


async def test_allow_with_arguments_sends_exactly_these() -> None:
    server = Server()
    edit = functools.partial(with_option, Allow(arguments={"b": [1], "a": {"n": None}}))
    assert await server.call(edit, {"n": 1}) == "ran"
    (sent,) = server.sent
    assert sent["arguments"] == {"b": [1], "a": {"n": None}}


async def test_allow_with_no_arguments_at_all_sends_none_of_the_callers() -> None:
    server = Server()
    await server.call(functools.partial(with_option, Allow(arguments={})), {"n": 1})
    assert server.sent[0]["arguments"] == {}


@pytest.mark.both_backends
async def test_a_hook_may_copy_the_arguments_change_the_copy_and_answer_with_it() -> None:
    async def hook(call: ToolCall) -> Allow:
        mine = json.loads(json.dumps(call.arguments))
        mine["deep"]["list"].append(2)
        return Allow(arguments=mine)

    server = Server()
    await server.call(hook, {"deep": {"list": [1]}})
    assert server.sent[0]["arguments"] == {"deep": {"list": [1, 2]}}


@pytest.mark.both_backends
async def test_what_the_caller_or_the_hook_changes_after_the_approval_is_not_sent() -> None:
    mine: dict[str, Any] = {"n": 1, "deep": [1]}
    theirs: dict[str, Any] = {"n": 2}

    async def hook(call: ToolCall) -> Allow:
        mine["n"], mine["deep"] = 666, [666]
        return Allow()

    server = Server()
    await server.call(hook, mine)
    assert server.sent[0]["arguments"] == {"n": 1, "deep": [1]}
    await server.call(functools.partial(with_option, Allow(arguments=theirs)), mine)
    assert server.sent[1]["arguments"] == {"n": 2}


@pytest.mark.parametrize("odd", [[], "x", 7, [("n", 1)]])
async def test_allow_with_arguments_that_are_not_a_mapping_is_a_denial(odd: Any) -> None:
    denied = await Server().refused(functools.partial(with_option, Allow(arguments=odd)))
    assert "not a mapping" in denied.reason
    assert ("Allow takes no reason first: write Allow()" in denied.reason) is (odd == "x")


@pytest.mark.parametrize("reason", [5, None, ["no"]])
def test_a_reason_that_is_not_text_is_refused_when_the_decision_is_made(reason: Any) -> None:
    with pytest.raises(ConfigError, match=r"^Deny\(\w+\): give the reason as a text"):
        Deny(reason)


@pytest.mark.parametrize("odd", [{"n": float("nan")}, {"n": {1}}, {1: 2}, {"n": "\ud800"}])
async def test_allow_with_arguments_that_are_not_json_sends_nothing(odd: Any) -> None:
    server = Server()
    with pytest.raises(InvalidArguments, match="approval hook"):
        await server.call(functools.partial(with_option, Allow(arguments=odd)))
    assert server.sent == []


async def test_the_approvers_arguments_are_checked_as_the_callers_are() -> None:
    server = Server()
    edit = functools.partial(with_option, Allow(arguments={"n": "x"}))
    with pytest.raises(InvalidArguments) as caught:
        await server.call(edit, {"n": 1}, validation=Validation(arguments="strict"))
    assert caught.value.path == "/n"
    assert server.sent == []
