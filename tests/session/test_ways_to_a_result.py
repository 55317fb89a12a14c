"""Every way to a result leads to the same one: what its options ask for does not depend on the way.

The ways are compared with a plain ``call_tool``, for each option that acts on results. What differs
is in a table with the reason: ``NOT_MADE``, ``LEFT_OUT_OF_RECORDS``, ``WITHOUT_LIMITS``, ``SPANS``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    ConnectError,
    Host,
    McpError,
    MemoryServer,
    Retry,
    ToolResult,
    allow_all,
    connect,
    sync,
)
from mcp_client.adapters import anthropic
from mcp_client.adapters.calls import explain
from mcp_client.approval.script import Script
from mcp_client.audit import Audit
from mcp_client.code.bindings import Bindings
from mcp_client.code.run import ScriptResult, run_script
from mcp_client.connection import Limits
from mcp_client.errors import InvalidResult, ServerError
from mcp_client.runtime.session_context import KnownSecrets
from mcp_client.testing import JsonRpcError, Recording, ReplayServer
from mcp_client.transports.memory import MemoryTransport
from tests.support.tasking import Tasking

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PRIVATE, SECRET = "DE-private-7731", "hunter2-of-the-server"
ARGUMENTS = {"iban": PRIVATE}
INPUT = {"type": "object", "properties": {"iban": {"type": "string", "writeOnly": True}}}
TOOL = {"name": "t", "inputSchema": INPUT, "outputSchema": NUMBER}
TEXT = [{"type": "text", "text": f"kept with {SECRET}"}]

RESULTS: dict[str, Any] = {
    "as promised": {"structuredContent": {"n": 7}},
    "breaks its schema": {"structuredContent": {"n": "seven"}},
    "lacks what is promised": {},
    "an error of the tool": {"isError": True},
    "an error of the tool with a part": {"isError": True, "structuredContent": {"n": "seven"}},
    "an error of the server": JsonRpcError(-32050, f"no, {SECRET}"),
}


class Server:
    """A tool ``t`` with one result, which it gives ``times`` times."""

    def __init__(self, result: Any, times: int = 1) -> None:
        self.result = result
        self.times = times

    def __call__(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                return {"tools": [TOOL]}
            case "tools/call":
                self.times -= 1
                if self.times < 0:
                    raise JsonRpcError(-32000, "it was called again")
                if isinstance(self.result, JsonRpcError):
                    raise self.result
                return {"content": TEXT, **self.result}
        return NotImplemented


class Busy(MemoryTransport):
    """Takes no call the first time."""

    is_busy = True

    async def exchange(self, id: Any, text: str, *rest: Any) -> Any:
        if self.is_busy and '"tools/call"' in text:
            self.is_busy = False
            raise ConnectError("the server is busy", retryable=True)
        return await super().exchange(id, text, *rest)


def tasking(result: Any) -> Any:
    """The same tool at a server that makes a task of each call."""
    if isinstance(result, JsonRpcError):
        error = {"code": result.code, "message": result.message}
        server = Tasking({"status": "failed", "error": error})
    else:
        server = Tasking({"status": "completed", "result": {"content": TEXT, **result}})
    server.tool = TOOL
    return MemoryServer(server)


Options = dict[str, Any]


def whose(of_call: Options) -> Options:
    """The host's own words on a call."""
    return {name: value for name, value in of_call.items() if name in ("context", "tag")}


Way = Callable[[Any, Options, Options, Path], Awaitable[ToolResult]]
"""From a result, the options of the session and of the call, and a directory."""


async def plain(result: Any, of_all: Options, of_call: Options, _: Path) -> ToolResult:
    async with connect(MemoryServer(Server(result)), approval=allow_all, **of_all) as session:
        return await session.call_tool("t", ARGUMENTS, **of_call)


async def with_a_key(result: Any, of_all: Options, of_call: Options, place: Path) -> ToolResult:
    options: Any = {"approval": allow_all, "state": place / "state", **of_all}
    async with connect(MemoryServer(Server(result)), **options) as session:
        return await session.call_tool("t", ARGUMENTS, idempotency_key="k", **of_call)


async def with_a_key_once_more(
    result: Any, of_all: Options, of_call: Options, place: Path
) -> ToolResult:
    """In another session; the first one did not look at the result."""
    options: Any = {"approval": allow_all, "state": place / "state"}
    server = Server(result)
    async with connect(MemoryServer(server), validation="off", **options) as session:
        with suppress(ServerError):
            await session.call_tool("t", ARGUMENTS, idempotency_key="k", **whose(of_call))
    async with connect(MemoryServer(server), **options, **of_all) as session:
        return await session.call_tool("t", ARGUMENTS, idempotency_key="k", **of_call)


async def waited_for(result: Any, of_all: Options, of_call: Options, _: Path) -> ToolResult:
    """As a task that ``call_tool`` waits for."""
    async with connect(tasking(result), approval=allow_all, **of_all) as session:
        return await session.call_tool("t", ARGUMENTS, **of_call)


async def started(result: Any, of_all: Options, of_call: Options, _: Path) -> ToolResult:
    async with connect(tasking(result), approval=allow_all, **of_all) as session:
        return await (await session.start_tool("t", ARGUMENTS, **of_call)).result()


async def resumed(result: Any, of_all: Options, of_call: Options, place: Path) -> ToolResult:
    """In another session, which takes no options of a call: they are the session's there."""
    server, options = tasking(result), dict[str, Any](approval=allow_all, state=place / "state")
    async with connect(server, **options) as session:
        saved = (await session.start_tool("t", ARGUMENTS, **whose(of_call))).to_json()
    later = {name: value for name, value in of_call.items() if name not in whose(of_call)}
    async with connect(server, **{**options, **of_all, **later}) as session:
        return await session.resume_task(json.dumps(saved)).result()


async def attempted_again(result: Any, of_all: Options, of_call: Options, _: Path) -> ToolResult:
    options: Any = {"approval": allow_all, "retry": Retry(backoff=0), **of_all}
    async with connect(Busy(Server(result)), **options) as session:
        return await session.call_tool("t", ARGUMENTS, **of_call)


async def replayed(result: Any, of_all: Options, of_call: Options, place: Path) -> ToolResult:
    file = place / "session.jsonl"
    server = Recording(MemoryServer(Server(result)), file)
    async with connect(server, approval=allow_all, validation="off") as session:
        with suppress(ServerError):
            await session.call_tool("t", ARGUMENTS)
    options: Any = {"name": "memory", "approval": allow_all, **of_all}
    async with connect(ReplayServer(file), **options) as session:
        return await session.call_tool("t", ARGUMENTS, **of_call)


async def by_a_script(result: Any, of_all: Options, of_call: Options, _: Path) -> ToolResult:
    async with connect(MemoryServer(Server(result)), approval=allow_all, **of_all) as session:
        options: Any = of_call
        return await session._call_as_code("t", ARGUMENTS, options, Script("run", "t()"))


async def by_a_host(result: Any, of_all: Options, of_call: Options, _: Path) -> ToolResult:
    servers = {"memory": MemoryServer(Server(result))}
    async with Host(servers, approval=allow_all, **of_all) as host:
        return await host.call_tool("memory__t", ARGUMENTS, **of_call)


async def without_an_event_loop(
    result: Any, of_all: Options, of_call: Options, _: Path
) -> ToolResult:
    def call() -> ToolResult:
        server = MemoryServer(Server(result))
        with sync.connect(server, approval=allow_all, **of_all) as session:
            return session.call_tool("t", ARGUMENTS, **of_call)

    return await anyio.to_thread.run_sync(call)


WAYS: list[Way] = [
    *(with_a_key, with_a_key_once_more, waited_for, started, resumed),
    *(attempted_again, replayed, by_a_script, by_a_host, without_an_event_loop),
]


def fail_at_the_end(record: Any) -> None:
    """An audit that takes no closed record."""
    if record["event"] == "closed":
        raise OSError("no room")


OPTIONS: dict[str, tuple[Options, Options]] = {
    "by default": ({}, {}),
    "strict": ({"validation": "strict"}, {}),
    "warn": ({"validation": "warn"}, {}),
    "off": ({"validation": "off"}, {}),
    "warn for this call": ({}, {"validation": "warn"}),
    "strict for this call": ({"validation": "off"}, {"validation": "strict"}),
    "an audit that fails": ({"audit": fail_at_the_end, "validation": "warn"}, {}),
}
NOT_MADE = {
    (attempted_again, "an audit that fails"): "no call is made while the record of one is missing"
}
ids: Any = {"ids": lambda value: getattr(value, "__name__", None)}


KNOWN = [SECRET]


@pytest.fixture(autouse=True)
def _sessions_have_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every server had been given ``SECRET``."""
    made = KnownSecrets.__init__

    def knowing(self: KnownSecrets, *mark: str) -> None:
        made(self, *mark)
        self.add(KNOWN)

    monkeypatch.setattr(KnownSecrets, "__init__", knowing)


async def outcome(way: Way, result: Any, options: tuple[Options, Options], place: Path) -> str:
    """What a caller sees of a result: its parts, its findings, or the error that has it."""
    place.mkdir(parents=True, exist_ok=True)
    try:
        found = await way(result, *options, place)
    except InvalidResult as error:
        inside = error.result
        parts: Any = (error.path, inside.text, inside.structured_content, error.retryable)
        return f"InvalidResult {parts}"
    except McpError as error:
        reported = str(error).replace(" (2 attempts)", "")
        return f"{type(error).__name__} {reported} {error.tool} {error.retryable}"
    kinds = [one.kind for one in found.findings]
    return str((found.text, found.structured_content, found.is_error, kinds))


def as_recorded(reported: str) -> str:
    """The outcome without what a ``Recording`` leaves out."""
    return reported.replace("***", "[redacted]").replace(SECRET, "[redacted]")


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("way", WAYS, **ids)
async def test_a_result_is_the_same_on_every_way(way: Way, option: str, tmp_path: Path) -> None:
    options = OPTIONS[option]
    for name, result in RESULTS.items():
        expected = await outcome(plain, result, options, tmp_path / name)
        if "error of" in name:
            assert "***" in expected
            assert SECRET not in expected
        found = await outcome(way, result, options, tmp_path / name)
        if (way, option) in NOT_MADE:
            expected = found
            assert "CallDenied memory/t: refused: the audit record cannot be opened" in found
        assert found == (as_recorded(expected) if way is replayed else expected), name


async def test_a_stored_error_hides_what_the_session_that_reads_it_keeps_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = Server(RESULTS["an error of the server"])
    for known in ([], [SECRET]):
        monkeypatch.setitem(globals(), "KNOWN", known)
        options: Any = {"approval": allow_all, "state": tmp_path / "state"}
        async with connect(MemoryServer(server), **options) as session:
            with pytest.raises(ServerError) as caught:
                await session.call_tool("t", ARGUMENTS, idempotency_key="k")
        assert (SECRET in f"{caught.value}{vars(caught.value)}") is (not known)


OPENED = ("tool", "arguments", "redacted", "arguments_digest", "fingerprint", "trusted", "findings")
CLOSED = ("tool", "outcome", "error", "delivery", "decision", "context", "tag")
LEFT_OUT_OF_RECORDS: dict[Way, tuple[str, ...]] = {
    # The result is stored: nothing is sent, and no one is asked.
    with_a_key_once_more: ("delivery", "decision"),
    # The session that started the task has opened the record, and its record has the decision.
    resumed: ("decision", *OPENED[1:]),
    # The approval is that of the first attempt.
    attempted_again: ("decision",),
}


@pytest.mark.parametrize("way", WAYS, **ids)
async def test_the_audit_states_the_same_of_a_result_on_every_way(way: Way, tmp_path: Path) -> None:
    async def recorded(way: Way, result: Any, place: Path) -> dict[str, Any]:
        records: list[dict[str, Any]] = []
        of_call = {"context": "ana", "tag": {"turn": [1, "a"]}}
        await outcome(way, result, ({"audit": records.append}, of_call), place)
        assert PRIVATE not in json.dumps(records)
        assert SECRET not in json.dumps(records)
        events = {record["event"]: record for record in records}
        opened, closed = events.get("opened", {}), events["closed"]
        assert closed["context"] == "ana"
        if opened:
            assert (opened["context"], opened["tag"]) == (closed["context"], closed["tag"])
        found = {name: opened.get(name) for name in OPENED}
        return found | {name: closed.get(name) for name in CLOSED}

    for name, result in RESULTS.items():
        expected = await recorded(plain, result, tmp_path / name / "plain")
        found = await recorded(way, result, tmp_path / name / "way")
        for member in LEFT_OUT_OF_RECORDS.get(way, ()):
            del found[member], expected[member]
        if way is replayed:
            expected = json.loads(as_recorded(json.dumps(expected)))
        assert found == expected, name


WITHOUT_LIMITS = {
    with_a_key_once_more: "a stored result has passed the limits of the session that received it"
}


@pytest.mark.parametrize("way", WAYS, **ids)
async def test_the_limits_of_a_result_hold_on_every_way(way: Way, tmp_path: Path) -> None:
    deep: Any = 7
    for _ in range(40):
        deep = [deep]
    result = {"structuredContent": {"n": 7, "deep": deep}}
    options: tuple[Options, Options] = ({"limits": Limits(depth=30)}, {})
    expected = await outcome(plain, result, options, tmp_path)
    assert "nested deeper than 30 levels" in expected
    found = await outcome(way, result, options, tmp_path)
    assert (found == expected) is (way not in WITHOUT_LIMITS)


RESPONSE = {"content": [{"type": "tool_use", "id": "7", "name": "t", "input": ARGUMENTS}]}


@pytest.mark.parametrize("max_chars", [100_000, 300], ids=["whole", "cut"])
@pytest.mark.parametrize("option", [one for one in OPTIONS if "fails" not in one])
async def test_a_kit_answers_with_what_a_plain_call_leads_to(
    option: str, max_chars: int, tmp_path: Path
) -> None:
    of_all, of_call = OPTIONS[option]
    options: Any = {"approval": allow_all, **of_all}
    long = {"content": [{"type": "text", "text": "long " * 200}], "structuredContent": {"n": "x"}}
    for name, result in {**RESULTS, "long": long}.items():
        server, state = Server(result, 9), tmp_path / name
        shaped: Any = {"max_chars": max_chars, **of_call}
        async with connect(MemoryServer(server), state=state, **options) as session:
            kit = anthropic.toolset(await session.list_tools())
            (call,) = kit.calls(RESPONSE)
            made: Any
            try:
                made = await session.call_tool(call.name, call.arguments, **of_call)
            except McpError as error:
                made = error
            expected = without_handles(kit.results([(call, made)], max_chars=max_chars))
            assert SECRET not in expected or "error of" not in name
            found = [await kit.run(session, RESPONSE, **shaped)]
            prefixed = {"idempotency_prefix": "p", **shaped}
            found += [await kit.run(session, RESPONSE, **prefixed) for _ in range(2)]
        async with Host({"memory": MemoryServer(server)}, **options) as host:
            of_host = anthropic.toolset(await host.list_tools())
            response = json.loads(
                json.dumps(RESPONSE).replace('"t"', f'"{next(iter(of_host.names))}"')
            )
            found.append(await of_host.run(host, response, **shaped))
        assert [without_handles(one) for one in found] == [expected] * 4, name
        assert server.times == 9 - 4


def without_handles(messages: Any) -> str:
    """The messages without the handles of results that were too long, each another one."""
    return re.sub("[0-9a-f]{24}", "", json.dumps(messages))


CODE = f"""\
try:
    print(await memory.t(iban={PRIVATE!r}))
except ToolFailed:
    print("ToolFailed")
except CallFailed:
    print("CallFailed")
"""


@pytest.mark.parametrize("option", OPTIONS)
async def test_a_script_gets_what_a_plain_call_leads_to(option: str, tmp_path: Path) -> None:
    """Its value, or an exception: a script does not receive findings."""
    pytest.importorskip("pydantic_monty")
    of_all, of_call = OPTIONS[option]
    for name, result in RESULTS.items():
        expected = await outcome(plain, result, (of_all, of_call), tmp_path / name)
        records: list[dict[str, Any]] = []
        options: Any = {"approval": allow_all, "audit": records.append, **of_all}
        async with connect(MemoryServer(Server(result)), **options) as session:
            tools, about = Bindings(await session.list_tools()), {"context": "ana", "tag": {"n": 7}}
            passed: Any = {**about, **of_call}
            found = await run_script(session, tools, CODE, options=passed, explain=explain)
        assert isinstance(found, ScriptResult)
        failed = "InvalidResult", "ServerError"
        kind = "CallFailed" if expected.startswith(failed) else "ToolFailed"
        value = str(result["structuredContent"]) if "structured" in str(result) else TEXT[0]["text"]
        is_value = expected.startswith("(") and "True, [" not in expected
        assert found.output.rstrip() == (value if is_value else kind), name
        assert {json.dumps([one["context"], one["tag"]]) for one in records} <= {
            '["ana", {"n": 7}]'
        }
        assert len(records) == (0 if "fails" in option else 4)


SHOWN = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "error.type"
SPANS: dict[Way, Any] = {
    # No call is made.
    with_a_key_once_more: lambda plain: [],
    # The session that started the task had the span.
    resumed: lambda plain: [],
    # The span ends when the task is returned, before there is a result.
    started: lambda plain: [(plain[0][0], None, None)],
}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    trace = pytest.importorskip("opentelemetry.trace", reason="the extra otel is not installed")
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the SDK is missing")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter, provider = memory.InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


@pytest.mark.parametrize("way", WAYS, **ids)
async def test_the_span_of_a_call_shows_the_same_on_every_way(
    way: Way, spans: Any, tmp_path: Path
) -> None:
    async def displayed(way: Way, result: Any, place: Path) -> list[Any]:
        spans.clear()
        await outcome(way, result, ({"audit": Audit(trace_content=True)}, {}), place)
        calls = [one for one in spans.get_finished_spans() if one.name.startswith("tools/call")]
        assert PRIVATE not in "".join(one.to_json() for one in calls)
        found = [tuple(one.attributes.get(name) for name in SHOWN) for one in calls]
        return [one for one in found if one[0] is not None]

    for name, result in RESULTS.items():
        expected = await displayed(plain, result, tmp_path / name)
        assert len(expected) == 1
        found = await displayed(way, result, tmp_path / name)
        expected = SPANS.get(way, lambda plain: plain)(expected)
        level = as_recorded if way is replayed else str
        assert level(str(found)) == level(str(expected)), name
