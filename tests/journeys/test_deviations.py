"""Servers that deviate from the specification without doubt about what they mean: accepted, and
reported, over each transport and in both eras."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mcp_client import McpError, allow_all, connect
from tests.server.answering import ERAS, WIRES, Failure, answering

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
    spell, said = SPELLINGS[spelling]
    with anyio.fail_after(60):
        async with (
            answering(wire, era, {}, spell) as server,
            connect(server, approval=allow_all) as session,
        ):
            assert (await session.call_tool("echo", {})).text == "done"
            assert any(said in one for one in session.stats.deviations) or not said
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

    heard: list[Any] = []
    with anyio.fail_after(60):
        async with (
            answering(wire, era, {}, spell) as server,
            connect(server, approval=allow_all) as session,
        ):
            on_progress = lambda *told: heard.append(told)  # noqa: E731
            await session.call_tool("echo", {}, on_progress=on_progress)
            assert heard == [(1, None, None), (2, None, None)]
            reported = [one for one in session.stats.deviations if "progress token" in one]
            assert bool(reported) is (spelled is str)


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
