"""Schemas as a caller meets them: through ``call_tool``, in both directions."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Allow, Finding, Limits, MemoryServer, ToolCall, ToolResult, connect
from mcp_client.errors import InvalidArguments, InvalidResult
from mcp_client.protocol.capabilities import LATEST_STATELESS
from mcp_client.validation import Validation
from mcp_client.validation.checker import checker_for
from mcp_client.validation.worker_pool import WorkerPool
from tests.support.properties import examples

pytestmark = pytest.mark.one_backend


async def judged(schema: Any, values: Sequence[Any]) -> list[bool]:
    """Whether each of ``values`` fits."""
    workers = WorkerPool()
    checker = checker_for(schema, Limits())
    fits = [
        checker.is_known_valid(value) or await checker.problem(value, workers, 10.0) is None
        for value in values
    ]
    await workers.aclose()
    return fits


class Server:
    """One tool ``t`` with the schemas given, which answers with the value given."""

    def __init__(self, *, input: Any = None, output: Any = None, value: Any = None) -> None:
        self.tool = {"name": "t", "inputSchema": {"type": "object"} if input is None else input}
        if output is not None:
            self.tool["outputSchema"] = output
        self.value = value
        self.called: list[dict[str, Any]] = []
        self.findings: list[Finding] = []

    def handle(self, message: dict[str, Any]) -> Any:
        match message["method"]:
            case "server/discover":
                return {"supportedVersions": [LATEST_STATELESS], "capabilities": {"tools": {}}}
            case "tools/list":
                return {"tools": [self.tool, {"name": "plain", "inputSchema": {}}]}
            case "tools/call":
                self.called.append(message["params"])
                return {"content": [], "structuredContent": self.value}
        return NotImplemented

    async def approve(self, call: ToolCall) -> Allow:
        self.findings += call.findings
        return Allow()

    async def call(self, arguments: Any = None, name: str = "t", **options: Any) -> ToolResult:
        transport = MemoryServer(self.handle)
        async with connect(transport, approval=self.approve, **options) as session:
            return await session.call_tool(name, arguments)


# ------------------------------------------------------------ any schema

scalars: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 0.5, "", "a", "bb"])
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)
TYPES = ["object", "array", "string", "integer", "number", "boolean", "null"]


def schema_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    size, bound = st.integers(0, 3), st.integers(-3, 3) | st.sampled_from([0.5, 1.0])
    some = st.lists(inner, min_size=1, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(TYPES)
        | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
        "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "additionalProperties": inner,
        "items": inner,
        "enum": st.lists(scalars, min_size=1, max_size=3),
        "const": values,
        "anyOf": some,
        "allOf": some,
        "oneOf": some,
        "not": inner,
        "minimum": bound,
        "maximum": bound,
        "exclusiveMinimum": bound,
        "exclusiveMaximum": bound,
        "minLength": size,
        "maxLength": size,
        "minItems": size,
        "maxItems": size,
        "minProperties": size,
        "maxProperties": size,
        "uniqueItems": st.booleans(),
        "description": st.just("about it"),
        "default": scalars,
    }
    few = st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True)
    return few.flatmap(lambda names: st.fixed_dictionaries({n: keywords[n] for n in names}))


schemas = st.recursive(st.booleans() | schema_of(st.booleans()), schema_of, max_leaves=4)


ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    10**20,
    0.5,
    1.0,
    -0.0,
    "",
    "a",
    "bb",
    "😀",
]
ODD_VALUES += [[], [1], [True], [1.0, "a"], {}, {"a": 1}, {"a": True}, {"a": 1.0}, {"b": None}]
SIMPLE: list[Any] = [True, False, *({"type": name} for name in TYPES)]
SIMPLE += [{"type": ["integer", "null"]}, {"type": ["boolean", "string"]}, {"required": ["a"]}]
SIMPLE += [
    {f"{keyword}{what}": size}
    for keyword in ("min", "max")
    for what in ("Length", "Items", "Properties")
    for size in (0, 1, 2)
]
SIMPLE += [
    {keyword: bound}
    for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    for bound in (-1, 0, 1, 0.5, 1.0)
]
SIMPLE += [{"const": value} for value in ODD_VALUES]
SIMPLE += [{"enum": [value, "other"]} for value in ODD_VALUES if value != "other"]
SIMPLE += [{"properties": {"a": False}, "additionalProperties": False}, {"not": {"const": 1}}]


@pytest.mark.parametrize(
    "around",
    [
        lambda schema: schema,
        lambda schema: {"properties": {"a": schema}},
        lambda schema: {"additionalProperties": schema},
        lambda schema: {"items": schema},
        lambda schema: {"anyOf": [schema, {"type": "array"}]},
        lambda schema: {"allOf": [schema, {"title": "x"}]},
    ],
    ids=["itself", "properties", "additionalProperties", "items", "anyOf", "allOf"],
)
def test_no_verdict_on_an_odd_value_differs_from_that_of_jsonschema(around: Any) -> None:
    for schema in map(around, SIMPLE):
        validator = jsonschema.Draft202012Validator(schema)
        verdicts = anyio.run(judged, schema, ODD_VALUES)
        for value, fits in zip(ODD_VALUES, verdicts, strict=True):
            assert fits is validator.is_valid(value), (schema, value)


@pytest.mark.slow
@given(schemas, values)
@examples(400)
def test_no_verdict_differs_from_that_of_jsonschema(schema: Any, value: Any) -> None:
    fits = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert anyio.run(judged, schema, [value]) == [fits]


@given(schemas, values)
@examples(60)
def test_a_result_is_taken_where_jsonschema_takes_it_and_nowhere_else(
    schema: Any, value: Any
) -> None:
    fits = jsonschema.Draft202012Validator(schema).is_valid(value)
    server = Server(output=schema, value=value)
    if fits:
        assert anyio.run(server.call).structured_content == value
    else:
        with pytest.raises(InvalidResult) as caught:
            anyio.run(server.call)
        assert caught.value.result.structured_content == value


# ------------------------------------------------------------------ paths

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 3},
        "a/b": {"type": "array", "items": {"type": "object", "properties": {"~": {"minimum": 0}}}},
    },
    "required": ["name"],
}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"name": 7}, "/name"),
    ({"name": "long name"}, "/name"),
    ({"name": "x", "a/b": {}}, "/a~1b"),
    ({"name": "x", "a/b": [{}, {"~": -1}]}, "/a~1b/1/~0"),
]


@pytest.mark.parametrize(("value", "path"), WRONG)
async def test_a_result_that_breaks_its_schema_is_raised_whole_and_with_the_place(
    value: dict[str, Any], path: str
) -> None:
    server = Server(output=PERSON, value=value)
    with pytest.raises(InvalidResult) as caught:
        await server.call()
    assert caught.value.path == path
    assert (path or "the whole value") in str(caught.value)
    assert caught.value.result.structured_content == value
    assert len(server.called) == 1


@pytest.mark.parametrize(("value", "path"), WRONG)
async def test_strict_refuses_such_arguments_with_the_place_and_sends_nothing(
    value: dict[str, Any], path: str
) -> None:
    server = Server(input=PERSON)
    with pytest.raises(InvalidArguments) as caught:
        await server.call(value, validation=Validation(arguments="strict"))
    assert caught.value.path == path
    assert (path or "the whole value") in str(caught.value)
    assert server.called == []


async def test_warn_lets_the_approver_see_what_is_wrong_with_the_arguments() -> None:
    server = Server(input=PERSON)
    await server.call({"name": 7})
    (finding,) = server.findings
    assert "/name" in str(finding)
    assert server.called[0]["arguments"] == {"name": 7}


async def test_warn_hands_the_result_over_with_a_finding() -> None:
    result = await Server(output=PERSON, value={"name": 7}).call(validation="warn")
    (finding,) = result.findings
    assert "/name" in str(finding)


async def test_off_does_not_look() -> None:
    server = Server(input=PERSON, output=PERSON, value=7)
    result = await server.call({}, validation=Validation(results="off", arguments="off"))
    assert (result.findings, server.findings) == ((), [])


async def test_a_message_shows_the_servers_text_safely_and_briefly() -> None:
    server = Server(output={"const": "x"}, value="\x1b[2J" + "y" * 100_000)
    with pytest.raises(InvalidResult) as caught:
        await server.call()
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1_000


# -------------------------------------------------------- unusable schemas

UNUSABLE: list[tuple[str, Any]] = [
    ("unknown dialect", {"$schema": "https://example.com/my-dialect", "type": "object"}),
    ("unknown type", {"type": "objekt"}),
    ("no schema inside", {"type": "object", "properties": {"a": 7}}),
    ("required is not a list", {"type": "object", "required": "a"}),
]


@pytest.mark.parametrize("schema", [row[1] for row in UNUSABLE], ids=[row[0] for row in UNUSABLE])
@pytest.mark.parametrize("side", ["input", "output"])
async def test_a_schema_that_cannot_be_used_costs_no_call(schema: Any, side: str) -> None:
    server = Server(**{side: schema})
    await server.call({"a": 1})
    await server.call(name="plain")


async def test_a_schema_of_an_older_dialect_is_judged_by_that_dialect() -> None:
    draft4 = "http://json-schema.org/draft-04/schema#"
    schema = {"$schema": draft4, "minimum": 1, "exclusiveMinimum": True}
    with pytest.raises(InvalidResult):
        await Server(output=schema, value=1).call()
    assert (await Server(output=schema, value=2).call()).structured_content == 2


async def test_a_reference_inside_the_schema_is_followed() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}}
    assert (await Server(output=schema, value=[1]).call()).structured_content == [1]
    with pytest.raises(InvalidResult) as caught:
        await Server(output=schema, value=[1, "x"]).call()
    assert caught.value.path == "/1"


@pytest.mark.parametrize("scheme", ["http", "file"])
@pytest.mark.parametrize("side", ["input", "output"])
async def test_a_reference_to_elsewhere_is_skipped_and_never_fetched(
    scheme: str, side: str, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "schema.json"
    elsewhere.write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/schema.json"
        reference = address if scheme == "http" else elsewhere.as_uri()
        server = Server(**{side: {"type": "object", "properties": {"a": {"$ref": reference}}}})
        server.value = {"a": 1}
        result = await server.call({"a": 1})
        found = server.findings if side == "input" else result.findings
        assert reference[:20] in str(found[0])
        with pytest.raises(BlockingIOError):
            listening.accept()
