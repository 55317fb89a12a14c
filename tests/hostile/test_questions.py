"""Servers that misuse requests and notifications, one misuse in each test."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Handlers, Limits, MemoryServer, Timeouts, allow_all, connect
from mcp_client.handlers import Accept, Decline, ElicitRequest
from mcp_client.handlers.wire_format import RequestRefused, parse_request, parse_required_urls
from tests.support.asking import FORM, LATEST, NEWEST_HANDSHAKE, REVISIONS, Asking, text_result
from tests.support.properties import examples
from tests.support.timing import Clock

pytestmark = pytest.mark.one_backend

DECLARED: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {},
}


class Flood(Asking):
    """Its tool ``ask`` sends the requests of its arguments before it answers."""

    def __init__(self, revision: str, *messages: dict[str, Any]) -> None:
        super().__init__(revision)
        self.flood = messages

    async def called(self, message: dict[str, Any], send: Any) -> Any:
        for sent in self.flood:
            self.send({"jsonrpc": "2.0", **sent})
        return text_result("done")


def asking(id: Any) -> dict[str, Any]:
    return {"id": id, "method": FORM[0], "params": FORM[1]}


@pytest.mark.both_backends
async def test_of_a_flood_of_requests_a_few_reach_the_handler_and_the_rest_are_refused() -> None:
    displayed: list[ElicitRequest] = []
    enough = anyio.Event()

    async def handler(request: ElicitRequest) -> Decline:
        displayed.append(request)
        await enough.wait()
        return Decline()

    server = Flood(NEWEST_HANDSHAKE, *(asking(n) for n in range(500)))
    async with connect(
        MemoryServer(server),
        approval=allow_all,
        handlers=Handlers(elicitation=handler),
        limits=Limits(questions=4),
    ) as session:
        assert (await session.call_tool("ask")).text == "done"
        while len(server.answers) < 496:
            await anyio.lowlevel.checkpoint()
        enough.set()
        while len(server.answers) < 500:
            await anyio.lowlevel.checkpoint()
        assert session.stats.refused_questions == 496
    assert len(displayed) == 4
    refused = [response for response in server.answers.values() if "code" in response]
    assert {response["code"] for response in refused} == {-32000}
    assert len(refused) == 496


@pytest.mark.both_backends
async def test_a_request_with_an_id_in_use_is_refused_and_the_first_goes_on() -> None:
    displayed: list[ElicitRequest] = []
    let_go = anyio.Event()

    async def handler(request: ElicitRequest) -> Accept:
        displayed.append(request)
        await let_go.wait()
        return Accept({"name": "Ada"})

    server = Flood(NEWEST_HANDSHAKE, asking("same"), asking("same"))
    async with connect(
        MemoryServer(server), approval=allow_all, handlers=Handlers(elicitation=handler)
    ) as session:
        await session.call_tool("ask")
        assert "code" in await server.answer("same")
        server.answers.clear()
        let_go.set()
        while not server.answers:
            await anyio.lowlevel.checkpoint()
    assert server.answers["same"]["action"] == "accept"
    assert len(displayed) == 1


async def test_in_the_stateless_era_a_request_from_the_server_is_dropped() -> None:
    displayed: list[ElicitRequest] = []
    server = Flood(LATEST, asking(1), {"id": 2, "method": "ping", "params": {}})
    handlers = Handlers(elicitation=displayed.append)
    async with connect(MemoryServer(server), approval=allow_all, handlers=handlers) as session:
        assert (await session.call_tool("ask")).text == "done"
        assert session.stats.refused_questions == 2
    assert (displayed, server.answers) == ([], {})


@pytest.mark.both_backends
@pytest.mark.parametrize(
    "notice",
    [
        {"method": "notifications/cancelled", "params": {}},
        {"method": "notifications/cancelled", "params": {"requestId": None}},
        {"method": "notifications/cancelled", "params": {"requestId": [1]}},
        {"method": "notifications/cancelled", "params": {"requestId": 4, "reason": {"a": 1}}},
        {"method": "notifications/elicitation/complete", "params": {}},
        {"method": "notifications/elicitation/complete", "params": {"elicitationId": {"a": 1}}},
        {"method": "notifications/message", "params": {"level": [], "data": None}},
        {"method": "notifications/message", "params": {"level": {}, "logger": []}},
        {"method": "notifications/progress", "params": {"progressToken": {}, "progress": 1}},
        {"method": "notifications/progress", "params": {"progressToken": 10**6, "progress": 1}},
    ],
)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_malformed_notification_changes_nothing(
    revision: str, notice: dict[str, Any]
) -> None:
    handlers = Handlers(elicitation=lambda request: Decline(), log=print)
    async with connect(
        MemoryServer(Flood(revision, notice)), approval=allow_all, handlers=handlers
    ) as session:
        assert (await session.call_tool("ask")).text == "done"
        assert (await session.call_tool("plain")).text == "plain"


@pytest.mark.both_backends
async def test_a_hanging_handler_is_given_up_after_the_approval_timeout() -> None:
    server = Flood(NEWEST_HANDSHAKE, asking(1))
    async with connect(
        MemoryServer(server),
        approval=allow_all,
        handlers=Handlers(elicitation=lambda request: anyio.sleep_forever()),
        timeouts=Timeouts(approval=0.05),
    ) as session:
        await session.call_tool("ask")
        assert (await server.answer(1))["code"] == -32603


# ---------------------------------------------------------------------------- progress


@pytest.fixture
async def patient(clock: Clock) -> None:
    """A machine may be slow: the last progress must be delivered all the same."""
    clock.stop()


def progressed(token: Any, *values: Any) -> list[dict[str, Any]]:
    return [
        {"method": "notifications/progress", "params": {"progressToken": token, "progress": value}}
        for value in values
    ]


class Progressing(Asking):
    def __init__(self, *values: Any, revision: str = LATEST) -> None:
        super().__init__(revision)
        self.values = values

    async def called(self, message: dict[str, Any], send: Any) -> Any:
        for sent in progressed(message["id"], *self.values):
            self.send({"jsonrpc": "2.0", **sent})
        return text_result("done")


async def test_progress_that_does_not_increase_is_dropped() -> None:
    reported: list[float] = []
    server = Progressing(1, 1, 3, 2, "4", None, True, -1, 3.5)
    async with connect(MemoryServer(server), approval=allow_all) as session:
        await session.call_tool("ask", on_progress=lambda progress, *_: reported.append(progress))
    assert reported == [1, 3, 3.5]


class Flooding(Asking):
    """Sends 100,000 notices of progress, as a server does that fills the pipe."""

    async def called(self, message: dict[str, Any], send: Any) -> Any:
        (one,) = progressed(message["id"], "HERE")
        before, after = json.dumps({"jsonrpc": "2.0", **one}).encode().split(b'"HERE"')
        send(b"\n".join(before + str(n).encode() + after for n in range(100_000)))
        return text_result("done")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.usefixtures("patient")
async def test_a_flood_of_progress_is_queued_up_to_a_limit_and_the_last_one_is_delivered(
    kind: str,
) -> None:
    reported: list[float] = []
    tasks: set[int] = set()

    def plain(progress: float, total: Any, message: Any) -> None:
        reported.append(progress)

    async def waiting(progress: float, total: Any, message: Any) -> None:
        tasks.add(anyio.get_current_task().id)
        await anyio.lowlevel.checkpoint()
        reported.append(progress)

    async with connect(
        MemoryServer(Flooding(LATEST)), approval=allow_all, limits=Limits(notices=64)
    ) as session:
        on_progress: Any = plain if kind == "plain" else waiting
        result = await session.call_tool("ask", on_progress=on_progress)
        assert session.stats.dropped_notices >= 100_000 - 2 * 64
    assert result.text == "done"
    assert reported[-1] == 99_999
    assert reported == sorted(reported)
    assert len(reported) <= 2 * 64
    assert len(tasks) <= 2


@pytest.mark.both_backends
async def test_a_callback_that_never_returns_delays_no_call() -> None:
    began = anyio.Event()

    async def hang(*progress: Any) -> None:
        began.set()
        await anyio.sleep_forever()

    async with connect(MemoryServer(Progressing(1, 2, 3)), approval=allow_all) as session:
        assert (await session.call_tool("ask", on_progress=hang)).text == "done"
        assert began.is_set()
        assert (await session.call_tool("plain")).text == "plain"


@pytest.mark.usefixtures("patient")
async def test_an_awaitable_returned_by_a_plain_function_is_awaited() -> None:
    reported: list[float] = []

    async def hear(progress: float) -> None:
        await anyio.lowlevel.checkpoint()
        reported.append(progress)

    async with connect(
        MemoryServer(Progressing(*range(40))), approval=allow_all, limits=Limits(notices=8)
    ) as session:
        await session.call_tool("ask", on_progress=lambda progress, *_: hear(progress))
    assert reported[-1] == 39
    assert reported == sorted(reported)


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.usefixtures("patient")
async def test_a_callback_that_raises_is_called_for_later_progress(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    reported: list[float] = []

    def plain(progress: float, total: Any, message: Any) -> None:
        reported.append(progress)
        raise ValueError("broken callback")

    async def waiting(progress: float, total: Any, message: Any) -> None:
        plain(progress, total, message)

    async with connect(MemoryServer(Progressing(1, 2, 3)), approval=allow_all) as session:
        on_progress: Any = plain if kind == "plain" else waiting
        assert (await session.call_tool("ask", on_progress=on_progress)).text == "done"
    assert reported == [1, 2, 3]
    assert "on_progress raised" in caplog.text


# -------------------------------------------------------------------------- any question

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)
_FIELDS = st.sampled_from(
    [
        *("mode", "message", "requestedSchema", "url", "elicitationId", "messages", "maxTokens"),
        *("tools", "toolChoice", "stopSequences", "role", "content", "type", "properties"),
    ]
)
_WORDS = st.sampled_from(["form", "url", "https://a.com/", "user", "assistant", "object", "text"])
_PARAMS = st.dictionaries(
    _FIELDS,
    _JSON
    | _WORDS
    | st.integers(1, 9)
    | st.lists(st.dictionaries(_FIELDS, _JSON | _WORDS), max_size=3),
    max_size=6,
)


@examples(150)
@given(
    method=st.sampled_from(["elicitation/create", "sampling/createMessage", "roots/list", "x", 7]),
    params=_PARAMS | _JSON,
    full=st.booleans(),
)
def test_any_request_is_parsed_or_refused(method: Any, params: Any, full: bool) -> None:
    try:
        asked = parse_request(method, params, "desk", DECLARED, full)
    except RequestRefused as error:
        text, code = str(error), error.code
    else:
        text, code = asked.server, -32602
    assert text.isprintable()
    assert code in (-32601, -32602)


@examples(100)
@given(_JSON | st.fixed_dictionaries({"elicitations": st.lists(_PARAMS, max_size=3) | _JSON}))
def test_any_list_of_urls_is_parsed_or_refused(data: Any) -> None:
    try:
        wanted = parse_required_urls(data, "desk")
    except RequestRefused:
        return
    assert all(request.url is not None and request.host for request in wanted)
