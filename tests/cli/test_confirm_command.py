"""What was decided lasts: answers at the terminal, ``--policy FILE``, and ``confirm``."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest

from mcp_client import Finding
from tests.cli.shell import ROOT, at_terminal, example, run

WEATHER = example("weather")


def config_in(directory: Path, **more: str) -> Path:
    """A project's config file with two servers."""
    command, path = shlex.split(WEATHER)
    server = {"command": command, "args": [path], "env": {"MODE": "quiet", **more}}
    file = directory / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"sky": server, "sun": {**server, "env": {}}}}))
    return file


@pytest.mark.slow
def test_always_lasts_without_an_option_in_a_directory_for_its_owner_alone(tmp_path: Path) -> None:
    words = ["call", WEATHER, "set_alarm", "location=Oslo"]
    child = at_terminal(*words, home=tmp_path)
    child.expect(r"Run it\? ")
    child.sendline("a")
    child.expect(pexpect.EOF)
    assert "warning" not in child.before
    child = at_terminal(*words, home=tmp_path)
    child.expect(pexpect.EOF)
    assert "Alarm set for Oslo." in child.before
    assert "Run it?" not in child.before
    directory = tmp_path / ".local" / "state" / "mcp-client"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in directory.iterdir()} == {0o600}
    assert "set_alarm" in run("decisions", "list", home=tmp_path).out
    assert run(*words, home=tmp_path).code == 0, "without a terminal too"


@pytest.mark.slow
def test_the_rules_of_a_policy_decide_before_allow_and_before_anybody_is_asked(
    tmp_path: Path,
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        '[[rules]]\noutcome = "deny"\ntool = "set_*"\nreason = "not on Mondays"\n'
        '[[rules]]\noutcome = "allow"\ntool = "get_*"\n'
    )
    words = ["--policy", str(policy), "location=Oslo"]
    assert run("call", WEATHER, "get_weather", *words).code == 0
    done = run("call", WEATHER, "set_alarm", *words, "--allow", "*")
    assert (done.code, "not on Mondays" in done.err) == (3, True)
    child = at_terminal("call", WEATHER, "set_alarm", *words, home=tmp_path)
    child.expect(pexpect.EOF)
    assert "Run it?" not in child.before
    policy.write_text('[[rules]]\noutcome = "ask"\ntool = "*"\n')
    assert run("call", WEATHER, "get_weather", *words, "--allow", "*").code == 3
    policy.write_text("[[rules]]\noutcom = 1")
    assert run("call", WEATHER, "get_weather", *words).code == 2
    assert run("call", WEATHER, "get_weather", "--policy", "no.toml", "location=x").code == 2


@pytest.mark.slow
def test_a_policy_may_start_the_servers_of_a_project(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    words = ["tools", "sky", "--config", str(config_in(tmp_path)), "--policy", str(policy)]
    rule = '[[rules]]\noutcome = "allow"\nkind = "start"\nserver = "sky"\n'
    policy.write_text(rule + 'findings = ["start"]\n')
    assert run(*words, home=tmp_path).code == 3, "it names a path outside the project"
    kinds = json.dumps([*Finding.KINDS])
    policy.write_text(f"{rule}findings = {kinds}\n")
    assert run(*words, home=tmp_path).code == 0
    words[1] = "sun"
    assert run(*words, home=tmp_path).code == 3
    policy.write_text('[[rules]]\noutcome = "deny"\nkind = "start"\nreason = "not here"\n')
    words[1] = "sky"
    child = at_terminal(*words, home=tmp_path)
    child.expect(pexpect.EOF)
    assert "not here" in child.before
    assert "Start it?" not in child.before


def test_confirm_shows_all_and_remembers_the_fingerprint_that_it_showed(tmp_path: Path) -> None:
    file = config_in(tmp_path)
    tools = ["tools", "sky", "--config", str(file)]
    refused = run(*tools, home=tmp_path)
    assert (refused.code, f"mcp-client confirm {file} sky" in refused.err) == (3, True)
    displayed = run("confirm", str(file), home=tmp_path)
    assert displayed.code == 3
    for word in ("Server       | sky", "Server       | sun", "MODE=quiet", "weather.py"):
        assert word in re.sub(r"\n *: ", "", displayed.out), "a long path is wrapped"
    sky, sun = run("confirm", str(file), "--json", home=tmp_path).json["servers"]
    assert f"confirm {file} sky --yes {sky['fingerprint']}" in displayed.err
    assert (sky["name"], sky["confirmed"]) == ("sky", False)
    assert run(*tools, home=tmp_path).code == 3, "to look is not to confirm"
    done = run("confirm", str(file), "sky", "--yes", sky["fingerprint"], home=tmp_path)
    assert (done.code, "Confirmed      yes" in done.out) == (0, True)
    assert run(*tools, home=tmp_path).code == 0
    assert run("tools", "sun", "--config", str(file), home=tmp_path).code == 3
    yes = ["--yes", sky["fingerprint"], "--yes", sun["fingerprint"]]
    assert run("confirm", str(file), *yes, home=tmp_path).code == 0
    config_in(tmp_path, MODE="loud")
    assert run(*tools, home=tmp_path).code == 3, "it is not what was confirmed"
    again = run("confirm", str(file), "sky", "--yes", sky["fingerprint"], home=tmp_path)
    assert (again.code, "nothing has this fingerprint now" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["mcp.json", "sky", "--yes", "sha256:0"], 2),
        (["mcp.json", "sly"], 4),
        (["nothing.json"], 2),
        (["mcp.json", "--read", "x"], 2),
        (["mcp.json", "sky", "--yes", "F", "--state", "mcp.json"], 2),
    ],
)
def test_confirm_keeps_nothing_where_a_word_is_wrong(
    words: list[str], code: int, tmp_path: Path
) -> None:
    file = config_in(tmp_path)
    (sky, _) = run("confirm", str(file), "--json", home=tmp_path).json["servers"]
    words = [sky["fingerprint"] if word == "F" else word for word in words]
    done = run("confirm", *words, cwd=tmp_path, home=tmp_path)
    assert done.code == code, done
    assert run("tools", "sky", "--config", str(file), home=tmp_path).code == 3


def test_an_approval_of_confirm_is_for_the_sandbox_it_was_shown_with(tmp_path: Path) -> None:
    file = config_in(tmp_path)
    words = [str(file), "sky", "--sandbox", "--read", str(ROOT)]
    found = run("confirm", *words, "--json", home=tmp_path).json["servers"][0]["fingerprint"]
    plain = run("confirm", str(file), "--json", home=tmp_path).json["servers"][0]["fingerprint"]
    assert found != plain
