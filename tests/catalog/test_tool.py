"""Tools and calls: what they are known by, and that nothing handed out changes them."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import ConfigError, Finding, Tool, ToolCall, ToolList, allow_all, connect
from mcp_client.catalog import Rejected
from mcp_client.catalog.definition import Hints
from mcp_client.protocol.canonical_json import NotJson, canonical
from tests.support.starting import scripted
from tests.support.terminal import call_of

WIRE: dict[str, Any] = {
    "name": "delete",
    "title": "Delete",
    "description": "Deletes a file",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
    "outputSchema": {"type": "object", "required": ["done"]},
    "annotations": {"destructiveHint": True, "title": "X"},
    "icons": [{"src": "https://example.com/i.png"}],
    "_meta": {"a": {"b": 1}},
    "unknown": [1],
}
SIX = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
SINCE = [
    {"execution": {"taskSupport": "required"}},
    {"_meta": {"ui": {"visibility": ["app"]}}},
    {"_meta": {"ui/resourceUri": "ui://view"}},
]

LOOK = Finding("odd_name", "look")


def tool(server: str = "files", trusted: bool = False, **changes: Any) -> Tool:
    definition = json.loads(json.dumps({**WIRE, **changes}))
    return Tool(definition["name"], server, trusted, definition)


def having(member: str, value: Any) -> Tool:
    changes: dict[str, Any] = {member: value}
    return tool(**changes)


def call(of: Tool | None = None, arguments: Any = None, **changes: Any) -> ToolCall:
    passed: dict[str, Any] = {
        "id": "x-1",
        "server": "files",
        "tool": of or tool(),
        "arguments_json": canonical({} if arguments is None else arguments),
        "meta_json": None,
        "hints": Hints(),
        "findings": (),
        "generation": 1,
    }
    return ToolCall(**{**passed, **changes})


# -------------------------------------------------------------- fingerprints


def turned_round(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: turned_round(item) for key, item in reversed(value.items())}
    return [turned_round(item) for item in value] if isinstance(value, list) else value


def test_a_fingerprint_ignores_the_order_of_keys() -> None:
    turned = turned_round(WIRE)
    assert Tool("delete", "files", False, turned).fingerprint == tool().fingerprint


@pytest.mark.parametrize("member", ["_meta", "unknown", "size"])
def test_a_fingerprint_ignores_other_members(member: str) -> None:
    assert having(member, {"other": True}).fingerprint == tool().fingerprint


def test_a_fingerprint_ignores_server_and_trust() -> None:
    assert tool("other", True).fingerprint == tool().fingerprint


@pytest.mark.parametrize("member", SIX)
def test_a_fingerprint_changes_with_each_of_six_members(member: str) -> None:
    changed = "other" if isinstance(WIRE[member], str) else {**WIRE[member], "more": 1}
    without = {key: item for key, item in WIRE.items() if key != member}
    prints = {
        tool().fingerprint,
        having(member, changed).fingerprint,
        Tool("delete", "files", False, without).fingerprint,
    }
    assert len(prints) == 3
    assert having(member, None).fingerprint == Tool("delete", "files", False, without).fingerprint


@pytest.mark.parametrize("more", SINCE)
def test_a_fingerprint_changes_with_execution_and_the_view(more: dict[str, Any]) -> None:
    assert tool(**more).fingerprint != tool().fingerprint


@pytest.mark.parametrize(
    "more",
    [
        {"execution": None},
        {"execution": {}},
        {"execution": {"taskSupport": None}},
        {"annotations": {"destructiveHint": True, "title": "X", "readOnlyHint": None}},
        {"icons": []},
        {"icons": [{"src": "https://other.example/i.png"}]},
        {"_meta": {"ui": None}},
    ],
)
def test_a_fingerprint_stays_with_empty_members_and_with_other_icons(
    more: dict[str, Any],
) -> None:
    assert tool(**more).fingerprint == tool().fingerprint


def test_a_fingerprint_stays_with_what_else_is_in_meta_and_with_unknown_members() -> None:
    bare = {k: v for k, v in WIRE.items() if k not in ("icons", "_meta")}
    assert (
        Tool("delete", "f", False, {**bare, "_meta": {"other": 1}, "new": 1}).fingerprint
        == Tool("delete", "f", False, bare).fingerprint
    )


@given(st.sampled_from(["description", "title"]), st.text())
def test_every_text_has_a_fingerprint_of_its_own(member: str, text: str) -> None:
    same = having(member, text).fingerprint == tool().fingerprint
    assert same is (text == WIRE[member])


def test_a_fingerprint_may_be_taken_of_a_lone_surrogate() -> None:
    assert tool(description="\ud800").fingerprint.startswith("sha256:")


# --------------------------------------------------------------------- tools


def test_a_tool_shows_the_fields_of_the_wire() -> None:
    displayed = tool(trusted=True)
    assert (displayed.name, displayed.title, displayed.description) == (
        "delete",
        "Delete",
        "Deletes a file",
    )
    assert displayed.input_schema == WIRE["inputSchema"]
    assert displayed.output_schema == WIRE["outputSchema"]
    assert displayed.annotations == WIRE["annotations"]
    assert displayed.icons == WIRE["icons"]
    assert displayed.meta == WIRE["_meta"]
    assert displayed.raw == WIRE


@pytest.mark.parametrize("odd", [None, 7, [], {}, True])
def test_a_text_of_another_type_is_absent(odd: Any) -> None:
    displayed = tool(title=odd, description=odd)
    assert (displayed.title, displayed.description) == (None, None)


@pytest.mark.parametrize("odd", [None, 7, "x", True])
def test_members_of_a_wrong_type_are_absent(odd: Any) -> None:
    displayed = tool(trusted=True, annotations=odd, icons=odd, _meta=odd)
    assert (displayed.annotations, displayed.icons, displayed.meta) == (None, [], None)


def test_annotations_of_an_untrusted_server_are_left_out_but_in_raw() -> None:
    assert tool().annotations is None
    assert tool().raw["annotations"] == WIRE["annotations"]


@pytest.mark.parametrize("member", ["input_schema", "output_schema", "annotations", "raw", "meta"])
def test_what_a_tool_returns_is_a_copy(member: str) -> None:
    displayed = tool(trusted=True)
    fingerprint, before = displayed.fingerprint, json.dumps(displayed.raw)

    def spoil(value: Any) -> None:
        for inner in list(value.values() if isinstance(value, dict) else value):
            if isinstance(inner, dict | list):
                spoil(inner)
        value.clear()

    spoil(getattr(displayed, member))
    assert json.dumps(displayed.raw) == before
    assert getattr(displayed, member)
    assert dataclasses.replace(displayed).fingerprint == fingerprint


def test_a_tool_cannot_be_changed_and_can_be_in_a_set() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        tool().name = "other"  # type: ignore[misc]
    assert len({tool(), tool(), tool(description="other"), tool("other")}) == 3


def test_a_repr_shows_no_text_of_the_server_but_the_name() -> None:
    assert "Deletes" not in repr(tool())


# ---------------------------------------------------------------------- list


def test_a_tool_list_is_a_sequence() -> None:
    first, second = tool(), tool(name="b")
    tools = ToolList([first, second], [Rejected("c", "no reason")], [LOOK])
    assert (len(tools), tools[0], tools[-1], list(tools)) == (2, first, second, [first, second])
    assert list(tools[:1]) == [first]
    assert first in tools
    assert tools.rejected == (Rejected("c", "no reason"),)
    assert tools.findings == (LOOK,)
    assert repr(tools) == "<ToolList of 2: delete, b; 1 rejected>"


# --------------------------------------------------------------------- calls


@given(st.dictionaries(st.text(), st.integers() | st.lists(st.integers(), max_size=3), max_size=5))
def test_a_digest_ignores_the_order_of_arguments(arguments: dict[str, Any]) -> None:
    assert call(arguments=arguments).digest == call(arguments=turned_round(arguments)).digest


@pytest.mark.parametrize(
    "changes",
    [
        {"server": "other"},
        {"generation": 2},
        {"tool": tool(description="changed after approval")},
        {"tool": tool(name="other")},
        {"arguments_json": '{"path":"b"}'},
        {"arguments_json": '{"path":["a"]}'},
        {"meta_json": '{"a":1}'},
        {"meta_json": "null"},
        {"origin": "app"},
    ],
)
def test_a_digest_changes_with_whatever_decides_what_happens(changes: dict[str, Any]) -> None:
    base = call(arguments={"path": "a"})
    assert dataclasses.replace(base, **changes).digest != base.digest


def test_a_digest_does_not_change_with_what_does_not() -> None:
    base = call(arguments={"path": "a"})
    assert dataclasses.replace(base, id="x-2", findings=(LOOK,)).digest == base.digest
    assert dataclasses.replace(base, tool=tool(unknown=[])).digest == base.digest


def test_the_arguments_of_a_call_are_those_of_its_text_and_cannot_be_changed() -> None:
    made = call(arguments={"b": [1, {"c": 2}], "a": None})
    assert made.arguments == {"b": [1, {"c": 2}], "a": None}
    with pytest.raises(TypeError, match="Allow"):
        made.arguments["a"] = 1
    with pytest.raises(TypeError):
        made.arguments["b"][1]["c"] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.arguments_json = "{}"  # type: ignore[misc]


def test_a_call_with_other_arguments_is_another_call_and_looks_like_one() -> None:
    made = call(arguments={"path": "a"})
    assert made.arguments == {"path": "a"}
    edited = made.with_arguments({"path": "b"})
    assert (edited.arguments, edited.edited, edited.id) == ({"path": "b"}, True, made.id)
    assert edited.digest != made.digest
    assert (made.arguments, made.edited) == ({"path": "a"}, False)
    with pytest.raises(NotJson):
        made.with_arguments({"path": {1}})


def test_a_call_is_trusted_as_its_tool_is() -> None:
    assert call(tool(trusted=True)).trusted
    assert not call().trusted


def test_the_key_of_a_call_is_equal_for_the_same_call_made_again_and_different_for_another() -> (
    None
):
    call = call_of({"n": 1})
    assert call.key == replace(call, id="2", generation=2, findings=(LOOK,)).key
    assert call.digest != replace(call, generation=2).digest
    others = [
        call_of({"n": 2}),
        call_of({"n": 1}, name="other"),
        call_of({"n": 1}, server="mail"),
        call_of({"n": 1}, description="Other."),
        call_of({"n": 1}, meta={"a": 1}),
        replace(call, context="ana"),
        replace(call, context=1),
        replace(call, context=True),
        replace(call, context="1"),
        replace(call, origin="app"),
    ]
    assert len({call.key, *(other.key for other in others)}) == 11
    assert replace(call, context=("a", 1)).key == replace(call, context=("a", 1)).key


class Person:
    """A context whose ``repr`` does not show what it equals."""

    def __init__(self, name: str, displayed: str = "a person") -> None:
        self.name, self.text = name, displayed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Person) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.text


def test_a_key_distinguishes_contexts_by_equality_and_not_by_looks() -> None:
    def key(context: Any) -> str:
        return replace(call_of(), context=context).key

    assert key(Person("ana")) != key(Person("bo"))
    assert key(Person("ana", "one")) == key(Person("ana", "other"))
    assert key(frozenset({"a", "b", "c"})) == key(frozenset({"c", "b", "a"}))
    assert key(1) == key(1.0)
    assert key(("a", (1, 2.5))) == key(("a", (1.0, 2.5))) != key(("a", (True, 2.5)))
    assert key(("a", "b")) != key(("a, b",))
    assert key(("a",)) != key("a")


def test_the_key_of_a_call_with_a_plain_context_is_the_same_in_another_process() -> None:
    program = (
        "from mcp_client import ToolCall; "
        "print(ToolCall.example('t', {'n': 1}, context=('ana', 1, True)).key)"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert keys == {ToolCall.example("t", {"n": 1}, context=("ana", 1, True)).key + "\n"}


def test_only_so_many_contexts_that_cannot_be_stored_are_known_at_once() -> None:
    first = replace(call_of(), context=Person("the first"))
    before = first.key
    for n in range(1_000):
        assert replace(call_of(), context=Person(f"number {n}")).key
    assert first.key != before, "what was bound to it does not hold any more"


# --------------------------------------------------------------------- examples


def test_an_example_is_a_call_of_a_tool_that_no_one_trusts() -> None:
    call = ToolCall.example("delete_file", {"path": "/srv/a"}, server="files", context="ana")
    assert (call.server, call.tool.name, call.arguments) == (
        "files",
        "delete_file",
        {"path": "/srv/a"},
    )
    assert call.context == "ana"
    assert not call.trusted
    assert call.hints.destructive
    assert call.findings == ()
    assert ToolCall.example().arguments == {}


def test_the_hints_of_an_example_count_as_those_of_a_trusted_server() -> None:
    call = ToolCall.example("read", read_only=True, open_world=False)
    assert call.trusted
    assert (call.hints.read_only, call.hints.destructive, call.hints.open_world) == (
        True,
        False,
        False,
    )
    untrusted = ToolCall.example("read", read_only=True, trusted=False)
    assert not untrusted.hints.read_only
    assert ToolCall.example("read", trusted=True).hints.destructive


def test_an_example_may_be_of_a_definition_or_of_a_tool() -> None:
    hidden = {"name": "read", "description": "Reads.\u200b", "inputSchema": {"type": "object"}}
    call = ToolCall.example(hidden, meta={"a": 1}, findings=["definition_changed", LOOK])
    assert [one.kind for one in call.findings] == ["definition_changed", "odd_name", "hidden_text"]
    assert call.findings[1] is LOOK
    with pytest.raises(ConfigError, match="of the kind 'drifted': give one of hidden_text, "):
        ToolCall.example(findings=["drifted"])
    assert call.meta_json == '{"a":1}'
    assert ToolCall.example(call.tool).tool is call.tool
    assert ToolCall.example({"name": "a", "annotations": None}, read_only=True).hints.read_only


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToolCall.example("t", {"n": float("nan")}),
        lambda: ToolCall.example("t", meta={"n": {1}}),
        lambda: ToolCall.example({"title": "no name"}),
        lambda: ToolCall.example(call_of().tool, read_only=True),
    ],
)
def test_an_example_that_cannot_be_made_gives_the_reason(make: Any) -> None:
    with pytest.raises(ConfigError, match=r"ToolCall\.example"):
        make()


# ---------------------------------------------------------------- as data


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"]
)
async def test_tools_and_results_are_data_after_a_call_as_well(copied: Any) -> None:
    async with connect(scripted(), approval=allow_all) as session:
        tools = await session.list_tools()
        result = await session.call_tool("echo", {"text": "hello"})
        _ = tools.findings
        again = copied(tools)
        assert (again, again.rejected, again.findings) == (tools, tools.rejected, tools.findings)
        assert isinstance(again, ToolList) and isinstance(again, tuple)
        assert [one.fingerprint for one in again] == [one.fingerprint for one in tools]
        assert copied(result) == result
        for value in (tools, [*tools], again):
            displayed = [json.loads(json.dumps(dataclasses.asdict(one))) for one in value]
            assert displayed == [json.loads(json.dumps(one.to_json())) for one in tools]
        assert {"name", "description", "input_schema", "findings"} <= displayed[0].keys()
        assert not [name for name in displayed[0] if name.startswith("_")]
        assert replace(tools[0], bound=("a",)).name == tools[0].name
        response = json.loads(json.dumps(result.to_json()))
        assert response["text"] == result.text
        assert response["content"] == result.raw["content"]
