"""``describe``, ``tools`` and ``--help``: all a person needs to write the next call."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from mcp_client.cli.command_examples import COMMAND_EXAMPLES
from mcp_client.cli.parser import commands, parsed
from tests.cli.shell import at_terminal, offering, run

NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "place": {
            "type": "object",
            "description": "where",
            "properties": {
                "city": {"type": "string", "description": "its name"},
                "at": {"$ref": "#/$defs/point"},
            },
            "required": ["city"],
        },
        "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/point"}},
        "unit": {"enum": [f"unit {number}" for number in range(12)]},
        "on": {"type": "boolean"},
        "when": {"type": "string", "format": "date"},
    },
    "required": ["place", "on", "stops", "when"],
    "$defs": {"point": {"type": "object", "properties": {"lat": {"type": "number"}}}},
}


def test_describe_opens_nested_fields_with_defaults_and_values(tmp_path: Path) -> None:
    lines = run("describe", offering(tmp_path, {}, inputSchema=NESTED), "count").out.splitlines()
    found = {line.split()[0]: line for line in lines if line.startswith("  ")}
    assert re.search(r"required +where", found["place"])
    assert re.search(r"str +required +its name", found["place.city"])
    assert "float" in found["place.at.lat"]
    assert "float" in found["stops[].lat"]
    assert "default: 3; at least 1; at most 14" in found["days"]
    assert '"unit 11"' in found["unit"]


def test_the_example_of_describe_can_be_pasted(tmp_path: Path) -> None:
    result = {"content": [{"type": "text", "text": "it ran"}]}
    target = offering(tmp_path, result, inputSchema=NESTED)
    out = run("describe", target, "count").out
    (example,) = re.findall(r"^  (mcp-client call .*)$", out, re.MULTILINE)
    words = shlex.split(example)
    assert words[:4] == ["mcp-client", "call", target, "count"]
    done = run(*words[1:], "--allow", "count")
    assert (done.code, done.out) == (0, "it ran"), done
    done = run("shell", target, "--allow=count", stdin="describe count")
    assert re.search(r"^  call count 'place:=", done.out, re.MULTILINE)


@pytest.mark.parametrize("name", ["--trust", "a\nb", "a\u202eb"])
def test_there_is_no_example_with_a_name_that_would_do_something_else(
    name: str, tmp_path: Path
) -> None:
    target = offering(tmp_path, {}, name=name)
    assert "Example" not in run("describe", target, "--", name).out
    schema = {"type": "object", "properties": {name: {}}, "required": [name]}
    assert "Example" not in run("describe", offering(tmp_path, {}, inputSchema=schema), "count").out


def test_a_default_of_the_server_runs_nothing_when_it_is_pasted(tmp_path: Path) -> None:
    evil = {"type": "string", "default": "$(touch x); `touch x` 'a"}
    schema = {"type": "object", "properties": {"a": evil}, "required": ["a"]}
    out = run("describe", offering(tmp_path, {}, inputSchema=schema), "count").out
    (example,) = re.findall(r"^  (mcp-client call .*)$", out, re.MULTILINE)
    assert shlex.split(example)[-1] == f"a={evil['default']}"


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["1", ""])
def test_tools_end_lines_between_words(extra: str, tmp_path: Path) -> None:
    about = " ".join(f"word{number}" for number in range(40))
    schema = {"type": "object", "properties": {f"argument{n}": {} for n in range(9)}}
    target = offering(tmp_path, {}, description=about, inputSchema=schema)
    child = at_terminal("tools", target, columns=50, NO_COLOR=extra)
    child.expect(pexpect.EOF)
    text = re.sub(r"\x1b\[[\d;]*m", "", child.before)
    lines = text.splitlines()
    assert all(len(line) < 50 for line in lines)
    assert re.findall(r"word\d+", text) == about.split()
    assert all(line.startswith("    ") for line in lines[1:])
    assert text.count("argument8: any") == 1


@pytest.mark.parametrize("name", sorted(commands()))
def test_the_help_of_each_command_has_two_examples_that_it_takes(name: str) -> None:
    about = commands()[name].format_help()
    examples = re.findall(rf"^  mcp-client {name}\b(.*)$", about, re.MULTILINE)
    assert len(examples) == len(set(COMMAND_EXAMPLES[name])) == 2
    for words in examples:
        options = parsed([name, *shlex.split(words.partition(">")[0])])
        assert options.command == name
