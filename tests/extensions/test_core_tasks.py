"""Tasks of 2025-11-25: asked for with the call, polled, and their result fetched."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcp_client import (
    CallTimeout,
    CancelToken,
    ConfigError,
    Handlers,
    McpError,
    NotSent,
    OutcomeUnknown,
    ServerError,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.errors import CallCancelled, InvalidResult, ProtocolViolation
from mcp_client.handlers import ElicitRequest
from mcp_client.testing import JsonRpcError, Recording, ReplayServer
from tests.support.tasking import ID, RELATED, CoreTasking, text
from tests.support.timing import Clock


def session_of(server: CoreTasking, record: Path | None = None, **options: Any) -> Any:
    options.setdefault("approval", allow_all)
    target = server.server if record is None else Recording(server.server, record)
    return connect(target, name="files", **options)


async def called(server: CoreTasking, **options: Any) -> Any:
    async with session_of(server) as session:
        return await session.call_tool("slow", {"n": 1}, **options)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The tasks of these tests are polled every 50 ms; with a clock, as they ask."""
    if "clock" not in request.fixturenames:
        state = CoreTasking.state

        def soon(self: CoreTasking, status: str, **members: Any) -> dict[str, Any]:
            return {**state(self, status, **members), "pollInterval": 50}

        monkeypatch.setattr(CoreTasking, "state", soon)


async def settled(done: Callable[[], Any]) -> None:
    while not done():
        await anyio.lowlevel.checkpoint()


# ------------------------------------------------------------ which calls are tasks


async def test_a_tool_that_requires_it_is_called_as_a_task() -> None:
    server, asked = CoreTasking("working", "working", "completed"), list[ToolCall]()

    async def approve(call: ToolCall) -> Any:
        asked.append(call)
        return allow_all(call)

    async with session_of(server, approval=approve) as session:
        result = await session.call_tool("slow", {"n": 1}, timeout=90.5)
    assert result.text == "done"
    assert result.raw["_meta"] == {"kept": 1}, "without the id of the task, which is a secret"
    (params,) = server.all("tools/call")
    assert params["task"] == {"ttl": 90_500}
    assert params["arguments"] == {"n": 1}
    assert server.methods == ["tools/call", *["tasks/get"] * 3, "tasks/result"]
    assert all(p["taskId"] == ID for p in server.all("tasks/get") + server.all("tasks/result"))
    assert "related-task" not in json.dumps(server.messages)
    assert len(asked) == 1


async def test_without_a_total_timeout_the_server_chooses_how_long_to_keep_it() -> None:
    server = CoreTasking()
    await called(server, timeout=Timeouts(total=float("inf")))
    assert server.all("tools/call")[0]["task"] == {}


@pytest.mark.parametrize("ttl", [0.25, 3600, 86_400.0])
async def test_a_host_sets_for_how_long_the_server_is_to_keep_a_started_task(ttl: float) -> None:
    server = CoreTasking("completed")
    async with session_of(server) as session:
        task = await session.start_tool("slow", ttl=ttl, timeout=90)
        assert (await task.result()).text == "done"
    assert server.all("tools/call")[0]["task"] == {"ttl": int(ttl * 1000)}


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), True, "60", 1e12])
async def test_a_time_that_is_not_one_is_refused_and_nothing_is_sent(ttl: Any) -> None:
    server = CoreTasking("completed")
    async with session_of(server) as session:
        with pytest.raises(ConfigError, match=r"^ttl=.*: give seconds"):
            await session.start_tool("slow", ttl=ttl)
    assert server.all("tools/call") == []


EMPTY: list[Any] = [{}, {"_meta": {}}, {"resultType": "task"}, {"taskId": ID, "status": "working"}]


@pytest.mark.parametrize("response", EMPTY)
async def test_a_response_that_is_neither_a_task_nor_a_result_is_not_an_empty_success(
    response: Any,
) -> None:
    server = CoreTasking()
    server.created = response
    async with session_of(server) as session:
        with pytest.raises(ProtocolViolation, match="neither a task nor a result") as caught:
            await session.call_tool("slow")
    assert caught.value.result == response
    assert (caught.value.tool, server.methods) == ("slow", ["tools/call"])


@pytest.mark.parametrize("result", EMPTY)
async def test_a_task_whose_result_is_none_of_a_call_is_not_an_empty_success(result: Any) -> None:
    server = CoreTasking("completed")
    server.result = result
    with pytest.raises(ProtocolViolation, match="not the result of a call"):
        await called(server)


@pytest.mark.parametrize("support", ["optional", "forbidden", "always", None])
async def test_any_other_tool_is_called_plainly(support: str | None) -> None:
    server = CoreTasking(support=support)
    assert (await called(server)).text == "at once"
    assert server.methods == ["tools/call"]


@pytest.mark.parametrize(
    ("support", "is_task"),
    [("required", True), ("optional", True), ("forbidden", False), (None, False)],
)
async def test_a_task_that_is_asked_for_is_one_where_the_tool_allows_it(
    support: str | None, is_task: bool
) -> None:
    server = CoreTasking("working", "completed", support=support)
    async with session_of(server) as session:
        task = await session.start_tool("slow")
        assert task.status == ("working" if is_task else "completed")
        assert (await task.result()).text == ("done" if is_task else "at once")
        assert task.status == "completed"
    assert ("task" in server.all("tools/call")[0]) is is_task


@pytest.mark.parametrize(
    "declares",
    [None, {}, {"requests": {}}, {"requests": {"tools": {}}}, {"requests": {"tools": {"call": 0}}}],
)
async def test_where_the_server_makes_no_tasks_a_required_one_is_a_finding_and_not_sent(
    declares: Any,
) -> None:
    server, asked = CoreTasking(), list[ToolCall]()
    server.declares = declares

    async def approve(call: ToolCall) -> Any:
        asked.append(call)
        return allow_all(call)

    async with session_of(server, approval=approve) as session:
        (finding,) = (await session.list_tools()).findings
        assert "'slow'" in str(finding)
        assert "requires a task" in str(finding)
        for call in (session.call_tool, session.start_tool):
            with pytest.raises(NotSent, match=r"tasks\.requests\.tools\.call") as caught:
                await call("slow")
            assert caught.value.tool == "slow"
    assert server.methods == []
    assert asked == []


async def test_without_tasks_an_optional_one_is_called_plainly() -> None:
    server = CoreTasking(support="optional")
    server.declares = None
    async with session_of(server) as session:
        assert (await session.list_tools()).findings == ()
        task = await session.start_tool("slow")
        assert (await task.result()).text == "at once"
    assert "task" not in server.all("tools/call")[0]


async def test_an_older_revision_has_no_tasks() -> None:
    server = CoreTasking(support="required")
    server.revision = "2025-06-18"
    async with session_of(server, revision="2025-06-18") as session:
        assert (await session.list_tools()).findings == ()
        with pytest.raises(ServerError):  # it is the server that breaks its revision
            await session.call_tool("slow")
    assert "task" not in server.all("tools/call")[0]


@pytest.mark.parametrize("more", [{}, {"task": {"taskId": "of the tool's own"}}])
async def test_a_result_at_once_is_taken_although_a_task_was_asked_for(more: Any) -> None:
    server = CoreTasking()
    server.created = text("already", **more)
    assert (await called(server)).text == "already"
    assert server.methods == ["tools/call"]


@pytest.mark.parametrize(
    "created",
    [
        {"task": None},
        {"task": []},
        {"task": {}},
        {"task": {"taskId": 7, "status": "working"}},
        {"task": {"taskId": "", "status": "working"}},
        {"task": {"taskId": ID, "status": 7}},
    ],
)
async def test_a_task_that_is_malformed_breaks_the_protocol(created: Any) -> None:
    server = CoreTasking()
    server.created = created
    with pytest.raises(ProtocolViolation) as caught:
        await called(server)
    assert ID not in str(caught.value)


# ------------------------------------------------------------------------- polls


async def test_a_status_that_the_revision_does_not_have_counts_as_working_and_is_reported() -> None:
    server = CoreTasking({"status": "queued", "pollInterval": 1}, "completed")
    server.created = {"task": {"taskId": ID, "status": "submitted", "pollInterval": 1}}
    async with session_of(server) as session:
        assert (await session.call_tool("slow")).text
        assert any("a status of its own" in one for one in session.stats.deviations)


async def test_the_newest_interval_is_used_between_polls(clock: Clock) -> None:
    server = CoreTasking()
    server.states = [{"status": "working", "pollInterval": 5_000}, "working", "completed"]
    async with session_of(server) as session, anyio.create_task_group() as tasks:
        await session.list_tools()
        clock.stop()
        tasks.start_soon(session.call_tool, "slow")
        await settled(lambda: server.methods)
        for seconds, polls in ((0.9, 0), (0.2, 1), (4.8, 1), (0.3, 2), (0.9, 2), (0.2, 3)):
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            clock.jump(seconds)
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            assert len(server.all("tasks/get")) == polls
        await settled(lambda: server.all("tasks/result"))
        clock.resume()


async def test_status_messages_are_steps_of_progress() -> None:
    states = [{"status": "working", "statusMessage": one} for one in ("one", "one", "two")]
    server, received = CoreTasking(*states, "completed"), list[Any]()
    await called(server, on_progress=lambda *status: received.append(status))
    assert received == [(1, None, "one"), (2, None, "two")]


async def test_the_token_of_the_call_is_good_for_progress_until_the_task_ends() -> None:
    server, received = CoreTasking(), list[Any]()

    def progress(number: float) -> None:
        token = server.all("tools/call")[0]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": number, "total": 9, "message": "m"}
        server.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def poll(number: float) -> Callable[[], dict[str, Any]]:
        def status() -> dict[str, Any]:
            progress(number)
            return {"status": "working", "statusMessage": "not beside it"}

        return status

    server.states = [poll(0.5), poll(0.2), poll(2), "completed"]
    async with session_of(server) as session:
        await session.call_tool("slow", on_progress=lambda *status: received.append(status))
        assert received == [(0.5, 9, "m"), (2, 9, "m")]
        progress(3)
        await session.ping()
        assert session.stats.late_answers == 1
    assert len(received) == 2


async def test_notices_of_the_status_may_come_before_the_response_and_be_of_any_form() -> None:
    server = CoreTasking()

    def created() -> dict[str, Any]:
        for params in ({}, server.state("working"), {"taskId": ["x"]}, {"taskId": "other"}):
            method = "notifications/tasks/status"
            server.send({"jsonrpc": "2.0", "method": method, "params": params})
        return {"task": server.state("working")}

    server.created = created
    assert (await called(server)).text == "done"


# ------------------------------------------------------------------------- its end


async def test_a_task_that_failed_with_a_result_is_an_error_of_the_tool() -> None:
    server = CoreTasking("failed", result=text("broken", isError=True))
    result = await called(server)
    assert (result.is_error, result.text) == (True, "broken")


@pytest.mark.parametrize("is_error", [False, None, "yes"])
async def test_a_task_that_failed_is_not_success_whatever_its_result_states(is_error: Any) -> None:
    result = await called(CoreTasking("failed", result=text("broken", isError=is_error)))
    assert result.is_error


async def test_a_task_that_failed_without_a_result_raises_what_its_status_states() -> None:
    failed = {"status": "failed", "statusMessage": f"{ID} has no disk\x1b[2J"}
    with pytest.raises(ServerError, match=r"the task failed: .* has no disk") as caught:
        await called(CoreTasking(failed, result={"_meta": {}}))
    assert ID not in str(caught.value)
    assert "\x1b" not in str(caught.value)


async def test_a_task_that_failed_with_an_error_raises_it_without_the_id() -> None:
    failed = {"status": "failed", "statusMessage": f"{ID} fell over"}
    server = CoreTasking(failed, result=JsonRpcError(-32050, f"no disk for {ID}", {"id": ID}))
    with pytest.raises(ServerError) as caught:
        await called(server)
    assert caught.value.code == -32050
    assert "no disk" in str(caught.value)
    assert ID not in repr(vars(caught.value)) + str(caught.value)


async def test_a_task_that_the_server_cancelled_has_an_unknown_outcome() -> None:
    server = CoreTasking("cancelled")
    with pytest.raises(OutcomeUnknown, match="cancelled the task by itself"):
        await called(server)
    assert server.all("tasks/result") == []


async def test_a_task_that_the_server_forgot_has_an_unknown_outcome() -> None:
    server = CoreTasking(JsonRpcError(-32602, f"Task {ID} not found"))
    with pytest.raises(OutcomeUnknown, match="no longer knows the task") as caught:
        await called(server)
    assert ID not in str(caught.value)


async def test_the_result_is_judged_as_that_of_any_call() -> None:
    schema = {"type": "object", "required": ["n"]}
    result = text("{}", structuredContent={})
    with pytest.raises(InvalidResult) as caught:
        await called(CoreTasking(result=result, outputSchema=schema))
    assert caught.value.result is not None
    with pytest.raises(ProtocolViolation):
        await called(CoreTasking(result={"content": 7}))


async def test_a_response_about_another_task_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolViolation, match="another task"):
        await called(CoreTasking({"taskId": "other", "status": "working"}))

    class Other(CoreTasking):
        async def __call__(self, message: Any, send: Any) -> Any:
            status = await super().__call__(message, send)
            if message.get("method") == "tasks/result":
                status["_meta"] = {RELATED: {"taskId": "other"}}
            return status

    with pytest.raises(ProtocolViolation, match="another task"):
        await called(Other())


async def test_a_result_that_is_lost_with_the_connection_is_asked_for_on_the_next_one() -> None:
    server = CoreTasking("completed")
    transport = server.server

    async def result() -> Any:
        server.result = text("after all")
        transport.end()

    server.result = result
    async with connect(transport, name="files", approval=allow_all) as session:
        assert (await session.call_tool("slow")).text == "after all"
        assert session.generation == 2
    assert server.methods == ["tools/call", *["tasks/get", "tasks/result"] * 2]


# -------------------------------------------------------------------- its questions


class Person:
    def __init__(self, wait: Callable[[], Any] | None = None) -> None:
        self.asked: list[ElicitRequest] = []
        self.wait = wait

    async def __call__(self, request: ElicitRequest) -> Any:
        self.asked.append(request)
        if self.wait is not None:
            await self.wait()
        return {"action": "accept", "content": {"name": "Ana"}}


async def test_where_input_is_required_the_result_is_asked_for_and_the_question_answered() -> None:
    server, person = CoreTasking("working", "input_required"), Person()

    async def result() -> Any:
        response = await server.ask("q1")
        assert response["result"]["_meta"] == {RELATED: {"taskId": ID}}
        return text("hello " + response["result"]["content"]["name"])

    server.result = result
    async with session_of(server, handlers=Handlers(elicitation=person)) as session:
        got = await session.call_tool("slow")
        assert session._dispatcher.of_task == {}, "or it would grow with each call"
    assert got.text == "hello Ana"
    (request,) = person.asked
    assert request.call is not None
    assert request.call.tool.name == "slow"
    assert server.methods == ["tools/call", "tasks/get", "tasks/get", "tasks/result"]


async def test_a_question_is_put_down_to_the_call_of_its_task_beside_others() -> None:
    server, person = CoreTasking("input_required"), Person()

    async def result() -> Any:
        response = await server.ask("q1")
        return text(response["result"]["content"]["name"])

    server.result = result
    async with (
        session_of(server, handlers=Handlers(elicitation=person)) as session,
        anyio.create_task_group() as tasks,
    ):
        first = CancelToken()

        async def waits() -> None:
            with pytest.raises(McpError):
                await session.call_tool("slow", {"other": 1}, cancel=first)

        server.created = anyio.sleep_forever
        tasks.start_soon(waits)
        await settled(lambda: server.all("tools/call"))
        server.created = None
        assert (await session.call_tool("slow", {"mine": 1})).text == "Ana"
        first.cancel("enough")
    (request,) = person.asked
    assert request.call is not None
    assert request.call.arguments == {"mine": 1}


async def test_the_time_of_a_person_does_not_count(clock: Clock) -> None:
    server = CoreTasking("input_required")

    async def think() -> None:
        clock.jump(500)
        await anyio.lowlevel.checkpoint()

    async def result() -> Any:
        await server.ask("q1")
        server.states = ["working", "completed"]
        server.result = text("done")
        raise JsonRpcError(-32603, "ask again")

    server.result = result
    person = Person(think)
    timeouts = Timeouts(total=60, idle=60)
    handlers = Handlers(elicitation=person)
    async with session_of(server, handlers=handlers, timeouts=timeouts) as session:
        assert (await session.call_tool("slow")).text == "done"
    assert len(person.asked) == 1


async def test_the_time_of_a_person_who_is_asked_before_the_task_begins_does_not_count(
    clock: Clock,
) -> None:
    server = CoreTasking("working", "completed")

    async def think() -> None:
        clock.jump(500)
        await anyio.lowlevel.checkpoint()

    async def created() -> Any:
        await server.ask("q1", progressToken=1)
        return {"task": server.state("working")}

    server.created = created
    person, timeouts = Person(think), Timeouts(total=60, idle=60)
    handlers = Handlers(elicitation=person)
    async with session_of(server, handlers=handlers, timeouts=timeouts) as session:
        assert (await session.call_tool("slow")).text == "done"
    assert len(person.asked) == 1


async def test_a_result_that_is_refused_while_the_task_goes_on_is_polled_for() -> None:
    server = CoreTasking("input_required", "working", "completed")

    def result() -> Any:
        server.result = text("in the end")
        return JsonRpcError(-32602, "not now")

    server.result = result
    assert (await called(server)).text == "in the end"
    assert server.methods[-3:] == ["tasks/get", "tasks/get", "tasks/result"]


async def test_a_result_that_does_not_come_is_polled_for_and_nothing_is_withdrawn(
    clock: Clock,
) -> None:
    server = CoreTasking("input_required", "completed")

    async def result() -> Any:
        server.result = text("in the end")
        await anyio.sleep_forever()

    server.result = result
    async with session_of(server) as session, anyio.create_task_group() as tasks:
        got: list[str] = []

        async def call() -> None:
            got.append((await session.call_tool("slow", timeout=Timeouts(idle=30))).text)

        tasks.start_soon(call)
        await server.asked.wait()
        clock.jump(31)
        await settled(lambda: got)
    assert got == ["in the end"]
    assert "notifications/cancelled" not in server.methods


# ------------------------------------------------------------------------ giving up


async def test_the_total_timeout_cancels_the_task_and_never_the_request(clock: Clock) -> None:
    server = CoreTasking("working")
    async with session_of(server) as session, anyio.create_task_group() as tasks:
        errors: list[CallTimeout] = []

        async def call() -> None:
            with pytest.raises(CallTimeout) as caught:
                await session.call_tool("slow", timeout=20)
            errors.append(caught.value)

        tasks.start_soon(call)
        await server.got.wait()
        clock.jump(21)
        await settled(lambda: errors and server.all("tasks/cancel"))
    (error,) = errors
    assert error.clock == "total"
    assert ID not in str(error)
    assert server.all("tasks/cancel")[0]["taskId"] == ID
    assert "notifications/cancelled" not in server.methods


@pytest.mark.parametrize("response", [None, JsonRpcError(-32602, "it has ended")])
async def test_cancelling_the_call_cancels_the_task(response: Any) -> None:
    server, token = CoreTasking("working"), CancelToken()
    server.cancels = response
    async with session_of(server) as session, anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(CallCancelled, match="enough"):
                await session.call_tool("slow", cancel=token)

        tasks.start_soon(call)
        await server.got.wait()
        token.cancel("enough")
        await settled(lambda: server.all("tasks/cancel"))
    assert len(server.all("tasks/cancel")) == 1
    assert "notifications/cancelled" not in server.methods


async def test_before_there_is_a_task_the_request_is_cancelled() -> None:
    server, token = CoreTasking(), CancelToken()
    server.created = anyio.sleep_forever
    async with session_of(server) as session, anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(CallCancelled):
                await session.call_tool("slow", cancel=token)

        tasks.start_soon(call)
        await settled(lambda: server.all("tools/call"))
        token.cancel()
        await settled(lambda: server.all("notifications/cancelled"))
    assert server.all("tasks/cancel") == []


async def test_a_server_without_cancelling_is_not_asked_to() -> None:
    server = CoreTasking("working")
    server.declares = {"requests": {"tools": {"call": {}}}}
    async with session_of(server) as session:
        with pytest.raises(CallTimeout):
            await session.call_tool("slow", timeout=0.2)
        task = await session.start_tool("slow")
        with pytest.raises(NotSent, match=r"tasks\.cancel"):
            await task.cancel()
    assert server.all("tasks/cancel") == []


# ---------------------------------------------------------------------- returned


async def test_a_task_is_resumed_in_another_session() -> None:
    server = CoreTasking("working", "completed")
    async with session_of(server) as session:
        saved = (await session.start_tool("slow")).to_json()
    assert server.all("tasks/cancel") == []
    async with session_of(server) as session:
        task = session.resume_task(saved)
        assert (await task.result()).text == "done"


async def test_a_task_that_was_started_is_cancelled_by_its_handle() -> None:
    server = CoreTasking("working")
    async with session_of(server) as session:
        task = await session.start_tool("slow")
        await task.cancel()
        with pytest.raises(CallCancelled):
            await task.result()
    assert len(server.all("tasks/cancel")) == 1


# ------------------------------------------------------------------------- secrets


async def test_the_id_is_in_no_log_audit_or_repr(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    log = tmp_path / "calls.jsonl"
    server = CoreTasking({"status": "working", "statusMessage": f"see {ID}"}, "completed")
    failing = CoreTasking("failed", result=JsonRpcError(-32050, f"lost {ID}"))
    received: list[Any] = []
    for each in (server, failing):
        async with session_of(each, audit=log) as session:
            try:
                await session.call_tool("slow", on_progress=lambda *status: received.append(status))
            except ServerError as error:
                received.append(repr(error))
            assert ID not in repr(await session.start_tool("slow"))
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [one["event"] for one in records].count("opened") == 4
    assert [one["event"] for one in records].count("closed") == 2, "two were returned"
    assert ID not in log.read_text() + caplog.text + repr(received)


async def test_a_record_has_no_id_and_plays_the_task_again(tmp_path: Path) -> None:
    server, person, path = CoreTasking("working", "input_required"), Person(), tmp_path / "r.jsonl"

    def created() -> dict[str, Any]:
        method = "notifications/tasks/status"
        params = server.state("working")
        server.send({"jsonrpc": "2.0", "method": method, "params": params})
        return {"task": params}

    async def result() -> Any:
        response = await server.ask("q1")
        return text("hello " + response["result"]["content"]["name"])

    server.created, server.result = created, result
    handlers = Handlers(elicitation=person)
    async with session_of(server, path, handlers=handlers) as session:
        assert (await session.call_tool("slow")).text == "hello Ana"
    assert ID not in path.read_text()
    replayed = ReplayServer(path)
    async with connect(replayed, approval=allow_all, handlers=handlers) as session:
        assert (await session.call_tool("slow")).text == "hello Ana"
