"""Arguments and results on spans: only where they are asked for, and never a secret."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_client import (
    Allow,
    CallDenied,
    ConfigError,
    Deny,
    Host,
    MemoryServer,
    StdioServer,
    allow_all,
    connect,
)
from mcp_client import sync as mcp_sync
from mcp_client.audit import Audit, Redaction

pytestmark = pytest.mark.one_backend

trace = pytest.importorskip("opentelemetry.trace", reason="the extra otel is not installed")
sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the OpenTelemetry SDK is missing")
export = pytest.importorskip("opentelemetry.sdk.trace.export")
in_memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
WITH_CONTENT = Audit(trace_content=True)
KEY = "sk-ant-api03-" + "k3Jq9" * 12


def server(message: dict[str, Any]) -> Any:
    match message["method"]:
        case "tools/list":
            marked = {"colour": {"type": "string", "writeOnly": True}}
            schema = {"type": "object", "properties": marked}
            return {"tools": [{"name": "do", "inputSchema": schema}]}
        case "tools/call":
            text = f"done, {KEY}" + "x" * 10 * message["params"]["arguments"].get("tens", 0)
            return {
                "content": [{"type": "text", "text": text}],
                "structuredContent": {"api_key": KEY},
            }
    return NotImplemented


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    exporter, provider = in_memory.InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def content_of(spans: Any) -> tuple[Any, Any]:
    """The arguments and the result on the span of the one call; None for what is not there."""
    (call,) = [one for one in spans.get_finished_spans() if one.name.startswith("tools/call")]
    texts = (call.attributes.get(name) for name in (ARGUMENTS, RESULT))
    arguments, result = (None if text is None else json.loads(text) for text in texts)
    return arguments, result


async def test_without_the_option_neither_is_there(spans: Any) -> None:
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.call_tool("do", {"city": "Oslo"})
    assert content_of(spans) == (None, None)


async def test_what_is_shown_is_redacted_as_in_the_audit(spans: Any) -> None:
    records: list[Any] = []
    passed = {"city": "Oslo", "colour": "mauve 7731", "password": "hunter2", "note": f"use {KEY}"}
    options: Any = {"audit": Audit(records.append, trace_content=True), "approval": allow_all}
    async with connect(MemoryServer(server), **options) as session:
        await session.call_tool("do", passed)
    arguments, result = content_of(spans)
    assert arguments == records[0]["arguments"]
    assert arguments["city"] == "Oslo"
    assert arguments["colour"] == arguments["password"] == "[redacted]"
    assert "done" in result["content"][0]["text"]
    reported = "".join(span.to_json() for span in spans.get_finished_spans())
    assert not [secret for secret in ("mauve", "hunter2", KEY) if secret in reported]


async def test_a_redaction_of_the_hosts_own_decides_on_arguments(spans: Any) -> None:
    options: Any = {"audit": Audit(redaction=Redaction(keys=["city"]), trace_content=True)}
    async with connect(MemoryServer(server), approval=allow_all, **options) as session:
        await session.call_tool("do", {"city": "Oslo"})
    assert content_of(spans)[0] == {"city": "[redacted]"}


async def test_a_redaction_that_fails_shows_nothing_and_stops_no_call(spans: Any) -> None:
    def fail(value: Any) -> Any:
        raise RuntimeError("hunter2")

    options: Any = {"audit": Audit(redaction=fail, trace_content=True), "approval": allow_all}
    async with connect(MemoryServer(server), **options) as session:
        assert (await session.call_tool("do", {"city": "Oslo"})).text
    assert content_of(spans)[0] == "[unreadable: RuntimeError]"


async def test_what_was_sent_is_shown_where_the_approver_changed_it(spans: Any) -> None:
    edit = lambda call: Allow(arguments={"city": "Bergen"})  # noqa: E731
    async with connect(MemoryServer(server), approval=edit, audit=WITH_CONTENT) as session:
        await session.call_tool("do", {"city": "Oslo"})
    assert content_of(spans)[0] == {"city": "Bergen"}


async def test_a_refused_call_shows_what_was_asked_for(spans: Any) -> None:
    no = lambda call: Deny("no")  # noqa: E731
    async with connect(MemoryServer(server), approval=no, audit=WITH_CONTENT) as session:
        with pytest.raises(CallDenied):
            await session.call_tool("do", {"city": "Oslo"})
    assert content_of(spans) == ({"city": "Oslo"}, None)


async def test_what_is_long_is_cut(spans: Any) -> None:
    long = {"text": "word " * 100_000, "tens": 100_000}
    async with connect(MemoryServer(server), approval=allow_all, audit=WITH_CONTENT) as session:
        await session.call_tool("do", long)
    arguments, result = content_of(spans)
    assert str(arguments).startswith("[left out: ")
    assert len(json.dumps(result)) < 100_000


async def test_the_secrets_of_the_session_are_hidden_in_results(spans: Any) -> None:
    """The server returns what its environment contains."""
    code = (
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if 'id' not in asked: continue\n"
        "    text = {'content': [{'type': 'text', 'text': os.environ['TOKEN']}]}\n"
        "    tools = {'tools': [{'name': 'do', 'inputSchema': {'type': 'object'}}]}\n"
        "    first = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}},\n"
        "             'serverInfo': {'name': 's', 'version': '1'}}\n"
        "    known = {'tools/call': text, 'tools/list': tools, 'initialize': first}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'],\n"
        "                      'result': known.get(asked['method'], {})}), flush=True)\n"
    )
    started = StdioServer(sys.executable, ["-c", code], env={"TOKEN": "rather-plain-word"})
    options: Any = {
        "approval": allow_all,
        "audit": WITH_CONTENT,
        "revision": "2025-06-18",
    }
    async with connect(started, **options) as session:
        assert (await session.call_tool("do")).text == "rather-plain-word"
    assert content_of(spans)[1]["content"][0]["text"] == "***"


async def test_a_host_and_the_blocking_face_have_the_option(spans: Any) -> None:
    async with Host({"s": MemoryServer(server)}, approval=allow_all, audit=WITH_CONTENT) as host:
        await host.call_tool("s__do", {"city": "Oslo"})
    assert content_of(spans)[0] == {"city": "Oslo"}


def test_the_blocking_face_has_it_too(spans: Any) -> None:
    options: Any = {"approval": allow_all, "audit": WITH_CONTENT}
    with mcp_sync.connect(MemoryServer(server), **options) as session:
        session.call_tool("do", {"city": "Oslo"})
    assert content_of(spans)[0] == {"city": "Oslo"}


@pytest.mark.parametrize("wrong", ["yes", 1, None])
def test_a_wrong_value_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"trace_content=.*: give True or False"):
        Audit(trace_content=wrong)
