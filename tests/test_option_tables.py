"""The options of calls, sessions and hosts: one table of each, and every face compared with it."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import re
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, cast

import pytest

from mcp_client import (
    Allow,
    ApprovalQueue,
    CallPending,
    CancelToken,
    ConfigError,
    Deny,
    Handlers,
    Host,
    HttpServer,
    MemoryServer,
    Retry,
    ServerConfig,
    Session,
    StdioServer,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
    sync,
)
from mcp_client.adapters import anthropic, gemini, openai_chat, openai_responses
from mcp_client.adapters.model_tools import ToolsetOptions
from mcp_client.adapters.toolset import Toolset
from mcp_client.approval.remember import CHOICES
from mcp_client.cli.parser import parsed
from mcp_client.cli.session import options_of
from mcp_client.connection.call_options import CallOptions, CallProgress, ReadOptions
from mcp_client.errors import CallWithdrawn, InvalidArguments, UnknownTool
from mcp_client.extensions.apps import App
from mcp_client.host.options import HostOptions
from mcp_client.session.session_options import OF_SESSION, Setup
from mcp_client.state import MemoryState
from mcp_client.testing import Recording
from mcp_client.validation import Validation

VIEW = {"_meta": {"ui": {"resourceUri": "ui://one", "visibility": ["model", "app"]}}}


class Server:
    """A tool ``t`` with a view, whose progress is reported once, and what was called with."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.reads: list[dict[str, Any]] = []

    async def answer(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        params = message.get("params", {})
        match message.get("method"):
            case "initialize":
                return {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                    "serverInfo": {"name": "s", "version": "1"},
                }
            case "tools/list":
                return {"tools": [{"name": "t", "inputSchema": {"type": "object"}, **VIEW}]}
            case "tools/call":
                self.calls.append(params)
                progress = {"progressToken": params["_meta"]["progressToken"], "progress": 1}
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
                return {"content": [{"type": "text", "text": "done"}]}
            case "resources/read":
                self.reads.append(params)
                return {"contents": [{"uri": params["uri"], "text": "a note"}]}
            case "prompts/get":
                self.reads.append(params)
                content = {"type": "text", "text": "hello"}
                return {"messages": [{"role": "user", "content": content}]}
        return NotImplemented


def response(name: str) -> dict[str, Any]:
    return {"content": [{"type": "tool_use", "id": "1", "name": name, "input": {}}]}


async def call_of_toolset(target: Any, name: str, **options: Any) -> None:
    await anthropic.toolset(await target.list_tools()).run(target, response(name), **options)


async def call_of_app(session: Session, **options: Any) -> None:
    await session.app(await session.get_tool("t")).call_tool("t", **options)


CALLS: dict[str, Callable[..., Any]] = {
    "Session.call_tool": lambda session, host, **options: session.call_tool("t", **options),
    "Session.start_tool": lambda session, host, **options: session.start_tool("t", **options),
    "Host.call_tool": lambda session, host, **options: host.call_tool("s__t", **options),
    "Host.start_tool": lambda session, host, **options: host.start_tool("s__t", **options),
    "App.call_tool": lambda session, host, **options: call_of_app(session, **options),
    "Toolset.run": lambda session, host, **options: call_of_toolset(session, "t", **options),
    "Toolset.run of a Host": lambda session, host, **options: call_of_toolset(
        host, "s__t", **options
    ),
}
"""Every way to make a call, given an open session and an open host."""

SYNC_CALLS: dict[str, Callable[..., Any]] = {
    "Session.call_tool": lambda session, host, **options: session.call_tool("t", **options),
    "Session.start_tool": lambda session, host, **options: session.start_tool("t", **options),
    "Host.call_tool": lambda session, host, **options: host.call_tool("s__t", **options),
    "Host.start_tool": lambda session, host, **options: host.start_tool("s__t", **options),
    "App.call_tool": lambda session, host, **options: session.app(session.get_tool("t")).call_tool(
        "t", **options
    ),
    "Toolset.run": lambda session, host, **options: anthropic.toolset(session.list_tools()).run(
        session, response("t"), **options
    ),
}

READS: dict[str, Callable[..., Any]] = {
    "Session.read_resource": lambda session, host, **options: session.read_resource(
        "note://one", **options
    ),
    "Session.get_prompt": lambda session, host, **options: session.get_prompt("p", **options),
    "Host.read_resource": lambda session, host, **options: host.read_resource(
        "note://one", server="s", **options
    ),
    "Host.get_prompt": lambda session, host, **options: host.get_prompt("p", server="s", **options),
    "App.read_resource": lambda session, host, **options: read_of_app(session, **options),
}


async def read_of_app(session: Session, **options: Any) -> None:
    await session.app(await session.get_tool("t")).read_resource("note://one", **options)


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "timeout": ("soon", ConfigError, "timeout is 'soon': give seconds"),
    "on_progress": (5, ConfigError, "on_progress=5: give a function"),
    "meta": (5, InvalidArguments, "meta is a int: give a dict"),
    "validation": ("hard", ConfigError, "validation='hard': give 'strict', 'warn' or 'off'"),
    "cancel": (5, ConfigError, "cancel=5: give a CancelToken"),
    "context": ([], ConfigError, "context is a list: give a hashable value"),
    "tag": (object(), ConfigError, "tag is a object that JSON cannot represent"),
    "retry": (5, ConfigError, r"retry=5: give Retry\(attempts=...\)"),
    "idempotency_key": (5, ConfigError, "idempotency_key=5: give a str of 1 to 500 characters"),
}

each_call = pytest.mark.parametrize("face", CALLS)
each_read = pytest.mark.parametrize("face", READS)


class TestTheOptionsOfACall:
    def test_each_is_in_the_table_of_wrong_values(self) -> None:
        assert list(WRONG) == list(CallOptions.__annotations__)
        assert set(ReadOptions.__annotations__) < set(CallOptions.__annotations__)

    @pytest.mark.parametrize(
        "method",
        [
            Session.call_tool,
            Session.start_tool,
            Host.call_tool,
            Host.start_tool,
            App.call_tool,
            Toolset.run,
            Toolset.resume,
            sync.Session.call_tool,
            sync.Session.start_tool,
            sync.Host.call_tool,
            sync.Host.start_tool,
            sync.App.call_tool,
        ],
    )
    def test_every_face_takes_them_from_the_one_list(self, method: Callable[..., Any]) -> None:
        *others, options = inspect.signature(method).parameters.values()
        assert (options.kind, options.annotation) == (options.VAR_KEYWORD, "Unpack[CallOptions]")
        assert not {other.name for other in others} & set(CallOptions.__annotations__)

    @each_call
    async def test_a_wrong_value_is_the_same_error_on_every_face(self, face: str) -> None:
        server = Server()
        async with opened(server) as (session, host):
            for option, (value, kind, text) in WRONG.items():
                with pytest.raises(kind, match=text) as raised:
                    await CALLS[face](session, host, **{option: value})
                assert type(raised.value) is kind, option
            with pytest.raises(TypeError, match="a call has no option 'origin'"):
                await CALLS[face](session, host, origin="app")
        assert server.calls == []

    async def test_resuming_a_response_refuses_the_same_values(self) -> None:
        async with opened(Server()) as (session, host):
            kit = anthropic.toolset(await session.list_tools())
            for target in (session, host):
                for option, (value, kind, text) in WRONG.items():
                    with pytest.raises(kind, match=text):
                        await kit.resume(target, "x", **{option: value})

    @pytest.mark.one_backend
    @pytest.mark.parametrize("face", SYNC_CALLS)
    def test_and_on_those_without_an_event_loop(self, face: str) -> None:
        server = MemoryServer(Server().answer)
        with (
            sync.connect(server, approval=allow_all) as session,
            sync.Host({"s": server}, approval=allow_all) as host,
        ):
            for option, (value, kind, text) in WRONG.items():
                with pytest.raises(kind, match=text):
                    SYNC_CALLS[face](session, host, **{option: value})
            with pytest.raises(TypeError, match="a call has no option 'origin'"):
                SYNC_CALLS[face](session, host, origin="app")
            SYNC_CALLS[face](session, host, timeout=5, context="ana", retry=Retry())

    @each_call
    async def test_each_does_what_it_documents_on_every_face(self, face: str) -> None:
        server, seen, reported = Server(), list[ToolCall](), list[float]()

        def approve(call: ToolCall) -> Allow:
            seen.append(call)
            return Allow()

        async with opened(server, approve) as (session, host):
            token = CancelToken()
            await CALLS[face](
                session,
                host,
                timeout=5,
                on_progress=lambda progress, total, message: reported.append(progress),
                meta={"com.example/key": "value"},
                validation="off",
                cancel=token,
                context="ana",
                retry=Retry(),
            )
            assert [call.context for call in seen] == ["ana"]
            assert [call["_meta"]["com.example/key"] for call in server.calls] == ["value"]
            assert reported == [1]
            token.cancel("changed my mind")
            try:
                await CALLS[face](session, host, cancel=token)
            except CallWithdrawn:
                assert not face.startswith("Toolset.run")  # which shows the model
            assert len(server.calls) == 1

    @each_read
    async def test_the_options_of_a_read_are_the_same_on_every_face(self, face: str) -> None:
        server = Server()
        async with opened(server) as (session, host):
            for option in ReadOptions.__annotations__:
                value, kind, text = WRONG[option]
                with pytest.raises(kind, match=text):
                    await READS[face](session, host, **{option: value})
            with pytest.raises(TypeError, match="a read has no option 'retry'"):
                await READS[face](session, host, retry=Retry())
            assert server.reads == []
            meta = {"com.example/key": "value"}
            await READS[face](session, host, timeout=5, meta=meta, context="ana")
            assert server.reads[0]["_meta"]["com.example/key"] == "value"


@asynccontextmanager
async def opened(
    server: Server, approval: Any = allow_all, **options: Any
) -> AsyncIterator[tuple[Session, Host]]:
    """A session and a host of one server each."""
    made = MemoryServer(server.answer)
    async with (
        connect(made, approval=approval, **options) as session,
        Host({"s": made}, approval=approval, **options) as host,
    ):
        yield session, host


class TestTheProgressOfAModelsCalls:
    @pytest.mark.parametrize("is_async", [False, True])
    async def test_names_which_call_is_asked_about_sent_and_done(self, is_async: bool) -> None:
        reported = list[CallProgress]()

        async def report(progress: CallProgress) -> None:
            reported.append(progress)

        def approve(call: ToolCall) -> Allow | Deny:
            return Deny("no") if call.context == "denied" else Allow()

        server = Server()
        async with opened(server, approve) as (session, host):
            for target, name in ((session, "t"), (host, "s__t")):
                reported.clear()
                kit = anthropic.toolset(await target.list_tools())
                use = {"type": "tool_use", "name": name, "input": {}}
                both = {"content": [{**use, "id": "1"}, {**use, "id": "2"}]}
                await kit.run(target, both, on_progress=report if is_async else reported.append)
                for id in ("1", "2"):
                    theirs = [one for one in reported if one.id == id]
                    steps = [one.step for one in theirs]
                    assert steps == ["asked", "sent", "running", "done"]
                    assert {one.name for one in theirs} == {"s__t"} if target is host else {"t"}
                    assert [one.progress for one in theirs] == [None, None, 1, None]
                    assert not any(one.is_error for one in theirs)
            reported.clear()
            await kit.run(host, response("s__t"), on_progress=reported.append, context="denied")
            assert [(one.step, one.is_error) for one in reported] == [
                ("asked", False),
                ("done", True),
            ]

    async def test_reports_the_end_of_a_call_that_cannot_be_made(self) -> None:
        reported = list[CallProgress]()
        async with opened(Server(), allow_all) as (session, _):
            kit = openai_chat.toolset(await session.list_tools())
            calls = [
                {"id": id, "function": {"name": name, "arguments": arguments}}
                for id, name, arguments in (("1", "t", "{"), ("2", "no_such", "{}"))
            ]
            await kit.run(session, {"tool_calls": calls}, on_progress=reported.append)
        ends = {(one.id, one.step, one.is_error) for one in reported}
        assert ends == {("1", "done", True), ("2", "done", True)}

    async def test_reports_that_a_call_waits_and_goes_on_when_it_is_resumed(self) -> None:
        reported, state = list[CallProgress](), MemoryState()
        queue = ApprovalQueue(decisions=state.decisions, wait=0)
        async with opened(Server(), queue, state=state) as (session, _):
            kit = anthropic.toolset(await session.list_tools())
            with pytest.raises(CallPending) as raised:
                await kit.run(session, response("t"), on_progress=reported.append)
            assert [one.step for one in reported] == ["asked", "pending"]
            queue.decide(raised.value.tickets, Allow())
            await kit.resume(session, raised.value.paused, on_progress=reported.append)
            assert [one.step for one in reported[2:]] == ["asked", "sent", "running", "done"]

    @pytest.mark.parametrize("wrong", [lambda: None, lambda one, two: None, 5])
    async def test_another_function_is_refused_before_anything_is_sent(self, wrong: Any) -> None:
        server = Server()
        async with opened(server) as (session, host):
            for call in CALLS.values():
                with pytest.raises(ConfigError, match="give a function of progress"):
                    await call(session, host, on_progress=wrong)
        assert server.calls == []


class TestATag:
    @each_call
    @pytest.mark.parametrize("tag", [("chat-7", 3), {"chat": "c", "turn": [1]}, "c", 0, False])
    async def test_is_in_the_call_and_in_both_records_and_nowhere_else(
        self, face: str, tag: Any
    ) -> None:
        server, seen, records = Server(), list[ToolCall](), list[dict[str, Any]]()

        def approve(call: ToolCall) -> Allow:
            seen.append(call)
            return Allow(remember="session")

        async with opened(server, approve, audit=records.append) as (session, host):
            await CALLS[face](session, host, tag=tag)
            (call,) = seen
            assert call.tag == tag
            plain = json.loads(json.dumps(tag))
            records = [one for one in records if one["event"] in ("opened", "closed")]
            assert [one["tag"] for one in records] == [plain, plain]
            assert "tag" not in json.dumps(server.calls)
            for other in (replace(call, tag="another"), replace(call, tag=None)):
                assert (other.facts(), other.key, other.digest, other) == (
                    call.facts(),
                    call.key,
                    call.digest,
                    call,
                )
            stored = json.loads(json.dumps(call.to_json()))
            assert cast(ToolCall, type(call).from_json(stored)).tag == tag
            await CALLS[face](session, host, tag="another turn")
            assert len(seen) == 1, "the approval of one tag was not remembered for another"
        assert len(server.calls) == 2

    @pytest.mark.parametrize(
        "tag", [object(), {1: 2}, float("nan"), "\ud800", {"a": {"b": {1, 2}}}, "x" * 4_000]
    )
    async def test_that_no_record_can_have_is_refused_at_once(self, tag: Any) -> None:
        server = Server()
        async with opened(server) as (session, _):
            with pytest.raises(ConfigError, match=r"^tag (is|has)"):
                await session.call_tool("t", tag=tag)
        assert server.calls == []

    async def test_does_not_follow_what_the_host_changes_later(self) -> None:
        tag, seen = {"turn": 1}, list[ToolCall]()

        def approve(call: ToolCall) -> Allow:
            tag["turn"] = 2
            seen.append(call)
            return Allow()

        async with opened(Server(), approve) as (session, _):
            await session.call_tool("t", tag=tag)
        assert seen[0].tag == {"turn": 1}
        with pytest.raises(TypeError):
            seen[0].tag["turn"] = 3

    async def test_is_not_part_of_what_an_idempotency_key_is_for(self, tmp_path: Path) -> None:
        server = Server()
        async with opened(server, state=tmp_path / "state") as (session, _):
            for turn in (1, 2):
                result = await session.call_tool("t", idempotency_key="k", tag=turn)
                assert result.text == "done"
        assert len(server.calls) == 1

    async def test_is_recorded_of_a_call_that_cannot_be_made(self) -> None:
        records = list[dict[str, Any]]()
        async with opened(Server(), audit=records.append) as (session, host):
            for target, name in ((session, "no"), (host, "s__no"), (host, "no")):
                with pytest.raises(UnknownTool):
                    await target.call_tool(name, tag="turn 1")
            kit = anthropic.toolset(await session.list_tools())
            await kit.run(session, response("no"), tag="turn 1")
        of_calls = [one.get("tag") for one in records if one["event"] in ("opened", "closed")]
        assert of_calls == ["turn 1"] * 8

    def test_of_an_example_is_there_for_tests_of_hooks(self) -> None:
        assert ToolCall.example("t", tag=("chat", 1)).tag == ("chat", 1)
        assert ToolCall.example("t").tag is None


OPTIONS = {
    name: parameter
    for name, parameter in inspect.signature(connect).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}
WORDS_OF_CONNECT = [
    *("name", "trusted", "approval", "handlers", "state", "pins", "audit", "timeouts", "limits"),
    *("validation", "retry", "bind", "policy", "revision", "client_info"),
]
MOVED = {
    "record": "Recording",
    "decisions": "FileState",
    "argument_validation": "Validation",
    "audit_failure": "Audit",
    "redaction": "Audit",
    "trace_content": "Audit",
    "extensions": "ClientInfo",
    "headers": "HttpServer",
    "env": "StdioServer",
}
"""Options of another object, and which."""
OF_ONE_SERVER = {"name"}
"""Options of ``connect`` that a host does not have for all its servers."""
OF_A_HOST = {"keep_listed", "naming", "required", "sandbox"}
OF_THE_HOST_ALONE = {
    "audit",
    "state",
    "pins",
    "name",
    "policy",
}
"""Options of ``connect`` that one server of a host does not set: what is stored and written for all
its servers is made once, and the name is the key."""
FOR_PROGRAMS = {
    "name",
    "bind",
    "limits",
    "validation",
    "client_info",
    "retry",
}
"""Options of ``connect`` that no word of the command line sets."""
OF_A_SERVER_CONFIG = {
    *("server", "include", "exclude", "enabled", "lazy", "sandbox", "description")
}


class TestTheOptionsOfASession:
    def test_a_host_has_those_of_connect_of_the_same_types(self) -> None:
        of_host = HostOptions.__annotations__
        assert set(of_host) - OF_A_HOST == set(OPTIONS) - OF_ONE_SERVER
        for name in set(of_host) - OF_A_HOST:
            assert named(of_host[name]) == named(OPTIONS[name].annotation), name

    def test_a_server_of_a_host_has_those_that_are_its_own(self) -> None:
        own = {one.name: str(one.type) for one in fields(ServerConfig)}
        assert set(own) - OF_A_SERVER_CONFIG == set(OPTIONS) - OF_THE_HOST_ALONE
        for name in set(own) - OF_A_SERVER_CONFIG:
            assert named(own[name]) == named(OPTIONS[name].annotation) | {"None"}, name

    @pytest.mark.parametrize("option", sorted(OPTIONS))
    def test_a_wrong_value_of_each_is_an_error_that_names_it(self, option: str) -> None:
        wrong: Any = {option: object()}
        with pytest.raises(ConfigError, match=rf"^{option}\b"):
            connect(MemoryServer(Server().answer), **wrong)

    def test_those_in_the_table_of_checks_are_fields_of_a_session(self) -> None:
        assert set(OF_SESSION) <= {one.name for one in fields(Setup)} & set(OPTIONS)

    def test_connect_has_room_for_more_of_them(self) -> None:
        """An option takes a line of the signature, and one more unless it is in the table."""
        lines = inspect.getsource(inspect.unwrap(connect)).splitlines()
        code = lines[next(n for n, line in enumerate(lines) if line.startswith("def ")) :]
        assert len(code) - len((connect.__doc__ or "").splitlines()) <= 54

    @pytest.mark.parametrize("face", [Host, sync.Host])
    def test_hosts_take_them_from_the_one_list(self, face: Any) -> None:
        for method in (face.__init__, face.from_config):
            options = list(inspect.signature(method).parameters.values())[-1]
            assert (options.kind, options.annotation) == (
                options.VAR_KEYWORD,
                "Unpack[HostOptions]",
            )

    def test_the_shell_has_a_word_for_each_but_those_for_programs(self) -> None:
        words = vars(parsed(["tools", "https://one.example"]))
        asked = options_of(Namespace(**{**words, "terminal": True}))
        assert set(asked) <= set(OPTIONS)
        in_shell = set(asked) | ({"revision", "state"} & set(words))
        assert in_shell == set(OPTIONS) - FOR_PROGRAMS

    def test_help_has_a_word_on_each(self) -> None:
        for text, names in (
            (Host.__init__.__doc__, set(HostOptions.__annotations__)),
            (sync.Host.__init__.__doc__, set(HostOptions.__annotations__)),
            (CallOptions.__doc__, set(CallOptions.__annotations__)),
            (Session.call_tool.__doc__, set(CallOptions.__annotations__)),
        ):
            assert {name for name in names if f"``{name}" not in (text or "")} == set()
        for face in (connect, sync.connect):
            described = re.findall(r"^ +(\w+): ", (face.__doc__ or "").split("Returns:")[0], re.M)
            assert described == ["server", *OPTIONS]

    def test_they_are_fifteen_in_the_order_of_the_help(self) -> None:
        assert list(OPTIONS) == WORDS_OF_CONNECT
        of_host = [name for name in HostOptions.__annotations__ if name not in OF_A_HOST]
        assert of_host == WORDS_OF_CONNECT[1:]

    @pytest.mark.parametrize("option", MOVED)
    def test_an_option_that_is_elsewhere_is_an_error_that_names_its_place(
        self, option: str
    ) -> None:
        passed: Any = {option: None}
        for make in (lambda: connect([sys.executable], **passed), lambda: Host({}, **passed)):
            with pytest.raises(
                ConfigError, match=f"has no option '{option}': give.*{MOVED[option]}"
            ):
                make()

    async def test_what_one_server_sets_beats_the_host(self, tmp_path: Path) -> None:
        server = MemoryServer(Server().answer)
        config = ServerConfig(
            server,
            validation=Validation(arguments="off"),
            retry=Retry(5),
        )
        options: Any = {
            "approval": allow_all,
            "validation": Validation(arguments="strict"),
            "retry": Retry(2),
        }
        reported = Recording(server, tmp_path / "b.jsonl")
        async with Host({"a/..": config, "b": reported}, **options) as host:
            setups = [host.sessions[name]._setup for name in ("a/..", "b")]
            assert [one.validation.arguments for one in setups] == ["off", "strict"]
            assert [one.retry for one in setups] == [Retry(5), Retry(2)]
            await host.call_tool("b__t")
        lines = (tmp_path / "b.jsonl").read_text().splitlines()
        assert [json.loads(line).get("method") for line in lines].count("tools/call") == 1

    async def test_a_record_has_what_is_reported_after_a_server_was_started_again(
        self, tmp_path: Path
    ) -> None:
        server = MemoryServer(Server().answer)
        reported = Recording(server, tmp_path / "a.jsonl")
        async with Host({"a/b": reported}, approval=allow_all) as host:
            (tool,) = await host.list_tools()
            await host.call_tool(tool.qualified_name)
            session = await host.session("a/b")
            await session.aclose()
            await host.reconnect("a/b")
            await host.call_tool(tool.qualified_name)
        text = (tmp_path / "a.jsonl").read_text()
        assert [json.loads(line).get("method") for line in text.splitlines()].count(
            "tools/call"
        ) == 2


def named(kind: object) -> set[str]:
    """The members of a union, as it is written in the code."""
    return set(str(getattr(kind, "__forward_arg__", kind)).split(" | "))


class TestATargetWithoutAnEventLoop:
    """``Toolset.run`` waits for a session or host of ``mcp_client.sync``, a subclass included."""

    @pytest.mark.one_backend
    def test_a_subclass_of_the_blocking_host_is_waited_for(self) -> None:
        class Own(sync.Host):
            pass

        with Own({"s": MemoryServer(Server().answer)}, approval=allow_all) as host:
            kit = anthropic.toolset(host.list_tools())
            (message,) = kit.run(host, response("s__t"))
        assert message["role"] == "user"


WRONG_OF_A_TOOLSET: dict[str, tuple[Any, str]] = {
    "strict": ("yes", "strict='yes': give True or False"),
    "search": ("all", "search='all': give True, False, 'auto' or 'native'"),
    "always": ("files__*", "always='files__\\*': give a list of globs"),
    "budget": (-1, "budget=-1: give a whole number of characters, 0 or more"),
    "structured": (True, "structured=True: give 'auto' or 'always'"),
    "large_results": ("lose", "large_results='lose': give 'cut' or 'keep'"),
    "stored_bytes": (0, "stored_bytes=0: give a whole number above 0"),
    "show_images": (1, "show_images=1: give True or False"),
    "code": (1, "code=1: give True or False"),
}


class TestTheOptionsOfAToolset:
    def test_each_is_in_the_table_of_wrong_values_and_has_a_word_in_the_help(self) -> None:
        assert list(WRONG_OF_A_TOOLSET) == list(ToolsetOptions.__annotations__)
        reported = ToolsetOptions.__doc__ or ""
        assert [name for name in WRONG_OF_A_TOOLSET if f"``{name}``" not in reported] == []

    @pytest.mark.parametrize("module", [anthropic, gemini, openai_chat, openai_responses])
    def test_every_provider_takes_them_from_the_one_list(self, module: Any) -> None:
        for face in (module.toolset, module.Toolset.__init__):
            *_, options = inspect.signature(face).parameters.values()
            assert (options.kind, options.annotation) == (
                options.VAR_KEYWORD,
                "Unpack[ToolsetOptions]",
            )
        for option, (value, text) in WRONG_OF_A_TOOLSET.items():
            with pytest.raises(ConfigError, match=text):
                module.toolset([], **{option: value})
        with pytest.raises(TypeError, match="toolset\\(\\) has no option 'stricter'"):
            module.toolset([], stricter=True)

    @pytest.mark.parametrize(
        "options", [{"search": True}, {"search": "auto"}, {"search": "native"}, {"budget": 1}]
    )
    def test_code_goes_with_no_other_search(self, options: Any) -> None:
        with pytest.raises(ConfigError, match="cannot be used with code=True"):
            openai_chat.toolset([], code=True, **options)
        openai_chat.toolset([], code=True, search=False)


@pytest.mark.parametrize(
    ("make", "wrong", "right"),
    [
        (lambda **options: HttpServer("https://example.com/mcp", **options), "heads", "headers"),
        (lambda **options: StdioServer("python", **options), "arg", "args"),
        (lambda **options: Retry(**options), "attempt", "attempts"),
        (lambda **options: Handlers(**options), "elicitations", "elicitation"),
    ],
    ids=["HttpServer", "StdioServer", "Retry", "Handlers"],
)
def test_a_misspelt_option_is_a_config_error_that_suggests_the_right_one(
    make: Any, wrong: str, right: str
) -> None:
    with pytest.raises(ConfigError, match=f"has no option '{wrong}'.*{right}"):
        make(**{wrong: 1})


def test_a_decision_with_an_unknown_reach_fails_where_it_is_written() -> None:
    for remember in ("forever", "bogus", 3):
        with pytest.raises(ConfigError, match="remember="):
            Allow(remember=cast(Any, remember))
    for name in CHOICES:
        with pytest.raises(ConfigError, match=f"remember='forever'.*'{name}'"):
            Allow(remember=cast(Any, "forever"))
        Allow(remember=cast(Any, name))


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        replace,
        lambda one: pickle.loads(pickle.dumps(one)),
        lambda one: Timeouts(**asdict(one)),
        lambda one: Timeouts(**json.loads(json.dumps(asdict(one)))),
    ],
    ids=["copy", "deepcopy", "replace", "pickle", "asdict", "json"],
)
def test_a_copy_of_timeouts_behaves_as_the_original(copied: Any) -> None:
    assert copied(Timeouts()) == Timeouts()
    assert copied(Timeouts()).for_call(300).idle == 300
    assert copied(Timeouts(idle=60)).for_call(300).idle == 60
    assert copied(Timeouts(idle=60.0)).for_call(300).idle == 60
    assert copied(Timeouts(total=5)).total == 5
    assert (Timeouts().idle, repr(Timeouts().idle), hash(Timeouts())) == (
        60,
        "60.0",
        hash(Timeouts(idle=60)),
    )
