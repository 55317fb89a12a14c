"""The public names: few at the top level, each of the others in one room, and a use of each."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import mcp_client
from mcp_client import Allow, ApprovalRequest, Host, MemoryServer, ServerConfig, Tool, connect
from mcp_client.adapters import PROVIDERS
from mcp_client.approval import ApprovalHook, Fact
from mcp_client.audit import AuditSink
from mcp_client.catalog import Trust
from mcp_client.connection import OnProgress
from mcp_client.content import ContentBlock, Prompt, PromptResult, TextContent
from mcp_client.host import ServerLike, ServerStatus
from tests.room_stubs import package, public_names, tables
from tests.test_readme import TEXTS, programs, shown_path

TESTS = Path(__file__).parent
PUBLIC = public_names()
FIRST_DAY = {
    *("connect", "Session", "Host", "ServerConfig", "StdioServer", "HttpServer", "MemoryServer"),
    *("OAuth", "Allow", "Deny", "ToolCall", "ApprovalRequest", "Rules", "Rule", "allow_all"),
    *("deny_all", "ask_on_terminal", "ApprovalQueue", "Tool", "ToolList", "ToolResult", "Finding"),
    *("Timeouts", "Limits", "Retry", "CancelToken", "Handlers", "Pins", "FileState", "AuditLog"),
    *("Sandbox", "McpError", "NotSent", "OutcomeUnknown", "ServerError", "BrokenPromise"),
    *("ToolFailed", "ConfigError", "CallDenied", "CallPending", "CallTimeout", "ConnectError"),
}
IMPORTED = re.compile(r"^\s*from (mcp_client(?:\.\w+)*) import (?:\(([^)]*)\)|(.+))", re.M)


def imported(text: str) -> set[tuple[str, str]]:
    """Each name that a program imports from us, after the module that it is imported from."""
    return {
        (module, name.split()[0])
        for module, several, one in IMPORTED.findall(text)
        for name in (several or one.partition("#")[0]).split(",")
        if name.strip()
    }


def shown_programs() -> Iterator[tuple[str, str]]:
    for path in sorted((TESTS.parent / "examples").rglob("*.py")):
        yield path.name, path.read_text()
    yield from ((shown_path(page), code) for page in TEXTS for code, _ in programs(page))


def test_the_top_level_has_the_names_of_the_first_day_and_no_other() -> None:
    assert {*vars(mcp_client)["__all__"]} == FIRST_DAY
    assert {name for name, (place, _) in PUBLIC.items() if place == "mcp_client"} == FIRST_DAY


def test_the_docstring_lists_the_rooms_and_each_is_there_without_an_import_of_its_own() -> None:
    code = (
        "import re, mcp_client\n"
        "for room in re.findall(r'^    mcp_client[.](\\w+) ', mcp_client.__doc__, re.M):\n"
        "    print(getattr(mcp_client, room).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listed = {*done.stdout.split()}
    rooms = {package(path) for path in tables()} - {"mcp_client"}
    assert listed == rooms | {"mcp_client.errors", "mcp_client.adapters", "mcp_client.stubs"}
    assert {room.partition(".")[2] for room in listed} <= {*dir(mcp_client)}


def test_each_name_is_imported_by_a_test_or_an_example_as_a_user_would() -> None:
    used = {each for path in TESTS.rglob("*.py") for each in imported(path.read_text())}
    used |= {each for _, text in shown_programs() for each in imported(text)}
    wanted = {(place, name) for name, (place, _) in PUBLIC.items()}
    assert sorted(wanted - used) == []


def test_the_guides_and_the_examples_import_each_name_from_its_one_place() -> None:
    wrong = []
    for where, text in shown_programs():
        for module, name in imported(text):
            place = PUBLIC[name][0] if name in PUBLIC else ""
            mirrors = module == "mcp_client.sync" and name in import_module(module).__all__
            submodule = (module, name) in SUBMODULES or module in ("mcp_client.stubs",)
            if not (module == place or mirrors or submodule):
                wrong.append(f"{where}: import {name} from {place or 'where it is public'}")
    assert wrong == []


SUBMODULES = {
    ("mcp_client", "sync"),
    *(("mcp_client.adapters", name) for name in (*PROVIDERS, "official")),
}


SERVER = {
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "hello"}]},
    "prompts/list": {"prompts": [{"name": "greet"}]},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]},
}


def serve(message: dict[str, Any], send: Any) -> Any:
    if message["method"] == "initialize":
        return {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}, "prompts": {}},
            "serverInfo": {"name": "names", "version": "1"},
        }
    if message["method"] == "tools/call":
        token = message["params"]["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": 1, "total": 2}
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
    return SERVER.get(message["method"], NotImplemented)


async def test_the_hooks_and_results_of_a_session_can_be_named() -> None:
    facts: list[Fact] = []
    events: list[str] = []
    steps: list[float] = []

    def approve(request: ApprovalRequest) -> Allow:
        facts.extend(request.facts())
        return Allow()

    def record(entry: Mapping[str, Any]) -> None:
        events.append(entry["event"])

    def trust_echo(tool: Tool) -> bool:
        return tool.name == "echo"

    hook: ApprovalHook = approve
    sink: AuditSink = record
    trust: Trust = trust_echo
    progress: OnProgress = lambda done, total, message: steps.append(done)  # noqa: E731
    async with connect(MemoryServer(serve), approval=hook, audit=sink, trusted=trust) as session:
        result = await session.call_tool("echo", {"text": "hello"}, on_progress=progress)
        prompt: Prompt = (await session.list_prompts())[0]
        filled: PromptResult = await session.get_prompt(prompt.name)
    blocks: list[ContentBlock] = [*result.content, filled.messages[0].content]
    assert [block.text for block in blocks if isinstance(block, TextContent)] == ["hello", "hi"]
    assert all(isinstance(fact, Fact) for fact in facts)
    assert "echo" in {fact.text for fact in facts}
    assert events[:2] == ["opened", "closed"]
    assert steps == [1]


async def test_the_status_of_a_server_can_be_named() -> None:
    servers: dict[str, ServerLike] = {
        "names": MemoryServer(serve),
        "off": ServerConfig(["python", "server.py"], enabled=False),
    }
    async with Host(servers) as host:
        await host.session("names")
        status: ServerStatus = host.status()["names"]
    assert (status.name, status.state) == ("names", "connected")
