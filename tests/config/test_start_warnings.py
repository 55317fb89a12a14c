"""Exactly which findings a server of a config file has, by its words."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_client.approval.start_request import Scope
from mcp_client.config import load_config

PUNYCODE = ": its host has letters outside ASCII; in ASCII (punycode) it is xn--gthub-n2e.com"
SEVERAL = ": one word of its host has letters of several scripts: cyrillic, latin"
LOOK_ALIKE = "look_alike: the command has letters outside ASCII, which may look like others:"
SHELL = "a shell runs the code in its arguments"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its paths are of another form")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, directory = tmp_path / "home", tmp_path / "home" / "project"
    directory.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("WORD", "sudo")
    os.symlink(tmp_path, directory / "link")
    return directory


def findings_of(project: Path, server: dict[str, Any]) -> list[str]:
    """Their texts, after those that each server has."""
    (project / "mcp.json").write_text(json.dumps({"mcpServers": {"server": server}}))
    config = load_config(project / "mcp.json")
    found = config.requests["server"].findings
    return [f"{one.kind}: {one.text}" for one in found if one.kind != "start"]


@pytest.mark.parametrize(
    "server", [{"command": "x"}, {"url": "https://example.com"}, {"url": "http://127.0.0.1:1/x"}]
)
def test_only_the_findings_of_a_projects_server_begin_with_that_it_can_do_anything(
    project: Path, server: dict[str, Any]
) -> None:
    file = project / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"server": server}}))
    scopes: tuple[Scope | None, ...] = (None, "project", "user")
    for scope in scopes:
        wanted = [] if scope == "user" else ["anything"]
        _, *found = load_config(file, scope=scope).requests["server"].findings
        assert [one.about for one in found if one.kind == "start"] == wanted
        assert all(
            one.text.startswith("it can do anything") for one in found if one.kind == "start"
        )


WORDS: list[tuple[list[str], list[str]]] = [
    (["x"], []),
    (["x", "sudo"], ["other_user: it uses sudo, which runs commands with another user's rights"]),
    (
        ["x", "sudo", "su"],
        [
            "other_user: it uses sudo, which runs commands with another user's rights",
            "other_user: it uses su, which runs commands with another user's rights",
        ],
    ),
    (
        ["x", "sudo", "sudo"],
        ["other_user: it uses sudo, which runs commands with another user's rights"],
    ),
    (["x", "bash"], []),
    (["bash", "x.sh"], []),
    (["bash", "-c", "x"], ["runs_code: a shell runs the code in its arguments (bash -c)"]),
    (["x", "bash", "-c", "y"], ["runs_code: a shell runs the code in its arguments (bash -c)"]),
    (
        ["${WORD}", "x"],
        [
            "other_user: it uses sudo, which runs commands with another user's rights",
            "from_variable: the variable WORD decides which program is run",
        ],
    ),
    (
        ["x", "${WORD}"],
        [
            "other_user: it uses sudo, which runs commands with another user's rights",
            "from_variable: the variable WORD is put into an argument, where other programs see it",
        ],
    ),
    (["awk", "BEGIN{}"], ["runs_code: awk runs the code in its arguments"]),
    (["awk", "-f", "x.awk"], []),
    (["x", "awk", "--file=x"], []),
    (["python", "x.py", "-c"], []),
    (["python", "-m", "y", "-c", "import z"], []),
    (["x", "-c", "print(1)"], ["runs_code: x runs the code in its arguments (-c)"]),
    (["x", "-c", "y z"], ["runs_code: x runs the code in its arguments (-c)"]),
    (["x", "-c", "config.json"], []),
    (["x", "-c", "./config"], []),
    (["x", "-c"], []),
    (["x", "-C", "y"], []),
    (["x", "run", "-e", "TOKEN"], []),
    (["x", "run", "-e", "TOKEN=a"], []),
    (["x", "y", "-e", "z"], []),
    (["x", "--exec", "y"], ["runs_code: x runs the code in its arguments (--exec)"]),
    (["x", "--exec", "y.sh"], []),
    (["x", "a; b"], ["runs_code: x runs the code in its arguments"]),
    (["x", "y", "a && b"], ["runs_code: x runs the code in its arguments"]),
    (["x", "y", "`a`"], ["runs_code: x runs the code in its arguments"]),
    (["x", '{"a": "b; c()"}'], []),
    (["x", "https://e.com/a;b(c)"], []),
    (["x", "{a,b}.json"], []),
    (["x", "https://e.com/y.ts"], ["runs_code: x downloads code and runs it: https://e.com/y.ts"]),
    (["x", "--y=git+ssh://a"], ["runs_code: x downloads code and runs it: --y=git+ssh://a"]),
    (["x", "run", "https://a"], ["runs_code: x downloads code and runs it: https://a"]),
    (
        ["python", "-W", "x", "-cimport os"],
        ["runs_code: python runs the code in its arguments (-c)"],
    ),
    (["node", "x.js", "--eval=1"], []),
    (["node", "--eval=1"], ["runs_code: node runs the code in its arguments (--eval=)"]),
    (
        ["ssh", "-oProxyCommand=x", "host"],
        ["runs_code: ssh runs the code in its arguments (-oProxyCommand=)"],
    ),
    (
        ["ssh", "-o", "ProxyCommand=x"],
        ["runs_code: ssh runs the code in its arguments (ProxyCommand=x)"],
    ),
    (["npx", "x"], []),
    (["npx", "-y", "github:a/b"], ["runs_code: npx downloads code and runs it: github:a/b"]),
    (["npx", "x", "github:a/b"], ["runs_code: npx downloads code and runs it: github:a/b"]),
    (
        ["npx", "--from", "git+https://a"],
        ["runs_code: npx downloads code and runs it: git+https://a"],
    ),
    (
        ["uvx", "--from=git+https://a", "x"],
        ["runs_code: uvx downloads code and runs it: --from=git+https://a"],
    ),
    (
        ["uvx", "--from=x", "git+https://a"],
        ["runs_code: uvx downloads code and runs it: git+https://a"],
    ),
    (
        ["uvx", "--from", "x", "git+https://a"],
        ["runs_code: uvx downloads code and runs it: git+https://a"],
    ),
    (["uv", "tool", "run", "https://a"], ["runs_code: uv downloads code and runs it: https://a"]),
    (["uv", "run", "x", "https://a"], ["runs_code: uv downloads code and runs it: https://a"]),
    (["npx", "--call", "x"], ["runs_code: npx runs the code in its arguments (--call)"]),
    (
        ["env", "A=1", "bash", "-c", "x"],
        ["runs_code: a shell runs the code in its arguments (bash -c)"],
    ),
    (["env", "-S", "'bad"], []),
    (
        ["env", "-S", "bash -c ${WORD}"],
        [
            "other_user: it uses sudo, which runs commands with another user's rights",
            f"runs_code: {SHELL} (bash -c ${{WORD}} bash -c ${{WORD}})",
            "from_variable: the variable WORD is put into an argument, where other programs see it",
        ],
    ),
    (
        ["env", "--split-string=bash -c x"],
        ["runs_code: a shell runs the code in its arguments (bash -c)"],
    ),
    (["x", "-S", "bash -c x"], []),
    (["x", "--privileged"], ["other_user: it asks for a container with rights over this machine"]),
    (["x", "docker.sock"], ["other_user: it asks for a container with rights over this machine"]),
    (
        ["\u0441md"],
        [f"{LOOK_ALIKE} '\\u0441md'"],
    ),
    (["x", "a\u200bb"], ["hidden_text: it contains characters that cannot be seen"]),
    (["x", "https://example.com"], []),
    (
        ["x", "https://xn--gthub-n2e.com"],
        [
            f"suspicious_address: https://xn--gthub-n2e.com{PUNYCODE}",
            f"suspicious_address: https://xn--gthub-n2e.com{SEVERAL}",
        ],
    ),
    (
        ["x", "https://g\u0456thub.com/a"],
        [
            f"suspicious_address: https://g\u0456thub.com/a{PUNYCODE}",
            f"suspicious_address: https://g\u0456thub.com/a{SEVERAL}",
        ],
    ),
    (["x", "https://a.example/g\u0456"], []),
    (["x", "://g\u0456thub.com"], []),
    (
        ["x", "https://$%7B\u0433X%7D"],
        ["suspicious_address: https://$%7B\u0433X%7D: its host has letters outside ASCII"],
    ),
    (["x", "~"], ["sensitive_place: it names your whole home directory or disk: ~"]),
    (["x", "~/"], ["sensitive_place: it names your whole home directory or disk: ~/"]),
    (["x", "/"], ["sensitive_place: it names your whole home directory or disk: /"]),
    (["x", "--a=/"], ["sensitive_place: it names your whole home directory or disk: --a=/"]),
    (["x", "a=/"], []),
    (["x", "/etc/hosts"], ["outside_project: it names a path outside the project: /etc/hosts"]),
    (["x", "../x"], ["outside_project: it names a path outside the project: ../x"]),
    (["x", "a/../x"], []),
    (["x", "..x"], []),
    (["x", "~x"], ["outside_project: it names a path outside the project: ~x"]),
    (["x", "file:///etc"], []),
    (["x", "https://a/../.."], []),
    (["x", "--a=/etc"], ["outside_project: it names a path outside the project: --a=/etc"]),
    (["/usr/bin/x"], []),
    (["/etc/x"], ["outside_project: it names a path outside the project: /etc/x"]),
    (["x", "/usr/bin/y"], ["outside_project: it names a path outside the project: /usr/bin/y"]),
    (["x", ".ssh/id"], ["sensitive_place: it names a place where secrets are stored: .ssh/id"]),
    (["x", "link/y"], ["outside_project: it names a path outside the project, by a link: link/y"]),
    (["x", "-Ilink"], ["outside_project: it names a path outside the project, by a link: -Ilink"]),
    (
        ["x", "--a=link/y"],
        ["outside_project: it names a path outside the project, by a link: --a=link/y"],
    ),
    (
        ["x", "b", "c:link"],
        ["outside_project: it names a path outside the project, by a link: c:link"],
    ),
]


@pytest.mark.parametrize(("words", "wanted"), WORDS)
def test_the_findings_of_a_command(project: Path, words: list[str], wanted: list[str]) -> None:
    assert findings_of(project, {"command": words[0], "args": words[1:]}) == wanted


OTHERS: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"command": "x", "cwd": "/etc"},
        ["outside_project: it names a path outside the project: /etc"],
    ),
    ({"command": "x", "cwd": "."}, []),
    ({"command": "x", "cwd": "sub", "args": ["../y"]}, []),
    (
        {"command": "x", "cwd": "sub", "args": ["../../y"]},
        ["outside_project: it names a path outside the project: ../../y"],
    ),
    (
        {"command": "x", "env": {"LD_PRELOAD": "x", "A": "b"}},
        ["loads_code: the variable LD_PRELOAD can make programs load or run other code"],
    ),
    (
        {"command": "x", "env": {"A": "link/x"}},
        ["outside_project: the variable A names a path outside the project, by a link"],
    ),
    ({"url": "http://example.com"}, ["unencrypted: the connection is not encrypted (http)"]),
    ({"url": "http://127.0.0.1:1/x"}, []),
    ({"url": "https://example.com"}, []),
    (
        {"url": "https://u@example.com"},
        ["suspicious_address: the URL has a user name or password in it"],
    ),
    (
        {"url": "https://:p@example.com"},
        ["suspicious_address: the URL has a user name or password in it"],
    ),
    (
        {"url": "https://xn--gthub-n2e.com"},
        [
            f"suspicious_address: https://xn--gthub-n2e.com{PUNYCODE}",
            f"suspicious_address: https://xn--gthub-n2e.com{SEVERAL}",
        ],
    ),
    (
        {"command": "x", "args": ["${WORD}"], "env": {"A": "${WORD}"}},
        [
            "other_user: it uses sudo, which runs commands with another user's rights",
            "from_variable: the variable WORD is put into an argument, where other programs see it",
        ],
    ),
    (
        {"url": "https://a.example/${WORD}"},
        ["from_variable: the variable WORD is put into a URL, which may be recorded"],
    ),
    ({"url": "https://a.example", "headers": {"A": "${WORD}"}}, []),
    (
        {"command": "${WORD}"},
        [
            "other_user: it uses sudo, which runs commands with another user's rights",
            "from_variable: the variable WORD decides which program is run",
        ],
    ),
]


@pytest.mark.parametrize(("server", "wanted"), OTHERS)
def test_the_findings_of_what_is_beside_a_command(
    project: Path, server: dict[str, Any], wanted: list[str]
) -> None:
    assert findings_of(project, server) == wanted


def test_a_path_of_4096_characters_is_the_longest_that_is_looked_through(project: Path) -> None:
    for chars, wanted in ((4_096, 0), (4_097, 1)):
        path = f"{project}/".ljust(chars, "x")
        (project / "y").mkdir(exist_ok=True)
        assert len(findings_of(project, {"command": "x", "args": [path]})) == wanted


def test_a_command_of_50000_characters_is_the_longest_that_is_looked_through(
    project: Path,
) -> None:
    for chars, wanted in ((50_000, 0), (50_001, 1)):
        words = {"command": "x", "args": ["y" * (chars - 2)]}
        found = findings_of(project, words)
        assert len(found) == wanted, found
