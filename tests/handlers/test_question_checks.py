"""How much a server may ask, and which call the request of a handler names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest

from mcp_client import Handlers, Limits, MemoryServer, Session, allow_all, connect
from mcp_client.approval import SamplingRequest
from mcp_client.errors import Unanswered, UrlElicitationRequired
from mcp_client.handlers import Decline, ElicitRequest, RootsRequest, SamplingResult
from mcp_client.handlers.question_checks import QuestionLimits
from mcp_client.handlers.wire_format import RequestRefused
from tests.support.asking import FORM, LATEST, NEWEST_HANDSHAKE, REVISIONS, Asking
from tests.support.terminal import call_of

pytestmark = pytest.mark.one_backend

EACH_ERA = pytest.mark.parametrize("revision", REVISIONS)
SAMPLE = (
    "sampling/createMessage",
    {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}]},
)
ROOTS: tuple[str, dict[str, Any]] = ("roots/list", {})
URL = {"mode": "url", "message": "Pay", "url": "https://example.com/", "elicitationId": "e"}

HandlerRequest = ElicitRequest | SamplingRequest | RootsRequest


class Recorder:
    """Handlers that store what they were asked."""

    def __init__(self) -> None:
        self.requests: list[HandlerRequest] = []
        self.handlers = Handlers(elicitation=self.elicit, sampling=self.sample, roots=self.roots)

    async def elicit(self, request: ElicitRequest) -> Decline:
        self.requests.append(request)
        return Decline()

    async def sample(self, request: SamplingRequest) -> SamplingResult:
        self.requests.append(request)
        return SamplingResult("Hello", model="tiny")

    async def roots(self, request: RootsRequest) -> list[str]:
        self.requests.append(request)
        return []


def session_with(server: Asking, handlers: Handlers, **limits: int) -> Any:
    return connect(
        MemoryServer(server), approval=allow_all, handlers=handlers, limits=Limits(**limits)
    )


# --------------------------------------------------------------------------- the limits


async def test_of_many_questions_in_one_call_of_the_handshake_era_the_rest_are_refused() -> None:
    recorder = Recorder()
    server = Asking(NEWEST_HANDSHAKE, *[SAMPLE] * 60)
    async with session_with(server, recorder.handlers, questions_per_call=5) as session:
        answers = json.loads((await session.call_tool("ask")).text)
        assert len(recorder.requests) == 5
        codes = [response.get("code") for response in answers.values()]
        assert codes == [None] * 5 + [-32000] * 55
        assert session.stats.refused_questions == 55
        await session.call_tool("ask")
        assert len(recorder.requests) == 10, "another call has a share of its own"


async def test_too_many_questions_in_the_rounds_of_one_call_end_it() -> None:
    class Insatiable(Asking):
        def round(self, params: dict[str, Any]) -> Any:
            return super().round({})

    recorder = Recorder()
    server = Insatiable(LATEST, FORM, SAMPLE)
    async with session_with(server, recorder.handlers, questions_per_call=5) as session:
        with pytest.raises(Unanswered, match=r"Limits\.questions_per_call") as caught:
            await session.call_tool("ask")
        assert caught.value.result["requestState"] == "s~t="
        assert len(recorder.requests) == 4
        assert (await session.call_tool("plain")).text == "plain"


@EACH_ERA
async def test_the_questions_of_all_calls_within_a_minute_are_bounded(revision: str) -> None:
    recorder = Recorder()
    server = Asking(revision, FORM)
    async with session_with(server, recorder.handlers, questions_per_minute=3) as session:
        for _ in range(3):
            await session.call_tool("ask")
        if revision == LATEST:
            with pytest.raises(Unanswered, match=r"Limits\.questions_per_minute"):
                await session.call_tool("ask")
        else:
            answers = json.loads((await session.call_tool("ask")).text)
            assert answers["q0"]["code"] == -32000
        assert len(recorder.requests) == 3


async def test_a_fixed_list_of_roots_may_be_asked_for_as_often_as_the_server_likes() -> None:
    server = Asking(NEWEST_HANDSHAKE, *[ROOTS] * 20)
    async with session_with(server, Handlers(roots=[]), questions_per_call=1) as session:
        answers = json.loads((await session.call_tool("ask")).text)
    assert list(answers.values()) == [{"roots": []}] * 20


def count_of(limits: QuestionLimits, now: Callable[[], float]) -> int:
    """How many questions are let through until one is refused."""
    number = 0
    while True:
        try:
            limits.count(1, now)
        except RequestRefused:
            return number
        number += 1


def test_a_minute_after_a_question_there_is_room_for_another() -> None:
    time = [0.0]
    limits = QuestionLimits(Limits(questions_per_minute=3), {})
    assert count_of(limits, lambda: time[0]) == 3
    time[0] = 59.9
    assert count_of(limits, lambda: time[0]) == 0
    time[0] = 60.0
    assert count_of(limits, lambda: time[0]) == 3


def test_a_question_that_may_be_about_several_calls_is_refused_once_all_had_their_share() -> None:
    first, second, third = (replace(call_of(), id=id) for id in "123")
    calls = {"1": first}
    limits = QuestionLimits(Limits(questions_per_minute=100, questions_per_call=4), calls)
    assert limits.only_call is first
    assert count_of(limits, lambda: 0.0) == 4
    calls["2"] = second
    assert limits.only_call is None
    assert count_of(limits, lambda: 0.0) == 4, "the second call has a share of its own"
    calls["3"] = third
    with pytest.raises(RequestRefused):
        limits.count(1, lambda: 0.0, first)
    limits.count(4, lambda: 0.0, third)
    with pytest.raises(RequestRefused):
        limits.count(1, lambda: 0.0, third)
    del calls["2"], calls["3"]
    assert limits.only_call is first
    assert count_of(limits, lambda: 0.0) == 0
    calls.clear()
    assert limits.only_call is None


# ------------------------------------------------------------------- which call it is about


@EACH_ERA
async def test_a_handler_knows_which_call_led_to_the_request_and_its_context(revision: str) -> None:
    recorder = Recorder()
    server = Asking(revision, FORM, SAMPLE, ROOTS)
    async with session_with(server, recorder.handlers) as session:
        await session.call_tool("ask", {"n": 1}, context="ana")
        await session.call_tool("ask", {"n": 2}, context="ben")
    assert len(recorder.requests) == 6
    for request, context in zip(recorder.requests, ["ana"] * 3 + ["ben"] * 3, strict=True):
        assert request.call is not None
        assert (request.call.server, request.call.tool.name) == ("memory", "ask")
        assert request.call.context == context
    assert recorder.requests[3].call is not None
    assert recorder.requests[3].call.arguments == {"n": 2}


class Holding(Asking):
    """Its tool ``plain`` waits until ``ask`` has been answered."""

    def __init__(self, revision: str, *questions: Any) -> None:
        super().__init__(revision, *questions)
        self.held, self.let_go = anyio.Event(), anyio.Event()

    async def __call__(self, message: dict[str, Any], send: Any) -> Any:
        if message.get("params", {}).get("name") == "plain":
            self.held.set()
            await self.let_go.wait()
        return await super().__call__(message, send)


@pytest.mark.both_backends
@EACH_ERA
async def test_with_two_calls_under_way_only_the_stateless_era_knows_which(revision: str) -> None:
    recorder = Recorder()
    server = Holding(revision, FORM)
    async with session_with(server, recorder.handlers) as session, anyio.create_task_group() as run:
        run.start_soon(_call, session, "plain", "ana")
        await server.held.wait()
        await session.call_tool("ask", context="ben")
        (request,) = recorder.requests
        if revision == LATEST:
            assert request.call is not None
            assert request.call.context == "ben"
        else:
            assert request.call is None
        server.let_go.set()


async def _call(session: Session, name: str, context: str) -> None:
    await session.call_tool(name, context=context)


async def test_a_request_outside_of_any_call_is_about_none() -> None:
    recorder = Recorder()
    server = Asking(NEWEST_HANDSHAKE, FORM)
    async with session_with(server, recorder.handlers) as session:
        await session.call_tool("ask", context="ana")
        await server.ask("later", FORM)
    assert [request.call is None for request in recorder.requests] == [False, True]


async def test_a_prompt_that_asks_back_is_not_a_call() -> None:
    class Prompting(Asking):
        async def __call__(self, message: dict[str, Any], send: Any) -> Any:
            match message.get("method"):
                case "server/discover":
                    found = await super().__call__(message, send)
                    return {**found, "capabilities": {"tools": {}, "prompts": {}}}
                case "prompts/get" if "inputResponses" in message["params"]:
                    return {"messages": []}
                case "prompts/get":
                    return self.round({})
            return await super().__call__(message, send)

    recorder = Recorder()
    async with session_with(Prompting(LATEST, FORM), recorder.handlers) as session:
        await session.get_prompt("greeting")
    (request,) = recorder.requests
    assert request.call is None


async def test_urls_that_an_error_asks_for_are_about_its_call() -> None:
    class Wanting(Asking):
        async def called(self, message: dict[str, Any], send: Any) -> Any:
            error = {"code": -32042, "message": "visit", "data": {"elicitations": [URL]}}
            send({"jsonrpc": "2.0", "id": message["id"], "error": error})

    recorder = Recorder()
    async with session_with(Wanting(NEWEST_HANDSHAKE), recorder.handlers) as session:
        with pytest.raises(UrlElicitationRequired) as caught:
            await session.call_tool("ask", context="ana")
    assert caught.value.elicitations == tuple(recorder.requests)
    assert caught.value.elicitations[0].call.context == "ana"
