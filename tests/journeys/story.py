"""A whole session through the public API, the same with every server.

``play`` takes anything ``connect`` takes, and so runs over each transport, and a ``Peer``: what to
expect of that server, and the names of its tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import pytest

from mcp_client import (
    Allow,
    CallDenied,
    CallTimeout,
    ConnectError,
    Deny,
    HttpServer,
    NotSent,
    Session,
    StdioServer,
    Timeouts,
    ToolCall,
    ToolResult,
    connect,
)
from mcp_client.errors import ConnectionLost, UnknownTool

__all__ = [
    "BRISK",
    "EVERYTHING",
    "OFFICIAL",
    "Peer",
    "Target",
    "Words",
    "close_in_the_middle",
    "play",
]

Target: TypeAlias = StdioServer | HttpServer | str | Sequence[str]
BRISK = Timeouts(close=0.5)
"""Some of these servers do not leave by themselves: they are waited for, but not for long."""
_ENDLESS = 60.0


@dataclass(frozen=True, slots=True)
class Words:
    """What a server calls its tools, and what they answer."""

    tools: frozenset[str]
    echo: str
    echo_argument: str
    echoed: str
    add: str
    sum: str
    slow: str
    slow_argument: str
    describe: tuple[str, Mapping[str, Any], Mapping[str, Any]]
    fail: tuple[str, Mapping[str, Any], str]
    received: str | None = None
    was_cancelled: str | None = None


OFFICIAL = Words(
    tools=frozenset({"echo", "heard", "add", "weather", "fail", "slow", "was_cancelled"}),
    echo="echo",
    echo_argument="text",
    echoed="{}",
    add="add",
    sum="{}",
    slow="slow",
    slow_argument="seconds",
    describe=("weather", {"place": "Oslo"}, {"place": "Oslo", "degrees": 21.5}),
    fail=("fail", {"reason": "out of ink"}, "out of ink"),
    received="heard",
    was_cancelled="was_cancelled",
)
EVERYTHING = Words(
    tools=frozenset(
        {"echo", "get-sum", "get-structured-content", "trigger-long-running-operation"}
    ),
    echo="echo",
    echo_argument="message",
    echoed="Echo: {}",
    add="get-sum",
    sum="The sum of {a} and {b} is {}.",
    slow="trigger-long-running-operation",
    slow_argument="duration",
    describe=(
        "get-structured-content",
        {"location": "New York"},
        {"temperature": 33, "conditions": "Cloudy", "humidity": 82},
    ),
    fail=("get-sum", {"a": "many", "b": 1}, "expected number"),
)


@dataclass(frozen=True, slots=True)
class Peer:
    """A server as the story expects it."""

    revision: str
    """The revision it agrees to."""
    words: Words
    pin: str = "auto"
    """The revision passed to ``connect``."""
    structured: bool = True
    """Whether it gives output schemas."""
    stoppable: bool = True
    """Whether it survives the notification that a call was given up. The official SDK
    does not before 1.7: it stops reading, and is gone at the next line it is sent."""
    announces: bool = True
    """Whether progress reaches us: not where a server answers in one JSON text, or keeps nothing
    between the requests of a client whose progress it would send on another stream."""
    beside: bool = False
    """Whether progress travels on another stream than the answer, which may overtake its last."""
    hears: bool = True
    """Whether it can be notified that a call was given up: not if it stores no state."""


@dataclass(slots=True)
class Approver:
    """An approval hook that approves until a test makes it deny, and stores what it was asked."""

    seen: list[ToolCall] = field(default_factory=list)
    no: str | None = None

    async def __call__(self, call: ToolCall) -> Allow | Deny:
        self.seen.append(call)
        return Allow() if self.no is None else Deny(self.no)


@dataclass(slots=True)
class Run:
    """What the chapters of one telling share."""

    session: Session
    peer: Peer
    approver: Approver

    @property
    def words(self) -> Words:
        return self.peer.words

    async def echo(self, text: str) -> str:
        result = await self.session.call_tool(self.words.echo, {self.words.echo_argument: text})
        return result.text

    async def slow(self, seconds: float, steps: int, **options: Any) -> ToolResult:
        arguments = {self.words.slow_argument: seconds, "steps": steps}
        return await self.session.call_tool(self.words.slow, arguments, **options)


async def play(target: Target, peer: Peer) -> None:
    """From connecting to closing twice."""
    approver = Approver()
    connecting = connect(target, name="desk", approval=approver, revision=peer.pin, timeouts=BRISK)
    async with connecting as session:
        run = Run(session, peer, approver)
        await _it_knows_the_server(run)
        await _it_lists_every_tool(run)
        await _a_denied_call_is_not_sent(run)
        await _an_approved_call_is_sent_as_asked(run)
        await _structured_content_matches_its_schema(run)
        await _a_failing_tool_is_a_result(run)
        await _an_unknown_tool_raises_without_a_call(run)
        if peer.announces:
            await _progress_is_reported(run)
        await _concurrent_calls_get_their_own_answers(run)
        await _a_timeout_reaches_the_server_and_the_session_goes_on(run)
        if peer.stoppable and peer.announces:
            await _a_slow_call_delays_no_other_and_can_be_cancelled(run)
        await session.ping()
        await session.aclose()
    await session.aclose()
    with pytest.raises(ConnectError, match="closed"):
        await run.echo("too late")


async def _it_knows_the_server(run: Run) -> None:
    assert run.session.protocol_version == run.peer.revision
    assert run.session.server_info is not None
    assert run.session.server_info.name
    assert "tools" in run.session.capabilities


async def _it_lists_every_tool(run: Run) -> None:
    tools = await run.session.list_tools()
    assert {tool.name for tool in tools} >= run.words.tools
    assert not tools.rejected
    echo = await run.session.get_tool(run.words.echo)
    assert echo in tools
    assert run.words.echo_argument in echo.input_schema["properties"]
    assert echo.annotations is None  # this server is not trusted


async def _a_denied_call_is_not_sent(run: Run) -> None:
    run.approver.no = "ask Ana first"
    sent = run.session.stats.requests
    with pytest.raises(CallDenied) as denied:
        await run.echo("denied")
    run.approver.no = None
    assert isinstance(denied.value, NotSent)
    assert denied.value.reason == "ask Ana first"
    assert (denied.value.server, denied.value.tool) == ("desk", run.words.echo)
    assert run.session.stats.requests == sent


async def _an_approved_call_is_sent_as_asked(run: Run) -> None:
    assert await run.echo("héllo\n世界") == run.words.echoed.format("héllo\n世界")
    call = run.approver.seen[-1]
    assert (call.server, call.tool.name, call.generation) == ("desk", run.words.echo, 1)
    assert call.arguments == {run.words.echo_argument: "héllo\n世界"}
    assert call.hints.destructive
    assert not call.hints.read_only
    assert not call.trusted
    assert not call.findings
    if run.words.received is not None:
        received = await run.session.call_tool(run.words.received)
        assert received.text == "héllo\n世界"  # and no word of what was denied


async def _structured_content_matches_its_schema(run: Run) -> None:
    name, arguments, expected = run.words.describe
    tool = await run.session.get_tool(name)
    result = await run.session.call_tool(name, arguments)
    assert not result.is_error
    if run.peer.structured:
        assert set(tool.output_schema["properties"]) == set(expected)
        assert result.structured_content == expected
    assert str(next(iter(expected.values()))) in result.text


async def _a_failing_tool_is_a_result(run: Run) -> None:
    name, arguments, reason = run.words.fail
    result = await run.session.call_tool(name, arguments)
    assert result.is_error
    assert reason in result.text


async def _an_unknown_tool_raises_without_a_call(run: Run) -> None:
    asked, sent = len(run.approver.seen), run.session.stats.requests
    with pytest.raises(UnknownTool, match=run.words.echo):
        await run.session.call_tool("no-such-tool")
    assert len(run.approver.seen) == asked
    assert run.session.stats.requests <= sent + 1  # the list again: it may be new


async def _progress_is_reported(run: Run) -> None:
    steps: list[tuple[float, float | None]] = []
    for pause in (0.03, 0.3, 3.0):  # on a slow machine the answer may overtake all of it
        result = await run.slow(
            pause, 3, on_progress=lambda progress, total, _: steps.append((progress, total))
        )
        assert not result.is_error
        if steps or not run.peer.beside:
            break
    expected = [(1, 3), (2, 3), (3, 3)]
    assert steps
    assert steps == (expected[: len(steps)] if run.peer.beside else expected)


async def _concurrent_calls_get_their_own_answers(run: Run) -> None:
    answers: dict[int, str] = {}

    async def add(number: int) -> None:
        result = await run.session.call_tool(run.words.add, {"a": number, "b": 100})
        answers[number] = result.text

    async with anyio.create_task_group() as calls:
        for number in range(12):
            calls.start_soon(add, number)
    assert answers == {n: run.words.sum.format(n + 100, a=n, b=100) for n in range(12)}


async def _a_timeout_reaches_the_server_and_the_session_goes_on(run: Run) -> None:
    with pytest.raises(CallTimeout) as timeout:
        await run.slow(_ENDLESS, 1, timeout=0.5)
    assert timeout.value.clock == "total"
    assert timeout.value.tool == run.words.slow
    await _the_server_stopped(run)
    assert await run.echo("still here") == run.words.echoed.format("still here")
    assert run.session.generation == (1 if run.peer.stoppable else 2)


async def _a_slow_call_delays_no_other_and_can_be_cancelled(run: Run) -> None:
    under_way = anyio.Event()
    async with anyio.create_task_group() as calls:

        async def call() -> None:
            await run.slow(_ENDLESS, 600, on_progress=lambda *_: under_way.set())
            pytest.fail("it was to be called off")

        calls.start_soon(call)
        with anyio.fail_after(60):
            await under_way.wait()
        assert await run.echo("meanwhile") == run.words.echoed.format("meanwhile")
        calls.cancel_scope.cancel()
    await _the_server_stopped(run)


async def _the_server_stopped(run: Run) -> None:
    """It was notified, and shows it: by its word, or by dying of it; then it is started again."""
    if not run.peer.stoppable:
        with pytest.raises(ConnectionLost):
            await run.session.ping(timeout=20)
    elif run.words.was_cancelled is not None and run.peer.hears:
        was_notified = await run.session.call_tool(run.words.was_cancelled, timeout=20)
        assert was_notified.text == "yes"


async def close_in_the_middle(target: Target, peer: Peer) -> None:
    """One task opens, another calls, a third closes: the call ends, and no task is cancelled."""
    under_way = anyio.Event()
    sessions: list[Session] = []
    lost: list[ConnectionLost] = []

    async def open_it() -> None:
        hook = Approver()
        sessions.append(await connect(target, approval=hook, revision=peer.pin, timeouts=BRISK))

    async def call(run: Run) -> None:
        with pytest.raises(ConnectionLost) as error:
            await run.slow(_ENDLESS, 600, on_progress=lambda *_: under_way.set())
        lost.append(error.value)

    async with anyio.create_task_group() as first:
        first.start_soon(open_it)
    session = sessions[0]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call, Run(session, peer, Approver()))
        with anyio.fail_after(60):
            await under_way.wait()
        tasks.start_soon(session.aclose)
    assert len(lost) == 1
    assert lost[0].tool == peer.words.slow
    await session.aclose()
