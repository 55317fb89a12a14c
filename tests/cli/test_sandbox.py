"""``--sandbox`` on the command line, and what ``doctor`` reports of it."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from mcp_client import Sandbox, allow_all, sync
from tests.cli.shell import ROOT, Done, example, run

WEATHER = ROOT / "examples" / "servers" / "weather.py"


def config_of(directory: Path, **own: object) -> str:
    server = {"command": sys.executable, "args": [str(WEATHER)], "mcp-client": own}
    docs = {"url": "http://127.0.0.1:9/mcp"}
    path = directory / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"weather": server, "docs": docs}}))
    return str(path)


def reported_by(done: Done) -> str:
    return done.out + done.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--read", "."], "--read is a grant of a sandbox: add --sandbox"),
        (["--write", "."], "--write is a grant of a sandbox: add --sandbox"),
        (["--network", "none"], "--network is a grant of a sandbox: add --sandbox"),
        (["--sandbox", "--network", "some"], "invalid choice: 'some'"),
        (["--sandbox", "--read", "missing"], "does not exist"),
        (["--sandbox", "--write", "/"], "cannot be granted"),
        (["--sandbox", "--read", "*.py"], "is a glob"),
        (["--sandbox=yes"], "--sandbox"),
    ],
)
@pytest.mark.parametrize("command", ["tools", "call"])
def test_what_makes_no_sandbox_is_a_usage_error(words: list[str], why: str, command: str) -> None:
    tool = ["get_weather", "location=Oslo"] if command == "call" else []
    done = run(command, example("weather"), *tool, *words)
    assert (done.code, why in reported_by(done)) == (2, True), reported_by(done)


def test_it_goes_with_a_command_whose_file_states_nothing_of_it(tmp_path: Path) -> None:
    for target, why in (
        (["http://127.0.0.1:9/mcp"], "--sandbox goes with a command"),
        (["docs", "--config", config_of(tmp_path)], "--sandbox goes with a command"),
        (["weather", "--config", config_of(tmp_path, sandbox=True)], "defines how it is confined"),
    ):
        done = run("tools", *target, "--sandbox", "--no-input")
        assert (done.code, why in reported_by(done)) == (2, True), reported_by(done)


def test_doctor_reports_of_a_server_that_it_is_not_confined() -> None:
    done = run("doctor", example("weather"))
    assert "What it can do here:\n    whatever you can: it is not confined" in done.out
    report = run("doctor", example("weather"), "--json").json
    assert report["confinement"] == ["whatever you can: it is not confined (--sandbox)"]


def opened_as_configured(config: Path) -> None:
    with sync.Host.from_config(config, confirm=allow_all) as host:
        held = host.session("peek").sandbox
        assert held is not None
        assert held.read == (str(WEATHER.parent),)
    with sync.Host.from_config(config, confirm=allow_all, sandbox=Sandbox()) as host:
        assert host.session("peek").sandbox == held  # its own beats the host's


@pytest.mark.needs("bubblewrap")
def test_doctor_states_what_a_confined_server_can_do(tmp_path: Path) -> None:
    grants = ["--read", str(tmp_path), "--network", "all"]
    done = run("doctor", example("weather"), "--sandbox", *grants)
    assert done.code == 0, reported_by(done)
    for sentence in (f", {tmp_path}\n", "can write a temporary directory", "can reach the network"):
        assert sentence in done.out, done.out


@pytest.mark.needs("bubblewrap")
def test_a_call_runs_in_the_sandbox_and_a_file_that_asks_for_one_gets_it(tmp_path: Path) -> None:
    script = tmp_path / "server" / "peek.py"
    script.parent.mkdir()
    script.write_text(
        f"import os, runpy, sys\nif os.path.exists({str(tmp_path / 'seen')!r}):\n    sys.exit(9)\n"
        f"runpy.run_path({str(WEATHER)!r}, run_name='__main__')\n"
    )
    (tmp_path / "seen").write_text("")
    target = shlex.join([sys.executable, str(script)])
    words = ["call", target, "get_weather", "location=Oslo", "--allow", "get_weather"]
    confined = ["--sandbox", "--read", str(WEATHER.parent)]
    assert run(*words).code == 5
    done = run(*words, *confined)
    assert (done.code, "Oslo" in done.out) == (0, True), reported_by(done)
    assert run(*words, *confined, "--read", str(tmp_path / "seen")).code == 5
    config = tmp_path / "mcp.json"
    own = {"mcp-client": {"sandbox": {"read": [str(WEATHER.parent)]}}}
    server = {"command": sys.executable, "args": [str(script)], **own}
    config.write_text(json.dumps({"mcpServers": {"peek": server}}))
    words = ["tools", "peek", "--config", str(config)]
    assert run(*words).code == 3  # a project's file, which no one has confirmed
    opened_as_configured(config)
