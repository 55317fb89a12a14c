"""Real servers ask back: forms, models, roots, URLs, log lines, over each transport and era."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import CancelToken, Handlers, Session, allow_all, connect
from mcp_client.approval import SamplingRequest
from mcp_client.errors import CallCancelled, UrlElicitationRequired
from mcp_client.handlers import Accept, Decline, ElicitRequest, LogMessage, Root, SamplingResult
from tests.interop import http_peers, peers
from tests.journeys.story import BRISK

pytestmark = pytest.mark.interop

HERE = Root.of(Path(__file__).parent, "journeys")


class Answers:
    """Handlers that store what they were asked."""

    def __init__(self) -> None:
        self.forms: list[ElicitRequest] = []
        self.samples: list[SamplingRequest] = []
        self.lines: list[LogMessage] = []
        self.reply: Any = Accept({"name": "Ada"})
        self.handlers = Handlers(
            elicitation=self.elicit,
            sampling=self.sample,
            roots=[HERE],
            log=self.lines.append,
            log_level="info",
        )

    async def elicit(self, request: ElicitRequest) -> Any:
        self.forms.append(request)
        return self.reply

    def sample(self, request: SamplingRequest) -> SamplingResult:
        self.samples.append(request)
        return SamplingResult(f"as {request.system_prompt}", model="tiny")


@asynccontextmanager
async def _session(start: str, pin: str, answers: Answers) -> AsyncIterator[Session]:
    options: dict[str, Any] = {
        "name": "desk",
        "approval": allow_all,
        "handlers": answers.handlers,
        "revision": pin,
        "timeouts": BRISK,
    }
    if start == "stdio":
        async with connect(peers.asking(), **options) as session:
            yield session
    else:
        async with http_peers.asking(start) as url, connect(url, **options) as session:
            yield session


ASKED = [
    ("stdio", "auto", "2026-07-28"),
    ("stdio", "2025-11-25", "2025-11-25"),
    ("streamable-http", "auto", "2026-07-28"),
    ("streamable-http", "2025-11-25", "2025-11-25"),
    ("sse", "2025-06-18", "2025-06-18"),
]
"""How the server is started, which revision is asked for, and which one is agreed on."""


@pytest.mark.parametrize(("start", "pin", "revision"), ASKED)
async def test_handlers_answer_the_official_server(start: str, pin: str, revision: str) -> None:
    answers = Answers()
    async with _session(start, pin, answers) as session:
        assert session.protocol_version == revision
        ordered = await session.call_tool("order")
        assert ordered.text == "2 small for Ada, milk False"
        (form,) = answers.forms
        assert (form.server, form.message) == ("desk", "What may it be?")
        assert {f.name: f.kind for f in form.fields} == {
            "size": "choice",
            "cups": "integer",
            "name": "string",
            "milk": "boolean",
        }
        answers.reply = Decline()
        assert (await session.call_tool("order")).text == "decline"
        answers.reply = Accept({"name": "Bob", "cups": 9})
        assert (await session.call_tool("both")).text == "Bob at 1 roots"
        response = await session.call_tool("summary", {"subject": "rain"})
        assert response.text == "tiny: as Be brief."
        assert [str(m.content[0]) for m in answers.samples[0].messages] == ["rain"]
        assert (await session.call_tool("where")).text == HERE.uri
        await _logs(session, answers)


async def _logs(session: Session, answers: Answers) -> None:
    assert (await session.call_tool("chatter")).text == "done"
    while len(answers.lines) < 3:
        await anyio.sleep(0.01)
    assert [(line.server, line.level, line.logger) for line in answers.lines] == [
        ("desk", level, "chat") for level in ("info", "warning", "error")
    ]
    assert answers.lines[0].data == {"said": "info"}
    await session.set_log_level("error")
    await session.call_tool("chatter")
    while len(answers.lines) < 4:
        await anyio.sleep(0.01)
    assert [line.level for line in answers.lines[3:]] == ["error"]


@pytest.mark.parametrize(
    ("transport", "pin"),
    [
        ("stdio", "auto"),
        ("streamable-http", "auto"),
        ("streamable-http", "2025-11-25"),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_official_server_stops_a_cancelled_call(
    transport: str, pin: str, anyio_backend: str
) -> None:
    options: dict[str, Any] = {"approval": allow_all, "revision": pin, "timeouts": BRISK}
    if transport == "stdio":
        async with connect(peers.official("2.3.0"), **options) as session:
            await _cancels_a_call(session)
    else:
        async with (
            http_peers.official("2.3.0", transport) as url,
            connect(url, **options) as session,
        ):
            await _cancels_a_call(session)


async def _cancels_a_call(session: Session) -> None:
    under_way, token = anyio.Event(), CancelToken()
    steps = {"seconds": 60, "steps": 600}
    async with anyio.create_task_group() as tasks:

        async def make() -> None:
            with pytest.raises(CallCancelled, match="lunch"):
                await session.call_tool(
                    "slow", steps, on_progress=lambda *_: under_way.set(), cancel=token
                )

        tasks.start_soon(make)
        await under_way.wait()
        token.cancel("lunch")
    assert (await session.call_tool("was_cancelled", timeout=20)).text == "yes"


@asynccontextmanager
async def _everything(transport: str, answers: Answers) -> AsyncIterator[Session]:
    options: dict[str, Any] = {
        "name": "desk",
        "approval": allow_all,
        "handlers": answers.handlers,
        "timeouts": BRISK,
    }
    if transport == "stdio":
        async with connect(peers.everything(), **options) as session:
            yield session
    else:
        async with http_peers.everything(transport) as url, connect(url, **options) as session:
            yield session


@pytest.mark.parametrize("transport", ["stdio", "streamableHttp", "sse"])
async def test_handlers_answer_the_reference_server(transport: str) -> None:
    answers = Answers()
    answers.reply = Accept({"name": "Ada", "check": True, "titledSingleSelectEnum": "hero-2"})
    async with _everything(transport, answers) as session:
        result = await session.call_tool("trigger-elicitation-request")
        assert '"name": "Ada"' in result.text
        assert '"integer": 42' in result.text
        kinds = {field.kind for field in answers.forms[0].fields}
        assert kinds == {"string", "boolean", "integer", "number", "choice", "choices"}
        response = await session.call_tool("trigger-sampling-request", {"prompt": "rain"})
        assert "as You are a helpful test server." in response.text
        assert HERE.uri in (await session.call_tool("get-roots-list")).text
        await _visits(session, answers)
        token, steps = CancelToken(), {"duration": 60, "steps": 600}
        under_way = anyio.Event()

        async def note(progress: float, total: float | None, message: str | None) -> None:
            under_way.set()

        async with anyio.create_task_group() as tasks:

            async def make() -> None:
                with pytest.raises(CallCancelled, match="enough"):
                    await session.call_tool(
                        "trigger-long-running-operation", steps, cancel=token, on_progress=note
                    )

            tasks.start_soon(make)
            await under_way.wait()
            token.cancel("enough")
        await session.ping()


async def _visits(session: Session, answers: Answers) -> None:
    answers.reply = Accept()
    url = "https://example.com/connect"
    visit = {"url": url, "elicitationId": "visit-1"}
    await session.call_tool("trigger-url-elicitation", visit)
    assert (answers.forms[-1].mode, answers.forms[-1].host) == ("url", "example.com")
    with pytest.raises(UrlElicitationRequired) as caught:
        await session.call_tool(
            "trigger-url-elicitation", {**visit, "elicitationId": "v2", "errorPath": True}
        )
    assert caught.value.retryable
    assert caught.value.elicitations == (answers.forms[-1],)
