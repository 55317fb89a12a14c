"""What type checkers see of what users write: each ``assert_type`` is checked by mypy, as all tests
are, and by Pyright, which also has to know the type of everything that is exported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, assert_type

import pytest

import mcp_client
from mcp_client import (
    Allow,
    ApprovalQueue,
    ApprovalRequest,
    AuditLog,
    CallTimeout,
    Deny,
    FileState,
    Finding,
    Host,
    HttpServer,
    McpError,
    OAuth,
    Pins,
    Rule,
    Rules,
    Session,
    StdioServer,
    Tool,
    ToolCall,
    ToolFailed,
    ToolList,
    ToolResult,
    connect,
    sync,
)
from mcp_client.adapters import anthropic, gemini, openai_chat, openai_responses
from mcp_client.adapters.calls import ModelCall
from mcp_client.approval import Decisions, PendingApproval
from mcp_client.audit import Audit, AuditTo, OpenCall, Verified, verify_audit
from mcp_client.auth import FileTokens, TokenStore
from mcp_client.catalog.definition import Hints
from mcp_client.content import PromptResult, ResourceResult
from mcp_client.extensions import Task
from mcp_client.host import ServerStatus
from mcp_client.state import MemoryState
from tests.interop import peers
from tests.test_readme import EXAMPLES, TEXTS, blocks

ROOT = Path(__file__).parents[1]
SERVER = StdioServer("python", ["server.py"])


async def a_session() -> None:
    async with connect(SERVER, approval=decides) as session:
        assert_type(session, Session)
        tools = await session.list_tools()
        assert_type(tools, ToolList)
        assert_type(tools[0], Tool)
        assert_type(tools[0].input_schema, dict[str, Any])
        assert_type(tools.findings, tuple[Finding, ...])
        result = await session.call_tool("echo", {"text": "hello"}, timeout=10)
        assert_type(result, ToolResult)
        assert_type(result.text, str)
        assert_type(result.is_error, bool)
        assert_type(result.structured_content, Any)
        assert_type(await session.read_resource("file:///a"), ResourceResult)
        assert_type(await session.get_prompt("greet"), PromptResult)
        assert_type(await session.start_tool("slow"), Task)
    assert_type(await connect(SERVER), Session)


async def a_host() -> None:
    async with Host({"weather": SERVER}, state="state/") as host:
        assert_type(host, Host)
        assert_type(await host.list_tools(), ToolList)
        assert_type(await host.call_tool("weather__now"), ToolResult)
        assert_type(await host.search_tools("weather"), list[Tool])
        assert_type(host.status(), Mapping[str, ServerStatus])
        assert_type(await host.session("weather"), Session)


def without_an_event_loop() -> None:
    with sync.connect(SERVER, approval=decides) as session:
        assert_type(session, sync.Session)
        assert_type(session.list_tools(), ToolList)
        assert_type(session.call_tool("echo", {"text": "hello"}), ToolResult)
        assert_type(session.start_tool("slow"), sync.Task)
    with sync.Host({"weather": SERVER}) as host:
        assert_type(host, sync.Host)
        assert_type(host.call_tool("weather__now"), ToolResult)
        assert_type(host.search_tools("weather"), list[Tool])


def decides(request: ApprovalRequest) -> Allow | Deny:
    assert_type(request.hints, Hints)
    assert_type(request.findings, tuple[Finding, ...])
    if isinstance(request, ToolCall):
        assert_type(request, ToolCall)
        assert_type(request.tool, Tool)
        assert_type(request.arguments, dict[str, Any])
    return Allow(remember="session") if request.hints.read_only else Deny("ask Ana first")


async def decides_later(request: ApprovalRequest) -> Allow | Deny:
    return decides(request)


def hooks_and_policies() -> None:
    queue = ApprovalQueue(wait=0)
    for approval in (decides, decides_later, queue, Rules([Rule("allow", read_only=True)])):
        connect(SERVER, approval=approval)
    assert_type(queue.pending, tuple[PendingApproval, ...])
    assert_type(queue.pending[0].request, ApprovalRequest)
    assert_type(Rules.from_file("policy.toml"), Rules)


def states() -> None:
    for state in (MemoryState(), FileState("state/")):
        assert_type(state.decisions, Decisions)
        assert_type(state.pins, Pins)


def logs_and_tokens() -> None:
    places: AuditTo = ["calls.jsonl", AuditLog("calls.jsonl", key=b"secret")]
    connect(SERVER, audit=Audit(places, failure="warn"))
    verified = verify_audit("calls.jsonl")
    assert_type(verified, Verified)
    assert_type(verified.open_calls, tuple[OpenCall, ...])
    store: TokenStore = FileTokens("tokens.json")
    HttpServer("https://example.com/mcp", auth=OAuth(store=store))


async def models(host: Host, response: object) -> None:
    tools = await host.list_tools()
    for kit in (
        assert_type(openai_chat.toolset(tools), openai_chat.Toolset),
        assert_type(openai_responses.toolset(tools), openai_responses.Toolset),
        assert_type(anthropic.toolset(tools, code=True), anthropic.Toolset),
        assert_type(gemini.toolset(tools, search="auto"), gemini.Toolset),
    ):
        assert_type(kit.tools, list[dict[str, Any]])
        assert_type(kit.calls(response), list[ModelCall])
        assert_type(await kit.run(host, response, context="ana"), list[dict[str, Any]])


def models_without_an_event_loop(host: sync.Host, response: object) -> None:
    kit = anthropic.toolset(host.list_tools())
    assert_type(kit.run(host, response), list[dict[str, Any]])


def errors(result: ToolResult) -> None:
    try:
        assert_type(result.raise_for_error(), ToolResult)
    except ToolFailed as error:
        assert_type(error.message, str)
    except CallTimeout as error:
        assert_type(error.clock, str)
    except McpError as error:
        assert_type(error.server, str | None)
        assert_type(error.retryable, bool)


@pytest.fixture
def pyright(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run Pyright with this Python's packages, and give what it reports."""

    def run(*words: str) -> dict[str, Any]:
        source = str(Path(mcp_client.__file__).parent.parent)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        command: Sequence[str] = [*peers.pyright(), *words, "--outputjson"]
        env = {**os.environ, "PATH": path, "PYTHONPATH": source}
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=300
        )
        return dict(json.loads(done.stdout))

    return run


@pytest.mark.interop
@pytest.mark.slow
def test_pyright_sees_what_mypy_sees(pyright: Callable[..., dict[str, Any]]) -> None:
    report = pyright("--pythonpath", sys.executable, __file__)
    assert [found["message"] for found in report["generalDiagnostics"]] == []
    assert report["summary"]["filesAnalyzed"] == 1


@pytest.mark.interop
@pytest.mark.slow
def test_the_type_of_each_exported_name_is_known(pyright: Callable[..., dict[str, Any]]) -> None:
    report = pyright("--verifytypes", "mcp_client", "--ignoreexternal")["typeCompleteness"]
    unclear = [symbol for symbol in report["symbols"] if not symbol["isTypeKnown"]]
    about = [(symbol["name"], *_messages(symbol)) for symbol in unclear if symbol["isExported"]]
    assert about == []
    assert report["completenessScore"] == 1


def _messages(symbol: Mapping[str, Any]) -> list[str]:
    messages = [found["message"] for found in symbol["diagnostics"]]
    return [each for each in messages if "docstring" not in each]


@pytest.mark.slow
def test_every_program_of_the_readme_and_the_guides_passes_strict_mypy(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [*command, *map(str, _shown_programs(tmp_path))],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.interop
@pytest.mark.slow
def test_every_program_of_the_readme_and_the_guides_passes_strict_pyright(
    pyright: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    programs = _shown_programs(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    report = pyright("--pythonpath", sys.executable, "--project", str(tmp_path))
    assert [found["message"] for found in report["generalDiagnostics"]] == []
    assert report["summary"]["filesAnalyzed"] == len(programs)


@pytest.mark.interop
@pytest.mark.slow
def test_every_example_passes_pyright(pyright: Callable[..., dict[str, Any]]) -> None:
    """Whose packages need not be installed."""
    examples = [str(path) for path in EXAMPLES]
    report = pyright("--pythonpath", sys.executable, *examples)
    found = [one for one in report["generalDiagnostics"] if one["severity"] == "error"]
    packages = ("reportMissingImports", 'reportAttributeAccessIssue: "genai"')
    about = [f"{one.get('rule')}: {one['message']}" for one in found]
    assert [one for one in about if not one.startswith(packages)] == []


def _shown_programs(directory: Path) -> list[Path]:
    """The programs of README and of the guides, without those that need other packages, and
    without the scripts of code mode."""
    paths: list[Path] = []
    for page in TEXTS:
        for block in blocks(page.read_text(), "python"):
            if not block.needs and "(await weather." not in block.code:
                paths.append(directory / f"program_{len(paths)}.py")
                paths[-1].write_text(block.code)
    return paths
