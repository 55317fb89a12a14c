"""At a real terminal: approval, questions of servers, progress, Ctrl-C, hostile texts."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import anyio
import pexpect  # type: ignore[import-untyped]
import pytest

from mcp_client.cli import signals as terminal_module
from mcp_client.cli.signals import find_terminal
from mcp_client.runtime import console
from tests.cli.shell import at_terminal, example, server

WEATHER = example("weather")


def ended(child: Any) -> tuple[int | None, str]:
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus, str(child.before)


@pytest.mark.slow
@pytest.mark.parametrize(("reply", "code"), [("y", 0), ("n", 3), ("", 3), ("\x03", 3)])
def test_a_person_is_asked_before_a_call(reply: str, code: int) -> None:
    child = at_terminal("call", WEATHER, "set_alarm", "location=Oslo")
    child.expect("May this tool run")
    child.expect(r"Run it\? ")
    child.send(reply + ("" if reply == "\x03" else "\n"))
    status, text = ended(child)
    assert status == code
    assert ("Alarm set for Oslo" in text) == (code == 0)


@pytest.mark.slow
def test_the_pipe_gives_the_arguments_and_the_terminal_gives_the_decision() -> None:
    line = f'echo \'{{"location": "Rome"}}\' | mcp call {shlex.quote(WEATHER)} set_alarm - | cat'
    child = at_terminal(line=f"{line} 2>/dev/null")
    child.expect(r"Run it\? ")
    child.sendline("y")
    assert "Alarm set for Rome" in ended(child)[1]


@pytest.mark.slow
def test_yes_on_the_pipe_is_not_an_answer() -> None:
    child = at_terminal(line=f"yes | mcp call {shlex.quote(WEATHER)} set_alarm location=Oslo")
    child.expect(r"Run it\? ")
    child.sendline("n")
    status, text = ended(child)
    assert status == 3
    assert "Alarm set" not in text


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--no-input", "--approve=deny"])
def test_without_asking_the_call_is_refused(option: str) -> None:
    child = at_terminal("call", WEATHER, "set_alarm", "location=Oslo", option)
    status, text = ended(child)
    assert status == 3
    assert "Run it?" not in text
    assert "--allow set_alarm" in text


@pytest.mark.slow
def test_a_terminal_that_is_too_narrow_to_show_a_call_is_refused_with_what_to_do() -> None:
    child = at_terminal("call", WEATHER, "set_alarm", "location=Oslo", columns=10)
    status, text = ended(child)
    assert status == 3
    assert "narrower than" in text
    assert "--allow set_alarm" in text


@pytest.mark.slow
def test_a_question_of_the_server_is_answered_at_the_terminal() -> None:
    child = at_terminal("call", example("cafe"), "order", "--allow", "order")
    child.expect(r"Fill it in\? ")
    child.sendline("y")
    child.expect("Your name")
    child.sendline("Ana")
    child.expect(r"Size[^\n]*\n")
    child.sendline("l")
    child.sendline("y")
    status, text = ended(child)
    assert status == 0, text
    assert "A coffee (l) for Ana." in text


@pytest.mark.slow
def test_progress_is_one_line_that_goes_away() -> None:
    child = at_terminal("call", example("cafe"), "brew", "steps=3", "--allow", "brew", NO_COLOR="1")
    status, text = ended(child)
    assert status == 0
    assert re.search(r"\r1/3[^\n]*\r2/3[^\n]*\r3/3", text)
    assert "\x1b" not in text


@pytest.mark.slow
def test_ctrl_c_ends_a_call_that_runs() -> None:
    child = at_terminal("call", server("asking_stdio", "handshake"), "slow", "--allow", "slow")
    child.expect("on my way")
    child.sendintr()
    status, text = ended(child)
    assert status == 130
    assert "Traceback" not in text


@pytest.mark.slow
def test_no_text_of_a_server_is_obeyed_by_the_terminal() -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\u202eevil\x9b31m"
    lines = json.dumps(
        {"jsonrpc": "2.0", "id": "@", "result": {"content": [{"type": "text", "text": evil}]}}
    ).replace('"@"', "ID")
    words = ["call", server("scripted"), "raw", f"lines:={json.dumps([lines])}", "--allow", "raw"]
    for more in ([], ["--json"]):
        status, text = ended(at_terminal(*words, *more))
        assert status == 0
        assert "evil" in text
        assert not set("\x1b\x07\x9b\u202e") & set(text)


@pytest.mark.slow
def test_a_server_of_a_project_is_asked_about_once(tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    command, path = shlex.split(WEATHER)
    config.write_text(json.dumps({"mcpServers": {"sky": {"command": command, "args": [path]}}}))
    words = ["tools", "sky", "--config", str(config)]
    child = at_terminal(*words, home=tmp_path)
    child.expect(r"Start it\? ")
    child.sendline("a")
    assert ended(child)[0] == 0
    status, text = ended(at_terminal(*words, home=tmp_path))
    assert (status, "Start it?" in text) == (0, False)
    assert sys.executable not in text


@pytest.mark.slow
def test_a_denial_of_a_server_of_a_project_is_not_asked_about_again(tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"sky": {"command": "never-run"}}}))
    child = at_terminal("tools", "sky", "--config", str(config), home=tmp_path)
    child.expect(r"Start it\? ")
    child.sendline("n")
    status, text = ended(child)
    assert (status, "Start it?" in text) == (3, False)


async def test_a_reply_typed_while_the_question_is_still_being_shown_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    person, here = os.openpty()
    with open(here, encoding="utf-8") as input, open(os.dup(here), "w") as output:
        monkeypatch.setattr(console, "_elsewhere", None)
        console.ask_at(input, output)
        with anyio.fail_after(60):
            async with console.open_console() as opened:
                os.write(person, b"typed ahead\n")
                opened.say("May this program be started?")
                os.write(person, b"n\n")
                opened.say("It runs on this machine.")
                assert await opened.word("Start it? ") == "n"
                os.write(person, b"typed ahead\n")
                opened.say("And now?")
                os.write(person, b"y\n")
                assert await opened.word("> ") == "y"
    os.close(person)


@pytest.mark.slow
def test_a_denial_at_once_of_the_start_of_a_server_is_a_denial(tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"sky": {"command": "never-run"}}}))
    child = at_terminal("tools", "sky", "--config", str(config), home=tmp_path)
    child.delaybeforesend = None
    child.expect(r"Start it\? \[[^]]*\] ")
    child.send("n\n")
    status, text = ended(child)
    assert status == 3
    assert "Start it?" not in text


@pytest.mark.parametrize(
    ("typed", "no_input", "wanted"),
    [
        ({"stdin", "stderr"}, False, True),
        ({"stdin", "stderr"}, True, False),
        ({"stdin"}, False, False),
        ({"stderr"}, False, False),
        (set(), False, False),
    ],
)
def test_a_person_can_be_asked_where_both_streams_are_the_terminal(
    typed: set[str], no_input: bool, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> str:
        raise OSError("there is none")

    monkeypatch.setattr(terminal_module, "_terminal_name", none)
    for name in ("stdin", "stderr"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda name=name: name in typed)
    options = Namespace(no_input=no_input)
    find_terminal(options)
    assert options.terminal is wanted


@pytest.mark.parametrize("typed", [True, False])
def test_a_person_is_asked_at_the_terminal_beside_a_pipe(
    typed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    person, here = os.openpty()
    asked: list[Any] = []
    monkeypatch.setattr(terminal_module, "_terminal_name", lambda: os.ttyname(here))
    monkeypatch.setattr(console, "ask_at", lambda *streams: asked.extend(streams))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: typed)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: not typed)
    options = Namespace()
    find_terminal(options)
    assert options.terminal
    assert [stream.mode for stream in asked] == ["r", "w"]
    assert all(stream.isatty() for stream in asked)
    (number,) = {stream.fileno() for stream in asked}
    for stream in asked:
        stream.close()
    for each in (number, person, here):
        os.close(each)


def test_a_stream_that_is_closed_or_missing_is_not_a_terminal() -> None:
    person, here = os.openpty()
    with open(here) as stream:
        assert terminal_module._is_terminal(stream) is True
    assert terminal_module._is_terminal(stream) is False
    assert terminal_module._is_terminal(None) is False
    os.close(person)
