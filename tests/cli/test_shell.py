"""``shell``: many commands in one session."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pexpect  # type: ignore[import-untyped]
import pytest

from mcp_client import Allow, ApprovalQueue, FileState
from mcp_client.approval import Remember
from mcp_client.cli import shell as shell_module
from mcp_client.cli import signals
from mcp_client.cli.completion import Known
from mcp_client.cli.exits import Interrupted, UsageError
from mcp_client.errors import NotFound, ServerError
from tests.cli.shell import at_terminal, example, offering, run, server, without_extra


def test_commands_of_a_pipe_run_in_one_session() -> None:
    lines = "call pid\n# a comment\n\ncall pid --json\nnosuch\ntools --json"
    done = run("shell", server("scripted", "--era", "stateless"), "--allow", "pid", stdin=lines)
    first, second, third = done.out.splitlines()
    assert f'"text": "{first}"' in second
    assert '"tools"' in third
    assert done.code == 2
    assert "unknown command 'nosuch'" in done.err


BATCH = """\
call echo a=1
# a comment
call

nosuch
call echo 'half
call fail --allow=*
get_weather location=Oslo
call pid -- x=1
help
tools --help
call echo b=2 --each
quit
never
"""


def test_a_batch_with_json_prints_one_document_a_line_with_its_number(tmp_path: Path) -> None:
    target = server("scripted", "--era", "stateless")
    done = run("shell", target, "--allow", "echo", "--json", stdin=BATCH)
    found = [json.loads(line) for line in done.out.splitlines()]
    assert [one["line"] for one in found] == [1, 3, 5, 6, 7, 8, 9, 10, 11, 12]
    assert found[0]["content"] == [{"type": "text", "text": '{"a": "1"}'}]
    kinds = [one.get("error", {}).get("type") for one in found]
    assert kinds == [None, *["UsageError"] * 5, "CallDenied", None, None, "UsageError"]
    assert "echo" not in found[7]["commands"]
    assert "usage: " in found[8]["help"]
    assert done.code == 2
    for number, words in ((5, "unknown command 'nosuch'"), (6, "the line cannot be read")):
        assert f"line {number}: {words}" in done.err


def test_each_line_of_arguments_is_a_call_and_a_json_line() -> None:
    lines = '{"a": 1}\n\n[2]\n{"a": \n{"b": "\u00fc"}'
    target = server("scripted")
    words = ["call", target, "--each", "echo", "--allow", "echo", "a:=0"]
    done = run(*words, stdin=lines)
    found = [json.loads(line) for line in done.out.splitlines()]
    assert [one["line"] for one in found] == [1, 3, 4, 5]
    texts = [json.loads(one["content"][0]["text"]) for one in found if "content" in one]
    assert texts == [{"a": 1}, {"a": 0, "b": "\u00fc"}]
    assert [one["error"]["type"] for one in found if "error" in one] == ["UsageError"] * 2
    assert done.code == 2
    assert run(*words, stdin='{"a": 1}\n').code == 0
    assert run(*words, stdin="").out == ""
    refused = run("call", target, "echo", "--each", "--no-input", stdin='{"a": 1}\n{}\n')
    found = [json.loads(line) for line in refused.out.splitlines()]
    assert [(one["line"], one["error"]["type"]) for one in found] == [
        (1, "CallDenied"),
        (2, "CallDenied"),
    ]
    assert refused.code == 3
    both = run(*words, "-", stdin="{}")
    assert (both.code, both.json["error"]["type"]) == (2, "UsageError")


def test_a_byte_order_mark_before_the_input_is_ignored(tmp_path: Path) -> None:
    target, mark = server("scripted"), "\ufeff"
    call = ["call", target, "echo", "--allow", "echo"]
    (tmp_path / "arguments.json").write_text(mark + '{"a": 1}')
    done = [
        run(*call, "--each", stdin=mark + '{"a": 1}\r\n{"a": 1}\r\n'),
        run(*call, "-", stdin=mark + '{"a": 1}'),
        run(*call, f"@{tmp_path / 'arguments.json'}"),
        run("shell", target, "--allow", "echo", stdin=mark + "call echo a:=1\r\n"),
    ]
    assert [one.err for one in done] == [""] * 4
    assert [one.out.count('"a') for one in done] == [2, 1, 1, 1]


def test_a_line_that_begins_with_a_tool_is_a_call_without_its_command() -> None:
    done = run("shell", server("scripted"), stdin="echo a:=1\ntool\n")
    assert "line 1: unknown command 'echo': did you mean 'call echo ...'?" in done.err
    assert "line 2: unknown command 'tool': 'help' lists the commands; did you mean to" in done.err


def test_an_hour_outlives_a_call_whose_session_ends_with_it(tmp_path: Path) -> None:
    words = "call", example("weather"), "set_alarm", "location=Oslo"
    child = at_terminal(*words, home=tmp_path)
    child.expect(r"Run it\? \[([^\]]+)\]")
    assert child.match[1] == "y/N/h/a/x/v" or child.match[1] == "y/N/h/a/x/e/v"
    assert "Until the session ends" not in child.before
    child.sendline("h")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    again = run(*words, "--no-input", home=tmp_path)
    assert (again.code, again.err) == (0, "")
    (stored,) = run("decisions", "list", "--json", home=tmp_path).json["decisions"]
    assert stored["scope"] == "always"
    assert stored["expires_at"] - stored["decided_at"] == 3_600
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(stored["expires_at"]))
    listed = run("decisions", "list", home=tmp_path).out
    assert f"until {end}, any arguments" in listed
    assert "always" not in listed


def test_a_page_does_not_offer_the_session_of_one_call_either(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    words = "call", example("weather"), "set_alarm", "location=Oslo", "--state", state
    queue = ApprovalQueue(decisions=FileState(state).decisions)
    with ThreadPoolExecutor(1) as one, queue.changes() as changes:
        done = one.submit(run, *words, "--approve", "web", home=tmp_path)
        (asked,) = next(pending for pending in changes if pending)
        request = asked.request
        assert request.choices() == ("once", "hour", "always", "exact")
        covered = request.coverage(Remember("session", seconds=3_600))
        assert "for 60 minutes." in covered
        assert "session" not in covered
        queue.decide(asked.id, Allow(remember="hour"))
        assert done.result().code == 0
    again = run(*words, "--no-input", home=tmp_path)
    assert (again.code, again.err) == (0, "")


def test_a_word_that_is_not_a_boolean_is_refused_with_the_words_that_are() -> None:
    done = run("call", example("weather"), "set_alarm", "location=Oslo", "loud=yes")
    assert (done.code, "the tool requires true or false here" in done.err) == (2, True)


def test_a_disabled_server_is_listed_as_disabled(tmp_path: Path) -> None:
    config = tmp_path / "c.json"
    off = {"command": "python3", "args": ["x.py"], "disabled": True}
    config.write_text(json.dumps({"mcpServers": {"off": off, "on": {**off, "disabled": False}}}))
    listed = run("servers", "--config", str(config), home=tmp_path).out.splitlines()
    assert [row.split()[1] == "disabled" for row in listed] == [True, False]
    found = run("servers", "--config", str(config), "--json", home=tmp_path).json["servers"]
    assert [one["enabled"] for one in found] == [False, True]


def test_a_tool_name_in_place_of_a_command_is_explained() -> None:
    done = run("shell", example("weather"), stdin="get_weather location=Oslo\n")
    assert done.code == 2
    assert "did you mean 'call get_weather ...'?" in done.err


def test_the_shell_does_not_take_options_of_the_session_in_a_line() -> None:
    line = "call set_alarm location=Oslo --allow=*"
    done = run("shell", example("weather"), stdin=line)
    assert (done.code, done.out) == (2, "")
    assert "give it to 'shell'" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("extra", [True, False])
def test_the_shell_at_a_terminal_asks_before_a_call_and_goes_on_after_a_denial(
    extra: bool, tmp_path: Path
) -> None:
    env: dict[str, Any] = {} if extra else without_extra(tmp_path / "without")
    child = at_terminal("shell", example("weather"), home=tmp_path, **env)
    child.expect("mcp>")
    child.sendline("call set_alarm location=Oslo")
    child.expect(r"Run it\? ")
    child.sendline("n")
    child.expect("not approved")
    child.expect("mcp>")
    child.sendline("describe get_weather")
    child.expect("Fingerprint")
    child.expect("mcp>")
    child.sendline("quit")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 3


@pytest.mark.slow
@pytest.mark.parametrize("extra", [True, False])
def test_ctrl_c_cancels_the_call_and_comes_back_to_the_prompt(extra: bool, tmp_path: Path) -> None:
    env: dict[str, Any] = {} if extra else without_extra(tmp_path / "without")
    target = server("asking_stdio", "handshake")
    child = at_terminal("shell", target, "--allow=*", home=tmp_path, **env)
    child.expect("mcp>")
    child.sendline("call slow")
    child.expect("on my way")
    child.sendintr()
    child.expect("cancelled; what was sent may have run")
    child.expect("mcp>")
    child.sendline("call last-reason")  # the server was notified, and the session goes on
    child.expect("the client gave up waiting")
    child.expect("mcp>")
    child.sendline("quit")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130


@pytest.mark.slow
@pytest.mark.parametrize("where", ["in the call", "at the prompt"])
def test_ctrl_c_twice_leaves_the_shell(where: str, tmp_path: Path) -> None:
    target = server("asking_stdio", "handshake")
    child = at_terminal("shell", target, "--allow=*", home=tmp_path)
    child.expect("mcp>")
    if where == "in the call":
        child.sendline("call slow")
        child.expect("on my way")
        child.sendintr()
    else:
        child.send("half")
        child.sendintr()
        child.expect("mcp>")
        child.sendintr()
    child.expect("mcp>")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert "Traceback" not in child.before


@pytest.mark.one_backend
async def test_a_command_that_is_left_by_ctrl_c_ends_the_shell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[str] = []

    async def lines() -> AsyncIterator[tuple[int, str]]:
        yield 1, "call one"
        yield 2, "call two"

    async def left(line: str, *_: Any) -> int:
        ran.append(line)
        raise Interrupted("interrupted")

    monkeypatch.setattr(shell_module, "open_session", lambda options: nullcontext())
    monkeypatch.setattr(shell_module, "_is_typed", lambda: False)
    monkeypatch.setattr(shell_module, "_piped", lines)
    monkeypatch.setattr(shell_module, "_run", left)
    with pytest.raises(Interrupted):
        await shell_module.shell(Namespace(json=False))
    assert ran == ["call one"]


class Line:
    """Reads lines as a person types them: a text, or what is raised in its place."""

    def __init__(self, *typed: Any) -> None:
        self._typed = list(typed)
        self.default_buffer = Namespace(text="")

    async def prompt_async(self, prompt: str, **more: Any) -> str:
        now = self._typed.pop(0)
        if isinstance(now, tuple):  # Ctrl-C, with what was typed before it
            self.default_buffer.text = now[0]
            raise KeyboardInterrupt
        if isinstance(now, Exception):
            raise now
        return str(now)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("typed", "again", "wanted"),
    [
        (["tools"], False, "tools"),
        ([EOFError()], False, None),
        ([("half",), "tools"], True, "tools"),
        ([("",), "tools"], False, "tools"),
        ([("",), ("half",), ("",), "tools"], False, "tools"),
        ([("",)], True, Interrupted),
        ([("",), ("",)], False, Interrupted),
        ([("half",), ("",), ("",)], True, Interrupted),
    ],
)
async def test_ctrl_c_at_an_empty_line_leaves_where_it_comes_twice(
    typed: list[Any], again: bool, wanted: Any
) -> None:
    line: Any = Line(*typed)
    if wanted is Interrupted:
        with pytest.raises(Interrupted):
            await shell_module._edited(line, again)
    else:
        assert await shell_module._edited(line, again) == wanted
    assert line._typed == []


@pytest.mark.one_backend
async def test_a_pipe_is_read_without_its_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    async def piped() -> bytes:
        return b"# no\ntools\n  # no\ncall a=#\xff"

    monkeypatch.setattr(shell_module, "stdin_bytes", piped)
    assert [line async for line in shell_module._piped()] == [(2, "tools"), (4, "call a=#\ufffd")]


@pytest.mark.one_backend
async def test_what_a_server_does_not_offer_is_not_listed_to_complete_lines() -> None:
    asked: list[str] = []

    class Session:
        capabilities: ClassVar[dict[str, Any]] = {"resources": {}, "prompts": {}}

        def __getattr__(self, name: str) -> Any:
            async def listed() -> list[Any]:
                asked.append(name)
                if name == "list_prompts":
                    raise ServerError("none", code=1)
                return [Namespace(uri="a:b", uri_template="a:{b}")]

            return listed

    known = await shell_module._known(Session())  # type: ignore[arg-type]
    assert asked == ["list_prompts", "list_resources", "list_resource_templates"]
    assert known == Known(resources=("a:b", "a:{b}"))


@pytest.mark.one_backend
async def test_the_exit_code_is_that_of_the_last_command_that_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    lines = ["ok", "fail", "ok", "gone", "ok", "quit", "never"]
    outcomes: dict[str, Any] = {"ok": 0, "fail": 3, "gone": NotFound("gone")}

    async def piped() -> AsyncIterator[tuple[int, str]]:
        for numbered in enumerate(lines, 1):
            yield numbered

    async def run_one(line: str, *_: Any) -> int:
        ran.append(line)
        if isinstance(outcomes[line], Exception):
            raise outcomes[line]
        return int(outcomes[line])

    monkeypatch.setattr(shell_module, "open_session", lambda options: nullcontext())
    monkeypatch.setattr(shell_module, "_is_typed", lambda: False)
    monkeypatch.setattr(shell_module, "_piped", piped)
    monkeypatch.setattr(shell_module, "_run", run_one)
    assert await shell_module.shell(Namespace(json=False)) == 4
    assert ran == ["ok", "fail", "ok", "gone", "ok"]
    assert capsys.readouterr().err == "mcp-client: line 4: gone\n"
    lines[:] = ["fail", "exit", "never"]
    assert await shell_module.shell(Namespace(json=False)) == 3


@pytest.mark.slow
def test_sigterm_in_a_call_leaves_the_shell(tmp_path: Path) -> None:
    target = server("asking_stdio", "handshake")
    child = at_terminal("shell", target, "--allow=*", home=tmp_path)
    child.expect("mcp>")
    child.sendline("call slow")
    child.expect("on my way")
    child.kill(signal.SIGTERM)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert "mcp>" not in child.before


@pytest.mark.slow
def test_the_same_is_declared_with_and_without_a_terminal(tmp_path: Path) -> None:
    """A server may offer other tools to a client that cannot be asked."""
    asked = offering(tmp_path, {"content": []})
    program, seen = tmp_path / "counting.py", tmp_path / "seen"
    text = program.read_text()
    note = f"    open({str(seen)!r}, 'a').write(json.dumps(asked['params']['_meta']) + '\\n')\n"
    begin = '    match asked["method"]:\n'
    program.write_text(text.replace(begin, note + begin))
    run("tools", asked)
    run("tools", asked, "--no-input")
    child = at_terminal("tools", asked)
    child.expect(pexpect.EOF)
    found = [json.loads(line) for line in seen.read_text().splitlines()]
    declared = [one["io.modelcontextprotocol/clientCapabilities"] for one in found]
    assert len(declared) == 6
    assert all(one == declared[0] for one in declared)
    assert "elicitation" in declared[0]


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--no-input"]])
def test_a_question_without_a_terminal_is_cancelled_and_reported(more: list[str]) -> None:
    words = ["call", server("asking_stdio", "stateless"), "form", "--allow=*", *more]
    done = run(*words)
    assert "a request for input was cancelled" in done.err
    assert '"action": "cancel"' in done.out
    child = at_terminal(*words, "--no-input")
    child.expect(pexpect.EOF)
    assert "Fill it in?" not in child.before


@pytest.mark.parametrize("kind", ["pipe", "file"])
async def test_standard_input_is_read_to_its_end_or_to_its_bound(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(data: bytes) -> str:
        if kind == "file":
            (tmp_path / "in").write_bytes(data)
            reading = os.open(tmp_path / "in", os.O_RDONLY)
        else:
            reading, writing = os.pipe()
            os.write(writing, data)
            os.close(writing)
        with open(reading) as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            return await signals.standard_input()

    monkeypatch.setattr(signals, "_MAX_STDIN_BYTES", 3)
    assert await read(b"") == ""
    assert await read(b"a\xc3\xa9") == "aé"
    with pytest.raises(UsageError, match="standard input has more than 3 bytes"):
        await read(b"abcd")
    with pytest.raises(UsageError, match="standard input is not UTF-8"):
        await read(b"\xff")
    monkeypatch.setattr(signals, "_MAX_STDIN_BYTES", 40_000)
    assert await read(b"x" * 40_000) == "x" * 40_000
    for closed in (None, open(os.devnull)):  # noqa: SIM115
        if closed is not None:
            closed.close()
        monkeypatch.setattr(sys, "stdin", closed)
        with pytest.raises(UsageError, match="standard input cannot be read"):
            await signals.standard_input()
