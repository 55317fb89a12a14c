"""A call of which the server makes a task: ``call_tool`` waits for its end, and no more."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcp_client import (
    Allow,
    CallTimeout,
    CancelToken,
    Handlers,
    Limits,
    McpError,
    MemoryServer,
    OutcomeUnknown,
    ServerError,
    Session,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.errors import (
    CallCancelled,
    ConnectError,
    ConnectionLost,
    InvalidResult,
    ProtocolViolation,
    Unanswered,
)
from mcp_client.extensions import ClientInfo, Extension
from mcp_client.extensions.task_run import TaskRun
from mcp_client.handlers import Accept, ElicitRequest
from mcp_client.runtime.event_loop import current
from mcp_client.testing import JsonRpcError, Recording, ReplayServer
from tests.support.asking import FORM
from tests.support.http_server import serving
from tests.support.tasking import ID, TASKS, Tasking, TaskingOverHttp, done, working
from tests.support.timing import Clock, quickly

YES = Handlers(elicitation=lambda request: Accept({"name": "Ada"}))


def question(*keys: str, **members: Any) -> dict[str, Any]:
    method, params = FORM
    asked = {key: {"method": method, "params": params} for key in keys}
    return {"status": "input_required", "inputRequests": asked, **members}


async def call(server: Tasking, record: Path | None = None, **options: Any) -> Any:
    """Call the tool, with what belongs to ``connect`` and what belongs to the call."""
    own = {
        name: options.pop(name)
        for name in ("timeout", "on_progress", "cancel", "validation")
        if name in options
    }
    options.setdefault("approval", allow_all)
    target: Any = MemoryServer(server)
    target = target if record is None else Recording(target, record)
    async with connect(target, **options) as session:
        return await session.call_tool("slow", **own)


async def until(server: Tasking, method: str, times: int = 1) -> None:
    with anyio.fail_after(60):
        while len(server.all(method)) < times:
            await anyio.sleep(0.01)


# ------------------------------------------------------------------------- the result


async def test_a_call_waits_through_a_task_and_asks_no_one_twice() -> None:
    server, asked = Tasking(working(), working(), done("at last")), list[ToolCall]()

    def approve(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    result = await call(server, approval=approve)
    assert result.text == "at last"
    assert len(asked) == 1
    assert server.methods == ["tools/call", "tasks/get", "tasks/get", "tasks/get"]
    assert {params["taskId"] for params in server.all("tasks/get")} == {ID}


async def test_a_status_that_the_extension_does_not_have_counts_as_working() -> None:
    queued = {"status": "queued", "pollIntervalMs": 1}
    server = Tasking(queued, done("at last"), created={"status": "submitted", "pollIntervalMs": 1})
    assert (await call(server)).text == "at last"


@pytest.mark.one_backend
async def test_a_task_is_asked_about_with_the_capabilities_of_any_request() -> None:
    server = Tasking()
    await call(server)
    (params,) = server.all("tasks/get")
    declared = params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert declared["extensions"] == {TASKS: {}}
    assert "progressToken" not in params["_meta"]


@pytest.mark.one_backend
async def test_an_error_that_the_tool_reports_is_a_result() -> None:
    result = await call(Tasking(done("no luck", isError=True)))
    assert result.is_error and result.text == "no luck"


@pytest.mark.one_backend
async def test_tasks_get_may_state_that_it_is_a_task() -> None:
    server = Tasking({**working(), "resultType": "task"}, {**done(), "resultType": "task"})
    assert (await call(server)).text == "done"


@pytest.mark.one_backend
async def test_the_result_is_judged_by_the_schema_of_the_tool_that_was_approved() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    server = Tasking(done(structuredContent={"n": "x"}))
    server.tool = {"outputSchema": schema}
    with pytest.raises(InvalidResult) as caught:
        await call(server)
    assert caught.value.path == "/n"
    result = await call(server, validation="warn")
    assert result.findings


@pytest.mark.one_backend
@pytest.mark.parametrize("content", [7, {"a": 1}])
async def test_a_malformed_result_breaks_the_protocol(content: Any) -> None:
    state = {"status": "completed", "result": {"content": content}}
    with pytest.raises(ProtocolViolation, match="invalid tool result"):
        await call(Tasking(state))


@pytest.mark.one_backend
async def test_a_task_that_failed_is_the_error_it_failed_with() -> None:
    error = {"code": -32001, "message": "the disk is full", "data": {"free": 0}}
    with pytest.raises(ServerError, match="the disk is full") as caught:
        await call(Tasking({"status": "failed", "error": error}))
    assert (caught.value.code, caught.value.data) == (-32001, {"free": 0})
    assert caught.value.tool == "slow"


@pytest.mark.one_backend
async def test_a_task_that_failed_is_not_called_again_whatever_its_code() -> None:
    # -32020 reports that a call was refused because its headers were out of date.
    server = Tasking({"status": "failed", "error": {"code": -32020, "message": "headers"}})
    async with (
        serving(TaskingOverHttp(server)) as served,
        connect(served.url, approval=allow_all) as session,
    ):
        with pytest.raises(ServerError, match="headers"):
            await session.call_tool("slow")
    assert len(server.all("tools/call")) == 1


@pytest.mark.one_backend
async def test_a_task_that_the_server_cancels_has_an_unknown_outcome() -> None:
    server = Tasking({"status": "cancelled", "statusMessage": "maintenance"})
    with pytest.raises(OutcomeUnknown, match="cancelled the task by itself: maintenance"):
        await call(server)
    assert "tasks/cancel" not in server.methods


@pytest.mark.one_backend
async def test_a_task_that_has_expired_has_an_unknown_outcome() -> None:
    server = Tasking(working(), JsonRpcError(-32602, f"unknown task {ID}"))
    with pytest.raises(OutcomeUnknown, match=r"task \(it stores tasks for 60 s"):
        await call(server)
    assert "tasks/cancel" not in server.methods


@pytest.mark.one_backend
@pytest.mark.parametrize("retryable", [True, False])
async def test_an_unknown_outcome_is_retryable_if_a_trusted_tool_declares_it(
    retryable: bool,
) -> None:
    server = Tasking({"status": "cancelled"})
    server.tool = {"annotations": {"idempotentHint": retryable, "destructiveHint": False}}
    with pytest.raises(OutcomeUnknown) as caught:
        await call(server, trusted=True)
    assert caught.value.retryable is retryable


# ------------------------------------------------------------------------ when it polls


async def settle() -> None:
    """Let whatever is due happen, while the clock of the loop is stopped."""
    for _ in range(20):
        await anyio.to_thread.run_sync(time.sleep, 0.001)


async def sent(server: Tasking, method: str, times: int = 1) -> None:
    """Wait until that was sent, whatever the clock of the loop does."""
    for _ in range(4_000):
        if len(server.all(method)) >= times:
            return
        await anyio.to_thread.run_sync(time.sleep, 0.005)
    raise AssertionError(f"{method} was sent {len(server.all(method))} times")


@asynccontextmanager
async def calling(server: Tasking, **options: Any) -> AsyncIterator[list[Any]]:
    """Make a call meanwhile; the list gets what becomes of it."""
    outcome: list[Any] = []

    async def make() -> None:
        try:
            outcome.append(await call(server, **options))
        except McpError as error:
            outcome.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make)
        yield outcome


async def test_polls_keep_to_the_newest_interval_that_the_server_asks_for(clock: Clock) -> None:
    intervals = ({"pollIntervalMs": 5_000}, {"pollIntervalMs": 20_000}, {"pollIntervalMs": None})
    states = [working(**interval) for interval in intervals]
    server = Tasking(*states, done(), created={"pollIntervalMs": 2_000})
    clock.stop()
    async with calling(server) as outcome:
        await sent(server, "tools/call")
        for number, seconds in enumerate((2, 5, 20, 1), start=1):
            await settle()
            clock.jump(seconds - 0.1)
            await settle()
            assert len(server.all("tasks/get")) == number - 1
            clock.jump(0.2)
            await sent(server, "tasks/get", number)
        clock.resume()
    assert outcome[0].text == "done"


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "result",
    [
        {},
        {"resultType": "task"},
        {"resultType": "task", "content": []},
        {"resultType": "input_required", "inputRequests": {}},
        {"resultType": 7, "content": []},
    ],
)
async def test_a_completed_task_without_the_result_of_a_call_is_not_an_empty_success(
    result: Any,
) -> None:
    with pytest.raises(ProtocolViolation, match="not the result of a call") as caught:
        await call(Tasking({"status": "completed", "result": result}))
    assert ID not in str(caught.value)


@pytest.mark.parametrize("interval", [0, 1, -5, "fast", True, 1e300])
async def test_a_strange_interval_makes_no_busy_loop(interval: Any, clock: Clock) -> None:
    server = Tasking(working(pollIntervalMs=interval), created={"pollIntervalMs": interval})
    clock.stop()
    async with calling(server, timeout=60) as outcome:
        await sent(server, "tools/call")
        await settle()
        assert not server.all("tasks/get")
        clock.jump(61)
        clock.resume()
    assert isinstance(outcome[0], CallTimeout)


@pytest.mark.one_backend
@pytest.mark.parametrize("seed", ["completed", "input_required", "failed", "cancelled"])
async def test_a_task_that_is_created_with_something_to_fetch_is_asked_about_at_once(
    seed: str, clock: Clock
) -> None:
    clock.stop()
    server = Tasking(created={"status": seed, "pollIntervalMs": 60_000})
    assert (await call(server)).text == "done"
    clock.resume()


async def test_status_messages_are_progress_each_once() -> None:
    reported: list[Any] = []
    server = Tasking(
        working("half"),
        working("half"),
        working("most"),
        working(f"of {ID}"),
        done(),
        created={"statusMessage": "begun"},
    )
    await call(server, on_progress=lambda *progress: reported.append(progress))
    assert reported == [
        (1, None, "begun"),
        (2, None, "half"),
        (3, None, "most"),
        (4, None, "of ***"),
    ]


async def test_an_async_callback_receives_the_progress_of_a_task() -> None:
    reported: list[Any] = []

    async def report(*progress: Any) -> None:
        await anyio.lowlevel.checkpoint()
        reported.append(progress[2])

    await call(Tasking(working("a"), working("b"), done()), on_progress=report)
    assert reported == ["a", "b"]


# ---------------------------------------------------------------------------- questions


async def test_a_question_is_asked_once_over_polls_that_repeat_it() -> None:
    asked: list[ElicitRequest] = []

    def respond(request: ElicitRequest) -> Accept:
        asked.append(request)
        return Accept({"name": "Ada"})

    key = f"{ID}:1"
    server = Tasking(question(key), question(key), working(), done())
    result = await call(server, handlers=Handlers(elicitation=respond))
    assert result.text == "done"
    assert len(asked) == 1
    assert asked[0].call is not None and asked[0].call.tool.name == "slow"
    (update,) = server.all("tasks/update")
    assert update["taskId"] == ID
    assert update["inputResponses"] == {key: {"action": "accept", "content": {"name": "Ada"}}}
    assert "requestState" not in update


async def test_a_question_that_comes_later_is_answered_by_itself() -> None:
    server = Tasking(question("a"), question("a", "b"), working(), question("c", "d"), done())
    assert (await call(server, handlers=YES)).text == "done"
    keys = [sorted(update["inputResponses"]) for update in server.all("tasks/update")]
    assert keys == [["a"], ["b"], ["c", "d"]]


async def test_a_response_that_was_refused_is_sent_again_without_asking_again() -> None:
    asked: list[Any] = []

    def respond(request: ElicitRequest) -> Accept:
        asked.append(request)
        return Accept({"name": "Ada"})

    server = Tasking(question("a"), question("a"), done())
    refusals = [JsonRpcError(-32603, "busy")]

    async def refuse() -> Any:
        return refusals.pop() if refusals else {}

    server.on_update = refuse
    assert (await call(server, handlers=Handlers(elicitation=respond))).text == "done"
    assert len(asked) == 1
    assert len(server.all("tasks/update")) == 2


@pytest.mark.parametrize(
    ("handlers", "error"), [(Handlers(elicitation=lambda request: 7), Unanswered), (None, None)]
)
async def test_a_question_without_a_response_ends_the_call_and_the_task(
    handlers: Any, error: type[McpError] | None
) -> None:
    server = Tasking(question(f"{ID}:1"))
    async with connect(MemoryServer(server), approval=allow_all, handlers=handlers) as session:
        with pytest.raises(error or ProtocolViolation) as caught:
            await session.call_tool("slow")
        await until(server, "tasks/cancel")
    assert ID not in str(vars(caught.value)) + str(caught.value)


@pytest.mark.one_backend
async def test_a_task_may_ask_as_often_as_any_call() -> None:
    states = [question(str(number)) for number in range(20)]
    with pytest.raises(ProtocolViolation, match=r"3 times.*Limits\.rounds"):
        await call(Tasking(*states), handlers=YES, limits=Limits(rounds=3))
    with pytest.raises(ProtocolViolation, match=r"Limits\.questions\)"):
        await call(Tasking(question("a", "b", "c")), handlers=YES, limits=Limits(questions=2))
    with pytest.raises(Unanswered, match=r"Limits\.questions_per_call"):
        await call(Tasking(*states), handlers=YES, limits=Limits(questions_per_call=2))


async def test_the_time_that_a_person_takes_is_not_the_calls(clock: Clock) -> None:
    async def think(request: ElicitRequest) -> Accept:
        clock.jump(100)
        await anyio.lowlevel.checkpoint()
        return Accept({"name": "Ada"})

    server = Tasking(question("a"), done())
    result = await call(server, timeout=60, handlers=Handlers(elicitation=think))
    assert result.text == "done"


async def test_rounds_before_the_task_are_answered_as_ever() -> None:
    class First(Tasking):
        async def call(self, params: dict[str, Any]) -> Any:
            if "inputResponses" in params:
                return self.creation()
            asked = question("q")["inputRequests"]
            return {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}

    server = First(question("a"), done())
    assert (await call(server, handlers=YES)).text == "done"
    assert len(server.all("tools/call")) == 2
    (update,) = server.all("tasks/update")
    assert "requestState" not in update


# --------------------------------------------------------------------------- giving up


async def assert_cancelled(server: Tasking) -> None:
    """By ``tasks/cancel``, once, and in no other way."""
    await until(server, "tasks/cancel")
    assert [params["taskId"] for params in server.all("tasks/cancel")] == [ID]
    assert "notifications/cancelled" not in server.methods


async def test_the_total_clock_cancels_the_task(clock: Clock) -> None:
    server = Tasking(working())
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with pytest.raises(CallTimeout, match="total timeout") as caught:
            await session.call_tool("slow", timeout=Timeouts(idle=60, total=0.3))
        assert "within 0.3 s" in str(caught.value)
        assert caught.value.clock == "total" and caught.value.tool == "slow"
        await assert_cancelled(server)


async def test_a_scope_that_is_cancelled_cancels_the_task() -> None:
    server = Tasking(working())
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with anyio.move_on_after(20) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.call_tool, "slow")
                await until(server, "tasks/get", 2)
                scope.cancel()
        await assert_cancelled(server)


async def test_a_scope_cancelled_within_a_poll_sends_no_notification() -> None:
    async def never() -> Any:
        await anyio.sleep_forever()

    server = Tasking(never)
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with anyio.move_on_after(20) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.call_tool, "slow")
                await server.got.wait()
                scope.cancel()
        await assert_cancelled(server)


async def test_a_token_cancels_the_task() -> None:
    server, token = Tasking(working()), CancelToken()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        async with anyio.create_task_group() as tasks:

            async def make() -> None:
                with pytest.raises(CallCancelled, match="enough"):
                    await session.call_tool("slow", cancel=token)

            tasks.start_soon(make)
            await until(server, "tasks/get")
            token.cancel("enough")
        await assert_cancelled(server)


async def test_a_server_that_reads_nothing_now_is_asked_again_to_cancel_a_task(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refusals = TaskRun.cancel, [1, 2]

    async def cancel(run: TaskRun, rpc: Any, timeouts: Any = None) -> None:
        if refusals:
            refusals.pop()
            raise ConnectError("it does not read its input", retryable=True)
        await real(run, rpc, timeouts)

    monkeypatch.setattr(TaskRun, "cancel", cancel)
    server, token = Tasking(working()), CancelToken()
    async with connect(MemoryServer(server), approval=allow_all) as session, quickly(clock):
        async with anyio.create_task_group() as tasks:

            async def make() -> None:
                with pytest.raises(CallCancelled):
                    await session.call_tool("slow", cancel=token)

            tasks.start_soon(make)
            await server.got.wait()
            token.cancel("enough")
        await assert_cancelled(server)


async def test_before_there_is_a_task_a_call_is_cancelled_as_any() -> None:
    class Slow(Tasking):
        async def call(self, params: dict[str, Any]) -> Any:
            self.got.set()
            await anyio.sleep_forever()

    server = Slow()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.call_tool, "slow")
            await server.got.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(60):
            while "notifications/cancelled" not in server.methods:
                await anyio.sleep(0.01)
    assert "tasks/cancel" not in server.methods


async def test_closing_the_session_cancels_the_tasks_that_are_waited_for() -> None:
    server, outcome = Tasking(working()), list[McpError]()
    session = await connect(MemoryServer(server), approval=allow_all)

    async def make() -> None:
        try:
            await session.call_tool("slow")
        except McpError as error:
            outcome.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make)
        await until(server, "tasks/get")
        await session.aclose()
    assert isinstance(outcome[0], ConnectionLost), outcome
    await assert_cancelled(server)


async def test_leaving_the_session_with_a_cancelled_scope_still_cancels_the_task() -> None:
    server = Tasking(working())
    with anyio.move_on_after(20) as scope:
        async with (
            connect(MemoryServer(server), approval=allow_all) as session,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(session.call_tool, "slow")
            await until(server, "tasks/get")
            scope.cancel()
    await assert_cancelled(server)


async def test_a_server_that_acknowledges_nothing_holds_up_no_close() -> None:
    async def never() -> Any:
        await anyio.sleep_forever()

    server = Tasking(working())
    server.on_cancel = never
    connecting = connect(MemoryServer(server), approval=allow_all, timeouts=Timeouts(close=0.2))
    async with connecting as session:
        with pytest.raises(CallTimeout):
            await session.call_tool("slow", timeout=0.2)
    assert "tasks/cancel" in server.methods


# ----------------------------------------------------------------------- lost and found


class Losing(Tasking):
    """Ends the connection at the first poll."""

    session: Session

    async def lose(self) -> Any:
        self.session._connection.transport.end()  # type: ignore[attr-defined]
        await anyio.sleep_forever()


async def test_polls_go_on_after_a_connection_is_lost() -> None:
    server = Losing()
    server.states = [working(), server.lose, working(), done()]
    async with connect(MemoryServer(server), approval=allow_all) as session:
        server.session = session
        assert (await session.call_tool("slow")).text == "done"
        assert session.generation == 2
    assert len(server.all("tools/call")) == 1


async def test_a_server_that_came_back_without_the_task_leaves_its_outcome_unknown() -> None:
    server = Losing()
    server.states = [server.lose, JsonRpcError(-32602, "unknown task")]
    async with connect(MemoryServer(server), approval=allow_all) as session:
        server.session = session
        with pytest.raises(OutcomeUnknown, match="no longer knows the task"):
            await session.call_tool("slow")


@pytest.mark.one_backend
async def test_a_poll_that_is_refused_for_now_is_made_again(clock: Clock) -> None:
    server = Tasking(JsonRpcError(-32603, "busy"), JsonRpcError(-32000, "busy"), done())
    async with quickly(clock):
        assert (await call(server)).text == "done"


@pytest.mark.one_backend
async def test_a_poll_that_is_refused_late_is_not_made_again_at_once(clock: Clock) -> None:
    times = list[float]()

    async def refuse() -> JsonRpcError:
        clock.jump(30)  # more than the interval between polls
        times.append(current().now())
        return JsonRpcError(-32603, "busy")

    async def complete() -> Any:
        times.append(current().now())
        return done()

    async with quickly(clock):
        assert (await call(Tasking(refuse, complete))).text == "done"
    assert times[1] - times[0] >= 1


@pytest.mark.one_backend
@pytest.mark.parametrize(("code", "polls"), [(-32603, 5), (-32601, 1)])
async def test_polls_that_are_always_refused_leave_the_outcome_unknown(
    code: int, polls: int, clock: Clock
) -> None:
    server = Tasking(JsonRpcError(code, f"no {ID}"))
    async with quickly(clock):
        with pytest.raises(OutcomeUnknown, match="does not report the outcome") as caught:
            await call(server)
    assert len(server.all("tasks/get")) == polls
    assert ID not in str(caught.value)
    assert isinstance(caught.value.__cause__, ServerError) and ID not in str(caught.value.__cause__)


# ----------------------------------------------------------------------- broken promises


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "created",
    [{"taskId": 7}, {"taskId": ""}, {"taskId": "x" * 5_000}, {"status": 7}, {"status": None}],
)
async def test_a_malformed_task_breaks_the_protocol(created: Any) -> None:
    with pytest.raises(ProtocolViolation, match="invalid task"):
        await call(Tasking(created=created))


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "state",
    [
        {"status": "completed"},
        {"status": "completed", "result": []},
        {"status": "failed"},
        {"status": "failed", "error": {"message": "x"}},
        {"status": "input_required"},
        {"status": "input_required", "inputRequests": []},
        {"status": True},
        {**done(), "taskId": "another"},
        {**done(), "resultType": "input_required", "requestState": "s"},
        {**done(), "resultType": "perhaps"},
    ],
)
async def test_a_malformed_response_about_a_task_breaks_the_protocol(state: Any) -> None:
    server = Tasking(state)
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with pytest.raises(ProtocolViolation) as caught:
            await session.call_tool("slow")
        await until(server, "tasks/cancel")
    assert ID not in str(caught.value) + str(caught.value.result)


@pytest.mark.one_backend
async def test_a_task_that_no_one_declared_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolViolation, match="'task'"):
        await call(Tasking(), client_info=ClientInfo("tests", "1", extensions=None))


@pytest.mark.one_backend
async def test_a_task_for_another_request_breaks_the_protocol() -> None:
    async with connect(MemoryServer(Tasking()), approval=allow_all) as session:
        with pytest.raises(ProtocolViolation, match="prompts/get"):
            await session.get_prompt("any")


@pytest.mark.one_backend
async def test_tasks_may_be_declared_by_name_with_settings() -> None:
    server = Tasking()
    await call(
        server, client_info=ClientInfo("tests", "1", extensions=[Extension(TASKS, {"own": 1})])
    )
    (params,) = server.all("tools/call")
    declared = params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert declared["extensions"] == {TASKS: {"own": 1}}


# -------------------------------------------------------------------------------- secrets


@pytest.mark.parametrize(
    "last",
    [
        done(),
        {"status": "failed", "error": {"code": -1, "message": f"{ID}?", "data": {ID: [ID]}}},
        {"status": "cancelled", "statusMessage": f"{ID} was cancelled"},
        JsonRpcError(-32602, f"no task {ID}", {"taskId": ID}),
    ],
)
async def test_the_id_of_a_task_is_nowhere(
    last: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    audit, record, errors = tmp_path / "audit.jsonl", tmp_path / "record.jsonl", io.StringIO()
    server = Tasking(working(f"task {ID}"), question(f"{ID}:1"), last)
    try:
        await call(server, handlers=YES, audit=audit, record=record)
    except McpError as error:
        errors.write(f"{error} {error!r} {vars(error)} {error.__cause__} {error.__context__}")
    for text in (caplog.text, audit.read_text(), record.read_text(), errors.getvalue()):
        assert ID not in text
    events = [json.loads(line)["event"] for line in audit.read_text().splitlines()]
    assert events.count("opened") == events.count("closed") == 1


async def test_a_task_is_replayed_from_a_record(tmp_path: Path) -> None:
    record, reported = tmp_path / "record.jsonl", list[Any]()
    server = Tasking(working(f"half of {ID}"), question(f"{ID}:1"), done(f"got {ID}"))
    await call(server, handlers=YES, record=record)
    async with connect(ReplayServer(record), approval=allow_all, handlers=YES) as session:
        result = await session.call_tool(
            "slow", on_progress=lambda *progress: reported.append(progress[2])
        )
    assert result.text == "got [task 1]"
    assert reported == ["half of ***"]
