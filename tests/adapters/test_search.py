"""Two tools in place of many: the model searches, and the real tool is called."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_client import Allow, ToolCall
from tests.adapters.schemas import tool_of
from tests.adapters.shapes import CHAT, Provider, every_provider
from tests.adapters.worlds import opened

CALENDAR = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
TOOLS = [
    tool_of(CALENDAR, "calendar.create_event", description="Put an appointment into a calendar."),
    tool_of({"type": "object"}, "mail__send", description="Send a letter by electronic mail."),
    *[tool_of({"type": "object"}, f"other_{n}", description="Nothing of use.") for n in range(50)],
]


@every_provider
@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_the_two_tools_are_the_same_whatever_can_be_found(provider: Provider, strict: bool) -> None:
    few = provider.toolset(TOOLS[:1], search=True, strict=strict)
    many = provider.toolset(TOOLS, search=True, strict=strict)
    assert json.dumps(few.tools) == json.dumps(many.tools)
    assert [one["name"] for one in provider.declarations(few)] == ["search_tools", "call_tool"]
    assert provider.schemas(few)["search_tools"]["required"] == ["query"]
    assert set(provider.schemas(few)["call_tool"]["properties"]) == {"name", "arguments"}
    assert few.updated(TOOLS).tools == few.tools
    if strict:
        assert any("call_tool" in change for change in few.changes)


@every_provider
async def test_a_search_is_answered_without_a_call_and_with_what_a_call_needs(
    provider: Provider,
) -> None:
    kit = provider.toolset(TOOLS, search=True)
    response = provider.response([("1", "search_tools", {"query": "calendar appointment"})])
    (call,) = kit.calls(response)
    assert call.answer is not None
    ((_, said),) = provider.answers(await kit.run(None, response))
    first = json.loads(said.splitlines()[1])
    assert first["server"] == "server"
    assert first["description"] == "Put an appointment into a calendar."
    assert first["arguments"] == CALENDAR
    assert kit.names[first["name"]] == "calendar.create_event"
    nothing = provider.response([("1", "search_tools", {"query": "zzz"})])
    ((_, said),) = provider.answers(await kit.run(None, nothing))
    assert said == "No tool was found. Search with other words."


@every_provider
async def test_the_gate_and_the_server_see_the_real_tool(provider: Provider) -> None:
    asked: list[ToolCall] = []
    ran: list[Any] = []

    def server(message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                return {"tools": [{"name": "calendar.create_event", "inputSchema": CALENDAR}]}
            case "tools/call":
                ran.append(message["params"])
                return {"content": [{"type": "text", "text": "done"}]}
        return NotImplemented

    def approve(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    async with opened(server, approval=approve) as session:
        kit = provider.toolset(await session.list_tools(), search=True)
        shown = next(iter(kit.names))
        wanted = [
            ("1", "call_tool", {"name": shown, "arguments": {"title": "a"}}),
            ("2", "call_tool", {"name": "calendar.create_event", "arguments": '{"title": "b"}'}),
            ("3", shown, {"title": "c"}),
            ("4", "call_tool", {"name": "calendar_create", "arguments": {}}),
            ("5", "call_tool", {"arguments": {}}),
            ("6", "search_tools", {}),
            ("7", "made_up", {}),
            ("8", "call_tool", {"name": shown, "arguments": [1]}),
        ]
        answers = provider.answers(await kit.run(session, provider.response(wanted)))
    assert [id for id, _ in answers] == list("12345678")
    texts = [said for _, said in answers]
    assert all(said.endswith("\ndone") for said in texts[:3])
    assert f"Did you mean {shown}?" in texts[3]
    assert "Use search_tools" in texts[3]
    assert "Give the argument 'name'" in texts[4]
    assert "Give the argument 'query'" in texts[5]
    assert "Unknown tool 'made_up'" in texts[6]
    assert "not a JSON object" in texts[7]
    assert {call.tool.name for call in asked} == {"calendar.create_event"}
    assert sorted(one["arguments"]["title"] for one in ran) == ["a", "b", "c"]


def test_an_answer_is_not_flooded_by_large_definitions() -> None:
    huge = {"type": "object", "description": "calendar " * 2_000}
    tools = [tool_of(huge, f"calendar_{n}") for n in range(20)]
    kit = CHAT.toolset(tools, search=True)
    (call,) = kit.calls(CHAT.response([("1", "search_tools", {"query": "calendar"})]))
    assert call.answer is not None
    assert 0 < len(call.answer) < 60_000


def test_a_tool_that_is_too_large_for_an_answer_is_named_without_its_schema() -> None:
    names = {f"calendar_{n}": {"type": "string", "description": "x" * 60} for n in range(10_000)}
    huge = tool_of({"type": "object", "properties": names}, "calendar", description="y" * 90_000)
    kit = CHAT.toolset([huge], search=True)
    (call,) = kit.calls(CHAT.response([("1", "search_tools", {"query": "calendar"})]))
    assert call.answer is not None
    assert len(call.answer) < 10_000
    found = json.loads(call.answer.splitlines()[1])
    assert found["name"] == "calendar"
    assert "not shown" in found["arguments"]


def test_a_later_toolset_finds_its_own_tools_and_the_earlier_one_still_its() -> None:

    def found(kit: Any, query: str) -> list[str]:
        (call,) = kit.calls(CHAT.response([("1", "search_tools", {"query": query})]))
        return [json.loads(line)["name"] for line in call.answer.splitlines()[1:]]

    kit = CHAT.toolset(TOOLS, search=True)
    assert found(kit, "letter electronic mail") == ["mail__send"]
    again = tool_of({"type": "object"}, "mail__send", description=TOOLS[1].description)
    fax = tool_of({"type": "object"}, "fax__send", description="Send a letter by telephone.")
    later = kit.updated([again, fax])
    assert sorted(found(later, "letter")) == ["fax__send", "mail__send"]
    assert found(kit, "letter") == ["mail__send"]
    assert found(later, "calendar") == []
