"""Law 1: every door leads through the gate. Law 2: what was approved is what is sent."""

from __future__ import annotations

import functools
import inspect
import json
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import anyio
import pytest

from mcp_client import (
    Allow,
    ApprovalQueue,
    CallDenied,
    CallPending,
    ConfigError,
    Deny,
    Handlers,
    Host,
    McpError,
    MemoryServer,
    Session,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
    deny_all,
)
from mcp_client.approval import Decisions, quick
from mcp_client.approval.gate import Gate
from mcp_client.approval.remembered import write_down
from mcp_client.errors import InvalidArguments, ProtocolViolation
from mcp_client.extensions import App, Task
from mcp_client.runtime.event_loop import current
from mcp_client.state import MemoryState
from mcp_client.testing import JsonRpcError
from tests.room_stubs import public_names
from tests.support.skills import MAIN, PDF, entry_of
from tests.support.timing import Clock

pytestmark = pytest.mark.one_backend

TOOL = {
    "name": "echo",
    "inputSchema": {"type": "object"},
    "_meta": {"ui": {"resourceUri": "ui://echo"}},
}


class Recorder:
    """A server that has one tool and keeps every message it is sent."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def __call__(self, message: dict[str, Any]) -> Any:
        self.messages.append(message)
        match message["method"]:
            case "tools/list":
                return {"tools": [TOOL]}
            case "tools/call":
                return {"content": [{"type": "text", "text": "ran"}]}
            case "initialize":
                every = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}}
                return {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {**every, "completions": {}, "extensions": SKILLS},
                    "serverInfo": {"name": "recorder", "version": "1"},
                }
            case "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe":
                return {}
            case "skills/list":
                return {"skills": []}
            case "skills/get":
                return {"skill": entry_of(PDF, {PDF: MAIN})}
            case "resources/read":
                return {"contents": [{"uri": "u:1", "text": "read"}]}
            case "prompts/get":
                link = {"type": "resource_link", "uri": "u:1", "name": "n"}
                return {"messages": [{"role": "user", "content": link}]}
            case "completion/complete":
                return {"completion": {"values": []}}
            case "prompts/list" | "resources/list" | "resources/templates/list":
                return {"prompts": [], "resources": [], "resourceTemplates": []}
        return NotImplemented

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [m["params"] for m in self.messages if m["method"] == "tools/call"]


SKILLS: dict[str, Any] = {"io.modelcontextprotocol/skills": {}}
REF = {"type": "ref/prompt", "name": "p"}


async def follow(session: Session) -> Any:
    return await session.follow((await session.get_prompt("p")).links[0])


async def _unknown_elicitation(session: Session) -> None:
    with pytest.raises(ConfigError):
        await session.wait_for_elicitation("an id the server never gave")


async def _read_view(session: Session) -> None:
    with pytest.raises(ProtocolViolation, match="no mimeType"):
        await session.read_ui(await session.get_tool("echo"))


async def _call_as_app(session: Session) -> Any:
    app = session.app(await session.get_tool("echo"))
    response = await app.handle(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}
    )
    assert response is not None
    assert "error" in response
    await app.call_tool("echo", {"a": 1})


async def _resume_nothing(session: Session) -> None:
    with pytest.raises(ConfigError, match="not a saved task"):
        session.resume_task("{}")


DOORS: dict[str, Callable[[Session], Awaitable[Any]]] = {
    "aclose": lambda session: session.aclose(),
    "app": _call_as_app,
    "call_tool": lambda session: session.call_tool("echo", {"a": 1}),
    "complete": lambda session: session.complete(REF, {"name": "a", "value": ""}),
    "follow": follow,
    "get_prompt": lambda session: session.get_prompt("p"),
    "wait_for_elicitation": lambda session: _unknown_elicitation(session),
    "get_tool": lambda session: session.get_tool("echo"),
    "list_prompts": lambda session: session.list_prompts(),
    "list_resource_templates": lambda session: session.list_resource_templates(),
    "list_resources": lambda session: session.list_resources(),
    "list_skills": lambda session: session.list_skills(),
    "load_skill": lambda session: session.load_skill(PDF),
    "list_tools": lambda session: session.list_tools(refresh=True),
    "search_tools": lambda session: session.search_tools("echo"),
    "ping": lambda session: session.ping(),
    "prompt_changes": lambda session: session.prompt_changes().aclose(),
    "read_ui": _read_view,
    "read_resource": lambda session: session.read_resource("u:1"),
    "resource_changes": lambda session: session.resource_changes().aclose(),
    "subscribe_resource": lambda session: session.subscribe_resource("u:1").__aenter__(),
    "resume_task": _resume_nothing,
    "roots_changed": lambda session: session.roots_changed(),
    "set_log_level": lambda session: session.set_log_level("info"),
    "start_tool": lambda session: session.start_tool("echo", {"a": 1}),
    "tool_changes": lambda session: session.tool_changes().aclose(),
}
"""Every public method of a session, and a way to use it. A new one must be added here."""

FACTORIES = {"connect"}
"""Every public function of the package that gives access to a server."""


def public_methods(kind: type) -> set[str]:
    return {
        name
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and callable(member)
    }


def test_every_public_method_of_a_session_is_known_to_this_test() -> None:
    assert public_methods(Session) == set(DOORS)


def test_every_public_method_of_an_app_is_known_to_this_test() -> None:
    assert public_methods(App) == {"call_tool", "close", "handle", "link", "read_resource"}


def test_every_public_method_of_a_task_is_known_to_this_test() -> None:
    # None of them sends a call: what the server makes of one was approved before.
    assert public_methods(Task) == {"cancel", "result", "to_json"}


def test_every_public_function_of_the_package_is_known_to_this_test() -> None:
    functions = {
        name
        for name, (place, _) in public_names().items()
        if inspect.isfunction(getattr(import_module(place), name)) and name not in FACTORIES
    }
    assert functions == {
        "allow_all",
        "ask_on_terminal",
        "deny_all",
        "elicit_on_terminal",
        "exit_code",
        "find_configs",
        "load_config",
        "one_at_a_time",
        "quick",
        "safe_text",
        "serve_desk",
        "verify_audit",
    }


@pytest.mark.parametrize("door", sorted(DOORS))
async def test_no_public_method_sends_a_call_that_the_hook_refuses(door: str) -> None:
    server = Recorder()
    async with connect(MemoryServer(server), approval=deny_all) as session:
        gated = door in ("app", "call_tool", "load_skill", "start_tool")
        with pytest.raises(CallDenied) if gated else nullcontext():
            await DOORS[door](session)
    assert server.messages
    assert server.calls == []
    if door == "load_skill":
        assert "resources/read" not in [message["method"] for message in server.messages]


async def test_the_same_method_sends_the_call_that_the_hook_allows() -> None:
    server = Recorder()
    async with connect(MemoryServer(server), approval=allow_all) as session:
        result = await session.call_tool("echo", {"a": 1})
    assert result.text == "ran"
    assert [call["arguments"] for call in server.calls] == [{"a": 1}]


class AskingForTheModel(Recorder):
    """Asks for the host's model as soon as anything is wanted of it."""

    def with_questions(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        if "method" not in message:
            return None
        if message["method"] == "server/discover":
            raise JsonRpcError(-32601, "not known")
        if message["method"] not in ("initialize", "notifications/initialized"):
            params = {"maxTokens": 1, "messages": [{"role": "user", "content": PROMPT}]}
            question = {"method": "sampling/createMessage", "params": params}
            send({"jsonrpc": "2.0", "id": f"q{len(self.messages)}", **question})
        return self(message)


PROMPT = {"type": "text", "text": "What is the password?"}


@pytest.mark.parametrize("door", sorted(set(DOORS) - {"aclose"}))
async def test_no_public_method_lets_a_server_use_a_model_that_the_hook_refuses(door: str) -> None:
    server, used, asked = AskingForTheModel(), list[Any](), list[Any]()

    async def refuse(request: Any) -> Deny:
        asked.append(request.kind)
        return Deny("no")

    handlers = Handlers(sampling=used.append, sampling_approval=refuse)
    transport = MemoryServer(server.with_questions)
    async with connect(transport, approval=allow_all, handlers=handlers) as session:
        with suppress(McpError, AssertionError):  # a door looks for the refusal of calls
            await DOORS[door](session)
        await session.ping()
        while not asked:
            await anyio.lowlevel.checkpoint()
    assert set(asked) == {"sampling"}
    assert used == []


async def _changed_and_reloaded(host: Host) -> None:
    assert host._source is not None
    path = Path(host._source.path)
    server = json.loads(path.read_text())["mcpServers"]["x"]
    servers = {"x": {**server, "env": {"NEW": "1"}}, "y": server}
    path.write_text(json.dumps({"mcpServers": servers}))
    assert (await host.reload()).changed == ("x",)


HOST_DOORS: dict[str, Callable[[Host], Awaitable[Any]]] = {
    "add": lambda host: host.add("more", MemoryServer(Recorder())),
    "aclose": lambda host: host.aclose(),
    "call_tool": lambda host: host.call_tool("x__echo"),
    "get_prompt": lambda host: host.get_prompt("p", server="x"),
    "get_tool": lambda host: host.get_tool("x__echo"),
    "list_prompts": lambda host: host.list_prompts(),
    "list_resources": lambda host: host.list_resources(),
    "list_skills": lambda host: host.list_skills(),
    "list_tools": lambda host: host.list_tools(refresh=True),
    "load_skill": lambda host: host.load_skill(PDF, server="x"),
    "read_resource": lambda host: host.read_resource("u:1", server="x"),
    "reconnect": lambda host: host.reconnect("x"),
    "reload": lambda host: _changed_and_reloaded(host),
    "remove": lambda host: host.remove("x"),
    "search_tools": lambda host: host.search_tools("echo"),
    "session": lambda host: host.session("x"),
    "start_tool": lambda host: host.start_tool("x__echo"),
    "status_changes": lambda host: host.status_changes().aclose(),
    "tool_changes": lambda host: host.tool_changes().aclose(),
}
"""Every public method of a host that waits, and a way to use it. A new one must be added here."""


def test_every_public_method_of_a_host_is_known_to_this_test() -> None:
    assert public_methods(Host) == {*HOST_DOORS, "from_config", "status"}


@pytest.mark.parametrize("confirm", [None, deny_all, lambda request: True])
@pytest.mark.parametrize("door", sorted(HOST_DOORS))
async def test_no_public_method_starts_a_server_of_a_project_without_an_approval(
    door: str, confirm: Any, tmp_path: Path
) -> None:
    mark, config = tmp_path / "mark", tmp_path / "mcp.json"
    words = ["-c", f"open({str(mark)!r}, 'w').close()"]
    config.write_text(json.dumps({"mcpServers": {"x": {"command": sys.executable, "args": words}}}))
    async with Host.from_config(config, confirm=confirm, approval=allow_all) as host:
        with suppress(McpError):
            await HOST_DOORS[door](host)
    assert not mark.exists()


def raises(call: ToolCall) -> Any:
    raise RuntimeError("the hook is broken")


async def raises_async(call: ToolCall) -> Any:
    raise RuntimeError("the hook is broken")


class Lookalike:
    """Says yes in every way but the right one."""

    arguments = None

    def __bool__(self) -> bool:
        return True


class SubclassedAllow(Allow):
    pass


@pytest.mark.parametrize(
    "hook",
    [
        raises,
        raises_async,
        lambda call: None,
        lambda call: True,
        lambda call: "allow",
        lambda call: Allow,
        lambda call: Lookalike(),
        lambda call: SubclassedAllow(),
        lambda call: Deny("no"),
        functools.partial(lambda extra, call: Deny(extra), "no"),
        quick(functools.partial(raises)),
        quick(cast(Any, lambda call: True)),
        quick(lambda call: Deny("no")),
    ],
)
async def test_whatever_is_not_an_approval_is_a_denial(hook: Any) -> None:
    server = Recorder()
    async with connect(MemoryServer(server), approval=hook) as session:
        with pytest.raises(CallDenied) as caught:
            await session.call_tool("echo")
    assert caught.value.reason
    assert caught.value.tool == "echo"
    assert server.calls == []


@pytest.mark.both_backends
async def test_what_was_approved_is_what_is_sent_though_the_caller_changes_his_mind() -> None:
    server = Recorder()
    arguments: dict[str, Any] = {"path": "/tmp/a", "deep": {"list": [1, 2]}}
    seen: list[str] = []

    async def approve(call: ToolCall) -> Allow:
        seen.append(call.arguments_json)
        arguments["path"] = "/etc/passwd"
        arguments["deep"]["list"].append(3)
        return Allow()

    async with connect(MemoryServer(server), approval=approve) as session:
        await session.call_tool("echo", arguments)
    assert json.loads(seen[0]) == {"path": "/tmp/a", "deep": {"list": [1, 2]}}
    assert server.calls[0]["arguments"] == json.loads(seen[0])


@pytest.mark.both_backends
async def test_the_hook_cannot_change_the_call_it_is_shown() -> None:
    server = Recorder()

    async def approve(call: ToolCall) -> Allow:
        with pytest.raises(TypeError):
            call.arguments["a"] = 2
        with pytest.raises(AttributeError):
            call.arguments_json = "{}"  # type: ignore[misc]
        call.tool.raw["name"] = "other"
        call.tool.input_schema["type"] = "array"
        return Allow()

    async with connect(MemoryServer(server), approval=approve) as session:
        await session.call_tool("echo", {"a": 1})
    assert server.calls[0]["name"] == "echo"
    assert server.calls[0]["arguments"] == {"a": 1}


@pytest.mark.parametrize("arguments", [[], "", 0, [1], "text", {1: 2}, {"a": {3}}, {"a": b""}])
async def test_arguments_that_are_not_a_json_object_are_refused_before_anybody_is_asked(
    arguments: Any,
) -> None:
    server = Recorder()
    asked: list[ToolCall] = []

    def approve(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    async with connect(MemoryServer(server), approval=approve) as session:
        with pytest.raises(InvalidArguments) as caught:
            await session.call_tool("echo", arguments)
    assert caught.value.tool == "echo"
    assert not asked
    assert not server.calls


async def test_an_approval_is_not_held_up_by_a_file_that_cannot_be_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    released = threading.Event()
    try:
        with anyio.fail_after(30):
            await write_down("files: the decision", lambda: released.wait(60), seconds=0.01)
    finally:
        released.set()
    assert "files: the decision is not remembered" in caplog.text


# ------------------------------------------------------------- the approver's own edits

NUMBER = {
    "name": "add",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
}


def adder(sent: list[Any]) -> MemoryServer:
    def handle(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            return {"tools": [NUMBER]}
        if message["method"] == "tools/call":
            sent.append(message["params"]["arguments"])
            return {"content": []}
        return NotImplemented

    return MemoryServer(handle)


async def test_an_approver_whose_every_edit_has_new_findings_is_not_asked_forever() -> None:
    sent: list[Any] = []
    edits: list[Any] = ["text", True, [], {}, None]
    asked: list[Any] = []

    def edit(call: Any) -> Allow:
        asked.append(call.arguments["n"])
        return Allow({"n": edits[len(asked) - 1]}, by="ana")

    async with connect(adder(sent), approval=edit) as session:
        with pytest.raises(CallDenied, match="edited the arguments 3 times") as caught:
            await session.call_tool("add", {"n": 1})
    assert caught.value.by == "ana"
    assert asked == [1, "text", True, ()]
    assert sent == []


@pytest.mark.parametrize("is_stored", [False, True])
async def test_an_edit_that_is_asked_about_later_is_not_sent_before(is_stored: bool) -> None:
    """The first yes is given by a program or from a queue; the edit then waits in the queue."""
    sent: list[Any] = []
    queue = ApprovalQueue(decisions=Decisions(MemoryState()), wait=0)

    async def ask(call: Any) -> Any:
        return await queue(call) if is_stored or call.edited else Allow({"n": "text"})

    async with connect(adder(sent), approval=ask) as session:
        if is_stored:
            with pytest.raises(CallPending) as caught:
                await session.call_tool("add", {"n": 1})
            queue.decide(caught.value.ticket, Allow({"n": "text"}))
        for _ in range(2):  # the yes to the edit itself is needed each time
            with pytest.raises(CallPending) as caught:
                await session.call_tool("add", {"n": 1})
        (pending,) = queue.pending
        assert pending.id == caught.value.ticket
        assert pending.request.to_json()["arguments"] == {"n": "text"}
        assert sent == []
        queue.decide(pending.id, Allow())
        await session.call_tool("add", {"n": 1})
    assert sent == [{"n": "text"}]


async def test_a_policy_that_fails_on_an_edit_refuses_it() -> None:
    sent: list[Any] = []

    class Fails:
        def decide(self, call: Any) -> None:
            if call.edited:
                raise LookupError("a table is missing")

        def ask(self, call: Any) -> Allow:
            return Allow({"n": 2})

    async with connect(adder(sent), approval=Fails()) as session:
        with pytest.raises(CallDenied, match="the policy"):
            await session.call_tool("add", {"n": 1})
    assert sent == []


async def test_a_gate_that_is_closed_asks_no_one() -> None:
    asked: list[Any] = []

    def ask(request: Any) -> Allow:
        asked.append(request)
        return Allow()

    gate = Gate(ask, 5)
    gate.close()
    with pytest.raises(CallDenied, match="closed"):
        await gate.decide(ToolCall.example("rm"))
    assert asked == []


@pytest.mark.both_backends
async def test_each_of_the_requests_that_wait_has_its_own_time_limit(clock: Clock) -> None:
    left: list[float] = []
    refused: list[float] = []

    async def ask(request: Any) -> Allow:
        left.append(anyio.current_effective_deadline() - anyio.current_time())
        await anyio.sleep_forever()
        return Allow()

    async def decide(seconds: float) -> None:
        with pytest.raises(CallDenied, match=f"none within {min(seconds, 9):g} s"):
            await gate.decide(ToolCall.example(), seconds=seconds)
        refused.append(seconds)

    gate = Gate(ask, 9)
    clock.stop()
    async with anyio.create_task_group() as tasks:
        for seconds in (3.0, 1.0, 2.0, 20.0):
            tasks.start_soon(decide, seconds)
            await anyio.wait_all_tasks_blocked()
        assert left == pytest.approx([3, 1, 2, 9])
        for number, ends in enumerate([[], [1.0], [1.0, 2.0], [1.0, 2.0, 3.0]]):
            assert refused == ends, number
            clock.jump(1.01)
            for _ in range(20):  # the timer rings, the hook ends, its caller runs
                await anyio.lowlevel.checkpoint()
        clock.jump(6)
    assert refused == [1.0, 2.0, 3.0, 20.0]


async def test_the_requests_that_wait_share_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(request: Any) -> Allow:
        await anyio.lowlevel.checkpoint()
        return Allow()

    gate, loop = Gate(ask, 30), cast(Any, current().loop)
    call_at = Mock(wraps=loop.call_at)
    monkeypatch.setattr(loop, "call_at", call_at)
    for _ in range(20):
        await gate.decide(ToolCall.example())
    gate.close()
    assert call_at.call_count == 1


@pytest.mark.parametrize("end", ["time", "close"])
async def test_the_requests_that_wait_end_in_the_order_in_which_they_were_made(
    end: str, clock: Clock
) -> None:
    ended: list[int] = []

    async def decide(number: int) -> None:
        with pytest.raises(CallDenied):
            await gate.decide(ToolCall.example())
        ended.append(number)

    async def ask(request: Any) -> Allow:
        await anyio.sleep_forever()
        return Allow()

    gate = Gate(ask, 9)
    clock.stop()
    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(decide, number)
        await anyio.wait_all_tasks_blocked()
        if end == "time":
            clock.jump(10)
        else:
            gate.close()
    assert ended == [*range(40)]


class Quick:
    """Allows calls; the loop's clock jumps by ``seconds`` meanwhile."""

    is_quick = True

    def __init__(self, clock: Clock, seconds: float = 0.0) -> None:
        self.clock, self.seconds = clock, seconds
        self.threads: list[threading.Thread] = []

    def __call__(self, request: ToolCall) -> Allow:
        self.threads.append(threading.current_thread())
        self.clock.jump(self.seconds)
        return Allow(remember="session")


@pytest.mark.both_backends
@pytest.mark.parametrize("options", [{}, {"state": "here"}])
async def test_a_quick_hook_runs_in_the_event_loop_and_its_decision_is_remembered(
    options: dict[str, Any], clock: Clock, tmp_path: Path
) -> None:
    if options:
        options = {"state": tmp_path / "state"}  # in which answers are looked up in a thread
    server, hook = Recorder(), Quick(clock)
    async with connect(MemoryServer(server), approval=hook, **options) as session:
        for _ in range(2):
            await session.call_tool("echo")
    assert hook.threads == [threading.current_thread()]
    assert len(server.calls) == 2


async def test_a_quick_hook_that_answers_too_late_is_not_an_approval(clock: Clock) -> None:
    server, hook = Recorder(), Quick(clock, seconds=31)
    timeouts = Timeouts(approval=30)
    async with connect(MemoryServer(server), approval=hook, timeouts=timeouts) as session:
        with pytest.raises(CallDenied, match="none within 30 s"):
            await session.call_tool("echo")
    assert server.calls == []


def test_a_hook_that_waits_cannot_be_quick() -> None:
    with pytest.raises(ConfigError, match="give a plain function"):
        quick(cast(Any, raises_async))
