"""The names of ``mcp_client``: one table, a stub that says the same, and a use of each."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mcp_client
from mcp_client import (
    Allow,
    ApprovalHook,
    ApprovalRequest,
    AuditSink,
    ContentBlock,
    Fact,
    Host,
    MemoryServer,
    OnProgress,
    Prompt,
    PromptResult,
    ServerConfig,
    ServerLike,
    ServerStatus,
    TextContent,
    Tool,
    Trust,
    connect,
)

ROOT = Path(mcp_client.__file__).parent
TESTS = Path(__file__).parent
HOME: dict[str, str] = vars(mcp_client)["_HOME"]
ALL: list[str] = vars(mcp_client)["__all__"]
IMPORTED = re.compile(r"^\s*from mcp_client import (?:\(([^)]*)\)|(.+))", re.M)


def imports(path: Path) -> Iterator[tuple[str, ast.alias]]:
    """Each name that a file imports, with the module it is imported from."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (("." * node.level + (node.module or ""), name) for name in node.names)


def test_type_checkers_read_the_same_table() -> None:
    exported = list(imports(ROOT / "__init__.pyi"))
    assert [each.name for _, each in exported if each.asname != each.name] == []
    stub = {each.name: module for module, each in exported}
    assert stub.pop("__version__") == ".runtime.version"
    assert stub == {name: f".{module}" for name, module in HOME.items()}


def test_all_dir_and_a_star_import_know_each_name() -> None:
    names: dict[str, Any] = {}
    exec("from mcp_client import *", names)
    assert set(ALL) == set(names) - {"__builtins__"}
    assert set(ALL) <= set(dir(mcp_client))
    for name in ALL:
        assert names[name] is getattr(mcp_client, name)
        if isinstance(names[name], type):
            assert pickle.loads(pickle.dumps(names[name])) is names[name]


def test_each_name_is_imported_by_a_test_or_an_example_as_a_user_would() -> None:
    used = {
        name.split()[0]
        for folder in (TESTS, TESTS.parent / "examples")
        for path in folder.rglob("*.py")
        for several, one in IMPORTED.findall(path.read_text())
        for name in (several or one).split(",")
        if name.strip()
    }
    assert set(ALL) - used == set()


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
