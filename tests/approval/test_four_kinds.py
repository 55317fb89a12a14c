"""One gate for all four kinds of request: anything but an approval in time is a denial."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    ApprovalQueue,
    CallDenied,
    Deny,
    Handlers,
    Host,
    McpError,
    MemoryServer,
    Rule,
    Rules,
    Timeouts,
    allow_all,
    connect,
    deny_all,
)
from mcp_client.adapters import anthropic
from mcp_client.handlers import SamplingResult
from mcp_client.validation import Validation
from tests.approval.test_gate import Recorder
from tests.support.asking import LATEST, Asking
from tests.support.skills import PDF, SkillServer

KINDS = ("call", "skill", "start", "sampling")
each_kind = pytest.mark.parametrize("kind", KINDS)
PROMPT = {"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}], "maxTokens": 5}


async def call(hook: Any, directory: Path, timeouts: Timeouts) -> bool:
    server = Recorder()
    async with connect(MemoryServer(server), approval=hook, timeouts=timeouts) as session:
        try:
            await session.call_tool("echo", {"a": 1})
        except McpError:
            assert not server.calls
            raise
    return bool(server.calls)


async def skill(hook: Any, directory: Path, timeouts: Timeouts) -> bool:
    server = SkillServer()
    async with connect(server.transport, approval=hook, timeouts=timeouts) as session:
        try:
            await session.load_skill(PDF)
        except McpError:
            assert not server.reads
            raise
    return bool(server.reads)


async def start(hook: Any, directory: Path, timeouts: Timeouts) -> bool:
    """The program leaves a mark and ends."""
    mark, config = directory / "mark", directory / "mcp.json"
    words = ["-c", f"open({str(mark)!r}, 'w').close()"]
    config.write_text(json.dumps({"mcpServers": {"x": {"command": sys.executable, "args": words}}}))
    host = Host.from_config(
        config, confirm=hook, approval=allow_all, timeouts=timeouts, required=["x"]
    )
    try:
        async with host:
            pass
    except McpError:
        if not mark.exists():
            raise
    return mark.exists()


async def sampling(hook: Any, directory: Path, timeouts: Timeouts) -> bool:
    asked: list[Any] = []

    def decision(request: Any) -> SamplingResult:
        asked.append(request)
        return SamplingResult("Oslo", "m")

    handlers = Handlers(sampling=decision, sampling_approval=hook)
    server = Asking(LATEST, ("sampling/createMessage", PROMPT))
    async with connect(
        MemoryServer(server), approval=allow_all, handlers=handlers, timeouts=timeouts
    ) as session:
        try:
            await session.call_tool("ask")
        except McpError:
            assert not asked
            raise
    return bool(asked)


DOORS: dict[str, Callable[[Any, Path, Timeouts], Awaitable[bool]]] = {
    "call": call,
    "skill": skill,
    "start": start,
    "sampling": sampling,
}


def raises(request: Any) -> Any:
    raise RuntimeError("broken")


async def raises_cancelled(request: Any) -> Any:
    raise anyio.get_cancelled_exc_class()


NOT_A_YES: dict[str, Any] = {
    "True": lambda request: True,
    "None": lambda request: None,
    "a text": lambda request: "allow",
    "the class": lambda request: Allow,
    "no": lambda request: Deny("not today"),
    "raises": raises,
    "raises a cancellation": raises_cancelled,
    "what only calls have": lambda request: Allow() if request.tool.name == "never" else Deny("no"),
    "deny_all": deny_all,
    "rules": Rules([Rule("deny", kind="any", reason="not today")]),
    "rules that ask": Rules([], ask=lambda request: Deny("not today")),
}


@each_kind
@pytest.mark.parametrize("hook", [allow_all, Rules([], ask=allow_all), lambda request: Allow()])
async def test_an_approval_lets_it_happen(kind: str, hook: Any, tmp_path: Path) -> None:
    assert await DOORS[kind](hook, tmp_path, Timeouts())


@each_kind
@pytest.mark.parametrize("name", list(NOT_A_YES))
async def test_whatever_is_not_an_approval_is_a_denial(
    kind: str, name: str, tmp_path: Path
) -> None:
    with pytest.raises(McpError) as caught:
        await DOORS[kind](NOT_A_YES[name], tmp_path, Timeouts())
    text = str(caught.value)
    assert text
    if name in ("True", "None", "a text", "the class"):
        assert "Allow()" in text, "it names what to return"
    if name in ("no", "rules", "rules that ask"):
        assert "not today" in text


@pytest.mark.parametrize("kind", KINDS[1:])
async def test_arguments_for_what_has_none_are_a_denial(kind: str, tmp_path: Path) -> None:
    with pytest.raises(McpError, match="has none"):
        await DOORS[kind](lambda request: Allow({"a": 1}), tmp_path, Timeouts())


@each_kind
async def test_a_hook_that_hangs_is_a_denial(kind: str, tmp_path: Path) -> None:
    async def hang(request: Any) -> Any:
        await anyio.sleep_forever()

    with pytest.raises(McpError, match=r"Timeouts\(approval"):
        await DOORS[kind](hang, tmp_path, Timeouts(approval=0.05, close=1))


@each_kind
async def test_an_approval_that_comes_after_the_clock_is_a_denial(
    kind: str, tmp_path: Path
) -> None:
    late: list[str] = []

    async def swallow(request: Any) -> Allow:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            late.append(request.kind)
        return Allow(remember="session")

    with pytest.raises(McpError, match=r"Timeouts\(approval"):
        await DOORS[kind](swallow, tmp_path, Timeouts(approval=0.05, close=1))
    assert late == [kind]


@each_kind
async def test_an_approval_that_comes_after_the_caller_left_is_a_denial(
    kind: str, tmp_path: Path
) -> None:
    happened: list[bool] = []
    asked = anyio.Event()

    async def swallow(request: Any) -> Allow:
        asked.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            pass
        return Allow()

    async def go() -> None:
        happened.append(await DOORS[kind](swallow, tmp_path, Timeouts(close=1)))

    async with anyio.create_task_group() as group:
        group.start_soon(go)
        await asked.wait()
        group.cancel_scope.cancel()
    assert happened in ([], [False])
    assert not (tmp_path / "mark").exists()


@each_kind
@pytest.mark.parametrize("decision", [Allow(), Deny("not today")])
async def test_a_queue_decides_all_four(kind: str, decision: Any, tmp_path: Path) -> None:
    queue = ApprovalQueue()
    done: list[Any] = []

    async def go() -> None:
        try:
            done.append(await DOORS[kind](queue, tmp_path, Timeouts()))
        except McpError as error:
            done.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(go)
        async for pending in queue.changes():
            if pending:
                break
        assert pending[0].request.kind == kind
        queue.decide(pending[0].id, decision, by="ana")
    (outcome,) = done
    if isinstance(decision, Allow):
        assert outcome is True
    else:
        assert "not today" in str(outcome)


@each_kind
async def test_a_rule_of_one_kind_decides_no_other(kind: str, tmp_path: Path) -> None:
    for other in KINDS:
        directory = tmp_path / other
        directory.mkdir()
        options: Any = {"kind": other, "server": "*"}
        rules = Rules([Rule("allow", **options)], ask=deny_all)
        door = partial(DOORS[kind], rules, directory, Timeouts())
        if other != kind:
            with pytest.raises(McpError, match="deny_all"):
                await door()


async def test_without_confirm_a_project_is_not_started_whatever_approval_decides(
    tmp_path: Path,
) -> None:
    with pytest.raises(McpError, match="confirm="):
        await start(None, tmp_path, Timeouts())


async def test_an_edit_that_breaks_the_schema_is_shown_before_it_is_sent() -> None:
    tool = {
        "name": "echo",
        "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    }
    sent: list[Any] = []

    def server(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            return {"tools": [tool]}
        if message["method"] == "tools/call":
            sent.append(message["params"]["arguments"])
            return {"content": []}
        return NotImplemented

    seen: list[Any] = []

    async def edit(request: Any) -> Allow:
        seen.append(request)
        return Allow({"n": "many"})

    async with connect(MemoryServer(server), approval=edit) as session:
        await session.call_tool("echo", {"n": 1})
    first, second = seen
    assert first.findings == ()
    assert [finding.kind for finding in second.findings] == ["broken_arguments"]
    assert second.edited
    assert second.arguments == {"n": "many"}
    assert sent == [{"n": "many"}]

    async def refuse(request: Any) -> Any:
        return Deny("that is not a number") if request.edited else Allow({"n": "many"})

    async with connect(MemoryServer(server), approval=refuse) as session:
        with pytest.raises(CallDenied, match="that is not a number"):
            await session.call_tool("echo", {"n": 1})
    assert len(sent) == 1


@pytest.mark.parametrize(
    ("options", "asked"), [({}, 0), ({"validation": Validation(arguments="warn")}, 1)]
)
async def test_a_model_is_informed_of_what_is_wrong_with_its_arguments_and_no_one_is_asked(
    options: dict[str, Any], asked: int
) -> None:
    tool = {
        "name": "add",
        "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    }
    seen: list[Any] = []

    def server(message: dict[str, Any]) -> Any:
        return {"tools": [tool]} if message["method"] == "tools/list" else NotImplemented

    async def hook(request: Any) -> Deny:
        seen.append(request)
        return Deny("no")

    response = {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "1", "name": "add", "input": {"n": "two"}},
        ],
    }
    async with connect(MemoryServer(server), approval=hook, **options) as session:
        kit = anthropic.toolset(await session.list_tools())
        (message,) = await kit.run(session, response)
        assert len(seen) == asked
        with pytest.raises(CallDenied):  # the host's own call is for the hook to decide
            await session.call_tool("add", {"n": "two"})
    text = str(message)
    assert ("/n" in text) is (asked == 0)
