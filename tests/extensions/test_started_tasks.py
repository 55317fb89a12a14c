"""``start_tool`` and ``resume_task``: a task that outlives its session, and its process."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

import mcp_client.sync
from mcp_client import (
    CallDenied,
    CallTimeout,
    ConfigError,
    Deny,
    FileState,
    Handlers,
    Host,
    HttpServer,
    MemoryServer,
    OAuth,
    OutcomeUnknown,
    ServerError,
    Session,
    allow_all,
    connect,
)
from mcp_client.audit import verify_audit
from mcp_client.auth import MemoryTokens, Token
from mcp_client.auth.tokens import Key, Source
from mcp_client.errors import CallCancelled, ConnectionLost, InvalidResult, Unanswered, UnknownTool
from mcp_client.extensions import Task
from mcp_client.handlers import Accept
from mcp_client.session import started_tasks
from mcp_client.session.started_tasks import PROCESS_LEDGER, ProcessLedger, StateLedger
from mcp_client.state import MemoryState, State
from mcp_client.testing import JsonRpcError
from tests.support.asking import FORM
from tests.support.http_server import serving
from tests.support.tasking import ID, Tasking, TaskingOverHttp, done, working

QUESTION = {
    "status": "input_required",
    "inputRequests": {"a": {"method": FORM[0], "params": FORM[1]}},
}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def records(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [record for record in found if record["event"] in ("opened", "closed")]


async def saved(server: Any, **options: Any) -> dict[str, Any]:
    """A task that was started in a session that has ended."""
    async with connect(server, approval=allow_all, **options) as session:
        return (await session.start_tool("slow")).to_json()


# ------------------------------------------------------------------------- in one session


async def test_starting_returns_before_the_task_has_ended() -> None:
    server = Tasking(working("half"), done("at last"))
    async with connect(MemoryServer(server), approval=allow_all) as session:
        task = await session.start_tool("slow")
        assert isinstance(task, Task)
        assert (task.id, task.status, task.status_message) == (ID, "working", None)
        assert (task.server, task.tool) == ("memory", "slow")
        assert server.methods == ["tools/call"]
        assert (await task.result()).text == "at last"
        assert task.status == "completed"
        assert (await task.result()).text == "at last"
    assert server.methods == ["tools/call", "tasks/get", "tasks/get"]
    assert ID not in repr(task)


@pytest.mark.one_backend
async def test_a_tool_that_completes_at_once_is_a_finished_task() -> None:
    server = Tasking()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        task = await session.start_tool("quick")
        assert (task.id, task.status) == ("", "completed")
        assert (await task.result()).text == "at once"
        await task.cancel()
        again = session.resume_task(task.to_json())
        assert (again.status, (await again.result()).text) == ("completed", "at once")
        assert "at once" not in json.dumps(task.to_json())
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with pytest.raises(ConfigError, match="completed at once") as caught:
            session.resume_task(task.to_json())
    assert caught.value.tool == "quick"
    assert server.methods == ["tools/call"]


async def test_a_host_starts_a_task_and_the_session_of_its_server_resumes_it() -> None:
    server = Tasking(working(), done("at last"))
    async with Host({"one": MemoryServer(server)}, approval=allow_all) as host:
        task = await host.start_tool("one__slow")
        assert (task.server, task.tool, task.status) == ("one", "slow", "working")
        again = (await host.session(task.server)).resume_task(task.to_json())
        assert (await again.result()).text == "at last"
        with pytest.raises(UnknownTool, match="one__slow"):
            await host.start_tool("one__slo")
    assert server.methods.count("tools/call") == 1


@pytest.mark.one_backend
async def test_starting_passes_the_gate() -> None:
    server = Tasking()
    async with connect(MemoryServer(server), approval=lambda call: Deny("no")) as session:
        with pytest.raises(CallDenied):
            await session.start_tool("slow")
    assert server.methods == []


async def test_a_wait_that_ends_before_the_task_leaves_it_running() -> None:
    server = Tasking(working())
    async with connect(MemoryServer(server), approval=allow_all) as session:
        task = await session.start_tool("slow")
        with pytest.raises(CallTimeout):
            await task.result(timeout=0.2)
        with anyio.move_on_after(0.2):
            await task.result()
        server.states = [done()]
        assert (await task.result()).text == "done"
    assert not {"tasks/cancel", "notifications/cancelled"} & set(server.methods)


async def test_several_may_wait_for_one_task() -> None:
    server, texts = Tasking(working(), done()), list[str]()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        task = await session.start_tool("slow")

        async def wait() -> None:
            texts.append((await task.result()).text)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait)
    assert texts == ["done"] * 3
    assert len(server.all("tasks/get")) == 2


async def test_waiting_behind_another_ends_in_time_and_so_does_cancelling() -> None:
    server = Tasking(working())
    async with connect(MemoryServer(server), approval=allow_all) as session:
        task = await session.start_tool("slow")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(task.result)
            await server.got.wait()
            with pytest.raises(CallTimeout) as caught:
                await task.result(timeout=0.1)
            assert caught.value.tool == "slow"
            await task.cancel()
            tasks.cancel_scope.cancel()
    assert server.methods.count("tasks/cancel") == 1


async def test_a_question_that_got_no_response_may_be_answered_later() -> None:
    answers: list[Any] = [7, Accept({"name": "Ada"})]
    handlers = Handlers(elicitation=lambda request: answers.pop(0))
    server = Tasking(QUESTION, QUESTION, done())
    async with connect(MemoryServer(server), approval=allow_all, handlers=handlers) as session:
        task = await session.start_tool("slow")
        with pytest.raises(Unanswered):
            await task.result()
        assert task.status == "input_required"
        assert (await task.result()).text == "done"
    assert "tasks/cancel" not in server.methods


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("last", "error"),
    [
        ({"status": "failed", "error": {"code": -1, "message": f"no {ID}"}}, ServerError),
        ({"status": "cancelled"}, OutcomeUnknown),
        (JsonRpcError(-32602, "unknown"), OutcomeUnknown),
        (done(structuredContent={"n": "x"}), InvalidResult),
    ],
)
async def test_the_end_of_a_task_is_the_same_each_time(
    last: Any, error: type[Exception], tmp_path: Path
) -> None:
    server, log = Tasking(last), tmp_path / "audit.jsonl"
    server.tool = {"outputSchema": SCHEMA}
    async with connect(MemoryServer(server), approval=allow_all, audit=log) as session:
        task = await session.start_tool("slow")
        for _ in range(2):
            with pytest.raises(error) as caught:
                await task.result()
            assert caught.value.tool == "slow"  # type: ignore[attr-defined]
    assert len(server.all("tasks/get")) == 1
    opened, closed = records(log)
    assert (opened["event"], closed["outcome"]) == ("opened", error.__name__)


@pytest.mark.parametrize("is_in_time", [True, False])
async def test_cancelling_asks_the_server_which_may_have_completed(
    is_in_time: bool, tmp_path: Path
) -> None:
    server, log = Tasking(working()), tmp_path / "audit.jsonl"

    async def cancelled() -> Any:
        server.states = [{"status": "cancelled"} if is_in_time else done("too late")]
        return {}

    server.on_cancel = cancelled
    async with connect(MemoryServer(server), approval=allow_all, audit=log) as session:
        task = await session.start_tool("slow")
        await task.cancel()
        if is_in_time:
            assert task.status == "cancelled"
            with pytest.raises(CallCancelled):
                await task.result()
        else:
            assert (await task.result()).text == "too late"
        await task.cancel()  # once it has ended, there is nothing to cancel
    assert server.methods.count("tasks/cancel") == 1
    assert [record["event"] for record in records(log)] == ["opened", "closed"]


@pytest.mark.one_backend
async def test_cancelling_a_task_that_is_gone_is_not_an_error() -> None:
    server = Tasking(JsonRpcError(-32602, "unknown"))
    server.on_cancel = JsonRpcError(-32602, f"unknown {ID}")
    async with connect(MemoryServer(server), approval=allow_all) as session:
        task = await session.start_tool("slow")
        await task.cancel()
        with pytest.raises(OutcomeUnknown):
            await task.result()


async def test_closing_the_session_leaves_a_started_task_running() -> None:
    server, outcome = Tasking(working()), list[BaseException]()
    session = await connect(MemoryServer(server), approval=allow_all)
    task = await session.start_tool("slow")

    async def wait() -> None:
        try:
            await task.result()
        except ConnectionLost as error:
            outcome.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await server.got.wait()
        await session.aclose()
    assert outcome
    with pytest.raises(ConnectionLost):
        await task.result()
    assert "tasks/cancel" not in server.methods


# ---------------------------------------------------------------------- in another session


async def test_a_task_is_resumed_in_another_session_and_closes_the_same_record(
    tmp_path: Path,
) -> None:
    server, log = Tasking(working(), done("at last")), tmp_path / "audit.jsonl"
    text = await saved(MemoryServer(server), audit=log)
    assert [record["event"] for record in records(log)] == ["opened"]
    assert len(verify_audit(log).open_calls) == 1

    def never(call: Any) -> Any:
        raise AssertionError("no one is asked again")

    async with connect(MemoryServer(server), approval=never, audit=log) as session:
        task = session.resume_task(text)
        assert (task.id, task.status, task.tool) == (ID, "working", "slow")
        assert (await task.result()).text == "at last"
    opened, closed = records(log)
    assert opened["call"] == closed["call"]
    assert (closed["event"], closed["outcome"], closed["delivery"]) == ("closed", "ok", "answered")
    assert closed["opened_by"] == os.getpid()
    assert "decision" not in closed
    assert not verify_audit(log).open_calls
    assert ID not in log.read_text()


@pytest.mark.one_backend
async def test_a_task_of_another_process_is_closed_as_one_that_it_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, log = Tasking(JsonRpcError(-32602, "unknown")), tmp_path / "audit.jsonl"
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(os, "getpid", lambda: 4711)
        text = await saved(MemoryServer(server), audit=log)
    lines = log.read_text()
    (open_call,) = verify_audit(log).open_calls
    assert open_call.process == 4711
    async with connect(MemoryServer(server), approval=allow_all, audit=log) as session:
        with pytest.raises(OutcomeUnknown) as caught:
            await session.resume_task(text).result()
    assert (caught.value.server, caught.value.tool) == ("memory", "slow")
    assert log.read_text().startswith(lines)
    _, closed = records(log)
    assert (closed["opened_by"], closed["delivery"]) == (4711, "unknown")
    assert closed["process"] == os.getpid()
    assert not verify_audit(log).open_calls


@pytest.mark.one_backend
async def test_a_saved_task_has_its_id_and_no_argument() -> None:
    server = Tasking()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        tool = await session.get_tool("slow")
        task = await session.start_tool("slow", {"password": "hunter2"})
        found = task.to_json()
    assert "hunter2" not in json.dumps(found)
    assert (found["id"], found["definition"]) == (ID, tool.fingerprint)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "data",
    ["", "null", "[]", "{}", {}, None, 7, [], "[" * 100_000, {"mcp-client-task": 2, "mac": None}],
)
async def test_what_is_not_a_saved_task_is_refused(data: Any) -> None:
    async with connect(MemoryServer(Tasking()), approval=allow_all) as session:
        with pytest.raises(ConfigError, match="not a saved task"):
            session.resume_task(data)


CHANGES: dict[str, Any] = {
    "mcp-client-task": 1,
    "id": "that-of-another-task",
    "tool": "quick",
    "definition": "sha256:0",
    "has_output": False,
    "result": {"content": [{"type": "text", "text": "made up"}]},
    "call": "that-of-another-call",
    "process": 1,
    "name": "another",
    "revision": "2025-11-25",
    "server": "python sha256:0",
    "authorization": "0" * 64,
    "salt": "00",
    "mac": "0" * 64,
}


@pytest.mark.one_backend
@pytest.mark.parametrize("member", CHANGES)
async def test_nothing_of_a_saved_task_can_be_changed(member: str, tmp_path: Path) -> None:
    server, log = Tasking(done()), tmp_path / "audit.jsonl"
    whole = await saved(MemoryServer(server), audit=log)
    before, asked = log.read_text(), len(server.methods)
    changed = {**whole, member: CHANGES[member]}
    missing = {name: value for name, value in whole.items() if name != member}
    async with connect(MemoryServer(server), approval=allow_all, audit=log) as session:
        for altered in (changed, json.dumps(changed), missing):
            if altered == whole:
                continue  # a member that no saved task has cannot be missing
            with pytest.raises(ConfigError, match="not a saved task") as caught:
                session.resume_task(altered)
            assert ID not in str(caught.value)
        assert (len(server.methods), log.read_text()) == (asked, before)
        assert (await session.resume_task(json.dumps(whole)).result()).text == "done"


@pytest.mark.one_backend
async def test_a_saved_task_is_good_only_where_its_key_is(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Tasking(done())
    whole = await saved(MemoryServer(server))
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(PROCESS_LEDGER, "_key", b"that of another process")
            with pytest.raises(ConfigError, match="use one state in both"):
                session.resume_task(whole)
        assert (await session.resume_task(whole).result()).text == "done"


def shares(session: Session, state: State | None) -> None:
    """As in a process of its own that has ``state``, or none."""
    session._handover._ledger = ProcessLedger() if state is None else StateLedger(state)


async def test_a_task_is_resumed_in_another_process_that_has_the_same_state(tmp_path: Path) -> None:
    server, log = Tasking(done()), tmp_path / "audit.jsonl"
    async with connect(MemoryServer(server), approval=allow_all, audit=log) as session:
        shares(session, FileState(tmp_path / "state"))
        whole = (await session.start_tool("slow")).to_json()
    async with connect(MemoryServer(server), approval=allow_all, audit=log) as session:
        for other in (None, FileState(tmp_path / "another")):
            shares(session, other)
            with pytest.raises(ConfigError, match="use one state in both"):
                session.resume_task(whole)
    for _ in range(2):
        async with connect(MemoryServer(server), approval=allow_all, audit=log) as session:
            shares(session, FileState(tmp_path / "state"))
            assert (await session.resume_task(whole).result()).text == "done"
    assert [record["event"] for record in records(log)] == ["opened", "closed"]


@pytest.mark.one_backend
async def test_the_ends_of_tasks_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    state = MemoryState()
    ledger = StateLedger(state)
    assert [await ledger.close(task) for task in ("a", "a", "b")] == [True, False, True]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 100 * 86_400)
    for number in range(1_000):
        assert await ledger.close(f"c{number}")
        if "a" not in state.list("tasks"):
            break
    assert set(state.list("tasks")) == {f"c{n}" for n in range(number + 1)}


@pytest.mark.one_backend
async def test_a_state_that_fails_at_the_end_of_a_task_takes_no_result(tmp_path: Path) -> None:
    class Failing(MemoryState):
        def change(self, kind: str, key: str, function: Any) -> Any:
            if kind == "tasks":
                raise ConfigError("the disk is full")
            return super().change(kind, key, function)

    server, log = Tasking(done()), tmp_path / "audit.jsonl"
    async with connect(MemoryServer(server), approval=allow_all, audit=log) as session:
        shares(session, Failing())
        assert (await (await session.start_tool("slow")).result()).text == "done"
    assert [record["event"] for record in records(log)] == ["opened", "closed"]


@pytest.mark.parametrize("end", ["ok", "OutcomeUnknown"])
async def test_a_task_that_several_sessions_see_the_end_of_is_closed_once(
    end: str, tmp_path: Path
) -> None:
    server = Tasking(done() if end == "ok" else {"status": "cancelled"})
    log = tmp_path / "audit.jsonl"

    async def wait(task: Task) -> None:
        try:
            assert (await task.result()).text == "done"
        except OutcomeUnknown:
            assert end != "ok"

    async def resume() -> None:
        async with connect(MemoryServer(server), approval=allow_all, audit=log) as session:
            await wait(session.resume_task(whole))

    async with connect(MemoryServer(server), approval=allow_all, audit=log) as session:
        task = await session.start_tool("slow")
        whole = task.to_json()
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(resume)
        await wait(task)
    opened, closed = records(log)
    assert (opened["event"], closed["outcome"]) == ("opened", end)
    assert verify_audit(log).open_calls == ()


@pytest.mark.one_backend
async def test_a_task_of_another_server_is_refused() -> None:
    text = await saved(MemoryServer(Tasking()), name="a")
    async with connect(MemoryServer(Tasking()), name="b", approval=allow_all) as session:
        with pytest.raises(ConfigError, match="belongs to the server 'a'"):
            session.resume_task(text)


@pytest.mark.one_backend
@pytest.mark.parametrize("resumed_here", [False, True])
async def test_a_task_taken_up_twice_in_a_session_is_one_task_with_one_record(
    resumed_here: bool, tmp_path: Path
) -> None:
    server, log = Tasking(done()), tmp_path / "calls.jsonl"
    async with connect(MemoryServer(server), approval=allow_all, audit=log) as session:
        started = await session.start_tool("slow")
        text = started.to_json()
        if resumed_here:
            assert session.resume_task(text) is session.resume_task(text) is started
            assert (await started.result()).text == "done"
    if not resumed_here:
        async with connect(MemoryServer(server), approval=allow_all, audit=log) as session:
            first, second = session.resume_task(text), session.resume_task(text)
            assert first is second
            for task in (first, second):
                assert (await task.result()).text == "done"
    assert [record["event"] for record in records(log)] == ["opened", "closed"]
    assert verify_audit(log).open_calls == ()


@pytest.mark.one_backend
@pytest.mark.parametrize("validation", ["strict", "warn"])
async def test_a_result_is_not_taken_on_the_word_of_a_definition_that_changed(
    validation: Any,
) -> None:
    server = Tasking(done(structuredContent={"n": 1}))
    server.tool = {"outputSchema": SCHEMA}
    text = await saved(MemoryServer(server))
    async with connect(MemoryServer(server), approval=allow_all) as session:
        assert (await session.resume_task(text).result()).structured_content == {"n": 1}
    server.tool = {"outputSchema": {"type": "object"}}
    async with connect(MemoryServer(server), approval=allow_all, validation=validation) as session:
        task = session.resume_task(text)
        if validation == "strict":
            with pytest.raises(InvalidResult, match="no longer lists the tool") as caught:
                await task.result()
            assert caught.value.result.structured_content == {"n": 1}
        else:
            assert "no longer lists" in str((await task.result()).findings[0])


@pytest.mark.one_backend
@pytest.mark.parametrize("validation", ["strict", "off"])
async def test_a_result_is_checked_where_the_list_cannot_be_fetched(validation: Any) -> None:
    server = Tasking(done(structuredContent={"n": 1}))
    server.tool = {"outputSchema": SCHEMA}
    text = await saved(MemoryServer(server))
    server.lists = False
    async with connect(MemoryServer(server), approval=allow_all, validation=validation) as session:
        task = session.resume_task(text)
        if validation == "off":
            assert (await task.result()).structured_content == {"n": 1}
        else:
            with pytest.raises(InvalidResult, match="no longer lists the tool"):
                await task.result()


@pytest.mark.one_backend
async def test_a_schema_that_cannot_be_used_leaves_the_result_unchecked() -> None:
    server = Tasking(done(structuredContent={"n": 1}))
    server.tool = {"outputSchema": {**SCHEMA, "$ref": "#/nowhere"}}
    async with connect(MemoryServer(server), approval=allow_all) as session:
        whole = (await session.start_tool("slow", validation="off")).to_json()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        result = await session.resume_task(whole).result()
    assert result.structured_content == {"n": 1}
    assert [one.kind for one in result.findings] == ["unchecked_result"]


@pytest.mark.one_backend
async def test_a_process_remembers_the_ends_of_its_last_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(started_tasks, "_MAX_CLOSED", 2)
    ledger = ProcessLedger()
    for task in ("a", "b", "c"):
        assert await ledger.close(task)
    assert [await ledger.close(task) for task in ("c", "b", "a")] == [False, False, True]


@pytest.mark.one_backend
async def test_a_result_that_breaks_the_schema_is_invalid_for_a_resumed_task_too() -> None:
    server = Tasking(done(structuredContent={"n": "x"}))
    server.tool = {"outputSchema": SCHEMA}
    text = await saved(MemoryServer(server))
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with pytest.raises(InvalidResult) as caught:
            await session.resume_task(text).result()
    assert caught.value.path == "/n"


# ------------------------------------------------------------------------------ over HTTP


async def test_over_http_each_request_names_the_task() -> None:
    app = TaskingOverHttp(Tasking(working(), QUESTION, working()))
    handlers = Handlers(elicitation=lambda request: Accept({"name": "Ada"}))
    async with serving(app) as served:
        url = served.url
        async with connect(url, approval=allow_all, handlers=handlers) as session:
            task = await session.start_tool("slow")
            with pytest.raises(CallTimeout):
                await task.result(timeout=1)
            await task.cancel()
    assert {method for method, _ in app.names} >= {"tasks/get", "tasks/update", "tasks/cancel"}
    for method, name in app.names:
        assert name == (ID if method.startswith("tasks/") else "slow"), method


@pytest.mark.parametrize("then", ["same", "other", "none"])
async def test_a_task_is_resumed_under_the_same_authorization_only(then: str) -> None:
    app = TaskingOverHttp(Tasking(done()))
    async with serving(app) as served:
        url = served.url
        first = HttpServer(url, headers={"Authorization": "Bearer of-ana"})
        async with connect(first, approval=allow_all) as session:
            text = (await session.start_tool("slow")).to_json()
        assert "of-ana" not in json.dumps(text)
        tokens = {"same": "of-ana", "other": "of-bo"}
        headers = {"Authorization": f"Bearer {tokens[then]}"} if then in tokens else None
        async with connect(HttpServer(url, headers=headers), approval=allow_all) as session:
            task, before = session.resume_task(text), len(app.names)
            if then == "same":
                assert (await task.result()).text == "done"
                return
            for use in (task.result, task.cancel):
                with pytest.raises(ConfigError, match="another authorization"):
                    await use()
            assert len(app.names) == before


@pytest.mark.parametrize("then", ["ana", "bo"])
async def test_a_task_of_one_person_is_not_resumed_by_another_of_the_same_client(then: str) -> None:
    app = TaskingOverHttp(Tasking(done()))
    async with serving(app) as served:

        async def logged_in(person: str, number: int) -> HttpServer:
            """A login of the person by the same client; each token is another one."""
            claims = base64.urlsafe_b64encode(json.dumps({"sub": person, "n": number}).encode())
            source = Source(Key("https://as.example", served.url, "client"), "https://as.example/t")
            store = MemoryTokens()
            await store.save(source.key, Token(f"e.{claims.decode().rstrip('=')}.s"))
            await store.remember(served.url, source)
            return HttpServer(served.url, auth=OAuth(client_id="client", store=store))

        async with connect(await logged_in("ana", 1), approval=allow_all) as session:
            text = (await session.start_tool("slow")).to_json()
        async with connect(await logged_in(then, 2), approval=allow_all) as session:
            task = session.resume_task(text)
            if then == "ana":
                assert (await task.result()).text == "done"
                return
            with pytest.raises(ConfigError, match="another authorization"):
                await task.result()


async def test_a_task_is_not_resumed_at_another_address() -> None:
    async with serving(TaskingOverHttp(Tasking())) as served:
        url = served.url
        async with connect(url, approval=allow_all) as session:
            text = (await session.start_tool("slow")).to_json()
        async with connect(url + "?tenant=other", approval=allow_all) as session:
            with pytest.raises(ConfigError, match="belongs to the server"):
                session.resume_task(text)


# --------------------------------------------------------------------------------- threads


def test_tasks_without_await() -> None:
    server = Tasking(working("half"), done("at last"))
    with mcp_client.sync.connect(MemoryServer(server), approval=allow_all) as session:
        task = session.start_tool("slow")
        assert (task.status, task.id, task.tool) == ("working", ID, "slow")
        assert task.result().text == "at last"
        again = session.resume_task(task.to_json())
        assert again.result().text == "at last"
        again.cancel()
        assert again.status_message is None
        assert ID not in repr(again)


def test_a_session_that_is_not_open_resumes_nothing() -> None:
    assert hasattr(Session, "resume_task")
    with pytest.raises(ConfigError, match="not open yet"):
        connect(MemoryServer(Tasking())).resume_task("{}")  # type: ignore[attr-defined]
