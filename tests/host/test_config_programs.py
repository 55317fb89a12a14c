"""What a program's file says without an effect is reported; what it requires is required."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Allow, Deny, Host, StartDenied, StartRequest, allow_all, load_config
from mcp_client import sync as blocking
from mcp_client.host.config_programs import PROGRAMS

from .test_consent import Project, project

__all__ = ["project"]

COMMAND: dict[str, Any] = {"command": "x"}
URL: dict[str, Any] = {"url": "https://e.com/mcp"}
LOGIN: dict[str, Any] = {**URL, "oauth": {"authorizationUrl": "https://e.com", "tokenUrl": "x"}}
UNUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("claude", {**COMMAND, "alwaysLoad": True}, ["alwaysLoad"]),
    ("claude", {**URL, "oauth": {"authServerMetadataUrl": "https://e"}}, ["authServerMetadataUrl"]),
    ("claude-desktop", {**COMMAND, "timeout": 1}, ["timeout"]),
    ("vscode", {**COMMAND, "dev": {"watch": "*"}, "gallery": True, "version": "1"}, ["dev"]),
    ("cursor", {**COMMAND, "cwd": "x"}, ["cwd"]),
    ("lmstudio", {**COMMAND, "timeout": 1}, ["timeout"]),
    ("windsurf", {**COMMAND, "cwd": "x"}, ["cwd"]),
    ("gemini", {**URL, "targetAudience": "a", "tcp": "b"}, ["targetAudience", "tcp"]),
    ("gemini", LOGIN, ["authorizationUrl", "tokenUrl"]),
    ("codex", {**COMMAND, "supports_parallel_tool_calls": True}, ["supports_parallel_tool_calls"]),
    ("codex", {**COMMAND, "experimental_environment": "remote"}, ["experimental_environment"]),
    ("codex", {**COMMAND, "env_vars": [{"name": "HOME", "source": "remote"}]}, ["env_vars"]),
    ("codex", {**URL, "oauth_resource": "https://e.com"}, ["oauth_resource"]),
    ("codex", {**COMMAND, "headers": {"A": "b"}}, ["headers"]),
    (
        "mcp-client",
        {**COMMAND, "headers": {"A": "b"}, "oauth": {"clientId": "c"}},
        ["headers", "oauth"],
    ),
    ("mcp-client", {**URL, "args": ["a"], "env": {}, "cwd": "x"}, ["args", "cwd"]),
]


def file_of(folder: Path, program: str, server: dict[str, Any], **beside: Any) -> Path:
    """A file of ``program``, of one server that is called a."""
    path = folder / "config"
    kind = PROGRAMS[program]
    if kind.toml:
        lines = [f"{name} = {json.dumps(value)}" for name, value in beside.items()]
        lines.append(f"[{kind.servers}.a]")
        for name, value in server.items():
            if isinstance(value, dict):
                pairs = ", ".join(f"{key} = {json.dumps(each)}" for key, each in value.items())
                lines.append(f"{name} = {{ {pairs} }}")
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                lines.append(f'{name} = [{{ name = "HOME", source = "remote" }}]')
            else:
                lines.append(f"{name} = {json.dumps(value)}")
        path.write_text("\n".join(lines))
    else:
        path.write_text(json.dumps({**beside, kind.servers: {"a": server}}))
    return path


@pytest.mark.parametrize(("program", "server", "names"), UNUSED)
def test_a_key_that_is_not_honoured_is_a_problem_that_leaves_no_server_out(
    tmp_path: Path, program: str, server: dict[str, Any], names: list[str]
) -> None:
    config = load_config(file_of(tmp_path, program, server), program=program)
    assert list(config.servers) == ["a"]
    told = [problem.key.rpartition(".")[2] for problem in config.problems]
    assert sorted(told) == sorted(names)
    for problem in config.problems:
        assert not problem.left_out
        assert "no effect" in problem.message or "other than this host" in problem.message


@pytest.mark.parametrize(
    ("program", "beside"),
    [
        ("claude", {"disabledMcpjsonServers": ["a"]}),
        ("codex", {"mcp_oauth_callback_port": 1, "mcp_oauth_credentials_store": "file"}),
    ],
)
def test_a_member_beside_the_servers_that_is_not_honoured_is_reported(
    tmp_path: Path, program: str, beside: dict[str, Any]
) -> None:
    config = load_config(file_of(tmp_path, program, COMMAND, **beside), program=program)
    assert [problem.key for problem in config.problems] == list(beside)
    assert list(config.servers) == ["a"]


# ------------------------------------------------------------------------ required


def codex(project: Project, **more: Any) -> Path:
    """A Codex file that requires its server a, which works unless ``more`` says otherwise."""
    server = {**project.server, "required": True, **more}
    path = file_of(project.folder, "codex", server)
    return path.rename(project.folder / "config.toml")


async def test_a_server_that_the_file_requires_is_there_once_the_host_is_entered(
    project: Project,
) -> None:
    path = codex(project)
    assert load_config(path).required == ("a",)
    assert load_config(path).problems == ()
    async with Host.from_config(path, confirm=lambda _: Allow(), approval=allow_all) as host:
        assert host.status()["a"].state == "connected"


async def test_entering_raises_without_a_server_that_the_file_requires(project: Project) -> None:
    path = codex(project)
    with pytest.raises(StartDenied):
        async with Host.from_config(path, confirm=lambda _: Deny(), approval=allow_all):
            pass
    assert project.starts == 0


def test_it_is_required_in_a_script_too(project: Project) -> None:
    path = codex(project)
    with pytest.raises(StartDenied), blocking.Host.from_config(path, approval=allow_all):
        pass


def test_a_server_that_is_disabled_or_not_asked_for_is_not_required(project: Project) -> None:
    path = codex(project, enabled=False)
    assert load_config(path).required == ()
    Host.from_config(path, approval=allow_all)
    path = codex(project)
    path.write_text(f'{path.read_text()}\n[mcp_servers.b]\ncommand = "x"\n')
    assert load_config(path).only(["b"]).required == ()


def test_what_is_required_is_true_or_false(project: Project) -> None:
    (problem,) = load_config(codex(project, required="yes")).problems
    assert (problem.key, problem.left_out) == ("mcp_servers.a.required", True)
    assert "true or false" in problem.message


async def test_what_the_host_requires_is_required_beside_it(project: Project) -> None:
    path = codex(project)
    text = path.read_text().replace("required = true", "").replace("servers.a", "servers.b")
    path.write_text(f"{path.read_text()}\n{text}")

    def confirm(request: StartRequest) -> Allow | Deny:
        return Allow() if request.server == "a" else Deny()

    with pytest.raises(StartDenied, match="b"):
        async with Host.from_config(path, confirm=confirm, required=["b"], approval=allow_all):
            pass
