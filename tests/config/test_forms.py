"""Config files as people write them: what is accepted, what is reported, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Allow, Deny, Host, allow_all
from mcp_client.config import Config, find_configs, load_config
from mcp_client.errors import StartDenied
from mcp_client.transports.http import HttpServer
from mcp_client.transports.stdio import StdioServer
from tests.host.test_consent import Project, project

__all__ = ["project"]

A: dict[str, Any] = {"command": "x"}
B: dict[str, Any] = {"command": "y"}
URL = "https://example.com/mcp"
ZED = """{
  // settings of an editor
  "theme": "dark",
  "context_servers": {
    "new": {"source": "custom", "command": "x", "args": ["a", ], "env": {"K": "v"}, "timeout": 5},
    "old": {"command": {"path": "y", "args": ["b"], "env": {"K": "w"}}},
    "web": {"url": "https://example.com/mcp", "headers": {"X-A": "1"}, "enabled": false,},
    "extension": {"settings": {"key": "k"}},
  },
}"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TOKEN", "s3cret-t0ken")
    monkeypatch.setenv("EMPTY", "")
    for name in ("MISSING", "CLAUDE_PLUGIN_ROOT", "XDG_CONFIG_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)


def config_of(directory: Path, name: str, content: Any, **options: Any) -> Config:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    config = load_config(path, **options)
    assert "s3cret" not in "".join(map(str, config.problems))
    return config


def started(config: Config, name: str) -> StdioServer:
    server = config.servers[name].server
    assert isinstance(server, StdioServer)
    return server


def headers_of(config: Config, name: str) -> Any:
    server = config.servers[name].server
    assert isinstance(server, HttpServer)
    return server.headers


def reported(config: Config) -> list[tuple[str, bool]]:
    return [(problem.key, problem.left_out) for problem in config.problems]


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({**A, "url": None, "headers": None}, "command"),
        ({**A, "url": ""}, "command"),
        ({**A, "type": ""}, "command"),
        ({"url": URL, "command": None, "args": None, "env": None, "cwd": None}, "url"),
        ({"url": URL, "command": "", "args": [], "env": {}}, "url"),
        ({"url": URL, "command": None, "type": "http"}, "url"),
    ],
    ids=str,
)
def test_an_empty_field_of_the_other_kind_of_server_counts_as_absent(
    tmp_path: Path, members: Any, kind: str
) -> None:
    config = config_of(tmp_path, ".mcp.json", {"mcpServers": {"a": members}})
    assert config.problems == ()
    if kind == "url":
        assert headers_of(config, "a") is None
    else:
        assert started(config, "a").command == "x"


def test_two_ways_to_a_server_are_still_refused_and_so_is_none(tmp_path: Path) -> None:
    servers = {"both": {**A, "url": URL}, "none": {"command": None}, "empty": {"url": ""}}
    config = config_of(tmp_path, ".mcp.json", {"mcpServers": servers})
    assert list(config.servers) == []
    assert [one.left_out for one in config.problems] == [True] * 3


@pytest.mark.parametrize(
    "content", ["null", "[]", "7", {"mcpServers": []}, {"mcpServers": [A]}, {"mcpServers": "x"}]
)
def test_a_file_whose_servers_are_not_an_object_states_what_it_was_taken_for(
    tmp_path: Path, content: Any
) -> None:
    (problem,) = config_of(tmp_path, ".cursor/mcp.json", content).problems
    assert problem.left_out
    assert "is not an object" in problem.message
    assert "taken for a file of Cursor" in problem.message


# ------------------------------------------------------------------------- programs


def test_a_plugin_of_claude_code_has_its_servers_at_the_top_level(tmp_path: Path) -> None:
    content = {
        "db": {"command": "${CLAUDE_PLUGIN_ROOT}/db", "cwd": "${CLAUDE_PLUGIN_ROOT}/data"},
        "web": {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${TOKEN}"}},
    }
    config = config_of(tmp_path / "plugin", ".mcp.json", content)
    assert (config.program, list(config.servers), config.problems) == ("claude", ["db", "web"], ())
    db = started(config, "db")
    assert (db.command, db.cwd) == (f"{tmp_path}/plugin/db", f"{tmp_path}/plugin/data")
    assert headers_of(config, "web") == {"Authorization": "Bearer s3cret-t0ken"}
    wrapped = config_of(tmp_path / "plugin", ".mcp.json", {"mcpServers": content})
    assert (list(wrapped.servers), wrapped.problems) == (["db", "web"], ())


def test_what_is_not_a_server_at_the_top_level_is_reported(tmp_path: Path) -> None:
    config = config_of(tmp_path, ".mcp.json", {"$schema": "x", "a": A, "b": {"args": []}})
    assert list(config.servers) == ["a"]
    assert reported(config) == [("'$schema'", False), ("b", False)]
    (problem,) = config_of(tmp_path, "some.json", {"$schema": "x"}).problems
    assert "taken for a file of mcp-client" in problem.message


def test_a_name_that_occurs_twice_at_the_top_level_is_left_out(tmp_path: Path) -> None:
    text = '{"a": {"command": "x"},\n"b": {"command": "y"},\n"a": {"command": "evil"}}'
    config = config_of(tmp_path, ".mcp.json", text)
    assert list(config.servers) == ["b"]
    assert ("a", True) in reported(config)


@pytest.mark.parametrize("name", ["settings.json", ".zed/settings.json", "any.json"])
def test_zed(tmp_path: Path, name: str) -> None:
    config = config_of(tmp_path, name, ZED)
    assert (config.program, list(config.servers)) == ("zed", ["new", "old", "web"])
    new, old = started(config, "new"), started(config, "old")
    assert (new.command, new.args, new.env) == ("x", ("a",), {"K": "v"})
    assert (old.command, old.args, old.env) == ("y", ("b",), {"K": "w"})
    timeouts = config.servers["new"].timeouts
    assert timeouts is not None and timeouts.total == 5
    assert headers_of(config, "web") == {"X-A": "1"}
    assert not config.servers["web"].enabled
    assert reported(config) == [
        ("context_servers.old.command", False),
        ("context_servers.extension", True),
    ]
    assert "only Zed starts" in config.problems[1].message


def test_copilot_cli(tmp_path: Path) -> None:
    local = {"type": "local", "command": "npx", "args": ["x"], "env": {"K": "$TOKEN"}, "cwd": "in"}
    content = {
        "mcpServers": {
            "all": {**local, "tools": ["*"], "timeout": 5000},
            "some": {**local, "tools": ["a", "b*"]},
            "none": {"command": "x", "tools": []},
            "web": {"type": "http", "url": URL, "oauthClientId": "id", "oauthScopes": ["s"]},
            "odd": {"type": "http", "url": URL, "oauthGrantType": "client_credentials"},
        }
    }
    config = config_of(tmp_path, "mcp-config.json", content)
    assert config.program == "copilot"
    assert list(config.servers) == ["all", "some", "none", "web", "odd"]
    every = started(config, "all")
    assert (every.env, every.cwd) == ({"K": "s3cret-t0ken"}, f"{tmp_path}/in")
    filters = [(one.include, one.exclude) for one in config.servers.values()]
    assert filters[:3] == [((), ()), (("a", "b[*]"), ()), ((), ("*",))]
    assert dict(config.requests["web"].oauth or {}) == {"client_id": "id", "scopes": "s"}
    assert reported(config) == [("mcpServers.odd.oauthGrantType", False)]


def test_the_words_of_copilot_cli_are_those_of_the_file_of_no_program_too(tmp_path: Path) -> None:
    server = {"type": "local", "command": "x", "tools": ["a"]}
    config = config_of(tmp_path, "mcp.json", {"mcpServers": {"a": server}})
    assert (config.program, config.problems) == ("mcp-client", ())
    assert config.servers["a"].include == ("a",)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has directories of its own")
def test_the_files_of_copilot_cli_and_zed_are_found(tmp_path: Path) -> None:
    home, directory = tmp_path / "home", tmp_path / "project"
    for place, name, program in (
        (directory, ".github/mcp.json", "copilot"),
        (directory, ".zed/settings.json", "zed"),
        (home, ".copilot/mcp-config.json", "copilot"),
        (home, ".config/zed/settings.json", "zed"),
    ):
        members = {"context_servers" if program == "zed" else "mcpServers": {"a": A}}
        config = config_of(place, name, members)
        scope = "user" if place == home else "project"
        assert (config.program, config.scope) == (program, scope)
        assert started(config, "a").cwd == str(place), "not in the directory of the file"
        assert (program, scope) in {(one.program, one.scope) for one in find_configs(directory)}


@pytest.mark.parametrize(
    ("named", "members", "meant"),
    [
        ("local", A, "stdio"),
        ("STDIO", A, "stdio"),
        ("remote", {"url": URL}, "http"),
        ("HTTP", {"url": URL}, "http"),
        ("streamableHTTP", {"url": URL}, "http"),
    ],
)
def test_a_type_in_the_words_of_another_program_is_taken_and_reported(
    tmp_path: Path, named: str, members: dict[str, Any], meant: str
) -> None:
    server = {"type": named, **members}
    config = config_of(tmp_path, ".mcp.json", {"mcpServers": {"a": server}})
    (problem,) = config.problems
    assert (list(config.servers), problem.left_out) == (["a"], False)
    assert problem.message == f"{named!r} is taken for {meant!r}"


# -------------------------------------------------------------------------- silence


@pytest.mark.parametrize(
    ("name", "content", "title", "why"),
    [
        ("settings.json", '{"editor.fontSize": 12}', "Gemini CLI", "'editor.fontSize'"),
        ("settings.json", "{}", "Gemini CLI", "'mcpServers'"),
        ("settings.json", '{"mcpServers": {}}', "Gemini CLI", "has no server in it"),
        ("settings.json", '{"context_servers": {}}', "Zed", "has no server in it"),
        (".zed/settings.json", '{"mcpServers": {"a": {}}}', "Zed", "'context_servers'"),
        (".vscode/mcp.json", '{"mcpServers": {"a": {}}}', "VS Code", "it has 'mcpServers'"),
        (".mcp.json", '{"servers": {"a": {"command": "x"}}}', "Claude Code", "it has 'servers'"),
        (".mcp.json", '{"mcpServers": null}', "Claude Code", "has no server in it"),
        ("claude_desktop_config.json", '{"a": 1}', "Claude Desktop", "it has 'a'"),
        ("config.toml", "model = 1", "Codex", "'mcp_servers'"),
        ("config.toml", "", "Codex", "'mcp_servers'"),
        ("mcp.json", "", "mcp-client", "the file is empty"),
        ("mcp.json", " \n\t", "mcp-client", "the file is empty"),
        (".mcp.json", "\ufeff", "Claude Code", "the file is empty"),
        ("settings.json", "", "Gemini CLI", "the file is empty"),
        ("mcp-config.json", '{"mcpServers": {', "Copilot CLI", "no server is loaded"),
    ],
)
def test_a_file_without_a_server_states_what_it_was_taken_for_and_why(
    tmp_path: Path, name: str, content: str, title: str, why: str
) -> None:
    config = config_of(tmp_path, name, content)
    (problem,) = config.problems
    assert not config.servers
    assert f"taken for a file of {title}" in problem.message
    assert why in problem.message


def test_the_servers_of_both_spellings_are_parsed_from_a_file_of_no_program(
    tmp_path: Path,
) -> None:
    content = {"servers": {"a": A, "same": B, "b": A}, "mcpServers": {"b": B, "same": B, "c": B}}
    config = config_of(tmp_path, "mcp.json", content)
    assert (config.program, sorted(config.servers)) == ("mcp-client", ["a", "c", "same"])
    assert reported(config) == [("servers", False), ("servers.b", True)]
    assert "mcpServers.b" in config.problems[1].message
    others: tuple[Any, ...] = ([], ["web1"], {}, "x")
    for other in others:
        config = config_of(tmp_path, "mcp.json", {"servers": other, "mcpServers": {"c": B}})
        assert list(config.servers) == ["c"]


@pytest.mark.parametrize(
    ("name", "read", "unread"),
    [(".mcp.json", "mcpServers", "servers"), (".vscode/mcp.json", "servers", "mcpServers")],
)
def test_the_servers_that_a_program_does_not_read_are_reported(
    tmp_path: Path, name: str, read: str, unread: str
) -> None:
    config = config_of(tmp_path, name, {unread: {"a": A}, read: {"b": B}})
    (problem,) = config.problems
    assert (list(config.servers), problem.key) == (["b"], unread)
    assert "taken for a file of" in problem.message
    assert read in problem.message


# ------------------------------------------------------------------------ variables

CODEX = """
[mcp_servers.a]
command = "x"
env_vars = ["MISSING", "TOKEN", { name = "EMPTY" }]
[mcp_servers.b]
url = "https://example.com/mcp"
env_http_headers = { "X-Missing" = "MISSING", "X-Empty" = "EMPTY", "X-Token" = "TOKEN" }
"""


def test_codex_leaves_out_a_variable_that_is_not_set_and_starts_the_server(tmp_path: Path) -> None:
    config = config_of(tmp_path, "config.toml", CODEX)
    assert started(config, "a").env == {"TOKEN": "s3cret-t0ken", "EMPTY": ""}
    assert headers_of(config, "b") == {"X-Token": "s3cret-t0ken"}
    assert reported(config) == [
        ("mcp_servers.a.env_vars[0]", False),
        ("mcp_servers.b.env_http_headers.X-Missing", False),
        ("mcp_servers.b.env_http_headers.X-Empty", False),
    ]
    both = CODEX + 'http_headers = { "X-Missing" = "own", "X-Token" = "own" }\n'
    headers = headers_of(config_of(tmp_path, "config.toml", both), "b")
    assert headers == {"X-Missing": "own", "X-Token": "s3cret-t0ken"}
    assert "'MISSING' is not set" in config.problems[0].message
    assert "left out" in config.problems[0].message


def test_a_variable_that_is_left_out_is_shown_and_changes_no_confirmation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def requests() -> list[tuple[Any, ...]]:
        found = config_of(tmp_path, "config.toml", CODEX).requests
        return [
            (one.fingerprint, one.env_names, one.header_names, dict(one.variables))
            for one in found.values()
        ]

    unset = requests()
    assert unset[0][1] == ("MISSING", "TOKEN", "EMPTY")
    assert "X-Missing" in unset[1][2]
    monkeypatch.setenv("MISSING", "now")
    assert requests() == unset


async def test_a_server_with_a_variable_left_out_is_not_started_without_an_approval(
    project: Project,
) -> None:
    path = project.directory / ".codex" / "config.toml"
    path.parent.mkdir()
    members = {**project.server, "env_vars": ["MISSING"]}
    lines = [f"{name} = {json.dumps(value)}" for name, value in members.items()]
    path.write_text("\n".join(["[mcp_servers.a]", *lines]))
    async with Host.from_config(path, confirm=lambda _: Deny(), approval=allow_all) as host:
        with pytest.raises(StartDenied):
            await host.session("a")
    assert project.starts == 0
    async with Host.from_config(path, confirm=lambda _: Allow(), approval=allow_all) as host:
        await host.session("a")
    assert project.starts == 1


def test_a_command_that_prints_headers_is_reported_as_what_it_is(tmp_path: Path) -> None:
    text = f'[mcp_servers.a]\nurl = "{URL}"\nhttp_headers_helper = "x"'
    (problem,) = config_of(tmp_path, "config.toml", text).problems
    assert (problem.key, problem.left_out) == ("mcp_servers.a.http_headers_helper", True)
    assert "a command that prints headers" in problem.message
    assert "'http_headers'" in problem.message


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("Bearer ${MISSING:-}", None),
        ("Bearer ${EMPTY}", None),
        ("${MISSING:-}", None),
        ("a${MISSING:-}b", {"Authorization": "ab"}),
    ],
)
def test_a_variable_that_is_empty_is_reported(tmp_path: Path, value: str, sent: Any) -> None:
    server = {"url": URL, "headers": {"Authorization": value}}
    config = config_of(tmp_path, ".mcp.json", {"mcpServers": {"a": server}})
    assert headers_of(config, "a") == sent
    first = config.problems[0]
    assert (first.key, first.left_out) == ("mcpServers.a.headers.Authorization", False)
    assert "is empty here" in first.message
    assert any("is left out" in one.message for one in config.problems) is (sent is None)
    assert config.requests["a"].header_names == ("Authorization",)


RIGHT = {
    ".cursor/mcp.json": "Cursor's files: ${env:TOKEN}",
    "mcp_config.json": "Windsurf's files: ${env:TOKEN}",
    ".mcp.json": "Claude Code's files: ${TOKEN}",
    "mcp-config.json": "Copilot CLI's files: ${TOKEN}",
    ".zed/settings.json": "Zed's files do not support variables: write the value",
    "claude_desktop_config.json": "Desktop's files do not support variables: write the value",
}


SPELLED = (
    *("${TOKEN}", "${env:TOKEN}", "${TOKEN:-hunter2}", "${{ secrets.TOKEN }}", "{env:TOKEN}"),
    *("%TOKEN%", "$TOKEN", "Bearer $TOKEN"),
)
OWN = {
    ".cursor/mcp.json": ("${env:TOKEN}",),
    "mcp_config.json": ("${env:TOKEN}",),
    ".mcp.json": ("${TOKEN}", "${TOKEN:-hunter2}"),
    "mcp-config.json": ("${TOKEN}", "${TOKEN:-hunter2}", "$TOKEN", "Bearer $TOKEN"),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("spelled", SPELLED)
def test_a_variable_as_another_program_spells_it_is_reported_with_the_right_spelling(
    tmp_path: Path, name: str, spelled: str
) -> None:
    servers = "context_servers" if "zed" in name else "mcpServers"
    config = config_of(tmp_path, name, {servers: {"a": {**A, "env": {"K": spelled}}}})
    if spelled in OWN.get(name, ()):
        assert config.problems == ()
        return
    (problem,) = config.problems
    assert RIGHT[name] in problem.message
    assert "in " + RIGHT[name] not in problem.message or "do not support" not in RIGHT[name]
    assert "hunter2" not in problem.message
    assert problem.left_out is ("a" not in config.servers)


@pytest.mark.parametrize("value", ["pa$WORD", "100%", "{a: 1}", "$5", "a$b", "50%OFF%", "{env}"])
def test_a_sign_that_is_not_a_variable_is_not_reported(tmp_path: Path, value: str) -> None:
    content = {"mcpServers": {"a": {**A, "env": {"K": value}, "args": ["-c", "echo $HOME"]}}}
    assert config_of(tmp_path, ".cursor/mcp.json", content).problems == ()
