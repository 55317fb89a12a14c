"""Traces: a span per call and request and its context for the server, and nothing without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    CallTimeout,
    ConnectError,
    Deny,
    MemoryServer,
    NotSent,
    Retry,
    ServerError,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.errors import InvalidResult
from mcp_client.testing import JsonRpcError

pytestmark = pytest.mark.one_backend

trace = pytest.importorskip("opentelemetry.trace", reason="the extra otel is not installed")
sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the OpenTelemetry SDK is missing")
export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
baggage = pytest.importorskip("opentelemetry.baggage")
context = pytest.importorskip("opentelemetry.context")


class Server:
    """Has a tool that does as its arguments ask, a resource and a prompt; stores its messages."""

    def __init__(self, code: int = -32050) -> None:
        """``code`` is that of its error."""
        self.code = code
        self.messages: list[dict[str, Any]] = []

    def __call__(self, message: dict[str, Any]) -> Any:
        self.messages.append(message)
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                return {"protocolVersion": version, "capabilities": {}, "serverInfo": {}}
            case "tools/list":
                return {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                match message["params"]["arguments"].get("then"):
                    case "error":
                        raise JsonRpcError(self.code, "secret text")
                    case "fail":
                        return {"content": [], "isError": True}
                    case "hang":
                        return None
                return {"content": []}
            case "resources/read":
                return {"contents": []}
            case "prompts/get":
                return {"messages": []}
        return NotImplemented

    def meta(self, method: str) -> dict[str, Any]:
        sent = next(m for m in reversed(self.messages) if m["method"] == method)
        own: dict[str, Any] = sent["params"].get("_meta", {})
        return own


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    exporter = export.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    processor = pytest.importorskip("opentelemetry.sdk.trace.export").SimpleSpanProcessor(exporter)
    provider.add_span_processor(processor)
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def span_of(spans: Any, name: str) -> Any:
    (found,) = [span for span in spans.get_finished_spans() if span.name == name]
    return found


async def test_a_call_is_one_client_span_and_its_context_goes_to_the_server(spans: Any) -> None:
    server = Server()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.call_tool("do", {"password": "hunter2"})
    span = span_of(spans, "tools/call do")
    assert span.kind is trace.SpanKind.CLIENT
    assert span.status.is_unset
    assert span.instrumentation_scope.name == "mcp_client"
    id = next(m["id"] for m in server.messages if m["method"] == "tools/call")
    assert dict(span.attributes) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": session.protocol_version,
        "gen_ai.tool.name": "do",
        "gen_ai.operation.name": "execute_tool",
        "jsonrpc.request.id": str(id),
    }
    ids = span.context
    wanted = f"00-{ids.trace_id:032x}-{ids.span_id:016x}-"
    assert server.meta("tools/call")["traceparent"].startswith(wanted)
    assert "hunter2" not in span.to_json()


@pytest.mark.parametrize(
    ("discover", "kind", "code"),
    [
        (JsonRpcError(-32601, "what is that?"), "-32601", "-32601"),
        (None, "TimeoutError", None),
        ({"supportedVersions": 7}, None, None),
    ],
    ids=["unknown", "silent", "answered"],
)
async def test_the_requests_that_open_a_session_are_spans(
    spans: Any, discover: Any, kind: str | None, code: str | None
) -> None:
    server = Server()

    def respond(message: dict[str, Any]) -> Any:
        if message["method"] != "server/discover":
            return server(message)
        if isinstance(discover, Exception):
            raise discover
        return discover

    with trace.get_tracer("host").start_as_current_span("turn") as turn:
        async with connect(MemoryServer(respond)) as session:
            pass
    probe, opening = span_of(spans, "server/discover"), span_of(spans, "initialize")
    for one in (probe, opening):
        assert one.kind is trace.SpanKind.CLIENT
        assert one.parent.span_id == turn.get_span_context().span_id
    assert probe.attributes["mcp.protocol.version"] == "2026-07-28"
    assert probe.attributes.get("error.type") == kind
    assert probe.attributes.get("rpc.response.status_code") == code
    assert probe.status.is_unset == (kind is None)
    assert opening.status.is_unset
    assert opening.attributes["mcp.protocol.version"] == session.protocol_version


async def test_a_server_that_ends_while_it_is_asked_is_reported_on_the_span(spans: Any) -> None:
    words = [sys.executable, "-c", "input()"]
    with pytest.raises(ConnectError):
        async with connect(words):
            pass
    ended = spans.get_finished_spans()
    assert {span.name for span in ended} == {"server/discover", "initialize"}
    assert {span.attributes["error.type"] for span in ended} == {"ConnectError"}
    assert not any("rpc.response.status_code" in span.attributes for span in ended)


async def test_the_hosts_own_span_and_baggage_are_continued(spans: Any) -> None:
    server = Server()
    tracer = trace.get_tracer("host")
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with tracer.start_as_current_span("turn") as turn:
            token = context.attach(baggage.set_baggage("tenant", "blue"))
            await session.call_tool("do")
            context.detach(token)
    span = span_of(spans, "tools/call do")
    assert span.parent.span_id == turn.get_span_context().span_id
    assert server.meta("tools/call")["baggage"] == "tenant=blue"


async def test_the_callers_own_meta_wins(spans: Any) -> None:
    server = Server()
    own = {"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01", "k": 1}
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.call_tool("do", meta=own)
    sent = server.meta("tools/call")
    assert (sent["traceparent"], sent["k"]) == (own["traceparent"], 1)
    assert "tracestate" not in sent


@pytest.mark.both_backends
@pytest.mark.parametrize(
    ("then", "kind", "code"),
    [("error", "-32050", "-32050"), ("fail", "tool_error", None), ("hang", "CallTimeout", None)],
)
async def test_what_went_wrong_is_in_the_status_and_no_more_of_it(
    spans: Any, then: str, kind: str, code: str | None
) -> None:
    seconds = 0.05 if then == "hang" else 30.0
    async with connect(MemoryServer(Server()), approval=allow_all) as session:
        try:
            result = await session.call_tool("do", {"then": then}, timeout=seconds)
            assert result.is_error
        except (ServerError, CallTimeout, InvalidResult):
            pass
    span = span_of(spans, "tools/call do")
    assert not span.status.is_ok
    assert span.status.description is None
    assert span.attributes["error.type"] == kind
    assert span.attributes.get("rpc.response.status_code") == code
    assert span.events == ()
    assert "secret text" not in span.to_json()


def children_of(spans: Any, parent: Any) -> list[str]:
    return [
        span.name
        for span in spans.get_finished_spans()
        if span.parent is not None and span.parent.span_id == parent.context.span_id
    ]


async def test_approval_and_requests_are_spans_below_the_one_of_the_call(spans: Any) -> None:
    async def approve(call: ToolCall) -> Allow:
        await anyio.lowlevel.checkpoint()
        return Allow()

    async with connect(MemoryServer(Server()), approval=approve) as session:
        await session.list_tools()
        await session.call_tool("do")
    call = span_of(spans, "tools/call do")
    assert children_of(spans, call) == ["approval", "request tools/call"]
    approval = span_of(spans, "approval")
    request = span_of(spans, "request tools/call")
    assert call.start_time <= approval.start_time < approval.end_time <= request.start_time
    assert request.end_time <= call.end_time


@pytest.mark.parametrize(
    ("tool", "outcome", "asked"), [("do", "CallDenied", True), ("unknown", "UnknownTool", False)]
)
async def test_a_call_that_is_not_sent_has_a_span_with_its_outcome(
    spans: Any, tool: str, outcome: str, asked: bool
) -> None:
    async with connect(MemoryServer(Server()), approval=lambda call: Deny("secret")) as session:
        await session.list_tools()
        with pytest.raises(NotSent):
            await session.call_tool(tool)
    call = span_of(spans, f"tools/call {tool}")
    assert call.attributes["error.type"] == outcome
    assert not call.status.is_ok
    assert ("approval" in children_of(spans, call)) is asked
    assert "request tools/call" not in children_of(spans, call)
    assert "secret" not in call.to_json()


@pytest.mark.both_backends
async def test_all_attempts_of_a_call_are_below_one_span(spans: Any) -> None:
    async with connect(MemoryServer(Server()), approval=allow_all) as session:
        await session.list_tools()
        timeouts, retry = Timeouts(idle=0.05), Retry(attempts=2, backoff=0, safe=True)
        with pytest.raises(CallTimeout):
            await session.call_tool("do", {"then": "hang"}, timeout=timeouts, retry=retry)
    call = span_of(spans, "tools/call do")
    assert call.attributes["error.type"] == "CallTimeout"
    assert children_of(spans, call).count("request tools/call") == 2


async def test_reads_and_prompts_are_named_and_no_uri_is_reported(spans: Any) -> None:
    server = Server()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.read_resource("file:///secret?token=1")
        await session.get_prompt("greet", {"who": "Ana"})
    read = span_of(spans, "resources/read")
    prompt = span_of(spans, "prompts/get greet")
    assert "secret" not in read.to_json()
    assert "Ana" not in prompt.to_json()
    assert prompt.attributes["gen_ai.prompt.name"] == "greet"
    assert server.meta("resources/read")["traceparent"]
    assert server.meta("prompts/get")["traceparent"]


@pytest.mark.parametrize(
    "broken", ["opentelemetry.trace.get_tracer", "opentelemetry.propagate.inject"]
)
async def test_a_fault_in_tracing_is_not_the_calls(
    broken: str, spans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **rest: Any) -> None:
        raise RuntimeError("the exporter is broken")

    monkeypatch.setattr(broken, fail)
    server = Server()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        assert not (await session.call_tool("do")).is_error
    assert "traceparent" not in server.meta("tools/call")


async def test_without_a_provider_nothing_is_added() -> None:
    server = Server()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.call_tool("do")
    assert "traceparent" not in server.meta("tools/call")


def test_opentelemetry_is_not_loaded_by_us() -> None:
    code = """
import sys, anyio
from mcp_client import MemoryServer, allow_all, connect

seen = []

def server(message):
    seen.append(message)
    if message["method"] == "tools/list":
        return {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]}
    return {"content": []} if message["method"] == "tools/call" else NotImplemented

async def main():
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.call_tool("do")

anyio.run(main)
print([name for name in sys.modules if name.startswith("opentelemetry")])
print("traceparent" in str(seen))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]
