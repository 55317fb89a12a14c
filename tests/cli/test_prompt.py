"""The line of ``mcp-client shell``: history without secrets, completion of what there is."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from mcp_client import Tool
from mcp_client.cli.completion import Known, known_of, offered
from mcp_client.cli.shell import History, line_reader, may_be_stored, suggestions
from tests.cli.shell import at_terminal, example

SCHEMA = {
    "type": "object",
    "properties": {
        "unit": {"enum": ["metric", "imperial", 3, None]},
        "loud": {"type": "boolean"},
        "place": {"type": "string"},
    },
}
SECRET = {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}}


def leave(child: Any) -> None:
    """Ctrl-D until the shell has ended: the prompt that was seen may be the last one drawn again,
    and a Ctrl-D that comes while the command runs is lost."""
    for _ in range(60):
        child.send("\x04")
        if child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=1) == 0:
            return
    raise AssertionError("the shell did not end")


def tool(name: str, schema: Any = SCHEMA) -> Tool:
    return Tool(name, "demo", False, {"name": name, "inputSchema": schema})


KNOWN = known_of(
    [tool("get_weather"), tool("get_time", {"type": "object"}), tool("log_in", SECRET)],
    resources=["book:emma", "book:{title}"],
)


def names(target: str, config: str | None) -> Known:
    assert (target, config) == ("demo", None)
    return KNOWN


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("des", ["describe"]),
        ("describe get_", ["get_weather", "get_time"]),
        ("call get_w", ["get_weather"]),
        ("call get_weather ", ["unit=", "loud=", "place="]),
        ("call --json get_weather lo", ["loud="]),
        ("call get_weather --save dir lo", ["loud="]),
        ("call get_weather place=x ", ["unit=", "loud="]),
        ("call get_weather place:=1 p", []),
        ("call get_weather unit=", ["unit=metric", "unit=imperial", "unit=3"]),
        ("call get_weather loud=t", ["loud=true"]),
        ("call get_weather place=", []),
        ("call unknown ", []),
        ("describe get_time ", []),
        ("read book:", ["book:emma"]),
        ("", ["call", "describe", "read"]),
    ],
)
def test_a_word_is_completed_by_what_there_is(typed: str, wanted: list[str]) -> None:
    found = suggestions(typed, ["call", "describe", "read"], KNOWN)
    assert [text for text, _ in found] == wanted
    last = "" if not typed or typed[-1] == " " else typed.split(" ")[-1]
    assert {back for _, back in found} <= {len(last)}


def test_an_option_is_completed_by_its_values() -> None:
    assert offered(["call", "--approve", ""], names) == ["ask", "deny", "web"]
    assert offered(["pins", "demo", "--pins", "f", "--accept", "log"], names) == ["log_in"]


@pytest.mark.parametrize(
    "name",
    ["$(touch x)", "a b", "`x`", "a;b", "a\nb", "'", "a\u202eb", "~x", "--trust", "@x", "=ls"],
)
def test_a_name_that_a_shell_would_not_take_as_it_is_is_not_offered(name: str) -> None:
    assert suggestions("call ", ["call"], known_of([tool(name)])) == []


@pytest.mark.parametrize(
    ("line", "is_stored"),
    [
        ("call get_weather location=Oslo", True),
        ("tools", True),
        (" call get_weather location=Oslo", False),
        ("", False),
        ("call x password=hunter2", False),
        ("call x apiKey:=7", False),
        ('call x headers:=\'{"Authorization": "Bearer x"}\'', False),
        ("call x text='Authorization: Bearer abc'", False),
        ("call x token=abc", False),
        ("call x text=ghp_0123456789abcdefghijABCDEFGHIJ012345", False),
        ("call log_in pin=1234", False),
        ("call --json log_in pin=1234", False),
        ("call 'unclosed", False),
        ("x" * 5000, False),
    ],
)
def test_a_line_that_may_hold_a_secret_is_not_written_down(line: str, is_stored: bool) -> None:
    assert may_be_stored(line, KNOWN) is is_stored


def test_the_history_is_for_its_owner_alone_and_lasts(tmp_path: Path) -> None:
    path = tmp_path / "shell_history"
    history = History(path, lambda: Known())
    for line in ("one", "call x token=abc", "zwei ü \x1b[2J"):
        history.add(line)
    assert path.stat().st_mode & 0o777 == 0o600
    assert History(path, lambda: Known()).lines() == ["one", "zwei ü \x1b[2J"]
    for number in range(1_005):
        history.add(f"line {number}") if number > 1_000 else None
    assert History(path, lambda: Known()).lines()[-1] == "line 1004"


@pytest.mark.parametrize("spoil", ["mode", "content", "folder"])
def test_a_history_that_cannot_be_used_is_reported_once_and_left_alone(
    spoil: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shell_history"
    if spoil == "folder":
        path.mkdir()
    else:
        path.write_text('"one"\n' if spoil == "mode" else "[[[")
        os.chmod(path, 0o644 if spoil == "mode" else 0o600)
    history = History(path, lambda: Known())
    assert history.lines() == []
    history.add("two")
    history.add("three")
    assert capsys.readouterr().err.count("shell history") == 1
    assert path.is_dir() or b"two" not in path.read_bytes()


@pytest.mark.slow
def test_the_shell_completes_remembers_and_keeps_no_secret(tmp_path: Path) -> None:
    child = at_terminal("shell", example("weather"), home=tmp_path, columns=200)
    child.expect("mcp>")
    child.send("desc\t")
    child.expect("ribe")
    child.send(" set_\t")
    child.expect("alarm")
    child.send("\r")
    child.expect("Fingerprint")
    child.expect("mcp>")
    child.send("call set_alarm password=hunter2 loc\t")
    child.expect("ation=")
    child.send("Oslo\r")
    child.expect(r"Run it\? ")
    child.sendline("n")
    child.expect("mcp>")
    child.send("half of a line\x03")  # Ctrl-C drops it
    child.expect("mcp>")
    leave(child)
    child.close()
    assert child.exitstatus == 3
    (stored,) = tmp_path.rglob("shell_history")
    assert stored.read_text() == '"describe set_alarm"\n'
    child = at_terminal("shell", example("weather"), home=tmp_path, columns=200)
    child.expect("mcp>")
    child.send("\x1b[A")
    child.expect("describe set_alarm")
    child.send("\r")
    child.expect("Fingerprint")
    child.expect("mcp>")
    leave(child)


@pytest.mark.slow
def test_the_shell_works_where_no_history_can_be_stored(tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("a file where a directory would be")
    child = at_terminal("shell", example("weather"), home=tmp_path)
    child.expect("cannot be made")
    child.expect("mcp>")
    child.send("describe set_alarm\r")
    child.expect("Fingerprint")
    child.expect("mcp>")
    leave(child)


@pytest.mark.slow
def test_the_prompt_is_at_the_terminal_wherever_the_output_goes(tmp_path: Path) -> None:
    reported = tmp_path / "said"
    shell = f"mcp shell {shlex.quote(example('weather'))}"
    line = f"{shell} 2>{tmp_path / 'notes'} | tee {reported} >/dev/null"
    child = at_terminal(line=line, home=tmp_path)
    child.expect("mcp>")
    child.send("describe set_alarm\r")
    child.expect("mcp>")
    leave(child)
    child.close()
    assert reported.read_text().startswith("set_alarm(location: str")
    assert "mcp>" not in reported.read_text() + (tmp_path / "notes").read_text()


@pytest.mark.slow
def test_a_signal_ends_the_shell_at_its_prompt(tmp_path: Path) -> None:
    import signal

    child = at_terminal("shell", example("weather"), home=tmp_path)
    child.expect("mcp>")
    child.kill(signal.SIGTERM)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130


@pytest.mark.parametrize("kind", ["dumb", "unknown", None])
def test_a_dumb_terminal_has_no_history(
    kind: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if kind is None:
        monkeypatch.delenv("TERM", raising=False)
    else:
        monkeypatch.setenv("TERM", kind)
    assert line_reader(tmp_path / "history", ["call"], lambda: KNOWN) is None


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_line_is_remembered_in_the_file_where_there_is_one(
    is_stored: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    path = tmp_path / "history" if is_stored else None
    reader = line_reader(path, ["call", "tools"], lambda: KNOWN)
    assert reader is not None
    for line in ("tools", "call get_time"):
        reader.history.append_string(line)
    assert reader.history.get_strings() == ["tools", "call get_time"]
    again = line_reader(path, ["call"], lambda: KNOWN)
    assert again is not None
    newest_first = list(again.history.load_history_strings())
    assert newest_first == (["call get_time", "tools"] if is_stored else [])
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    assert reader.completer is not None
    found = reader.completer.get_completions(Document("call get_w"), CompleteEvent())
    assert [(one.text, one.start_position) for one in found] == [("get_weather", -5)]
