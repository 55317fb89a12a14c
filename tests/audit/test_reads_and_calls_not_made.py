"""The audit has what was read, and what a model asked for that was never called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_client import (
    AuditLog,
    CallDenied,
    ConfigError,
    Host,
    MemoryServer,
    ServerError,
    allow_all,
    connect,
)
from mcp_client.adapters import openai_chat
from mcp_client.audit import Audit, verify_audit
from mcp_client.errors import UnknownTool
from mcp_client.sync import connect as connect_blocking
from mcp_client.transports.memory import JsonRpcError

SECRET = "Quiet-Zebra-5518"


def serve(message: dict[str, Any]) -> Any:
    match message.get("method"):
        case "initialize":
            return {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                "serverInfo": {"name": "s", "version": "1"},
            }
        case "tools/list":
            return {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            return {"content": []}
        case "resources/read":
            if message["params"]["uri"] == "a:gone":
                raise JsonRpcError(-32002, "not there", {"uri": "a:gone"})
            return {"contents": [{"uri": "a:b", "text": "x"}]}
        case "prompts/get":
            return {"messages": []}
    return NotImplemented


def pairs(records: list[Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The two records of each call or read."""
    opened = {one["call"]: one for one in records if one["event"] == "opened"}
    closed = {one["call"]: one for one in records if one["event"] == "closed"}
    assert len(opened) + len(closed) == len(records)
    return [(one, closed[call]) for call, one in opened.items()]


async def test_reads_of_resources_and_prompts_are_in_the_audit(anyio_backend: str) -> None:
    records: list[Any] = []
    async with connect(MemoryServer(serve), audit=records.append, name="s") as session:
        await session.read_resource("a:b", context="ana")
        with pytest.raises(ServerError):
            await session.read_resource("a:gone", context=("bo", 7))
        await session.get_prompt("p", {"password": SECRET, "city": "Oslo"}, context="ana")
    first, gone, prompt = pairs(records)
    assert [first[0][name] for name in ("server", "tool", "resource", "context")] == [
        *("s", None, "a:b", "ana")
    ]
    assert (first[1]["outcome"], first[1]["delivery"]) == ("ok", "answered")
    assert first[1]["sent_bytes"] > 0 < first[1]["received_bytes"]
    assert gone[0]["context"] == ["bo", 7]
    assert (gone[1]["outcome"], gone[1]["delivery"]) == ("NotFound", "answered")
    assert (prompt[0]["prompt"], prompt[0]["context"]) == ("p", "ana")
    assert prompt[0]["arguments"] == {"password": "[redacted]", "city": "Oslo"}
    assert SECRET not in json.dumps(records)


async def test_a_read_that_cannot_be_recorded_is_refused(anyio_backend: str) -> None:
    asked: list[str] = []

    def server(message: dict[str, Any]) -> Any:
        asked.append(message["method"])
        return serve(message)

    def broken(record: Any) -> None:
        raise OSError("no")

    for failure in ("refuse", "warn"):
        async with connect(MemoryServer(server), audit=Audit(broken, failure=failure)) as session:
            if failure == "refuse":
                with pytest.raises(CallDenied, match="audit"):
                    await session.read_resource("a:b")
                assert "resources/read" not in asked
            else:
                assert (await session.read_resource("a:b")).contents


async def test_a_context_has_to_be_hashable(anyio_backend: str) -> None:
    async with connect(MemoryServer(serve)) as session:
        with pytest.raises(ConfigError, match="context is a list"):
            await session.read_resource("a:b", context=["ana"])  # type: ignore[arg-type]


def response(*calls: tuple[str, str]) -> dict[str, Any]:
    made = [
        {"id": str(number), "type": "function", "function": {"name": name, "arguments": text}}
        for number, (name, text) in enumerate(calls)
    ]
    return {"role": "assistant", "tool_calls": made}


@pytest.mark.parametrize("kind", ["session", "host"])
async def test_what_a_model_asked_for_and_was_not_called_is_in_the_audit_once_each(
    kind: str, anyio_backend: str
) -> None:
    records: list[Any] = []
    options: dict[str, Any] = {"approval": allow_all, "audit": records.append}
    if kind == "session":
        target: Any = connect(MemoryServer(serve), name="s", **options)
    else:
        target = Host({"s": MemoryServer(serve)}, **options)
    async with target as its:
        kit = openai_chat.toolset(await its.list_tools())
        (name,) = kit.names
        reported = response((name, "{}"), ("nothing_like_it", '{"a": 1}'), (name, '{"a": '))
        assert len(await kit.run(its, reported, context="ana")) == 3
    found = {closed["outcome"]: (opened, closed) for opened, closed in pairs(records)}
    assert sorted(found) == ["InvalidArguments", "UnknownTool", "ok"]
    assert {opened["context"] for opened, _ in found.values()} == {"ana"}
    assert found["UnknownTool"][0]["tool"] == "nothing_like_it"
    assert found["UnknownTool"][0]["arguments"] == {"a": 1}
    broken, closed = found["InvalidArguments"]
    assert broken["arguments"] == "[NotAnObject]"
    assert broken["arguments_digest"] is broken["arguments_bytes"] is None
    assert closed["error"] == "the arguments are not a JSON object"
    assert found["InvalidArguments"][0]["tool"] == "t"
    assert found["InvalidArguments"][0]["server"] == "s"
    assert {found[name][1]["delivery"] for name in ("UnknownTool", "InvalidArguments")} == {
        "not_sent"
    }


async def test_arguments_of_a_tool_whose_definition_is_not_known_are_left_out() -> None:
    """Its schema may mark them as secret. A tool that the server does not have has no schema."""

    def lists_nothing(message: dict[str, Any]) -> Any:
        if message.get("method") == "tools/list":
            raise JsonRpcError(-32603, "not now")
        return serve(message)

    records: list[Any] = []
    options: Any = {"audit": records.append, "approval": allow_all}
    async with connect(MemoryServer(lists_nothing), **options) as session:
        with pytest.raises(ServerError):
            await session.call_tool("t", {"iban": SECRET})
    async with connect(MemoryServer(serve), **options) as session:
        with pytest.raises(UnknownTool):
            await session.call_tool("gone", {"iban": "x"})
    (unread, _), (unknown, _) = pairs(records)
    assert SECRET not in json.dumps(records)
    assert (unread["arguments"], unread["redacted"]) == (
        "[left out: the tool's definition is not known]",
        [""],
    )
    assert unread["arguments_digest"].startswith("hmac-")
    assert unknown["arguments"] == {"iban": "x"}


async def test_a_host_passes_on_whose_read_it_is(anyio_backend: str) -> None:
    records: list[Any] = []
    async with Host({"s": MemoryServer(serve)}, audit=records.append) as host:
        await host.read_resource("a:b", server="s", context="ana")
        await host.get_prompt("p", server="s", context="bo")
    assert [opened["context"] for opened, _ in pairs(records)] == ["ana", "bo"]


def test_a_blocking_session_passes_it_on_and_the_log_is_verified(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "calls.jsonl")
    with connect_blocking(MemoryServer(serve), audit=log) as session:
        session.read_resource("a:b", context="ana")
        session.get_prompt("p", context="bo")
    assert verify_audit(log.path).calls == 2
    assert not verify_audit(log.path).open_calls
