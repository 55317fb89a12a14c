"""A queue of calls that anyone may decide: each once, from anywhere, and nothing is left behind."""

from __future__ import annotations

import functools
import gc
import os
import signal
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

import mcp_client
from mcp_client import (
    Allow,
    ApprovalQueue,
    CallDenied,
    ConfigError,
    Deny,
    Limits,
    McpError,
    Rule,
    Rules,
    Session,
    ToolCall,
)
from mcp_client.approval import PendingApproval, Policy, Remember, one_at_a_time
from mcp_client.errors import InvalidArguments, NotPending
from mcp_client.runtime.callbacks import in_thread
from tests.approval.test_concurrency import Server
from tests.support.properties import examples
from tests.support.runners import as_in_plain_asyncio
from tests.support.skills import request_of
from tests.support.starting import scripted

PATIENCE = 30.0
"""Seconds that a thread waits at most."""


async def until_pending(queue: ApprovalQueue, count: int) -> tuple[PendingApproval, ...]:
    with queue.changes() as changes:
        async for pending in changes:
            if len(pending) == count:
                return pending
    raise AssertionError


async def outcome(session: Session, n: int, into: dict[int, str], **options: Any) -> None:
    """What became of the call, under its number."""
    try:
        into[n] = (await session.call_tool("t", {"n": n}, **options)).text
    except CallDenied as error:
        into[n] = f"{error.source} {error.by}: {error.reason}"


async def test_a_call_is_pending_until_it_is_decided_and_then_it_runs() -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    async with server.connect(queue, name="files") as session, anyio.create_task_group() as group:
        group.start_soon(outcome, session, 1, outcomes)
        (pending,) = await until_pending(queue, 1)
        assert isinstance(pending.request, ToolCall)
        assert (pending.request.server, pending.request.tool.name) == ("files", "t")
        assert pending.request.arguments == {"n": 1}
        assert pending.expires_at is not None
        assert 20 < pending.expires_at - pending.asked_at <= 30
        assert server.ran == []
        queue.decide(pending.id, Allow())
        assert queue.pending == ()
    assert outcomes == {1: "ran"}
    assert server.ran == [{"n": 1}]


async def test_a_denial_reaches_the_caller_with_its_reason_and_who_gave_it() -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        group.start_soon(outcome, session, 1, outcomes)
        (pending,) = await until_pending(queue, 1)
        queue.decide(pending.id, Deny("not today"), by="ana")
    assert outcomes == {1: "person ana: not today"}
    assert server.ran == []


async def test_the_record_names_who_decided_whole_and_made_safe() -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    records: list[Any] = []
    session: Session
    connecting = server.connect(queue, audit=records.append)
    async with connecting as session, anyio.create_task_group() as group:
        group.start_soon(outcome, session, 1, outcomes)
        (pending,) = await until_pending(queue, 1)
        queue.decide(pending.id, Allow(reason="seen"), by="ana\u202e" + "x" * 180)
    decision = records[1]["decision"]
    by = decision.pop("by")
    assert decision == {"answer": "allow", "source": "person", "reason": "seen", "scope": "once"}
    assert by == "ana\\u{202e}" + "x" * 180


async def test_each_is_decided_once() -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        group.start_soon(outcome, session, 1, outcomes)
        (pending,) = await until_pending(queue, 1)
        queue.decide(pending.id, Deny("first"))
        for decision in (Allow(), Deny("second")):
            with pytest.raises(LookupError) as caught:
                queue.decide(pending.id, decision)
            assert isinstance(caught.value, NotPending)
            assert isinstance(caught.value, McpError)
            assert caught.value.ids == (pending.id,)
    assert outcomes == {1: "hook None: first"}


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize(
    ("end", "reason", "by", "text"),
    [
        ("decided", "decided", "ana", "it was decided by ana$"),
        ("decided by no one known", "decided", None, "it was decided$"),
        ("withdrawn", "withdrawn", None, "it was withdrawn$"),
        ("expired", "expired", None, "no one decided it in time$"),
        ("never asked", "", None, "it was decided, or its caller no longer waits$"),
    ],
)
async def test_one_that_is_not_pending_any_more_has_its_reason(
    end: str, reason: str, by: str | None, text: str, is_stored: bool, tmp_path: Path
) -> None:
    server, outcomes = Server(), dict[int, str]()
    queue = ApprovalQueue(decisions=tmp_path / "d.json") if is_stored else ApprovalQueue()
    async with server.connect(queue, 1.0 if end == "expired" else 60) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(outcome, session, 1, outcomes)
            (pending,) = await until_pending(queue, 1)
            if end == "withdrawn":
                queue.withdraw(pending.id)
            elif end.startswith("decided"):
                queue.decide(pending.id, Deny("no"), by=by)
            elif end == "never asked":
                queue.decide(pending.id, Allow())
        for act in (lambda one: queue.decide(one, Allow()), queue.withdraw):
            with pytest.raises(NotPending, match=text) as caught:
                act("unknown" if end == "never asked" else pending.id)
            assert (caught.value.reason, caught.value.by) == (reason, by)


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("end", ["decided", "withdrawn", "expired"])
async def test_its_reason_is_for_the_person_on_whose_behalf_it_was_asked(
    end: str, is_stored: bool, tmp_path: Path
) -> None:
    server, queue = Server(), ApprovalQueue(decisions=tmp_path / "d.json" if is_stored else None)

    async def call() -> None:
        with pytest.raises(CallDenied):
            await session.call_tool("t", {"n": 1}, context="ana")

    async with server.connect(queue, 1.0 if end == "expired" else 60) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            (pending,) = await until_pending(queue, 1)
            with pytest.raises(NotPending) as while_it_waits:
                queue.decide(pending.id, Allow(), context="bo")
            if end == "withdrawn":
                queue.withdraw(pending.id)
            elif end == "decided":
                queue.decide(pending.id, Deny("no"), by="ana", context="ana")
        found = {}
        for context in ("ana", "bo", None):
            with pytest.raises(NotPending) as caught:
                queue.decide(pending.id, Allow(), context=context)
            found[context] = caught.value
    assert (found["ana"].reason, found["ana"].by) == (end, "ana" if end == "decided" else None)
    for other in (found["bo"], found[None]):
        assert (other.reason, other.by) == ("", None)
        assert str(other) == str(while_it_waits.value)


@pytest.mark.parametrize("is_stored", [False, True])
async def test_of_several_the_first_that_is_not_pending_has_its_reason(
    is_stored: bool, tmp_path: Path
) -> None:
    server, outcomes = Server(), dict[int, str]()
    queue = ApprovalQueue(decisions=tmp_path / "d.json") if is_stored else ApprovalQueue()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        for number in (1, 2):
            group.start_soon(outcome, session, number, outcomes)
        first, second = await until_pending(queue, 2)
        queue.decide(first.id, Deny("no"), by="bo")
        with pytest.raises(NotPending, match=r"1 of the 2 .* decided by bo\), so none") as caught:
            queue.decide([second.id, first.id], Allow())
        assert (caught.value.ids, caught.value.reason) == ((first.id,), "decided")
        queue.decide(second.id, Deny("no"))


async def test_several_are_decided_at_once_or_none() -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        for n in range(3):
            group.start_soon(outcome, session, n, outcomes)
        one, two, three = await until_pending(queue, 3)
        with pytest.raises(LookupError, match="none is decided") as caught:
            queue.decide([one.id, "unknown", two.id], Allow())
        assert caught.value.ids == ("unknown",)  # type: ignore[attr-defined]
        assert queue.pending == (one, two, three)
        queue.decide([one.id, three.id, one.id], Allow())
        assert [pending.id for pending in queue.pending] == [two.id]
        queue.decide((), Deny())
        queue.decide([two.id], Deny("no"))
    assert sorted(outcomes.values()) == ["hook None: no", "ran", "ran"]
    assert len(server.ran) == 2


@pytest.mark.parametrize(
    ("decision", "options", "error"),
    [
        (True, {}, ConfigError),
        (Allow, {}, ConfigError),
        (None, {}, ConfigError),
        (Allow({"n": float("nan")}), {}, InvalidArguments),
        (Allow(), {"by": ""}, ConfigError),
        (Allow(), {"by": 1}, ConfigError),
        (Allow(), {"by": "x" * 201}, ConfigError),
        (Deny("no"), {"by": "\u202e" * 200}, ConfigError),
    ],
)
async def test_a_decision_that_cannot_be_used_is_the_deciders_error_and_decides_nothing(
    decision: Any, options: dict[str, Any], error: type[McpError]
) -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        group.start_soon(outcome, session, 1, outcomes)
        (pending,) = await until_pending(queue, 1)
        with pytest.raises(error):
            queue.decide(pending.id, decision, **options)
        assert queue.pending == (pending,)
        queue.decide(pending.id, Deny("no"))
    assert server.ran == []


def test_a_decision_that_cannot_be_used_states_what_to_give() -> None:
    queue = ApprovalQueue()
    wrong: dict[Any, str] = {
        True: "bool, neither Allow nor Deny: give Allow",
        Allow: "write Allow()",
        Deny: "write Deny(reason)",
        Allow("fine"): "Allow takes no reason first",  # type: ignore[arg-type]
    }
    for decision, text in wrong.items():
        with pytest.raises(ConfigError) as caught:
            queue.decide("id", decision)
        assert text in str(caught.value)


@pytest.mark.parametrize("decision", [Allow, Deny])
@pytest.mark.parametrize("by", ["", 1, "a" * 201, "\u202e" * 26])
def test_a_name_that_no_record_holds_whole_is_refused_in_any_decision(
    decision: Any, by: Any
) -> None:
    with pytest.raises(ConfigError, match="name of who decides"):
        decision(by=by)
    assert decision(by="a" * 200).by == "a" * 200


def test_what_is_not_an_id_is_refused_by_name() -> None:
    for odd in (None, 3, [3], [None]):
        with pytest.raises(ConfigError, match=r"PendingApproval\.id"):
            ApprovalQueue().decide(odd, Allow())  # type: ignore[arg-type]


async def test_edited_arguments_are_sent_as_they_were_when_it_was_decided() -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        for n in range(2):
            group.start_soon(outcome, session, n, outcomes)
        one, two = await until_pending(queue, 2)
        edited = {"n": [7]}
        with pytest.raises(ConfigError, match="one call"):
            queue.decide([one.id, two.id], Allow(edited))
        queue.decide(one.id, Allow(edited))
        edited["n"].append(8)
        queue.decide(two.id, Deny())
    assert server.ran == [{"n": [7]}]


async def test_a_person_sees_only_the_calls_of_a_context() -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        for n, context in enumerate(["ana", ("ana", 1), 1, True, None, "bo"]):
            call = functools.partial(outcome, session, n, outcomes, context=context)
            group.start_soon(call)
        everything = await until_pending(queue, 6)
        for context in ("ana", ("ana", 1), 1, True, None):
            (found,) = queue.pending_for(context)
            assert found.request.context is context or found.request.context == context
            assert type(found.request.context) is type(context)
        assert queue.pending_for("carl") == ()
        queue.decide([one.id for one in everything], Deny())


# ------------------------------------------------------------------ what is left behind


async def test_nothing_is_left_when_the_caller_goes() -> None:
    server, queue = Server(), ApprovalQueue()
    async with server.connect(queue) as session:
        async with anyio.create_task_group() as group:
            for n in range(3):
                group.start_soon(outcome, session, n, {})
            first, *_ = await until_pending(queue, 3)
            group.cancel_scope.cancel()
        assert queue.pending == ()
        with pytest.raises(LookupError):
            queue.decide(first.id, Allow())
    assert server.ran == []


async def test_nothing_is_left_when_time_runs_out() -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    async with server.connect(queue, seconds=0.05) as session:
        await outcome(session, 1, outcomes)
    assert queue.pending == ()
    assert "within 0.05 s" in outcomes[1]
    assert server.ran == []


async def test_closing_a_session_ends_its_callers_and_leaves_the_others() -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    async with server.connect(queue) as other, anyio.create_task_group() as group:
        session = await server.connect(queue)
        for n in range(3):
            group.start_soon(outcome, session, n, outcomes)
        await until_pending(queue, 3)
        group.start_soon(outcome, other, 3, outcomes)
        left = (await until_pending(queue, 4))[-1]
        with anyio.fail_after(60):
            await session.aclose()
            while len(outcomes) < 3:
                await checkpoint()
        assert set(outcomes.values()) == {"gate None: the session was closed"}
        assert queue.pending == (left,)
        queue.decide(left.id, Allow())
    assert server.ran == [{"n": 3}]


class Owner:
    """A context of the host's own."""


async def test_a_call_that_no_one_decided_is_stored_nowhere() -> None:
    queue = ApprovalQueue()
    owner = Owner()
    stored = weakref.ref(owner)
    with queue.changes() as changes:
        async with Server().connect(queue) as session, anyio.create_task_group() as group:
            group.start_soon(functools.partial(outcome, session, 1, {}, context=owner))
            await anext(changes)
            assert queue.pending_for(owner)
            group.cancel_scope.cancel()
        assert await anext(changes) == ()
    del owner
    gc.collect()
    assert stored() is None


# ------------------------------------------------------------------------- changes


async def test_changes_gives_each_state_that_differs_from_the_last_and_none_in_between() -> None:
    queue, states = ApprovalQueue(), list[int]()
    async with Server().connect(queue) as session, anyio.create_task_group() as group:
        changes = queue.changes()
        for n in range(2):
            group.start_soon(outcome, session, n, {})
        await anyio.wait_all_tasks_blocked()
        pending = await anext(changes)  # both came before the first look
        states.append(len(pending))
        queue.decide(pending[0].id, Deny())
        states.append(len(await anext(changes)))
        queue.decide(pending[1].id, Deny())
        states.append(len(await anext(changes)))
        with anyio.move_on_after(0.05) as scope:
            await anext(changes)
        assert scope.cancelled_caught, "nothing has changed"
    assert states == [2, 1, 0]


async def test_closing_the_changes_ends_a_task_that_waits_for_them() -> None:
    queue = ApprovalQueue()
    changes = queue.changes()
    ended: list[str] = []

    async def watch() -> None:
        async for _ in changes:
            raise AssertionError
        ended.append("yes")

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await anyio.wait_all_tasks_blocked()
        await changes.aclose()
    assert ended == ["yes"]
    with pytest.raises(StopAsyncIteration):
        await anext(changes)
    with pytest.raises(StopIteration):
        next(changes)


async def test_a_for_loop_in_a_thread_decides_what_tasks_ask() -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    changes = queue.changes()

    def decide() -> None:
        with changes:
            for pending in changes:
                for each in pending:
                    queue.decide(each.id, Allow(), by="the thread")

    thread = threading.Thread(target=decide)
    thread.start()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        for n in range(10):
            group.start_soon(outcome, session, n, outcomes)
    changes.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert outcomes == dict.fromkeys(range(10), "ran")


async def test_a_for_loop_that_would_block_the_event_loop_reports_it() -> None:
    with pytest.raises(ConfigError, match="async for"):
        next(ApprovalQueue().changes())


# ---------------------------------------------------------------- restarts meanwhile


class Restarting(mcp_client.MemoryServer):
    """A server that a test may end, and that is started again."""

    def clone(self) -> Restarting:
        return Restarting(self._handler)


@pytest.mark.parametrize("edit", [None, {"n": 7}], ids=["as it was", "edited"])
@pytest.mark.parametrize("noticed", [True, False])
async def test_an_approval_of_this_call_outlives_a_restart_and_the_call_goes_out_once(
    noticed: bool, edit: dict[str, Any] | None
) -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    records: list[Any] = []
    session: Session
    async with (
        mcp_client.connect(
            Restarting(server.handle), approval=queue, audit=records.append
        ) as session,
        anyio.create_task_group() as group,
    ):
        group.start_soon(outcome, session, 1, outcomes)
        (pending,) = await until_pending(queue, 1)
        session._connection.transport.end()  # type: ignore[attr-defined]
        if noticed:
            await session.list_tools(refresh=True)
        queue.decide(pending.id, Allow(edit, remember="call"), by="ana")
    assert outcomes == {1: "ran"}
    assert server.ran == [edit or {"n": 1}]
    assert records[1]["decision"]["by"] == "ana"
    assert len(queue.decided) == 1


async def test_a_server_process_that_is_killed_while_a_person_decides_is_started_again() -> None:
    queue, outcomes = ApprovalQueue(), dict[int, str]()
    rules = Rules([Rule("allow", tool="pid")], ask=queue)
    session: Session
    async with (
        mcp_client.connect(scripted(), approval=rules) as session,
        anyio.create_task_group() as group,
    ):
        first = (await session.call_tool("pid")).text

        async def echo() -> None:
            outcomes[1] = (await session.call_tool("echo", {"n": 1})).text

        group.start_soon(echo)
        (pending,) = await until_pending(queue, 1)
        os.kill(int(first), signal.SIGKILL)
        while session._connection.transport.alive:
            await checkpoint()
        queue.decide(pending.id, Allow(remember="call"), by="ana")
        while not outcomes:
            await checkpoint()
        assert (await session.call_tool("pid")).text != first
    assert outcomes == {1: '{"n": 1}'}
    assert len(queue.decided) == 1


async def test_an_approval_is_for_the_call_also_where_the_server_was_restarted_before_it() -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    async with (
        mcp_client.connect(Restarting(server.handle), approval=queue) as session,
        anyio.create_task_group() as group,
    ):
        group.start_soon(outcome, session, 1, outcomes)
        (pending,) = await until_pending(queue, 1)
        session._connection.transport.end()  # type: ignore[attr-defined]
        queue.decide(pending.id, Allow())
    assert outcomes == {1: "ran"}
    assert len(queue.decided) == 1


# ---------------------------------------------------------------- what was decided


async def test_what_was_decided_lately_names_who_and_when_and_is_bounded() -> None:
    server, queue = Server(), ApprovalQueue()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        for n in range(120):
            group.start_soon(outcome, session, n, {})
        pending = await until_pending(queue, 120)
        for one in pending:
            queue.decide(one.id, Deny("no"), by="bo")
    assert len(queue.decided) == 100
    last = queue.decided[-1]
    assert (last.id, last.request) == (pending[-1].id, pending[-1].request)
    assert (last.answer.by, last.answer.reason) == ("bo", "no")
    assert last.decided_at >= last.asked_at


async def test_large_calls_are_not_stored_for_long() -> None:
    server, queue = Server(), ApprovalQueue()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        for n in range(4):
            call = functools.partial(session.call_tool, "t", {"n": n, "text": "x" * 600_000})
            group.start_soon(call)
        for one in await until_pending(queue, 4):
            queue.decide(one.id, Allow())
    assert len(queue.decided) == 1


# -------------------------------------------------------------------- as a hook


@pytest.mark.parametrize("wrap", [lambda queue: Rules([], ask=queue), one_at_a_time])
async def test_a_queue_is_a_hook_like_any_other(wrap: Callable[[Any], Any]) -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    assert not isinstance(queue, Policy), "a policy is asked before remembered answers"
    async with server.connect(wrap(queue)) as session, anyio.create_task_group() as group:
        for n in range(3):
            group.start_soon(outcome, session, n, outcomes)
        with queue.changes() as changes:
            async for pending in changes:
                for one in pending:
                    queue.decide(one.id, Allow())
                if len(queue.decided) == 3:
                    break
    assert len(server.ran) == 3


async def test_an_approval_for_the_session_is_remembered() -> None:
    server, queue, outcomes = Server(), ApprovalQueue(), dict[int, str]()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        group.start_soon(outcome, session, 1, outcomes)
        (pending,) = await until_pending(queue, 1)
        queue.decide(pending.id, Allow(remember=Remember("session")), by="ana")
        while not outcomes:
            await checkpoint()
        await session.call_tool("t", {"n": 2})
    assert len(queue.decided) == 1
    assert len(server.ran) == 2


# ------------------------------------------------------------ whatever the order


class Model:
    """What the queue should hold, and what each caller should have got."""

    def __init__(self, queue: ApprovalQueue, tasks: Any) -> None:
        self.queue = queue
        self.tasks = tasks
        self.waiting: dict[str, int] = {}
        self.scopes: dict[int, anyio.CancelScope] = {}
        self.expected: dict[int, str] = {}
        self.got: dict[int, str] = {}
        self.gone: list[str] = []

    async def ask(self, whose: int) -> None:
        n, known = len(self.scopes), {one.id for one in self.queue.pending}
        self.scopes[n] = anyio.CancelScope()
        self.tasks.start_soon(self._caller, n, f"person {whose}")
        await self.settled()
        (id,) = (one.id for one in self.queue.pending if one.id not in known)
        assert id not in self.gone
        self.waiting[id] = n

    async def _caller(self, n: int, context: str) -> None:
        with self.scopes[n]:
            decision = await self.queue(ToolCall.example("t", {"n": n}, context=context))
            assert n not in self.got, "answered twice"
            self.got[n] = f"{type(decision).__name__} {decision.by}"

    async def decide(self, picks: list[int], unknown: bool) -> None:
        ids = [list(self.waiting)[pick % len(self.waiting)] for pick in picks if self.waiting]
        if unknown:
            with pytest.raises(LookupError):
                self.queue.decide([*ids, self.gone[-1] if self.gone else "x"], Allow())
            return
        by = f"decider {len(self.gone)}"
        self.queue.decide(ids, Allow() if len(ids) % 2 else Deny(), by=by)
        for id in dict.fromkeys(ids):
            kind = "Allow" if len(ids) % 2 else "Deny"
            self.expected[self.waiting.pop(id)] = f"{kind} {by}"
            self.gone.append(id)
        await self.settled()

    async def leave(self, pick: int) -> None:
        if self.waiting:
            id = list(self.waiting)[pick % len(self.waiting)]
            self.scopes[self.waiting.pop(id)].cancel()
            self.gone.append(id)
            await self.settled()

    async def settled(self) -> None:
        for _ in range(5):
            await checkpoint()

    def check(self) -> None:
        assert [one.id for one in self.queue.pending] == list(self.waiting)
        for whose in range(3):
            mine = [one.id for one in self.queue.pending_for(f"person {whose}")]
            theirs = [one for one in self.queue.pending if one.request.context == f"person {whose}"]
            assert mine == [one.id for one in theirs]
        assert self.got == self.expected
        assert len(self.queue.decided) == len(self.expected)


picks = st.integers(0, 9)
steps = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, 2)),
    st.tuples(st.just("ask"), st.integers(0, 2)),
    st.tuples(st.just("decide"), st.lists(picks, min_size=1, max_size=3), st.just(False)),
    st.tuples(st.just("decide"), st.lists(picks, max_size=3), st.just(True)),
    st.tuples(st.just("leave"), picks),
)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(st.lists(steps, max_size=20))
@examples(100)
def test_in_any_order_each_call_gets_its_own_decision_once(backend: str, todo: list[Any]) -> None:
    async def story() -> None:
        queue = ApprovalQueue()
        async with anyio.create_task_group() as tasks:
            model = Model(queue, tasks)
            for name, *arguments in todo:
                await getattr(model, name)(*arguments)
                model.check()
            tasks.cancel_scope.cancel()
        assert queue.pending == ()

    loop_of(backend, story)()


# ------------------------------------------------------------------- many at once


def loop_of(backend: str, story: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        async def main() -> None:
            as_in_plain_asyncio()
            await story()

        anyio.run(main, backend=backend)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("backends", [("asyncio", "asyncio"), ("trio", "asyncio")])
def test_a_thousand_calls_of_two_event_loops_are_decided_once_each_by_eight_threads(
    backends: tuple[str, str],
) -> None:
    calls, tasks = 1_000, 20
    queue, server = ApprovalQueue(), Server()
    allowed: set[int] = set()
    outcomes: dict[int, str] = {}
    too_soon: list[int] = []
    lost = threading.Lock()
    taken: list[int] = []
    done = threading.Event()

    def handle(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/call":
            n = message["params"]["arguments"]["n"]
            if n not in allowed:
                too_soon.append(n)
        return server.handle(message)

    async def story(first: int) -> None:
        async def some(start: int) -> None:
            for n in range(start, calls, tasks):
                await outcome(session, n, outcomes)

        async with (
            mcp_client.connect(mcp_client.MemoryServer(handle), approval=queue) as session,
            anyio.create_task_group() as group,
        ):
            for start in range(first, first + tasks // 2):
                group.start_soon(some, start)

    def decide() -> None:
        with queue.changes() as changes:
            watching.append(changes)
            for pending in changes:
                for one in pending:
                    assert isinstance(one.request, ToolCall)
                    n = one.request.arguments["n"]
                    if n % 3:
                        with lost:  # what is sent must have been allowed before
                            allowed.add(n)
                    try:
                        queue.decide(one.id, Allow() if n % 3 else Deny("third"), by="a thread")
                    except LookupError:
                        continue
                    with lost:
                        taken.append(n)

    watching: list[Any] = []
    deciders = [threading.Thread(target=decide) for _ in range(8)]
    loops = [
        threading.Thread(target=loop_of(backend, functools.partial(story, part * tasks // 2)))
        for part, backend in enumerate(backends)
    ]
    for thread in (*deciders, *loops):
        thread.start()
    for thread in loops:
        thread.join(2 * PATIENCE)
    done.set()
    for changes in watching:
        changes.close()
    for thread in deciders:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in (*deciders, *loops))
    assert sorted(taken) == list(range(calls)), "each is decided once, and none is lost"
    assert queue.pending == ()
    assert too_soon == []
    assert sorted(ran["n"] for ran in server.ran) == [n for n in range(calls) if n % 3]
    assert set(outcomes) == set(range(calls))
    assert all(outcomes[n] == ("ran" if n % 3 else "person a thread: third") for n in outcomes)
    assert queue._notifier._waiting == {}


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
async def test_beyond_the_cap_a_call_is_refused_and_those_that_wait_are_not(
    tmp_path: Path, stored: bool
) -> None:
    store = tmp_path / "tickets.json" if stored else None
    queue = ApprovalQueue(decisions=store, limits=Limits(pending=2))
    server, outcomes = Server(), dict[int, str]()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        group.start_soon(outcome, session, 1, outcomes)
        await until_pending(queue, 1)
        group.start_soon(outcome, session, 2, outcomes)
        waiting = await until_pending(queue, 2)
        await outcome(session, 3, outcomes)
        assert "2 calls that wait already" in outcomes[3]
        assert queue.pending == waiting
        queue.decide([one.id for one in waiting], Allow())
    assert sorted(one["n"] for one in server.ran) == [1, 2]
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        group.start_soon(outcome, session, 3, outcomes)
        (pending,) = await until_pending(queue, 1)
        queue.decide(pending.id, Allow())
    assert server.ran[-1] == {"n": 3}


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
@pytest.mark.parametrize("way", ["task", "thread", "signal"])
async def test_a_closed_queue_denies_what_waits_and_what_comes_later(
    tmp_path: Path, stored: bool, way: str
) -> None:
    store = tmp_path / "tickets.json" if stored else None
    queue, server, outcomes = ApprovalQueue(decisions=store), Server(), dict[int, str]()
    before = signal.signal(signal.SIGUSR1, lambda *_: queue.close("the server is stopping"))
    try:
        async with server.connect(queue) as session:
            async with anyio.create_task_group() as group:
                for n in (1, 2):
                    group.start_soon(outcome, session, n, outcomes)
                await until_pending(queue, 2)
                if way == "task":
                    queue.close("the server is stopping")
                elif way == "thread":
                    await anyio.to_thread.run_sync(queue.close, "the server is stopping")
                else:
                    signal.raise_signal(signal.SIGUSR1)
            await outcome(session, 3, outcomes)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert all("the server is stopping" in one for one in outcomes.values()), outcomes
    assert (len(outcomes), queue.pending, server.ran) == (3, (), [])
    with pytest.raises(NotPending):
        queue.decide("x", Allow())


def test_a_queue_is_closed_for_a_reason() -> None:
    for reason in ("", None, 3):
        with pytest.raises(ConfigError, match="reason"):
            ApprovalQueue().close(reason)  # type: ignore[arg-type]


def test_the_cap_of_a_queue_is_given_as_limits() -> None:
    with pytest.raises(ConfigError, match="Limits\\(pending"):
        ApprovalQueue(limits=5)  # type: ignore[arg-type]


async def test_a_queue_shows_how_many_wait_or_where_it_keeps_them(tmp_path: Path) -> None:
    server, queue = Server(), ApprovalQueue()
    assert repr(queue) == "<ApprovalQueue, 0 pending>"
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        group.start_soon(outcome, session, 1, {})
        (pending,) = await until_pending(queue, 1)
        assert repr(queue) == "<ApprovalQueue, 1 pending>"
        queue.decide(pending.id, Deny("no"))
    assert str(tmp_path) in repr(ApprovalQueue(decisions=tmp_path / "d.json"))
    assert (queue.waits, ApprovalQueue(decisions=tmp_path / "d.json").waits) == (False, True)


def test_the_secret_of_a_page_is_one_for_all_that_have_the_decisions(tmp_path: Path) -> None:
    one, other = (ApprovalQueue(decisions=tmp_path / "d.json") for _ in range(2))
    secret = one.secret("page")
    assert secret
    assert other.secret("page") == secret
    assert one.secret("other") != secret
    assert ApprovalQueue().secret("page") is None


async def test_only_a_call_can_be_allowed_with_other_arguments() -> None:
    queue = ApprovalQueue()
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await queue(request_of()))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        (pending,) = await until_pending(queue, 1)
        with pytest.raises(ConfigError, match="a skill has no arguments"):
            queue.decide(pending.id, Allow({"a": 1}))
        assert queue.pending == (pending,)
        queue.decide(pending.id, Deny("no"))
    assert answers == [Deny("no")]


@pytest.mark.parametrize("store", [False, True])
async def test_a_user_sees_and_decides_what_is_asked_on_their_behalf(
    store: bool, tmp_path: Path
) -> None:
    queue = ApprovalQueue(decisions=tmp_path / "decisions.json" if store else None)
    server, outcomes = Server(), dict[int, str]()
    async with server.connect(queue) as session, anyio.create_task_group() as group:
        for n, person in enumerate(("ana", "bo", None)):
            group.start_soon(functools.partial(outcome, session, n, outcomes, context=person))
        found = await until_pending(queue, 3)
        ids = {one.request.context: one.id for one in found}
        with queue.changes(context="ana") as changes:
            (mine,) = await anext(changes)
        assert mine.id == ids["ana"]
        for context, wanted in (("ana", ids["bo"]), ("bo", [*ids.values()]), (None, ids["ana"])):
            with pytest.raises(NotPending):
                await in_thread(functools.partial(queue.decide, wanted, Allow(), context=context))
        for owner, id in ids.items():
            await in_thread(functools.partial(queue.decide, id, Allow(), context=owner))
    assert outcomes == dict.fromkeys(range(3), "ran")
