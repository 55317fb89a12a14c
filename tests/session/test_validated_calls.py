"""Schemas in the life of a call: strict, warn and off, per connection and per call."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any, cast

import pytest

from mcp_client import (
    Allow,
    ConfigError,
    Limits,
    MemoryServer,
    Timeouts,
    ToolCall,
    allow_all,
    connect,
)
from mcp_client.adapters import gemini
from mcp_client.errors import InvalidArguments, InvalidResult, InvalidSchema
from mcp_client.session.tool_validation import arguments_finding, log_problem
from mcp_client.validation import Strictness, Validation
from mcp_client.validation.checker import Problem
from tests.support.timing import loop_lag

pytestmark = pytest.mark.one_backend

RUNAWAY = {"pattern": "^(a+)+$"}
NEVER_ENDS = "a" * 64 + "!"
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
OPEN: dict[str, Any] = {"type": "object"}


class Server:
    """One tool; counts how often it ran."""

    def __init__(self, output: Any = None, content: Any = None, takes: Any = OPEN) -> None:
        self.tool: dict[str, Any] = {"name": "t", "inputSchema": takes}
        if output is not None:
            self.tool["outputSchema"] = output
        self.result: dict[str, Any] = {"content": [{"type": "text", "text": "kept"}]}
        if content is not None:
            self.result["structuredContent"] = content
        self.ran = 0

    def __call__(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "tools/list":
                return {"tools": [self.tool]}
            case "tools/call":
                self.ran += 1
                return self.result
        return NotImplemented


async def test_a_result_that_breaks_its_schema_is_an_error_that_keeps_it_whole() -> None:
    server = Server(NUMBER, {"n": "seven"})
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with pytest.raises(InvalidResult) as caught:
            await session.call_tool("t")
    assert caught.value.path == "/n"
    assert 'expected integer, got "seven"' in str(caught.value)
    assert "the tool ran" in str(caught.value)
    assert caught.value.result.text == "kept"
    assert caught.value.result.structured_content == {"n": "seven"}


async def test_warn_hands_the_result_over_with_a_finding_and_off_without() -> None:
    server = Server(NUMBER, {"n": "seven"})
    reported: list[tuple[Strictness, int]] = [("warn", 1), ("off", 0)]
    for strictness, findings in reported:
        async with connect(
            MemoryServer(server),
            approval=allow_all,
            validation=strictness,
        ) as session:
            result = await session.call_tool("t")
        assert result.text == "kept"
        assert len(result.findings) == findings


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Validation(results=cast(Any, "hard")), r"^Validation\(results\)='hard'"),
        (lambda: Validation(arguments=cast(Any, 3)), r"^Validation\(arguments\)=3"),
        (lambda: connect("https://a.example", validation=cast(Any, None)), r"^validation=None"),
        (
            lambda: connect("https://a.example", argument_validation="off"),  # type: ignore
            "has no option 'argument_validation'",
        ),
    ],
)
def test_a_wrong_strictness_is_refused_where_it_is_written(make: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make()


async def test_one_call_may_be_judged_otherwise_than_its_connection() -> None:
    server = Server(NUMBER, {"n": "seven"})
    async with connect(MemoryServer(server), approval=allow_all) as session:
        assert (await session.call_tool("t", validation="warn")).findings
        assert not (await session.call_tool("t", validation="off")).findings
        with pytest.raises(ConfigError, match="validation='maybe'"):
            await session.call_tool("t", validation="maybe")  # type: ignore[arg-type]
        assert server.ran == 2
    async with connect(MemoryServer(server), approval=allow_all, validation="off") as session:
        with pytest.raises(InvalidResult):
            await session.call_tool("t", validation="strict")


async def test_a_missing_structured_content_is_reported() -> None:
    async with connect(MemoryServer(Server(NUMBER)), approval=allow_all) as session:
        with pytest.raises(InvalidResult, match="expected structuredContent"):
            await session.call_tool("t")


async def test_a_result_whose_output_schema_fails_in_use_is_not_judged() -> None:
    loop = {"allOf": [{"$ref": "#/$defs/a"}]}
    endless = {"properties": {"n": {"$ref": "#/$defs/a"}}, "$defs": {"a": loop}}
    server = Server({"type": "object", **endless}, {"n": 1})
    async with connect(MemoryServer(server), approval=allow_all) as session:
        result = await session.call_tool("t")
    assert result.structured_content == {"n": 1}
    assert [one.kind for one in result.findings] == ["unchecked_result"]
    assert "refers to itself" in str(result.findings[0])


@pytest.mark.parametrize(
    ("output", "content"), [({"type": "array"}, [1]), ({"type": "string"}, "x"), (True, 7)]
)
async def test_an_output_schema_whose_root_is_not_an_object_works(
    output: Any, content: Any
) -> None:
    async with connect(MemoryServer(Server(output, content)), approval=allow_all) as session:
        assert (await session.call_tool("t")).structured_content == content


async def test_arguments_that_break_their_schema_are_shown_to_the_hook_and_the_call_goes_on() -> (
    None
):
    seen: list[ToolCall] = []

    async def approve(call: ToolCall) -> Allow:
        seen.append(call)
        return Allow()

    server = Server(takes=NUMBER)
    async with connect(MemoryServer(server), approval=approve) as session:
        await session.call_tool("t", {"n": None})
    assert server.ran == 1
    assert "/n: expected integer, got null" in str(seen[0].findings[0])


async def test_strict_arguments_stop_the_call_before_anybody_is_asked() -> None:
    server = Server(takes=NUMBER)
    asked: list[ToolCall] = []

    async def approve(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    async with connect(
        MemoryServer(server), approval=approve, validation=Validation(arguments="strict")
    ) as session:
        with pytest.raises(InvalidArguments, match="/n: expected integer") as caught:
            await session.call_tool("t", {"n": None})
    assert caught.value.path == "/n"
    assert not asked
    assert not server.ran


async def test_a_second_thing_that_is_wrong_is_reported_logged_and_asked_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    takes = {**NUMBER, "required": ["a", "b"]}
    seen: list[ToolCall] = []

    async def approve(call: ToolCall) -> Allow:
        seen.append(call)
        return Allow()

    caplog.set_level(logging.DEBUG)
    async with connect(MemoryServer(Server(takes=takes)), approval=approve) as session:
        for number in (1, "two"):
            await session.call_tool("t", {"a": 1, "n": number})
    one, both = [call.findings[0] for call in seen]
    assert "; at /n: expected integer" not in one.text
    assert both.text.endswith('; at /n: expected integer, got "two"')
    assert both.about == f"{one.about}; /n: string"
    (*_, record) = [
        one for one in caplog.records if "is not valid for the schema" in one.getMessage()
    ]
    assert record.getMessage().endswith("is not valid for the schema at the whole value, /n")
    assert record.levelno == logging.DEBUG


async def test_more_wrong_places_than_are_shown_are_asked_about_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = [f"p{number}" for number in range(40)]
    takes = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    asked: list[Any] = []

    async def approve(call: ToolCall) -> Allow:
        asked.append(call.findings[0].about)
        return Allow()

    async with connect(MemoryServer(Server(takes=takes)), approval=approve) as session:
        for some in (names, names[:-1]):
            await session.call_tool("t", dict.fromkeys(some, "x"))
    assert asked[0] != asked[1]


async def test_arguments_of_a_kind_that_only_jsonschema_knows_are_found_to_be_right() -> None:
    takes = {"type": "object", "properties": {"n": {"not": {"const": 1}}}}
    seen: list[ToolCall] = []

    async def approve(call: ToolCall) -> Allow:
        seen.append(call)
        return Allow()

    async with connect(MemoryServer(Server(takes=takes)), approval=approve) as session:
        await session.call_tool("t", {"n": 2})
        await session.call_tool("t", {"n": 1})
    assert [len(call.findings) for call in seen] == [0, 1]


async def test_an_edited_argument_is_judged_too() -> None:
    async def approve(call: ToolCall) -> Allow:
        return Allow(arguments={"n": "no"})

    server = Server(takes=NUMBER)
    async with connect(
        MemoryServer(server), approval=approve, validation=Validation(arguments="strict")
    ) as session:
        with pytest.raises(InvalidArguments):
            await session.call_tool("t", {"n": 1})
    assert not server.ran


async def test_a_cap_of_the_connection_holds_for_its_schemas() -> None:
    server = Server({"type": "object", "title": "x" * 200}, {})
    limits = Limits(schema_bytes=100)
    async with connect(MemoryServer(server), approval=allow_all, limits=limits) as session:
        with pytest.raises(InvalidSchema, match="schema_bytes"):
            await session.call_tool("t")


@pytest.mark.slow
@pytest.mark.both_backends
async def test_a_runaway_pattern_ends_with_its_budget_and_the_result_is_left() -> None:
    server = Server({"properties": {"a": RUNAWAY}}, {"a": NEVER_ENDS})
    async with (
        connect(
            MemoryServer(server), approval=allow_all, timeouts=Timeouts(validation=0.3)
        ) as session,
        loop_lag() as lag,
    ):
        for validation in ("strict", "warn"):
            result = await session.call_tool("t", validation=validation)
            (finding,) = result.findings
            assert finding.kind == "unchecked_result"
            assert "within 0.3 s (Timeouts.validation)" in str(finding)
            assert result.structured_content == {"a": NEVER_ENDS}
    assert lag.worst < 5


@pytest.mark.slow
@pytest.mark.both_backends
async def test_a_runaway_input_pattern_is_a_finding_and_strict_stops_the_call() -> None:
    server = Server(takes={"type": "object", "properties": {"a": RUNAWAY}})
    both: list[Strictness] = ["warn", "strict"]
    for strictness in both:
        async with connect(
            MemoryServer(server),
            approval=allow_all,
            validation=Validation(arguments=strictness),
            timeouts=Timeouts(validation=0.2),
        ) as session:
            if strictness == "strict":
                with pytest.raises(InvalidArguments, match="could not be checked"):
                    await session.call_tool("t", {"a": NEVER_ENDS})
            else:
                await session.call_tool("t", {"a": NEVER_ENDS})
    assert server.ran == 1


@pytest.mark.slow
async def test_a_models_call_goes_out_where_its_arguments_were_not_judged_in_time() -> None:
    seen: list[ToolCall] = []

    async def approve(call: ToolCall) -> Allow:
        seen.append(call)
        return Allow()

    server = Server(takes={"type": "object", "properties": {"a": RUNAWAY}})
    async with connect(
        MemoryServer(server), approval=approve, timeouts=Timeouts(validation=0.2)
    ) as session:
        kit = gemini.toolset(await session.list_tools())
        call = {"function_call": {"name": "t", "args": {"a": NEVER_ENDS}}}
        await kit.run(session, {"role": "model", "parts": [call]})
    assert server.ran == 1
    assert [one.kind for one in seen[0].findings] == ["unchecked_arguments"]


async def test_closing_the_session_ends_its_worker_after_the_check_under_way() -> None:
    server = Server({"type": "object", **RUNAWAY, "maxProperties": 9}, {"a": 1})
    server.tool["outputSchema"]["properties"] = {"a": {"multipleOf": 2, **RUNAWAY}}
    session = await connect(MemoryServer(server), approval=allow_all)
    server.result["structuredContent"] = {"a": "a" * 64}
    assert (await session.call_tool("t")).text == "kept"
    assert session._workers._idle
    await session.aclose()
    assert not session._workers._idle


def test_importing_and_an_ordinary_call_load_no_jsonschema() -> None:
    code = (
        "import sys, mcp_client\n"
        "from mcp_client.validation.checker import checker_for\n"
        "from mcp_client import Limits\n"
        "c = checker_for({'type': 'object', 'properties': {'a': {'type': 'string'}}}, Limits())\n"
        "assert c.is_known_valid({'a': 'x'})\n"
        "loaded = {'jsonschema', 'referencing', 'subprocess_worker'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_place_has_the_same_name_in_log_record_and_sentence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    problem = Problem("", "object", "1")
    log_problem("result", "desk", "tool", problem)
    finding = arguments_finding(problem, "text", {})
    assert caplog.messages == [
        "desk/tool: the result is not valid for the schema at the whole value"
    ]
    assert str(problem).startswith("the whole value: ")
    assert finding.about.startswith("the whole value: ")
