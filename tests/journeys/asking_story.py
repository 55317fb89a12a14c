"""The journey of a session whose server asks back, notifies and dies, over stdio with our server.

Over stdio, requests and notifications of the server are read by a loop callback, outside any task.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import CallTimeout, Handlers, Session, StdioServer, Timeouts, allow_all, connect
from mcp_client.approval import SamplingRequest
from mcp_client.errors import ConnectionLost, Unanswered
from mcp_client.handlers import (
    Accept,
    Decline,
    ElicitRequest,
    LogMessage,
    Root,
    RootsRequest,
    SamplingResult,
)
from tests.support import asking_stdio

__all__ = ["ERAS", "play"]

ERAS = ("handshake", "stateless")
HERE = Root.of(Path(__file__).parent, "journeys")


class Host:
    """Handlers of each kind, sync and async, that store what they were asked."""

    def __init__(self) -> None:
        self.forms: list[ElicitRequest] = []
        self.lines: list[LogMessage] = []
        self.taken_back = anyio.Event()
        self.reply: Any = Accept({"name": "Ada"})

    async def elicit(self, request: ElicitRequest) -> Any:
        self.forms.append(request)
        if isinstance(self.reply, Exception):
            raise self.reply
        if self.reply is None:
            try:
                await anyio.sleep_forever()
            finally:
                self.taken_back.set()
        return self.reply

    def sample(self, request: SamplingRequest) -> SamplingResult:
        return SamplingResult(f"like {request.messages[0].content[0]}", model="tiny")

    def roots(self, request: RootsRequest) -> list[Root]:
        return [HERE]

    async def log(self, message: LogMessage) -> None:
        self.lines.append(message)

    @property
    def handlers(self) -> Handlers:
        return Handlers(
            elicitation=self.elicit, sampling=self.sample, roots=self.roots, log=self.log
        )


@asynccontextmanager
async def _session(era: str, host: Host) -> AsyncIterator[Session]:
    script = Path(asking_stdio.__file__)
    async with connect(
        StdioServer(sys.executable, ["-IS", str(script), era]),
        name="desk",
        approval=allow_all,
        handlers=host.handlers,
        timeouts=Timeouts(close=2.0),
    ) as session:
        yield session


async def play(era: str) -> None:
    """From the first question to the server's death, and one question more."""
    host = Host()
    async with _session(era, host) as session:
        await _every_kind_of_question_is_answered(session, host)
        await _a_handler_that_fails_costs_its_own_question_only(session, host)
        if era == "handshake":
            await _a_question_is_taken_back(session, host)
            await _a_change_of_the_list_is_received(session)
        await _log_lines_reach_the_handler(session, host)
        await _a_timeout_comes_when_it_should(session)
        await _a_dead_server_is_started_again_and_asks_again(session, host)


async def _reply(session: Session, tool: str, **options: Any) -> Any:
    result = await session.call_tool(tool, timeout=20, **options)
    return json.loads(result.text)


async def _every_kind_of_question_is_answered(session: Session, host: Host) -> None:
    assert await _reply(session, "form") == {"action": "accept", "content": {"name": "Ada"}}
    host.reply = {"action": "decline"}
    assert await _reply(session, "form") == {"action": "decline"}
    host.reply = Accept()
    assert await _reply(session, "url") == {"action": "accept"}
    assert [form.mode for form in host.forms] == ["form", "form", "url"]
    sampled = await _reply(session, "sample")
    assert (sampled["model"], sampled["content"]["text"]) == ("tiny", "like rain")
    assert await _reply(session, "roots") == {"roots": [{"uri": HERE.uri, "name": "journeys"}]}


async def _a_handler_that_fails_costs_its_own_question_only(session: Session, host: Host) -> None:
    host.reply = ValueError("a bug of the host's")
    if session.protocol_version == asking_stdio.HANDSHAKE:
        assert (await _reply(session, "form"))["code"] == -32603
    else:
        with pytest.raises(Unanswered, match="ValueError"):
            await _reply(session, "form")
    host.reply = Decline()
    assert await _reply(session, "form") == {"action": "decline"}


async def _a_question_is_taken_back(session: Session, host: Host) -> None:
    host.reply = None
    assert (await session.call_tool("ask-and-take-back")).text == "never mind"
    with anyio.fail_after(60):
        await host.taken_back.wait()


async def _a_change_of_the_list_is_received(session: Session) -> None:
    await session.list_tools()
    async with session.tool_changes() as changes:
        await session.call_tool("grow")
        with anyio.fail_after(60):
            assert [tool.name for tool in (await anext(changes)).added] == ["grown"]


async def _log_lines_reach_the_handler(session: Session, host: Host) -> None:
    assert (await session.call_tool("chatter")).text == "done"
    with anyio.fail_after(60):
        while len(host.lines) < 2:
            await anyio.sleep(0.01)
    assert [line.level for line in host.lines] == ["info", "error"]


async def _a_timeout_comes_when_it_should(session: Session) -> None:
    steps: list[float] = []
    for seconds in (0.3, 3.0, 30.0):  # on a slow machine it has not begun in the first time
        with pytest.raises(CallTimeout):
            await session.call_tool(
                "slow", timeout=seconds, on_progress=lambda step, *_: steps.append(step)
            )
        if steps:
            break
    assert steps == [1]
    assert "gave up" in (await session.call_tool("last-reason")).text


async def _a_dead_server_is_started_again_and_asks_again(session: Session, host: Host) -> None:
    with pytest.raises(ConnectionLost):
        await session.call_tool("die")
    host.reply = Accept({"name": "Bob"})
    assert (await _reply(session, "form"))["content"] == {"name": "Bob"}
    assert session.generation == 2
