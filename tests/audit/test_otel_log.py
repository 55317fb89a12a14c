"""The audit as log records of OpenTelemetry."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_client import CallDenied, ConfigError, Deny, MemoryServer, allow_all, connect
from mcp_client import sync as mcp_sync
from mcp_client.audit import OpenTelemetryLog

pytestmark = pytest.mark.one_backend

logs = pytest.importorskip("opentelemetry._logs", reason="the extra otel is not installed")
sdk = pytest.importorskip("opentelemetry.sdk._logs", reason="the OpenTelemetry SDK is missing")
export = pytest.importorskip("opentelemetry.sdk._logs.export")
trace = pytest.importorskip("opentelemetry.trace")
tracing = pytest.importorskip("opentelemetry.sdk.trace")


def server(message: dict[str, Any]) -> Any:
    match message["method"]:
        case "tools/list":
            return {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            return {"content": []}
    return NotImplemented


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Gives the log records so far."""
    name = "InMemoryLogRecordExporter"
    exporter = getattr(export, name if hasattr(export, name) else "InMemoryLogExporter")()
    provider = sdk.LoggerProvider()
    provider.add_log_record_processor(export.SimpleLogRecordProcessor(exporter))
    monkeypatch.setattr(logs, "get_logger", provider.get_logger)
    monkeypatch.setattr(trace, "get_tracer", tracing.TracerProvider().get_tracer)
    yield lambda: [one.log_record for one in exporter.get_finished_logs()]
    provider.shutdown()


@pytest.mark.both_backends
async def test_each_record_is_a_log_record_in_the_same_order(emitted: Any) -> None:
    records: list[Any] = []
    places: Any = [records.append, OpenTelemetryLog()]
    async with connect(MemoryServer(server), approval=allow_all, audit=places) as session:
        await session.call_tool("do", {"city": "Oslo", "password": "hunter2"}, context="ana")
        await session.call_tool("do", {"number": 2**80})
    found = emitted()
    assert [json.loads(one.body) for one in found] == records
    assert len(records) == 4
    assert [one.event_name for one in found[:2]] == [
        "mcp_client.audit.opened",
        "mcp_client.audit.closed",
    ]
    assert "hunter2" not in str([one.body for one in found])
    closed = found[1]
    assert closed.severity_text == "INFO"
    assert dict(closed.attributes) == {
        "mcp_client.call": records[0]["call"],
        "mcp_client.server": "memory",
        "gen_ai.tool.name": "do",
        "mcp_client.outcome": "ok",
    }
    assert closed.timestamp % 1_000 == 0
    assert found[0].timestamp <= closed.timestamp
    assert closed.timestamp <= closed.observed_timestamp + 1_000


async def test_the_records_of_a_call_have_its_trace(emitted: Any) -> None:
    async with connect(
        MemoryServer(server), approval=allow_all, audit=OpenTelemetryLog()
    ) as session:
        await session.call_tool("do")
        await session.call_tool("do")
    found = emitted()
    assert all(one.trace_id and one.span_id for one in found)
    assert [one.trace_id == found[0].trace_id for one in found] == [True, True, False, False]


async def test_a_refusal_is_logged(emitted: Any) -> None:
    no = lambda call: Deny("not today")  # noqa: E731
    async with connect(MemoryServer(server), approval=no, audit=OpenTelemetryLog()) as session:
        with pytest.raises(CallDenied):
            await session.call_tool("do")
    record = json.loads(emitted()[1].body)
    assert (record["outcome"], record["decision"]["reason"]) == ("CallDenied", "not today")


async def test_a_fault_stops_no_call_and_is_logged_without_its_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(name: str) -> Any:
        raise RuntimeError("hunter2")

    monkeypatch.setattr(logs, "get_logger", fail)
    async with connect(
        MemoryServer(server), approval=allow_all, audit=OpenTelemetryLog()
    ) as session:
        assert (await session.call_tool("do")).findings == ()
    assert "a record of the audit was not logged: RuntimeError" in caplog.text
    assert "hunter2" not in caplog.text


def test_the_blocking_face_takes_it(emitted: Any) -> None:
    with mcp_sync.connect(
        MemoryServer(server), approval=allow_all, audit=OpenTelemetryLog()
    ) as session:
        session.call_tool("do")
    assert len(emitted()) == 2


def test_without_the_package_the_error_states_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry._logs", None)
    with pytest.raises(ConfigError, match=r"pip install .mcp-client-host\[otel\]"):
        OpenTelemetryLog()


def test_nothing_of_it_is_loaded_by_a_session_with_an_audit() -> None:
    code = """
import sys, anyio
from mcp_client import MemoryServer, allow_all, connect

async def main():
    lists = {"tools/list": {"tools": []}}
    server = MemoryServer(lambda message: lists.get(message["method"], NotImplemented))
    async with connect(server, approval=allow_all, audit=[].append) as session:
        await session.list_tools()

anyio.run(main)
names = "audit.otel_log", "audit.span_content", "connection.telemetry"
print([name for name in names if f"mcp_client.{name}" in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]"]
