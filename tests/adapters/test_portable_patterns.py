"""Patterns that a provider would refuse, and with them the tools of all servers, are described."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.adapters import openai_chat, openai_responses
from mcp_client.adapters.portable import is_portable
from tests.support.properties import examples
from tests.support.schemas import tool_of

PORTABLE = [
    *("^[a-z0-9_.-]+$", r"^\d{4}-\d{2}-\d{2}$", "^(a|b){1,3}$", "^(?:a|b)?$", "a.c", ""),
    *(r"^\+?[0-9]+$", r"^https?://[^\s/]+$", "^.{1,20}$", "^[^,]*$", r"^[\w.+-]+@[\w-]+\.[a-z]+$"),
    *(r"^\x41\u00e9$", "^[A-Za-zÀ-ÿ]+$", "a*?b", r"[\[\]]", r"^[\\/]$", "é|名", "^[-a]$", "^[a^]$"),
]  # fmt: skip
REFUSED = [
    *("(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", r"\p{L}", r"\P{Lu}", r"[\p{L}]", "(?<n>a)"),
    *("(?P<n>a)", r"(a)\1", r"(?<n>a)\k<n>", "[[]", "[a[b]", "[^[]", "[^]", "[]", r"\u{61}"),
    *(r"[\u{61}]", r"[\w-.]", r"[a-\d]", r"\cA", r"\bfoo\b", r"\B", r"\Aa\Z", r"a\z", "a++"),
    *("a{2,1}", "a**", "*a", "(", ")", "[", "a{", "a}", "a]", "a{,3}", "(?i)a", "(?>a)", "\\"),
    *("[a&&b]", "[a--b]", "[a~~b]", "[a||b]", "[[:alpha:]]", "[z-a]", r"\ud83d\ude00", r"\q"),
    *("a{99999}", "a" * 1_001, "(" * 60 + ")" * 60, r"\0", "(?#x)", "[\\", r"\<a", r"a\>"),
]  # fmt: skip
ADAPTERS = [openai_chat, openai_responses]


@pytest.mark.parametrize("pattern", PORTABLE)
def test_an_everyday_pattern_is_portable(pattern: str) -> None:
    assert is_portable(pattern)


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_some_engine_refuses_is_not_portable(pattern: str) -> None:
    assert not is_portable(pattern)


@given(pattern=st.lists(st.sampled_from([*"ab19^$.*+?|()[]{}\\-,&~", "(?", r"\d"])).map("".join))
@examples(1_000)
@pytest.mark.filterwarnings("error")
def test_what_is_portable_compiles(pattern: str) -> None:
    if is_portable(pattern):
        re.compile(pattern)


def schema_of(module: Any, kit: Any) -> dict[str, Any]:
    (tool,) = kit.tools
    found: dict[str, Any] = (tool["function"] if module is openai_chat else tool)["parameters"]
    return found


def patterns_in(schema: Any) -> list[str]:
    if type(schema) is list:
        return [found for one in schema for found in patterns_in(one)]
    if type(schema) is not dict:
        return []
    own = [schema["pattern"]] if type(schema.get("pattern")) is str else []
    own += [*schema.get("patternProperties", ())]
    return own + [found for one in schema.values() for found in patterns_in(one)]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("module", ADAPTERS, ids=["chat", "responses"])
@pytest.mark.parametrize("pattern", ["^[a-z]+$", *REFUSED[:14]])
def test_openai_gets_portable_patterns_and_reads_of_the_others(
    module: Any, strict: bool, pattern: str
) -> None:
    member = {"type": "string", "description": "A name.", "pattern": pattern}
    schema = {"type": "object", "properties": {"a": member}, "required": ["a"]}
    kit = module.toolset([tool_of(schema, "t")], strict=strict)
    found = schema_of(module, kit)
    reported = found["properties"]["a"]["description"]
    if is_portable(pattern):
        assert (patterns_in(found), reported) == ([pattern], "A name.")
        assert not any("pattern" in change for change in kit.changes)
    else:
        assert patterns_in(found) == []
        assert reported.startswith("A name. (pattern: ")
        assert any("'pattern' is moved to the description" in change for change in kit.changes)


GUARDED: list[tuple[dict[str, Any], list[str]]] = [
    ({"not": {"pattern": "(?=a)"}}, ["not"]),
    ({"if": {"pattern": "(?=a)"}, "then": False}, ["if", "then"]),
    ({"oneOf": [{"pattern": "(?=a)"}, {"type": "string"}]}, ["oneOf"]),
    ({"contains": {"pattern": "(?=a)"}, "maxContains": 1}, ["maxContains"]),
    ({"patternProperties": {"(?=a)": {}}, "additionalProperties": False}, ["patternProperties"]),
    ({"patternProperties": {"(?=a)": {}}, "additionalProperties": False}, ["additionalProperties"]),
    ({"allOf": [{"pattern": "(?=a)"}], "unevaluatedProperties": False}, ["unevaluatedProperties"]),
    (
        {
            "$defs": {"d": {"patternProperties": {"(?=a)": {}}}},
            "$ref": "#/properties/a/$defs/d",
            "unevaluatedProperties": False,
        },
        ["unevaluatedProperties"],
    ),
]


@pytest.mark.parametrize("module", ADAPTERS, ids=["chat", "responses"])
@pytest.mark.parametrize(("part", "gone"), GUARDED)
def test_no_value_is_refused_for_a_pattern_that_was_moved(
    module: Any, part: dict[str, Any], gone: list[str]
) -> None:
    kit = module.toolset([tool_of({"type": "object", "properties": {"a": part}}, "t")])
    found = schema_of(module, kit)["properties"]["a"]
    assert not found.keys() & set(gone)
    assert patterns_in(found) == []
    assert kit.changes


def test_patterns_of_names_are_described_too() -> None:
    part = {"patternProperties": {"^a$": {"type": "string"}, "(?=b)": {"type": "integer"}}}
    kit = openai_chat.toolset([tool_of({"type": "object", "properties": {"a": part}}, "t")])
    found = schema_of(openai_chat, kit)["properties"]["a"]
    assert found["patternProperties"] == {"^a$": {"type": "string"}}
    assert found["description"] == '(patternProperties: {"(?=b)": {"type": "integer"}})'
