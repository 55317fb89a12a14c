"""``run TARGET SCRIPT``: a person's own script, of which each call is approved as any other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_client.cli import run_command
from mcp_client.cli.exits import UsageError
from tests.cli.shell import (
    at_terminal,
    begin,
    example,
    offering,
    run,
    server,
)

pytest.importorskip("pydantic_monty")

WEATHER = example("weather")
SCRIPT = """\
cities = ["Oslo", "Bergen"]
for city in cities:
    found = await weather.get_weather(location=city)
    print(city, found["temperature"])
found
"""
FOUND = {"temperature": 22.5, "conditions": "Partly cloudy"}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_without_a_script_it_shows_how_one_calls_the_tools() -> None:
    done = run("run", WEATHER)
    assert (done.code, done.err) == (0, "")
    assert "class weather:" in done.out
    assert "    async def get_weather(*, location: str) -> GetWeatherResult:" in done.out
    first = run("run", WEATHER, "--json").json["signatures"][0]
    assert done.out.startswith(first)


def test_a_tool_that_is_spelled_like_another_one_is_reported(tmp_path: Path) -> None:
    first, second = "a.-.-..-.-.--.....--.--", "a.......-..-..--------."  # one digest, in part
    target = offering(tmp_path, {"content": []}, name=second)
    program = tmp_path / "counting.py"
    other = f'{{"tools": [{{"name": "{first}", "inputSchema": {{"type": "object"}}}}, '
    program.write_text(program.read_text().replace('{"tools": [', other))
    done = run("run", target)
    assert (done.code, done.out.count("async def a_49f22a0e42")) == (0, 1)
    assert f"tool '{second}': another tool has this spelling; left out" in done.err


def test_what_a_script_prints_and_its_last_expression_are_the_output(script: Path) -> None:
    done = run("run", WEATHER, str(script), "--allow", "get_*")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"Oslo 22.5\nBergen 22.5\n{json.dumps(FOUND)}\n"
    found = run("run", WEATHER, "-", "--allow", "get_*", "--json", stdin=SCRIPT).json
    assert found.pop("run")
    assert found == {
        "output": "Oslo 22.5\nBergen 22.5\n",
        "value": FOUND,
        "calls": 2,
        "error": None,
        "limit": None,
    }


@pytest.mark.parametrize("options", [[], ["--no-input"], ["--approve", "deny"], ["--trust"]])
def test_a_call_that_is_not_approved_is_refused(script: Path, options: list[str]) -> None:
    done = run("run", WEATHER, str(script), *options)
    assert (done.code, done.out) == (3, "")
    assert 'File "script", line 3' in done.err
    assert "allow it with --allow get_weather" in done.err
    assert run("run", WEATHER, str(script), *options, "--json").code == 3


def test_a_script_may_go_on_after_a_refusal() -> None:
    code = "try:\n    await weather.set_alarm(location='Oslo')\nexcept CallDenied:\n    print('no')"
    done = run("run", WEATHER, "-", stdin=code)
    assert (done.code, done.out) == (0, "no\n")


def test_a_rule_for_calls_of_the_host_lets_no_script_call(script: Path, tmp_path: Path) -> None:
    policy = tmp_path / "rules.json"
    policy.write_text('{"rules": [{"outcome": "allow", "tool": "*"}]}')
    policy.chmod(0o600)
    assert run("run", WEATHER, str(script), "--policy", str(policy)).code == 3
    policy.write_text('{"rules": [{"outcome": "allow", "tool": "*", "origin": "code"}]}')
    assert run("run", WEATHER, str(script), "--policy", str(policy)).code == 0


@pytest.mark.parametrize(
    ("code", "out", "expected"),
    [
        ("print(1)\n1 / 0", "1\n", "ZeroDivisionError"),
        ("await weather.gone()", "", "AttributeError"),
        ("while True:\n    print('x' * 1000)", None, "Limits.script_output"),
        ("def broken(:", "", "SyntaxError"),
        ("open('/etc/passwd').read()", "", "Error"),
    ],
)
def test_a_script_that_fails_gives_the_reason_and_what_it_printed(
    code: str, out: str | None, expected: str
) -> None:
    done = run("run", WEATHER, "-", "--allow", "*", stdin=code)
    assert done.code == 1
    assert expected in done.err
    assert out is None or done.out == out
    found = run("run", WEATHER, "-", "--allow", "*", "--json", stdin=code)
    assert found.code == 1
    assert expected in (found.json["limit"] or found.json["error"])


def test_a_script_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    broken, large = tmp_path / "broken.py", tmp_path / "large.py"
    broken.write_bytes(b"\xff\xfe\xff")
    large.write_text("#" * (1024 * 1024 + 1))
    for words, reported in (
        ([str(tmp_path / "none.py")], "No such file"),
        ([str(tmp_path)], "directory"),
        ([str(broken)], "is not UTF-8"),
        ([str(large)], "has more than 1,048,576 bytes"),
        (["a.py", "b.py"], "takes no further argument"),
    ):
        done = run("run", "/never/started", *words)
        assert (done.code, done.out) == (2, ""), words
        assert reported in done.err, words


def test_each_call_and_the_run_are_in_the_audit(script: Path, tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    run("run", WEATHER, str(script), "--allow", "get_*", "--audit", str(log))
    records = [json.loads(line) for line in log.read_text().splitlines()]
    calls = [one for one in records if one["event"] == "opened" and one["tool"]]
    assert [(one["origin"], one["script_call"], one["script_line"]) for one in calls] == [
        *[("code", 1, 3), ("code", 2, 3)],
    ]
    assert len({one["script"] for one in calls}) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_person_is_asked_once_for_the_script(script: Path) -> None:
    child = at_terminal("run", WEATHER, str(script))
    child.expect("Called by +a script")
    child.expect("> 3 +found = await weather")
    child.expect(r"Run it\? \[")
    child.sendline("r")
    child.expect("Bergen 22.5")
    child.wait()
    assert child.exitstatus == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_ends_the_script_and_its_process(tmp_path: Path) -> None:
    code = "print('begun')\nawait scripted.never()"
    target = server("scripted")
    words = ["run", target, "-", "--allow", "*", "--json", "--audit", str(tmp_path / "log")]
    started = begin(*words, stdin=subprocess.PIPE)
    assert started.stdin is not None
    started.stdin.write(code)
    started.stdin.close()
    log = tmp_path / "log"
    for _ in range(600):
        if log.exists() and '"tool":"never"' in log.read_text().replace(" ", ""):
            break
        with pytest.raises(subprocess.TimeoutExpired):
            started.wait(0.1)
    os.kill(started.pid, signal.SIGINT)
    started.stdin = None
    out, _ = started.communicate(timeout=30)
    assert started.returncode == 130
    assert json.loads(out)["error"]["type"] == "Interrupted"
    with pytest.raises(ProcessLookupError):  # the group is empty
        os.killpg(started.pid, 0)


@pytest.mark.parametrize(
    ("passed", "out", "err", "value"),
    [
        ({"output": "a\n", "value": "b"}, "a\nb\n", "", "b"),
        ({"value": {"k": 1}}, '{"k": 1}\n', "", {"k": 1}),
        ({"value": 0}, "0\n", "", 0),
        ({}, "", "", None),
        ({"value": "x" * 21}, "", "", ""),
        ({"value": ["x" * 21]}, "", "", ""),
        ({"output": "a", "error": "Error\n"}, "a\n", "Error\n", None),
        ({"error": "Error", "stop": "late"}, "", "the script was ended: late\n", None),
    ],
)
def test_what_a_script_led_to_is_printed_whole(
    passed: dict[str, Any], out: str, err: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    none = {"output": "", "value": None, "error": None, "calls": 2, "id": "1"}
    stop = SimpleNamespace(text=passed["stop"]) if "stop" in passed else None
    found: Any = SimpleNamespace(**none | passed | {"stop": stop})
    run_command._show(Namespace(json=False), found, 20)
    assert capsys.readouterr() == (out, err)
    run_command._show(Namespace(json=True), found, 20)
    document = {"output": found.output, "value": value, "calls": 2, "run": "1"}
    more = {"error": found.error, "limit": passed.get("stop")}
    assert json.loads(capsys.readouterr().out) == {**document, **more}


async def test_a_script_is_a_file_of_bounded_size_in_utf_8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "script.py"
    path.write_bytes(b"\xef\xbb\xbfa = 1")
    assert await run_command._code_of(str(path)) == "a = 1"
    monkeypatch.setattr(run_command, "_MAX_SCRIPT_BYTES", 8)
    assert await run_command._code_of(str(path)) == "a = 1"
    monkeypatch.setattr(run_command, "_MAX_SCRIPT_BYTES", 7)
    with pytest.raises(UsageError, match="has more than 7 bytes"):
        await run_command._code_of(str(path))
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not UTF-8"):
        await run_command._code_of(str(path))
    with pytest.raises(UsageError, match="No such file"):
        await run_command._code_of(str(tmp_path / "none"))

    async def passed() -> str:
        return "of a pipe"

    monkeypatch.setattr(run_command, "standard_input", passed)
    assert await run_command._code_of("-") == "of a pipe"
