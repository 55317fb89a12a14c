"""Rules decide as written, in order, and never allow what they do not know."""

from __future__ import annotations

import copy
import json
import sys
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import (
    Allow,
    CallDenied,
    ConfigError,
    Deny,
    Finding,
    Host,
    MemoryServer,
    Rule,
    Rules,
    Tool,
    ToolCall,
    allow_all,
    connect,
    deny_all,
)
from mcp_client.approval import ManagedPolicy
from mcp_client.approval.constraints import Constraints
from mcp_client.approval.request import ApprovalRequest
from mcp_client.approval.sampling_request import SamplingRequest
from mcp_client.approval.skill_request import SkillRequest
from mcp_client.approval.start_request import STARTS, StartRequest
from mcp_client.catalog.finding import FindingKind

pytestmark = pytest.mark.one_backend


def a_call(
    arguments: Any = None,
    *,
    server: str = "files",
    tool: str = "read_file",
    trusted: bool = False,
    findings: tuple[FindingKind, ...] = (),
    **annotations: Any,
) -> ToolCall:
    definition = {"name": tool, "inputSchema": {}, "annotations": annotations}
    made = Tool(tool, server, trusted, definition)
    return ToolCall(
        id="1",
        server=server,
        tool=made,
        arguments_json=json.dumps(arguments or {}),
        meta_json=None,
        hints=made.hints,
        findings=tuple(Finding(kind, f"{kind} was found") for kind in findings),
        generation=1,
    )


def outcome(rules: list[Rule], call: ToolCall) -> str:
    return Rules(rules).explain(call).outcome


# ------------------------------------------------------------------ what matches


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("read_file", "read_file", True),
        ("read_*", "read_file", True),
        ("read_*", "read_", True),
        ("read_*", "Read_file", False),
        ("read", "read_file", False),
        ("*file", "read_file", True),
        ("read_?ile", "read_file", True),
        ("read_[ef]ile", "read_file", True),
        ("read_[!f]ile", "read_file", False),
        ("*", "anything\nwith lines", True),
        ("a*c", "a/b/c", True),
        ("a.c", "abc", False),
    ],
)
def test_a_glob_matches_the_whole_name_and_minds_the_case(
    pattern: str, name: str, expected: bool
) -> None:
    assert (outcome([Rule("allow", tool=pattern)], a_call(tool=name)) == "allow") is expected
    assert (outcome([Rule("allow", server=pattern)], a_call(server=name)) == "allow") is expected


PLACES: list[tuple[Any, Any, bool | None]] = [
    ({"/path": {"equals": "a"}}, {"path": "a"}, True),
    ({"/path": {"equals": "a"}}, {"path": "A"}, False),
    ({"/path": {"equals": "a"}}, {}, None),
    ({"/n": {"equals": 1}}, {"n": 1.0}, True),
    ({"/n": {"equals": 1}}, {"n": True}, None),
    ({"/n": {"equals": True}}, {"n": 1}, None),
    ({"/n": {"equals": None}}, {"n": None}, True),
    ({"/n": {"equals": None}}, {}, None),
    ({"/n": {"equals": [1, {"a": [True]}]}}, {"n": [1, {"a": [True]}]}, True),
    ({"/n": {"equals": [1, {"a": [True]}]}}, {"n": [1, {"a": [1]}]}, None),
    ({"": {"equals": {"a": 1}}}, {"a": 1}, True),
    ({"": {"equals": {"a": 1}}}, {"a": 1, "b": 2}, False),
    ({"/mode": {"in": ["r", "rb"]}}, {"mode": "rb"}, True),
    ({"/mode": {"in": ["r", "rb"]}}, {"mode": "w"}, False),
    ({"/mode": {"in": [0]}}, {"mode": False}, None),
    ({"/path": {"glob": "/srv/*"}}, {"path": "/srv/a/b"}, True),
    ({"/path": {"glob": "/srv/*"}}, {"path": "/srv/../etc"}, True),
    ({"/path": {"glob": "/srv/*"}}, {"path": "/SRV/a"}, False),
    ({"/path": {"glob": "/srv/*"}}, {"path": ["/srv/a"]}, None),
    ({"/path": {"glob": "/srv/*"}}, {"path": 7}, None),
    ({"/n": {"max": 10}}, {"n": 10}, True),
    ({"/n": {"max": 10}}, {"n": 10.5}, False),
    ({"/n": {"max": 10}}, {"n": "9"}, None),
    ({"/n": {"max": 10}}, {"n": True}, None),
    ({"/n": {"min": 1, "max": 10}}, {"n": 0}, False),
    ({"/n": {"min": 1, "max": 10}}, {"n": 5}, True),
    ({"/list/1": {"equals": "b"}}, {"list": ["a", "b"]}, True),
    ({"/list/2": {"equals": "b"}}, {"list": ["a", "b"]}, None),
    ({"/list/-": {"equals": "b"}}, {"list": ["a", "b"]}, None),
    ({"/list/01": {"equals": "b"}}, {"list": ["a", "b"]}, None),
    ({"/list/\u0660": {"equals": "a"}}, {"list": ["a"]}, None),
    ({"/a~1b/c~0d": {"equals": 1}}, {"a/b": {"c~d": 1}}, True),
    ({"/~01": {"equals": 1}}, {"~1": 1}, True),
    ({"/": {"equals": 1}}, {"": 1}, True),
    ({"/a/b": {"equals": 1}}, {"a": "b"}, None),
    ({"/a": {"equals": 1}, "/b": {"equals": 2}}, {"a": 1, "b": 2}, True),
    ({"/a": {"equals": 1}, "/b": {"equals": 2}}, {"a": 1}, None),
    ({"/a": {"equals": 1}, "/b": {"equals": 2}}, {"b": 3}, False),
    ({"/force": {"equals": True}}, {"force": "true"}, None),
    ({"/force": {"equals": True}}, {"force": [True]}, None),
    ({"/force": {"equals": True}}, {"force": None}, None),
    ({"/force": {"equals": True}}, {"force": False}, False),
    ({"/mode": {"in": ["1", 2]}}, {"mode": 1}, None),
    ({"/mode": {"in": ["1", 2]}}, {"mode": 2}, True),
    ({"/n": {"equals": 2**53}}, {"n": 2**53 + 1}, None),
    ({"/n": {"equals": 2**53}}, {"n": 2**53 - 1}, False),
    ({"/n": {"in": [2**53]}}, {"n": 2**53 + 1}, None),
    ({"/n": {"max": 2**53}}, {"n": 2**53 + 1}, None),
    ({"/n": {"min": 2**53 + 1}}, {"n": 2**53}, None),
    ({"/n": {"equals": 10**400}}, {"n": 10**401}, None),
    ({"/n": {"equals": 10**400}}, {"n": -(10**401)}, False),
    ({"/n": {"equals": 0.1}}, {"n": 0.1}, True),
    ({"": {"equals": {"a": 1}}}, {"a": "1"}, None),
    ({"": {"equals": {"a": 1}}}, {"a": 1, "b": None}, None),
    ({"/n": {"equals": [1, 2]}}, {"n": [1, "2"]}, None),
    ({"/n": {"equals": [1, 2]}}, {"n": [3, "2"]}, False),
    ({"/paths/*": {"glob": "/srv/*"}}, {"paths": ["/srv/a", "/srv/b"]}, True),
    ({"/paths/*": {"glob": "/srv/*"}}, {"paths": ["/srv/a", "/etc/b"]}, None),
    ({"/paths/*": {"glob": "/srv/*"}}, {"paths": ["/etc/a", "/etc/b"]}, False),
    ({"/paths/*": {"glob": "/srv/*"}}, {"paths": ["/etc/a", 7]}, None),
    ({"/paths/*": {"glob": "/srv/*"}}, {"paths": []}, False),
    ({"/paths/*": {"glob": "/srv/*"}}, {"paths": "/srv/a"}, None),
    ({"/paths/*": {"glob": "/srv/*"}}, {}, None),
    ({"/paths/*": {"equals": 1}}, {"paths": {"*": 1}}, True),
    ({"/a/*/b/*/c": {"equals": 1}}, {"a": [{"b": [{"c": 1}, {"c": 1}]}]}, True),
    ({"/a/*/b/*/c": {"equals": 1}}, {"a": [{"b": [{"c": 2}]}, {"b": [{"c": 1}]}]}, None),
    ({"/a/*/b": {"equals": 1}}, {"a": [{"b": 1}, {}]}, None),
]


@pytest.mark.parametrize(("wanted", "arguments", "holds"), PLACES)
def test_a_constraint_holds_or_fails_or_is_undecidable(
    wanted: Any, arguments: Any, holds: bool | None
) -> None:
    call = a_call(arguments)
    assert Constraints(wanted).hold(call.arguments) is holds
    allow = outcome([Rule("allow", arguments=wanted)], call)
    deny = outcome([Rule("deny", arguments=wanted)], call)
    assert allow == ("allow" if holds is True else "ask")
    assert deny == ("ask" if holds is False else "deny"), "what cannot be known counts as matched"


def test_an_undecidable_ask_rule_asks_before_a_later_rule_may_allow() -> None:
    rules = [Rule("ask", arguments={"/path": {"glob": "/etc/*"}}), Rule("allow", tool="*")]
    assert outcome(rules, a_call({"path": "/tmp/a"})) == "allow"
    assert outcome(rules, a_call({"path": "/etc/a"})) == "ask"
    assert outcome(rules, a_call({})) == "ask"


def test_a_rule_that_allows_puts_up_with_the_kinds_of_findings_it_names_and_no_other() -> None:
    odd = a_call(findings=("odd_name",))
    both = a_call(findings=("odd_name", "definition_changed"))
    for kinds, of_odd, of_both in [
        ((), "ask", "ask"),
        (("odd_name",), "allow", "ask"),
        (["definition_changed"], "ask", "ask"),
        (("definition_changed", "odd_name"), "allow", "allow"),
        (Finding.KINDS, "allow", "allow"),
    ]:
        rule = Rule("allow", tool="*", findings=kinds)
        assert [outcome([rule], call) for call in (a_call(), odd, both)] == [
            "allow",
            of_odd,
            of_both,
        ]


def test_a_note_keeps_no_rule_that_allows_from_matching_and_is_named_by_the_others() -> None:
    note, unread = (Finding("long_text", "long", note=each) for each in (True, False))
    rest, odd = Rule("allow", tool="*"), Finding("odd_name", "odd")

    def of(rules: list[Rule], *findings: Finding) -> str:
        return outcome(rules, replace(a_call(), findings=findings))

    assert of([rest], note) == "allow"
    assert of([rest], unread) == of([rest], note, odd) != "allow"
    assert of([Rule("deny", findings=("long_text",)), rest], note) == "deny"


@pytest.mark.parametrize("stop", ["ask", "deny"])
def test_a_rule_that_asks_or_denies_and_names_findings_is_about_calls_with_one_of_them(
    stop: Any,
) -> None:
    rest = Rule("allow", tool="*", findings=Finding.KINDS)
    odd, plain = a_call(findings=("odd_name", "long_text")), a_call()
    rules = [Rule(stop, findings=("odd_name", "gone")), rest]
    assert (outcome(rules, odd), outcome(rules, plain)) == (stop, "allow")
    rules = [Rule(stop, findings=("gone",)), rest]
    assert (outcome(rules, odd), outcome(rules, plain)) == ("allow", "allow")
    rules = [Rule(stop), rest]
    assert (outcome(rules, odd), outcome(rules, plain)) == (stop, stop)


@pytest.mark.parametrize(
    ("findings", "text"),
    [
        (("odd_nam",), "'odd_nam' is not a kind of finding; did you mean odd_name"),
        (("its name is odd",), "is not a kind of finding"),
        ("odd_name", "give a list of kinds"),
        (True, "give a list of kinds"),
        ((1,), "1 is not a kind of finding"),
        (({},), "is not a kind of finding"),
    ],
)
def test_a_rule_takes_only_kinds_of_findings_that_there_are(findings: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Rule("allow", tool="*", findings=findings)


SKILL = SkillRequest(
    id="1",
    server="files",
    name="pdf",
    description="",
    uri="skill://pdf/SKILL.md",
    files=(),
    size=1,
    ignored=(),
    digest="sha256:1",
    findings=(Finding("skill", "a skill"),),
    context="ana",
)
SAMPLING = SamplingRequest("files", (), 100)
START = StartRequest(
    server="files",
    command="uvx",
    args=("tool",),
    env_names=(),
    cwd=None,
    url=None,
    header_names=(),
    findings=(STARTS,),
    variables={},
    fingerprint="sha256:1",
    path=Path("mcp.json"),
    scope="project",
)
REQUESTS: dict[str, ApprovalRequest] = {
    "call": a_call(),
    "skill": SKILL,
    "start": START,
    "sampling": SAMPLING,
}


@pytest.mark.parametrize("outcome", ["allow", "deny", "ask"])
@pytest.mark.parametrize("kind", ["call", "skill", "start", "sampling", "any"])
def test_a_rule_is_about_the_kind_of_request_that_it_names(outcome: Any, kind: Any) -> None:
    rule = Rule(outcome, kind=kind, server="files")
    matched = [name for name, request in REQUESTS.items() if rule.matches(request)]
    assert matched == (list(REQUESTS) if kind == "any" else [kind])


def test_a_rule_that_names_no_kind_is_about_calls() -> None:
    for outcome in ("allow", "deny", "ask"):
        rule = Rule(outcome, server="*")
        assert [rule.matches(request) for request in REQUESTS.values()] == [True, *[False] * 3]


@pytest.mark.parametrize(
    ("rule", "kinds"),
    [
        (Rule("allow", kind="skill", subject="skill://pdf/*"), ["skill"]),
        (Rule("allow", kind="skill", subject="pdf"), []),
        (Rule("allow", kind="skill", fingerprint="sha256:1"), ["skill"]),
        (Rule("allow", kind="skill", fingerprint="sha256:2"), []),
        (Rule("allow", kind="skill", subject="*", context="bo"), []),
        (Rule("allow", kind="any", read_only=True), []),
        (Rule("allow", kind="any", trusted=True), []),
        (Rule("deny", kind="any", destructive=True), ["call", "skill", "start", "sampling"]),
        (Rule("deny", kind="any", context="ana"), ["skill"]),
        (Rule("deny", kind="start", subject="uvx *"), ["start"]),
        (Rule("deny", kind="any", subject="read_*"), ["call"]),
        (Rule("deny", kind="any", origin="app"), []),
    ],
)
def test_what_is_not_a_call_is_matched_by_what_all_requests_have(
    rule: Rule, kinds: list[str]
) -> None:
    assert [name for name, request in REQUESTS.items() if rule.matches(request)] == kinds


@pytest.mark.parametrize("name", ["tool", "arguments", "meta"])
@pytest.mark.parametrize("kind", ["skill", "start", "sampling", "any"])
def test_what_only_calls_have_is_refused_for_another_kind(name: str, kind: Any) -> None:
    value: Any = "*" if name == "tool" else {"/a": {"equals": 1}}
    with pytest.raises(ConfigError, match=f"{name} is for tool calls, and kind is '{kind}'"):
        Rule("deny", kind=kind, **{name: value})


def test_a_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="kind 'tool': give one of call, skill, start"):
        Rule("deny", kind="tool")  # type: ignore[arg-type]


def test_a_misspelled_key_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(
        ConfigError, match=r"Rule\(readonly=\.\.\.\): unknown key; did you mean read_only"
    ):
        Rule("allow", readonly=True)  # type: ignore[call-arg]


def test_hints_are_matched_as_they_may_be_believed() -> None:
    reported: dict[str, Any] = {"readOnlyHint": True, "openWorldHint": False}
    trusted, untrusted = a_call(trusted=True, **reported), a_call(trusted=False, **reported)
    for rule, expected in [
        (Rule("allow", read_only=True), ("allow", "ask")),
        (Rule("allow", destructive=False), ("allow", "ask")),
        (Rule("allow", open_world=False), ("allow", "ask")),
        (Rule("allow", trusted=True), ("allow", "ask")),
        (Rule("allow", trusted=False), ("ask", "allow")),
        (Rule("deny", destructive=True), ("ask", "deny")),
        (Rule("deny", idempotent=False), ("deny", "deny")),
    ]:
        assert (outcome([rule], trusted), outcome([rule], untrusted)) == expected, str(rule)


def test_a_fingerprint_allows_one_definition_and_no_other() -> None:
    call = a_call()
    rules = [Rule("allow", tool="read_file", fingerprint=call.tool.fingerprint)]
    assert outcome(rules, call) == "allow"
    assert outcome(rules, a_call(readOnlyHint=True)) == "ask", "it is another definition"


def test_the_first_rule_that_matches_decides_and_nothing_matched_means_ask() -> None:
    rules = Rules([Rule("deny", tool="delete_*"), Rule("allow", tool="*_file")])
    for tool, expected in [
        ("delete_file", ("deny", 1)),
        ("read_file", ("allow", 2)),
        ("new_tool", ("ask", None)),
    ]:
        found = rules.explain(a_call(tool=tool))
        assert (found.outcome, found.number) == expected
        assert found.rule is (None if found.number is None else rules.rules[found.number - 1])
    assert rules.explain(a_call()).text == "rule 2: allow tool='*_file'"
    assert "no rule matches" in rules.explain(a_call(tool="x")).text
    assert outcome([], a_call()) == "ask"


# --------------------------------------------------------------- what they are


def test_rules_print_one_line_a_rule() -> None:
    rules = Rules(
        [
            Rule("deny", tool="delete_*", server="fi*"),
            Rule("allow", read_only=True, arguments={"/p": {"glob": "/srv/*"}, "/n": {"max": 3}}),
            Rule("ask"),
            Rule("allow", tool="a\n\x1b[2J", findings=("gone", "odd_name")),
        ]
    )
    assert str(rules).splitlines() == [
        "  1. deny server='fi*' tool='delete_*'",
        '  2. allow read_only=True where /p glob "/srv/*", /n max 3',
        "  3. ask everything",
        "  4. allow tool='a\\n\\x1b[2J' findings=gone,odd_name",
        "     ask everything else",
    ]


def test_rules_and_what_they_are_made_of_cannot_be_changed() -> None:
    wanted = {"/p": {"in": ["a"]}}
    rule = Rule("allow", arguments=wanted)
    rules = Rules([rule])
    wanted["/p"]["in"].append("b")
    assert outcome([rule], a_call({"p": "b"})) == "ask"
    with pytest.raises(AttributeError):
        rule.tool = "*"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="cannot assign"):
        rules.rules = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        rule.arguments["/p"]["in"] = ["b"]  # type: ignore[index]
    assert rules == Rules([Rule("allow", arguments={"/p": {"in": ["a"]}})])
    assert rules != Rules([rule], ask=deny_all)
    assert copy.copy(rule) == rule
    assert list(rules) == [rule]
    assert len(rules) == len({rules})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"outcome": "alow"}, "give 'allow', 'ask' or 'deny'"),
    ({"outcome": ["allow"]}, "give 'allow', 'ask' or 'deny'"),
    ({"outcome": "allow"}, "write tool="),
    ({"outcome": "allow", "findings": True}, "write tool="),
    ({"outcome": "allow", "arguments": {}}, "write tool="),
    ({"outcome": "allow", "tool": ""}, "tool ''"),
    ({"outcome": "allow", "tool": 7}, "tool 7"),
    ({"outcome": "allow", "tool": ["a"]}, "tool ['a']"),
    ({"outcome": "allow", "read_only": "yes"}, "read_only 'yes'"),
    ({"outcome": "deny", "findings": 1}, "findings 1"),
    ({"outcome": "deny", "arguments": {"path": {"equals": 1}}}, "not a JSON pointer"),
    ({"outcome": "deny", "arguments": {"/a~2": {"equals": 1}}}, "not a JSON pointer"),
    ({"outcome": "deny", "arguments": {"/a": 1}}, "has no condition"),
    ({"outcome": "deny", "arguments": {"/a": {}}}, "has no condition"),
    ({"outcome": "deny", "arguments": {"/a": {"like": 1}}}, "unknown constraint 'like'"),
    ({"outcome": "deny", "arguments": {"/a": {"in": "abc"}}}, "'in' takes a list"),
    ({"outcome": "deny", "arguments": {"/a": {"in": []}}}, "'in' takes a list"),
    ({"outcome": "deny", "arguments": {"/a": {"glob": 1}}}, "'glob' takes a pattern"),
    ({"outcome": "deny", "arguments": {"/a": {"max": "1"}}}, "'max' takes a number"),
    ({"outcome": "deny", "arguments": {"/a": {"min": True}}}, "'min' takes a number"),
    ({"outcome": "deny", "arguments": ["/a"]}, "arguments: "),
]


@pytest.mark.parametrize(("entry", "text"), WRONG)
def test_a_malformed_rule_is_refused_here_and_in_a_file(
    entry: dict[str, Any], text: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        Rule(**entry)
    assert text in str(caught.value)
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"rules": [{"outcome": "ask"}, entry]}))
    with pytest.raises(ConfigError) as caught:
        Rules.from_file(file)
    assert str(caught.value).startswith(f"{file}: rule 2: ")
    assert text in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x"])
def test_a_constraint_that_json_cannot_express_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError):
        Rule("deny", arguments={"/a": {"equals": value}})


def test_what_is_neither_a_rule_nor_a_hook_is_refused() -> None:
    with pytest.raises(ConfigError, match="rule 1 is a str"):
        Rules(["allow"])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="ask="):
        Rules([], ask="terminal")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="ask="):
        Rules([], ask=Rules([]))


# ------------------------------------------------------------------- the file


TOML = """
[[rules]]
outcome = "deny"
tool = "delete_*"

[[rules]]
outcome = "allow"
server = "files"
read_only = true
arguments = { "/path" = { glob = "/srv/*" }, "/lines" = { max = 100 } }
"""
SAME = [
    Rule("deny", tool="delete_*"),
    Rule(
        "allow",
        server="files",
        read_only=True,
        arguments={"/path": {"glob": "/srv/*"}, "/lines": {"max": 100}},
    ),
]


def test_rules_come_from_toml_and_from_json(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(TOML)
    as_json = [
        {"outcome": "deny", "tool": "delete_*"},
        {
            "outcome": "allow",
            "server": "files",
            "read_only": True,
            "arguments": {"/path": {"glob": "/srv/*"}, "/lines": {"max": 100}},
        },
    ]
    (tmp_path / "rules.JSON").write_text(json.dumps({"rules": as_json}))
    assert Rules.from_file(tmp_path / "rules.toml") == Rules(SAME)
    assert Rules.from_file(str(tmp_path / "rules.JSON"), ask=deny_all) == Rules(SAME, deny_all)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("r.toml", "[[rules]]\noutcome = 'allow'\ntools = 'a'", "rule 1: unknown key 'tools'"),
        ("r.toml", "[[rules]]\ntool = 'a'", "rule 1: outcome is missing"),
        ("r.toml", "[[rule]]\noutcome = 'ask'", "one list 'rules' and nothing else; it has rule"),
        ("r.toml", "rules = 3", "one list 'rules'"),
        ("r.toml", "rules = ['a']", "rule 1 is a str"),
        ("r.toml", "version = 1\nrules = []", "it has version, rules"),
        ("r.toml", "[[rules]\n", "the rules are not TOML"),
        ("r.toml", "[[rules]]\noutcome='deny'\narguments={'/a'={equals=2020-01-01}}", "arguments"),
        ("r.toml", "[[rules]]\noutcome='deny'\narguments={'/a'={max=nan}}", "arguments"),
        ("r.json", "{", "the rules are not JSON"),
        ("r.json", "[]", "one list 'rules'"),
        ("r.json", '{"rules": [{"outcome": "ask", "tool": null}]}', "rule 1: a key is null"),
        (
            "r.json",
            '{"rules": [{"outcome": "deny", "outcome": "allow", "tool": "*"}]}',
            "the member 'outcome' appears twice",
        ),
        ("r.json", '{"rules": [{"outcome": "ask", "_hints": []}]}', "unknown key '_hints'"),
        ("r.json", "[" * 100_000, "the rules are not JSON"),
        ("r.yaml", "", "a .toml or a .json file"),
    ],
)
def test_a_file_with_anything_unknown_in_it_is_refused_with_its_place(
    name: str, text: str, wanted: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Rules.from_file(file)
    assert str(caught.value).startswith(str(file))
    assert wanted in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.toml", "[[rules]]\noutcome = 'deny'\ntool = 'a'"),
        ("r.json", '{"rules": [{"outcome": "deny", "tool": "a"}]}'),
    ],
)
def test_a_file_with_a_byte_order_mark_is_read(name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8-sig")
    assert list(Rules.from_file(file)) == [Rule("deny", tool="a")]


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the rules"):
        Rules.from_file(tmp_path / "none.toml")
    (tmp_path / "bytes.json").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        Rules.from_file(tmp_path / "bytes.json")


entries: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(["outcome", "tool", "server", "read_only", "arguments", "findings"])
    | st.text(max_size=5),
    st.sampled_from(["allow", "deny", "ask", "a*"])
    | st.booleans()
    | st.none()
    | st.dictionaries(
        st.sampled_from(["/a", "a", ""]),
        st.dictionaries(st.sampled_from(["equals", "glob", "in", "max", "x"]), st.integers()),
    ),
)


@given(st.lists(entries, max_size=3) | entries)
def test_any_file_content_gives_rules_or_one_config_error(
    tmp_path_factory: pytest.TempPathFactory, whole: Any
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_text(json.dumps({"rules": whole}))
    try:
        rules = Rules.from_file(file)
    except ConfigError as error:
        reported = str(error)
    else:
        reported = f"{file} has {len(rules)} rules"
        assert len(rules) == len(whole) == len(str(rules).splitlines()) - 1
    assert reported.startswith(str(file))


# ------------------------------------------------------------- as an approval hook


class Server:
    def __init__(self, *names: str) -> None:
        self.tools = [{"name": name, "inputSchema": SCHEMA} for name in names or ("read", "write")]
        self.sent: list[dict[str, Any]] = []

    def __call__(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                return {"tools": self.tools}
            case "tools/call":
                self.sent.append(message["params"])
                return {"content": []}
        return NotImplemented

    async def call(self, approval: Any, tool: str, arguments: Any = None, **options: Any) -> None:
        async with connect(MemoryServer(self), approval=approval, **options) as session:
            await session.call_tool(tool, arguments)


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def refuse_to_be_asked(call: ToolCall) -> Allow:
    raise AssertionError("it must not be asked about")


async def test_what_a_rule_allows_or_denies_is_not_asked_about() -> None:
    server = Server()
    rules = Rules([Rule("allow", tool="read"), Rule("deny", tool="*")], ask=refuse_to_be_asked)
    await server.call(rules, "read")
    with pytest.raises(CallDenied) as caught:
        await server.call(rules, "write")
    error = caught.value
    assert (error.source, error.reason) == ("rule", "refused by policy")
    assert error.rule == "rule 2: deny tool='*'"
    assert error.message == "not approved: refused by policy", "what a model may be told"
    assert str(error).endswith("not approved: refused by policy (rule 2: deny tool='*')")
    assert [call["name"] for call in server.sent] == ["read"]


async def test_what_is_left_goes_to_the_hook_that_the_rules_name() -> None:
    server, asked = Server(), []

    async def ask(call: ToolCall) -> Allow:
        asked.append(call.tool.name)
        return Allow()

    await server.call(Rules([Rule("allow", tool="read")], ask), "write")
    assert asked == ["write"]
    await server.call(Rules([], allow_all), "write")
    assert len(server.sent) == 2


@pytest.mark.parametrize("managed", [False, True])
async def test_without_a_terminal_what_no_rule_matches_is_denied_with_what_to_do(
    managed: bool,
) -> None:
    server = Server()
    policy = ManagedPolicy(deny=["x*"]) if managed else None
    with pytest.raises(CallDenied) as caught:
        await server.call(Rules([]), "read", {"n": 4711}, policy=policy)
    error = caught.value
    assert error.message == "not approved: no rule allows this call"
    assert (error.source, error.model_reason) == ("gate", "no rule allows this call")
    text = str(error)
    assert "no rule matches read (arguments n); add a rule, or give Rules(ask=...)" in text
    assert "4711" not in text
    assert "terminal" not in text
    assert server.sent == []


async def test_a_hook_without_a_policy_names_the_option_without_a_terminal() -> None:
    with pytest.raises(CallDenied, match=r"no terminal to ask at; pass approval= to connect"):
        await Server().call(None, "read")


def test_a_rule_for_the_name_that_models_see_is_refused_with_the_right_one() -> None:
    def host(rule: Rule) -> Host:
        return Host({"files": MemoryServer(lambda message: None)}, approval=Rules([rule]))

    with pytest.raises(ConfigError, match=r"rule 1: .*server='files', tool='read_text_file'\)"):
        host(Rule("allow", tool="files__read_text_file"))
    host(Rule("allow", server="files", tool="files__read_text_file"))
    host(Rule("allow", tool="other__read_text_file"))


@pytest.mark.parametrize(
    ("edited", "rule"),
    [
        ({"n": 13}, Rule("deny", arguments={"/n": {"equals": 13}})),
        ({"n": "no number"}, Rule("deny", findings=("broken_arguments",))),
        ({}, Rule("deny", tool="write", arguments={"/n": {"min": 12}})),
    ],
)
async def test_arguments_that_were_edited_are_held_against_the_rules_again(
    edited: dict[str, Any], rule: Rule
) -> None:
    server = Server()
    with pytest.raises(CallDenied) as caught:
        await server.call(Rules([rule], ask=lambda call: Allow(edited)), "write", {"n": 1})
    assert caught.value.source == "rule"
    assert server.sent == []
    await server.call(Rules([rule], ask=lambda call: Allow({"n": 2})), "write", {"n": 1})
    assert [call["arguments"] for call in server.sent] == [{"n": 2}]


async def test_a_hook_of_ones_own_may_ask_rules() -> None:
    server = Server()
    rules = Rules([Rule("allow", tool="read")])

    async def approve(call: ToolCall) -> Any:
        return rules(call)

    await server.call(approve, "read")
    with pytest.raises(CallDenied, match="no rule allows this call"):
        await server.call(approve, "write")
    assert [call["name"] for call in server.sent] == ["read"]


async def test_a_rule_that_breaks_is_a_denial(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Rule, call: ToolCall, at: object) -> bool:
        raise RecursionError("too deep")

    monkeypatch.setattr(Rule, "matches", broken)
    server = Server()
    with pytest.raises(
        CallDenied, match=r"the policy made no decision \(it raised RecursionError\)"
    ):
        await server.call(Rules([Rule("ask")], ask=allow_all), "read")
    assert server.sent == []


async def test_read_only_without_asking_allows_what_a_trusted_server_declares_read_only() -> None:
    server = Server()
    server.tools[0]["annotations"] = {"readOnlyHint": True}
    rules = Rules.read_only_without_asking(ask=lambda call: Deny("asked"))
    async with connect(MemoryServer(server), approval=rules, trusted=True) as session:
        await session.call_tool("read", {"n": 1})
        with pytest.raises(CallDenied, match="asked"):
            await session.call_tool("write", {"n": 1})
        with pytest.raises(CallDenied, match="asked"):
            await session.call_tool("read", {"n": "a finding"})
    with pytest.raises(CallDenied, match="asked"):
        await server.call(rules, "read")
    assert [call["name"] for call in server.sent] == ["read"]


# ---------------------------------------------------------------- _meta and context


def test_rules_reach_into_the_callers_meta() -> None:
    tenant = {"/tenant": {"equals": "a"}}
    call = replace(a_call(), meta_json='{"tenant": "a"}')
    for made, allowed, denied in (
        (call, "allow", "deny"),
        (replace(call, meta_json='{"tenant": "b"}'), "ask", "ask"),
        (replace(call, meta_json='{"tenant": ["a"]}'), "ask", "deny"),
        (replace(call, meta_json=None), "ask", "deny"),
    ):
        assert outcome([Rule("allow", meta=tenant)], made) == allowed
        assert outcome([Rule("deny", meta=tenant)], made) == denied
    assert "where _meta /tenant equals" in str(Rule("allow", meta=tenant))
    assert Rule("allow", meta=tenant).meta == Rule("allow", arguments=tenant).arguments == tenant
    assert Rule("deny", meta={}, arguments={}) == Rule("deny")
    assert outcome([Rule("allow", arguments=tenant)], call) == "ask", "_meta is not an argument"


@pytest.mark.parametrize(
    ("wanted", "passed", "matches"),
    [
        ("ana", "ana", True),
        ("ana", "bob", False),
        ("ana", None, False),
        (1, True, False),
        (("acme", 7), ("acme", 7), True),
        (("acme", 7), ("acme", "7"), False),
    ],
)
def test_a_rule_for_a_context_matches_calls_of_an_equal_one(
    wanted: Any, passed: Any, matches: bool
) -> None:
    call = replace(a_call(), context=passed)
    assert outcome([Rule("allow", context=wanted)], call) == ("allow" if matches else "ask")
    assert outcome([Rule("deny", context=wanted)], call) == ("deny" if matches else "ask")


def test_a_context_in_a_file_of_rules_is_read_and_a_list_is_a_tuple(tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    file.write_text('[[rules]]\noutcome = "deny"\ncontext = ["acme", 7]\n')
    (rule,) = Rules.from_file(file)
    assert rule.context == ("acme", 7)
    file.write_text('[[rules]]\noutcome = "deny"\ncontext = { a = 1 }\n')
    with pytest.raises(ConfigError, match="rule 1: the context is not a str"):
        Rules.from_file(file)


def test_a_rule_for_an_origin_matches_calls_of_it_only() -> None:
    call = a_call()
    view = replace(call, origin="app")
    for named, other in ((call, view), (view, call)):
        for outcome_of_rule in ("allow", "deny"):
            rule = Rule(outcome_of_rule, origin=named.origin)
            assert outcome([rule], named) == outcome_of_rule
            assert outcome([rule], other) == "ask"
            assert f"origin={named.origin}" in str(rule)


def test_what_is_allowed_without_an_origin_is_not_allowed_to_views() -> None:
    call = a_call()
    view = replace(call, origin="app")
    assert outcome([Rule("allow", tool="*")], call) == "allow"
    assert outcome([Rule("allow", tool="*")], view) == "ask"
    for one in (call, view):
        assert outcome([Rule("allow", tool="*", origin="any")], one) == "allow"
        assert outcome([Rule("deny", tool="*")], one) == "deny"
        assert outcome([Rule("ask", tool="*"), Rule("allow", tool="*", origin="any")], one) == "ask"
    with pytest.raises(ConfigError, match="allows everything"):
        Rule("allow", origin="any")


@pytest.mark.parametrize("origin", ["host", "app", "code"])
def test_what_a_trusted_server_states_is_read_only_is_allowed_to_its_views_too(origin: Any) -> None:
    rules = Rules.read_only_without_asking()
    reads = ToolCall.example("t", read_only=True, origin=origin)
    writes = ToolCall.example("t", read_only=False, origin=origin)
    untrusted = ToolCall.example("t", read_only=True, trusted=False, origin=origin)
    found = [rules.explain(call).outcome for call in (reads, writes, untrusted)]
    assert found == ["allow", "ask", "ask"]


def test_an_origin_that_is_unknown_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    file.write_text('[[rules]]\noutcome = "allow"\norigin = "app"\n')
    assert Rules.from_file(file).rules == (Rule("allow", origin="app"),)
    file.write_text('[[rules]]\noutcome = "allow"\norigin = "model"\n')
    with pytest.raises(
        ConfigError, match="rule 1: origin 'model': give 'host', 'app', 'code' or 'any'"
    ):
        Rules.from_file(file)


def test_a_context_that_is_not_hashable_is_refused() -> None:
    with pytest.raises(ConfigError, match="context is a list: give a hashable value"):
        Rule("deny", context=["acme"])  # type: ignore[arg-type]


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
@pytest.mark.parametrize("mode", [0o664, 0o646, 0o622, 0o666, 0o777])
def test_a_file_of_rules_that_others_may_write_is_refused(mode: int, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text("[[rules]]\noutcome = 'deny'\n")
    file.chmod(mode)
    with pytest.raises(ConfigError, match="others may write it") as caught:
        Rules.from_file(file)
    assert str(file) in str(caught.value)
    file.chmod(mode & 0o755)
    assert len(Rules.from_file(file)) == 1


# ------------------------------------------------------------- why, and until when


def test_a_rule_gives_the_reason_in_the_list_and_in_what_it_decides() -> None:
    rules = Rules(
        [
            Rule("deny", tool="delete_*", reason="backups run\u202e first"),
            Rule("allow", tool="*", reason="seen by Ana"),
        ]
    )
    call = ToolCall.example("delete_file")
    text = "rule 1: deny tool='delete_*': backups run\\u{202e} first"
    assert rules.explain(call).text == text
    assert rules.decide(call) == Deny("backups run\\u{202e} first", source="rule", rule=text)
    allowed = rules.decide(ToolCall.example("read_file"))
    assert allowed == Allow(reason="rule 2: allow tool='*': seen by Ana", source="rule")
    assert "seen by Ana" in str(rules)


@pytest.mark.parametrize(
    ("expires_at", "last", "over"),
    [
        ("2026-12-31T18:00:00Z", "2026-12-31T17:59:59Z", "2026-12-31T18:00:00Z"),
        ("2026-12-31T18:00:00+02:00", "2026-12-31T15:59:59Z", "2026-12-31T16:00:00Z"),
        (date(2026, 12, 31), "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"),
        ("2026-12-31", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"),
        (datetime(2026, 12, 31, tzinfo=UTC), "2026-12-30T23:59:59Z", "2026-12-31T00:00:00Z"),
    ],
)
def test_a_rule_matches_until_it_expires(expires_at: Any, last: str, over: str) -> None:
    rules = Rules([Rule("allow", tool="*", expires_at=expires_at)])
    call = ToolCall.example()
    assert rules.explain(call, at=datetime.fromisoformat(last)).outcome == "allow"
    assert rules.explain(call, at=datetime.fromisoformat(over)).outcome == "ask"
    with pytest.raises(ConfigError, match="offset"):
        rules.explain(call, at=datetime(2026, 1, 1))


def test_a_rule_that_has_expired_decides_nothing_and_one_that_has_not_states_when() -> None:
    call = ToolCall.example()
    over = Rule("allow", tool="*", expires_at="2020-01-01")
    far = Rule("allow", tool="*", expires_at="2999-01-01T00:00:00Z")
    assert Rules([over]).decide(call) is None
    decision = Rules([over, far]).decide(call)
    assert isinstance(decision, Allow)
    assert decision.expires_at == datetime(2999, 1, 1, tzinfo=UTC).timestamp()
    assert "until 2999-01-01T00:00:00+00:00" in str(far)


@pytest.mark.parametrize(
    "odd", ["soon", "2026-12-31T18:00:00", datetime(2026, 1, 1), 5, date.max, "", True]
)
def test_an_expiry_that_does_not_state_when_is_refused(odd: Any) -> None:
    with pytest.raises(ConfigError, match="expires_at"):
        Rule("deny", expires_at=odd)


def test_a_reason_that_is_not_text_is_refused() -> None:
    for odd in ("", 5):
        with pytest.raises(ConfigError, match="reason"):
            Rule("deny", reason=odd)  # type: ignore[arg-type]


def test_a_file_of_rules_has_reasons_and_expiries(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(
        '[[rules]]\noutcome = "deny"\nreason = "it is the holidays"\nexpires_at = 2026-12-31\n'
        '[[rules]]\noutcome = "deny"\nexpires_at = 2026-12-31T18:00:00Z\n'
    )
    as_json = [
        {"outcome": "deny", "reason": "it is the holidays", "expires_at": "2026-12-31"},
        {"outcome": "deny", "expires_at": "2026-12-31T18:00:00Z"},
    ]
    (tmp_path / "rules.json").write_text(json.dumps({"rules": as_json}))
    toml, other = (Rules.from_file(tmp_path / f"rules.{kind}") for kind in ("toml", "json"))
    assert str(toml) == str(other)
    assert "until 2027-01-01T00:00:00+00:00: it is the holidays" in str(toml)
    (tmp_path / "rules.toml").write_text(
        '[[rules]]\noutcome = "deny"\nexpires_at = 2026-12-31T18:00:00\n'
    )
    with pytest.raises(ConfigError, match=r"rule 1: expires_at: give a time with its offset"):
        Rules.from_file(tmp_path / "rules.toml")


@pytest.mark.parametrize("rules", [7, None])
def test_rules_that_are_not_a_list_are_refused(rules: Any) -> None:
    with pytest.raises(ConfigError, match="give a list of Rule"):
        Rules(rules)


def test_called_as_a_hook_rules_answer_themselves_before_they_ask() -> None:
    rules = Rules([Rule("deny", tool="rm"), Rule("allow", tool="read_file")], ask=allow_all)
    assert isinstance(rules(a_call(tool="rm")), Deny)
    assert isinstance(rules(a_call()), Allow)
    assert rules(a_call(tool="other")) == allow_all(a_call(tool="other"))
    denied = Rules([])(a_call())
    assert isinstance(denied, Deny)
    assert "Rules(ask=...)" in denied.rule
