"""Calls with an ``idempotency_key``: what is found under the key decides what happens."""

from __future__ import annotations

import asyncio  # noqa: TID251 - cancelling a task without a scope is its own
import json
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    ApprovalQueue,
    CallDenied,
    CallPending,
    CallTimeout,
    CancelToken,
    ConfigError,
    ConnectError,
    Deny,
    FileState,
    Handlers,
    Host,
    McpError,
    MemoryServer,
    NotSent,
    OutcomeUnknown,
    Retry,
    ServerError,
    Session,
    StdioServer,
    Timeouts,
    ToolCall,
    ToolResult,
    allow_all,
    connect,
    sync,
)
from mcp_client.adapters import anthropic, gemini
from mcp_client.errors import (
    CallCancelled,
    CallWithdrawn,
    InvalidArguments,
    InvalidResult,
    NotPending,
    ProtocolViolation,
    ResultNotStored,
    StateError,
    UnknownTool,
    UrlElicitationRequired,
)
from mcp_client.handlers import Decline
from mcp_client.runtime.storage import Change, Object
from mcp_client.session.journal import JournalRow
from mcp_client.state import MemoryState, PostgresState, State
from mcp_client.testing import JsonRpcError
from tests.support.tasking import Tasking, done, working

KEY = "order-17/3"


class Server:
    """A tool ``pay`` that does what ``answers`` lists, one after the other, and what it was called
    with; ``hang`` makes it wait until a test lets it go on."""

    def __init__(self, *answers: Any, **annotations: bool) -> None:
        self.answers = list(answers)
        self.calls: list[dict[str, Any]] = []
        self.called, self.go_on = anyio.Event(), anyio.Event()
        self.tool: dict[str, Any] = {
            "name": "pay",
            "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
            "annotations": annotations,
        }

    async def __call__(self, message: dict[str, Any]) -> Any:
        match message.get("method"):
            case "server/discover":
                return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            case "tools/list":
                other = {"name": "other", "inputSchema": {"type": "object"}}
                return {"tools": [self.tool, other], "ttlMs": 0, "cacheScope": "public"}
            case "tools/call":
                self.calls.append(message["params"]["arguments"])
                response = self.answers.pop(0) if self.answers else text(f"paid {len(self.calls)}")
                self.called.set()
                if response == "hang":
                    await self.go_on.wait()
                    return text("paid late")
                if isinstance(response, Exception):
                    raise response
                return response
        return NotImplemented


def text(text: str, **members: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **members}


class Approver:
    """Approves, or decides as a test sets, and counts."""

    def __init__(self) -> None:
        self.asked: list[ToolCall] = []
        self.decision: Any = Allow()

    async def __call__(self, call: ToolCall) -> Any:
        self.asked.append(call)
        if isinstance(self.decision, anyio.Event):
            await self.decision.wait()
            return Allow()
        return self.decision


def opened(server: Any, state: Any, approval: Any = allow_all, **options: Any) -> Any:
    return connect(MemoryServer(server), name="bank", state=state, approval=approval, **options)


@pytest.fixture(scope="session", params=["memory", "a directory", "a database"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "a database":  # before it is noted which processes there are
        request.getfixturevalue("postgres")
    return str(request.param)


@pytest.fixture
def state(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[State]:
    if kind == "memory":
        yield MemoryState()
    elif kind == "a directory":
        yield FileState(tmp_path / "state")
    else:
        made = PostgresState(request.getfixturevalue("database"))
        yield made
        made.close()


@pytest.fixture
def here() -> MemoryState:
    return MemoryState()


# ---------------------------------------------------------------------------- settled


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_same_key_gives_the_same_result_and_sends_nothing(
    state: State, revision: str
) -> None:
    server, approver = Server(), Approver()
    async with opened(server, state, approver, revision=revision) as session:
        first = await session.call_tool("pay", {"n": 1}, idempotency_key=KEY)
        again = await session.call_tool("pay", {"n": 1}, idempotency_key=KEY)
        other = await session.call_tool("pay", {"n": 1}, idempotency_key="order-17/4")
    async with opened(server, state, approver, revision=revision) as session:
        later = await session.call_tool("pay", {"n": 1}, idempotency_key=KEY)
    assert (first.text, other.text) == ("paid 1", "paid 2")
    assert first == again == later
    assert again.raw == first.raw
    assert len(server.calls) == len(approver.asked) == 2
    assert state.calls.unsettled() == ()


@pytest.mark.parametrize("face", ["session", "host", "toolset", "sync session", "sync toolset"])
async def test_every_face_takes_a_key(face: str, here: MemoryState) -> None:
    use = {"type": "tool_use", "id": "7", "name": "pay", "input": {}}
    server, response = Server(), {"content": [use]}

    def in_thread() -> None:
        made = MemoryServer(server)
        with sync.connect(made, name="bank", state=here, approval=allow_all) as session:
            kit = anthropic.toolset(session.list_tools())
            for _ in range(2):
                if face == "sync session":
                    session.call_tool("pay", {}, idempotency_key="p/7")
                else:
                    kit.run(session, response, idempotency_prefix="p")

    if face.startswith("sync"):
        await anyio.to_thread.run_sync(in_thread)
    elif face == "host":
        async with Host({"bank": MemoryServer(server)}, state=here, approval=allow_all) as host:
            for _ in range(2):
                await host.call_tool("bank__pay", {}, idempotency_key="p/7")
    else:
        async with opened(server, here) as session:
            kit = anthropic.toolset(await session.list_tools())
            for _ in range(2):
                if face == "toolset":
                    await kit.run(session, response, idempotency_prefix="p")
                else:
                    await session.call_tool("pay", idempotency_key="p/7")
    assert len(server.calls) == 1
    assert set(here.list("calls")) == {"p/7"}


async def test_calls_of_one_response_have_different_keys_whatever_their_ids(
    here: MemoryState,
) -> None:
    """An id is the number that a call without one has, as in a response of Gemini."""
    parts: list[dict[str, Any]] = [
        {"functionCall": {"name": "pay", "args": {"n": n}} | ({"id": id} if id else {})}
        for n, id in enumerate(["a", None, "1", None])
    ]
    response = {"candidates": [{"content": {"role": "model", "parts": parts}}]}
    server = Server()
    async with opened(server, here) as session:
        kit = gemini.toolset(await session.list_tools())
        made = [await kit.run(session, response, idempotency_prefix="p") for _ in range(2)]
    assert sorted(call["n"] for call in server.calls) == [0, 1, 2, 3]
    assert made[0] == made[1]


UNFIT = text("x", structuredContent={"sum": "much"})
ANSWERS: dict[str, tuple[Any, type[Exception] | None, str]] = {
    "a result": (text("paid"), None, "paid"),
    "a tool's error": (text("no money", isError=True), None, "no money"),
    "an error of the server": (
        JsonRpcError(-32603, "it broke", {"at": 7}),
        ServerError,
        "it broke",
    ),
    "a result that breaks the schema": (UNFIT, InvalidResult, "output schema"),
    "no result": ({"content": 7}, ProtocolViolation, "content is not an array"),
}


@pytest.mark.parametrize("response", ANSWERS)
async def test_whatever_the_server_answered_is_returned(response: str, state: State) -> None:
    passed, kind, reported = ANSWERS[response]
    server, found = Server(passed), list[Any]()
    server.tool["outputSchema"] = {"type": "object", "properties": {"sum": {"type": "integer"}}}
    if kind is None and not passed.get("isError"):
        passed["structuredContent"] = {"sum": 1}
    async with opened(server, state) as session:
        for _ in range(3):
            try:
                found.append(await session.call_tool("pay", idempotency_key=KEY))
            except McpError as error:
                found.append(error)
    assert len(server.calls) == 1
    if kind is None:
        assert [one.text for one in found] == [reported] * 3
        assert found[0] == found[1]
    else:
        assert [(type(one), one.server, one.tool) for one in found] == [(kind, "bank", "pay")] * 3
        assert len({str(one) for one in found}) == 1
        assert reported in str(found[0])
        fields = "code", "data", "server_message", "result", "retryable"
        for name in fields:
            assert getattr(found[1], name, None) == getattr(found[0], name, None), name
    assert state.calls.unsettled() == ()


@pytest.mark.parametrize("answer", [JsonRpcError(-32603, "no list now"), {"tools": 7}], ids=str)
async def test_an_error_response_to_tools_list_settles_no_call(answer: Any, state: State) -> None:
    server, answers = Server(), [answer]

    async def fails_at_first(message: dict[str, Any]) -> Any:
        if message.get("method") != "tools/list" or not answers:
            return await server(message)
        if isinstance(answers[-1], Exception):
            raise answers.pop()
        return answers.pop()

    async with opened(fails_at_first, state) as session:
        with pytest.raises((ServerError, NotSent)):
            await session.call_tool("pay", idempotency_key=KEY)
        for _ in range(2):
            assert (await session.call_tool("pay", idempotency_key=KEY)).text == "paid 1"
    assert len(server.calls) == 1


async def test_a_result_that_is_returned_is_checked_as_the_call_asks(here: MemoryState) -> None:
    server = Server(UNFIT)
    server.tool["outputSchema"] = {"type": "object", "properties": {"sum": {"type": "integer"}}}
    async with opened(server, here) as session:
        with pytest.raises(InvalidResult) as first:
            await session.call_tool("pay", idempotency_key=KEY)
        assert first.value.result.text == "x"
        warned = await session.call_tool("pay", idempotency_key=KEY, validation="warn")
        assert [one.kind for one in warned.findings] == ["broken_result"]
        unread = await session.call_tool("pay", idempotency_key=KEY, validation="off")
        assert (unread.text, unread.findings) == ("x", ())
    server.tool["outputSchema"] = {"type": "object"}
    async with opened(server, here) as session:  # the schema in force now counts
        assert (await session.call_tool("pay", idempotency_key=KEY)).findings == ()
    server.tool["name"] = "gone"
    async with opened(server, here) as session:
        with pytest.raises(InvalidResult, match="no longer lists the tool") as last:
            await session.call_tool("pay", idempotency_key=KEY)
        assert last.value.result.text == "x"
        warned = await session.call_tool("pay", idempotency_key=KEY, validation="warn")
        assert [one.kind for one in warned.findings] == ["unchecked_result"]
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("response", "kind", "lost"),
    [
        (JsonRpcError(-32603, "it broke", {"at": "x" * 2_000}), ServerError, "data"),
        (JsonRpcError(-32603, "x" * 2_000, {"at": 7}), ServerError, "data"),
        ({"content": "x" * 2_000}, ProtocolViolation, "result"),
    ],
    ids=["data", "message", "response"],
)
async def test_an_error_that_is_too_large_is_stored_in_short(
    response: Any, kind: type[McpError], lost: str, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_client.session.journal.MAX_RESULT_BYTES", 1_000)
    server, errors = Server(response), []
    async with opened(server, state) as session:
        for _ in range(2):
            with pytest.raises(kind) as caught:
                await session.call_tool("pay", idempotency_key=KEY)
            errors.append(caught.value)
    first, second = errors
    assert type(second) is type(first)
    assert first.message.startswith(second.message)
    assert getattr(first, lost) is not None
    assert getattr(second, lost) is None
    assert getattr(first, "code", None) == getattr(second, "code", None)
    assert len(server.calls) == 1


async def test_a_result_that_is_too_large_is_settled_and_not_stored(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_client.session.journal.MAX_RESULT_BYTES", 1_000)
    server = Server(text("x" * 2_000))
    async with opened(server, state) as session:
        first = await session.call_tool("pay", idempotency_key="p/7")
        assert len(first.text) == 2_000
        assert [one.kind for one in first.findings] == ["not_recorded"]
        with pytest.raises(ResultNotStored, match="the call ran, and its result is not") as last:
            await session.call_tool("pay", idempotency_key="p/7", retry=Retry(safe=True))
        kit = anthropic.toolset(await session.list_tools())
        use = {"type": "tool_use", "id": "7", "name": "pay", "input": {}}
        (response,) = await kit.run(session, {"content": [use]}, idempotency_prefix="p")
    assert "The tool ran: do not simply repeat it." in str(response)
    assert (last.value.retryable, last.value.bytes > 2_000) == (False, True)
    assert len(server.calls) == 1
    assert state.calls.unsettled() == ()


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\n"])
async def test_a_result_of_megabytes_is_stored(state: State, letter: str) -> None:
    server = Server(text(letter * (3 * 1024 * 1024)))
    async with opened(server, state) as session:
        first = await session.call_tool("pay", idempotency_key=KEY)
    async with opened(server, state) as session:
        again = await session.call_tool("pay", idempotency_key=KEY)
    assert (first == again, first.findings) == (True, ())
    assert len(server.calls) == 1


DAMAGED: list[Any] = [
    lambda row: {},
    lambda row: {"state": "settled"},
    lambda row: {name: value for name, value in row.items() if name != "outcome"},
    lambda row: {**row, "outcome": 7},
    lambda row: {**row, "outcome": {}},
    lambda row: {**row, "outcome": {"result": [1]}},
    lambda row: {**row, "outcome": {"error": "boom"}},
    lambda row: {**row, "outcome": {"error": {"type": "server", "message": "no"}}},
    lambda row: {**row, "outcome": {"left_out": None}},
    lambda row: {**row, "state": None},
    lambda row: {**row, "state": "lost"},
    lambda row: {"state": "sent", "digest": row["digest"]},
    lambda row: {"state": "sent", "digest": row["digest"], "lease": "x"},
]


@pytest.mark.parametrize("damaged", DAMAGED)
async def test_a_damaged_row_is_a_config_error_and_sends_nothing(
    state: State, damaged: Any
) -> None:
    server = Server()
    async with opened(server, state) as session:
        await session.call_tool("pay", idempotency_key=KEY)
        state.change("calls", KEY, damaged)
        with pytest.raises(ConfigError, match="cannot be used"):
            await session.call_tool("pay", idempotency_key=KEY)
        with pytest.raises((ConfigError, NotPending)):
            state.calls.settle(KEY)
    assert len(server.calls) == 1


def change_rows(directory: Path, value: str, *parameters: Any) -> None:
    """Set the rows of calls of a ``FileState`` to an expression of SQL."""
    with closing(sqlite3.connect(directory / "calls.db")) as db, db:
        sql = f"UPDATE objects SET value = {value} WHERE kind = 'calls'"
        assert db.execute(sql, parameters).rowcount


@pytest.mark.parametrize("damaged", ["", "{", "[]", "null", "7", "[" * 100_000, b"\xff{", 7, 1.5])
async def test_a_row_of_a_file_that_is_not_an_object_is_a_config_error(
    tmp_path: Path, damaged: Any
) -> None:
    server, state = Server(), FileState(tmp_path / "s")
    async with opened(server, state) as session:
        await session.call_tool("pay", idempotency_key=KEY)
        change_rows(tmp_path / "s", "?", damaged)
        with pytest.raises((ConfigError, StateError)):
            await session.call_tool("pay", idempotency_key=KEY)
        for use in (state.calls.unsettled, lambda: state.list("calls")):
            with suppress(ConfigError, StateError):
                use()
    assert len(server.calls) == 1


@pytest.mark.parametrize("number", ["Infinity", "NaN", "-1e400"])
async def test_a_row_of_a_file_with_a_number_that_json_does_not_have_is_a_config_error(
    tmp_path: Path, number: str
) -> None:
    server, state = Server(), FileState(tmp_path / "s")
    async with opened(server, state) as session:
        await session.call_tool("pay", idempotency_key=KEY)
        old, new = '"context": null', f'"context": {number}'
        change_rows(tmp_path / "s", "replace(value, ?, ?)", old, new)
        for _ in range(2):
            with pytest.raises(ConfigError, match="cannot be used"):
                await session.call_tool("pay", idempotency_key=KEY)
    assert len(server.calls) == 1


WRITES = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    made = {"initialize": '{"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},'
                          '"serverInfo": {"name": "s", "version": "1"}}',
            "tools/list": '{"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}',
            "tools/call": sys.argv[1]}.get(asked["method"])
    kind = '"result": ' + made if made else '"error": {"code": -32601, "message": "no"}'
    if made and made.startswith("error"):
        kind = '"error": ' + made[5:]
    if "id" in asked:
        print('{"jsonrpc": "2.0", "id": ' + json.dumps(asked["id"]) + ', ' + kind + '}', flush=True)
"""


@pytest.mark.parametrize(
    ("response", "first", "again"),
    [
        ('{"content": [], "_meta": {"n": 1e999}}', None, ResultNotStored),
        (
            '{"content": [], "structuredContent": {"n": 1e999}}',
            ProtocolViolation,
            ProtocolViolation,
        ),
        ('error{"code": 7, "message": "no", "data": {"n": 1e999}}', ServerError, ServerError),
    ],
)
async def test_a_response_with_a_number_that_cannot_be_written_again_settles_the_call(
    tmp_path: Path, response: str, first: type[McpError] | None, again: type[McpError]
) -> None:
    server = StdioServer(sys.executable, ["-c", WRITES, response])
    async with connect(server, approval=allow_all, state=tmp_path / "s") as session:
        with anyio.fail_after(60):
            with pytest.raises(first) if first is not None else nullcontext():
                result = await session.call_tool("pay", idempotency_key=KEY)
                assert [one.kind for one in result.findings] == ["not_recorded"]
            with pytest.raises(again):
                await session.call_tool("pay", idempotency_key=KEY)


async def test_results_are_stored_for_as_long_as_the_host_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, state in enumerate((MemoryState(keep=60), FileState(tmp_path / "s", keep=60))):
        server, now = Server(), 1_000_000.0
        monkeypatch.setattr("time.time", lambda: now)  # noqa: B023 - the name, not its value
        async with opened(server, state) as session:
            for seconds, runs in ((0, 1), (59, 1), (61, 2), (120, 2)):
                now = 1e6 + seconds
                await session.call_tool("pay", idempotency_key=KEY)
                assert len(server.calls) == runs, number
            await session.call_tool("pay", idempotency_key="another")
            state.calls._swept, now = -1e9, 1e6 + 3_600
            await session.call_tool("pay", idempotency_key="and one more")
        assert set(state.list("calls")) == {"and one more"}, "what has expired is removed"


# ------------------------------------------------------------------ the key is free


async def refuse(session: Session, approver: Approver) -> None:
    approver.decision = Deny("not today")
    with pytest.raises(CallDenied):
        await session.call_tool("pay", {"n": 1}, idempotency_key=KEY)


async def break_arguments(session: Session, approver: Approver) -> None:
    with pytest.raises(InvalidArguments, match="arguments"):
        await session.call_tool("pay", {"n": 1, "x": object()}, idempotency_key=KEY)


async def name_no_tool(session: Session, approver: Approver) -> None:
    with pytest.raises(UnknownTool):
        await session.call_tool("play", {"n": 1}, idempotency_key=KEY)


async def withdraw(session: Session, approver: Approver) -> None:
    approver.decision, token = anyio.Event(), CancelToken()
    async with anyio.create_task_group() as group:

        async def call() -> None:
            with pytest.raises(CallWithdrawn):
                await session.call_tool("pay", {"n": 1}, idempotency_key=KEY, cancel=token)

        group.start_soon(call)
        while not approver.asked:
            await anyio.sleep(0.01)
        token.cancel()


async def cancel(session: Session, approver: Approver) -> None:
    approver.decision = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: session.call_tool("pay", {"n": 1}, idempotency_key=KEY))
        while not approver.asked:
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()


@pytest.mark.parametrize("way", [refuse, break_arguments, name_no_tool, withdraw, cancel])
async def test_where_nothing_was_sent_the_key_is_free(
    way: Callable[..., Any], state: State
) -> None:
    server, approver = Server(), Approver()
    async with opened(server, state, approver) as session:
        await way(session, approver)
        assert state.list("calls") == {}
        assert server.calls == []
        approver.decision = Allow()
        result = await session.call_tool("pay", {"n": 1}, idempotency_key=KEY)
    assert result.text == "paid 1"


async def test_a_ticket_frees_the_key_until_it_is_granted(state: State) -> None:
    server, queue = Server(), ApprovalQueue(decisions=state.decisions, wait=0)
    async with opened(server, state, queue) as session:
        for _ in range(2):
            with pytest.raises(CallPending) as caught:
                await session.call_tool("pay", idempotency_key=KEY)
        queue.decide(caught.value.ticket, Allow(), by="ana")
        for _ in range(2):
            assert (await session.call_tool("pay", idempotency_key=KEY)).text == "paid 1"
    assert queue.pending == ()


async def test_a_response_that_states_that_nothing_was_run_frees_the_key(here: MemoryState) -> None:
    url = {"mode": "url", "message": "m", "url": "https://x.example/", "elicitationId": "1"}
    server = Server(JsonRpcError(-32042, "visit", {"elicitations": [url]}))
    handlers = Handlers(elicitation=lambda request: Decline())
    async with opened(server, here, handlers=handlers, revision="2025-11-25") as session:
        with pytest.raises(UrlElicitationRequired):
            await session.call_tool("pay", idempotency_key=KEY)
        assert (await session.call_tool("pay", idempotency_key=KEY)).text == "paid 2"


# ------------------------------------------------------------------- another call


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": {"n": 2}},
        {"arguments": None},
        {"name": "other"},
        {"context": "ben"},
        {"context": None},
        {"meta": {"com.example/a": 2}},
        {"meta": None},
        {"server": "bank2"},
    ],
    ids=str,
)
async def test_the_same_key_for_another_call_is_refused(
    change: dict[str, Any], here: MemoryState
) -> None:
    def call_of(session: Session, **options: Any) -> Any:
        options = {"arguments": {"n": 1}, "context": "ana", "meta": {"com.example/a": 1}, **options}
        name, arguments = options.pop("name", "pay"), options.pop("arguments")
        return session.call_tool(name, arguments, idempotency_key=KEY, **options)

    server, approver, change = Server(), Approver(), {**change}
    name = change.pop("server", "bank")
    async with opened(server, here, approver) as session:
        await call_of(session)
    async with connect(MemoryServer(server), name=name, state=here, approval=approver) as session:
        if name == "bank":
            await call_of(session)
        with pytest.raises(InvalidArguments, match="was used for another call"):
            await call_of(session, **change)
    assert len(server.calls) == len(approver.asked) == 1


async def test_a_call_that_was_cancelled_before_its_key_was_looked_up_may_follow_another(
    here: MemoryState,
) -> None:
    token = CancelToken()
    token.cancel()
    async with opened(server := Server(), here) as session:
        await session.call_tool("pay", {"n": 1}, idempotency_key=KEY)
        for key in (KEY, None):
            with pytest.raises(CallWithdrawn) as caught:
                await session.call_tool("pay", {"n": 1}, idempotency_key=key, cancel=token)
            assert caught.value.follows is (key is not None)
    assert len(server.calls) == 1


async def test_a_call_that_is_cancelled_while_a_stored_result_is_read_follows_another(
    here: MemoryState,
) -> None:
    server, token, asked = Server(), CancelToken(), anyio.Event()

    async def lists_nothing(message: dict[str, Any]) -> Any:
        if message.get("method") == "tools/list":
            asked.set()
            await anyio.sleep_forever()
        return await server(message)

    async with opened(server, here) as session:
        await session.call_tool("pay", {"n": 1}, idempotency_key=KEY)
    async with opened(lists_nothing, here) as session, anyio.create_task_group() as group:

        async def call() -> None:
            with pytest.raises(CallWithdrawn) as caught:
                await session.call_tool("pay", {"n": 1}, idempotency_key=KEY, cancel=token)
            assert caught.value.follows

        group.start_soon(call)
        await asked.wait()
        token.cancel()
    assert len(server.calls) == 1


def test_an_outcome_is_stored_later_if_its_task_is_cancelled_while_a_thread_writes_it() -> None:
    begun, may_fail, later = threading.Event(), threading.Event(), list[Any]()

    def end(key: str, mark: str, outcome: Any, *, may_have_run: bool) -> None:
        begun.set()
        may_fail.wait(30)
        raise StateError("it cannot be reached")

    def end_later(key: str, mark: str, outcome: Any, *, may_have_run: bool) -> None:
        later.append(outcome)

    async def main() -> None:
        calls: Any = SimpleNamespace(
            storage=SimpleNamespace(waits=True), end=end, end_later=end_later
        )
        task = asyncio.create_task(JournalRow(calls, KEY).end({"result": 1}, may_have_run=True))
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        try:
            with pytest.raises(asyncio.CancelledError):
                await task
        finally:
            may_fail.set()

    asyncio.run(main())
    assert later == [{"result": 1}]


async def test_a_host_that_does_not_look_under_the_key_states_that_an_attempt_may_have_run(
    here: MemoryState,
) -> None:
    server = MemoryServer(bank := Server())
    async with Host({"bank": server}, state=here, approval=allow_all) as host:
        await host.call_tool("bank__pay", {"n": 1}, idempotency_key=KEY)
        for name, key in (("bank__none", KEY), ("bank__none", None), ("other__pay", KEY)):
            with pytest.raises(UnknownTool) as unknown:
                await host.call_tool(name, {"n": 1}, idempotency_key=key)
            assert unknown.value.follows is (key is not None), name
    with pytest.raises(ConnectError, match="closed") as closed:
        await host.call_tool("bank__pay", {"n": 1}, idempotency_key=KEY)
    assert closed.value.follows
    assert len(bank.calls) == 1


async def test_what_is_stored_has_no_argument_in_plain_text(tmp_path: Path) -> None:
    state, server = FileState(tmp_path / "s"), Server("hang")
    async with opened(server, state) as session, anyio.create_task_group() as group:
        call = {"arguments": {"secret": "hunter2"}, "meta": {"com.example/a": "hunter3"}}
        group.start_soon(lambda: session.call_tool("pay", **call, idempotency_key=KEY))
        await server.called.wait()
        group.cancel_scope.cancel()
    (unsettled,) = state.calls.unsettled()
    assert unsettled.key == KEY
    files = [each for each in (tmp_path / "s").iterdir() if each.name.startswith("calls")]
    assert files
    for file in files:
        assert b"hunter" not in file.read_bytes()
        assert file.stat().st_mode & 0o777 == 0o600


# --------------------------------------------------------------------- under way


async def test_of_many_callers_one_sends_and_all_have_the_result(state: State) -> None:
    server, approver, found = Server("hang"), Approver(), list[Any]()
    approver.decision = anyio.Event()

    async def call(session: Session) -> None:
        found.append(await session.call_tool("pay", idempotency_key=KEY))

    async with (
        opened(server, state, approver) as one,
        opened(server, state, approver) as other,
        anyio.create_task_group() as group,
    ):
        for n in range(6):
            group.start_soon(call, (one, other)[n % 2])
        while not approver.asked:
            await anyio.sleep(0.01)
        await anyio.sleep(0.05)
        assert len(approver.asked) == 1, "the others wait while a person is asked"
        approver.decision.set()
        await server.called.wait()
        await anyio.sleep(0.05)
        assert found == []
        assert state.calls.unsettled() == (), "it is under way"
        server.go_on.set()
    assert [one.text for one in found] == ["paid late"] * 6
    assert len(server.calls) == len(approver.asked) == 1


async def test_a_caller_waits_for_another_as_long_as_its_call_may_take(state: State) -> None:
    server = Server("hang")
    async with opened(server, state) as session, anyio.create_task_group() as group:
        group.start_soon(lambda: session.call_tool("pay", idempotency_key=KEY))
        await server.called.wait()
        with pytest.raises(CallTimeout, match="another caller's call") as caught:
            await session.call_tool("pay", idempotency_key=KEY, timeout=0.05)
        assert caught.value.retryable, "with this key nothing is repeated"
        token = CancelToken()
        with anyio.move_on_after(0.05):
            await session.call_tool("pay", idempotency_key=KEY)
        token.cancel()
        with pytest.raises(CallWithdrawn):
            await session.call_tool("pay", idempotency_key=KEY, cancel=token)
        server.go_on.set()
        assert (await session.call_tool("pay", idempotency_key=KEY)).text == "paid late"
    assert len(server.calls) == 1


async def test_while_a_person_decides_the_approval_clock_counts(here: MemoryState) -> None:
    server, approver = Server(), Approver()
    approver.decision = anyio.Event()
    async with opened(server, here, approver) as session, anyio.create_task_group() as group:
        group.start_soon(lambda: session.call_tool("pay", idempotency_key=KEY))
        while not approver.asked:
            await anyio.sleep(0.01)
        clocks = Timeouts(total=30, approval=0.05)
        with pytest.raises(CallTimeout, match=r"within 0\.05 s"):
            await session.call_tool("pay", idempotency_key=KEY, timeout=clocks)
        approver.decision.set()


async def test_a_caller_that_waits_ends_with_its_session(here: MemoryState) -> None:
    server, waiting = Server("hang"), opened(Server(), here)
    async with opened(server, here) as first, anyio.create_task_group() as group:
        group.start_soon(lambda: first.call_tool("pay", idempotency_key=KEY))
        await server.called.wait()
        session = await waiting

        async def wait() -> None:
            with pytest.raises(NotSent, match="the session was closed"):
                await session.call_tool("pay", idempotency_key=KEY)
            server.go_on.set()

        group.start_soon(wait)
        await anyio.sleep(0.05)
        await session.aclose()


# ------------------------------------------------------------------ no one knows


async def lose(session: Session, server: Server) -> None:
    """Make a call whose outcome no one knows."""
    server.called = anyio.Event()
    server.answers = ["hang"]
    async with anyio.create_task_group() as group:
        group.start_soon(again, session)
        await server.called.wait()
        group.cancel_scope.cancel()


async def again(session: Session, **options: Any) -> ToolResult:
    result: ToolResult = await session.call_tool(
        "pay", {"n": 1}, context="ana", idempotency_key=KEY, **options
    )
    return result


async def test_what_was_cancelled_after_it_was_sent_is_unsettled(state: State) -> None:
    server, approver = Server(), Approver()
    async with opened(server, state, approver) as session:
        await lose(session, server)
        (found,) = state.calls.unsettled()
        assert (found.key, found.server, found.tool, found.context) == (KEY, "bank", "pay", "ana")
        assert found.process
        for _ in range(2):
            with pytest.raises(OutcomeUnknown, match="its outcome is not known") as caught:
                await again(session)
            assert not caught.value.retryable
            assert (caught.value.server, caught.value.tool) == ("bank", "pay")
        with pytest.raises(InvalidArguments, match="another call"):
            await session.call_tool("pay", {"n": 2}, idempotency_key=KEY)
        assert len(server.calls) == len(approver.asked) == 1
        assert state.calls.unsettled() == (found,)


async def test_a_timeout_and_a_token_leave_it_unsettled_too(state: State) -> None:
    server, token = Server("hang", "hang"), CancelToken()
    async with opened(server, state) as session:
        with pytest.raises(CallTimeout):
            await session.call_tool("pay", idempotency_key="a", timeout=0.05)
        server.called = anyio.Event()
        async with anyio.create_task_group() as group:

            async def call() -> None:
                with pytest.raises(CallCancelled):
                    await session.call_tool("pay", idempotency_key="b", cancel=token)

            group.start_soon(call)
            await server.called.wait()
            token.cancel()
    assert [one.key for one in state.calls.unsettled()] == ["a", "b"]


@pytest.mark.parametrize("why", ["a trusted hint", "the caller", "the session"])
async def test_what_may_be_repeated_is_sent_again(why: str, state: State) -> None:
    safe = Retry(attempts=1, safe=True)
    server = Server(**({"idempotentHint": True} if why == "a trusted hint" else {}))
    of_session = {"trusted": True} if why == "a trusted hint" else {}
    if why == "the session":
        of_session = {"retry": safe}  # type: ignore[dict-item]
    async with opened(server, state, **of_session) as session:
        await lose(session, server)
        result = await again(session, **({"retry": safe} if why == "the caller" else {}))
        assert result.text == "paid 2"
        assert (await again(session)).text == "paid 2"
        assert state.calls.unsettled() == ()


async def test_a_hint_of_a_server_that_is_not_trusted_permits_nothing(here: MemoryState) -> None:
    server = Server(idempotentHint=True, readOnlyHint=True)
    async with opened(server, here) as session:
        await lose(session, server)
        with pytest.raises(OutcomeUnknown):
            await again(session)


@pytest.mark.parametrize("response", [Deny("no"), "hang"])
async def test_a_repetition_that_leads_to_nothing_leaves_it_unsettled(
    response: Any, state: State
) -> None:
    server, approver = Server(), Approver()
    async with opened(server, state, approver) as session:
        await lose(session, server)
        if response == "hang":
            server.answers = ["hang"]
        else:
            approver.decision = response
        with suppress(McpError):
            await again(session, retry=Retry(attempts=1, safe=True), timeout=0.05)
        assert [one.key for one in state.calls.unsettled()] == [KEY]
        with pytest.raises(OutcomeUnknown):
            await again(session)


# ------------------------------------------------------------------ a person's word


async def test_a_person_settles_a_call_with_a_result(state: State) -> None:
    server = Server()
    async with opened(server, state) as session:
        await lose(session, server)
        state.calls.settle(KEY, text("it was paid"))
        assert (await again(session)).text == "it was paid"
        assert state.calls.unsettled() == ()
        with pytest.raises(NotPending):
            state.calls.settle(KEY)
    assert len(server.calls) == 1


async def test_a_person_settles_a_call_without_a_result(state: State) -> None:
    server = Server(idempotentHint=True)
    async with opened(server, state, trusted=True) as session:
        await lose(session, server)
        state.calls.settle(KEY)
        assert state.calls.unsettled() == ()
        with pytest.raises(OutcomeUnknown, match="a person settled the call") as caught:
            await again(session, retry=Retry(safe=True))
        assert not caught.value.retryable
    assert len(server.calls) == 1
    assert "due" not in state.list("calls")[KEY], "permanently"


async def test_only_what_is_unsettled_can_be_settled(state: State) -> None:
    server = Server("hang")
    with pytest.raises(NotPending) as caught:
        state.calls.settle("never used")
    assert caught.value.ids == ("never used",)
    with pytest.raises(ConfigError, match="give the key of a call"):
        state.calls.settle(5)  # type: ignore[arg-type]
    for odd in ("", "\0", "\ud800"):
        with pytest.raises(NotPending):
            state.calls.settle(odd)
    async with opened(server, state) as session, anyio.create_task_group() as group:
        group.start_soon(lambda: session.call_tool("pay", idempotency_key=KEY))
        await server.called.wait()
        with pytest.raises(NotPending, match="under way"):
            state.calls.settle(KEY, text("x"))
        server.go_on.set()
    assert state.list("calls")[KEY]["outcome"]["result"] == text("paid late")


@pytest.mark.one_backend
@pytest.mark.parametrize("result", [{}, {"content": 7}, {"content": [object()]}, [], "paid"])
async def test_a_person_gives_a_result_that_a_tool_may_give(result: Any, here: MemoryState) -> None:
    server = Server()
    async with opened(server, here) as session:
        await lose(session, server)
        with pytest.raises(ConfigError, match="settle"):
            here.calls.settle(KEY, result)
        assert len(here.calls.unsettled()) == 1
        result = await session.call_tool("other", {})
        here.calls.settle(KEY, result)
        assert (await again(session)).text == result.text


# --------------------------------------------------------------------- tasks, retries


async def test_a_task_is_waited_for_and_its_result_stored(here: MemoryState) -> None:
    server = Tasking(working(), done("at last"))
    async with opened(server, here) as session:
        for _ in range(2):
            result = await session.call_tool("slow", idempotency_key=KEY)
            assert result.text == "at last"
    assert server.methods.count("tools/call") == 1


@pytest.mark.one_backend
async def test_a_task_that_is_returned_takes_no_key(here: MemoryState) -> None:
    async with opened(Tasking(), here) as session:
        with pytest.raises(ConfigError, match="start_tool"):
            await session.start_tool("slow", idempotency_key=KEY)
    assert here.list("calls") == {}


async def test_attempts_of_one_call_are_one_call(here: MemoryState) -> None:
    server = Server("hang", "hang")
    retry, clocks = Retry(attempts=3, backoff=0, safe=True), Timeouts(idle=0.05, total=30)
    async with opened(server, here, retry=retry) as session:
        for _ in range(2):
            result = await session.call_tool("pay", idempotency_key=KEY, timeout=clocks)
            assert result.text == "paid 3"
    assert len(server.calls) == 3


# --------------------------------------------------------------------- wrong options


@pytest.mark.one_backend
@pytest.mark.parametrize("key", ["", "x" * 501, 5, b"x"])
async def test_a_wrong_key_is_reported_at_once(key: Any, here: MemoryState) -> None:
    server = Server()
    async with opened(server, here) as session:
        with pytest.raises(ConfigError, match="idempotency_key"):
            await session.call_tool("pay", idempotency_key=key)
        kit = anthropic.toolset(await session.list_tools())
        with pytest.raises(ConfigError, match="idempotency_prefix"):
            await kit.run(session, {"content": []}, idempotency_prefix=key)
        with pytest.raises(ConfigError, match="idempotency_prefix"):
            await kit.run(session, {"content": []}, idempotency_key="x")
    assert server.calls == []


@pytest.mark.one_backend
async def test_a_key_needs_a_state_and_a_context_that_can_be_stored(tmp_path: Path) -> None:
    server = Server()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with pytest.raises(ConfigError, match="state="):
            await session.call_tool("pay", idempotency_key=KEY)
        kit = anthropic.toolset(await session.list_tools())
        with pytest.raises(ConfigError, match="state="):
            await kit.run(session, {"content": []}, idempotency_prefix="p")
    async with opened(server, tmp_path / "s") as session:
        with pytest.raises(ConfigError, match="a context that other processes can compare"):
            await session.call_tool("pay", idempotency_key=KEY, context=object)
    for keep in (0, -1, "week", float("inf"), True):
        with pytest.raises(ConfigError, match="keep="):
            MemoryState(keep=keep)  # type: ignore[arg-type]
    assert server.calls == []


@pytest.mark.one_backend
async def test_calls_without_a_name_for_themselves_have_their_number(here: MemoryState) -> None:
    calls = [{"type": "tool_use", "id": id, "name": "pay", "input": {}} for id in ("", "x" * 500)]
    async with opened(Server(), here) as session:
        kit = anthropic.toolset(await session.list_tools())
        await kit.run(session, {"content": calls}, idempotency_prefix="p")
    keys = sorted(here.list("calls"))
    assert keys[0] == "p/0"
    assert keys[1].startswith("p/") and len(keys[1]) == 66


# ------------------------------------------------------------------- the state fails


@pytest.mark.parametrize("step", [1, 2, 3], ids=["the claim", "that it is sent", "the result"])
async def test_a_caller_that_goes_while_the_state_is_slow_leaves_no_claim(
    step: int, tmp_path: Path
) -> None:
    class Slow(FileState):
        def change(self, kind: str, key: str, function: Change) -> Object | None:
            if kind == "calls":
                steps.append(key)
                if len(steps) == step:
                    started.set()
                    assert go_on.wait(30)
                    try:
                        return super().change(kind, key, function)
                    finally:
                        ended.set()
            return super().change(kind, key, function)

    steps, started, go_on, ended = list[str](), *(threading.Event() for _ in range(3))
    server, state = Server(), Slow(tmp_path / "s")
    async with opened(server, state) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: session.call_tool("pay", idempotency_key=KEY))
            while not started.is_set():
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
            threading.Timer(0.05, go_on.set).start()
        while not ended.is_set():
            await anyio.sleep(0.01)
        result = await session.call_tool("pay", idempotency_key=KEY, timeout=20)
    assert result.text == "paid 1"
    assert len(server.calls) == 1
    assert state.calls.unsettled() == ()


@pytest.mark.parametrize("number", [2, 3], ids=["once it is made", "at its release"])
async def test_a_claim_made_after_its_caller_has_gone_is_released_once_the_state_is_back(
    number: int, tmp_path: Path
) -> None:
    class Late(FileState):
        def change(self, kind: str, key: str, function: Change) -> Object | None:
            if kind == "callers" and not started.is_set():
                started.set()
                assert go_on.wait(30)
            changed = None
            is_made = kind == "calls" and len(steps) == 1
            if is_made:
                changed = super().change(kind, key, function)
            if kind == "calls":
                steps.append(key)
                if len(steps) == number:
                    raise StateError("the state is away for a moment")
            return changed if is_made else super().change(kind, key, function)

    async def until(is_so: Callable[[], bool]) -> None:
        while not is_so():
            await anyio.sleep(0.01)

    steps, started, go_on = list[str](), threading.Event(), threading.Event()
    server, state = Server(), Late(tmp_path / "s")
    async with opened(server, state, timeouts=Timeouts(approval=10.0)) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: session.call_tool("pay", idempotency_key=KEY))
            await until(started.is_set)
            group.cancel_scope.cancel()
        await until(lambda: len(steps) == 1)  # there is no claim yet to be released
        go_on.set()
        await until(lambda: len(steps) >= 2)  # the claim is made
        with anyio.fail_after(60):
            await until(lambda: state.get("calls", KEY) is None)
        result = await session.call_tool("pay", idempotency_key=KEY)
    assert result.text == "paid 1"
    assert state.calls.unsettled() == ()


class Failing(MemoryState):
    """Fails the changes of calls with these numbers, counted from 1."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self.numbers, self.changed = numbers, 0

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        if kind == "calls":
            self.changed += 1
            if self.changed in self.numbers:
                raise StateError("the database cannot be reached")
        return super().change(kind, key, function)


@pytest.mark.parametrize("number", [1, 2], ids=["the claim", "that it is sent"])
async def test_what_cannot_be_written_down_is_not_sent(number: int) -> None:
    server, state = Server(), Failing(number)
    async with opened(server, state) as session:
        with pytest.raises(StateError, match="cannot be reached") as caught:
            await session.call_tool("pay", idempotency_key=KEY)
        assert caught.value.retryable
        assert server.calls == []
        assert (await session.call_tool("pay", idempotency_key=KEY)).text == "paid 1"
    assert len(server.calls) == 1


async def test_a_result_that_cannot_be_written_down_is_returned_and_written_later() -> None:
    server, state = Server(), Failing(3)
    async with opened(server, state) as session:
        result = await session.call_tool("pay", idempotency_key=KEY)
        assert result.text == "paid 1"
        (finding,) = result.findings
        assert finding.kind == "not_recorded"
        assert "the journal yet: the database cannot be reached" in finding.text
        again = await session.call_tool("pay", idempotency_key=KEY)  # waits until it is written
        assert (again.text, again.findings) == ("paid 1", ())
    assert len(server.calls) == 1
    assert state.calls.unsettled() == ()


async def test_an_unknown_outcome_that_cannot_be_written_down_is_one() -> None:
    server, state = Server("hang"), Failing(3)
    async with opened(server, state) as session:
        with pytest.raises(CallTimeout) as caught:
            await session.call_tool("pay", idempotency_key=KEY, timeout=0.05)
        assert "not in the journal yet" in caught.value.__notes__[0]
        with pytest.raises(OutcomeUnknown):
            await session.call_tool("pay", idempotency_key=KEY)
    assert [one.key for one in state.calls.unsettled()] == [KEY]


# ------------------------------------------------------------------------- the audit


@pytest.mark.one_backend
async def test_a_result_that_is_returned_is_in_the_audit_as_not_sent(here: MemoryState) -> None:
    records: list[dict[str, Any]] = []
    async with opened(Server(), here, audit=records.append) as session:
        for _ in range(2):
            await session.call_tool("pay", {"n": 1}, idempotency_key=KEY)
        with pytest.raises(InvalidArguments):
            await session.call_tool("pay", {"n": 2}, idempotency_key=KEY)
    events = [(each["event"], each.get("outcome"), each.get("delivery")) for each in records]
    assert events == [
        ("opened", None, None),
        ("closed", "ok", "answered"),
        ("opened", None, None),
        ("closed", "ok", "not_sent"),
        ("opened", None, None),
        ("closed", "InvalidArguments", "not_sent"),
    ]
    assert json.dumps(records).count("broken") == 0
