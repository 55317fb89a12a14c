"""What a command prints: to a terminal, to a pipe, and where nothing can be written."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from mcp_client import ServerError
from mcp_client.cli.output import Progress, note, note_error, note_of_server
from tests.cli.shell import (
    at_terminal,
    example,
    in_sh,
    offering,
    python,
    run,
    sending,
    server,
    until,
)

MAKEFILE = "all:\n\tcc -o a a.c\r\n\n"


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def errors_of(*words: str, **more: Any) -> str:
    """All that the terminal shows until the end."""
    child = at_terminal(*words, **more)
    child.expect(pexpect.EOF)
    return str(child.before)


@pytest.mark.parametrize("value", [MAKEFILE, "no line feed", "ü \u2028\x1b[2J\0 end\r\n"])
def test_the_text_of_a_result_reaches_a_pipe_ended_by_a_line_feed(
    value: str, tmp_path: Path
) -> None:
    done = run(*sending(text(value)))
    ended = value if value.endswith("\n") else f"{value}\n"
    assert (done.code, done.out, done.err) == (0, ended, "")
    saved = run(*sending(text(value)), "--save", str(tmp_path))
    assert (saved.code, saved.out, saved.err) == (0, value, "")


def test_a_loop_of_calls_prints_a_line_each() -> None:
    script = f"""for word in one two; do mcp call {shlex.quote(server("scripted"))} echo a=$word \\
        --allow echo; done | while read line; do echo "got $line"; done"""
    done = in_sh(script)
    assert done.out == 'got {"a": "one"}\ngot {"a": "two"}\n', done.err


def test_texts_of_one_result_are_on_lines_of_their_own() -> None:
    link = {"type": "resource_link", "uri": "book:emma", "name": "Emma"}
    content = (
        text("one"),
        text("two\n"),
        {"type": "resource", "resource": {"uri": "a:b", "text": "3"}},
    )
    done = run(*sending(*content, link, text("end")))
    assert done.out == "one\ntwo\n3\n[link book:emma] Emma\nend\n"


@pytest.mark.slow
def test_structured_content_is_printed_only_where_there_is_no_text() -> None:
    structured = {"structuredContent": {"a": 1}}
    assert run(*sending(text("one"), **structured)).out == "one\n"
    assert run(*sending(text(""), **structured)).out == '{\n  "a": 1\n}\n'
    assert run(*sending(**structured)).out == '{\n  "a": 1\n}\n'
    assert run(*sending(text("one"), **structured), "--json").json["structuredContent"] == {"a": 1}
    on_terminal = errors_of("call", example("weather"), "get_weather", "location=Oslo", "--allow=*")
    assert on_terminal.count("22.5") == 1


@pytest.mark.slow
def test_tabs_stay_tabs_at_a_terminal_and_line_ends_are_not_spelled_out() -> None:
    found = errors_of(*sending(text(MAKEFILE)))
    assert "\tcc -o a a.c\r\n" in found
    assert "\\u{" not in found


def test_help_states_what_a_pipe_gets() -> None:
    assert "ended by a line feed" in run("--help").out


TWO = {
    "type": "object",
    "properties": {"place": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["place", "days"],
}


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["place=Oslo"], ["--allow", "count"]])
def test_missing_arguments_are_named_before_anybody_is_asked(
    words: list[str], tmp_path: Path
) -> None:
    target = offering(tmp_path, {"content": []}, inputSchema=TWO)
    found = errors_of("call", target, "count", *words)
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
    assert run(*words).out == '{"a": 1, "b=": [2], "c": "3"}\n'
    assert run(*words[:3], "{a=1}", "--allow", "echo").code == 2


def test_a_missing_argument_of_a_prompt_is_named(tmp_path: Path) -> None:
    done = run("prompt", server("library", "stateless"), "summary")
    assert done.code == 2
    assert "missing: title; nothing was sent; the prompt is summary(title)" in done.err


# ------------------------------------------------------------------- lines of a server

LIES = "mcp-client: log in at http://evil.example"


def saying(directory: Path, text: str, *more: str) -> str:
    reported = f"notify('message', level='warning', data={text!r})"
    return offering(directory, {"content": []}, during="\n".join([reported, *more]))


@pytest.mark.slow
def test_each_line_of_a_server_carries_its_name_and_a_mark(tmp_path: Path) -> None:
    target = saying(tmp_path, f"{' ' * 60}{LIES} {LIES}\n{LIES}")
    done = run("call", target, "count", "--allow=count")
    assert done.err.splitlines()[0].startswith("counting | warning: ")
    assert not re.search("^mcp-client", done.err, re.MULTILINE)
    for columns in (30, 60, 100):
        found = errors_of("call", target, "count", "--allow=count", columns=columns, NO_COLOR="1")
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
    errors_of = capsys.readouterr().err
    assert re.fullmatch(
        rf"\r1/3 on my way{wiped}counting \| error: half\n\r1/3 on my way{wiped}done\n", errors_of
    ), errors_of


@pytest.mark.slow
def test_a_line_of_a_server_stays_off_the_question(tmp_path: Path) -> None:
    target = offering(tmp_path, {"content": []})
    program, output = tmp_path / "counting.py", tmp_path / "told"
    later = f"""
            def interrupt():
                notify("message", level="error", data="while you think")
                open({str(output)!r}, "w").close()
            import threading
            threading.Timer(0.5, interrupt).start()
"""
    listing = '        case "tools/list":\n'
    program.write_text(program.read_text().replace(listing, listing + later))
    child = at_terminal("call", target, "count")
    child.expect(r"Run it\? \[[^]]*\] ")
    until(output.exists)
    child.sendline("n")
    child.expect(pexpect.EOF)
    reported = child.before.replace("\r\n", "\n")
    assert reported.startswith("n\n"), reported
    assert "counting | error: while you think" in reported


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
    target = python(program)
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


# ------------------------------------------------------------- JSON, and what cannot be written


@pytest.mark.slow
def test_progress_is_on_standard_error_beside_json(tmp_path: Path) -> None:
    reported = tmp_path / "said"
    call = f"mcp call {shlex.quote(example('cafe'))} brew steps=3 --allow brew --json"
    child = at_terminal(line=f"{call} > {reported}", NO_COLOR="1")
    child.expect(pexpect.EOF)
    assert re.search(r"\r1/3[^\n]*\r2/3[^\n]*\r3/3", child.before)
    assert json.loads(reported.read_text())["content"]


PICTURE = {"type": "image", "mimeType": "image/png", "data": "iVBORw=="}


def test_save_is_honoured_with_json_and_refused_where_nothing_can_be_saved(tmp_path: Path) -> None:
    done = run(*sending(text("one"), PICTURE), "--json", "--save", str(tmp_path / "kept"))
    assert done.json["content"][1] == PICTURE
    assert [file.read_bytes() for file in (tmp_path / "kept").iterdir()] == [b"\x89PNG"]
    library = server("library", "stateless")
    assert run("read", library, "book:cover", "--json", "--save", str(tmp_path / "book")).code == 0
    assert len(list((tmp_path / "book").iterdir())) == 1
    for words in (["tools"], ["describe", "echo"], ["resources"], ["search", "echo"]):
        done = run(words[0], server("scripted"), *words[1:], "--save", str(tmp_path))
        assert (done.code, "unknown option '--save'" in done.err) == (2, True)


def test_a_result_that_breaks_its_schema_is_in_the_error_document(tmp_path: Path) -> None:
    result = {"content": [text("it ran")], "structuredContent": {"n": "x"}}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    target = offering(tmp_path, result, outputSchema=schema)
    done = run("call", target, "count", "--allow=count", "--json")
    assert (done.code, done.json["error"]["type"]) == (8, "InvalidResult")
    assert done.json["error"]["result"]["structuredContent"] == {"n": "x"}


def test_a_result_that_breaks_its_schema_is_printed_all_the_same(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    broken = {"structuredContent": {"n": "x"}}
    for content, out in (([text("it ran")], "it ran\n"), ([], '{\n  "n": "x"\n}\n')):
        target = offering(tmp_path, {"content": content, **broken}, outputSchema=schema)
        for words, stdin in ((["call", target, "count"], ""), (["shell", target], "call count")):
            done = run(*words, "--allow=count", stdin=stdin)
            assert (done.code, done.out) == (8, out)
            assert "breaks" in done.err or "n" in done.err
            assert "with --json" in done.err


EVIL = "\x1b[2J\x1b]0;owned\x07\u202e\x9b31m\x7f"


@pytest.mark.parametrize(
    "words",
    [["tools"], ["describe", "count"], ["search", "evil"], ["tools", "--json"], ["doctor"]],
)
@pytest.mark.parametrize("by", ["a pipe", "a terminal"])
def test_no_output_but_the_text_of_results_has_raw_escapes(
    by: str, words: list[str], tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {f"a{EVIL}": {"description": EVIL, "default": EVIL}}}
    about: dict[str, Any] = {"description": f"evil {EVIL}", "title": EVIL, "inputSchema": schema}
    target = offering(tmp_path, {"content": []}, **about, outputSchema=schema)
    command, *rest = words
    if by == "a pipe":
        done = run(command, target, *rest)
        found = done.out + done.err
        assert "--json" not in words or done.json["tools"][0]["title"] == EVIL
    else:
        found = errors_of(command, target, *rest, NO_COLOR="1")
    assert "count" in found
    assert not set("\x1b\x07\u202e\x9b\x7f") & set(found)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
@pytest.mark.parametrize("more", ["", "--json"])
def test_what_cannot_be_written_is_one_sentence_and_exit_code_74(more: str, tmp_path: Path) -> None:
    target = shlex.quote(example("weather"))
    for command in (f"tools {target}", f"call {target} get_weather location=Oslo --allow=*"):
        full = in_sh(f"mcp {command} {more} >/dev/full", tmp_path)
        assert full.code == 74, full
        assert full.err == (
            "mcp-client: standard output cannot be written: No space left on device\n"
        )
        closed = in_sh(f"mcp {command} {more} >&-", tmp_path)
        assert closed.code == 74, closed
        assert closed.err == (
            "mcp-client: standard output cannot be written: it is closed; nothing was done\n"
        )


@pytest.mark.slow
def test_a_closed_standard_input_or_error_harms_nothing(tmp_path: Path) -> None:
    target = shlex.quote(example("weather"))
    done = in_sh(f"mcp call {target} get_weather location=Oslo --allow=* <&- 2>&-", tmp_path)
    assert (done.code, done.out) == (0, "Oslo: 22.5 °C, partly cloudy\n")
    done = in_sh(f"mcp call {target} get_weather - --allow=* <&-", tmp_path)
    assert done.code == 2
    done = in_sh(f"mcp describe {target} get_weather | head -n 1", tmp_path)
    assert done.out.startswith("get_weather(")
    assert done.err == ""


def test_an_error_of_several_lines_is_indented(capsys: pytest.CaptureFixture[str]) -> None:
    reported = 'bad: [\n\t"city"\n]\nmcp-client: all is well\x1b[2J'
    note_error(
        ServerError(f"the server answered with an error: {reported}", code=-32602, server="s")
    )
    assert capsys.readouterr().err.splitlines() == [
        "mcp-client: s: the server answered with an error: bad: [",
        '    \t"city"',
        "    ]",
        "    mcp-client: all is well\\u{1b}[2J",
    ]
