"""The session options that a command line leads to, without a session."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Allow, Deny, FileState, Sandbox
from mcp_client.catalog.finding import Finding
from mcp_client.cli import session as session_module
from mcp_client.cli.exits import UsageError
from mcp_client.cli.session import (
    decisions_of,
    existing_state_of,
    is_allowed,
    sandbox_of,
    state_file,
)
from mcp_client.cli.target import Configured
from mcp_client.config.config import load_config
from mcp_client.errors import StartDenied
from mcp_client.runtime.limits import Timeouts
from mcp_client.transports.http import HttpServer
from mcp_client.transports.stdio import StdioServer
from tests.support.terminal import call_of


def options(**kwargs: Any) -> Namespace:
    none: dict[str, Any] = dict.fromkeys(
        ("audit", "config", "network", "pins", "policy", "record", "state", "timeout")
    )
    lists: dict[str, Any] = {
        name: [] for name in ("allow", "allow_finding", "read", "write", "header", "env")
    }
    flags = dict.fromkeys(("json", "no_input", "sandbox", "terminal"), False)
    return Namespace(**none | lists | flags | {"command": "call", "approve": "ask"} | kwargs)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.parametrize(
    ("command", "seconds", "wanted"),
    [
        ("call", None, Timeouts()),
        ("call", 0.5, Timeouts(connect=5.0, idle=0.5, total=0.5)),
        ("call", 30, Timeouts(connect=30, idle=30, total=30)),
        ("doctor", 0.5, Timeouts(connect=0.5, idle=0.5, total=0.5)),
    ],
)
def test_a_server_has_some_seconds_to_start_whatever_the_timeout(
    command: str, seconds: float | None, wanted: Timeouts
) -> None:
    assert session_module._timeouts(options(command=command, timeout=seconds)) == wanted


def test_what_a_sandbox_grants_needs_one(home: Path) -> None:
    assert sandbox_of(options()) is None
    for name, value in (("read", ["/"]), ("write", ["/"]), ("network", "all")):
        with pytest.raises(UsageError, match=f"--{name} is a grant of a sandbox"):
            sandbox_of(options(**{name: value}))
    (home / "a").mkdir()
    (home / "b").mkdir()
    made = sandbox_of(options(sandbox=True, read=[str(home / "a")], write=[str(home / "b")]))
    assert made == Sandbox([str(home / "a")], [str(home / "b")], "none")
    assert sandbox_of(options(sandbox=True, network="all")) == Sandbox(network="all")


def test_a_sandbox_goes_with_a_command_whose_file_states_nothing_of_it(home: Path) -> None:
    check = session_module._check_sandbox
    check(StdioServer("prog", []))
    with pytest.raises(UsageError, match="nothing is started at a URL"):
        check(HttpServer("https://example.com/mcp"))
    path = home / "servers.json"
    path.write_text(
        '{"mcpServers": {"a": {"command": "/x"}, "b": {"url": "https://example.com/mcp"},'
        ' "c": {"command": "/x", "mcp-client": {"sandbox": {}}}}}'
    )
    config = load_config(str(path))
    check(Configured(config, "a"))
    with pytest.raises(UsageError, match="nothing is started at a URL"):
        check(Configured(config, "b"))
    with pytest.raises(UsageError, match="--sandbox does not go with 'c'"):
        check(Configured(config, "c"))


def test_an_audit_file_that_cannot_be_is_reported_before_anything_is_done(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = partial(session_module._file_to_write, "--audit")
    assert audit(None) is None
    path = str(home / "audit.jsonl")
    assert audit(path) == path
    monkeypatch.chdir(home)
    assert audit("audit.jsonl") == "audit.jsonl"
    with pytest.raises(UsageError, match="it is a directory"):
        audit(str(home))
    with pytest.raises(UsageError, match="directory not found"):
        audit(str(home / "no" / "audit.jsonl"))
    seen: list[str] = []

    def refused(path: str, mode: int) -> bool:
        seen.append(path)
        return False

    monkeypatch.setattr(os, "access", refused)
    for _ in range(2):
        with pytest.raises(UsageError, match="it cannot be written"):
            audit(path)
        Path(path).touch()
    assert seen == [str(home), path]


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(("revision", "wanted"), [("auto", "2025-06-18"), ("2026-07-28",) * 2])
async def test_a_server_of_a_file_is_opened_as_the_file_and_the_options_set(
    revision: str, wanted: str, enabled: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    class Host:
        def __init__(self, servers: Any, **chosen: Any) -> None:
            seen.append((servers, chosen))

        async def __aenter__(self) -> Any:
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def session(self, name: str) -> str:
            return f"of {name}"

    async def started(target: Any, *_: Any) -> Any:
        return replace(target.config._starts["own"].config(secrets=False), trusted=True)

    monkeypatch.setattr("mcp_client.host.host.Host", Host)
    monkeypatch.setattr(session_module, "started_from", started)
    path = home / "servers.json"
    own = {"revision": "2025-06-18", "enabled": enabled}
    path.write_text(json.dumps({"mcpServers": {"own": {"command": "/x", "mcp-client": own}}}))
    target = Configured(load_config(str(path)), "own")
    passed = options(revision=revision, record="log")
    async with session_module._configured(target, passed, {"a": 1}, None) as opened:
        assert opened == "of own"  # type: ignore[comparison-overlap]
    ((servers, chosen),) = seen
    (config,) = servers.values()
    assert (list(servers), chosen) == (["own"], {"a": 1, "sandbox": None})
    assert (config.revision, config.server.path, config.lazy) == (wanted, "log", True)
    assert (config.trusted is True, config.enabled) == (enabled, enabled)


# ------------------------------------------------------------------- who decides for it


def is_let(glob: str, **kwargs: Any) -> bool:
    tool = call_of(name="rm", server="files").tool
    return is_allowed(options(allow=[glob], **kwargs), tool)


def test_allow_matches_the_tool_and_where_it_is_named_the_server() -> None:
    assert is_let("rm")
    assert is_let("r*")
    assert is_let("files/rm")
    assert is_let("files__rm")
    assert is_let("f*/r?")
    for other in ("rmdir", "other/rm", "other__rm", "files/ls", "files"):
        assert not is_let(other)
    assert not is_let("rm", command="run")  # a call of the host
    for wrong in ("", "files/"):
        with pytest.raises(UsageError, match=f"--allow {wrong}: "):
            is_let(wrong)


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        ({"approve": "deny", "no_input": True}, "--approve deny was given; "),
        ({"no_input": True, "terminal": True}, "--no-input was given; "),
        ({}, "no terminal to ask at; "),
    ],
)
async def test_without_a_person_to_ask_the_call_is_denied_with_what_would_allow_it(
    passed: dict[str, Any], expected: str
) -> None:
    policy = session_module._policy(options(**passed))
    decision: Any = policy(call_of())
    decision = await decision if hasattr(decision, "__await__") else decision
    assert isinstance(decision, Deny)
    assert (decision.reason, decision.source) == (f"{expected}allow it with --allow rm", "rule")


async def test_a_queue_is_asked_in_place_of_a_person() -> None:
    async def queue(request: Any) -> Allow:
        return Allow()

    policy = session_module._policy(options(approve="web"), queue)  # type: ignore[arg-type]
    decision: Any = policy(call_of())
    decision = await decision if hasattr(decision, "__await__") else decision
    assert isinstance(decision, Allow)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("rm", "rm"),
        ("a__b", "files/a__b"),
        ("a/b", "files/a/b"),
        ("r*m?[x]", "'r[*]m[?][[]x]'"),
    ],
)
def test_the_advice_is_a_pattern_for_this_tool_alone(name: str, wanted: str) -> None:
    assert session_module._advice([], call_of(name=name)) == f"allow it with --allow {wanted}"
    assert session_module._as_glob(call_of(name=name)) == wanted


def test_the_advice_names_the_findings_that_the_rule_did_not_put_up_with() -> None:
    passed = options(allow=["rm"], allow_finding=["odd_name"])
    rules = session_module._rules(passed)
    found = [Finding("odd_name", "odd"), Finding("long_text", "long"), Finding("gone", "gone")]
    request = replace(call_of(), findings=(*found, found[1]))
    assert session_module._advice(rules, request) == (
        "long; gone; allow it anyway with --allow-finding long_text --allow-finding gone"
    )


def test_a_start_that_was_refused_states_how_it_can_be_confirmed(home: Path) -> None:
    path = home / "a b.json"
    path.write_text('{"mcpServers": {"own": {"command": "/x"}}}')
    target = Configured(load_config(str(path)), "own")
    by_person = StartDenied("no", source="person")
    assert session_module._denied(by_person, target, "why") is by_person
    for why, reported in (("no terminal", " (no terminal)"), (None, "")):
        error = session_module._denied(StartDenied("x", reason="r"), target, why)
        assert f"has not been confirmed here{reported}; run" in str(error)
        assert str(error).endswith(f"see it with 'mcp-client confirm '{path}' own'")
        assert (error.server, error.reason, error.source) == ("own", "r", "gate")


# ----------------------------------------------------------- files of the command itself


def test_the_state_directory_is_the_one_of_the_environment_if_it_is_absolute(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert state_file("x") == home / "state" / "mcp-client" / "x"
    assert (home / "state" / "mcp-client").stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(Path, "home", lambda: home / "me")
    for value in ("relative", ""):
        monkeypatch.setenv("XDG_STATE_HOME", value)
        assert state_file("x") == home / "me" / ".local/state/mcp-client/x"
    (home / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    with pytest.raises(UsageError, match="cannot be made"):
        state_file("x")


def test_decisions_last_as_long_as_the_command_if_no_directory_can_be_made(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = options(state=str(home / "own"))
    (home / "file").touch()
    for base, stored in (("state", True), ("file", False)):
        monkeypatch.setenv("XDG_STATE_HOME", str(home / base))
        assert repr(decisions_of(own)) == repr(FileState(home / "own").decisions)
        found = repr(decisions_of(options()))
        where = home / base / "mcp-client"
        assert (found == repr(FileState(where).decisions)) is stored
        assert (str(home) in found) is stored


def test_a_state_is_not_made_to_be_looked_at(home: Path) -> None:
    with pytest.raises(UsageError, match="directory not found"):
        existing_state_of(options(state=str(home / "no")))
    assert not (home / "no").exists()
    (home / "yes").mkdir()
    assert isinstance(existing_state_of(options(state=str(home / "yes"))), FileState)


@pytest.mark.parametrize(
    "word",
    [
        "postgresql://ana:hunter2@example.com/db",
        "POSTGRES://ana:@example.com/db",
        "host=example.com password = hunter2",
        "host=example.com PASSWORD=hunter2",
    ],
)
def test_a_password_is_not_a_word_of_a_command(word: str) -> None:
    with pytest.raises(UsageError, match="other users can read a password") as caught:
        session_module._state_named(word)
    assert "hunter2" not in str(caught.value)


def test_a_state_can_be_named_by_a_variable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", str(home / "named"))
    named: Any = session_module._state_named("env:WHERE")
    assert named.path == home / "named"
