"""Members of a program's file without an effect are reported; what it requires is required."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mcp_client import Allow, Deny, Host, allow_all
from mcp_client import sync as blocking
from mcp_client.approval import StartRequest
from mcp_client.config import config as config_module
from mcp_client.config import find_configs, load_config
from mcp_client.config import programs as config_programs
from mcp_client.config.programs import PROGRAMS
from mcp_client.errors import StartDenied
from tests.host.test_consent import Project, project

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
    ("copilot", {**COMMAND, "deferTools": True, "oidc": True}, ["deferTools", "oidc"]),
    ("zed", {**COMMAND, "remote": True, "source": "custom"}, ["remote"]),
    (
        "mcp-client",
        {**COMMAND, "headers": {"A": "b"}, "oauth": {"clientId": "c"}},
        ["headers", "oauth"],
    ),
    ("mcp-client", {**URL, "args": ["a"], "env": {}, "cwd": "x"}, ["args", "cwd"]),
]


def file_of(directory: Path, program: str, server: dict[str, Any], **beside: Any) -> Path:
    """A file of ``program``, of one server that is called a."""
    path = directory / "config"
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
    reported = [problem.key.rpartition(".")[2] for problem in config.problems]
    assert sorted(reported) == sorted(names)
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


# ---------------------------------------------------------------- the lists of programs


def test_each_program_has_a_row_in_the_table_of_keys_without_an_effect() -> None:
    assert {program for program, _, _ in UNUSED} == set(PROGRAMS)


def test_the_docstrings_name_the_programs_that_there_are_and_no_other() -> None:
    """``PROGRAMS`` is the one list; ``help()`` shows its names and titles to a user."""
    documented = ast.get_docstring(_definition(config_programs, "ConfigFile", "program")) or ""
    assert re.findall(r'"([\w-]+)"', documented) == list(
        dict.fromkeys(one.public_name for one in PROGRAMS.values() if one.title != "Claude Desktop")
    )
    titles = re.search(r"those of (.+?)\. In each", " ".join((config_module.__doc__ or "").split()))
    assert titles
    assert re.split(
        r", | and ",
        titles[1].replace(" and its plugins", "").replace(", and ``mcp.json`` of ", ", "),
    ) == [one.title for one in PROGRAMS.values()]
    own_names = {name for name, one in PROGRAMS.items() if name != one.public_name}
    assert (
        set(re.findall(r'"([\w-]+)"', load_config.__doc__ or "")) - {"user", "project"} == own_names
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has directories of its own")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_files_of_each_program_are_found_and_known_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    program, home, directory = PROGRAMS[name], tmp_path / "home", tmp_path / "project"
    monkeypatch.setenv("HOME", str(home))
    for variable in ("XDG_CONFIG_HOME", "CODEX_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(variable, raising=False)
    places = {"data": home / ".config", "config": home / ".config", "home": home}
    places |= {one: home / f".{one}" for one in ("codex", "copilot")}
    places["zed"] = home / ".config" / "zed"
    if sys.platform == "darwin":
        places["data"] = places["config"] = home / "Library" / "Application Support"
    files = [(Path(each.format_map(places)), "user") for each in program.of_user]
    files += [(directory / program.in_project, "project")] * bool(program.in_project)
    for path, _ in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if program.toml else json.dumps({program.servers: {}}))
    found = find_configs(directory)
    assert sorted((one.path, one.scope) for one in found) == sorted(files)
    assert {one.program for one in found} == {program.public_name}
    assert {(load_config(one.path).program, load_config(one.path).scope) for one in found} == {
        (program.public_name, scope) for _, scope in files
    }


def _definition(module: ModuleType, name: str, field: str) -> ast.Module:
    """The docstring below ``field`` of a class, as a module of its own."""
    tree = ast.parse(inspect.getsource(getattr(module, name)))
    body = tree.body[0].body  # type: ignore[attr-defined]
    place = next(
        n
        for n, one in enumerate(body)
        if getattr(one, "target", None) is not None and one.target.id == field
    )
    return ast.Module([body[place + 1]], [])


# ------------------------------------------------------------------------ required


def codex(project: Project, **more: Any) -> Path:
    """A Codex file that requires its server a, which works unless ``more`` changes it."""
    server = {**project.server, "required": True, **more}
    path = file_of(project.directory, "codex", server)
    return path.rename(project.directory / "config.toml")


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
