"""A policy of the machine holds for hosts, config files and the shell, any response."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_client import (
    Allow,
    ConfigError,
    ConnectError,
    Host,
    HttpServer,
    MemoryServer,
    ServerConfig,
    StdioServer,
    Timeouts,
    allow_all,
    connect,
    sync,
)
from mcp_client.approval import Decisions, ManagedPolicy, managed_policy
from mcp_client.cli.main import main
from mcp_client.errors import StartDenied
from mcp_client.testing import Recording
from tests.support.http_server import Reply, Request, serving

WEATHER = Path(__file__).parents[2] / "examples" / "servers" / "weather.py"
SHORT = Timeouts(connect=30, close=1)


def marking(marker: Path) -> StdioServer:
    """A server that leaves a trace when it is started."""
    run = f"import runpy; runpy.run_path({str(WEATHER)!r}, run_name='__main__')"
    code = f"open({str(marker)!r}, 'a').write('x'); {run}"
    return StdioServer(sys.executable, ["-c", code])


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes the policy of the machine."""
    directory = tmp_path / "machine"
    directory.mkdir(mode=0o755)
    path = directory / "policy.toml"
    monkeypatch.setattr(managed_policy, "_place", lambda: str(path))
    monkeypatch.setattr(managed_policy, "_TOP", str(directory))
    monkeypatch.setattr(managed_policy, "_ROOT", getattr(os, "geteuid", int)())
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def write(text: str) -> Path:
        path.write_text(text)
        path.chmod(0o644)
        return path

    return write


DENIED = ManagedPolicy(Path("/etc/policy.toml"), deny=["*weather*", "https://*.example/*"])
REFUSED = "refused by the policy /etc/policy.toml: it denies"


async def test_a_session_is_not_opened_to_what_is_denied(tmp_path: Path) -> None:
    server = marking(tmp_path / "marker")
    for passed in (server, [server.command, *server.args], "https://docs.example/mcp"):
        with pytest.raises(StartDenied, match=REFUSED) as raised:
            await connect(
                Recording(passed, tmp_path / "r.jsonl"), policy=DENIED, approval=allow_all
            )
        assert raised.value.server
    with pytest.raises(StartDenied, match="not among those that it allows"):
        await connect(server, policy=ManagedPolicy(allow=["npx *"]), approval=allow_all)
    with pytest.raises(StartDenied, match="it requires a sandbox"):
        await connect(server, policy=ManagedPolicy(sandbox_required=True), approval=allow_all)
    assert not (tmp_path / "marker").exists()
    async with connect(
        MemoryServer(lambda message: NotImplemented), policy=ManagedPolicy(allow=[])
    ):
        pass  # which is the program's own


async def test_a_command_that_becomes_another_is_not_started_again(tmp_path: Path) -> None:
    link = tmp_path / "server"
    link.symlink_to(sys.executable)
    denied = tmp_path / "denied"
    denied.symlink_to(sys.executable)
    policy = ManagedPolicy(deny=["denied *"])
    server = StdioServer(str(link), [str(WEATHER)])
    async with connect(server, policy=policy, approval=allow_all, timeouts=SHORT) as session:
        await session.list_tools()
        link.unlink()
        link.symlink_to(denied)
        await session._connection.transport.aclose()
        with pytest.raises(StartDenied, match="it denies 'denied \\*'"):
            await session.call_tool("get_weather", {"location": "Oslo"})


async def test_a_host_starts_nothing_that_is_denied_and_does_not_try_again(tmp_path: Path) -> None:
    servers: dict[str, Any] = {
        "weather": marking(tmp_path / "marker"),
        "docs": HttpServer("https://docs.example/mcp"),
        "lazy": ServerConfig(marking(tmp_path / "marker"), lazy=True),
    }
    async with Host(servers, policy=DENIED, approval=allow_all, timeouts=SHORT) as host:
        await host.add("late", marking(tmp_path / "marker"))
        with pytest.raises(StartDenied, match=REFUSED):
            await host.session("lazy")
        with pytest.raises(StartDenied, match=REFUSED):
            await host.reconnect("weather")
        for name, status in host.status().items():
            assert (status.state, status.retry_in) == ("failed", None), name
            assert isinstance(status.error, StartDenied)
            assert status.error.source == "policy"
        listed = await host.list_tools()
        assert list(listed) == []
        assert REFUSED in " ".join(map(str, listed.findings))
    with pytest.raises(ConnectError, match=REFUSED):
        async with Host(servers, policy=DENIED, required=["weather"], timeouts=SHORT):
            pass
    assert not (tmp_path / "marker").exists()


@pytest.mark.one_backend
def test_the_same_without_an_event_loop(tmp_path: Path) -> None:
    server = marking(tmp_path / "marker")
    with pytest.raises(StartDenied, match=REFUSED):
        sync.connect(server, policy=DENIED, approval=allow_all).open()
    with sync.Host({"weather": server}, policy=DENIED, approval=allow_all) as host:
        assert host.status()["weather"].state == "failed"
    assert not (tmp_path / "marker").exists()


def config_of(directory: Path, server: StdioServer) -> Path:
    path = directory / ".mcp.json"
    members = {"command": server.command, "args": list(server.args)}
    path.write_text(json.dumps({"mcpServers": {"weather": members}}))
    return path


async def test_no_one_is_asked_about_a_server_of_a_config_file_that_is_denied(
    tmp_path: Path, policy: Any
) -> None:
    where = policy("[servers]\ndeny = ['*weather*']")
    config = config_of(tmp_path, marking(tmp_path / "marker"))
    asked: list[object] = []
    records: list[Any] = []

    def confirm(request: object) -> Allow:
        asked.append(request)
        return Allow(remember="always")

    options: Any = {
        "audit": records.append,
        "timeouts": SHORT,
        "state": Decisions(tmp_path / "kept"),
    }
    async with Host.from_config(config, confirm=confirm, scope="user", **options) as host:
        status = host.status()["weather"]
        assert status.state == "failed"
        assert f"refused by the policy {where}: it denies '*weather*'" in str(status.error)
    assert asked == []
    assert not (tmp_path / "marker").exists()
    decisions = [one["decision"] for one in records if one.get("decision")]
    assert {(one["answer"], one["source"]) for one in decisions} == {("deny", "policy")}
    policy("")
    async with Host.from_config(config, confirm=confirm, **options) as host:
        assert (await host.session("weather")).name == "weather"
    assert len(asked) == 1


@pytest.mark.one_backend
def test_no_option_takes_the_policy_of_the_machine_away(tmp_path: Path, policy: Any) -> None:
    policy("[servers]\ndeny = ['*weather*']")
    config = config_of(tmp_path, marking(tmp_path / "marker"))
    for weaker in (ManagedPolicy(), DENIED):
        with pytest.raises(ConfigError, match="this machine has its own policy"):
            Host.from_config(config, policy=weaker)
    for passed in (None, ManagedPolicy.system()):
        host = Host.from_config(config, policy=passed)
        assert host._options.policy == ManagedPolicy.system()
    policy("[server]")
    with pytest.raises(ConfigError, match="unknown key server"):
        Host.from_config(config)


@pytest.mark.one_backend
class TestTheShell:
    def run(self, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
        code = main([*words])
        displayed = capsys.readouterr()
        return code, displayed.out + displayed.err

    @pytest.mark.slow
    def test_no_command_uses_a_server_that_is_denied(
        self, tmp_path: Path, policy: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        where = policy("[servers]\ndeny = ['*weather*', 'http://127.0.0.1:9/*']")
        server = marking(tmp_path / "marker")
        target = shlex.join([server.command, *server.args])
        config = str(config_of(tmp_path, server))
        for words in (
            ["tools", target],
            ["call", target, "get_weather", "location=Oslo", "--allow", "*", "--trust"],
            ["tools", shlex.join(["env", "sh", "-c", target])],
            ["doctor", target],
            ["tools", "weather", "--config", config],
            ["tools", "http://127.0.0.1:9/mcp"],
            ["login", "http://127.0.0.1:9/mcp", "--headless"],
        ):
            code, displayed = self.run(capsys, *words)
            assert (code, str(where) in displayed) == (3, True), (words, code, displayed)
        code, displayed = self.run(capsys, "servers", "--config", config, "--json")
        (one,) = json.loads(displayed)["servers"]
        assert (code, one["mayStart"], one["refused"]) == (0, False, True)
        assert not (tmp_path / "marker").exists()

    def test_a_sandbox_that_is_required_is_asked_for(
        self, tmp_path: Path, policy: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        policy('sandbox = "required"')
        server = marking(tmp_path / "marker")
        words = ["tools", shlex.join([server.command, *server.args])]
        code, displayed = self.run(capsys, *words)
        assert (code, "it requires a sandbox: give sandbox=True, or --sandbox" in displayed) == (
            3,
            True,
        )
        assert not (tmp_path / "marker").exists()
        code, displayed = self.run(capsys, *words, "--sandbox")
        assert "it requires a sandbox" not in displayed  # what it can do in one is another matter
        config = config_of(tmp_path, server)
        for own, refused in (({}, True), ({"mcp-client": {"sandbox": True}}, False)):
            whole = json.loads(config.read_text())
            whole["mcpServers"]["weather"] |= own
            config.write_text(json.dumps(whole))
            code, displayed = self.run(capsys, "servers", "--config", str(config), "--json")
            (one,) = json.loads(displayed)["servers"]
            assert (one["refused"], bool(one["confined"])) == (refused, not refused)

    def test_its_rules_are_before_those_of_the_command(
        self, policy: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        policy("[[rules]]\noutcome = 'deny'\ntool = 'get_*'\nreason = 'not here'")
        target = shlex.join([sys.executable, str(WEATHER)])
        words = ["call", target, "get_weather", "location=Oslo", "--allow", "*"]
        code, displayed = self.run(capsys, *words)
        assert (code, "not here" in displayed) == (3, True), displayed

    def test_a_policy_that_cannot_be_used_stops_everything(
        self, policy: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        policy("deny = ['x']")
        for words in (["tools", "https://a.example"], ["login", "https://a.example"], ["servers"]):
            code, displayed = self.run(capsys, *words)
            assert (code, "cannot be used: unknown key deny" in displayed) == (2, True), displayed


@pytest.mark.parametrize("pattern", ["http://*/private/*", "*/private/*"])
async def test_a_redirect_leads_to_nothing_that_is_denied(pattern: str) -> None:
    async def handler(request: Request, reply: Reply) -> None:
        await reply.send(307, b"", {"Location": "/private/mcp"})

    async with serving(handler) as server:
        with pytest.raises(StartDenied, match="/private"):
            await connect(server.url, policy=ManagedPolicy(deny=[pattern]), approval=allow_all)
    assert {request.path for request in server.requests} == {"/mcp"}


IN_OWN_ETC = """
set -e
cp -a /etc/. "$1"; chmod 755 "$1"; mount --bind "$1" /etc; shift
mkdir -m 755 /etc/mcp-client
echo "[servers]\ndeny = ['*weather*']" > /etc/mcp-client/policy.toml
chmod 644 /etc/mcp-client/policy.toml
"$@" && exit 9
[ $? = 3 ] || exit 8
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
"""
"""Runs a command as root and as the user ``nobody``, on a machine with a policy of its own."""


@pytest.mark.slow
@pytest.mark.one_backend
@pytest.mark.needs("mounts of its own")
def test_the_real_file_of_root_holds_whatever_the_environment_sets(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    env = {**os.environ, "HOME": "/nowhere", "XDG_CONFIG_DIRS": "/nowhere", "ProgramData": "/x"}
    weather = shlex.join([sys.executable, str(WEATHER)])
    command = [sys.executable, "-m", "mcp_client", "tools", weather]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", IN_OWN_ETC, "sh", str(tmp_path / "etc"), *command],
        capture_output=True,
        text=True,
        env=env,
        cwd=Path(__file__).parents[2],
        timeout=60,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    reported = "the policy /etc/mcp-client/policy.toml: it denies '*weather*'"
    assert done.stderr.count(reported) == 2, done.stderr


async def test_a_command_that_is_allowed_by_name_is_the_hosts_own_and_not_the_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "weather-server"
        program.write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/ran\nexit 3\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'good'}:{os.environ['PATH']}")
    server = StdioServer("weather-server", env={"PATH": f"{tmp_path / 'bad'}:/usr/bin:/bin"})
    for policy in (ManagedPolicy(allow=["weather-server*"]), None):
        with pytest.raises(ConnectError):
            await connect(server, policy=policy, approval=allow_all)
    ran = (tmp_path / "ran").read_text().split()
    assert set(ran[: ran.index("bad")]) == {"good"}
    assert set(ran[ran.index("bad") :]) == {"bad"}
