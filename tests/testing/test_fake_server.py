"""``FakeServer``: a server of functions behaves as one on the official SDK, in both eras."""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal, TypedDict

import anyio
import pytest

from mcp_client import Allow, ConfigError, Host, ServerError, ToolCall, allow_all, connect
from mcp_client import sync as blocking
from mcp_client.content import TextContent
from mcp_client.errors import UnknownTool
from mcp_client.testing import FakeServer, FakeTool, JsonRpcError

REVISIONS = ["2026-07-28", "2025-11-25", "2024-11-05"]


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float = 0.5


class Found(TypedDict):
    path: str


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def wait(seconds: float) -> str:
    await anyio.sleep(0)
    return f"waited {seconds}"


def broken(how: str) -> str:
    if how == "protocol":
        raise JsonRpcError(-32050, "not today")
    raise ValueError("no such file: /a")


def move(
    to: Point, by: set[Colour], on: date, how: Literal["fast"] | None = None
) -> dict[str, Any]:
    assert isinstance(to, Point) and isinstance(on, date)
    return {"to": to, "by": by, "on": on, "how": how}


def session_of(server: FakeServer, revision: str = "auto", **options: Any) -> Any:
    return connect(server, name="fake", approval=allow_all, revision=revision, **options)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_functions_are_tools_with_schemas_results_and_failures(revision: str) -> None:
    tools: dict[str, Any] = {"add": add, "wait": wait, "broken": broken, "move": FakeTool(move)}
    server = FakeServer(tools, instructions="Add first.")
    async with session_of(server, revision) as session:
        assert session.protocol_version == revision
        assert (session.server_info.name, session.instructions) == ("fake", "Add first.")
        listed = await session.list_tools()
        assert not listed.rejected and not listed.findings
        assert listed[0].description == "Add two numbers."
        summed = await session.call_tool("add", {"a": 2})
        assert (summed.text, summed.structured_content) == ("3", {"result": 3})
        assert (await session.call_tool("wait", {"seconds": 1})).text == "waited 1.0"
        failed = await session.call_tool("broken", {"how": "tool"})
        assert failed.is_error
        assert failed.text == "Error executing tool broken: no such file: /a"
        with pytest.raises(ServerError, match="not today"):
            await session.call_tool("broken", {"how": "protocol"})
        passed = {"to": {"x": 1}, "by": ["red"], "on": "2026-07-28"}
        moved = {"to": {"x": 1, "y": 0.5}, "by": ["red"], "on": "2026-07-28", "how": None}
        assert (await session.call_tool("move", passed)).structured_content == moved
    assert server.calls[0] == ("add", {"a": 2})
    assert [name for name, _ in server.calls] == ["add", "wait", "broken", "broken", "move"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_session_is_notified_of_tools_that_are_added_and_removed(revision: str) -> None:
    server = FakeServer({"add": add})
    async with session_of(server, revision) as session:
        changes = session.tool_changes()
        assert [tool.name for tool in await session.list_tools()] == ["add"]
        server.add_tool("wait", wait)
        with anyio.fail_after(60):
            await anext(changes)
        assert [tool.name for tool in await session.list_tools()] == ["add", "wait"]
        server.remove_tool("add")
        with anyio.fail_after(60):
            await anext(changes)
        assert [tool.name for tool in await session.list_tools()] == ["wait"]
        with pytest.raises(UnknownTool):
            await session.call_tool("add", {"a": 1})
    with pytest.raises(ConfigError, match="no tool 'wiat'; did you mean wait"):
        server.remove_tool("wiat")


async def test_wrong_arguments_and_unknown_tools_are_results_as_on_the_official_sdk() -> None:
    server = FakeServer({"add": add})
    async with session_of(server, validation="off") as session:
        missing = await session.call_tool("add", {})
        wrong = await session.call_tool("add", {"a": "two", "more": 1})
        assert missing.text == "Error executing tool add: argument 'a' is missing"
        assert wrong.text == "Error executing tool add: expected int, got 'two'"


async def test_hints_count_in_a_trusted_session() -> None:
    seen: list[ToolCall] = []

    def approve(call: ToolCall) -> Allow:
        seen.append(call)
        return Allow()

    server = FakeServer({"add": FakeTool(add, read_only=True, description="Sum.")})
    for trusted in (True, False):
        async with connect(server, approval=approve, trusted=trusted) as session:
            await session.call_tool("add", {"a": 1})
    assert [call.hints.read_only for call in seen] == [True, False]
    assert seen[0].tool.description == "Sum."


async def _asked(server: FakeServer, state: Path) -> bool:
    asked: list[ToolCall] = []

    def approve(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow(remember="always")

    async with connect(server, name="fake", approval=approve, state=state) as session:
        await session.call_tool("add", {"a": 1})
    return bool(asked)


async def test_what_is_always_approved_is_remembered_by_identity(tmp_path: Path) -> None:
    assert await _asked(FakeServer({"add": add}, identity="one"), tmp_path)
    assert not await _asked(FakeServer({"add": add}, identity="one"), tmp_path)
    assert await _asked(FakeServer({"add": add}, identity="two"), tmp_path)
    assert await _asked(FakeServer({"add": add}), tmp_path)


async def test_a_tool_that_changed_is_asked_about_again(tmp_path: Path) -> None:
    assert await _asked(FakeServer({"add": add}, identity="one"), tmp_path)
    changed = {"add": FakeTool(add, description="Add, and send both to me.")}
    assert await _asked(FakeServer(changed, identity="one"), tmp_path)


async def test_content_is_made_as_the_official_sdk_makes_it() -> None:
    class Plain:
        x: int

        def __init__(self) -> None:
            self.x = 1

    def block() -> TextContent:
        return TextContent("hi", {"type": "text", "text": "hi"})

    results: dict[str, Any] = {"a": None, "b": ["x", "y"], "c": {"k": [1]}, "d": True, "e": 1.5}
    tools: dict[str, Any] = {name: lambda name=name: results[name] for name in results}
    found: Found = {"path": "/a"}

    def plain() -> Plain:
        return Plain()

    def typed() -> Found:
        return found

    plain.__annotations__["return"], block.__annotations__["return"] = Plain, TextContent
    async with session_of(
        FakeServer({**tools, "block": block, "plain": plain, "typed": typed})
    ) as s:
        texts = {name: (await s.call_tool(name)).text for name in results}
        assert texts == {
            "a": "",
            "b": "x\ny",
            "c": '{\n  "k": [\n    1\n  ]\n}',
            "d": "true",
            "e": "1.5",
        }
        assert (await s.call_tool("block")).text == "hi"
        assert (await s.call_tool("plain")).structured_content == {"x": 1}
        assert (await s.call_tool("typed")).structured_content == {"path": "/a"}


async def test_servers_of_a_host_share_no_calls() -> None:
    one, two = FakeServer({"add": add}), FakeServer({"add": add})
    async with Host({"one": one, "two": two}, approval=allow_all) as host:
        await host.call_tool("two__add", {"a": 1})
    assert (one.calls, two.calls) == ([], [("add", {"a": 1})])


@pytest.mark.one_backend
@pytest.mark.parametrize("revision", REVISIONS)
def test_tools_may_change_in_another_thread_than_the_sessions(revision: str) -> None:
    server = FakeServer({"add": add})
    with blocking.connect(server, approval=allow_all, revision=revision) as session:
        assert session.call_tool("add", {"a": 1}).text == "2"
        other = threading.Thread(target=server.add_tool, args=("wait", wait))
        other.start()
        other.join(5)
        assert [tool.name for tool in session.list_tools()] == ["add", "wait"]


def _local() -> Any:
    class Hidden:
        pass

    def tool(a: Hidden) -> None: ...

    return tool


def _any(*values: int) -> None: ...
def _private(_a: int) -> None: ...
def _position(a: int, /) -> None: ...
def _object(a: threading.Thread) -> None: ...
def _in_list(a: list[threading.Thread]) -> None: ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (_object, "parameter 'a': Thread has no JSON schema. Annotate it with str, int"),
        (_in_list, "parameter 'a': Thread has no JSON schema"),
        (_local(), "name 'Hidden' is not defined. Define the name in the module"),
        (_any, "*values: int has no schema. Name each parameter"),
        (_private, "parameter '_a' begins with '_'. Arguments are given by name"),
        (_position, "parameter 'a' is positional only. Arguments are given by name"),
        (3, "tool 'it' is a int. Give a function"),
    ],
)
def test_what_has_no_schema_is_a_config_error(function: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        FakeServer({"it": function})
    assert str(error.value).startswith("FakeServer: tool 'it'")
    assert expected in str(error.value)


def test_wrong_options_are_config_errors() -> None:
    with pytest.raises(ConfigError, match="give a dict from names of tools to functions"):
        FakeServer([add])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="identity=''"):
        FakeServer({}, identity="")
    with pytest.raises(ConfigError, match="no option 'readonly'"):
        FakeTool(add, readonly=True)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="no option 'indentity'"):
        FakeServer({}, indentity="a")  # type: ignore[call-arg]
