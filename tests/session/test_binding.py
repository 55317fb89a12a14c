"""Arguments that the host sets: no one else sees or chooses them, and they are in what is approved,
recorded and sent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    ApprovalQueue,
    ApprovalRequest,
    CallDenied,
    CallPending,
    CancelToken,
    ConfigError,
    ConnectError,
    Deny,
    Finding,
    Handlers,
    Host,
    MemoryServer,
    Retry,
    Rule,
    Rules,
    ServerConfig,
    Session,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
    deny_all,
    stubs,
    sync,
)
from mcp_client.adapters import anthropic
from mcp_client.approval import Decisions
from mcp_client.errors import CallWithdrawn, InvalidArguments
from mcp_client.handlers import Accept
from mcp_client.transports.memory import MemoryTransport
from mcp_client.validation import Validation
from tests.support.asking import FORM, REVISIONS, Asking
from tests.support.http_apps import Stateless
from tests.support.http_server import serving
from tests.support.provider_shapes import PROVIDERS, Provider

pytestmark = pytest.mark.one_backend

both_eras = pytest.mark.parametrize("revision", REVISIONS)
TEXT = {"type": "string"}
SCHEMA = {
    "type": "object",
    "properties": {"title": TEXT, "tenant": TEXT, "user": TEXT},
    "required": ["title", "tenant"],
    "additionalProperties": False,
}
VIEW = {"_meta": {"ui": {"resourceUri": "ui://one", "visibility": ["model", "app"]}}}
ACME = {"create_*": {"tenant": "acme"}}


class Server:
    """Tools with a schema of their own, and what they were called with."""

    def __init__(self, **schemas: Any) -> None:
        self.schemas = schemas or {"create_note": SCHEMA, "read_note": SCHEMA}
        self.calls: list[dict[str, Any]] = []
        self.send: Callable[[Any], None] = lambda message: None

    def __call__(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        self.send = send
        capabilities = {"tools": {"listChanged": True}}
        match message.get("method"):
            case "server/discover":
                return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
            case "initialize":
                version = message["params"]["protocolVersion"]
                return {"protocolVersion": version, "capabilities": capabilities}
            case "tools/list":
                its = self.schemas.items()
                return {"tools": [{"name": name, "inputSchema": one, **VIEW} for name, one in its]}
            case "tools/call":
                self.calls.append(message["params"]["arguments"])
                return {"content": [{"type": "text", "text": "done"}]}
        return NotImplemented


def opened(server: Server, bind: Any, **options: Any) -> Any:
    options.setdefault("approval", allow_all)
    return connect(MemoryServer(server), name="notes", bind=bind, **options)


def keeping(calls: list[ToolCall], *answers: Allow | Deny) -> Callable[[ToolCall], Allow | Deny]:
    """A hook that stores its requests, and returns one decision after another, the last forever."""

    def approve(call: ToolCall) -> Allow | Deny:
        calls.append(call)
        return answers[min(len(calls), len(answers)) - 1] if answers else Allow()

    return approve


# ------------------------------------------------------------------------ what is listed


@both_eras
async def test_a_bound_argument_is_not_listed_and_is_sent(revision: str) -> None:
    server = Server()
    async with opened(server, ACME, revision=revision) as session:
        tool = await session.get_tool("create_note")
        other = await session.get_tool("read_note")
        await session.call_tool("create_note", {"title": "a"})
        await session.call_tool("read_note", {"title": "a", "tenant": "own"})
    assert (tool.bound, other.bound) == (("tenant",), ())
    assert tool.input_schema == {
        **SCHEMA,
        "properties": {"title": TEXT, "user": TEXT},
        "required": ["title"],
    }
    assert (tool.raw["inputSchema"], other.input_schema) == (SCHEMA, SCHEMA)
    assert server.calls == [{"title": "a", "tenant": "acme"}, {"title": "a", "tenant": "own"}]
    async with opened(server, None, revision=revision) as session:
        assert (await session.get_tool("create_note")).fingerprint == tool.fingerprint


@pytest.mark.parametrize("provider", PROVIDERS, ids=str)
@pytest.mark.parametrize("strict", [False, True])
async def test_no_model_stub_or_search_is_shown_it(provider: Provider, strict: bool) -> None:
    async with opened(Server(), ACME) as session:
        tools = [await session.get_tool("create_note")]
        found = await session.search_tools("tenant")
        stub = stubs.generate(tools)
    strict = strict and provider.is_strict
    kit = provider.toolset(tools, **({"strict": True} if strict else {}))
    assert "title" in json.dumps(kit.tools) and "tenant" not in json.dumps(kit.tools)
    assert "title" in stub and "tenant" not in stub
    assert [tool.name for tool in found] == ["read_note"]


async def test_what_matches_nothing_is_a_finding_of_the_list_and_sets_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    schemas: dict[str, Any] = {name: {"type": "object"} for name in "abcdefg"}
    server = Server(note=SCHEMA, **schemas)
    bind = {"crate_*": {"tenant": "acme"}, "*": {"tenant": "acme", "nowhere": 1}}
    async with opened(server, bind) as session:
        listed = await session.list_tools()
        await session.list_tools(refresh=True)
        assert [one.levelname for one in caplog.records] == ["WARNING"] * 3
        await session.call_tool("a", {"title": "a"})
        with pytest.raises(InvalidArguments, match="'tenant' is set by the host"):
            await session.call_tool("a", {"tenant": "own"})
    what = "not an argument of"
    assert [(one.kind, one.about, str(one)) for one in listed.own_findings] == [
        ("bind", "crate_*", "bind: 'crate_*' matches no tool: it sets nothing"),
        (
            "bind",
            "* tenant",
            f"bind: '*' sets 'tenant', {what} a, b, c, d, e and 2 more: it is not set there",
        ),
        (
            "bind",
            "* nowhere",
            f"bind: '*' sets 'nowhere', {what} note, a, b, c, d and 3 more: it is not set there",
        ),
    ]
    assert server.calls == [{"title": "a"}]


async def test_several_globs_set_all_their_options_and_the_last_one_wins() -> None:
    server = Server()
    bind = {"*": {"tenant": "all", "user": "ana"}, "create_*": {"tenant": "acme"}}
    async with opened(server, bind) as session:
        assert not (await session.list_tools()).own_findings
        await session.call_tool("create_note", {"title": "a"})
        await session.call_tool("read_note", {"title": "a"})
    assert [call["tenant"] for call in server.calls] == ["acme", "all"]
    assert [call["user"] for call in server.calls] == ["ana", "ana"]


async def test_it_is_sent_where_the_schema_has_it_behind_a_reference() -> None:
    schema = {"$ref": "#/$defs/Args", "$defs": {"Args": SCHEMA}}
    server = Server(create_note=schema)
    async with opened(server, ACME, validation=Validation(arguments="strict")) as session:
        tool = await session.get_tool("create_note")
        await session.call_tool("create_note", {"title": "a"})
    assert "tenant" not in json.dumps(tool.input_schema)
    assert server.calls == [{"title": "a", "tenant": "acme"}]


# ------------------------------------------------------------------------ who sees it


@both_eras
async def test_approver_rules_and_audit_see_what_is_sent(revision: str) -> None:
    server, calls = Server(), list[ToolCall]()
    records: list[Any] = []
    rules = Rules(
        [Rule("allow", tool="create_*", arguments={"/tenant": {"equals": "acme"}})],
        ask=keeping(calls),
    )
    options: Any = {"audit": records.append, "revision": revision}
    async with opened(server, ACME, approval=rules, **options) as session:
        await session.call_tool("create_note", {"title": "a"})
        assert not calls
    async with opened(server, {"*": {"tenant": "other"}}, approval=rules, **options) as session:
        await session.call_tool("create_note", {"title": "a"})
    (call,) = calls
    assert call.arguments == {"title": "a", "tenant": "other"}
    facts = {fact.kind: fact.text for fact in call.facts()}
    assert facts["bound"] == "tenant"
    assert json.loads(facts["arguments"]) == call.arguments
    again = ApprovalRequest.from_json(json.loads(json.dumps(call.to_json())))
    assert (again, again.facts()) == (call, call.facts())
    with pytest.raises(ValueError, match="a list member is missing"):
        ApprovalRequest.from_json({**call.to_json(), "bound": "tenant"})
    assert [one["facts"]["bound"] for one in records if one["event"] == "opened"] == ["tenant"] * 2
    written = [one["arguments"] for one in records if one["event"] == "opened"]
    assert written == [{"tenant": "acme", "title": "a"}, {"tenant": "other", "title": "a"}]


async def test_a_remembered_approval_is_for_the_value_that_was_approved() -> None:
    calls = list[ToolCall]()
    approval = keeping(calls, Allow(remember="exact"))
    async with opened(Server(), {"*": {"user": lambda context: context}}, approval=approval) as one:
        for context in ("ana", "ana", "bo"):
            await one.call_tool("create_note", {"title": "a", "tenant": "x"}, context=context)
    assert [call.arguments["user"] for call in calls] == ["ana", "bo"]


async def test_a_header_repeats_it_although_the_list_does_not_have_it() -> None:
    app = Stateless()
    marked = {"type": "string", "x-mcp-header": "Tenant"}
    app.schemas["echo"] = {"type": "object", "properties": {"tenant": marked, "a": TEXT}}
    async with (
        serving(app) as server,
        connect(server.url, approval=allow_all, bind={"*": {"tenant": "acme"}}) as session,
    ):
        assert list((await session.get_tool("echo")).input_schema["properties"]) == ["a"]
        await session.call_tool("echo", {"a": "b"})
    (request,) = server.saying("tools/call")
    assert request.headers["mcp-param-tenant"] == "acme"


@both_eras
async def test_a_question_of_the_server_does_not_change_what_is_sent(revision: str) -> None:
    server = Asking(revision, FORM)
    original = server.__call__

    async def handler(message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        if message.get("method") == "tools/list":
            return {"tools": [{"name": "ask", "inputSchema": SCHEMA}]}
        return await original(message, send)

    values = iter(("first", "second"))
    options: Any = {"revision": revision, "bind": {"*": {"tenant": lambda context: next(values)}}}
    handlers = Handlers(elicitation=lambda request: Accept({"name": "Ana"}))
    async with connect(
        MemoryServer(handler), approval=allow_all, handlers=handlers, **options
    ) as session:
        await session.call_tool("ask", {"title": "a"})
    sent = [params["arguments"] for params in server.all("tools/call")]
    assert sent == [{"tenant": "first", "title": "a"}] * len(sent)


# ------------------------------------------------------------------------ who may not give it


async def call_of_toolset(target: Any, name: str, arguments: Any) -> None:
    kit = anthropic.toolset(await target.list_tools())
    block = {"type": "tool_use", "id": "1", "name": name, "input": arguments}
    (message,) = await kit.run(target, {"content": [block]})
    (response,) = message["content"]
    if response.get("is_error"):
        raise InvalidArguments(json.dumps(response["content"]))


async def call_of_app(session: Session, name: str, arguments: Any) -> None:
    await session.app(await session.get_tool(name)).call_tool(name, arguments)


DOORS: dict[str, Callable[..., Any]] = {
    "call_tool": lambda session, host, *call: session.call_tool("create_note", *call),
    "start_tool": lambda session, host, *call: session.start_tool("create_note", *call),
    "Host.call_tool": lambda session, host, *call: host.call_tool("s__create_note", *call),
    "App.call_tool": lambda session, host, *call: call_of_app(session, "create_note", *call),
    "Toolset.run": lambda session, host, *call: call_of_toolset(session, "create_note", *call),
    "of a Host": lambda session, host, *call: call_of_toolset(host, "s__create_note", *call),
}


@pytest.mark.both_backends
@pytest.mark.parametrize("door", DOORS)
async def test_through_every_door_it_is_set_and_cannot_be_given(door: str) -> None:
    server, calls = Server(), list[ToolCall]()
    made, approval = MemoryServer(server), keeping(calls)
    async with (
        connect(made, approval=approval, bind=ACME) as session,
        Host({"s": ServerConfig(made, bind=ACME)}, approval=approval) as host,
    ):
        for passed in ("own", "acme", None):
            with pytest.raises(InvalidArguments, match="'tenant' is set by the host"):
                await DOORS[door](session, host, {"title": "a", "tenant": passed})
        assert not calls and not server.calls
        await DOORS[door](session, host, {"title": "a"})
    assert server.calls == [{"title": "a", "tenant": "acme"}]


def test_it_holds_without_an_event_loop() -> None:
    server = Server()
    bind = {"*": {"tenant": lambda context: f"of {context}"}}
    with sync.connect(MemoryServer(server), approval=allow_all, bind=bind) as session:
        session.call_tool("create_note", {"title": "a"}, context="ana")
        with pytest.raises(InvalidArguments, match="'tenant' is set by the host"):
            session.call_tool("create_note", {"tenant": "own"})
    config = ServerConfig(MemoryServer(server), bind=ACME)
    with sync.Host({"s": config}, approval=allow_all) as host:
        host.call_tool("s__create_note", {"title": "a"})
    assert [call["tenant"] for call in server.calls] == ["of ana", "acme"]


async def test_a_host_lists_it_out_and_states_what_matches_nothing() -> None:
    bind = {"create_*": {"tenant": "acme"}, "delete_*": {"tenant": "acme"}, "read_*": {"user": "a"}}
    config = ServerConfig(MemoryServer(Server()), bind=bind, exclude=["read_*"])
    async with Host({"s": config}, approval=allow_all) as host:
        listed = await host.list_tools()
    assert [(tool.qualified_name, tool.bound) for tool in listed] == [
        ("s__create_note", ("tenant",))
    ]
    assert [str(one) for one in listed.own_findings] == [
        f"server 's': bind: '{name}' matches no tool: it sets nothing"
        for name in ("delete_*", "read_*")
    ]
    assert "acme" not in repr(config)
    async with Host({"s": MemoryServer(Server())}, bind=bind, approval=allow_all) as host:
        assert ("tenant",) in [tool.bound for tool in await host.list_tools()]


async def test_a_response_that_waits_for_approval_is_resumed_with_it() -> None:
    server, queue = Server(), ApprovalQueue(decisions=Decisions(), wait=0)
    block = {"type": "tool_use", "id": "1", "name": "create_note", "input": {"title": "a"}}
    bind = {"*": {"tenant": "acme", "user": lambda context: f"user {context}"}}
    async with opened(server, bind, approval=queue) as session:
        kit = anthropic.toolset(await session.list_tools())
        with pytest.raises(CallPending) as caught:
            await kit.run(session, {"content": [block]}, context="ana")
        (pending,) = queue.pending
        queue.decide(pending.id, Allow())
        await kit.resume(session, caught.value.paused, context="ana")
    sent = {"title": "a", "tenant": "acme", "user": "user ana"}
    assert json.loads(pending.request.arguments_json) == sent
    assert server.calls == [sent]


# ------------------------------------------------------------------------ an approver's edit


@pytest.mark.parametrize("edit", [{"title": "better"}, {"title": "better", "tenant": "acme"}])
async def test_an_edit_cannot_lose_it(edit: dict[str, Any]) -> None:
    server, calls = Server(), list[ToolCall]()
    approval = keeping(calls, Allow(edit), Allow())
    async with opened(server, ACME, approval=approval) as session:
        await session.call_tool("create_note", {"title": "a"})
    sent = {"title": "better", "tenant": "acme"}
    assert server.calls == [sent]
    if "tenant" not in edit:  # the approver allows the call that is sent
        first, second = calls
        assert (second.arguments, second.edited) == (sent, True)
        text = "the edit left out arguments that the host sets; they were added again: tenant"
        assert second.findings == (*first.findings, Finding("bind", text, "tenant"))


async def test_a_denial_of_the_edit_with_the_value_put_back_sends_nothing() -> None:
    server, calls = Server(), list[ToolCall]()
    approval = keeping(calls, Allow({"title": "better"}), Deny("not like this"))
    async with opened(server, ACME, approval=approval) as session:
        with pytest.raises(CallDenied, match="not like this"):
            await session.call_tool("create_note", {"title": "a"})
    assert not server.calls


async def test_an_edit_cannot_change_it() -> None:
    server, calls, records = Server(), list[ToolCall](), list[Any]()
    bind = {"create_*": {"tenant": "acme", "nowhere": 1}}
    for change in ({"tenant": "evil"}, {"tenant": None}, {"tenant": ["acme"]}, {"nowhere": 1}):
        approval = keeping(calls, Allow({"title": "a", "tenant": "acme", **change}))
        async with opened(server, bind, approval=approval, audit=records.append) as session:
            with pytest.raises(InvalidArguments, match="which only the host sets") as caught:
                await session.call_tool("create_note", {"title": "a"})
        assert "evil" not in str(caught.value)
    assert not server.calls
    assert {one["outcome"] for one in records if one["event"] == "closed"} == {"InvalidArguments"}


async def test_an_edit_may_write_the_same_number_in_another_way() -> None:
    schema = {"type": "object", "properties": {"tenant": {}, "a": {}}}
    server = Server(create_note=schema)
    bind = {"*": {"tenant": {"id": 7.0}}}
    approval = keeping([], Allow({"a": 1, "tenant": {"id": 7}}))  # as a page gives it back
    async with opened(server, bind, approval=approval) as session:
        await session.call_tool("create_note", {"a": 0})
    assert json.dumps(server.calls) == '[{"a": 1, "tenant": {"id": 7.0}}]'


# ------------------------------------------------------------------------ functions


@pytest.mark.both_backends
async def test_a_function_is_given_the_context_of_the_call() -> None:
    async def user(context: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return f"user {context}"

    server = Server()
    bind = {"*": {"tenant": lambda context: f"tenant {context}", "user": user}}
    async with opened(server, bind) as session, anyio.create_task_group() as tasks:

        async def call(context: Any) -> None:
            await session.call_tool("create_note", {"title": "a"}, context=context)

        for context in ("ana", "bo", None):
            tasks.start_soon(call, context)
    assert sorted((call["tenant"], call["user"]) for call in server.calls) == [
        (f"tenant {name}", f"user {name}") for name in ("None", "ana", "bo")
    ]


async def test_a_function_may_ask_the_same_server_which_its_approver_decides() -> None:
    async def tenant(context: Any) -> Any:
        await session.call_tool("read_note", {"title": "mine", "tenant": "any"})
        return "acme"

    server, asked = Server(), list[ToolCall]()

    async def approve(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    async with opened(server, {"create_*": {"tenant": tenant}}, approval=approve) as session:
        await session.call_tool("create_note", {"title": "a"})
    assert [call.tool.name for call in asked] == ["read_note", "create_note"]
    assert [call["tenant"] for call in server.calls] == ["any", "acme"]


async def test_retries_keep_one_value() -> None:
    values = iter(range(9))
    server, tries = Server(), list[str]()

    class Wire(MemoryTransport):
        def clone(self) -> MemoryTransport:
            return Wire(server)

        async def exchange(self, id: Any, text: str, *rest: Any) -> Any:
            if '"tools/call"' in text:
                tries.append(json.loads(text)["params"]["arguments"]["tenant"])
                if len(tries) < 3:
                    raise ConnectError("the server is busy", retryable=True)
            return await super().exchange(id, text, *rest)

    asked: list[ToolCall] = []
    async with connect(
        Wire(server),
        approval=keeping(asked),
        retry=Retry(backoff=0),
        bind={"*": {"tenant": lambda context: f"value {next(values)}"}},
    ) as session:
        await session.call_tool("create_note", {"title": "a"})
        assert tries == ["value 0"] * 3
        await session.call_tool("create_note", {"title": "a"})
    assert tries[3:] == ["value 1"]
    assert len(asked) == 2


@pytest.mark.parametrize("gone", [True, False])
async def test_a_definition_that_changes_during_the_question_is_bound_again(gone: bool) -> None:
    values = iter(range(9))
    bare = {"type": "object", "properties": {"title": TEXT}}
    server, calls = Server(create_note=SCHEMA if gone else bare), list[ToolCall]()

    async def approve(call: ToolCall) -> Allow:
        calls.append(call)
        if len(calls) == 1:
            server.schemas["create_note"] = bare if gone else SCHEMA
            server.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return Allow()

    bind = {"*": {"tenant": lambda context: f"value {next(values)}"}}
    async with opened(server, bind, approval=approve, revision="2025-11-25") as session:
        await session.call_tool("create_note", {"title": "a"})
    with_it, without = {"title": "a", "tenant": "value 0"}, {"title": "a"}
    assert [call.arguments for call in calls] == (
        [with_it, without] if gone else [without, with_it]
    )
    assert server.calls == [calls[-1].arguments]


def raises(context: Any) -> Any:
    raise KeyError("hunter2")


class Unreadable(dict[str, Any]):
    def items(self) -> Any:
        raise OSError("hunter2")


async def raises_ours(context: Any) -> Any:
    raise ConfigError("hunter2")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (raises, r"returned no value \(it raised KeyError\)"),
        (raises_ours, r"returned no value \(it raised ConfigError\)"),
        (lambda: "no parameter", r"returned no value \(it raised TypeError\)"),
        (lambda context: Unreadable(), r"returned no value \(it raised OSError\)"),
        (lambda context: {"hunter2"}, "returned a set that is not JSON"),
        (lambda context: [float("nan")], "returned a list that is not JSON"),
        (lambda context: "\ud800", "returned a str that is not JSON"),
    ],
)
async def test_a_function_without_a_value_ends_the_call_before_anybody_is_asked(
    value: Any, why: str
) -> None:
    server, calls, records = Server(), list[ToolCall](), list[Any]()
    options: Any = {"approval": keeping(calls), "audit": records.append}
    async with opened(server, {"*": {"tenant": value}}, **options) as session:
        text = f"the host sets the argument 'tenant', and its function {why}"
        with pytest.raises(InvalidArguments, match=text) as caught:
            await session.call_tool("create_note", {"title": "a"})
    assert (caught.value.tool, caught.value.path) == ("create_note", "/tenant")
    assert not server.calls and not calls
    assert "hunter2" not in str(caught.value) + json.dumps(records, default=str)
    assert [one["event"] for one in records] == ["opened", "closed"]


@pytest.mark.both_backends
async def test_a_function_that_never_ends_has_the_approval_clock_and_ends_with_the_session() -> (
    None
):
    entered = anyio.Event()

    async def waits(context: Any) -> Any:
        if context:
            entered.set()
        await anyio.sleep_forever()

    async def call(error: type[Exception], text: str, **options: Any) -> None:
        with pytest.raises(error, match=text):
            await session.call_tool("create_note", {"title": "a"}, **options)

    server, token = Server(), CancelToken()
    async with opened(server, {"*": {"tenant": waits}}) as session:
        text = r"returned no value \(none within 0.01 s, Timeouts\(approval=...\)\)"
        await call(InvalidArguments, text, timeout=Timeouts(approval=0.01))
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(call, CallWithdrawn, "no", cancel=token, context=1))
                await entered.wait()
                token.cancel("no")
            entered = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(call, InvalidArguments, "was closed", context=2))
                await entered.wait()
                await session.aclose()
    assert not server.calls


# ------------------------------------------------------------------------ validation


async def test_a_bound_value_that_breaks_the_schema_is_reported_to_the_approver_alone() -> None:
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "tenant": {"type": "integer"}}}  # type: ignore[dict-item]
    server, calls = Server(create_note=schema), list[ToolCall]()
    async with opened(server, {"*": {"tenant": "hunter2"}}, approval=keeping(calls)) as session:
        with pytest.raises(InvalidArguments) as caught:
            await call_of_toolset(session, "create_note", {"title": "a"})
        assert not calls
        await session.call_tool("create_note", {"title": "a"})
    assert "hunter2" not in str(caught.value)
    assert "/tenant" in str(caught.value)
    assert "hunter2" in str(calls[0].findings[0])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "the whole value: expected the property"),
        ({"title": "a", "other": 1}, "the whole value: expected something else"),
        ({"title": 7}, "/title: expected string, got 7"),
    ],
)
async def test_a_model_is_informed_of_what_is_wrong_with_its_own_arguments(
    arguments: dict[str, Any], expected: str
) -> None:
    server = Server()
    async with opened(server, {"*": {"tenant": "hunter2"}}, approval=deny_all) as session:
        with pytest.raises(InvalidArguments) as caught:
            await call_of_toolset(session, "create_note", arguments)
    assert expected in str(caught.value)
    assert "hunter2" not in str(caught.value) and "tenant" not in str(caught.value)


# ------------------------------------------------------------------------ the option


@pytest.mark.parametrize(
    ("bind", "text"),
    [
        (5, "bind is a int: give a mapping"),
        (["create_*"], "bind is a list: give a mapping"),
        ({7: {}}, "bind has a int as a glob over names of tools: give a non-empty str"),
        ({"": {}}, "bind has an empty str as a glob"),
        ({"a": "hunter2"}, r"bind\['a'\] is a str: give a mapping"),
        ({"a": {7: "hunter2"}}, "bind has a int as the name of an argument"),
        ({"a": {"": "hunter2"}}, "bind has an empty str as the name of an argument"),
        ({"a": {"b": {"hunter2"}}}, r"bind\['a'\]\['b'\] is a set that is not JSON"),
        ({"a": {"b": [float("inf")]}}, r"bind\['a'\]\['b'\] is a list that is not JSON"),
        ({"a": {"\ud800": 1}}, "is a int that is not JSON"),
    ],
)
async def test_a_wrong_bind_is_an_error_at_once_without_its_values(bind: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        connect(MemoryServer(Server()), bind=bind)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigError, match=text):
        Host({"s": ServerConfig(MemoryServer(Server()), bind=bind)})


@pytest.mark.slow
def test_a_session_without_it_loads_none_of_it() -> None:
    code = (
        "import sys\n"
        "from mcp_client import allow_all, MemoryServer, sync\n"
        "tool = {'name': 't', 'inputSchema': {'type': 'object'}}\n"
        "results = {'tools/list': {'tools': [tool]}, 'tools/call': {'content': []}}\n"
        "server = MemoryServer(lambda message: results.get(message['method'], NotImplemented))\n"
        "with sync.connect(server, approval=allow_all) as session:\n"
        "    session.list_tools()[0].input_schema\n"
        "    session.call_tool('t')\n"
        "print(*[name for name in sys.modules if 'bind' in name or 'bound' in name])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


async def test_a_long_list_is_bound_without_stopping_the_loop() -> None:
    tools = [{"name": f"create_{number}", "inputSchema": SCHEMA} for number in range(600)]

    async def handle(message: dict[str, Any]) -> Any:
        return {"tools": tools} if message["method"] == "tools/list" else NotImplemented

    options: dict[str, Any] = {"bind": {"create_*": {"tenant": "acme"}}, "approval": allow_all}
    async with connect(MemoryServer(handle), **options) as session:
        listed = await session.list_tools()
    assert [tool.bound for tool in listed] == [("tenant",)] * 600


async def test_what_the_host_gave_may_change_afterwards() -> None:
    server = Server()
    value: dict[str, Any] = {"id": [1]}
    server.schemas["create_note"] = {"properties": {"tenant": {}}, "type": "object"}
    bind = {"*": {"tenant": value}}
    async with opened(server, bind) as session:
        value["id"].append(2)
        bind.clear()
        await session.call_tool("create_note")
    assert server.calls == [{"tenant": {"id": [1]}}]
