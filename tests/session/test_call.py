"""What a call sends, round by round, and what it logs."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    CallDenied,
    CallTimeout,
    ConfigError,
    MemoryServer,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
)
from tests.support.timing import Clock

pytestmark = pytest.mark.one_backend

SCHEMA = {"type": "object", "properties": {"pin": {"type": "integer"}}}
TOOL = {"name": "open", "inputSchema": SCHEMA}


class Rounds:
    """A stateless server that asks back with each of ``states`` before it answers."""

    def __init__(self, *states: str | None) -> None:
        self.states = list(states)
        self.sent: list[dict[str, Any]] = []

    def __call__(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "server/discover":
                return {"supportedVersions": ["2026-07-28"], "capabilities": {}}
            case "tools/list":
                return {"tools": [TOOL]}
            case "tools/call":
                self.sent.append({**message["params"], "id": message["id"]})
                if self.states:
                    state = self.states.pop(0)
                    asked: dict[str, Any] = {"inputRequests": {}}
                    if state is not None:
                        asked = {"requestState": state}
                    return {"resultType": "input_required", **asked}
                return {"content": []}
        return NotImplemented


async def test_each_round_carries_the_state_of_the_response_before_it_and_no_older_one() -> None:
    server = Rounds("first", None, "third")
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.call_tool("open", {"pin": 1})
    assert [sent.get("requestState", "none") for sent in server.sent] == [
        "none",
        "first",
        "none",
        "third",
    ]
    assert len({sent["id"] for sent in server.sent}) == 4
    assert all(sent["arguments"] == {"pin": 1} for sent in server.sent)


async def test_the_stats_count_each_request_that_was_sent_and_no_notification() -> None:
    rounds, sent = Rounds("again"), list[str]()

    def server(message: dict[str, Any]) -> Any:
        if "id" in message:
            sent.append(message["method"])
        return rounds(message)

    async with connect(MemoryServer(server), approval=allow_all) as session:
        assert (session.stats.requests, session.stats.streams) == (len(sent), 0)
        await session.call_tool("open")
        assert sent[-2:] == ["tools/call", "tools/call"]
        assert session.stats.requests == len(sent)


@pytest.mark.both_backends
async def test_all_rounds_of_a_call_share_one_total_clock() -> None:
    async def server(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/call":
            await anyio.sleep(0.2)
        return rounds(message)

    rounds = Rounds(*"abcdef")
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with pytest.raises(CallTimeout) as caught:
            await session.call_tool("open", timeout=0.5)
    assert caught.value.clock in ("idle", "total")
    assert len(rounds.sent) < 6, "six rounds of 0.2 s, each within its own clock"


class Silent(Rounds):
    """Asks back as a test sets, each time 0.4 s later, and then is silent for so long."""

    def __init__(self, clock: Clock, seconds: float, *states: str) -> None:
        super().__init__(*states)
        self.clock = clock
        self.seconds = seconds

    async def called(self, message: dict[str, Any]) -> Any:
        if message["method"] == "tools/call":
            if not self.states:
                self.clock.jump(self.seconds)
                await anyio.sleep_forever()
            self.clock.jump(0.4)
        return self(message)


@pytest.mark.both_backends
@pytest.mark.parametrize(
    ("passed", "timeouts", "silence", "expected"),
    [
        ({"timeout": 0.5}, Timeouts(), 0.6, "no response within 0.5 s (total timeout"),
        ({"timeout": 30}, Timeouts(idle=1), 1.1, "no sign of life within 1 s (idle timeout"),
        ({"timeout": Timeouts(idle=9, total=20)}, Timeouts(idle=1), 9.1, "9 s (idle timeout"),
        ({}, Timeouts(idle=90, total=25), 25.1, "no response within 25 s (total timeout"),
    ],
)
@pytest.mark.parametrize("states", ["", "a"])
async def test_a_timeout_names_the_time_allowed_and_a_call_lifts_no_other_clock(
    states: str,
    passed: dict[str, Any],
    timeouts: Timeouts,
    silence: float,
    expected: str,
    clock: Clock,
) -> None:
    server = Silent(clock, silence, *states)
    clock.stop()
    async with connect(
        MemoryServer(server.called), approval=allow_all, timeouts=timeouts
    ) as session:
        with pytest.raises(CallTimeout) as caught:
            await session.call_tool("open", **passed)
    assert expected in str(caught.value)
    assert caught.value.clock in expected


@pytest.mark.both_backends
@pytest.mark.parametrize("late", ["never", "swallows the cancellation"])
async def test_the_time_to_approve_that_a_call_sets_holds(late: str, clock: Clock) -> None:
    server = Rounds()

    async def approve(call: ToolCall) -> Allow:
        clock.jump(1.1)
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            if late == "never":
                raise
        return Allow()

    clock.stop()
    async with connect(MemoryServer(server), approval=approve) as session:
        with pytest.raises(CallDenied, match=r"none within 1 s, Timeouts\(approval") as caught:
            await session.call_tool("open", timeout=Timeouts(approval=1))
    assert (caught.value.source, caught.value.tool) == ("gate", "open")
    assert server.sent == []


async def test_the_time_to_approve_that_a_call_sets_lifts_no_bound(clock: Clock) -> None:
    async def approve(call: ToolCall) -> Allow:
        clock.jump(1.1)
        await anyio.sleep_forever()
        raise AssertionError

    clock.stop()
    timeouts = Timeouts(approval=1)
    async with connect(MemoryServer(Rounds()), approval=approve, timeouts=timeouts) as session:
        for passed in (None, 5, Timeouts(approval=9)):
            with pytest.raises(CallDenied, match="within 1 s"):
                await session.call_tool("open", timeout=passed)


async def test_the_log_names_the_place_of_a_wrong_argument_and_not_its_value(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Rounds()
    with caplog.at_level(logging.DEBUG, "mcp_client"):
        async with connect(MemoryServer(server), approval=allow_all) as session:
            await session.call_tool("open", {"pin": "hunter2-secret"})
    assert "/pin" in caplog.text
    assert "hunter2" not in caplog.text
    assert len(server.sent) == 1


@pytest.mark.parametrize("context", [[1], {"user": "ana"}, ("ana", [1])])
async def test_a_context_without_a_hash_is_refused_before_anybody_is_asked(context: Any) -> None:
    asked: list[ToolCall] = []

    def server(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        return NotImplemented

    def hook(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    async with connect(MemoryServer(server), approval=hook) as session:
        with pytest.raises(ConfigError, match=r"context is a .* hashable"):
            await session.call_tool("echo", context=context)
    assert asked == []
