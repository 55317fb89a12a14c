"""When the answer is a question: every rule of 2026-07-28 ``basic/patterns/mrtr`` for a client."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import (
    CallDenied,
    CallTimeout,
    Handlers,
    Limits,
    MemoryServer,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.approval import Allow, Deny
from mcp_client.errors import ConnectionLost, ProtocolViolation, Unanswered
from mcp_client.handlers import Accept, Decline, ElicitRequest, Root, RootsRequest
from mcp_client.testing import JsonRpcError
from tests.support.asking import FORM, LATEST, Asking, form, text_result
from tests.support.properties import examples
from tests.support.timing import Clock

pytestmark = pytest.mark.one_backend

YES = Handlers(elicitation=lambda request: Accept({"name": "Ada"}), roots=[Root("file:///srv")])


async def call(server: Asking, handlers: Handlers = YES, **options: Any) -> Any:
    connecting = connect(MemoryServer(server), approval=allow_all, handlers=handlers, **options)
    async with connecting as session:
        return await session.call_tool("ask", {"a": [1]}, meta={"com.example/own": 1})


async def test_the_retry_is_the_same_request_with_the_responses_the_state_and_a_new_id() -> None:
    server = Asking(LATEST, FORM, ("roots/list", {}))
    await call(server)
    first, second = (m for m in server.messages if m["method"] == "tools/call")
    assert first["id"] != second["id"]
    answers = {
        "q0": {"action": "accept", "content": {"name": "Ada"}},
        "q1": {"roots": [{"uri": "file:///srv"}]},
    }
    asked, retried = dict(first["params"]), dict(second["params"])
    for params in (asked, retried):
        params["_meta"] = {k: v for k, v in params["_meta"].items() if k != "progressToken"}
    assert retried == {**asked, "inputResponses": answers, "requestState": "s~t="}


async def test_without_request_state_the_retry_has_none() -> None:
    server = Asking(LATEST, FORM, state=None)
    await call(server)
    assert "inputResponses" in server.all("tools/call")[1]
    assert "requestState" not in server.all("tools/call")[1]


class Pressing(Asking):
    """Asks nothing, a few times over."""

    def __init__(self, times: int) -> None:
        super().__init__(LATEST)
        self.times = times

    def round(self, params: dict[str, Any]) -> Any:
        if len(self.all("tools/call")) > self.times:
            return text_result("at last")
        number = len(self.all("tools/call"))
        return {"resultType": "input_required", "requestState": f"try {number}"}


async def test_a_round_without_questions_is_retried_with_the_newest_state_only() -> None:
    server = Pressing(3)
    result = await call(server, Handlers())
    assert result.text == "at last"
    states = [params.get("requestState") for params in server.all("tools/call")]
    assert states == [None, "try 1", "try 2", "try 3"]
    assert not any("inputResponses" in params for params in server.all("tools/call"))


async def test_a_server_that_keeps_asking_back_is_given_up_after_limits_rounds() -> None:
    server = Pressing(10**9)
    with pytest.raises(ProtocolViolation, match=r"5 times, the limit \(Limits\.rounds\)") as caught:
        await call(server, limits=Limits(rounds=5))
    assert len(server.all("tools/call")) == 5
    assert caught.value.tool == "ask"


async def test_no_person_is_asked_for_a_response_that_would_not_be_sent() -> None:
    class Insisting(Asking):
        def round(self, params: dict[str, Any]) -> Any:
            return super().round({})

    server, asked = Insisting(LATEST, FORM), list[ElicitRequest]()

    def handler(request: ElicitRequest) -> Accept:
        asked.append(request)
        return Accept({"name": "Ada"})

    with pytest.raises(ProtocolViolation, match=r"3 times, the limit \(Limits\.rounds\)"):
        await call(server, Handlers(elicitation=handler), limits=Limits(rounds=3))
    assert len(server.all("tools/call")) == 3
    assert len(asked) == 2


async def test_the_questions_of_a_round_are_asked_in_order_one_at_a_time() -> None:
    order: list[str] = []
    open = 0

    async def handler(request: ElicitRequest) -> Accept:
        nonlocal open
        open += 1
        assert open == 1
        await anyio.lowlevel.checkpoint()
        order.append(request.message)
        open -= 1
        return Accept({"name": "x"})

    names = [f"question {n}" for n in range(5)]
    server = Asking(LATEST, *(form(name, name={"type": "string"}) for name in names))
    await call(server, Handlers(elicitation=handler))
    assert order == names


async def test_one_invalid_question_ends_the_round_before_any_handler_is_called() -> None:
    seen: list[Any] = []
    server = Asking(LATEST, FORM, ("sampling/createMessage", {}))
    with pytest.raises(ProtocolViolation, match="sampling/createMessage"):
        await call(server, Handlers(elicitation=seen.append))
    assert seen == []


async def test_too_many_questions_at_once_are_refused() -> None:
    server = Asking(LATEST, *[FORM] * 4)
    with pytest.raises(ProtocolViolation, match=r"Limits\.questions"):
        await call(server, limits=Limits(questions=3))


@pytest.mark.parametrize("question", [7, None, [], "elicitation/create", {}, {"method": 7}])
async def test_a_malformed_question_ends_the_call_with_the_result_in_the_error(
    question: Any,
) -> None:
    class Odd(Asking):
        def round(self, params: dict[str, Any]) -> Any:
            return {"resultType": "input_required", "inputRequests": {"q": question}}

    with pytest.raises(ProtocolViolation) as caught:
        await call(Odd(LATEST))
    assert caught.value.result["inputRequests"] == {"q": question}


async def test_nothing_of_a_round_is_sent_with_a_concurrent_call() -> None:
    server = Asking(LATEST, FORM)
    sessions: list[Any] = []

    async def handler(request: ElicitRequest) -> Accept:
        await sessions[0].call_tool("plain")
        await sessions[0].list_tools(refresh=True)
        return Accept({"name": "Ada"})

    handlers = Handlers(elicitation=handler)
    async with connect(MemoryServer(server), approval=allow_all, handlers=handlers) as session:
        sessions.append(session)
        await session.call_tool("ask")
        await session.call_tool("plain")
    plain = [params for params in server.all("tools/call") if params["name"] == "plain"]
    assert len(plain) == 2
    for params in plain + server.all("tools/list"):
        assert not {"inputResponses", "requestState"} & set(params)


@pytest.mark.both_backends
async def test_concurrent_calls_have_separate_rounds() -> None:
    class Mirror(Asking):
        def round(self, params: dict[str, Any]) -> Any:
            who = params["arguments"]["who"]
            if "inputResponses" in params:
                response = params["inputResponses"]["q"]["content"]["name"]
                return text_result(f"{who} {params['requestState']} {response}")
            question = form(who, name={"type": "string"})
            asked = {"q": {"method": question[0], "params": question[1]}}
            state = f"of {who}"
            return {"resultType": "input_required", "inputRequests": asked, "requestState": state}

    async def handler(request: ElicitRequest) -> Accept:
        await anyio.lowlevel.checkpoint()
        return Accept({"name": f"for {request.message}"})

    results: dict[str, str] = {}
    handlers = Handlers(elicitation=handler)
    server = Mirror(LATEST)
    async with connect(MemoryServer(server), approval=allow_all, handlers=handlers) as session:

        async def one(who: str) -> None:
            results[who] = (await session.call_tool("ask", {"who": who})).text

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(one, f"w{number}")
    assert results == {f"w{n}": f"w{n} of w{n} for w{n}" for n in range(10)}


async def test_one_approval_covers_all_rounds_and_the_approved_arguments_are_sent() -> None:
    approved: list[ToolCall] = []

    def approve(asked: ToolCall) -> Allow:
        approved.append(asked)
        return Allow()

    server = Asking(LATEST, FORM)
    async with connect(MemoryServer(server), approval=approve, handlers=YES) as session:
        await session.call_tool("ask", {"a": 1})
    assert len(approved) == 1
    assert [params["arguments"] for params in server.all("tools/call")] == [{"a": 1}] * 2


async def test_a_denied_call_calls_no_handler() -> None:
    seen: list[Any] = []
    server = Asking(LATEST, FORM)
    async with connect(
        MemoryServer(server),
        approval=lambda call: Deny("no"),
        handlers=Handlers(elicitation=seen.append),
    ) as session:
        with pytest.raises(CallDenied):
            await session.call_tool("ask")
    assert seen == []
    assert server.all("tools/call") == []


async def test_a_failing_roots_handler_ends_the_call_and_not_the_session() -> None:
    def roots(request: RootsRequest) -> Any:
        raise LookupError("no such place")

    server = Asking(LATEST, ("roots/list", {}))
    async with connect(
        MemoryServer(server), approval=allow_all, handlers=Handlers(roots=roots)
    ) as session:
        with pytest.raises(Unanswered, match="LookupError") as caught:
            await session.call_tool("ask")
        assert isinstance(caught.value.__cause__, LookupError)
        assert not caught.value.retryable
        assert (await session.call_tool("plain")).text == "plain"


async def test_decline_is_sent_like_any_response() -> None:
    server = Asking(LATEST, FORM)
    await call(server, Handlers(elicitation=lambda request: Decline()))
    assert server.answers == {"q0": {"action": "decline"}}


@pytest.mark.both_backends
async def test_cancelling_a_call_cancels_its_handler() -> None:
    displayed, ended = anyio.Event(), anyio.Event()

    async def handler(request: ElicitRequest) -> None:
        displayed.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    server = Asking(LATEST, FORM)
    handlers = Handlers(elicitation=handler)
    async with connect(MemoryServer(server), approval=allow_all, handlers=handlers) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.call_tool, "ask")
            await displayed.wait()
            tasks.cancel_scope.cancel()
        assert ended.is_set()
        assert (await session.call_tool("plain")).text == "plain"


@pytest.mark.both_backends
async def test_all_rounds_share_one_total_timeout(clock: Clock) -> None:
    class Slow(Pressing):
        async def called(self, message: dict[str, Any], send: Any) -> Any:
            clock.jump(100)
            return await super().called(message, send)

    server = Slow(100)
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with pytest.raises(CallTimeout, match="total timeout") as caught:
            await session.call_tool("ask", timeout=350)
    assert caught.value.clock == "total"
    assert len(server.all("tools/call")) == 4


async def test_a_connection_lost_between_rounds_raises_connection_lost() -> None:
    async def respond(request: ElicitRequest) -> Accept:
        await session._connection.transport.aclose()
        return Accept({"name": "Ada"})

    server = Asking(LATEST, FORM)
    handlers = Handlers(elicitation=respond)
    async with connect(MemoryServer(server), approval=allow_all, handlers=handlers) as session:
        with pytest.raises(ConnectionLost, match="may have run") as caught:
            await session.call_tool("ask")
    assert caught.value.tool == "ask"
    assert len([m for m in server.messages if m["method"] == "tools/call"]) == 1


async def test_an_error_response_to_a_later_round_is_raised() -> None:
    class Broken(Asking):
        def round(self, params: dict[str, Any]) -> Any:
            if "inputResponses" in params:
                raise JsonRpcError(-32602, "the state is too old")
            return super().round(params)

    with pytest.raises(Exception, match="too old") as caught:
        await call(Broken(LATEST, FORM))
    assert getattr(caught.value, "code", None) == -32602


@examples(60)
@given(st.text(max_size=40) | st.sampled_from(["", " ", "\u2028", "\\u0041", '"', "\ud800", "{}"]))
def test_any_request_state_is_sent_back_unchanged(state: str) -> None:
    server = Asking(LATEST, FORM, state=state)
    anyio.run(call, server)
    assert server.all("tools/call")[1]["requestState"] == state
    assert json.loads(json.dumps(state)) == state


@pytest.mark.parametrize("method", ["prompts/get", "resources/read"])
async def test_prompts_and_resources_may_take_rounds_like_calls(method: str) -> None:
    class ParsedResult(Asking):
        async def __call__(self, message: dict[str, Any], send: Any) -> Any:
            if message.get("method") == "server/discover":
                offered: dict[str, Any] = {"prompts": {}, "resources": {}}
                return {"supportedVersions": [LATEST], "capabilities": offered}
            if message.get("method") == method:
                self.messages.append(message)
                response = self.round(message["params"])
                if "content" in response:
                    response = {"messages": [], "contents": []}
                return response
            return await super().__call__(message, send)

    server = ParsedResult(LATEST, FORM)
    async with connect(MemoryServer(server), handlers=YES) as session:
        if method == "prompts/get":
            await session.get_prompt("p", {"a": "1"})
        else:
            await session.read_resource("file:///x")
    first, second = server.all(method)
    assert server.answers == {"q0": {"action": "accept", "content": {"name": "Ada"}}}
    assert second["requestState"] == "s~t="
    assert "requestState" not in first


async def test_the_responses_of_an_earlier_round_are_not_sent_again() -> None:
    class Forgetting(Asking):
        def round(self, params: dict[str, Any]) -> Any:
            asked = {"q": {"method": FORM[0], "params": FORM[1]}}
            match len(self.all("tools/call")):
                case 1:
                    return {"resultType": "input_required", "requestState": "old"}
                case 2:
                    return {"resultType": "input_required", "inputRequests": asked}
                case 3:
                    return {"resultType": "input_required", "requestState": "new"}
            return text_result("done")

    server = Forgetting(LATEST)
    await call(server)
    extra = [set(p) & {"inputResponses", "requestState"} for p in server.all("tools/call")]
    assert extra == [set(), {"requestState"}, {"inputResponses"}, {"requestState"}]
    assert server.all("tools/call")[3]["requestState"] == "new"
