"""Schemas that cannot be judged whole cost neither the tool nor a call of it.

``SLIPS`` lists what becomes of each slip; the reasons are in ``schema_repair``.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest

from mcp_client import Allow, MemoryServer, Rule, Rules, ToolCall, allow_all, connect
from mcp_client.adapters import openai_chat
from mcp_client.errors import InvalidArguments, InvalidResult
from mcp_client.protocol.capabilities import HANDSHAKE, STATELESS
from mcp_client.validation import Strictness, Validation

pytestmark = pytest.mark.one_backend

Verdict = Literal["slip", "skipped", "mixed"]
"""A slip that leaves no doubt about the meaning; a part that is skipped, with a finding; or what is
of another dialect than ``$schema`` names."""
LATEST = "https://json-schema.org/draft/2020-12/schema"
OF_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
OF_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
STRICTNESS: list[Strictness] = ["strict", "warn", "off"]
GREEK = r"^\p{Script=Greek}+$"
ENDLESS = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
TUPLE = {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}


def of_member(schema: Any, **more: Any) -> dict[str, Any]:
    """An input schema whose member ``a`` has ``schema``, and ``n`` is an integer."""
    return {"type": "object", "properties": {"a": schema, "n": {"type": "integer"}}, **more}


SLIPS: list[tuple[str, Any, Verdict]] = [
    # Patterns and references that cannot be judged.
    ("a script of Unicode", of_member({"type": "string", "pattern": GREEK}), "skipped"),
    ("a look-behind of any width", of_member({"pattern": "(?<=a+)b"}), "skipped"),
    ("no pattern at all", of_member({"pattern": "("}), "skipped"),
    ("a pattern for names", of_member({"patternProperties": {GREEK: False}}), "skipped"),
    ("a pattern that is null", of_member({"pattern": None}), "skipped"),
    ("a dangling reference", of_member({"$ref": "#/$defs/Missing"}), "skipped"),
    ("a reference to elsewhere", of_member({"$ref": "http://127.0.0.1:9/x.json"}), "skipped"),
    ("a reference to a file", of_member({"$ref": "common.json#/a"}), "skipped"),
    ("a reference without end", of_member({"$ref": "#/$defs/a"}, **ENDLESS), "skipped"),
    ("a reference that is null", of_member({"$ref": None}), "skipped"),
    ("another dialect inside", of_member({"$schema": "https://e.com/own"}), "skipped"),
    # The wrong type for a keyword.
    ("required is null", of_member({}, required=None), "skipped"),
    ("required is true", of_member({"type": "string", "required": True}), "skipped"),
    ("required is false", of_member({"type": "string", "required": False}), "skipped"),
    ("required is a text", of_member({}, required="a"), "skipped"),
    ("required with null in it", of_member({"required": ["b", None]}), "skipped"),
    ("type is any", of_member({"type": "any"}), "skipped"),
    ("any among types", of_member({"type": ["string", "any"]}), "skipped"),
    ("type is null", of_member({"type": None}), "skipped"),
    ("type is empty", of_member({"type": []}), "skipped"),
    ("a type of Python", of_member({"type": "str"}), "skipped"),
    ("a type of another language", of_member({"type": "file"}), "skipped"),
    ("an object as type", of_member({"type": {"type": "string"}}), "skipped"),
    ("properties is null", of_member({"type": "object", "properties": None}), "skipped"),
    ("properties is a text", of_member({"properties": "none"}), "skipped"),
    ("a member is null", of_member(None), "skipped"),
    ("a member is a text", of_member("string"), "skipped"),
    ("items is null", of_member({"type": "array", "items": None}), "skipped"),
    ("items is a text", of_member({"type": "array", "items": "string"}), "skipped"),
    ("additionalProperties is null", of_member({"additionalProperties": None}), "skipped"),
    ("additionalProperties as text", of_member({}, additionalProperties="false"), "skipped"),
    ("enum is null", of_member({"type": "string", "enum": None}), "skipped"),
    ("enum is a text", of_member({"enum": "a,b"}), "skipped"),
    ("anyOf is empty", of_member({"anyOf": []}), "skipped"),
    ("anyOf with null in it", of_member({"anyOf": [{"type": "integer"}, None]}), "skipped"),
    ("oneOf is an object", of_member({"oneOf": {"type": "integer"}}), "skipped"),
    ("allOf with a text in it", of_member({"allOf": [{}, "Base"]}), "skipped"),
    ("minimum is a text", of_member({"type": "number", "minimum": "0"}), "skipped"),
    ("minimum is null", of_member({"minimum": None}), "skipped"),
    ("maxLength is negative", of_member({"maxLength": -1}), "skipped"),
    ("maxLength is null", of_member({"maxLength": None}), "skipped"),
    ("multipleOf is 0", of_member({"multipleOf": 0}), "skipped"),
    ("uniqueItems is a text", of_member({"uniqueItems": "true"}), "skipped"),
    ("dependentRequired of a text", of_member({}, dependentRequired={"a": "n"}), "skipped"),
    ("additionalItems is null", of_member({"additionalItems": None}, **OF_7), "skipped"),
    ("a definition is null", of_member({"$ref": "#/$defs/a"}, **{"$defs": {"a": None}}), "skipped"),
    # What has one meaning all the same.
    ("description is null", of_member({"description": None}), "slip"),
    ("title is a number", of_member({"title": 7}), "slip"),
    ("format is null", of_member({"type": "string", "format": None}), "slip"),
    ("examples is a text", of_member({"examples": "x"}), "slip"),
    ("deprecated is a text", of_member({"deprecated": "yes"}), "slip"),
    ("readOnly is null", of_member({"readOnly": None}), "slip"),
    ("an empty map of PHP", of_member({"type": "object", "properties": []}), "slip"),
    ("an empty schema of PHP", of_member([]), "slip"),
    ("items of PHP", of_member({"type": "array", "items": []}), "slip"),
    ("definitions of PHP", of_member({}, definitions=[]), "slip"),
    ("$defs is null", of_member({}, **{"$defs": None}), "slip"),
    ("required is an object", of_member({}, required={}), "slip"),
    ("a name required twice", of_member({"required": ["b", "b"]}), "slip"),
    ("a type in capitals", of_member({"type": "STRING"}), "slip"),
    ("null among types", of_member({"type": ["string", None]}), "slip"),
    ("a type named twice", of_member({"type": ["string", "string"]}), "slip"),
    ("a tuple of draft-07", of_member(TUPLE), "slip"),
    ("a closed tuple", of_member({**TUPLE, "additionalItems": False}), "slip"),
    ("a bound of draft-04", of_member({"minimum": 0, "exclusiveMinimum": True}), "slip"),
    ("no bound of draft-04", of_member({"maximum": 0, "exclusiveMaximum": False}), "slip"),
    ("an additionalItems of PHP", of_member({"additionalItems": []}, **OF_7), "slip"),
    ("nothing required in draft-04", of_member({"required": []}, **OF_4), "slip"),
    ("a later bound in draft-04", of_member({"exclusiveMinimum": 5}, **OF_4), "slip"),
    ("a later schema in draft-04", of_member(True, **OF_4), "slip"),
    ("a value twice in draft-04", of_member({"enum": [1, 1]}, **OF_4), "slip"),
    ("a tuple with its own dialect", of_member({**TUPLE, **OF_7}), "slip"),
    ("a bound with its own dialect", of_member({"exclusiveMaximum": True, **OF_4}), "slip"),
    ("a name that is no anchor", of_member({"$anchor": "the a"}), "slip"),
    ("an anchor of 2019-09", of_member({"$recursiveAnchor": True}), "slip"),
    ("a vocabulary of its own", of_member({}, **{"$vocabulary": 7}), "slip"),
    ("an anchor of draft-07", of_member({"$ref": "#x"}, definitions={"x": {"$id": "#x"}}), "slip"),
    # Another dialect than the one named.
    ("a tuple in 2020-12", of_member(TUPLE, **{"$schema": LATEST}), "mixed"),
    ("a bound in 2020-12", of_member({"exclusiveMinimum": True}, **{"$schema": LATEST}), "mixed"),
]
IDS = [row[0] for row in SLIPS]


class Server:
    """One tool; keeps the arguments it was called with."""

    def __init__(self, takes: Any = None, gives: Any = None, result: Any = None) -> None:
        self.tool: dict[str, Any] = {"name": "t", "inputSchema": takes or {"type": "object"}}
        if gives is not None:
            self.tool["outputSchema"] = gives
        self.result: dict[str, Any] = {"content": [{"type": "text", "text": "done"}]}
        if result is not None:
            self.result["structuredContent"] = result
        self.called: list[Any] = []

    def __call__(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "server/discover":
                return {"supportedVersions": [*STATELESS], "capabilities": {"tools": {}}}
            case "tools/list":
                return {"tools": [self.tool]}
            case "tools/call":
                self.called.append(message["params"].get("arguments"))
                return self.result
        return NotImplemented


def kinds(findings: Any) -> list[str]:
    return [one.kind for one in findings]


def model_calls(arguments: str) -> dict[str, Any]:
    function = {"name": "t", "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }


@pytest.mark.parametrize("strictness", [None, *STRICTNESS])
@pytest.mark.parametrize(("takes", "verdict"), [row[1:] for row in SLIPS], ids=IDS)
async def test_an_input_schema_with_a_slip_costs_no_call(
    takes: Any, verdict: Verdict, strictness: Strictness | None
) -> None:
    wanted = {"slip": [], "skipped": ["unchecked_arguments"], "mixed": ["unknown_dialect"]}[verdict]
    seen: list[ToolCall] = []

    async def approve(call: ToolCall) -> Allow:
        seen.append(call)
        return Allow()

    server = Server(takes)
    async with connect(
        MemoryServer(server), approval=approve, validation=Validation(arguments=strictness)
    ) as session:
        tools = await session.list_tools()
        assert ([tool.name for tool in tools], tools.rejected) == (["t"], ())
        assert kinds(tools.findings) == kinds(tools[0].findings) == wanted
        await session.call_tool("t", {"n": 1})
        assert kinds(seen[0].findings) == wanted
        await session.call_tool("t", {})
        kit = openai_chat.toolset(tools)
        (response,) = await kit.run(session, model_calls('{"n": 1}'))
        assert "done" in str(response["content"])
    assert [call or {} for call in server.called] == [{"n": 1}, {}, {"n": 1}]


@pytest.mark.parametrize(("takes", "verdict"), [row[1:] for row in SLIPS], ids=IDS)
async def test_the_rest_of_such_a_schema_is_judged(takes: Any, verdict: Verdict) -> None:
    server = Server(takes)
    async with connect(
        MemoryServer(server), approval=allow_all, validation=Validation(arguments="strict")
    ) as session:
        with pytest.raises(InvalidArguments) as caught:
            await session.call_tool("t", {"n": "x"})
        kit = openai_chat.toolset(await session.list_tools())
        (response,) = await kit.run(session, model_calls('{"n": "x"}'))
    assert caught.value.path == "/n"
    assert "expected integer" in str(response["content"])
    assert server.called == []


OUTPUTS: list[tuple[str, Any]] = [
    ("a dangling reference", {"$ref": "#/$defs/Missing"}),
    ("a reference without end", {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
    ("a reference to itself", {"$ref": "#"}),
    ("required is null", {"type": "object", "required": None}),
    ("type is any", {"type": "any"}),
    ("no schema", []),
    ("a text", "object"),
    ("a dialect of its own", {"$schema": "https://example.com/own", "type": "object"}),
    ("a member is a text", {"properties": {"n": "integer"}}),
    ("not JSON", {"type": "object", "title": "\ud800", "not": {}}),
]


@pytest.mark.parametrize("validation", STRICTNESS)
@pytest.mark.parametrize("result", [{"n": 1}, {"n": "x"}, [1], "x", None], ids=str)
@pytest.mark.parametrize("gives", [row[1] for row in OUTPUTS], ids=[row[0] for row in OUTPUTS])
async def test_an_output_schema_that_cannot_be_used_counts_as_none(
    gives: Any, result: Any, validation: Strictness
) -> None:
    server = Server(gives=gives, result=result)
    async with connect(MemoryServer(server), approval=allow_all, validation=validation) as session:
        tools = await session.list_tools()
        assert tools.rejected == ()
        found = await session.call_tool("t")
    assert found.structured_content == result
    assert kinds(found.findings) == ([] if validation == "off" else ["unchecked_result"])


@pytest.mark.parametrize("gives", [row[1] for row in OUTPUTS[:-1]], ids=str)
async def test_that_it_counts_as_none_is_seen_in_the_list_and_before_the_call(gives: Any) -> None:
    seen: list[ToolCall] = []

    async def approve(call: ToolCall) -> Allow:
        seen.append(call)
        return Allow()

    async with connect(MemoryServer(Server(gives=gives)), approval=approve) as session:
        assert "unchecked_result" in kinds((await session.list_tools()).findings)
        await session.call_tool("t")
    assert "unchecked_result" in kinds(seen[0].findings)


@pytest.mark.parametrize("validation", STRICTNESS)
@pytest.mark.parametrize("n", [1, "x"])
async def test_of_an_output_schema_with_a_pattern_that_is_skipped_the_rest_is_judged(
    n: Any, validation: Strictness
) -> None:
    gives = of_member({"type": "string", "pattern": GREEK})
    server = Server(gives=gives, result={"a": "abc", "n": n})
    async with connect(MemoryServer(server), approval=allow_all, validation=validation) as session:
        if n == "x" and validation == "strict":
            with pytest.raises(InvalidResult) as caught:
                await session.call_tool("t")
            assert caught.value.path == "/n"
            return
        found = await session.call_tool("t")
    wanted = "unchecked_result" if n == 1 else "broken_result"
    assert kinds(found.findings) == ([] if validation == "off" else [wanted])


@pytest.mark.parametrize("revision", [*HANDSHAKE, *STATELESS])
async def test_a_tuple_of_an_older_draft_is_judged_in_every_revision(revision: Any) -> None:
    server = Server(of_member(TUPLE), of_member(TUPLE), {"a": ["x", "y"]})
    async with connect(
        MemoryServer(server),
        approval=allow_all,
        revision=revision,
        validation=Validation(arguments="strict"),
    ) as session:
        assert (await session.list_tools()).findings == ()
        with pytest.raises(InvalidResult, match="/a/1: expected integer"):
            await session.call_tool("t", {"a": ["x", 1]})
        with pytest.raises(InvalidArguments, match="/a/1: expected integer"):
            await session.call_tool("t", {"a": ["x", "y"]})
        server.result["structuredContent"] = {"a": ["x", 1]}
        assert (await session.call_tool("t", {"a": ["x", 1]})).findings == ()


PATTERNS: list[tuple[str, str, str]] = [
    (r"^\p{L}+$", "Zoë", "a1"),
    (r"^[\w-.]+$", "a-b.c", "a b"),
    (r"^\d+$", "12", "٣"),
    (r"^\cA$", "\x01", "A"),
    ("^[^]$", "\n", "ab"),
    (r"^\u{1F600}$", "😀", "u"),
    (r"^(?<y>\d{4})-\k<y>$", "1999-1999", "1999-2000"),
    ("^a$", "a", "a\n"),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), PATTERNS)
async def test_a_pattern_of_ecma_262_is_judged_and_shown_as_it_was_written(
    pattern: str, good: str, bad: str
) -> None:
    server = Server(of_member({"type": "string", "pattern": pattern}))
    async with connect(
        MemoryServer(server), approval=allow_all, validation=Validation(arguments="strict")
    ) as session:
        assert (await session.list_tools()).findings == ()
        await session.call_tool("t", {"a": good})
        with pytest.raises(InvalidArguments) as caught:
            await session.call_tool("t", {"a": bad})
        written = pattern.replace("\\", "\\\\")
        assert f'expected pattern "{written}"' in str(caught.value)
    assert server.called == [{"a": good}]


async def test_the_finding_stays_where_an_approver_edits_the_arguments() -> None:
    seen: list[ToolCall] = []

    async def approve(call: ToolCall) -> Allow:
        seen.append(call)
        return Allow(arguments={"n": 2}) if not call.edited else Allow()

    server = Server(of_member({"pattern": GREEK}))
    async with connect(MemoryServer(server), approval=approve) as session:
        await session.call_tool("t", {"n": 1})
    assert server.called == [{"n": 2}]
    edited = seen[0].with_arguments({"n": 3})
    assert kinds(edited.findings) == ["unchecked_arguments"]


async def test_an_empty_array_in_place_of_the_input_schema_is_an_empty_schema() -> None:
    server = Server()
    server.tool["inputSchema"] = []
    async with connect(MemoryServer(server), approval=allow_all) as session:
        tools = await session.list_tools()
        assert (tools.rejected, tools.findings) == ((), ())
        assert tools[0].input_schema == {}
        await session.call_tool("t", {"n": 1})
        assert [*session.stats.deviations.values()] == [1]
    assert server.tool["inputSchema"] == []


@pytest.mark.parametrize(
    ("takes", "gives"),
    [
        (of_member({"pattern": GREEK}), None),
        (of_member({}, allOf=[{"$ref": "#"}]), None),
        (of_member(TUPLE, **{"$schema": LATEST}), None),
        (None, {"$ref": "#/nowhere"}),
        ({"$schema": "https://example.com/own"}, None),
    ],
    ids=str,
)
async def test_a_rule_that_allows_the_tool_allows_it_all_the_same(takes: Any, gives: Any) -> None:
    server = Server(takes, gives)
    rules = Rules([Rule("allow", tool="t")])
    async with connect(MemoryServer(server), approval=rules) as session:
        await session.call_tool("t", {"n": 1})
    assert server.called == [{"n": 1}]
