"""What a command prints: to a terminal, to a pipe, and where nothing can be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from tests.cli.shell import at_terminal, example, offering, run, sending, server

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
