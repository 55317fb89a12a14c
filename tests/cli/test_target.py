"""Valid values of TARGET, ``--header`` and ``--env``, and the errors for others."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from mcp_client.cli.exits import UsageError
from mcp_client.cli.target import Configured, configs_of, target_of
from mcp_client.errors import NotFound
from mcp_client.transports.http import HttpServer
from mcp_client.transports.stdio import StdioServer


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A config file with the server ``own``, and ``lame`` that cannot be used."""
    monkeypatch.setenv("TOKEN", "hunter2")
    path = tmp_path / "servers.json"
    servers = {"own": {"command": "/bin/true"}, "lame": {"command": 3}}
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


URL = "https://example.com/mcp"
ENV = "TOKEN=env:TOKEN"


def test_a_target_is_a_url_a_name_or_a_command(configured: str) -> None:
    assert target_of(URL, None, [], []) == HttpServer(URL)
    assert target_of(URL, None, [ENV], []) == HttpServer(URL, headers={"TOKEN": "hunter2"})
    assert target_of("/bin/true", None, [], []) == StdioServer("/bin/true", [])
    for passed in (ENV, "TOKEN"):
        wanted = StdioServer("prog", ["a b", "c"], env={"TOKEN": "hunter2"})
        assert target_of("prog 'a b' c", None, [], [passed]) == wanted
    found = target_of("own", configured, [], [])
    assert isinstance(found, Configured)
    assert (found.name, list(found.config.servers)) == ("own", ["own"])


@pytest.mark.parametrize(
    ("words", "headers", "env", "expected"),
    [
        (" ", [], [], "TARGET is empty"),
        (URL, [], [ENV], "--env goes with a command"),
        ("own", [ENV], [], "--header and --env do not go with 'own'"),
        ("own", [], [ENV], "--header and --env do not go with 'own'"),
        ("prog a", [ENV], [], "--header goes with a URL"),
        ("prog 'a", [], [], "the command cannot be read"),
        ("lame", [], [], "the server 'lame' cannot be used: "),
        ("own", ["=env:TOKEN"], [], "--header is NAME=env:VARIABLE"),
        ("own", ["TOKEN"], [], "--header is NAME=env:VARIABLE"),
        ("own", [], ["9=env:TOKEN"], "--env is NAME=env:VARIABLE"),
        ("own", [], ["=env:TOKEN"], "--env is NAME=env:VARIABLE"),
        ("own", [], ["NOT_SET"], "--env NOT_SET: the environment variable 'NOT_SET' is not set"),
        ("own", [], ["A=env:"], "--env A: other users can read"),
        ("own", [], ["A=file:"], "--env A: other users can read"),
        ("own", [], ["A=plain"], "--env A: other users can read"),
    ],
)
def test_what_cannot_be_meant_by_a_target_is_a_usage_error(
    words: str, headers: list[str], env: list[str], expected: str, configured: str
) -> None:
    config = None if words.startswith("prog") else configured
    with pytest.raises(UsageError) as caught:
        target_of(words, config, headers, env)
    assert str(caught.value).startswith(expected)


def test_a_name_that_no_config_file_has_is_not_run_as_a_program(
    configured: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in ("owm", "owm now"):
        with pytest.raises(NotFound) as caught:
            target_of(words, configured, [], [])
        assert f"unknown server {words!r} in {configured}" in str(caught.value)
        assert "did you mean own?" in str(caught.value)
        assert str(caught.value).endswith("or one program by its path")
    monkeypatch.setattr("mcp_client.config.programs.find_configs", list)
    with pytest.raises(NotFound, match=r"a config file \(none was found\)") as caught:
        target_of("sh", None, [], [])
    assert re.search(r"by its path \(\S+/sh\)\Z", str(caught.value))


def test_a_file_that_was_found_and_cannot_be_read_is_left_out_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file = tmp_path / "home" / ".cursor" / "mcp.json"
    file.parent.mkdir(parents=True)
    file.touch()
    os.truncate(file, 64 * 1024 * 1024)
    monkeypatch.chdir(tmp_path)
    assert configs_of(None, quiet=True) == []
    assert capsys.readouterr().err == ""
    assert configs_of(None) == []
    assert "mcp.json" in capsys.readouterr().err
