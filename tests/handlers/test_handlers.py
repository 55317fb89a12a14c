"""What a server asks of us, answered by one set of handlers in both eras."""

from __future__ import annotations

import functools
import inspect
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    CallDenied,
    ConfigError,
    Deny,
    Handlers,
    MemoryServer,
    Rule,
    Rules,
    ServerError,
    Session,
    Timeouts,
    allow_all,
    connect,
)
from mcp_client.approval import SamplingRequest
from mcp_client.errors import ConnectionLost, ProtocolViolation, Unanswered, UrlElicitationRequired
from mcp_client.handlers import (
    Accept,
    Cancel,
    Decline,
    ElicitRequest,
    LogMessage,
    Root,
    RootsRequest,
    SamplingResult,
)
from mcp_client.runtime.callbacks import CallbackQueue, invoke_callback
from mcp_client.runtime.event_loop import current
from mcp_client.runtime.session_context import Stats
from mcp_client.transports.memory import MemoryTransport
from tests.support.asking import FORM, LATEST, NEWEST_HANDSHAKE, REVISIONS, Asking, form
from tests.support.timing import Clock

pytestmark = pytest.mark.one_backend

EACH_ERA = pytest.mark.parametrize("revision", REVISIONS)
URL = "https://example.com/pay?id=7"
VISIT = ("elicitation/create", {"mode": "url", "message": "Pay", "url": URL, "elicitationId": "e"})
SAMPLE = (
    "sampling/createMessage",
    {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}]},
)
ROOTS: tuple[str, dict[str, Any]] = ("roots/list", {})


def fill(request: ElicitRequest) -> Accept:
    return Accept({"name": "Ada"})


def always(response: Any, request: Any) -> Any:
    return response


async def fill_async(request: ElicitRequest) -> Accept:
    await anyio.lowlevel.checkpoint()
    return Accept({"name": "Ada"})


def sample(request: SamplingRequest) -> SamplingResult:
    return SamplingResult("Hello", model="m")


async def asked(server: Asking, handlers: Handlers, **options: Any) -> Any:
    """What the tool answers once it has asked: its answers, parsed."""
    async with connect(
        MemoryServer(server), name="desk", approval=allow_all, handlers=handlers, **options
    ) as session:
        return json.loads((await session.call_tool("ask")).text)


OPTIONAL = {
    "type": "object",
    "properties": {
        "nick": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "age": {"type": ["integer", "null"]},
        "size": {"$ref": "#/$defs/Size"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["nick", "size"],
    "$defs": {"Size": {"type": "string", "enum": ["s", "m"]}},
}


@EACH_ERA
async def test_a_form_of_a_schema_generator_is_shown_and_answered(revision: str) -> None:
    seen: list[Any] = []

    def respond(request: ElicitRequest) -> Accept:
        seen.append([(field.name, field.kind, field.required) for field in request.fields])
        return Accept({"size": "m", "tags": ["a", "b"]})

    params = {"mode": None, "message": "Who?", "requestedSchema": OPTIONAL}
    responses = await asked(
        Asking(revision, ("elicitation/create", params)), Handlers(elicitation=respond)
    )
    assert seen == [
        [
            ("nick", "string", False),
            ("age", "integer", False),
            ("size", "choice", True),
            ("tags", "texts", False),
        ]
    ]
    assert responses["q0"]["content"] == {"size": "m", "tags": ["a", "b"], "nick": None}


@EACH_ERA
async def test_sampling_in_the_words_of_servers_is_a_plain_request(revision: str) -> None:
    seen: list[SamplingRequest] = []

    def respond(request: SamplingRequest) -> SamplingResult:
        seen.append(request)
        return SamplingResult("Hello", model="m")

    message = {"role": "user", "content": {"type": "text", "text": "Hi"}}
    odd = {"messages": [message], "maxTokens": 10.0, "tools": [], "toolChoice": {"mode": "auto"}}
    responses = await asked(
        Asking(revision, ("sampling/createMessage", odd)), Handlers(sampling=respond)
    )
    assert responses["q0"]["model"] == "m"
    assert [(one.max_tokens, type(one.max_tokens), one.tools) for one in seen] == [(10, int, ())]


# ------------------------------------------------------------------- what is declared


@pytest.mark.parametrize(
    ("revision", "declared"),
    [
        ("2024-11-05", {"sampling": {}, "roots": {"listChanged": True}}),
        ("2025-03-26", {"sampling": {}, "roots": {"listChanged": True}}),
        ("2025-06-18", {"elicitation": {}, "sampling": {}, "roots": {"listChanged": True}}),
        (
            "2025-11-25",
            {
                "elicitation": {"form": {}, "url": {}},
                "sampling": {"tools": {}},
                "roots": {"listChanged": True},
            },
        ),
        (
            "2026-07-28",
            {
                "elicitation": {"form": {}, "url": {}},
                "sampling": {"tools": {}},
                "roots": {},
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            },
        ),
    ],
)
async def test_capabilities_are_declared_in_the_form_of_each_revision(
    revision: str, declared: dict[str, Any]
) -> None:
    server = Asking(revision)
    handlers = Handlers(
        elicitation=fill, sampling=sample, sampling_tools=True, roots=lambda request: []
    )
    async with connect(MemoryServer(server), handlers=handlers, revision=revision) as session:
        await session.list_tools()
    assert server.declared == declared


@pytest.mark.parametrize(
    ("handlers", "declared"),
    [
        (Handlers(), {}),
        (Handlers(log=print), {}),
        (Handlers(roots=[]), {"roots": {}}),
        (Handlers(sampling=sample), {"sampling": {}}),
        (Handlers(elicitation=fill, elicitation_modes=("form",)), {"elicitation": {"form": {}}}),
        (Handlers(elicitation=fill, elicitation_modes=("url",)), {"elicitation": {"url": {}}}),
    ],
)
async def test_without_a_handler_no_capability_is_declared(
    handlers: Handlers, declared: dict[str, Any]
) -> None:
    server = Asking(NEWEST_HANDSHAKE)
    async with connect(MemoryServer(server), handlers=handlers) as session:
        await session.list_tools()
    assert server.declared == declared


async def test_a_handler_for_urls_only_is_not_declared_in_a_revision_without_url_mode() -> None:
    server = Asking("2025-06-18")
    handlers = Handlers(elicitation=fill, elicitation_modes=("url",))
    async with connect(MemoryServer(server), handlers=handlers, revision="2025-06-18") as session:
        await session.list_tools()
    assert server.declared == {}


@pytest.mark.parametrize(
    "options",
    [
        {"elicitation": 7},
        {"sampling": "model"},
        {"elicitation_modes": ()},
        {"elicitation_modes": ("form", "fax")},
        {"log_level": "loud"},
        {"sampling_approval": sample},
    ],
)
def test_invalid_handlers_raise_config_error_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Handlers(**options)


def test_connect_refuses_handlers_of_another_type() -> None:
    with pytest.raises(ConfigError, match="handlers="):
        connect("https://example.com", handlers={"elicitation": fill})  # type: ignore[arg-type]


# ------------------------------------------------------------------------ elicitation


@EACH_ERA
@pytest.mark.parametrize(
    "handler", [fill, fill_async, lambda _: {"action": "accept", "content": {"name": "Ada"}}]
)
async def test_a_handler_of_any_kind_fills_in_a_form(revision: str, handler: Any) -> None:
    answers = await asked(Asking(revision, FORM), Handlers(elicitation=handler))
    assert answers == {"q0": {"action": "accept", "content": {"name": "Ada"}}}


@EACH_ERA
@pytest.mark.parametrize(
    ("response", "sent"),
    [
        (Decline(), {"action": "decline"}),
        (Cancel(), {"action": "cancel"}),
        ({"action": "decline", "content": {"name": "x"}}, {"action": "decline"}),
        ({"action": "cancel"}, {"action": "cancel"}),
    ],
)
async def test_decline_and_cancel_are_sent_without_content(
    revision: str, response: Any, sent: dict[str, Any]
) -> None:
    answers = await asked(Asking(revision, FORM), Handlers(elicitation=lambda request: response))
    assert answers == {"q0": sent}


@EACH_ERA
async def test_an_elicit_request_has_the_hosts_name_of_the_server_and_all_fields(
    revision: str,
) -> None:
    seen: list[ElicitRequest] = []

    def handler(request: ElicitRequest) -> Accept:
        seen.append(request)
        return Accept()

    question = form("Name?", name={"type": "string", "title": "Your name", "default": "Bob"})
    answers = await asked(Asking(revision, question), Handlers(elicitation=handler))
    assert answers["q0"]["content"] == {"name": "Bob"}
    (request,) = seen
    assert (request.server, request.message, request.mode) == ("desk", "Name?", "form")
    assert [(f.name, f.title, f.default) for f in request.fields] == [("name", "Your name", "Bob")]
    assert request.defaults == {"name": "Bob"}
    assert request.url is request.host is None


async def test_fill_false_leaves_out_defaults() -> None:
    properties = {"a": {"type": "integer", "default": 1}}
    schema = {"type": "object", "properties": properties}
    question = ("elicitation/create", {"message": "?", "requestedSchema": schema})
    for returned, sent in (
        (Accept(), {"a": 1}),
        (Accept(fill=False), {}),
        (Accept({"a": 2}), {"a": 2}),
    ):
        server = Asking(LATEST, question)
        answers = await asked(server, Handlers(elicitation=functools.partial(always, returned)))
        assert answers["q0"] == {"action": "accept", "content": sent}


@EACH_ERA
async def test_a_url_is_accepted_only_by_the_handler(revision: str) -> None:
    seen: list[ElicitRequest] = []

    def handler(request: ElicitRequest) -> Accept:
        seen.append(request)
        return Accept()

    answers = await asked(Asking(revision, VISIT), Handlers(elicitation=handler))
    assert answers == {"q0": {"action": "accept"}}
    (request,) = seen
    assert (request.mode, request.url, request.host) == ("url", URL, "example.com")
    assert request.warnings == ()
    assert request.elicitation_id == "e"


# ---------------------------------------------------------------------------- refusing

BAD_PARAMS = [
    ("elicitation/create", {"message": "?", "requestedSchema": {"type": "array"}}),
    ("elicitation/create", {"requestedSchema": {"type": "object", "properties": {}}}),
    form(deep={"type": "object", "properties": {}}),
    ("elicitation/create", {"mode": "url", "message": "Go", "url": "http://example.com/"}),
    ("elicitation/create", {"mode": "url", "message": "Go", "url": "javascript:alert(1)"}),
    ("elicitation/create", {"mode": "url", "message": "Go"}),
    ("elicitation/create", {"mode": "fax", "message": "Go"}),
    ("sampling/createMessage", {"messages": []}),
    ("sampling/createMessage", {**SAMPLE[1], "maxTokens": 0}),
    ("sampling/createMessage", {**SAMPLE[1], "tools": [{"name": "t"}]}),
]


@pytest.mark.parametrize("question", BAD_PARAMS)
async def test_a_malformed_request_is_refused_without_calling_a_handler(
    question: Any,
) -> None:
    seen: list[Any] = []
    handlers = Handlers(elicitation=seen.append, sampling=seen.append)
    server = Asking(NEWEST_HANDSHAKE, question)
    assert (await asked(server, handlers))["q0"]["code"] == -32602
    with pytest.raises(ProtocolViolation) as caught:
        await asked(Asking(LATEST, question), handlers)
    assert caught.value.result["inputRequests"]
    assert seen == []


@pytest.mark.parametrize("question", [FORM, VISIT, SAMPLE, ROOTS, ("tools/call", {})])
async def test_a_request_for_an_undeclared_capability_is_refused(question: Any) -> None:
    server = Asking(NEWEST_HANDSHAKE, question)
    assert (await asked(server, Handlers()))["q0"]["code"] == -32601
    with pytest.raises(ProtocolViolation, match="did not declare"):
        await asked(Asking(LATEST, question), Handlers())


async def test_an_undeclared_elicitation_mode_is_refused() -> None:
    for modes, question in ((("form",), VISIT), (("url",), FORM)):
        handlers = Handlers(elicitation=fill, elicitation_modes=modes)
        server = Asking(NEWEST_HANDSHAKE, question)
        assert (await asked(server, handlers))["q0"]["code"] == -32602


async def test_elicitation_is_refused_in_a_revision_without_it() -> None:
    server = Asking("2025-03-26", FORM)
    answers = await asked(server, Handlers(elicitation=fill), revision="2025-03-26")
    assert answers["q0"]["code"] == -32601


def raises(request: Any) -> Any:
    raise RuntimeError("the secret is 1234")


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (raises, "raised RuntimeError"),
        (lambda _: None, "NoneType"),
        (lambda _: {"action": "perhaps"}, "action"),
        (lambda _: Accept({"name": 7}), "not a string"),
        (lambda _: Accept({}), "required"),
        (lambda _: Accept({"name": "x", "more": "y"}), "no field"),
        (lambda _: Accept("text"), "not a mapping"),  # type: ignore[arg-type]
    ],
)
async def test_a_failing_handler_gives_the_server_an_error_without_the_reason(
    handler: Any, why: str
) -> None:
    server = Asking(NEWEST_HANDSHAKE, FORM)
    response = (await asked(server, Handlers(elicitation=handler)))["q0"]
    assert response == {"code": -32603, "message": "the client has no response to this"}
    server = Asking(LATEST, FORM)
    with pytest.raises(Unanswered, match=why) as caught:
        await asked(server, Handlers(elicitation=handler))
    assert caught.value.result["requestState"] == "s~t="
    assert len(server.all("tools/call")) == 1
    assert "1234" not in str(caught.value)


@pytest.mark.both_backends
@EACH_ERA
async def test_a_handler_that_hangs_is_cancelled_after_the_approval_timeout(revision: str) -> None:
    server = Asking(revision, FORM)
    async with connect(
        MemoryServer(server),
        approval=allow_all,
        handlers=Handlers(elicitation=lambda request: anyio.sleep_forever()),
        timeouts=Timeouts(approval=0.05),
    ) as session:
        if revision == LATEST:
            with pytest.raises(Unanswered, match=r"0\.05 s"):
                await session.call_tool("ask")
        else:
            assert json.loads((await session.call_tool("ask")).text)["q0"]["code"] == -32603
        assert (await session.call_tool("plain")).text == "plain"


async def test_accepting_a_url_with_content_is_refused() -> None:
    with pytest.raises(Unanswered, match="must not have content"):
        await asked(Asking(LATEST, VISIT), Handlers(elicitation=fill))


# ------------------------------------------------------------------ sampling and roots


@EACH_ERA
async def test_a_sampling_handler_gets_the_request_and_its_response_is_sent(revision: str) -> None:
    seen: list[SamplingRequest] = []

    def handler(request: SamplingRequest) -> SamplingResult:
        seen.append(request)
        return SamplingResult("Hello", model="m", stop_reason="maxTokens")

    method, params = SAMPLE
    more = {"systemPrompt": "Be brief", "temperature": 0.5, "stopSequences": ["."]}
    answers = await asked(
        Asking(revision, (method, {**params, **more})), Handlers(sampling=handler)
    )
    text = {"type": "text", "text": "Hello"}
    sent = {"role": "assistant", "content": text, "model": "m", "stopReason": "maxTokens"}
    assert answers == {"q0": sent}
    (request,) = seen
    assert (request.server, request.max_tokens, request.system_prompt) == ("desk", 9, "Be brief")
    assert (request.temperature, request.stop_sequences) == (0.5, (".",))
    assert [(m.role, str(m.content[0])) for m in request.messages] == [("user", "Hi")]


@pytest.mark.parametrize(
    "hook",
    [
        lambda request: Deny("no"),
        lambda request: True,
        lambda request: None,
        lambda request: Allow({"a": 1}),
        raises,
    ],
)
async def test_any_decision_of_the_sampling_hook_but_allow_rejects_the_request(hook: Any) -> None:
    seen: list[Any] = []
    handlers = Handlers(sampling=seen.append, sampling_approval=hook)
    response = (await asked(Asking(NEWEST_HANDSHAKE, SAMPLE), handlers))["q0"]
    assert response == {"code": -1, "message": "User rejected sampling request"}
    with pytest.raises(Unanswered, match="rejected"):
        await asked(Asking(LATEST, SAMPLE), handlers)
    assert seen == []


@EACH_ERA
async def test_allow_from_the_sampling_hook_calls_the_sampling_handler(revision: str) -> None:
    handlers = Handlers(sampling=sample, sampling_approval=lambda request: Allow())
    answers = await asked(Asking(revision, SAMPLE), handlers)
    assert answers["q0"]["content"]["text"] == "Hello"


async def test_rules_that_ask_about_sampling_ask_at_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds: list[str] = []

    async def person(request: SamplingRequest) -> Allow:
        kinds.append(request.kind)
        return Allow()

    monkeypatch.setattr("mcp_client.approval.terminal.ask_on_terminal", person)
    rules = Rules([Rule("ask", kind="sampling")])
    answers = await asked(
        Asking(LATEST, SAMPLE), Handlers(sampling=sample, sampling_approval=rules)
    )
    assert answers["q0"]["content"]["text"] == "Hello"
    assert kinds == ["sampling"]


async def test_a_sampling_handler_may_reject_the_request() -> None:
    handlers = Handlers(sampling=lambda request: Deny("not now"))
    assert (await asked(Asking(NEWEST_HANDSHAKE, SAMPLE), handlers))["q0"]["code"] == -1


TOOL_USE = {"type": "tool_use", "id": "u", "name": "t", "input": {}}
TOOL_RESULT = {"type": "tool_result", "toolUseId": "u", "content": []}
TEXT = {"type": "text", "text": "x"}


def conversation(*turns: Any) -> tuple[str, dict[str, Any]]:
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": turn} for i, turn in enumerate(turns)]
    fields = {"maxTokens": 5, "messages": messages, "tools": [{"name": "t", "inputSchema": {}}]}
    return "sampling/createMessage", fields


async def test_sampling_with_tools_works_where_it_is_declared() -> None:
    handlers = Handlers(
        sampling=lambda r: SamplingResult([TOOL_USE], "m", stop_reason="toolUse"),
        sampling_tools=True,
    )
    answers = await asked(Asking(LATEST, conversation(TEXT, [TOOL_USE], [TOOL_RESULT])), handlers)
    assert answers["q0"]["content"] == [TOOL_USE]


@pytest.mark.parametrize(
    "turns",
    [
        (TEXT, [TOOL_USE]),
        (TEXT, [TOOL_USE], TEXT),
        (TEXT, [TOOL_USE], [TOOL_RESULT, TEXT]),
        (TEXT, [TOOL_USE], [{**TOOL_RESULT, "toolUseId": "v"}]),
        ([TOOL_RESULT],),
        ([TOOL_USE],),
        (7,),
        ([],),
    ],
)
async def test_a_conversation_with_unmatched_tool_results_is_refused(
    turns: Sequence[Any],
) -> None:
    seen: list[Any] = []
    handlers = Handlers(sampling=seen.append, sampling_tools=True)
    answers = await asked(Asking(NEWEST_HANDSHAKE, conversation(*turns)), handlers)
    assert answers["q0"]["code"] == -32602
    assert seen == []


@pytest.mark.parametrize(
    "response",
    [
        "Hello",
        {"role": "assistant", "content": {"type": "text", "text": "x"}},
        {"role": "model", "content": {"type": "text", "text": "x"}, "model": "m"},
        SamplingResult({"type": "video"}, "m"),
        SamplingResult([TOOL_USE], "m"),
        SamplingResult({"type": "text", "text": {1, 2}}, "m"),
    ],
)
async def test_an_invalid_sampling_response_is_not_sent(response: Any) -> None:
    server = Asking(NEWEST_HANDSHAKE, SAMPLE)
    assert (await asked(server, Handlers(sampling=lambda _: response)))["q0"]["code"] == -32603


@EACH_ERA
async def test_roots_come_from_a_list_or_from_a_handler(revision: str, tmp_path: Path) -> None:
    expected = {"roots": [{"uri": tmp_path.as_uri(), "name": "here"}]}
    root = Root.of(tmp_path, "here")
    for roots in ([root], lambda request: [root], lambda request: expected):
        assert (await asked(Asking(revision, ROOTS), Handlers(roots=roots)))["q0"] == expected


@pytest.mark.parametrize(
    "root",
    [
        "https://example.com/",
        "/etc",
        "file:relative",
        "file:///a b",
        Root("file://"),
        "file:///a/../b",
        "file:///a/%2e%2E/b",
    ],
)
async def test_a_root_that_is_not_a_file_uri_is_not_sent(root: Any) -> None:
    server = Asking(NEWEST_HANDSHAKE, ROOTS)
    assert (await asked(server, Handlers(roots=[root])))["q0"]["code"] == -32603


@pytest.mark.both_backends
async def test_roots_changed_is_sent_only_where_it_was_declared() -> None:
    for revision, roots, reported in (
        (NEWEST_HANDSHAKE, lambda request: [], 1),
        (NEWEST_HANDSHAKE, [], 0),
        (LATEST, lambda request: [], 0),
    ):
        server = Asking(revision)
        async with connect(MemoryServer(server), handlers=Handlers(roots=roots)) as session:
            await session.roots_changed()
            await session.list_tools()
        assert len(server.all("notifications/roots/list_changed")) == reported


async def test_a_server_may_send_requests_as_soon_as_it_is_initialized() -> None:
    seen: list[RootsRequest] = []

    class Eager(Asking):
        async def __call__(self, message: dict[str, Any], send: Any) -> Any:
            if message.get("method") == "notifications/initialized":
                self.send = send
                self.put(7, ROOTS)
            return await super().__call__(message, send)

    def roots(request: RootsRequest) -> list[Root]:
        seen.append(request)
        return []

    server = Eager(NEWEST_HANDSHAKE)
    async with connect(MemoryServer(server), name="desk", handlers=Handlers(roots=roots)):
        assert await server.answer(7) == {"roots": []}
    assert [request.server for request in seen] == ["desk"]


# --------------------------------------------------------------- the gate, and the clocks


@EACH_ERA
async def test_a_tool_call_from_a_handler_passes_the_approval_hook(revision: str) -> None:
    server = Asking(revision, FORM)
    denied: list[CallDenied] = []
    sessions: list[Session] = []

    async def handler(request: ElicitRequest) -> Decline:
        with pytest.raises(CallDenied) as caught:
            await sessions[0].call_tool("plain")
        denied.append(caught.value)
        return Decline()

    def approve(call: Any) -> Allow | Deny:
        return Allow() if call.tool.name == "ask" else Deny("not that")

    async with connect(
        MemoryServer(server), approval=approve, handlers=Handlers(elicitation=handler)
    ) as session:
        sessions.append(session)
        await session.call_tool("ask")
    assert len(denied) == 1
    assert {params["name"] for params in server.all("tools/call")} == {"ask"}


async def test_the_clocks_of_calls_under_way_are_paused_while_a_handler_runs() -> None:
    sessions: list[Session] = []
    runs_on: list[bool] = []

    def in_half_an_hour() -> set[bool]:
        wire = sessions[0]._connection.rpc
        later = wire.now() + 1_800
        return {clock.until(later) > later for clock in wire.clocks}

    async def handler(request: ElicitRequest) -> Accept:
        assert in_half_an_hour() == {True}, "only the call that led to the question runs"
        nested = sessions[0].call_tool(
            "plain", on_progress=lambda *_: runs_on.extend(in_half_an_hour())
        )
        assert (await nested).text == "plain"
        return Accept({"name": "Ada"})

    class Telling(Asking):
        async def __call__(self, message: dict[str, Any], send: Any) -> Any:
            if message.get("method") == "tools/call":
                self.notify("notifications/progress", progressToken=message["id"], progress=1)
            return await super().__call__(message, send)

    server = Telling(NEWEST_HANDSHAKE, FORM)
    handlers = Handlers(elicitation=handler)
    async with connect(MemoryServer(server), approval=allow_all, handlers=handlers) as session:
        sessions.append(session)
        result = await session.call_tool("ask", on_progress=lambda *_: None)
    assert "Ada" in result.text
    assert sorted(runs_on) == [False, True], "the call made meanwhile has a clock that runs"


@pytest.mark.both_backends
async def test_the_time_a_handler_takes_between_rounds_is_not_counted_for_the_call(
    clock: Clock,
) -> None:
    server = Asking(LATEST, FORM)

    def handler(request: ElicitRequest) -> Accept:
        clock.jump(400)
        return Accept({"name": "Ada"})

    handlers = Handlers(elicitation=handler)
    async with connect(MemoryServer(server), approval=allow_all, handlers=handlers) as session:
        result = await session.call_tool("ask", timeout=300)
    assert "Ada" in result.text


@pytest.mark.both_backends
async def test_a_withdrawn_request_cancels_its_handler_and_is_not_answered() -> None:
    displayed, ended = anyio.Event(), anyio.Event()

    async def handler(request: ElicitRequest) -> Accept:
        try:
            displayed.set()
            await anyio.sleep_forever()
        finally:
            ended.set()
        return Accept({"name": "late"})

    server = Asking(NEWEST_HANDSHAKE)
    async with connect(MemoryServer(server), handlers=Handlers(elicitation=handler)) as session:
        await session.list_tools()
        server.put("q", FORM)
        await displayed.wait()
        server.notify("notifications/cancelled", requestId="another")
        server.notify("notifications/cancelled", requestId="q", reason="never mind")
        await ended.wait()
        await session.list_tools(refresh=True)
    assert server.answers == {}


@pytest.mark.both_backends
async def test_closing_the_session_cancels_its_handlers() -> None:
    displayed, ended = anyio.Event(), anyio.Event()

    async def handler(request: ElicitRequest) -> None:
        try:
            displayed.set()
            await anyio.sleep_forever()
        finally:
            ended.set()

    server = Asking(NEWEST_HANDSHAKE)
    async with connect(MemoryServer(server), handlers=Handlers(elicitation=handler)) as session:
        await session.list_tools()
        server.put("q", FORM)
        await displayed.wait()
    assert ended.is_set()


@pytest.mark.both_backends
@EACH_ERA
@pytest.mark.parametrize("stubborn", [False, True])
async def test_closing_the_session_ends_a_call_whose_handler_is_being_asked(
    revision: str, stubborn: bool
) -> None:
    displayed = anyio.Event()

    async def handler(request: ElicitRequest) -> Accept:
        displayed.set()
        try:
            await anyio.sleep_forever()
        except BaseException:
            if not stubborn:
                raise
        return Accept({"name": "too late"})

    server = Asking(revision, FORM)
    async with (
        connect(
            MemoryServer(server), approval=allow_all, handlers=Handlers(elicitation=handler)
        ) as session,
        anyio.create_task_group() as calls,
    ):

        async def call() -> None:
            with pytest.raises(ConnectionLost):
                await session.call_tool("ask")

        calls.start_soon(call)
        await displayed.wait()
        await session.aclose()
    assert server.answers == {}


@EACH_ERA
async def test_a_handler_that_raises_is_logged_with_its_traceback_once(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(
        MemoryServer(Asking(revision, FORM)),
        approval=allow_all,
        handlers=Handlers(elicitation=raises),
    ) as session:
        for _ in range(3):
            try:
                await session.call_tool("ask")
            except Unanswered:
                continue
    raised = [record for record in caplog.records if "raised RuntimeError" in record.getMessage()]
    with_traceback = [record for record in raised if record.exc_info]
    assert len(with_traceback) == 1
    assert with_traceback[0].name == "mcp_client"
    assert "in raises" in caplog.text


def _sync(response: Any) -> Any:
    return lambda request: response


def _async(response: Any) -> Any:
    async def handler(request: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return response

    return handler


@EACH_ERA
@pytest.mark.parametrize("kind", [_sync, _async], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("name", "question", "response", "sent"),
    [
        ("elicitation", FORM, Accept({"name": "Ada"}), {"content": {"name": "Ada"}}),
        (
            "elicitation",
            FORM,
            {"action": "accept", "content": {"name": "Ada"}},
            {"content": {"name": "Ada"}},
        ),
        ("elicitation", FORM, Decline(), {"action": "decline"}),
        ("elicitation", FORM, {"action": "cancel"}, {"action": "cancel"}),
        ("sampling", SAMPLE, SamplingResult("Hello", "m"), {"model": "m", "role": "assistant"}),
        (
            "sampling",
            SAMPLE,
            {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hello"}},
            {"content": {"type": "text", "text": "Hello"}},
        ),
        ("roots", ROOTS, [Root("file:///a")], {"roots": [{"uri": "file:///a"}]}),
        ("roots", ROOTS, ["file:///a"], {"roots": [{"uri": "file:///a"}]}),
        ("roots", ROOTS, [{"uri": "file:///a"}], {"roots": [{"uri": "file:///a"}]}),
        ("roots", ROOTS, {"roots": [{"uri": "file:///a"}]}, {"roots": [{"uri": "file:///a"}]}),
    ],
)
async def test_every_handler_may_be_sync_or_async_and_answer_typed_or_as_on_the_wire(
    revision: str, kind: Any, name: str, question: Any, response: Any, sent: dict[str, Any]
) -> None:
    handlers: Any = Handlers(**{name: kind(response)})
    answers = await asked(Asking(revision, question), handlers)
    assert answers["q0"].items() >= sent.items()


@pytest.mark.both_backends
async def test_handlers_are_cancelled_when_their_server_has_gone() -> None:
    displayed, ended = anyio.Event(), anyio.Event()

    async def handler(request: ElicitRequest) -> None:
        try:
            displayed.set()
            await anyio.sleep_forever()
        finally:
            ended.set()

    server = Asking(NEWEST_HANDSHAKE)
    transport = MemoryServer(server)
    async with connect(transport, handlers=Handlers(elicitation=handler)) as session:
        await session.list_tools()
        server.put("q", FORM)
        await displayed.wait()
        transport.end()
        await ended.wait()


# ------------------------------------------------------------------ URLs to visit first


class Wanting(Asking):
    """Refuses its tool until a URL has been visited."""

    elicitations: Any = ({"mode": "url", "message": "Pay", "url": URL, "elicitationId": "e"},)

    async def called(self, message: dict[str, Any], send: Any) -> Any:
        error = {
            "code": -32042,
            "message": "visit first",
            "data": {"elicitations": list(self.elicitations)},
        }
        send({"jsonrpc": "2.0", "id": message["id"], "error": error})


@pytest.mark.both_backends
@pytest.mark.parametrize(("response", "retryable"), [(Accept(), True), (Decline(), False)])
async def test_required_urls_are_passed_to_the_handler_and_then_raised(
    response: Any, retryable: bool
) -> None:
    seen: list[ElicitRequest] = []

    def handler(request: ElicitRequest) -> Any:
        seen.append(request)
        return response

    server = Wanting(NEWEST_HANDSHAKE)
    async with connect(
        MemoryServer(server), approval=allow_all, handlers=Handlers(elicitation=handler)
    ) as session:
        with pytest.raises(UrlElicitationRequired, match="example") as caught:
            await session.call_tool("ask")
        error = caught.value
        assert (error.code, error.tool, error.retryable) == (-32042, "ask", retryable)
        assert list(error.elicitations) == seen
        assert [request.url for request in seen] == [URL]
        with pytest.raises(ConfigError):
            await session.wait_for_elicitation("another")
        server.notify("notifications/elicitation/complete", elicitationId="another")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.wait_for_elicitation, "e")
            server.notify("notifications/elicitation/complete", elicitationId="e")
            server.notify("notifications/elicitation/complete", elicitationId="e")
    assert len(server.all("tools/call")) == 1


@pytest.mark.parametrize(
    "handlers", [Handlers(), Handlers(elicitation=fill, elicitation_modes=("form",))]
)
async def test_without_url_mode_error_32042_is_an_ordinary_server_error(handlers: Handlers) -> None:
    with pytest.raises(ServerError, match="visit first") as caught:
        await asked(Wanting(NEWEST_HANDSHAKE), handlers)
    assert type(caught.value) is ServerError


@pytest.mark.parametrize(
    "elicitations", [(), ({"mode": "form"},), ({"mode": "url", "url": "ftp://x/"},), (7,)]
)
async def test_a_malformed_list_of_urls_reaches_no_handler(elicitations: Any) -> None:
    seen: list[Any] = []
    server = Wanting(NEWEST_HANDSHAKE)
    server.elicitations = elicitations
    with pytest.raises(ServerError) as caught:
        await asked(server, Handlers(elicitation=seen.append))
    assert type(caught.value) is ServerError
    assert seen == []


@pytest.mark.parametrize("mode", [{}, {"mode": None}])
async def test_a_required_url_needs_no_mode(mode: Any) -> None:
    seen: list[ElicitRequest] = []

    def decline(request: ElicitRequest) -> Decline:
        seen.append(request)
        return Decline()

    server = Wanting(NEWEST_HANDSHAKE)
    server.elicitations = ({**mode, "url": URL, "message": "visit", "elicitationId": "e"},)
    with pytest.raises(UrlElicitationRequired):
        await asked(server, Handlers(elicitation=decline))
    assert [request.url for request in seen] == [URL]


def test_the_text_of_a_log_message_is_its_data() -> None:
    assert LogMessage("s", "info", None, {"a": 1}, '{"a":1}').text == '{"a":1}'


async def test_a_root_with_parent_segments_is_refused_and_one_with_dots_in_a_name_is_not() -> None:
    server = Asking(NEWEST_HANDSHAKE, ROOTS)
    answers = await asked(server, Handlers(roots=["file:///srv/a..b"]))  # type: ignore[list-item]
    assert answers["q0"] == {"roots": [{"uri": "file:///srv/a..b"}]}


async def test_many_requests_in_sequence_leave_at_most_one_watcher_task() -> None:
    server = Asking(NEWEST_HANDSHAKE, *[ROOTS] * 50)
    handlers = Handlers(roots=[])
    async with connect(MemoryServer(server), approval=allow_all, handlers=handlers) as session:
        await session.call_tool("ask")
        tasks = session._dispatcher._tasks
        assert tasks is not None
        assert len(tasks) <= 2


@pytest.mark.both_backends
async def test_cancelling_connect_while_the_log_level_is_set_closes_the_transport() -> None:
    reached = anyio.Event()

    class Mute(Asking):
        async def __call__(self, message: dict[str, Any], send: Any) -> Any:
            if message.get("method") == "logging/setLevel":
                reached.set()
                return None
            return await super().__call__(message, send)

    transport = MemoryTransport(Mute(NEWEST_HANDSHAKE))

    async def open_it() -> None:
        await connect(transport, handlers=Handlers(log_level="info"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_it)
        await reached.wait()
        tasks.cancel_scope.cancel()
    assert not transport.alive


async def test_a_log_line_after_closing_starts_no_task() -> None:
    lines: list[Any] = []
    server = Asking(NEWEST_HANDSHAKE)
    async with connect(
        MemoryServer(server), approval=allow_all, handlers=Handlers(log=lines.append)
    ) as session:
        await session.list_tools()
        logs = session._logs
    logs.handle({"level": "info", "data": "late"})
    await anyio.lowlevel.checkpoint()
    assert lines == []
    assert logs._queue is not None
    assert not logs._queue._busy


@pytest.mark.both_backends
async def test_a_coroutine_returned_after_cancellation_is_closed() -> None:
    let_go, running = threading.Event(), threading.Event()
    coroutines: list[Any] = []

    async def late() -> None:
        raise AssertionError("no one waits for this any more")

    def handler() -> Any:
        running.set()
        let_go.wait(30)
        coroutines.append(late())
        return coroutines[0]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(invoke_callback, handler)
        while not running.is_set():
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    let_go.set()
    while not coroutines or inspect.getcoroutinestate(coroutines[0]) != inspect.CORO_CLOSED:
        await anyio.lowlevel.checkpoint()


@pytest.mark.both_backends
@pytest.mark.parametrize(("within", "expected"), [(20.0, ["one", "two"]), (0.0, [])])
async def test_queued_calls_are_made_before_the_end_as_far_as_there_is_time(
    within: float, expected: list[str]
) -> None:
    begun, go_on, reported = anyio.Event(), anyio.Event(), list[str]()

    async def callback(text: str) -> None:
        begun.set()
        await go_on.wait()
        reported.append(text)

    queue = CallbackQueue(callback, "log", "desk", backend=current(), most=9, stats=Stats())
    queue.notify("one")
    queue.notify("two")
    await begun.wait()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(queue.aclose, within)
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    queue.notify("three")
    await anyio.wait_all_tasks_blocked()
    assert reported == expected


@pytest.mark.both_backends
async def test_a_new_connection_cancels_the_handlers_called_for_the_old_one() -> None:
    displayed, ended = anyio.Event(), anyio.Event()

    async def handler(request: ElicitRequest) -> None:
        try:
            displayed.set()
            await anyio.sleep_forever()
        finally:
            ended.set()

    server = Asking(NEWEST_HANDSHAKE)
    transport = MemoryServer(server)
    async with connect(transport, handlers=Handlers(elicitation=handler)) as session:
        await session.list_tools()
        server.put("q", FORM)
        await displayed.wait()
        transport.end()
        await session.list_tools(refresh=True)
        await ended.wait()
        assert session.generation == 2


async def test_a_request_during_closing_reaches_no_handler() -> None:
    displayed: list[ElicitRequest] = []

    server = Asking(NEWEST_HANDSHAKE)
    transport = MemoryTransport(server)
    closing = transport.aclose

    async def ask_and_close() -> None:
        server.put("last", FORM)
        await anyio.lowlevel.checkpoint()
        await closing()

    transport.aclose = ask_and_close  # type: ignore[method-assign]
    handlers = Handlers(elicitation=displayed.append)
    async with connect(transport, approval=allow_all, handlers=handlers) as session:
        await session.list_tools()
    assert session._dispatcher._tasks is not None
    assert len(session._dispatcher._tasks) == 0
    assert displayed == []
