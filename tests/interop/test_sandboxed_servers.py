"""Real servers in a sandbox: they start and do their work, or report what has to be granted."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest

from mcp_client import ConnectError, Sandbox, StdioServer, allow_all, connect
from tests.interop import peers
from tests.sandbox.confined import needs_bubblewrap

pytestmark = [pytest.mark.interop, pytest.mark.one_backend]

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: ana, user: {token: none}}]
contexts: [{name: desk, context: {cluster: here, user: ana}}]
current-context: desk
"""


class Case(NamedTuple):
    """A server for the files of a directory, and one call to it."""

    server: Callable[[Path], StdioServer]
    tool: str
    arguments: Callable[[Path], dict[str, Any]]
    expected: str
    grants: Callable[[Path], dict[str, Any]] = lambda directory: {}


def _always(**arguments: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda directory: arguments


def _official(version: str) -> Case:
    return Case(lambda _: peers.official(version), "echo", _always(text="hello"), "hello")


CASES = {
    "everything": Case(lambda _: peers.everything(), "echo", _always(message="hello"), "hello"),
    "filesystem": Case(
        peers.filesystem,
        "write_file",
        lambda directory: {"path": str(directory / "new.txt"), "content": "written"},
        "new.txt",
        lambda directory: {"write": [directory]},
    ),
    "memory": Case(
        lambda directory: peers.memory(directory / "memory.json"),
        "create_entities",
        _always(entities=[{"name": "Ana", "entityType": "person", "observations": ["writes"]}]),
        "Ana",
        lambda directory: {"write": [directory]},
    ),
    "time": Case(lambda _: peers.time(), "get_current_time", _always(timezone="UTC"), "UTC"),
    "npx": Case(lambda _: peers.npx(), "read_graph", _always(), "entities"),
    "uvx": Case(lambda _: peers.uvx(), "get_current_time", _always(timezone="UTC"), "UTC"),
    "git": Case(
        lambda directory: peers.git(directory / "repository"),
        "git_status",
        lambda directory: {"repo_path": str(directory / "repository")},
        "No commits yet",
        lambda directory: {"read": [directory / "repository"]},
    ),
    "fastmcp": Case(lambda _: peers.fastmcp(), "add", _always(a=2, b=3), "5"),
    "native": Case(
        lambda directory: peers.native(directory / "kubeconfig"),
        "configuration_view",
        _always(minified=False),
        "name: desk",
        lambda directory: {"read": [directory / "kubeconfig"]},
    ),
    **{f"sdk-{version}": _official(version) for version in ("2.3.0", "1.30.0", "1.6.0", "1.2.0")},
}


NEEDS_A_GRANT = {"everything", "filesystem", "memory"}
"""Those that start only once what their first error names is granted."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    peers.repository(tmp_path / "repository")
    return tmp_path


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize("name", CASES)
async def test_a_real_server_does_its_work_inside_at_once_or_with_what_the_error_names(
    directory: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, advised = CASES[name], list[str]()
    for variable in ("npm_config_cache", "UV_CACHE_DIR"):  # the user's own caches are granted
        if (place := (case.server(directory).env or {}).get(variable)) is not None:
            monkeypatch.setenv(variable, place)
    for _ in range(2):
        grants = case.grants(directory)
        grants["read"] = [*grants.get("read", ()), *advised]
        server = dataclasses.replace(case.server(directory), sandbox=Sandbox(**grants))
        try:
            with anyio.fail_after(60):
                async with connect(server, approval=allow_all) as session:
                    result = await session.call_tool(case.tool, case.arguments(directory))
            break
        except ConnectError as error:
            found = re.search(r"add Sandbox\(read=(\[.*?\])\)", str(error))
            if found is None or advised:
                raise
            advised = ast.literal_eval(found[1])
    assert bool(advised) == (name in NEEDS_A_GRANT), advised
    assert not result.is_error, result.text
    assert case.expected in result.text
    if name == "filesystem":
        assert (directory / "new.txt").read_text() == "written"
    if name == "memory":
        assert "Ana" in (directory / "memory.json").read_text()


@needs_bubblewrap
async def test_a_real_server_writes_nothing_that_it_was_not_granted(directory: Path) -> None:
    server = peers.filesystem(directory)
    modules = next(each for each in Path(server.args[0]).parents if each.name == "node_modules")
    server = dataclasses.replace(server, sandbox=Sandbox(read=[directory, modules]))
    async with connect(server, approval=allow_all) as session:
        path = directory / "new.txt"
        result = await session.call_tool("write_file", {"path": str(path), "content": "written"})
    assert result.is_error and not path.exists()
