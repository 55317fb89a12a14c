"""A config file is code: what it names is started only once that was allowed.

Each server here writes a marker before it serves, so that a start cannot go unseen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import Allow, ConfigError, ConnectError, Deny, Host, Timeouts, allow_all
from mcp_client.approval import Decisions, Remember, StartRequest
from mcp_client.approval.decision import Answer
from mcp_client.approval.remembered import ApprovalMemory
from mcp_client.config import load_config
from mcp_client.errors import StartDenied, UnknownTool
from mcp_client.state import MemoryState

WEATHER = Path(__file__).parents[2] / "examples" / "servers" / "weather.py"
MARKING = """
import pathlib, runpy, sys
with open(sys.argv[1], "a") as marker:
    marker.write("x")
runpy.run_path(sys.argv[2], run_name="__main__")
"""


class Project:
    """A project with a config file of one server, or several."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / ".mcp.json"
        self.decisions = directory / "decisions.json"
        self.marker = directory / "marker"
        (directory / "marking.py").write_text(MARKING)
        self.server: dict[str, Any] = {
            "command": sys.executable,
            "args": ["marking.py", str(self.marker), str(WEATHER)],
        }
        self.write()

    def write(self, **more: Any) -> None:
        self.path.write_text(json.dumps({"mcpServers": {"weather": self.server, **more}}))

    @property
    def starts(self) -> int:
        return len(self.marker.read_text()) if self.marker.exists() else 0

    def host(self, confirm: Any = None, **options: Any) -> Host:
        options.setdefault("approval", allow_all)
        options.setdefault("timeouts", Timeouts(connect=30, close=1))
        options.setdefault("state", Decisions(self.decisions))
        return Host.from_config(self.path, confirm=confirm, **options)

    def request(self, **options: Any) -> StartRequest:
        return load_config(self.path, **options).requests["weather"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TOKEN", "s3cret-t0ken")
    directory = tmp_path / "project"
    directory.mkdir()
    return Project(directory)


ALWAYS = Allow(remember="always")


class Asked:
    """A ``confirm`` that returns its decision and stores what it was asked."""

    def __init__(self, decision: Any = ALWAYS) -> None:
        self.decision = decision
        self.requests: list[StartRequest] = []

    async def __call__(self, request: StartRequest) -> Any:
        self.requests.append(request)
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision


def no(request: StartRequest) -> Answer:
    raise AssertionError("no one should be asked")


async def connected(host: Host, name: str = "weather") -> None:
    async with host.status_changes() as changes:
        if host.status()[name].state == "connected":
            return
        async for status in changes:
            if (status.name, status.state) == (name, "connected"):
                return


# ------------------------------------------------------------------ what starts, and what not


async def test_nothing_of_a_project_starts_without_an_approval(project: Project) -> None:
    async with project.host() as host:
        status = host.status()["weather"]
        assert status.state == "idle"
        assert isinstance(status.error, StartDenied)
        assert "confirm=" in status.error.message
        assert str(project.path) in status.error.message
        assert "weather" in str((await host.list_tools()).findings[0])
        with pytest.raises(ConnectError, match="confirm="):
            await host.session("weather")
    assert project.starts == 0


@pytest.mark.parametrize(
    "decision",
    [True, False, None, 1, "yes", Allow, Deny(), Allow({}), ValueError("x"), ConfigError("x")],
)
async def test_anything_but_allow_is_a_denial(project: Project, decision: Any) -> None:
    asked = Asked(decision)
    async with project.host(asked) as host:
        assert isinstance(host.status()["weather"].error, StartDenied)
        assert len(asked.requests) == 1
    assert project.starts == 0
    assert not project.decisions.exists()


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_approval_starts_the_server(project: Project, is_async: bool) -> None:
    asked = Asked()
    confirm: Callable[[StartRequest], Any] = asked
    if not is_async:

        def confirm(request: StartRequest) -> Answer:
            assert project.starts == 0
            return ALWAYS

    async with project.host(confirm) as host:
        await connected(host)
        assert (await host.call_tool("weather__get_weather", {"location": "Oslo"})).text
    assert project.starts == 1


async def test_a_quick_approval_is_waited_for_when_entering(project: Project) -> None:
    async with project.host(Asked()) as host:
        assert [tool.name for tool in await host.list_tools()] == ["get_weather", "set_alarm"]


async def test_entering_does_not_wait_for_a_person(project: Project) -> None:
    answered = anyio.Event()

    async def confirm(request: StartRequest) -> Answer:
        await answered.wait()
        return ALWAYS

    async with project.host(confirm) as host:
        assert host.status()["weather"].state == "idle"
        assert project.starts == 0
        assert "allowed" in str((await host.list_tools()).findings[0])
        answered.set()
        await connected(host)
        assert len(await host.list_tools()) == 2


async def test_a_host_that_is_closed_withdraws_its_questions(project: Project) -> None:
    withdrawn = []

    async def confirm(request: StartRequest) -> Answer:
        try:
            await anyio.sleep_forever()
        finally:
            withdrawn.append(request.server)
        return ALWAYS

    async with project.host(confirm):
        pass
    assert withdrawn == ["weather"]
    assert project.starts == 0


async def test_a_decision_that_does_not_come_is_a_denial(project: Project) -> None:
    async def confirm(request: StartRequest) -> Answer:
        await anyio.sleep_forever()
        return ALWAYS

    timeouts = Timeouts(approval=0.05, close=1)
    async with project.host(confirm, timeouts=timeouts) as host:
        with pytest.raises(StartDenied, match=r"within 0\.05 s"):
            await host.session("weather")
    assert project.starts == 0


async def test_after_a_denial_asking_for_the_session_asks_again(project: Project) -> None:
    asked = Asked(Deny("not this one"))
    async with project.host(asked) as host:
        with pytest.raises(StartDenied, match="not approved: not this one"):
            await host.session("weather")
        asked.decision = Allow()
        session = await host.session("weather")
        assert await session.list_tools()
        assert len(asked.requests) == 3
    assert project.starts == 1


async def test_a_servers_no_costs_only_its_own_tools(project: Project) -> None:
    other = {**project.server, "args": ["marking.py", str(project.marker), str(WEATHER), "other"]}
    project.write(other=other)

    async def confirm(request: StartRequest) -> Answer:
        return Allow() if request.server == "other" else Deny()

    async with project.host(confirm) as host:
        await connected(host, "other")
        tools = await host.list_tools()
        assert {tool.server for tool in tools} == {"other"}
        assert "weather" in str(tools.findings[0])
    assert project.starts == 1


async def test_a_users_own_file_needs_no_confirm_and_asks_one_that_is_passed(
    project: Project,
) -> None:
    async with project.host(scope="user") as host:
        await connected(host)
    assert project.starts == 1
    async with project.host(Asked(Deny("not this one")), scope="user") as host:
        assert isinstance(host.status()["weather"].error, StartDenied)
    assert project.starts == 1


async def test_a_file_in_its_place_among_the_users_settings_is_the_users(project: Project) -> None:
    place = Path.home() / ".cursor" / "mcp.json"
    place.parent.mkdir()
    server = {
        **project.server,
        "args": [str(project.directory / "marking.py"), *project.server["args"][1:]],
    }
    place.write_text(json.dumps({"mcpServers": {"weather": server}}))
    async with Host.from_config(place, approval=allow_all) as host:
        await connected(host)
    assert project.starts == 1


async def test_a_server_at_a_url_is_asked_about_too(project: Project) -> None:
    project.path.write_text(
        json.dumps({"mcpServers": {"docs": {"url": "https://user:pw@example.com/mcp?key=1"}}})
    )
    asked = Asked(Deny("not this one"))
    async with project.host(asked) as host:
        error = host.status()["docs"].error
        assert "not connected to" in str(error)
    (request,) = asked.requests
    assert (request.command, request.url) == (None, "https://example.com/mcp?...")


async def test_disabled_and_lazy_servers_ask_nothing_before_they_are_used(
    project: Project,
) -> None:
    lazy = {**project.server, "mcp-client": {"lazy": True}}
    project.write(lazy=lazy, off={**project.server, "disabled": True})
    asked = Asked()
    async with project.host(asked) as host:
        await connected(host)
        assert [request.server for request in asked.requests] == ["weather"]
        await host.session("lazy")
        assert [request.server for request in asked.requests] == ["weather", "lazy"]
        assert host.status()["off"].state == "disabled"
    assert project.starts == 2


# ------------------------------------------------------------------------- what is remembered


async def test_an_approval_is_remembered_across_hosts(project: Project) -> None:
    async with project.host(Asked()) as host:
        await connected(host)
    for confirm in (None, no):
        async with project.host(confirm) as host:
            assert len(await host.list_tools()) == 2
    assert project.starts == 3


async def test_without_a_file_an_approval_is_for_this_host(project: Project) -> None:
    for _ in range(2):
        asked = Asked()
        async with project.host(asked, state=None) as host:
            await connected(host)
            await host.reconnect("weather")
        assert len(asked.requests) == 1


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "an argument": lambda server: server["args"].append("-v"),
    "the order of arguments": lambda server: server["args"].reverse(),
    "the command": lambda server: server.update(command="/usr/bin/env"),
    "a variable more": lambda server: server["env"].update(NODE_OPTIONS="--require evil"),
    "a variable's literal value": lambda server: server["env"].update(MODE="other"),
    "a variable's template": lambda server: server["env"].update(KEY="${OTHER:-x}"),
    "a template in place of a value": lambda server: server["env"].update(MODE="${MODE:-fast}"),
    "a timeout": lambda server: server.update(timeout=5),
    "an option": lambda server: server.update({"mcp-client": {"exclude": ["set_*"]}}),
}


@pytest.mark.parametrize("change", list(CHANGES))
async def test_a_change_asks_again(project: Project, change: str) -> None:
    project.server["env"] = {"MODE": "fast", "KEY": "${TOKEN}"}
    project.write()
    before = project.request()
    ApprovalMemory(store=Decisions(project.decisions)).keep(before, Remember("always"))
    CHANGES[change](project.server)
    project.write()
    assert project.request().fingerprint != before.fingerprint
    async with project.host() as host:
        assert isinstance(host.status()["weather"].error, StartDenied)
    assert project.starts == 0


def test_a_change_of_a_header_or_a_url_asks_again(project: Project) -> None:
    digests = set()
    for server in (
        {"url": "https://example.com/mcp"},
        {"url": "https://example.com/mcp?a=1"},
        {"url": "https://example.com/mcp", "headers": {"X": "1"}},
        {"url": "https://example.com/mcp", "headers": {"X": "2"}},
        {"url": "https://example.com/mcp", "headers": {"Y": "1"}},
        {"url": "https://example.com/mcp", "oauth": {"clientId": "a"}},
    ):
        project.server = server
        project.write()
        digests.add(project.request().fingerprint)
    assert len(digests) == 6


def test_a_change_of_place_asks_again(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    copied = Project(elsewhere)
    copied.path.write_text(project.path.read_text())
    assert copied.request().fingerprint != project.request().fingerprint
    first = project.request()
    project.path = project.path.with_name("mcp.json")
    project.write()
    assert (project.request().cwd, project.request().args) == (first.cwd, first.args)
    assert project.request().fingerprint != first.fingerprint
    assert project.request().fingerprint != project.request(scope="user").fingerprint


def test_what_an_environment_file_brings_is_covered(project: Project) -> None:
    directory = project.directory / ".vscode"
    directory.mkdir()
    project.path = directory / "mcp.json"
    project.path.write_text(
        json.dumps({"servers": {"weather": {**project.server, "envFile": ".env"}}})
    )
    digests = set()
    for content in ("A=1", "A=2", "A=1\nLD_PRELOAD=evil.so"):
        (project.directory / ".env").write_text(content)
        request = project.request()
        digests.add(request.fingerprint)
        assert request.env_names[0] == "A"
        assert request.env_file == str(project.directory / ".env")
    assert len(digests) == 3
    assert any("LD_PRELOAD" in warning.text for warning in request.findings[1:])


async def test_a_new_value_of_a_variable_does_not_ask_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.server["env"] = {"KEY": "${TOKEN}"}
    project.write()
    async with project.host(Asked()) as host:
        await connected(host)
    monkeypatch.setenv("TOKEN", "renewed")
    async with project.host() as host:
        await connected(host)
    assert project.starts == 2


async def test_what_was_confirmed_is_what_is_started(project: Project) -> None:
    """A file that changes while a person thinks changes nothing of what they are asked."""

    async def confirm(request: StartRequest) -> Answer:
        project.server["args"] = ["-c", f"open({str(project.marker)!r}, 'a').write('evil')"]
        project.write()
        return ALWAYS

    async with project.host(confirm) as host:
        await connected(host)
    assert project.marker.read_text() == "x"
    async with project.host() as host:
        assert isinstance(host.status()["weather"].error, StartDenied)


# ---------------------------------------------------------------------------------- others


async def test_a_file_of_which_nothing_can_be_used_is_an_error(project: Project) -> None:
    for content in ('{"mcpServers": {', '{"mcpServers": {"a": {"command": "${MISSING_ONE}"}}}'):
        project.path.write_text(content)
        with pytest.raises(ConfigError, match=str(project.path)):
            project.host()


async def test_problems_of_the_file_are_the_hosts(project: Project) -> None:
    project.write(bad={"command": "${MISSING_ONE}"})
    async with project.host(Asked()) as host:
        (problem,) = host.problems
        assert "MISSING_ONE" in problem.message
        assert list(host.status()) == ["weather"]


async def test_options_of_the_host_hold_for_servers_of_the_file(project: Project) -> None:
    project.server["timeout"] = 7_000
    project.write()
    timeouts = Timeouts(connect=11, approval=13)
    host = project.host(Asked(), timeouts=timeouts)
    config = host._servers["weather"].config
    assert config.timeouts == Timeouts(connect=11, idle=7, total=7, approval=13)
    with pytest.raises(ConfigError, match="confirm="):
        project.host("yes")
    with pytest.raises(ConfigError, match="state="):
        project.host(state=3)
    with pytest.raises(TypeError, match="no option"):
        project.host(colour="red")
    with pytest.raises(ConfigError, match="timeouts="):
        project.host(timeouts=3)


async def test_a_state_of_ones_own_is_used(project: Project) -> None:
    state = MemoryState()
    for confirm in (Asked(), no):
        async with project.host(confirm, state=state) as host:
            await connected(host)
    (stored,) = state.decisions.list(kind="start")
    assert (stored.server, stored.scope) == ("weather", "always")
    assert stored.subject == sys.executable


async def test_a_store_that_fails_denies_a_start_and_does_not_void_an_approval(
    project: Project,
) -> None:
    class Broken(MemoryState):
        waits = True

        def __init__(self, method: str) -> None:
            super().__init__()
            self.method = method

        def list(self, kind: str) -> Any:
            if self.method == "list":
                raise OSError("no store")
            return super().list(kind)

        def change(self, kind: str, key: str, function: Any) -> Any:
            if self.method == "change" and kind == "decisions":
                raise ConfigError("no store")
            return super().change(kind, key, function)

    async with project.host(no, state=Decisions(Broken("list"))) as host:
        assert host.status()["weather"].error is not None
    assert project.starts == 0
    async with project.host(Asked(), state=Decisions(Broken("change"))) as host:
        await host.session("weather")
    assert project.starts == 1


# ------------------------------------------------------------------ why its tools are missing


async def test_a_call_states_that_the_server_waits_for_a_response_and_how_to_wait(
    project: Project,
) -> None:
    answered = anyio.Event()

    async def person(request: StartRequest) -> Answer:
        await answered.wait()
        return ALWAYS

    with anyio.fail_after(60):
        async with project.host(person) as host:
            with pytest.raises(UnknownTool) as caught:
                await host.call_tool("weather__get_weather", {"location": "Oslo"})
            assert caught.value.message.endswith(
                "Servers whose tools are missing: weather: waits to be allowed to start; "
                "host.session('weather') waits for the decision"
            )
            assert caught.value.retryable
            findings = (await host.list_tools()).findings
            assert "host.session('weather') waits for the decision" in str(findings[0])
            answered.set()
            await host.session("weather")
            result = await host.call_tool("weather__get_weather", {"location": "Oslo"})
            assert "Oslo" in result.text


async def test_each_missing_server_has_its_reason(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    project.write(
        dead={"command": "/does/not/exist"},
        lazy={"command": sys.executable, "mcp-client": {"lazy": True}},
    )

    def decision(request: StartRequest) -> Answer:
        return Deny() if request.server == "weather" else Allow()

    with anyio.fail_after(60):
        async with project.host(decision) as host:
            with pytest.raises(UnknownTool) as caught:
                await host.call_tool("x")
    assert caught.value.message == (
        "no server has a tool 'x'. Servers whose tools are missing: "
        "weather: was not allowed to start; session('weather') asks again, "
        "dead: not connected: cannot run the command '/does/not/exist': it is not an executable "
        "file; check the path, and that it may be executed, "
        "lazy: not started yet; session('lazy') starts it"
    )
    (line,) = (one.getMessage() for one in caplog.records if "dead" in one.getMessage())
    assert line.startswith("dead: not connected: cannot run the command '/does/not/exist': ")
    assert not caught.value.retryable


async def test_a_server_that_was_not_started_is_reported_once(project: Project) -> None:
    async with project.host(Asked(Deny("not this one"))) as host:
        (finding,) = (await host.list_tools()).findings
        assert finding.known_as == ("missing_server", "weather")
        assert str(finding) == ("server 'weather' is missing: it was not started: not this one")
        error = host.status()["weather"].error
        assert error is not None
        assert error.message.count("not started") == 1
        host_error = host._servers["weather"].refusal()
    assert host_error.message == "the server was not started: not approved: not this one"


# ------------------------------------------------------------------ what is wrong with the file


def test_the_error_shows_why_servers_were_left_out_and_what_was_meant(project: Project) -> None:
    project.path.write_text('{"mcpServers":{"a":{"cmd":"x"}}}')
    with pytest.raises(ConfigError) as caught:
        project.host()
    text = caught.value.message
    assert "did you mean 'command'?" in text
    assert text.index("neither a command nor a url") < text.index("did you mean")


def test_three_problems_are_shown_and_the_others_counted(project: Project) -> None:
    servers = {str(number): {"colour": 1} for number in range(4)}
    project.path.write_text(json.dumps({"mcpServers": servers}))
    with pytest.raises(ConfigError) as caught:
        project.host()
    assert caught.value.message.count("neither a command nor a url") == 3
    assert "colour" not in caught.value.message
    assert caught.value.message.endswith("; and 5 more: load_config(path).problems")


@pytest.mark.parametrize("path", [5, None, "", b"x"])
def test_what_is_not_a_path_is_a_config_error(path: Any) -> None:
    for use in (Host.from_config, load_config):
        with pytest.raises(ConfigError, match="give the path of a file"):
            use(path)
