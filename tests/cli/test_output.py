"""What a command prints: to a terminal, to a pipe, and where nothing can be written."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from mcp_client.cli.output import Progress, note, note_of_server
from tests.cli.shell import at_terminal, example, offering, run, sending, server, until

MAKEFILE = "all:\n\tcc -o a a.c\r\n\n"


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def shown(*words: str, **more: Any) -> str:
    """All that the terminal shows until the end."""
    child = at_terminal(*words, **more)
    child.expect(pexpect.EOF)
    return str(child.before)


@pytest.mark.parametrize("value", [MAKEFILE, "no line feed", "ü \u2028\x1b[2J\0 end\r\n"])
def test_the_text_of_a_result_reaches_a_pipe_byte_for_byte(value: str) -> None:
    done = run(*sending(text(value)))
    assert (done.code, done.out, done.err) == (0, value, "")


def test_texts_of_one_result_stand_on_lines_of_their_own() -> None:
    link = {"type": "resource_link", "uri": "book:emma", "name": "Emma"}
    content = (
        text("one"),
        text("two\n"),
        {"type": "resource", "resource": {"uri": "a:b", "text": "3"}},
    )
    done = run(*sending(*content, link, text("end")))
    assert done.out == "one\ntwo\n3\n[link book:emma] Emma\nend"


def test_structured_content_is_printed_only_where_there_is_no_text() -> None:
    structured = {"structuredContent": {"a": 1}}
    assert run(*sending(text("one"), **structured)).out == "one"
    assert run(*sending(text(""), **structured)).out == '{\n  "a": 1\n}\n'
    assert run(*sending(**structured)).out == '{\n  "a": 1\n}\n'
    assert run(*sending(text("one"), **structured), "--json").json["structuredContent"] == {"a": 1}
    on_terminal = shown("call", example("weather"), "get_weather", "location=Oslo", "--allow=*")
    assert on_terminal.count("22.5") == 1


def test_tabs_stay_tabs_at_a_terminal_and_line_ends_are_not_spelled_out() -> None:
    found = shown(*sending(text(MAKEFILE)))
    assert "\tcc -o a a.c\r\n" in found
    assert "\\u{" not in found


def test_help_says_what_a_pipe_gets() -> None:
    assert "byte for byte" in run("--help").out


TWO = {
    "type": "object",
    "properties": {"place": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["place", "days"],
}


@pytest.mark.parametrize("words", [[], ["place=Oslo"], ["--allow", "count"]])
def test_missing_arguments_are_named_before_anybody_is_asked(
    words: list[str], tmp_path: Path
) -> None:
    target = offering(tmp_path, {"content": []}, inputSchema=TWO)
    found = shown("call", target, "count", *words)
    assert "missing: " in found
    assert "days" in found
    assert "count(place: str, days: int)" in found
    assert "Run it?" not in found
    log = tmp_path / "audit.jsonl"
    done = run("call", target, "count", *words, "--audit", str(log), "--json")
    assert (done.code, done.json["error"]["type"]) == (2, "InvalidArguments")
    assert not log.exists()


def test_arguments_may_be_one_json_object(tmp_path: Path) -> None:
    words = ["call", server("scripted"), "echo", '{"a": 1, "b=": [2]}', "c=3", "--allow", "echo"]
    assert run(*words).out == '{"a": 1, "b=": [2], "c": "3"}'
    assert run(*words[:3], "{a=1}", "--allow", "echo").code == 2


def test_a_missing_argument_of_a_prompt_is_named(tmp_path: Path) -> None:
    done = run("prompt", server("library", "stateless"), "summary")
    assert done.code == 2
    assert "missing: title; nothing was sent; the prompt is summary(title)" in done.err


# ------------------------------------------------------------------- lines of a server

LIES = "mcp-client: log in at http://evil.example"


def saying(folder: Path, text: str, *more: str) -> str:
    said = f"tell('message', level='warning', data={text!r})"
    return offering(folder, {"content": []}, during="\n".join([said, *more]))


def test_each_line_of_a_server_carries_its_name_and_a_mark(tmp_path: Path) -> None:
    target = saying(tmp_path, f"{' ' * 60}{LIES} {LIES}\n{LIES}")
    done = run("call", target, "count", "--allow=count")
    assert done.err.splitlines()[0].startswith("counting | warning: ")
    assert not re.search("^mcp-client", done.err, re.MULTILINE)
    for columns in (30, 60, 100):
        found = shown("call", target, "count", "--allow=count", columns=columns, NO_COLOR="1")
        lines = [line for line in found.splitlines() if line.strip("\r")]
        assert all(re.match(r"counting [|:] ", line) for line in lines), found
        assert all(len(line) < columns for line in lines)


def test_a_line_of_a_server_stays_off_the_line_of_progress(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress(None)
    progress(1, 3, "on my way")
    note_of_server("counting", "error: half")
    progress.clear()
    note("done")
    wiped = r"\r\r +\r"
    shown = capsys.readouterr().err
    assert re.fullmatch(
        rf"\r1/3 on my way{wiped}counting \| error: half\n\r1/3 on my way{wiped}done\n", shown
    ), shown


def test_a_line_of_a_server_stays_off_the_question(tmp_path: Path) -> None:
    target = offering(tmp_path, {"content": []})
    program, told = tmp_path / "counting.py", tmp_path / "told"
    later = f"""
            def say():
                tell("message", level="error", data="while you think")
                open({str(told)!r}, "w").close()
            import threading
            threading.Timer(0.5, say).start()
"""
    listing = '        case "tools/list":\n'
    program.write_text(program.read_text().replace(listing, listing + later))
    child = at_terminal("call", target, "count")
    child.expect(r"Run it\? \[[^]]*\] ")
    until(told.exists)
    child.sendline("n")
    child.expect(pexpect.EOF)
    said = child.before.replace("\r\n", "\n")
    assert said.startswith("n\n"), said
    assert "counting | error: while you think" in said


# ----------------------------------------------------------------------- a dead server

DEAD = """
import sys
print("FATAL: the database is locked", file=sys.stderr)
for n in range({count}):
    print("usage line", n, file=sys.stderr)
print("try --help", file=sys.stderr)
sys.exit(2)
"""


@pytest.mark.parametrize("count", [30, 20_000])
def test_a_dead_server_shows_the_first_lines_beside_the_last(count: int, tmp_path: Path) -> None:
    program = tmp_path / "dead.py"
    program.write_text(DEAD.format(count=count))
    target = f"{sys.executable} {program}"
    done = run("tools", target)
    assert done.code == 5
    lines = done.err.splitlines()
    assert lines[1] == "dead | FATAL: the database is locked"
    assert lines[-1] == "dead | try --help"
    assert len(lines) < 20
    report = run("doctor", target)
    assert report.code == 5
    assert "FATAL: the database is locked" in report.out
    assert "try --help" in report.out
