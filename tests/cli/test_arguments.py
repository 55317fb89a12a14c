"""``key=value`` words become what the tool's schema wants."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Tool
from mcp_client.cli.exits import UsageError
from mcp_client.cli.parser import commands, parsed, session_options
from mcp_client.cli.tool_arguments import (
    arguments_of,
    check_names,
    missing_names,
    referred,
    signature_parts,
    type_text,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "maybe": {"type": ["integer", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "level": {"enum": [1, 2, 3]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "place": {"type": "object"},
        "shared": {"$ref": "#/$defs/number"},
        "free": {},
        "only": {"const": 1.5},
        "all": {"allOf": [{"type": "integer"}]},
        "ints": {"type": "array"},
        "nowhere": {"$ref": "#/$defs/missing"},
        "elsewhere": {"$ref": "https://example.com/schema"},
        "wide": {"oneOf": [{"type": "integer"}, {"type": "null"}, {"type": "object"}]},
    },
    "$defs": {"number": {"type": "integer"}},
}


TEXT, NUMBER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
CHOICE: dict[str, Any] = {"enum": ["all", "none"]}
NUMBERS: dict[str, Any] = {"type": "array", "items": NUMBER}
DEFS: dict[str, Any] = {
    "number": NUMBER,
    "numbers": {"type": "array", "items": {"$ref": "#/$defs/number"}},
    "maybe": {"anyOf": [{"$ref": "#/$defs/numbers"}, NULL]},
    "choice": CHOICE,
    "place": {"type": "object", "properties": {"x": NUMBER}},
}


@pytest.mark.parametrize(
    ("its", "passed"),
    [
        (
            {"anyOf": [{}, NULL]},
            {"null": None, '{"a": 1}': {"a": 1}, "[1]": [1], "5": "5", "x": "x"},
        ),
        ({"oneOf": [True, NULL]}, {"null": None, '{"a": 1}': {"a": 1}, "[": "[", "true": "true"}),
        ({}, {'{"a": [1]}': {"a": [1]}, "[1, 2]": [1, 2], "[draft] x": "[draft] x", "7": "7"}),
        ({"description": "any"}, {"{": "{", "{}": {}, "null": "null", '"q"': '"q"'}),
        ({"anyOf": [NUMBERS, NULL]}, {"1": [1], "[1, 2]": [1, 2], "null": None}),
        ({"anyOf": [NULL, {"$ref": "#/$defs/numbers"}]}, {"1": [1], "null": None}),
        ({"$ref": "#/$defs/maybe"}, {"1": [1], "[3]": [3], "null": None}),
        ({"allOf": [{"$ref": "#/$defs/maybe"}], "default": None}, {"1": [1], "null": None}),
        ({"type": ["array", "null"], "items": NUMBER}, {"1": [1], "null": None}),
        ({"anyOf": [NUMBER, CHOICE]}, {"5": 5, "all": "all", "some": "some"}),
        ({"anyOf": [CHOICE, {"type": "number"}, NULL]}, {"0.5": 0.5, "none": "none", "null": None}),
        ({"oneOf": [{"const": "auto"}, NUMBER]}, {"5": 5, "auto": "auto"}),
        ({"enum": ["a", 1, True, None]}, {"a": "a", "1": 1, "true": True, "null": None}),
        ({"anyOf": [{"type": "string", "enum": ["5"]}, NUMBER]}, {"5": "5", "6": 6}),
        (
            {"anyOf": [{"$ref": "#/$defs/choice"}, {"type": "boolean"}]},
            {"true": True, "all": "all"},
        ),
        ({"anyOf": [TEXT, NUMBER]}, {"5": "5"}),
        ({"anyOf": [TEXT, {"type": "object"}]}, {'{"a": 1}': '{"a": 1}'}),
        ({"anyOf": [TEXT, NULL]}, {"null": "null"}),
        ({"allOf": [{"$ref": "#/$defs/number"}]}, {"5": 5}),
        ({"allOf": [{"type": "number"}, NUMBER]}, {"5": 5, "5.0": 5}),
        ({"allOf": [{"$ref": "#/$defs/place"}, {"required": ["x"]}]}, {'{"x": 1}': {"x": 1}}),
        ({"allOf": [{"anyOf": [NUMBER, NULL]}, {"description": "x"}]}, {"5": 5, "null": None}),
        ({"type": "array", "items": {"anyOf": [NUMBER, CHOICE]}}, {"5": [5], "all": ["all"]}),
        ({"anyOf": [CHOICE, NUMBERS]}, {"all": "all", "5": [5]}),
        ({"type": "array"}, {'{"a": 1}': [{"a": 1}], "x": ["x"]}),
    ],
)
def test_a_word_is_read_through_all_that_the_schema_is_made_of(
    its: dict[str, Any], passed: dict[str, Any]
) -> None:
    schema = {"type": "object", "properties": {"a": its}, "$defs": DEFS}
    for root in (schema, {"$ref": "#/$defs/all", "$defs": {**DEFS, "all": schema}}):
        found = {word: arguments_of([f"a={word}"], root, str)["a"] for word in passed}
        assert repr(found) == repr(passed)


def test_the_items_of_a_list_that_may_be_null_are_numbers_when_the_key_is_repeated() -> None:
    schema = {"properties": {"a": {"anyOf": [NUMBERS, NULL]}}}
    assert arguments_of(["a=1", "a=2"], schema, str) == {"a": [1, 2]}
    assert arguments_of(["a=[1]", "a=2"], schema, str) == {"a": [1, 2]}
    with pytest.raises(UsageError, match="requires integer"):
        arguments_of(["a=x"], schema, str)
    either = {"properties": {"a": {"anyOf": [TEXT, NUMBERS]}}}
    assert arguments_of(["a=1"], either, str) == {"a": "1"}
    assert arguments_of(["a=1", "a=2"], either, str) == {"a": [1, 2]}
    assert arguments_of(["a=x", "a=2"], either, str) == {"a": ["x", 2]}


def read(*words: str, stdin: str = "") -> dict[str, Any]:
    return arguments_of(words, SCHEMA, lambda: stdin)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["text=1"], {"text": "1"}),
        (["text="], {"text": ""}),
        (["text=a=b"], {"text": "a=b"}),
        (["text=null"], {"text": "null"}),
        (["text=@me"], {"text": "@me"}),
        (["text:=null"], {"text": None}),
        (["count=5"], {"count": 5}),
        (["count=-5"], {"count": -5}),
        (["count=5.0"], {"count": 5}),
        (["count=1e3"], {"count": 1000}),
        (["ratio=0.5"], {"ratio": 0.5}),
        (["ratio=2"], {"ratio": 2}),
        (["on=true"], {"on": True}),
        (["on=false"], {"on": False}),
        (["maybe=null"], {"maybe": None}),
        (["maybe=3"], {"maybe": 3}),
        (["either=3"], {"either": "3"}),
        (["level=2"], {"level": 2}),
        (["tags=a"], {"tags": ["a"]}),
        (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
        (['tags=["a", "b"]', "tags=c"], {"tags": ["a", "b", "c"]}),
        (["tags=a", 'tags:=["x"]', "tags=b"], {"tags": ["b"]}),
        (["sizes=1", "sizes=2"], {"sizes": [1, 2]}),
        (['place={"x": 1}'], {"place": {"x": 1}}),
        (["shared=7"], {"shared": 7}),
        (["free=7"], {"free": "7"}),
        (["unknown=7"], {"unknown": "7"}),
        (["unknown:=7"], {"unknown": 7}),
        (["count=1", "count=2"], {"count": 2}),
        (["a:b=1"], {"a:b": "1"}),
        (["maybe=null", "text=null"], {"maybe": None, "text": "null"}),
        (["only=1.5"], {"only": 1.5}),
        (["all=2"], {"all": 2}),
        (["ints=x", "ints=1"], {"ints": ["x", "1"]}),
        (["tags=a", "{}", "tags=b"], {"tags": ["b"]}),
        (["nowhere=1", "elsewhere=1"], {"nowhere": "1", "elsewhere": "1"}),
        (["wide=1", 'wide={"a": 1}'], {"wide": {"a": 1}}),
        (["wide=null"], {"wide": None}),
        (["ratio=1e3", "count=-0"], {"ratio": 1000.0, "count": 0}),
        (["ratio=" + "1" * 400], {"ratio": int("1" * 400)}),
    ],
)
def test_a_word_becomes_what_the_schema_wants(words: list[str], wanted: dict[str, Any]) -> None:
    assert repr(read(*words)) == repr(wanted)


@pytest.mark.parametrize(
    "word",
    [
        "count=five",
        "count=5.5",
        "count=null",
        "count=",
        "count=0x10",
        "ratio=1e999",
        "ratio=NaN",
        "ratio=" + "9" * 5000,
        "ratio=" + "9" * 401,
        "on=yes",
        "level=two",
        "sizes=x",
        "sizes=[1",
        "place=here",
        "place={",
        "text:=yes",
        "text:=NaN",
        "text:=1e999",
        "text:=" + "9" * 5000,
        "text:=" + "[" * 5000,
        'text:={"a": 1, "a": 2}',
        "text",
        "=x",
        ":=1",
        "@/no/such/file",
        "@/",
    ],
)
def test_a_word_that_cannot_be_that_is_a_usage_error_that_shows_it(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(word)
    assert word[:10] in str(caught.value) or word[1:10] in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_file_and_standard_input_give_objects_that_later_words_change(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"text": "file", "count": 1, "tags": ["f"]}')
    assert read(f"@{file}", "count=2") == {"text": "file", "count": 2, "tags": ["f"]}
    assert read("-", "tags=b", stdin='{"tags": ["a"]}') == {"tags": ["b"]}


@pytest.mark.parametrize("content", [b"\xff", b"[1]", b"{", b'"x"', b""])
def test_a_file_that_is_not_json_object_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)  # a long name is cut
    Path("a.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"a\.json"):
        read("@a.json")


PAIR = {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "boolean"}}


@pytest.mark.parametrize(
    ("schema", "words", "wanted"),
    [
        ({"type": "any"}, ["5"], "5"),
        ({"type": "any"}, ['{"x": 1}'], {"x": 1}),
        ({"type": ["string", "any"]}, ["5"], "5"),
        ({"type": "STRING"}, ["5"], "5"),
        ({"type": "Integer"}, ["5"], 5),
        ({"type": "int"}, ["5"], 5),
        ({"type": "bool"}, ["true"], True),
        ({"type": "file"}, ["5"], "5"),
        ({"type": "Array", "items": {"type": "NUMBER"}}, ["5"], [5]),
        ({"type": "array", **PAIR}, ["5"], [5]),
        ({"type": "array", **PAIR}, ["5", "5"], [5, "5"]),
        ({"type": "array", **PAIR}, ["5", "5", "true", "false"], [5, "5", True, False]),
        ({"anyOf": [{"type": "array", **PAIR}, {"type": "null"}]}, ["5", "5"], [5, "5"]),
        ({"type": "array", "items": PAIR["prefixItems"]}, ["5", "5", "5"], [5, "5", "5"]),
        ({"type": "array", "prefixItems": [{"type": "integer"}]}, ["5", "5"], [5, "5"]),
        ({"type": "array", "prefixItems": []}, ["5"], ["5"]),
    ],
    ids=str,
)
def test_a_type_of_another_spelling_and_a_tuple_are_read(
    schema: Any, words: list[str], wanted: Any
) -> None:
    root = {"properties": {"a": schema}}
    assert arguments_of([f"a={word}" for word in words], root, str) == {"a": wanted}


def test_a_slip_in_a_name_is_reported() -> None:
    assert check_names({"text": 1}, SCHEMA) is None
    assert check_names({"quite_different": 1}, SCHEMA) is None
    assert "did you mean count?" in str(check_names({"cuont": 1}, SCHEMA))


def test_a_slip_in_a_name_is_a_usage_error_where_the_tool_cannot_take_it() -> None:
    for more in ({"additionalProperties": False}, {"required": ["count"]}):
        with pytest.raises(UsageError, match="did you mean count"):
            check_names({"cuont": 1}, {**SCHEMA, **more})


def test_what_is_missing_is_what_is_required_and_not_given() -> None:
    assert missing_names({"a": 1}, {"required": ["a", "b", "c"]}) == ["b", "c"]
    assert missing_names({}, {"required": "a"}) == missing_names({}, {}) == []


def test_a_name_that_no_list_of_names_bounds_is_not_a_slip() -> None:
    assert check_names({"cuont": 1}, {**SCHEMA, "patternProperties": {"c": {}}}) is None
    assert check_names({"count": 1, "zzzzzzzz": 2}, {**SCHEMA, "required": ["count"]}) is None
    assert check_names({"a": 1}, {"properties": "none"}) is None


# --------------------------------------------------------------------- as a line of types

NESTED: dict[str, Any] = {"type": "integer"}
for _ in range(3):
    NESTED = {"type": "array", "items": NESTED}


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        (True, "any"),
        ({}, "any"),
        ({"type": "string"}, "str"),
        ({"type": "odd"}, "any"),
        ({"type": 3}, "any"),
        ({"type": []}, "any"),
        ({"type": ["integer", "null"]}, "int|null"),
        ({"type": ["integer"] * 9}, "|".join(["int"] * 8)),
        ({"const": "a"}, '"a"'),
        ({"const": None, "type": "null"}, "null"),
        ({"enum": []}, "any"),
        ({"enum": list(range(8))}, "0|1|2|3|4|5|6|7"),
        ({"enum": list(range(9))}, "0|1|2|3|4|5|6|7|..."),
        ({"anyOf": [{"type": "number"}, {"type": "number"}, {"type": "boolean"}]}, "float|bool"),
        ({"anyOf": [], "oneOf": [{"type": "null"}]}, "null"),
        ({"oneOf": [{"const": n} for n in range(9)]}, "0|1|2|3|4|5|6|7"),
        ({"type": "array"}, "[...]"),
        ({"type": "array", "items": {"type": "string"}}, "[str]"),
        ({"type": "array", "items": True}, "[...]"),
        (NESTED, "[[[int]]]"),
        ({"type": "array", "items": NESTED}, "[[[[any]]]]"),
        ({"type": "object"}, "{...}"),
        ({"type": "object", "properties": {}}, "{...}"),
        ({"type": "object", "properties": {"a": {}, "b": {}}}, "{a, b}"),
        ({"type": "object", "properties": dict.fromkeys("abcdefgh")}, "{a, b, c, d, e, f, g, h}"),
        (
            {"type": "object", "properties": dict.fromkeys("abcdefghi")},
            "{a, b, c, d, e, f, g, h, ...}",
        ),
        ({"type": "array", "items": {"type": "object", "properties": {"a": {}}}}, "[{...}]"),
        ({"$ref": "#/$defs/number"}, "int"),
        ({"allOf": [{"$ref": "#/$defs/number"}]}, "int"),
        ({"allOf": [{"$ref": "#/$defs/number"}], "default": 1, "title": "N"}, "int"),
        ({"allOf": [{"type": "number"}, {"minimum": 1}, {"type": "integer"}]}, "float & int"),
        ({"allOf": [{}], "type": "string"}, "str"),
        ({"allOf": []}, "any"),
        ({"anyOf": [{"allOf": [{"type": "array", "items": {"type": "null"}}]}]}, "[null]"),
        ({"$ref": "#/$defs/missing"}, "any"),
        ({"$ref": "https://example.com/schema", "type": "string"}, "str"),
    ],
)
def test_a_schema_is_described_in_a_few_words(schema: Any, wanted: str) -> None:
    assert type_text(schema, SCHEMA) == wanted


def test_a_type_in_capitals_is_described_as_in_small_letters() -> None:
    assert type_text({"type": "STRING"}, SCHEMA) == "str"
    assert type_text({"type": ["Integer", "NULL"]}, SCHEMA) == "int|null"
    assert type_text({"type": "any"}, SCHEMA) == "any"
    assert type_text({"type": "int"}, SCHEMA) == "int"


def test_a_schema_that_refers_to_itself_is_any() -> None:
    loop = {"$ref": "#"}
    assert type_text(loop, loop) == "any"
    assert referred(loop, loop) is None
    assert arguments_of(["a=1"], {"properties": {"a": loop}, **loop}, str) == {"a": "1"}


def test_what_is_referred_to_is_found_through_several_steps() -> None:
    root = {"a": {"$ref": "#/b"}, "b": {"$ref": "#/c"}, "c": {"type": "null"}}
    assert referred({"$ref": "#/a"}, root) == {"type": "null"}
    assert referred({"type": "string"}, root) == {"type": "string"}
    assert referred(True, root) is True


def test_a_signature_names_which_arguments_may_be_left_out() -> None:
    parameters = {"a": {"type": "string"}, "b": {"default": "x", "type": "string"}, "c": True}
    schema = {"type": "object", "properties": parameters, "required": ["a", "b"]}
    definition = {"name": "t", "inputSchema": schema, "outputSchema": {"type": "object"}}
    (name, style), (rest, plain) = signature_parts(Tool("t", "s", False, definition))
    assert (name, style, plain) == ("t", "bold cyan", "")
    assert rest == '(a: str, b: str = "x", c: any = ...) -> {...}'
    bare = {"name": "t", "inputSchema": {"type": "object", "properties": parameters}}
    assert signature_parts(Tool("t", "s", False, bare))[1][0].startswith("(a: str = ...,")
    none = {"name": "t", "inputSchema": {"type": "object"}}
    assert signature_parts(Tool("t", "s", False, none))[1][0] == "()"


# ------------------------------------------------------------------------ the command line

SESSION: dict[str, Any] = {
    "timeout": None,
    "allow": [],
    "allow_finding": [],
    "policy": None,
    "trust": False,
    "approve": "ask",
    "audit": None,
    "record": None,
    "pins": None,
    "state": None,
    "revision": "auto",
    "header": [],
    "env": [],
    "config": None,
    "no_input": False,
    "sandbox": False,
    "read": [],
    "write": [],
    "network": None,
}


@pytest.mark.parametrize(
    ("line", "module", "wanted"),
    [
        ("tools t", "session_commands", {}),
        ("describe t a", "session_commands", {"tool": "a"}),
        (
            "call t a",
            "session_commands",
            {"tool": "a", "arguments": [], "save": None, "each": False},
        ),
        ("search t a b", "session_commands", {"query": ["a", "b"], "limit": 8}),
        ("search t --limit 3", "session_commands", {"query": [], "limit": 3}),
        ("resources t", "session_commands", {}),
        ("read t u --save d", "session_commands", {"uri": "u", "save": "d"}),
        ("prompts t", "session_commands", {}),
        ("prompt t p a=b", "session_commands", {"prompt": "p", "arguments": ["a=b"], "save": None}),
        (
            "complete t p a=b c=d",
            "session_commands",
            {"prompt": "p", "argument": "a=b", "arguments": ["c=d"]},
        ),
        ("stubs t -o f", "file_commands", {"output": "f"}),
        ("run t", "run_command", {"script": None}),
        ("run t s", "run_command", {"script": "s"}),
        ("shell t", "shell", {}),
        ("doctor t", "doctor", {}),
        (
            "pins t --accept a --accept b --name n",
            "file_commands",
            {"accept": ["a", "b"], "server_name": "n"},
        ),
    ],
)
def test_a_command_with_a_server_has_these_options(
    line: str, module: str, wanted: dict[str, Any]
) -> None:
    words = line.split()
    own = {"command": words[0], "module": module, "target": "t", "json": False}
    assert vars(parsed(words)) == {**SESSION, **own, **wanted}


@pytest.mark.parametrize(
    ("line", "module", "wanted"),
    [
        (
            "audit verify f --key k --noted n",
            "file_commands",
            {"action": "verify", "file": "f", "state": None, "key": "k", "noted": "n"}
            | {"context": None},
        ),
        (
            "decisions revoke a b --kind call --server s --all",
            "file_commands",
            {"action": "revoke", "id": ["a", "b"], "kind": "call", "server": "s", "all": True}
            | {"state": None},
        ),
        ("servers --config f --state s", "file_commands", {"config": "f", "state": "s"}),
        (
            "confirm f",
            "decide",
            {"config": "f", "server": None, "yes": [], "audit": None, "state": None}
            | {"sandbox": False, "read": [], "write": [], "network": None},
        ),
        (
            "login u --timeout 3 --issuer https://a.example",
            "login",
            {"url": "u", "headless": False, "timeout": 3.0, "issuer": "https://a.example"},
        ),
        ("logout u --headless", "login", {"url": "u", "headless": True, "timeout": None}),
        ("completion zsh", "completion", {"shell": "zsh"}),
        ("desk --state s", "decide", {"state": "s"}),
    ],
)
def test_a_command_without_a_server_has_these_options(
    line: str, module: str, wanted: dict[str, Any]
) -> None:
    words = line.split()
    assert vars(parsed([*words, "--json"])) == {
        "command": words[0],
        "module": module,
        "json": True,
        **wanted,
    }


def test_options_of_the_session_may_be_anywhere() -> None:
    assert session_options() == {f"--{name.replace('_', '-')}" for name in SESSION}
    words = ["--json", "--save", "d", "--allow", "a", "call", "t", "--trust", "x", "--no-input"]
    found = parsed([*words, "k=v", "--timeout=2.5", "-"])
    assert (found.json, found.save, found.allow, found.trust) == (True, "d", ["a"], True)
    assert (found.tool, found.arguments, found.timeout) == ("x", ["k=v", "-"], 2.5)
    assert found.no_input is True


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("search t --json tea time", {"json": True, "query": ["tea", "time"]}),
        ("search --limit 3 t tea --json time", {"limit": 3, "query": ["tea", "time"]}),
        ("--limit 3 search t tea", {"limit": 3, "query": ["tea"]}),
        ("audit verify --json f", {"json": True, "action": "verify", "file": "f"}),
        ("audit --key env:K verify f --noted h", {"action": "verify", "file": "f", "noted": "h"}),
        ("audit --json --state s show", {"action": "show", "file": None, "state": "s"}),
        ("decisions revoke --state s a b", {"state": "s", "id": ["a", "b"]}),
        ("decisions --kind call list", {"kind": "call", "id": []}),
        ("prompt t --trust p --json a=b", {"prompt": "p", "arguments": ["a=b"]}),
        ("complete --json t p --trust a=b c=d", {"argument": "a=b", "arguments": ["c=d"]}),
        ("run --no-input t --json s", {"script": "s", "no_input": True}),
        ("confirm f --yes y s", {"config": "f", "server": "s", "yes": ["y"]}),
        ("stubs -o f t", {"output": "f", "target": "t"}),
        ("stubs t -of", {"output": "f"}),
        ("--json servers --config f", {"json": True, "config": "f"}),
        ("call t a -- --json=x -y -- b", {"arguments": ["--json=x", "-y", "b"], "json": False}),
        ("call --json -- t a -", {"arguments": ["-"], "json": True}),
        ("call t a x:=1 -5", {"arguments": ["x:=1", "-5"]}),
        ("-- tools t", {"target": "t"}),
        ("--json -- call t a -x", {"json": True, "arguments": ["-x"]}),
        ("search t -- --json", {"query": ["--json"], "json": False}),
    ],
)
def test_options_may_be_anywhere(line: str, wanted: dict[str, Any]) -> None:
    found = vars(parsed(line.split()))
    assert {name: found[name] for name in wanted} == wanted


POSITIONALS = {
    "tools": "t",
    "describe": "t tool",
    "call": "t tool a=1 -",
    "search": "t tea time",
    "resources": "t",
    "read": "t file:///x",
    "prompts": "t",
    "prompt": "t p a=1",
    "complete": "t p a=1 b=2",
    "stubs": "t",
    "run": "t script.py",
    "shell": "t",
    "doctor": "t",
    "pins": "t",
    "audit": "verify file",
    "decisions": "revoke a b",
    "servers": "",
    "confirm": "config server",
    "login": "https://x.example",
    "logout": "https://x.example",
    "completion": "bash",
    "desk": "",
}
VALUES = {
    "--timeout": "2",
    "--limit": "3",
    "--allow-finding": "odd_name",
    "--revision": "2025-06-18",
}


def with_value(action: argparse.Action, name: str) -> list[str]:
    if action.nargs == 0:
        return [name]
    return [name, VALUES.get(name) or (list(action.choices)[-1] if action.choices else "value")]


def options() -> Iterator[tuple[str, str, list[str]]]:
    """Each command with the name of each of its options, and that option with a value."""
    for command, parser in commands().items():
        for name, action in parser._option_string_actions.items():
            if name not in ("-h", "--help"):
                yield command, action.dest, with_value(action, name)


def test_every_option_of_every_command_is_at_every_place() -> None:
    assert POSITIONALS.keys() == commands().keys()
    for command, dest, option in options():
        words = [command, *POSITIONALS[command].split()]
        wanted = vars(parsed([*words, *option]))
        assert wanted[dest] != vars(parsed(words))[dest], (command, option)
        joined = ["=".join(option)] if option[0].startswith("--") else ["".join(option)]
        for place in range(len(words) + 1):
            for passed in (option, joined):
                line = [*words[:place], *passed, *words[place:]]
                assert vars(parsed(line)) == wanted, line
                if place <= 1:  # text after -- is not an option
                    line = [*words[:place], *passed, "--", *words[place:]]
                    assert vars(parsed(line)) == wanted, line


def test_an_option_of_another_command_is_reported_to_be_one_of_it() -> None:
    every = {option[0]: option for _, _, option in options()}
    for command, parser in commands().items():
        words = [command, *POSITIONALS[command].split()]
        for name, option in every.items():
            if name in parser._option_string_actions:
                continue
            for line in ([*option, *words], [*words, *option], [name, *words]):
                with pytest.raises(UsageError) as caught:
                    parsed(line)
                begins = f"unknown option {name!r} of {command}; it is one of "
                assert str(caught.value).startswith(begins), line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("tols t", "unknown command 'tols'; did you mean tools?"),
        ("tools", "the following arguments are required: TARGET"),
        ("tools t u", "tools takes no further argument: 'u'; quote a command of several words"),
        ("call t a --alow=b", "unknown option '--alow' of call; did you mean --allow?"),
        ("tools t -z", "unknown option '-z' of tools ("),
        ("--zzzz tools t", "unknown option '--zzzz' of tools ("),
        ("tools t --limit 3", "unknown option '--limit' of tools; it is one of search ("),
        ("--limt 3 search t", "unknown option '--limt' of mcp-client; did you mean --limit? ("),
        ("--limit search t", "--limit needs a value: 'search' after it is a command ("),
        ("--state decisions list", "--state needs a value: 'decisions' after it is a command ("),
        ("--allow tools", "--allow needs a value: 'tools' after it is a command ("),
        ("--", "the following arguments are required: COMMAND ("),
        *[
            (f"tools t --timeout {word}", "argument --timeout: ")
            for word in ("0", "1e9", "x", "nan")
        ],
        *[
            (f"search t --limit {word}", "argument --limit: ")
            for word in ("0", "1000000", "x", "-1", "٣")
        ],
        (
            "tools t --allow-finding gon",
            "argument --allow-finding: 'gon' is not a kind of finding; did",
        ),
    ],
)
def test_a_line_that_cannot_be_read_is_a_usage_error(line: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(line.split())
    assert str(caught.value).startswith(expected)
    assert str(caught.value).endswith("--help')")


def test_the_bounds_of_numbers_are_taken() -> None:
    assert parsed(["search", "t", "--limit", "999999"]).limit == 999_999
    assert parsed(["search", "t", "--limit", "1"]).limit == 1
    assert parsed(["tools", "t", "--timeout", "0.001"]).timeout == 0.001
    assert parsed(["tools", "t", "--revision", "2025-06-18"]).revision == "2025-06-18"
