"""What a config file puts in from other files: when it is read, which of it, and how much."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Allow, ConfigError, Host, StdioServer, allow_all
from mcp_client.approval import StartRequest
from mcp_client.config import Config, load_config
from mcp_client.config.values import followed, resolved
from mcp_client.errors import StartDenied

WEATHER = Path(__file__).parents[2] / "examples" / "servers" / "weather.py"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return directory


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The paths of all files that are opened."""
    paths: list[str] = []
    open_file = os.open

    def spy(path: Any, *args: Any, **options: Any) -> int:
        paths.append(os.fspath(path))
        return open_file(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", spy)
        yield paths


def config_of(project: Path, servers: dict[str, Any], **options: Any) -> Config:
    """Of Windsurf, which puts in files in any place, or of VS Code where one has an envFile."""
    vscode = any("envFile" in server for server in servers.values())
    path = project / (".vscode/mcp.json" if vscode else "mcp_config.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"servers" if vscode else "mcpServers": servers}))
    return load_config(path, **options)


def env_of(config: Config, name: str) -> Any:
    server = config.servers[name].server
    assert isinstance(server, StdioServer)
    return server.env


def test_a_projects_file_is_read_without_the_files_it_names_until_a_person_looks(
    project: Path, opened: list[str]
) -> None:
    (project / "a.env").write_text("A=1")
    servers = {name: {"command": "x", "envFile": "a.env"} for name in ("one", "two", "three")}
    config = config_of(project, servers)
    assert list(config.servers) == list(config.requests) == ["one", "two", "three"]
    assert "one" in config.servers
    assert len(config.servers) == 3
    assert repr(config.servers) == "<3 servers: 'one', 'two', 'three'>"
    assert opened == [str(config.path)]
    assert config.requests["one"].env_names == ("A",)
    assert env_of(config, "one") == env_of(config, "two") == {"A": "1"}
    assert opened == [str(config.path), str(project / "a.env")]


def test_what_was_shown_is_what_is_started_whatever_the_file_has_become(project: Path) -> None:
    (project / "a.env").write_text("A=shown")
    config = config_of(project, {"one": {"command": "x", "envFile": "a.env"}})
    assert config.requests["one"].env_names == ("A",)
    (project / "a.env").write_text("A=evil")
    assert env_of(config, "one") == {"A": "shown"}


async def test_a_file_that_changes_while_a_person_thinks_changes_nothing(project: Path) -> None:
    (project / "a.env").write_text("A=1")
    server = {"command": sys.executable, "args": [str(WEATHER)], "envFile": "a.env"}
    config = config_of(project, {"weather": server})

    def confirm(request: StartRequest) -> Allow:
        assert request.env_names == ("A",)
        (project / "a.env").write_text("PYTHONHOME=/nowhere")
        return Allow()

    async with Host.from_config(config.path, confirm=confirm, approval=allow_all) as host:
        await host.session("weather")
        result = await host.call_tool("weather__get_weather", {"location": "Oslo"})
        assert result.text


async def test_a_file_that_cannot_be_put_in_costs_its_own_server(project: Path) -> None:
    (project / "bad.env").write_text("no variable")
    config = config_of(
        project,
        {
            "bad": {"command": "x", "envFile": "bad.env"},
            "good": {"command": sys.executable, "args": [str(WEATHER)]},
        },
    )
    with pytest.raises(ConfigError, match=r"mcp\.json:1: servers\.bad\.envFile: line 1 of the"):
        config.requests["bad"]
    async with Host.from_config(
        config.path, confirm=lambda request: Allow(), approval=allow_all
    ) as host:
        await host.session("good")
        error = host.status()["bad"].error
        assert isinstance(error, StartDenied)
        assert "line 1 of the environment file" in error.message


@pytest.mark.parametrize(
    "path", ["/net/host/x", "//host/share/x", "/etc/hostname", "../x", "out", "loop", "out/x"]
)
@pytest.mark.parametrize("field", ["envFile", "env"])
def test_no_file_outside_of_project_and_home_is_touched(
    project: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch, path: str, field: str
) -> None:
    (project / "out").symlink_to("/net/host")
    (project / "loop").symlink_to("loop")
    looked_at: list[str] = []
    for name in ("lstat", "readlink", "stat"):
        function = getattr(os, name)

        def spy(place: Any, *args: Any, _function: Any = function, **options: Any) -> Any:
            looked_at.append(str(place))
            return _function(place, *args, **options)

        monkeypatch.setattr(os, name, spy)
    value = {"envFile": path} if field == "envFile" else {"env": {"A": f"${{file:{path}}}"}}
    config = config_of(project, {"one": {"command": "/usr/bin/true", **value}})
    (problem,) = config.problems
    assert "is not in the directory of the project" in problem.message
    assert list(config.servers) == []
    assert opened == [str(config.path)]
    assert not [each for each in looked_at if each.startswith(("/net", "//", "/etc/host"))]


def test_a_file_of_the_persons_home_may_be_put_in(project: Path) -> None:
    (Path.home() / ".env").write_text("A=1")
    config = config_of(project, {"one": {"command": "x", "envFile": "${userHome}/.env"}})
    assert env_of(config, "one") == {"A": "1"}


def test_a_pipe_is_not_waited_for(project: Path) -> None:
    os.mkfifo(project / "pipe")
    config = config_of(project, {"one": {"command": "x", "envFile": "pipe"}})
    with pytest.raises(ConfigError, match="not a regular file"):
        config.servers["one"]


def test_a_users_own_file_may_put_in_any(project: Path, tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text("A=1")
    servers = {"one": {"command": "x", "envFile": "../a.env"}}
    assert env_of(config_of(project, servers, scope="user"), "one") == {"A": "1"}


def test_all_files_that_are_put_in_share_one_budget(project: Path) -> None:
    for number in range(3):
        (project / f"{number}.env").write_text("A=" + "x" * 500_000)
    config = config_of(project, {f"{n}": {"command": "x", "envFile": f"{n}.env"} for n in range(3)})
    assert len(env_of(config, "0")["A"]) == len(env_of(config, "1")["A"]) == 500_000
    with pytest.raises(ConfigError, match="has more than"):
        config.servers["2"]
    assert env_of(config, "0")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux")
def test_many_servers_that_share_one_large_file_cost_little(project: Path) -> None:
    (project / "a.env").write_text("".join(f"NAME_{n}={'x' * 900}\n" for n in range(1_000)))
    config = config_of(project, {f"{n}": {"command": "x", "envFile": "a.env"} for n in range(200)})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    requests = list(config.requests.values())
    assert {len(each.env_names) for each in requests} == {1_000}
    assert env_of(config, "0")["NAME_0"] is env_of(config, "1")["NAME_0"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize(
    "text", ["".join(f"NAME_{n}=\n" for n in range(1_001)), "A=1\nno variable\n"]
)
def test_a_file_of_variables_that_cannot_be_used_costs_every_server_that_names_it(
    project: Path, text: str
) -> None:
    (project / "a.env").write_text(text)
    config = config_of(project, {name: {"command": "x", "envFile": "a.env"} for name in "ab"})
    for name in "ab":
        with pytest.raises(ConfigError, match=f"servers.{name}.envFile: .* environment file"):
            config.servers[name]


def test_links_are_followed_below_the_directories_and_no_further(tmp_path: Path) -> None:
    directory = tmp_path / "project"
    (directory / "deep").mkdir(parents=True)
    (directory / "deep" / "file").write_text("")
    (directory / "in").symlink_to("deep")
    (directory / "out").symlink_to("../other")
    (directory / "loop").symlink_to("loop")
    below = [str(directory)]
    assert resolved(f"{directory}/in/file", below) == f"{directory}/deep/file"
    assert resolved(f"{directory}/in/../in/none/x", below) == f"{directory}/deep/none/x"
    assert followed(f"{directory}/out/x", below) == (f"{tmp_path}/other/x", False)
    assert resolved(f"{directory}/loop", below) is None
    assert resolved(f"{directory}x", below) is None
    assert resolved("/etc/passwd", ["/"]) is None
