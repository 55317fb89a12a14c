"""Calls that no one waits for: a ticket now, and the same call once after it was granted."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import (
    Allow,
    ApprovalQueue,
    ApprovalRequest,
    CallDenied,
    CallPending,
    ConfigError,
    Deny,
    Finding,
    Limits,
    McpError,
    MemoryServer,
    NotSent,
    Pins,
    Retry,
    Session,
    Timeouts,
    ToolCall,
    connect,
)
from mcp_client.approval import Decisions, Remember
from mcp_client.approval.decision import Answer
from mcp_client.approval.tickets import Ticket, caller
from mcp_client.errors import NotPending
from mcp_client.state import MemoryState, PostgresState
from tests.approval.test_concurrency import Server
from tests.approval.test_queue import until_pending
from tests.support.properties import examples
from tests.support.skills import request_of
from tests.support.starting import scripted
from tests.support.timing import Clock


@pytest.fixture(params=["a file", "a state", "a database"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Decisions]:
    if request.param == "a database":
        state = PostgresState(request.getfixturevalue("database"))
        yield state.decisions
        state.close()
    else:
        yield Decisions(tmp_path / "d.json" if request.param == "a file" else MemoryState())


async def ticket_of(session: Session, n: int = 1, **options: Any) -> str:
    with pytest.raises(CallPending) as caught:
        await session.call_tool("t", {"n": n}, **options)
    assert isinstance(caught.value, NotSent)
    assert (caught.value.server, caught.value.tool) == ("memory", "t")
    assert caught.value.ticket in caught.value.message
    return caught.value.ticket


async def test_the_same_call_goes_out_once_after_its_ticket_was_granted(
    store: Decisions,
) -> None:
    server = Server()
    async with server.connect(ApprovalQueue(decisions=store, wait=0)) as session:
        ticket = await ticket_of(session, context="ana")
        assert await ticket_of(session, context="ana") == ticket, "one ticket for one call"
    desk = ApprovalQueue(decisions=store)  # as in another process
    (pending,) = desk.pending_for("ana")
    assert isinstance(pending.request, ToolCall)
    assert (pending.id, pending.request.arguments, pending.request.server) == (
        ticket,
        {"n": 1},
        "memory",
    )
    assert server.ran == []
    desk.decide(ticket, Allow(), by="bo")
    assert desk.pending == ()
    records: list[Any] = []
    queue = ApprovalQueue(decisions=store, wait=0)
    async with server.connect(queue, audit=records.append) as session:
        await ticket_of(session, 2, context="ana")
        await ticket_of(session, 1, context="carl")
        result = await session.call_tool("t", {"n": 1}, context="ana")
        assert result.text == "ran"
        assert await ticket_of(session, context="ana") != ticket, "a grant is used once"
    assert server.ran == [{"n": 1}]
    decisions = [record["decision"] for record in records if record["event"] == "closed"]
    assert [decision and decision["by"] for decision in decisions] == [None, None, "bo", None]
    outcomes = [record["outcome"] for record in records if record["event"] == "closed"]
    assert outcomes == ["CallPending", "CallPending", "ok", "CallPending"]


async def test_a_grant_is_for_the_server_that_was_asked_about_and_for_no_other_of_its_name(
    store: Decisions,
) -> None:
    queue = ApprovalQueue(decisions=store, wait=0)
    async with (
        connect(scripted(), name="prod", approval=queue) as asked,
        connect(scripted("--stderr-flood", "1"), name="prod", approval=queue) as other,
    ):
        with pytest.raises(CallPending) as caught:
            await asked.call_tool("echo", {"text": "hello"})
        queue.decide(caught.value.ticket, Allow(), by="ana")
        with pytest.raises(CallPending) as waits:
            await other.call_tool("echo", {"text": "hello"})
        assert waits.value.ticket != caught.value.ticket
        assert "hello" in (await asked.call_tool("echo", {"text": "hello"})).text


def test_the_key_of_a_skill_is_of_one_server() -> None:
    request = request_of()
    keys = {replace(request, _identity=one).key for one in (None, lambda: "a", lambda: "b")}
    assert len(keys) == 3
    ticket = Ticket("id", replace(request, _identity=lambda: "a"), 1.0, 2.0)
    again = Ticket.from_json(json.loads(json.dumps(ticket.to_json())))
    assert again.request.key == ticket.request.key


async def test_a_ticket_that_was_refused_refuses_the_same_call_once(store: Decisions) -> None:
    server = Server()
    queue = ApprovalQueue(decisions=store, wait=0)
    async with server.connect(queue) as session:
        ticket = await ticket_of(session)
        queue.decide(ticket, Deny("not in production"), by="bo")
        with pytest.raises(NotPending):
            queue.decide(ticket, Allow())
        with pytest.raises(CallDenied, match="not in production") as caught:
            await session.call_tool("t", {"n": 1})
        assert caught.value.by == "bo"
        assert await ticket_of(session) != ticket
    assert server.ran == []


async def test_edited_arguments_and_how_long_an_approval_holds_are_in_the_ticket(
    store: Decisions,
) -> None:
    server = Server()
    queue = ApprovalQueue(decisions=store, wait=0)
    async with server.connect(queue) as session:
        queue.decide(await ticket_of(session, 1), Allow({"n": 7}))
        queue.decide(await ticket_of(session, 2), Allow(remember=Remember("session", seconds=60.0)))
        await session.call_tool("t", {"n": 1})
        await session.call_tool("t", {"n": 2})
        await session.call_tool("t", {"n": 3})
        assert [decision.scope for decision in session.decisions.list()] == ["session"]
    assert server.ran == [{"n": 7}, {"n": 2}, {"n": 3}]


async def test_an_edit_with_findings_takes_effect_once_both_questions_are_answered(
    store: Decisions,
) -> None:
    tool = {
        "name": "t",
        "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    }
    sent: list[Any] = []

    def server(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            return {"tools": [tool]}
        if message["method"] == "tools/call":
            sent.append(message["params"]["arguments"])
            return {"content": []}
        return NotImplemented

    queue = ApprovalQueue(decisions=store, wait=0)
    async with connect(MemoryServer(server), approval=queue) as session:
        first = await ticket_of(session)
        queue.decide(first, Allow({"n": "many"}), by="ana")
        about_edit = await ticket_of(session)
        assert await ticket_of(session) == about_edit, "the first yes is still there"
        (pending,) = queue.pending
        assert pending.request.edited
        assert [one.kind for one in pending.request.findings] == ["broken_arguments"]
        queue.decide(about_edit, Allow({"n": None}), by="bo")  # an edit of the edit
        last = await ticket_of(session)
        assert last not in (first, about_edit)
        queue.decide(last, Allow(), by="cy")
        assert sent == []
        await session.call_tool("t", {"n": 1})
        assert sent == [{"n": None}]
        assert store.tickets.decided() == ()
        assert await ticket_of(session) not in (first, about_edit, last), "each was used once"
    assert len(sent) == 1


async def test_a_caller_that_waits_is_notified_of_the_decision_at_once_or_gets_the_ticket(
    store: Decisions,
) -> None:
    server = Server()
    waiting = ApprovalQueue(decisions=store, wait=30)
    async with server.connect(waiting) as session, anyio.create_task_group() as group:
        group.start_soon(session.call_tool, "t", {"n": 1})
        (pending,) = await until_pending(waiting, 1)
        waiting.decide(pending.id, Allow())
    assert server.ran == [{"n": 1}]
    elsewhere = ApprovalQueue(decisions=store)
    async with server.connect(waiting) as session, anyio.create_task_group() as group:
        group.start_soon(session.call_tool, "t", {"n": 2})
        (pending,) = await until_pending(elsewhere, 1)
        elsewhere.decide(pending.id, Allow())  # the other object looks at the store
    assert server.ran[1:] == [{"n": 2}]
    async with server.connect(ApprovalQueue(decisions=store, wait=0.05)) as session:
        await ticket_of(session)


async def test_a_caller_that_waits_changes_the_store_once_when_it_comes_and_once_when_it_goes() -> (
    None
):
    class Counted(MemoryState):
        changes = 0

        def change(self, kind: str, key: str, function: Any) -> Any:
            self.changes += 1
            return super().change(kind, key, function)

    state = Counted()
    async with Server().connect(ApprovalQueue(decisions=state.decisions)) as session:
        with anyio.move_on_after(2.5):
            await session.call_tool("t", {"n": 1})
    assert state.changes == 2


async def test_two_callers_share_a_ticket_and_one_of_them_goes_out(
    store: Decisions, clock: Clock
) -> None:
    server = Server()
    queue = ApprovalQueue(decisions=store, wait=0.5)
    ended: list[str] = []
    clock.stop()

    async def call(session: Session) -> None:
        try:
            await session.call_tool("t", {"n": 1})
            ended.append("ran")
            clock.jump(1)  # the others wait to the end
        except CallPending:
            ended.append("pending")

    async with server.connect(queue) as session, anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(call, session)
        (pending,) = await until_pending(queue, 1)
        queue.decide(pending.id, Allow())
    assert sorted(ended) == ["pending", "pending", "ran"]
    assert len(server.ran) == 1


async def test_a_batch_with_an_unknown_ticket_decides_nothing(store: Decisions) -> None:
    queue = ApprovalQueue(decisions=store, wait=0)
    async with Server().connect(queue) as session:
        one, two = await ticket_of(session, 1), await ticket_of(session, 2)
        with pytest.raises(LookupError, match="none is decided"):
            queue.decide([one, "unknown", two], Allow())
        assert [pending.id for pending in queue.pending] == [one, two]
        queue.decide([one, two], Deny("no"))
        assert queue.pending == ()
        assert [decided.id for decided in queue.decided] == [one, two]


async def test_a_grant_holds_for_no_call_about_which_more_was_found(store: Decisions) -> None:
    server = Server()
    queue = ApprovalQueue(decisions=store, wait=0)
    hidden = {"name": "t", "inputSchema": {"type": "object"}}
    call = ToolCall.example(hidden, {"n": 1})
    with pytest.raises(CallPending) as caught:
        await queue(call)
    queue.decide(caught.value.ticket, Allow())
    with pytest.raises(CallPending) as again:
        await queue(replace(call, findings=(Finding("definition_changed", "it has drifted"),)))
    assert again.value.ticket != caught.value.ticket
    queue.decide(again.value.ticket, Allow())
    with pytest.raises(CallPending):
        await queue(replace(call, tool=replace(call.tool, trusted=True)))
    assert server.ran == []


async def test_a_ticket_ends_after_some_time_decided_or_not(store: Decisions) -> None:
    queue = ApprovalQueue(decisions=store, wait=0, keep=3_600)
    call = ToolCall.example()
    with pytest.raises(CallPending):
        await queue(call)
    (pending,) = queue.pending
    assert pending.expires_at == pytest.approx(pending.asked_at + 3_600)


async def test_an_expired_ticket_is_gone_and_its_grant_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = ApprovalQueue(decisions=tmp_path / "t.json", wait=0, keep=60)
    call, now = ToolCall.example(), time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    with pytest.raises(CallPending) as first:
        await queue(call)
    queue.decide(first.value.ticket, Allow())
    now += 61
    with pytest.raises(CallPending) as second:
        await queue(call)
    assert second.value.ticket != first.value.ticket
    now += 61
    assert queue.pending == ()
    with pytest.raises(NotPending):
        queue.decide(second.value.ticket, Allow())


async def test_a_context_that_cannot_be_stored_is_a_mistake_of_the_host_and_logged(
    store: Decisions, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    async with server.connect(ApprovalQueue(decisions=store, wait=0)) as session:
        with pytest.raises(ConfigError, match="if its context is text"):
            await session.call_tool("t", context=frozenset())
    assert server.ran == []
    assert "the approval hook raised NotStorable" in caplog.text


async def test_retrying_does_not_wait_for_a_person(store: Decisions) -> None:
    asked = 0

    class Counting(ApprovalQueue):
        async def __call__(self, request: ApprovalRequest) -> Answer:
            nonlocal asked
            asked += 1
            return await super().__call__(request)

    async with Server().connect(Counting(decisions=store, wait=0), retry=Retry()) as session:
        await ticket_of(session)
    assert asked == 1


async def test_a_hook_of_ones_own_may_report_that_a_call_is_pending() -> None:
    async def hook(call: ToolCall) -> Answer:
        raise CallPending("it waits in Jira", ticket="OPS-1")

    server = Server()
    async with server.connect(hook) as session:
        with pytest.raises(CallPending, match="Jira") as caught:
            await session.call_tool("t")
    assert caught.value.ticket == "OPS-1"
    assert server.ran == []


async def test_what_was_remembered_lets_a_call_through_without_a_ticket(tmp_path: Path) -> None:
    server, answers = Server(), Decisions()
    queue = ApprovalQueue(decisions=tmp_path / "t.json", wait=0)
    async with server.connect(queue, state=answers) as session:
        queue.decide(await ticket_of(session), Allow(remember="session"))
        await session.call_tool("t", {"n": 1})
        await session.call_tool("t", {"n": 2})
    assert len(server.ran) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"wait": 0},
        {"decisions": 5},
        {"decisions": object()},
        {"decisions": "t.json", "wait": -1},
        {"decisions": "t.json", "wait": True},
        {"decisions": "t.json", "wait": float("nan")},
        {"decisions": "t.json", "keep": 0},
        {"decisions": "t.json", "keep": float("inf")},
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"{list(options)[-1]}="):
        ApprovalQueue(**options)


# ------------------------------------------------------------------------ the file


async def test_the_file_is_for_its_owner_and_holds_what_a_person_has_to_see(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tickets.json"
    call = ToolCall.example(
        {"name": "t", "inputSchema": {"type": "object"}, "description": "It reads."},
        {"n": "\u202e"},
        meta={"a": 1},
        context=("ana", 1),
        findings=["hidden_text"],
    )
    with pytest.raises(CallPending):
        await ApprovalQueue(decisions=file, wait=0)(call)
    assert file.stat().st_mode & 0o777 == 0o600
    (pending,) = ApprovalQueue(decisions=file).pending
    assert pending.request == call
    assert pending.request.key == call.key


async def test_a_ticket_shows_how_the_tool_differs_from_the_pins(tmp_path: Path) -> None:
    lock, file = tmp_path / "mcp.lock", tmp_path / "tickets.json"
    tools = [ToolCall.example({"name": "t", "description": "It reads."}, server="memory").tool]
    Pins(lock).accept("memory", tools)
    async with Server().connect(ApprovalQueue(decisions=file, wait=0), pins=lock) as session:
        await ticket_of(session)
    (pending,) = ApprovalQueue(decisions=file).pending
    assert isinstance(pending.request, ToolCall)
    drift = pending.request.drift
    assert drift is not None
    assert (drift.kind, drift.pinned) == ("changed", tools[0].raw)
    assert drift.differences == (("description", "'It reads.'", "absent"),)
    assert any("mcp.lock" in str(finding) for finding in pending.request.findings)


def test_a_row_that_is_not_a_ticket_is_refused_and_left(tmp_path: Path) -> None:
    file = tmp_path / "d.json"
    whole = {"format": "mcp-client decisions", "version": 1, "tickets": {"a": {}}}
    file.write_text(json.dumps(whole))
    file.chmod(0o600)
    queue = ApprovalQueue(decisions=file)
    for use in (lambda: queue.pending, lambda: queue.decide("a", Allow())):
        with pytest.raises(ConfigError, match="cannot parse a ticket"):
            use()
    assert json.loads(file.read_text()) == whole


async def test_only_so_many_calls_may_wait_in_a_store(store: Decisions) -> None:
    queue = ApprovalQueue(decisions=store, wait=0, limits=Limits(pending=2))
    async with Server().connect(queue) as session:
        one, _ = await ticket_of(session, 1), await ticket_of(session, 2)
        with pytest.raises(CallDenied, match="2 calls that wait already must be decided first"):
            await session.call_tool("t", {"n": 3})
        assert await ticket_of(session, 1) == one, "it waits already"
        queue.withdraw(one)
        await ticket_of(session, 3)


GOOD = Ticket("id", ToolCall.example("t", {"n": 1}, context="ana"), 1.0, 9e10, Allow()).to_json()
members = st.sampled_from(sorted(GOOD))
parts = st.sampled_from(sorted(GOOD["request"]))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


@given(members, parts, anything)
@examples(200)
def test_whatever_is_in_a_store_is_a_ticket_or_one_value_error(
    member: str, part: str, value: Any
) -> None:
    for changed in ({**GOOD, member: value}, {**GOOD, "request": {**GOOD["request"], part: value}}):
        try:
            found = Ticket.from_json(json.loads(json.dumps(changed)))
        except ValueError:
            continue
        assert found.request.key == changed["request"]["key"]


@pytest.mark.parametrize("arguments", [[], 1, "{}", True])
def test_a_ticket_whose_decision_has_other_arguments_than_an_object_is_refused(
    arguments: Any,
) -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        Ticket.from_json({**GOOD, "answer": {**GOOD["answer"], "arguments": arguments}})


def test_of_two_who_decide_a_ticket_at_once_the_second_is_informed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tickets = Decisions().tickets
    ticket = Ticket("id", ToolCall.example(), time.time(), time.time() + 60, is_kept=True)
    assert tickets.claim(ticket, 1) is ticket
    pending = tickets.pending()
    tickets.decide([ticket.id], Deny("no"))
    monkeypatch.setattr(tickets, "pending", lambda: pending)
    with pytest.raises(NotPending):
        tickets.decide([ticket.id], Allow())
    (decided,) = tickets.decided()
    assert decided.answer == Deny("no")


answers = st.one_of(
    st.builds(Deny, st.text(), by=st.none() | st.text("ab", min_size=1)),
    st.builds(
        Allow,
        st.none() | st.dictionaries(st.text(max_size=3), anything, max_size=3),
        st.sampled_from(
            [
                None,
                Remember("call"),
                Remember("always", where={"/n": {"max": 3}}),
                Remember("session", exact=True, seconds=5.0),
            ]
        ),
        st.none() | st.text(),
    ),
)


@given(answers, st.sampled_from(["host", "app"]))
@examples(100)
def test_a_ticket_comes_out_of_a_store_as_it_went_in(
    decision: Answer, origin: Literal["host", "app"]
) -> None:
    call = ToolCall.example("t", {"n": 1}, context=("ana", 1), origin=origin)
    ticket = Ticket("id", call, 1.0, 2.0, decision, 1.5, {"mark": ("process", 3.0)}, True)
    assert Ticket.from_json(json.loads(json.dumps(ticket.to_json()))) == ticket


# ------------------------------------------------------------------- many processes

GRANT = """
import sys
from mcp_client import Allow, ApprovalQueue
queue = ApprovalQueue(decisions=sys.argv[1])
for pending in queue.changes():
    for one in pending:
        queue.decide(one.id, Allow(), by="another process")
    if len(queue.decided) >= int(sys.argv[2]):
        break
"""


@pytest.mark.slow
async def test_another_process_grants_what_this_one_asks(tmp_path: Path) -> None:
    server, file, calls = Server(), tmp_path / "tickets.json", 20
    process = subprocess.Popen([sys.executable, "-c", GRANT, file, str(calls)])
    try:
        async with (
            server.connect(ApprovalQueue(decisions=file)) as session,
            anyio.create_task_group() as group,
        ):
            for n in range(calls):
                group.start_soon(functools.partial(session.call_tool, "t", {"n": n}))
        with anyio.fail_after(30):
            assert await anyio.to_thread.run_sync(process.wait) == 0
    finally:
        process.kill()
        process.wait()
    assert sorted(ran["n"] for ran in server.ran) == list(range(calls))
    assert "tickets" not in json.loads(file.read_text())


CLAIM = """
import sys
import anyio
from mcp_client import ApprovalQueue, CallPending, ToolCall
async def main():
    found, queue = 0, ApprovalQueue(decisions=sys.argv[1], wait=0)
    for _ in range(20):
        try:
            await queue(ToolCall.example())
            found += 1
        except CallPending:
            pass
    print(found)
anyio.run(main)
"""


@pytest.mark.slow
async def test_one_grant_is_used_by_one_of_many_processes(tmp_path: Path) -> None:
    file = str(tmp_path / "d.json")
    queue = ApprovalQueue(decisions=file, wait=0)
    with pytest.raises(CallPending) as caught:
        await queue(ToolCall.example())
    queue.decide(caught.value.ticket, Allow())
    words = [sys.executable, "-c", CLAIM, file]
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    output = [process.communicate(timeout=60)[0] for process in processes]
    assert sorted(output) == ["0\n", "0\n", "1\n"]


async def test_an_error_of_the_store_is_one_of_ours(tmp_path: Path) -> None:
    with pytest.raises(McpError, match="cannot be written"):
        await ApprovalQueue(decisions=tmp_path / "no" / "d.json", wait=0)(ToolCall.example())


# ------------------------------------------------------- callers that go, and time that ends


async def waiting_call(queue: ApprovalQueue, scope: anyio.CancelScope) -> None:
    with scope:
        await queue(ToolCall.example())


@pytest.mark.parametrize("stored", ["in memory", "in a store"])
async def test_a_question_goes_with_the_caller_that_is_cancelled(
    stored: str, store: Decisions
) -> None:
    queue = ApprovalQueue(decisions=store) if stored == "in a store" else ApprovalQueue()
    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(waiting_call, queue, scope)
        (pending,) = await until_pending(queue, 1)
        scope.cancel()
    assert queue.pending == ()
    with pytest.raises(NotPending):
        queue.decide(pending.id, Allow())
    assert store.list() == ()


async def test_the_ticket_of_a_caller_that_waits_ends_with_the_approval_clock_and_reports_it(
    store: Decisions, clock: Clock
) -> None:
    queue, server = ApprovalQueue(decisions=store), Server()
    seen: list[Any] = []
    timeouts = Timeouts(approval=0.6)
    clock.stop()

    async def look() -> None:
        seen.extend(await until_pending(queue, 1))
        clock.jump(1)

    async with (
        connect(MemoryServer(server.handle), approval=queue, timeouts=timeouts) as session,
        anyio.create_task_group() as group,
    ):
        group.start_soon(look)
        with pytest.raises(CallDenied, match=r"none within 0\.6 s"):
            await session.call_tool("t", {"n": 1})
        assert queue.pending == ()
        assert seen[0].expires_at - seen[0].asked_at == pytest.approx(0.6, abs=0.3)
        with pytest.raises(NotPending):
            queue.decide(seen[0].id, Allow())
    assert server.ran == []


async def test_a_call_that_will_leave_a_ticket_behind_states_when_that_ends(
    store: Decisions,
) -> None:
    queue = ApprovalQueue(decisions=store, wait=0.1, keep=3_600)
    async with Server().connect(queue) as session:
        await ticket_of(session)
        (pending,) = queue.pending
        assert pending.expires_at == pytest.approx(pending.asked_at + 3_600, abs=5)
        await ticket_of(session)
        assert queue.pending == (pending,), "asking again does not make it last longer"


async def test_a_ticket_that_two_wait_for_goes_with_the_second(store: Decisions) -> None:
    queue, scopes = ApprovalQueue(decisions=store), [anyio.CancelScope(), anyio.CancelScope()]
    async with anyio.create_task_group() as group:
        for scope in scopes:
            group.start_soon(waiting_call, queue, scope)
        await until_pending(queue, 1)
        while len(store.tickets.pending()[0].callers) < 2:
            await anyio.sleep(0.01)
        scopes[0].cancel()
        while len(store.tickets.pending()[0].callers) > 1:
            await anyio.sleep(0.01)
        scopes[1].cancel()
    assert queue.pending == ()


WAITER = """
import sys
import anyio
from mcp_client import ApprovalQueue, ToolCall
anyio.run(ApprovalQueue(decisions=sys.argv[1]), ToolCall.example())
"""


async def test_the_ticket_of_a_process_that_was_killed_lets_no_one_through(tmp_path: Path) -> None:
    file = tmp_path / "d.json"
    queue = ApprovalQueue(decisions=file)
    process = subprocess.Popen([sys.executable, "-c", WAITER, str(file)])
    try:
        (pending,) = await until_pending(queue, 1)
    finally:
        process.kill()
        process.wait()
    assert queue.pending == ()
    with pytest.raises(NotPending):
        queue.decide(pending.id, Allow())


@pytest.mark.parametrize("stored", ["in memory", "in a store"])
async def test_a_question_that_is_withdrawn_refuses_its_caller_and_is_asked_again_later(
    stored: str, store: Decisions
) -> None:
    queue = ApprovalQueue(decisions=store) if stored == "in a store" else ApprovalQueue()
    server = Server()
    async with server.connect(queue) as session:
        for _ in range(2):
            async with anyio.create_task_group() as group:

                async def ask() -> None:
                    with pytest.raises(CallDenied, match="withdrawn without a decision"):
                        await session.call_tool("t", {"n": 1})

                group.start_soon(ask)
                (pending,) = await until_pending(queue, 1)
                queue.withdraw(pending.id)
        with pytest.raises(NotPending):
            queue.withdraw(pending.id)
        with pytest.raises(ConfigError, match="give the id"):
            queue.withdraw(None)  # type: ignore[arg-type]
    assert queue.decided == ()
    assert server.ran == []


async def test_a_ticket_that_is_withdrawn_is_asked_about_again(store: Decisions) -> None:
    queue = ApprovalQueue(decisions=store, wait=0)
    async with Server().connect(queue) as session:
        first = await ticket_of(session)
        queue.withdraw(first)
        assert queue.pending == ()
        assert await ticket_of(session) != first


async def test_a_grant_that_waits_is_listed_and_can_be_revoked(store: Decisions) -> None:
    queue, server = ApprovalQueue(decisions=store, wait=0), Server()
    async with server.connect(queue) as session:
        ticket = await ticket_of(session)
        assert store.list() == ()
        queue.decide(ticket, Allow(), by="bo")
        (granted,) = store.list(kind="call", server="memory")
        assert (granted.id, granted.subject, granted.scope) == (ticket, "t", "once")
        assert (granted.allowed, granted.by) == (True, "bo")
        assert granted.decided_at == pytest.approx(time.time(), abs=30)
        assert store.revoke(ticket)
        assert store.list() == ()
        assert await ticket_of(session) != ticket
    assert server.ran == []


@pytest.mark.one_backend
def test_a_caller_whose_time_is_over_holds_no_ticket() -> None:
    now = time.time()
    ticket = Ticket("1", ToolCall.example("t"), now, now + 600, callers={"a": caller(now + 300)})
    assert ticket.holds
    assert not replace(ticket, callers={"a": caller(now - 1)}).holds
    assert replace(ticket, callers={}, is_kept=True).holds
