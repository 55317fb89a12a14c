"""Metrics: how long requests and sessions take, in the words of the semantic conventions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_client import (
    CallDenied,
    CallTimeout,
    Deny,
    HttpServer,
    MemoryServer,
    ServerError,
    allow_all,
    connect,
)
from mcp_client.transports.http import HttpTransport
from tests.connection.test_tracing import Server

pytestmark = pytest.mark.one_backend

metrics = pytest.importorskip("opentelemetry.metrics", reason="the extra otel is not installed")
sdk = pytest.importorskip("opentelemetry.sdk.metrics", reason="the OpenTelemetry SDK is missing")
export = pytest.importorskip("opentelemetry.sdk.metrics.export")

OPERATION, SESSION = "mcp.client.operation.duration", "mcp.client.session.duration"


class Reader:
    """What was measured so far, by the name of the metric."""

    def __init__(self) -> None:
        self.in_memory = export.InMemoryMetricReader()
        self.provider = sdk.MeterProvider([self.in_memory])

    def metrics(self) -> dict[str, Any]:
        data = self.in_memory.get_metrics_data()
        found = data.resource_metrics if data else []
        return {
            metric.name: metric
            for resource in found
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def points(self, name: str) -> list[dict[str, Any]]:
        metric = self.metrics().get(name)
        return [dict(point.attributes) for point in metric.data.data_points] if metric else []

    def calls(self) -> list[dict[str, Any]]:
        points = self.points(OPERATION)
        return [point for point in points if point["mcp.method.name"] == "tools/call"]


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    made = Reader()
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: made.provider)
    yield made
    made.provider.shutdown()


@pytest.mark.both_backends
async def test_each_request_is_measured_in_seconds_with_the_recommended_buckets(
    reader: Reader,
) -> None:
    async with connect(MemoryServer(Server()), approval=allow_all) as session:
        for _ in range(3):
            await session.call_tool("do", {"password": "hunter2"})
        revision = session.protocol_version
    metric = reader.metrics()[OPERATION]
    assert metric.unit == "s"
    (call,) = [one for one in metric.data.data_points if "gen_ai.tool.name" in one.attributes]
    assert dict(call.attributes) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": revision,
        "gen_ai.tool.name": "do",
        "gen_ai.operation.name": "execute_tool",
    }
    assert call.count == 3
    assert 0 < call.sum < 60
    bounds = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
    assert call.explicit_bounds == bounds
    methods = {point["mcp.method.name"] for point in reader.points(OPERATION)}
    assert methods >= {"tools/call", "tools/list"}


@pytest.mark.both_backends
async def test_the_requests_that_open_a_session_are_measured(reader: Reader) -> None:
    async with connect(MemoryServer(Server())) as session:
        revision = session.protocol_version
    probe, opening = reader.points(OPERATION)
    assert opening == {"mcp.method.name": "initialize", "mcp.protocol.version": revision}
    assert (probe["mcp.method.name"], probe["error.type"]) == ("server/discover", "-32601")
    assert probe["rpc.response.status_code"] == "-32601"


@pytest.mark.parametrize(("then", "kind"), [("fail", "tool_error"), ("hang", "CallTimeout")])
async def test_what_went_wrong_is_an_attribute(reader: Reader, then: str, kind: str) -> None:
    seconds = 0.05 if then == "hang" else 30.0
    async with connect(MemoryServer(Server()), approval=allow_all) as session:
        try:
            await session.call_tool("do", {"then": then}, timeout=seconds)
        except CallTimeout:
            pass
    (call,) = reader.calls()
    assert call["error.type"] == kind
    assert "rpc.response.status_code" not in call


@pytest.mark.parametrize(
    ("code", "expected"),
    [(-32050, "-32050"), (-32602, "-32602"), (7, "_OTHER"), (-(2**60), "_OTHER")],
)
async def test_a_server_cannot_make_a_time_series_for_each_code(
    reader: Reader, code: int, expected: str
) -> None:
    async with connect(MemoryServer(Server(code)), approval=allow_all) as session:
        with pytest.raises(ServerError):
            await session.call_tool("do", {"then": "error"})
    (call,) = reader.calls()
    assert (call["error.type"], call["rpc.response.status_code"]) == (expected, expected)


async def test_the_time_that_approval_takes_is_not_measured(reader: Reader) -> None:
    async with connect(MemoryServer(Server()), approval=lambda call: Deny("no")) as session:
        with pytest.raises(CallDenied):
            await session.call_tool("do")
    assert reader.calls() == []


async def test_a_session_is_measured_once_when_it_is_closed(reader: Reader) -> None:
    async with connect(MemoryServer(Server())) as session:
        assert reader.points(SESSION) == []
        revision = session.protocol_version
    await session.aclose()
    (point,) = reader.metrics()[SESSION].data.data_points
    assert dict(point.attributes) == {"mcp.protocol.version": revision}
    assert point.count == 1


async def test_a_session_that_lost_its_server_reports_it(reader: Reader) -> None:
    async with connect(MemoryServer(Server())) as session:
        await session._transport.aclose()
    (point,) = reader.points(SESSION)
    assert point["error.type"] == "ConnectionLost"


async def test_how_the_server_is_reached_is_an_attribute(reader: Reader) -> None:
    command = [sys.executable, "-I", "tests/bench/server.py"]
    async with connect(command, approval=allow_all) as session:
        await session.call_tool("echo", {"text": "x"})
    (call,) = reader.calls()
    assert call["network.transport"] == "pipe"
    assert "server.address" not in call


def test_over_http_it_is_the_host_and_the_port_alone() -> None:
    transport = HttpTransport(HttpServer("https://Docs.example/mcp?token=hunter2"))
    assert transport.network == {
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "server.address": "docs.example",
        "server.port": 443,
    }


async def test_a_name_is_bounded_and_cleaned(reader: Reader) -> None:
    async with connect(MemoryServer(Server())) as session:
        await session.get_prompt("p\x1b" + "x" * 500)
    (name,) = [one["gen_ai.prompt.name"] for one in reader.points(OPERATION) if len(one) == 3]
    assert "\x1b" not in name
    assert len(name) < 200


async def test_a_fault_in_metrics_is_not_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("the exporter is broken")

    monkeypatch.setattr(metrics, "get_meter_provider", fail)
    async with connect(MemoryServer(Server()), approval=allow_all) as session:
        assert not (await session.call_tool("do")).is_error


def test_a_host_that_uses_metrics_alone_is_measured() -> None:
    code = """
import sys, anyio
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from mcp_client import MemoryServer, connect

reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))

async def main():
    lists = {"tools/list": {"tools": []}}
    server = MemoryServer(lambda message: lists.get(message["method"], NotImplemented))
    async with connect(server) as session:
        await session.list_tools()

anyio.run(main)
(found,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
print(*sorted(metric.name for metric in found.metrics))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [OPERATION, SESSION]
