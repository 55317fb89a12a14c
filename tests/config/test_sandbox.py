"""A server's sandbox in a config file: our own key, and VS Code's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_client import (
    ApprovalRequest,
    ConfigError,
    Host,
    Sandbox,
    ServerConfig,
    StdioServer,
)
from mcp_client.config import Config, load_config
from mcp_client.errors import StartDenied
from mcp_client.testing import Recording

pytestmark = [
    pytest.mark.one_backend,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sandbox"),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    directory = tmp_path / "project"
    for name in ("data", "notes", ".vscode"):
        (directory / name).mkdir(parents=True)
    (directory / "data" / ".env").write_text("")
    monkeypatch.setenv("PLACE", str(directory / "data"))
    return directory


def ours(project: Path, sandbox: Any, scope: Any = None, **members: Any) -> Config:
    """The config of one server with our own key."""
    server = {"command": "npx", "args": ["-y", "server"], "mcp-client": {"sandbox": sandbox}}
    path = project / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"files": {**server, **members}}}))
    return load_config(path, scope=scope)


def vscode(project: Path, rules: Any = None, whole: Any = None, **members: Any) -> Config:
    server = {"command": "npx", "args": ["server"], "sandboxEnabled": True, **members}
    if rules is not None:
        server["sandbox"] = rules
    content = {"servers": {"files": server}, **({} if whole is None else {"sandbox": whole})}
    path = project / ".vscode" / "mcp.json"
    path.write_text(json.dumps(content))
    return load_config(path)


def sandbox_in(config: Config) -> Any:
    server = config.servers["files"].server
    assert isinstance(server, StdioServer)
    return server.sandbox


def confinement(request: ApprovalRequest) -> str:
    return next(fact.text for fact in request.facts() if fact.kind == "confinement")


class TestOurKey:
    def test_true_grants_nothing_and_an_object_what_it_states(self, project: Path) -> None:
        assert sandbox_in(ours(project, True)) == Sandbox()
        assert sandbox_in(ours(project, {})) == Sandbox()
        config = ours(
            project,
            {
                "read": ["data", "~/.ssh"],
                "write": ["${PLACE}"],
                "network": "loopback",
            },
        )
        assert config.problems == ()
        directory, home = project / "data", Path.home() / ".ssh"
        assert sandbox_in(config) == Sandbox([directory, home], [directory], "loopback")
        assert config.requests["files"].variables == {"PLACE": ("sandbox.write[0]",)}

    @pytest.mark.parametrize(
        ("sandbox", "key", "why"),
        [
            ({"read": ["missing"]}, "", "does not exist"),
            ({"read": ["*.txt"]}, "", "is a glob"),
            ({"write": ["/"]}, "", "cannot be granted"),
            ({"write": "data"}, ".write", "is not a list"),
            ({"write": [5]}, ".write[0]", "is not a text"),
            ({"read": ["${NOWHERE}"]}, ".read[0]", "is not set"),
            ({"network": "some"}, "", "network='some'"),
            ({"network": True}, ".network", "is not a text"),
            ("yes", "", "is not an object"),
            (1, "", "is not an object"),
            ([], "", "is not an object"),
        ],
    )
    def test_a_server_whose_sandbox_is_invalid_is_left_out(
        self, project: Path, sandbox: Any, key: str, why: str
    ) -> None:
        config = ours(project, sandbox)
        assert dict(config.servers) == {}
        (problem,) = config.problems
        assert (problem.key, problem.left_out) == (
            f"mcpServers.files.mcp-client.sandbox{key}",
            True,
        )
        assert why in problem.message

    def test_what_a_variable_brought_is_in_no_problem(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SECRET", "/s3cret")
        (problem,) = ours(project, {"read": ["${SECRET}/x"]}).problems
        assert "s3cret" not in str(problem)
        (project / "data" / "s3cret").mkdir()
        monkeypatch.setenv("SECRET", str(project / "data" / "s3cret"))
        request = ours(project, {"read": ["${SECRET}"]}).requests["files"]
        assert "can read the system's programs and libraries, its own, ${SECRET};" in (
            confinement(request)
        )
        assert "s3cret" not in f"{request} {request.to_json()}"

    def test_only_a_user_s_own_file_takes_the_sandbox_of_the_host_away(self, project: Path) -> None:
        config = ours(project, False)
        assert sandbox_in(config) is None
        (problem,) = config.problems
        assert "only a user's own file may start a server without one" in problem.message
        config = ours(project, False, scope="user")
        assert (sandbox_in(config), config.problems) == (False, ())

    def test_at_a_url_there_is_nothing_to_confine(self, project: Path) -> None:
        path = project / ".mcp.json"
        server = {"url": "https://docs.example/mcp", "mcp-client": {"sandbox": True}}
        path.write_text(json.dumps({"mcpServers": {"docs": server}}))
        (problem,) = load_config(path).problems
        assert (problem.key, problem.left_out) == ("mcpServers.docs.mcp-client.sandbox", False)
        assert "nothing is started" in problem.message


class TestTheKeysOfVSCode:
    def test_they_are_a_sandbox_that_is_not_wider(self, project: Path) -> None:
        config = vscode(
            project,
            {
                "filesystem": {
                    "allowWrite": ["${workspaceFolder}/data"],
                    "allowRead": ["notes"],
                    "denyRead": ["${userHome}/.ssh"],
                    "denyWrite": ["~/.ssh"],
                }
            },
        )
        assert config.problems == ()
        assert sandbox_in(config) == Sandbox([project / "notes"], [project / "data"])
        assert sandbox_in(vscode(project)) == Sandbox()
        assert sandbox_in(vscode(project, sandboxEnabled=False)) is None

    def test_those_of_the_whole_file_count_for_a_server_that_has_none(self, project: Path) -> None:
        whole = {"filesystem": {"allowWrite": ["data"]}}
        assert sandbox_in(vscode(project, whole=whole)) == Sandbox(write=[project / "data"])
        assert sandbox_in(vscode(project, {}, whole=whole)) == Sandbox()

    @pytest.mark.parametrize(
        ("rules", "keys", "grants"),
        [
            ({"network": {"allowedDomains": ["a.example"]}}, ["network.allowedDomains"], ()),
            ({"network": {"deniedDomains": ["a.example"]}}, ["network.deniedDomains"], ()),
            (
                {"filesystem": {"allowWrite": ["data"], "denyWrite": ["data/.env"]}},
                ["filesystem.allowWrite"],
                (),
            ),
            (
                {"filesystem": {"allowWrite": ["data", "notes"], "denyRead": ["data/.env"]}},
                ["filesystem.allowWrite"],
                ("notes",),
            ),
            (
                {"filesystem": {"allowWrite": ["data"], "denyWrite": ["."]}},
                ["filesystem.allowWrite"],
                (),
            ),
            (
                {"filesystem": {"allowWrite": ["data"], "denyWrite": ["**/.env"]}},
                ["filesystem.allowWrite"],
                (),
            ),
            (
                {"filesystem": {"allowRead": ["data"], "denyRead": ["data/.env"]}},
                ["filesystem.allowRead"],
                (),
            ),
        ],
    )
    def test_what_cannot_be_held_is_a_problem_and_never_wider_access(
        self, project: Path, rules: Any, keys: list[str], grants: tuple[str, ...]
    ) -> None:
        config = vscode(project, rules)
        assert [one.key for one in config.problems] == [
            f"servers.files.sandbox.{key}" for key in keys
        ]
        assert all("'mcp-client': {'sandbox'" in one.message for one in config.problems)
        assert sandbox_in(config) == Sandbox(write=[project / one for one in grants])

    def test_what_is_allowed_within_what_is_denied_may_be_read(self, project: Path) -> None:
        config = vscode(project, {"filesystem": {"allowRead": ["notes"], "denyRead": ["."]}})
        assert sandbox_in(config) == Sandbox([project / "notes"])

    @pytest.mark.parametrize(
        "rules",
        [
            {"filesystem": {"denyRead": ["/etc/passwd"]}},
            {"filesystem": {"denyRead": ["/"]}},
            {"filesystem": {"denyRead": ["**/*.pem"]}},
            {"filesystem": {"allowWrite": ["missing"]}},
            {"filesystem": {"allowWrite": ["*"]}},
            {"filesystem": {"allowWrite": "data"}},
            {"filesystem": []},
            {"network": {"allowedDomains": "a.example"}},
            [],
            "all",
        ],
    )
    def test_a_server_whose_rules_are_invalid_is_left_out(self, project: Path, rules: Any) -> None:
        for config in (vscode(project, rules), vscode(project, whole=rules)):
            assert dict(config.servers) == {}
            assert any(problem.left_out for problem in config.problems)

    def test_what_has_no_effect_is_reported(self, project: Path) -> None:
        config = vscode(project, {"filesystem": {}}, sandboxEnabled=False)
        (problem,) = config.problems
        assert "has no effect without 'sandboxEnabled': true" in problem.message
        config = vscode(project, {"filesystems": {}, "filesystem": {"allowWrites": []}})
        assert len(config.problems) == 2
        assert dict(vscode(project, sandboxEnabled="yes").servers) == {}

    def test_our_own_key_leads_to_the_key_that_is_meant_as_advice(self, project: Path) -> None:
        own = {"mcp-client": {"sandbox": {"network": "all"}}}
        config = vscode(project, {"network": {"allowedDomains": ["a.example"]}}, **own)
        assert (sandbox_in(config), config.problems) == (Sandbox(network="all"), ())


class TestWhoIsAsked:
    def test_the_facts_state_how_it_is_confined_or_that_it_is_not(self, project: Path) -> None:
        request = ours(project, None).requests["files"]
        assert confinement(request) == "not confined: it can do whatever you can"
        assert "with all of your rights" in f"{request.asks} {request.findings[0]}"
        request = ours(project, {"write": ["data"]}).requests["files"]
        assert confinement(request) == (
            "can read the system's programs and libraries, its own; "
            f"can write {project / 'data'}, a temporary directory of its own; "
            "cannot reach the network; "
            "cannot use Unix sockets, but can write to named pipes in what it can read"
        )
        assert "with all of your rights" not in f"{request.asks} {request}"
        again = ApprovalRequest.from_json(json.loads(json.dumps(request.to_json())))
        assert (again, again.facts()) == (request, request.facts())

    def test_a_path_cannot_be_taken_for_more_of_the_sentence(self, project: Path) -> None:
        name = "x; cannot reach the network\u202e"
        (project / name).mkdir()
        sandbox = {"write": [name], "network": "all"}
        reported = confinement(ours(project, sandbox).requests["files"])
        assert f"can write '{project}/x; cannot reach the network\\u{{202e}}'," in reported
        assert "; can reach the network; can use" in reported

    def test_any_change_of_it_asks_again(self, project: Path) -> None:
        passed: list[Any] = [
            None,
            True,
            {"network": "all"},
            {"read": ["data"]},
            {"write": ["data"]},
        ]
        prints = [ours(project, one).requests["files"].fingerprint for one in passed]
        assert len(set(prints)) == len(passed)
        start = ours(project, None)._starts["files"]
        assert start.request().fingerprint == prints[0]
        of_host = [start.request(one).fingerprint for one in (Sandbox(), Sandbox(network="all"))]
        assert len({*prints, *of_host}) == len(passed) + 2
        own = ours(project, True)._starts["files"]
        assert own.request(Sandbox(network="all")).fingerprint == prints[1]  # its own beats that
        directory = project / "data"
        before = ours(project, {"read": ["data"]}).requests["files"].fingerprint
        directory.rename(project / "moved")
        directory.symlink_to(project / "notes")
        assert ours(project, {"read": ["data"]}).requests["files"].fingerprint != before


class Stop(Exception):
    pass


class TestWhichOneHolds:
    """A server's own beats the host's, in the file and in code."""

    async def test_of_a_config_file(self, project: Path) -> None:
        asked: list[Any] = []

        def confirm(request: Any) -> Any:
            asked.append(confinement(request))
            raise Stop

        options: Any = {"confirm": confirm, "sandbox": Sandbox(network="all")}
        path = ours(project, None).path
        async with Host.from_config(path, **options) as host:
            assert isinstance(host.status()["files"].error, StartDenied)
        ours(project, True)
        async with Host.from_config(path, **options):
            pass
        assert [one.split("; ")[2] for one in asked] == [
            "can reach the network",
            "cannot reach the network",
        ]

    def test_of_a_host_a_server_and_its_command(self) -> None:
        wide, narrow = Sandbox(network="all"), Sandbox()
        servers: dict[str, Any] = {
            "plain": ["true"],
            "own": ServerConfig(["true"], sandbox=wide),
            "inner": ServerConfig(StdioServer("true", sandbox=wide), sandbox=False),
            "none": StdioServer("true", sandbox=False),
            "off": ServerConfig(StdioServer("true"), sandbox=False),
            "docs": "https://docs.example/mcp",
            "told": Recording(StdioServer("true"), "told.jsonl"),
        }
        host = Host(servers, sandbox=True)
        found = {
            name: getattr(vars(one._transport)["_server"], "sandbox", "at a URL")
            if name != "told"
            else vars(vars(one._transport)["_inner"])["_server"].sandbox
            for name, one in host._servers.items()
        }
        assert found == {
            "plain": narrow,
            "own": wide,
            "inner": wide,
            "none": False,
            "off": False,
            "docs": "at a URL",
            "told": narrow,
        }

    def test_only_what_is_started_is_confined(self) -> None:
        for passed in (True, Sandbox()):
            with pytest.raises(ConfigError, match="only what is started by a command is confined"):
                ServerConfig("https://docs.example/mcp", sandbox=passed)
        Host({"docs": ServerConfig("https://docs.example/mcp", sandbox=False)}, sandbox=True)
        wrong: Any
        for wrong in ("yes", 1, {"read": []}):
            with pytest.raises(ConfigError, match="give True, False or a Sandbox"):
                Host({}, sandbox=wrong)
            with pytest.raises(ConfigError, match="give True, False or a Sandbox"):
                Host({"a": ServerConfig(["true"], sandbox=wrong)})
