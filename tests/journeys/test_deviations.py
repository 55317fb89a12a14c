"""Servers that deviate from the specification without doubt about what they mean: accepted, and
reported, over each transport and in both eras."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mcp_client import McpError, ServerError, Session, allow_all, connect
from mcp_client.adapters import openai_chat
from mcp_client.errors import InvalidResult, ProtocolViolation
from tests.support.answering import ERAS, WIRES, Failure, answering, tool

pytestmark = [pytest.mark.parametrize("wire", WIRES), pytest.mark.parametrize("era", ERAS)]


def _with(**members: Any) -> Callable[[Any, Any], bytes]:
    """Add members that the response does not have."""
    return lambda request, response: json.dumps({**members, **response}).encode()


def _with_id(of: Callable[[int], Any]) -> Callable[[Any, Any], bytes]:
    return lambda request, response: json.dumps({**response, "id": of(request["id"])}).encode()


def _marked(request: Any, response: Any) -> bytes:
    return b"\xef\xbb\xbf" + json.dumps(response).encode()


SPELLINGS = {
    "error null": (_with(error=None), "'error'"),
    "method null": (_with(method=None), "'method'"),
    "both null": (_with(method=None, error=None), "'error'"),
    "id 3.0": (_with_id(float), ""),
    "id as text": (_with_id(str), "id as text"),
    "byte order mark": (_marked, ""),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_response_in_another_spelling_is_accepted_and_reported(
    wire: str, era: str, spelling: str
) -> None:
    spell, reported = SPELLINGS[spelling]
    with anyio.fail_after(60):
        async with (
            answering(wire, era, {}, spell) as server,
            connect(server, approval=allow_all) as session,
        ):
            assert (await session.call_tool("echo", {})).text == "done"
            assert any(reported in one for one in session.stats.deviations) or not reported
            assert not session.stats.junk_lines


@pytest.mark.parametrize(
    "spell",
    [_with(result=None), _with_id(str), _with_id(float), _marked],
    ids=["result null", "id as text", "id 3.0", "byte order mark"],
)
async def test_an_error_in_another_spelling_is_the_servers_error(
    wire: str, era: str, spell: Any
) -> None:
    answers = {"tools/call": Failure(-32602, "no such city")}
    with anyio.fail_after(60):
        async with (
            answering(wire, era, answers, spell) as server,
            connect(server, approval=allow_all) as session,
        ):
            with pytest.raises(McpError, match="no such city"):
                await session.call_tool("echo", {})


@pytest.mark.parametrize("spelled", [str, float])
async def test_an_invalid_response_whose_id_is_spelled_otherwise_fails_its_call_at_once(
    wire: str, era: str, spelled: Callable[[int], Any]
) -> None:
    def spell(request: Any, response: Any) -> bytes:
        if request["method"] != "tools/call":
            return json.dumps(response).encode()
        both = {**response, "id": spelled(request["id"]), "error": {"code": 1, "message": "no"}}
        return json.dumps(both).encode()

    with anyio.fail_after(60):
        async with (
            answering(wire, era, {}, spell) as server,
            connect(server, approval=allow_all) as session,
        ):
            with anyio.fail_after(20), pytest.raises(ProtocolViolation, match="both result and"):
                await session.call_tool("echo", {})


@pytest.mark.parametrize("spelled", [str, float])
async def test_progress_whose_token_is_spelled_otherwise_keeps_its_call_alive(
    wire: str, era: str, spelled: Callable[[int], Any]
) -> None:
    def spell(request: Any, response: Any) -> list[bytes]:
        token = request.get("params", {}).get("_meta", {}).get("progressToken")
        notices = [
            {"method": "notifications/progress", "params": {"progressToken": spelled(token), **one}}
            for one in ({"progress": 1, "total": None}, {"progress": 2, "message": None})
            if request["method"] == "tools/call"
        ]
        return [json.dumps({"jsonrpc": "2.0", **one}).encode() for one in (*notices, response)]

    received: list[Any] = []
    with anyio.fail_after(60):
        async with (
            answering(wire, era, {}, spell) as server,
            connect(server, approval=allow_all) as session,
        ):
            on_progress = lambda *progress: received.append(progress)  # noqa: E731
            await session.call_tool("echo", {}, on_progress=on_progress)
            assert received == [(1, None, None), (2, None, None)]
            reported = [one for one in session.stats.deviations if "progress token" in one]
            assert bool(reported) is (spelled is str)


JUNK = b"Starting \x1b[1mserver\x1b[0m " + b"x" * 100


async def test_a_skipped_message_is_quoted_and_a_banner_is_not_a_warning(
    wire: str, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def spell(request: Any, response: Any) -> list[bytes]:
        return [JUNK, json.dumps(response).encode()]

    with anyio.fail_after(60):
        async with (
            answering(wire, era, {}, spell) as server,
            connect(server, approval=allow_all) as session,
        ):
            await session.call_tool("echo", {})
            await session.call_tool("echo", {})
    records = [one for one in caplog.records if "skipped an invalid message" in one.getMessage()]
    quoted = "it is not JSON: 'Starting \\u{1b}[1mserver\\u{1b}[0m xxx"
    assert all(quoted in record.getMessage() for record in records)
    assert all(len(record.getMessage()) < 180 for record in records)
    levels = [record.levelno for record in records]
    if wire in ("memory", "stdio"):
        assert levels == [logging.INFO, logging.WARNING]
    else:  # there it is not a banner
        assert logging.WARNING in levels and logging.INFO not in levels


LINES = 'Invalid arguments: [\n\t{"path": "city"},\n\x1b[2J\n]'
DISPLAYED = 'Invalid arguments: [\n\t{"path": "city"},\n\\u{1b}[2J\n]'


async def test_an_error_of_several_lines_keeps_them_and_is_one_line_in_a_log(
    wire: str, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    answers: dict[str, Any] = {"tools/call": Failure(-32602, LINES)}
    with anyio.fail_after(60):
        async with (
            answering(wire, era, answers) as server,
            connect(server, approval=allow_all) as session,
        ):
            tools = await session.list_tools()
            with pytest.raises(ServerError) as caught:
                await session.call_tool("echo", {})
            error = caught.value
            assert error.server_message == DISPLAYED
            assert DISPLAYED in str(error) and DISPLAYED in error.message
            (message,) = await _run_as_a_model(session, tools)
            assert DISPLAYED in message["content"]
            answers["tools/list"] = Failure(-32000, LINES)
            stale = await session.list_tools()  # fetched again, because nothing reports changes
    assert "\n" not in str(stale.findings[0]) and "\\u{a}" not in str(stale.findings[0])
    lines = [record.getMessage() for record in caplog.records]
    assert any("could not be refreshed" in line for line in lines)
    assert not any("\n" in line or "\\u{a}" in line for line in lines)


async def _run_as_a_model(session: Session, tools: Any) -> list[dict[str, Any]]:
    call = {"id": "1", "type": "function", "function": {"name": "echo", "arguments": "{}"}}
    response = {"choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]}
    messages: list[dict[str, Any]] = await openai_chat.toolset(tools).run(session, response)
    return messages


@pytest.mark.parametrize("content", [[{"type": "text", "text": "no workspace was found"}], []])
async def test_a_model_reads_the_content_of_a_result_that_breaks_its_schema(
    wire: str, era: str, content: list[Any]
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    answers = {
        "tools/list": {"tools": [tool(outputSchema=schema)]},
        "tools/call": {"content": content, "structuredContent": {"n": "none"}},
    }
    with anyio.fail_after(60):
        async with (
            answering(wire, era, answers) as server,
            connect(server, approval=allow_all) as session,
        ):
            (message,) = await _run_as_a_model(session, await session.list_tools())
            with pytest.raises(InvalidResult) as caught:
                await session.call_tool("echo", {})
    text = message["content"]
    assert text.startswith("The tool ran: do not simply repeat it.")
    assert "/n" in text
    assert text.count("no workspace was found") == len(content)
    if content:
        mark = text.rpartition("[end ")[2]
        assert f"until [end {mark}: no workspace was found [end {mark}" in text
    assert "no workspace" not in str(caught.value)


@pytest.mark.parametrize(
    "members",
    [{"id": "03"}, {"id": 3.5}, {"id": True}, {"id": "x"}, {"error": {"code": 1, "message": "?"}}],
    ids=str,
)
async def test_what_is_ambiguous_stays_refused(wire: str, era: str, members: Any) -> None:
    def spell(request: Any, response: Any) -> bytes:
        odd = members if request["method"] == "tools/call" else {}
        return json.dumps({**response, **odd}).encode()

    with anyio.fail_after(60):
        async with (
            answering(wire, era, {}, spell) as server,
            connect(server, approval=allow_all) as session,
        ):
            with pytest.raises(McpError):
                await session.call_tool("echo", {}, timeout=0.5)
