"""What is wrong in a config file: named with its place, while the other servers load."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcp_client import ConfigError
from mcp_client.config import ConfigProblem
from mcp_client.config.config import load_config


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SECRET", "s3cret-t0ken")
    monkeypatch.delenv("MISSING", raising=False)


def problems_of(tmp_path: Path, server: Any, name: str = "mcp.json") -> tuple[ConfigProblem, ...]:
    """Of a file with this server in line 3 or so and a good one after it."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        '{\n"mcpServers": {\n"bad": ' + json.dumps(server) + ',\n"good": {"command": "x"}}}'
    )
    config = load_config(path)
    assert "good" in config.servers
    for problem in config.problems:
        assert problem.path == path
        assert "s3cret" not in str(problem)
    return config.problems


@pytest.mark.parametrize(
    ("server", "key", "expected"),
    [
        (3, "", "not an object"),
        ({}, "", "neither a command nor a url"),
        ({"args": ["x"]}, "", "neither"),
        ({"command": "x", "url": "https://e.com"}, ".url", "together with a command"),
        ({"type": "ws", "url": "wss://e.com"}, ".type", "not one of"),
        ({"type": "stdio", "url": "https://e.com"}, ".type", "'stdio'"),
        ({"type": ["http"], "url": "https://e.com"}, ".type", "not one of"),
        ({"command": ["npx", "x"]}, ".command", "not a text"),
        ({"command": " "}, ".command", "empty"),
        ({"command": "x", "args": "y"}, ".args", "not a list"),
        ({"command": "x", "args": ["y"] * 10_001}, ".args", "more than 10,000 items"),
        ({"command": "x", "env": dict.fromkeys(map(str, range(10_001)))}, ".env", "10,000 items"),
        ({"command": "x", "args": ["y", 3]}, ".args[1]", "not a text"),
        ({"command": "x", "args": ["a\0b"]}, ".args[0]", "character"),
        ({"command": "x", "args": ["\ud800"]}, ".args[0]", "character"),
        ({"command": "x", "env": ["A=1"]}, ".env", "not an object"),
        ({"command": "x", "env": {"A": True}}, ".env.A", "not a text"),
        ({"command": "x", "env": {"A=B": "1"}}, ".env.'A=B'", "name of a variable"),
        ({"command": "x", "env": {"A": "${env:MISSING}"}}, ".env.A", "'MISSING'"),
        ({"command": "x", "envFile": "nowhere.env"}, ".envFile", "nowhere.env"),
        ({"command": "x", "disabled": "yes"}, ".disabled", "true or false"),
        ({"url": "example.com/mcp"}, "", "scheme"),
        ({"url": "https://e.com", "headers": {"X Y": "1"}}, "", "name of an HTTP header"),
        ({"url": "https://e.com", "headers": {"X": "a\nb"}}, "", "line break"),
        ({"url": "https://e.com", "oauth": {"callbackPort": "x"}}, ".oauth.callbackPort", "port"),
        ({"url": "https://e.com", "mcp-client": {"revision": "1999"}}, ".mcp-client.revision", ""),
        ({"url": "https://e.com", "mcp-client": {"include": [""]}}, ".mcp-client.include", "text"),
        ({"url": "https://e.com", "mcp-client": 1}, ".mcp-client", "not an object"),
        ({"command": "x", "mcp-client": {"bind": ["a"]}}, ".mcp-client.bind", "not an object"),
        (
            {"command": "x", "mcp-client": {"bind": {"*": {"tenant": "acme"}}}},
            ".mcp-client.bind",
            "only for a user's own file",
        ),
    ],
)
def test_a_server_with_something_wrong_is_left_out(
    tmp_path: Path, server: Any, key: str, expected: str
) -> None:
    (problem,) = problems_of(tmp_path, server)
    assert problem.line == 3
    assert problem.key == f"mcpServers.bad{key}"
    assert expected in problem.message
    assert "left out" in problem.message


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        ({"trust": True}, "which calls run"),
        ({"alwaysAllow": ["read"]}, "which calls run"),
        ({"autoApprove": ["*"]}, "which calls run"),
        ({"autoApproveAll": True}, "which calls run"),
        ({"colour": "red"}, "not a field"),
        ({"timeout": -1}, "not a time"),
        ({"timeout": "soon"}, "not a time"),
        ({"mcp-client": {"trusted": True}}, "only a user's own file"),
        ({"mcp-client": {"approval": "allow"}}, "not a field"),
    ],
)
def test_what_has_no_effect_is_reported_and_the_server_is_there(
    tmp_path: Path, member: Any, expected: str
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "x", **member}}}))
    config = load_config(path)
    (problem,) = config.problems
    assert expected in problem.message
    server = config.servers["a"]
    assert (server.trusted, server.approval, server.timeouts) == (None, None, None)


@pytest.mark.parametrize("member", [{"trust": False}, {"alwaysAllow": []}, {"autoApprove": None}])
def test_a_grant_of_nothing_is_not_a_problem(tmp_path: Path, member: Any) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "x", **member}}}))
    assert load_config(path).problems == ()


@pytest.mark.parametrize("name", ["", "a\nb", "x\u202ey", "n" * 129])
def test_a_name_that_cannot_be_shown_is_not_taken(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {name: {"command": "x"}, "good": {"command": "x"}}}))
    config = load_config(path)
    assert list(config.servers) == ["good"]
    assert "name of a server" in config.problems[0].message
    assert "\n" not in str(config.problems[0])


def test_a_server_that_occurs_twice_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(
        '{"mcpServers": {\n"a": {"command": "x"},\n"b": {"command": "y",\n"command": "z"},'
        '\n"good": {"command": "x"},\n"a": {"command": "evil"}}}'
    )
    config = load_config(path)
    assert list(config.servers) == ["good"]
    assert [(each.line, each.key) for each in config.problems] == [
        (2, "mcpServers.a"),
        (3, "mcpServers.b.command"),
    ]
    assert "line 6" in config.problems[0].message


def test_servers_that_are_under_two_tops_are_all_left_out(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(
        '{"mcpServers": {"a": {"command": "x"}},\n"mcpServers": {"b": {"command": "y"}}}'
    )
    config = load_config(path)
    assert not config.servers
    assert "line 2" in config.problems[0].message


@pytest.mark.parametrize(
    ("name", "content", "line", "expected"),
    [
        (".mcp.json", '{"mcpServers": {\n"a": {"command": "x",}\n}}', 2, "comma"),
        (".mcp.json", "{\n// no comments here\n}", 2, "comments"),
        (".mcp.json", "", 1, "ends before"),
        (".mcp.json", "[]", None, "not an object"),
        (".mcp.json", '{"servers": {}}', None, "'mcpServers'"),
        (".mcp.json", '{"mcpServers": []}', 1, "not an object"),
        ("config.toml", "[mcp_servers.a]\ncommand = \n", 2, "TOML"),
        ("config.toml", "mcp_servers = 3", 1, "not an object"),
    ],
)
def test_a_file_of_another_form_is_a_problem_with_its_line(
    tmp_path: Path, name: str, content: str, line: int | None, expected: str
) -> None:
    (tmp_path / name).write_text(content)
    config = load_config(tmp_path / name)
    assert not config.servers
    assert any(each.line == line and expected in each.message for each in config.problems)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe{\x00}\x00")
    (tmp_path / "large.json").write_bytes(b" " * (1024 * 1024 + 1))
    for name in ("nowhere.json", "pipe.json", "binary.json", "large.json", "."):
        with pytest.raises(ConfigError, match="config file"):
            load_config(tmp_path / name)


def test_a_users_own_file_may_be_large(tmp_path: Path) -> None:
    path = tmp_path / ".claude.json"
    history = ["something that was said" for _ in range(45_000)]
    path.write_text(json.dumps({"history": history, "mcpServers": {"a": {"command": "x"}}}))
    assert list(load_config(path, scope="user").servers) == ["a"]
    with pytest.raises(ConfigError, match="more than 1,048,576 bytes"):
        load_config(path)


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_bytes(b'\xef\xbb\xbf{"mcpServers": {"a": {"command": "x"}}}')
    assert list(load_config(path).servers) == ["a"]


def test_a_value_that_a_variable_brings_is_not_in_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3cret t0ken\n")
    for server in (
        {"url": "${env:SECRET}"},
        {"url": "https://${env:SECRET}/mcp"},
        {"url": "https://e.com", "headers": {"${env:SECRET}": "x", "A": "${env:SECRET}"}},
        {"command": "x", "cwd": "\0${env:SECRET}"},
    ):
        (problem,) = problems_of(tmp_path, server)
        assert "t0ken" not in str(problem)


def test_too_many_problems_and_too_many_servers_are_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    servers = {f"s{n}": {"command": "x", "a": 1, "b": 2, "c": 3} for n in range(600)}
    path.write_text(json.dumps({"mcpServers": servers}))
    config = load_config(path)
    assert len(config.servers) == 500
    assert len(config.problems) == 1_001


def test_nothing_of_a_config_shows_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(
        json.dumps(
            {
                "mcpServers": {
                    "a": {
                        "command": "x",
                        "args": ["--key=${env:SECRET}"],
                        "env": {"A": "${env:SECRET}", "B": "literal-secret"},
                    },
                    "b": {
                        "url": "https://u:literal-secret@e.com/?k=${env:SECRET}",
                        "headers": {"A": "${env:SECRET}", "B": "literal-secret"},
                        "oauth": {"clientId": "x", "clientSecret": "literal-secret"},
                    },
                }
            }
        )
    )
    config = load_config(path)
    assert len(config.servers) == 2
    displayed = repr(config) + repr(config.requests) + repr(config._starts)
    displayed += "".join(map(repr, [*config.servers.values(), *config.requests.values()]))
    assert "s3cret" not in displayed
    assert "literal-secret" not in displayed


def test_a_url_in_a_file_that_knows_none_is_reported_to_have_no_effect(tmp_path: Path) -> None:
    path = tmp_path / "claude_desktop_config.json"
    path.write_text(json.dumps({"mcpServers": {"a": {"url": "https://example.com"}}}))
    config = load_config(path)
    assert not config.servers
    assert ["Claude Desktop" in config.problems[0].message, config.problems[1].message] == [
        True,
        "has no command: add one; the server is left out",
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("cmd", "command"),
        ("Command", "command"),
        ("comand", "command"),
        ("arguments", "args"),
        ("environment", "env"),
        ("uri", "url"),
        ("header", "headers"),
    ],
)
def test_a_field_that_was_probably_misspelled_names_the_one_that_was_meant(
    tmp_path: Path, written: str, meant: str
) -> None:
    reported = [problem.message for problem in problems_of(tmp_path, {written: "x"})]
    assert any(message.endswith(f"did you mean {meant!r}?") for message in reported), reported


def test_nothing_is_guessed_of_a_field_that_is_there_or_like_no_other(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, {"command": "x", "comand": "y", "colour": "z"})
    assert len(problems) == 2
    assert not any("did you mean" in problem.message for problem in problems)


def test_a_problem_states_whether_servers_were_left_out_for_it(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, {"cmd": "x"})
    assert {problem.key: problem.left_out for problem in problems} == {
        "mcpServers.bad.cmd": False,
        "mcpServers.bad": True,
    }
