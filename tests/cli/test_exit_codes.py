"""Every row of the table of exit codes, without a terminal; and that errors are JSON on request."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from mcp_client import errors
from mcp_client.cli import exits
from mcp_client.cli.exits import error_document, exit_code, in_shell
from mcp_client.errors import Advice, McpError
from mcp_client.errors import exit_code as code_of_script
from tests.cli.shell import Done, example, python, refusing, run, server

WEATHER = example("weather")


def failed(code: int, *words: str, kind: str, **env: Any) -> Done:
    """It fails in words, and as one JSON document."""
    done = run(*words, "--json", **env)
    assert done.code == code, done
    assert set(done.json) == {"error"}
    assert set(done.json["error"]) == {"type", "message", "server", "tool", "retryable"}
    assert done.json["error"]["type"] == kind
    assert done.err.startswith("mcp-client: ") or "\nmcp-client: " in done.err
    return done


def test_0_done() -> None:
    done = run("call", WEATHER, "get_weather", "location=Oslo", "--allow", "get_weather", "--json")
    assert done.code == 0
    assert done.err == ""
    assert done.json["structuredContent"] == {"temperature": 22.5, "conditions": "Partly cloudy"}


def test_1_the_tool_reported_an_error() -> None:
    done = run("call", WEATHER, "get_weather", "location=", "--allow", "*", "--json")
    assert done.code == 1
    assert done.json["isError"] is True


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["tools"],
        ["cal", WEATHER, "get_weather"],
        ["tools", WEATHER, "--frobnicate"],
        ["tools", WEATHER, "get_weather"],
        ["tools", WEATHER, "--timeout", "-1"],
        ["tools", WEATHER, "--timeout", "soon"],
        ["tools", "'unclosed"],
        ["tools", ""],
        ["tools", WEATHER, "--all", "get_weather"],
        ["tools", WEATHER, "--header", "X=env:PATH"],
        ["tools", WEATHER, "--env", "1=env:PATH"],
        ["tools", WEATHER, "--config", "/no/such/file", "x"],
        ["prompt", WEATHER, "x", "novalue"],
    ],
)
def test_2_usage(words: list[str]) -> None:
    failed(2, *words, kind="UsageError")


def test_2_a_config_file_that_is_not_there() -> None:
    failed(2, "tools", "weather", "--config", "/no/such/file", kind="ConfigError")


def test_2_a_revision_that_there_is_not() -> None:
    failed(2, "tools", WEATHER, "--revision", "1999-01-01", kind="ConfigError")


def test_3_refused_with_the_rule_that_would_allow_it() -> None:
    done = failed(3, "call", WEATHER, "set_alarm", "location=Oslo", "--trust", kind="CallDenied")
    assert "--allow set_alarm" in done.json["error"]["message"]
    assert done.json["error"]["tool"] == "set_alarm"


def test_3_a_project_config_without_an_approval(tmp_path: Path) -> None:
    started = tmp_path / "started"
    config = {"mcpServers": {"evil": {"command": "touch", "args": [str(started)]}}}
    (tmp_path / ".mcp.json").write_text(json.dumps(config))
    record = str(tmp_path / "record")
    for words in (["tools", "evil"], ["tools", "evil", "--record", record], ["doctor", "evil"]):
        done = run(*words, "--json", cwd=tmp_path, home=tmp_path / "home")
        assert done.code == 3
        assert done.json["error"]["type"] == "StartDenied"
        assert not started.exists()


def test_4_no_such_tool_with_the_nearest_name() -> None:
    done = failed(4, "call", WEATHER, "get_wether", "--allow", "*", kind="UnknownTool")
    assert "did you mean get_weather?" in done.err


def test_a_script_of_the_users_own_can_end_with_the_same_codes() -> None:
    kinds = (errors.ConfigError, errors.CallDenied, errors.UnknownTool, errors.ConnectError)
    raised = [kind("x") for kind in kinds]
    assert [code_of_script(error) for error in raised] == [exit_code(error) for error in raised]


@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_4_no_such_resource_or_prompt(era: str) -> None:
    library = server("library", era)
    failed(4, "read", library, "book:nowhere", kind="NotFound")
    failed(4, "prompt", library, "sumary", kind="NotFound")


def test_4_no_such_server(tmp_path: Path) -> None:
    failed(4, "tools", "nosuchserver", kind="NotFound")
    config = tmp_path / "mcp.json"
    config.write_text('{"mcpServers": {"weather": {"command": "python"}}}')
    done = failed(4, "tools", "wether", "--config", str(config), kind="NotFound")
    assert "did you mean weather?" in done.err


def test_5_cannot_connect() -> None:
    failed(5, "tools", "/no/such/program --stdio", kind="ConnectError")
    failed(5, "tools", "http://127.0.0.1:9/mcp", kind="ConnectError")
    done = failed(5, "tools", server("scripted", "--print-and-exit"), kind="ConnectError")
    assert "the key none is no good" in done.err


def test_5_no_common_revision() -> None:
    failed(5, "tools", server("scripted", "--version", "1999-01-01"), kind="NegotiationError")


def test_6_login_needed_and_wrong_credentials() -> None:
    with refusing(401) as url:
        failed(6, "tools", url, kind="AuthError")
        failed(6, "tools", url, "--header", "Authorization=env:TOKEN", kind="AuthError", TOKEN="x")


def test_7_timeout() -> None:
    target = server("scripted")
    done = failed(7, "call", target, "never", "--allow", "*", "--timeout", "3", kind="CallTimeout")
    assert done.json["error"]["retryable"] is False


@pytest.mark.slow
def test_a_server_that_takes_longer_to_start_than_a_request_may_is_waited_for() -> None:
    target = server("scripted", "--slow-start", "2")
    assert run("call", target, "echo", "--allow", "echo", "--timeout", "1").code == 0


def test_a_login_that_a_server_of_a_config_file_needs_is_reported_in_words_of_the_shell(
    tmp_path: Path,
) -> None:
    config = tmp_path / "c.json"
    with refusing(401) as url:
        config.write_text(json.dumps({"mcpServers": {"docs": {"url": url}}}))
        displayed = run("confirm", str(config), "--json", home=tmp_path).json["servers"]
        yes = ["--yes", displayed[0]["fingerprint"]]
        assert run("confirm", str(config), *yes, home=tmp_path).code == 0
        done = run("tools", "docs", "--config", str(config), home=tmp_path)
    assert done.code == 6
    assert f"log in with 'mcp-client login {url}'" in done.err
    assert "reconnect" not in done.err


def test_6_forbidden() -> None:
    with refusing(403) as url:
        assert run("tools", url, "--json").code == 6


def test_8_an_error_of_the_server_or_a_broken_promise() -> None:
    failed(8, "tools", server("scripted", "--list", "no-array"), kind="ProtocolViolation")


# ------------------------------------------------------------------ the words of errors

PYTHON_WORDS = re.compile(r"\w\(|\w= |[a-z]=['\"]|OAuth|Timeouts|HttpServer|StdioServer")


def test_errors_state_what_to_do_in_the_words_of_the_shell(tmp_path: Path) -> None:
    dead = tmp_path / "dead.py"
    dead.write_text("import sys; sys.exit('KeyError: API_KEY_OF_US')")
    no_env: dict[str, Any] = {}
    with refusing(401) as url:
        for words, env, wanted in (
            (["tools", url], no_env, f"mcp-client login {url}"),
            (["tools", url, "--header", "A=env:A"], {"A": "x"}, "--header Authorization=env:NAME"),
            (
                ["tools", server("scripted", "--slow-start", "30"), "--timeout", "1"],
                no_env,
                "--timeout S",
            ),
            (
                ["call", server("scripted"), "never", "--allow=*", "--timeout=1"],
                no_env,
                "--timeout S",
            ),
            (
                ["tools", server("scripted", "--version", "2024-11-05"), "--revision=2025-11-25"],
                no_env,
                "leave out --revision",
            ),
            (["tools", python(dead)], {"API_KEY_OF_US": "x"}, "--env NAME"),
            (["doctor", python(dead)], {"API_KEY_OF_US": "x"}, "--env NAME"),
            (["tools", WEATHER, "--revision=2025-11-24"], no_env, "2025-11-25"),
        ):
            done = run(*words, **env)
            assert done.code > 1, done
            assert wanted in done.err + done.out
            assert not PYTHON_WORDS.search(done.err + done.out), done


def test_a_typo_is_answered_with_the_nearest_option() -> None:
    done = run("tools", WEATHER, "--timout", "5")
    assert (done.code, "did you mean --timeout?" in done.err) == (2, True)
    assert "did you mean" not in run("tools", WEATHER, "--frobnicate").err


def test_a_name_that_is_not_a_server_is_not_run_as_a_program(tmp_path: Path) -> None:
    started = tmp_path / "started"
    program = tmp_path / "filesystem"
    program.write_text(f"#!/bin/sh\ntouch {started}\n")
    program.chmod(0o700)
    config = tmp_path / ".mcp.json"
    config.write_text('{"mcpServers": {"filesystems": {"command": "python"}}}')
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = run("tools", "filesystem", cwd=tmp_path, home=tmp_path, **path)
    assert done.code == 4
    assert "did you mean filesystems?" in done.err
    assert f"one program by its path ({program})" in done.err
    assert not started.exists()
    assert run("tools", str(program), cwd=tmp_path, home=tmp_path).code == 5
    assert started.exists()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Interrupted", 130),
        ("OutputError", 74),
        ("UsageError", 2),
        ("NotFound", 4),
        ("UnknownTool", 4),
        ("ConfigError", 2),
        ("InvalidArguments", 2),
        ("CallDenied", 3),
        ("CallPending", 3),
        ("StartDenied", 3),
        ("ToolChanged", 3),
        ("CallWithdrawn", 130),
        ("AuthError", 6),
        ("ConnectError", 5),
        ("NegotiationError", 5),
        ("StateError", 5),
        ("InvalidSchema", 8),
        ("NotSent", 4),
        ("OutcomeUnknown", 7),
        ("CallTimeout", 7),
        ("ToolFailed", 1),
        ("AuditError", 1),
        ("BrokenPromise", 8),
        ("ServerError", 8),
        ("McpError", 8),
    ],
)
def test_each_error_has_its_exit_code(name: str, code: int) -> None:
    kind = getattr(exits, name, None) or getattr(errors, name)
    error = McpError.__new__(kind, "x")
    assert exit_code(error) == code
    for status, wanted in ((401, 6), (403, 6), (404, code)):
        error.__dict__["http_status"] = status
        assert exit_code(error) == wanted


@pytest.mark.parametrize(
    ("advice", "expected"),
    [
        (None, "x"),
        (Advice("of the library"), "x; of the library"),
        (Advice("y", "header"), "x; give what it accepts with --header Authorization=env:NAME"),
        (
            Advice("y", "connect_timeout", "wait"),
            "x; allow more time with --timeout S, or wait and see",
        ),
        (Advice("y", "revision"), "x; leave out --revision"),
        (Advice("y", "env", "A"), "x; A: give it with --env NAME, or in the config file"),
        (Advice("y", "terminal"), "x; log in at a terminal"),
        (Advice("y", "result"), "x; the whole result is printed with --json"),
        (Advice("y", "program"), "x"),
        (
            Advice("y", "sandbox", "it lacks /a"),
            "x; it lacks /a. If it needs that, give each with --read, or in the config file",
        ),
        (Advice("y", "home"), "x; write $HOME in its place"),
    ],
)
def test_advice_is_in_the_words_of_the_shell(advice: Advice | None, expected: str) -> None:
    error = errors.ServerError("x", code=1, advice=advice, server="s")
    assert in_shell(error).message == expected
    assert error.advice is advice
    document = {"type": "ServerError", "message": expected, "server": "s", "tool": None}
    assert error_document(error) == {"error": {**document, "retryable": False}}
    late = in_shell(errors.CallTimeout("x", advice=advice)).message
    assert late == ("x; allow more time with --timeout S" if advice is None else expected)


def test_an_unexpected_error_is_a_document_too() -> None:
    document = {"type": "KeyError", "message": "'x'", "server": None, "tool": None}
    assert error_document(KeyError("x")) == {"error": {**document, "retryable": False}}
