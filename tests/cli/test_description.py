"""``describe``, ``tools`` and ``--help``: all a person needs to write the next call."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from mcp_client import Tool
from mcp_client.cli.description import argument_rows, example_of
from mcp_client.cli.parser import COMMAND_EXAMPLES, commands, parsed
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
    assert (done.code, done.out) == (0, "it ran\n"), done
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


# ------------------------------------------------------------------ without a server


def tool_of(properties: Any, name: str = "t", **more: Any) -> Tool:
    schema = {"type": "object", "properties": properties, **more}
    return Tool(name, "s", False, {"name": name, "inputSchema": schema})


POINT = {"type": "object", "properties": {"x": {"type": "null"}}}


@pytest.mark.parametrize(
    ("its", "wanted"),
    [
        (True, [("any", "")]),
        ({"type": "string", "description": "of it"}, [("str", "of it")]),
        ({"$ref": "#/$defs/d"}, [("int", "its own; default: 1")]),
        ({"$ref": "#/$defs/d", "description": "mine", "default": 2}, [("int", "mine; default: 2")]),
        ({"type": "number", "minimum": 0, "maximum": 0.5}, [("float", "at least 0; at most 0.5")]),
        ({"type": "number", "minimum": "0"}, [("float", "")]),
        ({"default": "é" * 70}, [("any", f'default: "{"é" * 59}')]),
        ({"enum": list("abcdefgh")}, [("|".join(f'"{one}"' for one in "abcdefgh"), "")]),
        ({"enum": [0] * 50}, [("0|" * 8 + "...", "one of: " + ", ".join("0" * 50))]),
        ({"enum": [0] * 51}, [("0|" * 8 + "...", "one of: " + ", ".join("0" * 50) + ", ...")]),
        (POINT, [("{x}", ""), ("null", "")]),
        ({"type": "array", "items": POINT}, [("[{...}]", ""), ("null", "")]),
        ({"anyOf": [{"type": "null"}, POINT]}, [("null|{...}", ""), ("null", "")]),
        ({"oneOf": [POINT]}, [("{...}", ""), ("null", "")]),
        ({"oneOf": [{"type": "integer"}]}, [("int", "")]),
        ({"allOf": [{"$ref": "#/$defs/d"}]}, [("int", "its own; default: 1")]),
        ({"allOf": [{"$ref": "#/$defs/d"}], "description": "mine"}, [("int", "mine; default: 1")]),
        ({"allOf": [POINT]}, [("{...}", ""), ("null", "")]),
        ({"allOf": [POINT, {"required": ["x"]}]}, [("{...}", ""), ("null", "")]),
    ],
)
def test_an_argument_is_described_by_its_schema(its: Any, wanted: list[tuple[str, str]]) -> None:
    own: Any = {"d": {"type": "integer", "description": "its own", "default": 1}}
    more: Any = {"$defs": own}
    rows = argument_rows(tool_of({"a": its}, **more))
    assert [(kind, about) for _, kind, _, about in rows] == wanted
    paths = [path for path, *_ in rows]
    mark = "[]" if isinstance(its, dict) and "items" in its else ""
    assert paths == ["  a", f"  a{mark}.x"][: len(wanted)]


def test_the_arguments_within_all_that_the_schema_is_made_of_are_described() -> None:
    listed = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/p"}}, {"type": "null"}]}
    schema = {
        "allOf": [{"$ref": "#/$defs/more"}, {"properties": {"b": listed}}],
        "$defs": {"more": {"properties": {"a": {"type": "integer"}}}, "p": POINT},
    }
    one = Tool("t", "s", False, {"name": "t", "inputSchema": schema})
    assert [row[:2] for row in argument_rows(one)] == [
        ("  a", "int"),
        ("  b", "[{...}]|null"),
        ("  b[].x", "null"),
    ]


def test_rows_are_bounded_in_number_and_depth() -> None:
    assert len(argument_rows(tool_of({str(number): {} for number in range(201)}))) == 200
    loop = tool_of({"a": {"$ref": "#"}}, required=["a"])
    assert [path for path, *_ in argument_rows(loop)][-1] == "  a.a.a.a.a.a"
    assert {row[2] for row in argument_rows(loop)} == {"required"}
    assert argument_rows(tool_of("none", required="none")) == []


@pytest.mark.parametrize(
    ("its", "word"),
    [
        ({"type": "string"}, "a=A"),
        (True, "a=A"),
        ({"type": "string", "default": "x"}, "a=x"),
        ({"default": "x" * 58, "const": 2}, f"a={'x' * 58}"),
        ({"default": "x" * 59, "const": 2}, "a:=2"),
        ({"examples": ["e"], "enum": ["f"]}, "a=e"),
        ({"examples": [], "enum": ["f"]}, "a=f"),
        ({"examples": ["x" * 59], "type": "boolean"}, "a:=true"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "a:=1"),
        ({"anyOf": [], "oneOf": [{"const": 5}]}, "a:=5"),
        ({"type": "integer", "minimum": 7}, "a:=7"),
        ({"type": "number", "minimum": "x"}, "a:=1"),
        ({"type": ["null", "string"]}, "a:=null"),
        ({"type": "array", "items": {"type": "integer"}}, "'a:=[1]'"),
        ({"type": "array"}, "'a:=[\"A\"]'"),
        (
            {"type": "object", "properties": {"x": {"const": 1}, "y": {}}, "required": ["x"]},
            "'a:={\"x\": 1}'",
        ),
        ({"type": "string", "format": "email"}, "a=ana@example.com"),
        ({"type": "string", "format": "other"}, "a=A"),
    ],
)
def test_an_example_has_a_value_of_the_schema(its: Any, word: str) -> None:
    tool = tool_of({"a": its, "b": {"type": "string"}}, required=["a"])
    assert example_of(tool, ["call"]) == f"call t {word}"


@pytest.mark.parametrize(
    ("name", "argument"), [("-t", "a"), ("t", "-a"), ("t", "a b"), ("t", "9"), ("t\u202e", "a")]
)
def test_a_name_that_is_not_a_word_has_no_example(name: str, argument: str) -> None:
    assert example_of(tool_of({argument: {}}, name, required=[argument]), ["call"]) is None
    assert example_of(tool_of({"a-b": {}}, required=["a-b"]), []) == "t a-b=A-B"
