"""A signature shows how a script calls a tool, and contains no code of a server."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Tool
from mcp_client.code.bindings import signature_of, spell

HOSTILE = [
    'x"""\nimport os\nos.system("touch /tmp/out")\n"""',
    "x'''\nimport os\n'''",
    "x\\",
    'x\\"""',
    "): pass\nimport os\ndef f(",
    "__import__('os').system('id')",
    "class",
    "await",
    "x: int = __import__('os')",
    "\u202ex",
    "x\r\nimport os",
    "x\x0cimport os",
    "x\u2028import os",
    "{x.__class__}",
    "%s%n",
    "\ud800",
    "",
    "self",
    "print",
    "None",
    "\uff49\uff4d\uff50\uff4f\uff52\uff54",
    "a" * 10_000,
]


def tool_of(name: str = "get_weather", server: str = "weather", **definition: Any) -> Tool:
    whole = {"name": name, "inputSchema": {"type": "object"}, **definition}
    return Tool(name, server, False, whole)


def taking(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def is_data(text: str) -> bool:
    """Whether it declares one method of one class, and types, and does nothing."""
    *types, of_server = ast.parse(text).body
    assert isinstance(of_server, ast.ClassDef)
    (method,) = of_server.body
    assert isinstance(method, ast.AsyncFunctionDef)
    (doc,) = method.body
    assert isinstance(doc, ast.Expr)
    assert isinstance(doc.value, ast.Constant)
    names = {"TypedDict", "NotRequired", "Literal", "Any", "Union", "dict", "list"}
    for one in types:
        assert isinstance(one, ast.ClassDef | ast.Assign)
    for node in ast.walk(ast.parse(text)):
        assert not isinstance(
            node, ast.Import | ast.ImportFrom | ast.Attribute | ast.Await | ast.Lambda
        )
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            assert node.func.id in names
    assert not method.decorator_list
    for default in filter(None, method.args.kw_defaults):
        assert isinstance(default, ast.Constant | ast.UnaryOp)
    return True


def test_a_signature_reads_as_typed_python() -> None:
    schema = taking(
        location={"type": "string", "description": "A\ncity."},
        days={"type": "integer", "default": 3},
        unit={"enum": ["c", "f"]},
    )
    result = {"type": "object", "properties": {"t": {"type": "number"}}, "required": ["t"]}
    tool = tool_of(
        description="The weather.",
        inputSchema={**schema, "required": ["location"]},
        outputSchema=result,
    )
    assert (
        signature_of(tool)
        == '''class GetWeatherResult(TypedDict):
    t: float

class weather:
    async def get_weather(*, location: str, days: int = 3, unit: Literal["c", "f"] = ...) \
-> GetWeatherResult:
        """The weather.

        location: A city.
        """'''
    )


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "object"}, "get_weather() -> str | Any:"),
        ({"anyOf": [{"type": "object"}]}, "get_weather(**arguments: Any) -> str | Any:"),
        (taking(a={"default": "x"}), 'get_weather(*, a: Any = "x") -> str | Any:'),
        (taking(a={"type": "boolean", "default": True}), "(*, a: bool = True)"),
        (taking(a={"default": None}), "(*, a: Any = None)"),
        (taking(a={"default": -1.5}), "(*, a: Any = -1.5)"),
        (taking(a={"default": "x" * 40}), f'(*, a: Any = "{"x" * 40}")'),
        (taking(a={"default": "x" * 41}), "(*, a: Any = ...)"),
        (taking(a={"default": 10**400}), "(*, a: Any = ...)"),
        (taking(a={"default": [1]}), "(*, a: Any = ...)"),
        (taking(a=7), "(*, a: Any = ...)"),
        ({"type": "object", "properties": 7}, "get_weather()"),
    ],
)
def test_what_a_schema_allows_and_does_not_allow(schema: Any, written: str) -> None:
    text = signature_of(tool_of(inputSchema=schema))
    assert written in text
    assert is_data(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_server_becomes_code(text: str) -> None:
    places: dict[str, dict[str, Any]] = {
        "name": {"name": text},
        "server": {"server": text},
        "description": {"description": text},
        "title": {"title": text},
        "parameter": {"inputSchema": taking(**{text: {"type": "string"}})},
        "about": {"inputSchema": taking(a={"description": text})},
        "default": {"inputSchema": taking(a={"default": text})},
        "enum": {"inputSchema": taking(a={"enum": [text]})},
        "member": {"outputSchema": taking(**{text: {"type": "string"}})},
    }
    for place, where in places.items():
        assert is_data(signature_of(tool_of(**where))), place


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from(HOSTILE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
schemas = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(
            st.text(max_size=9) | st.sampled_from(HOSTILE),
            st.fixed_dictionaries(
                {},
                optional={
                    "type": st.sampled_from(["string", "object", "array", "null", "what"]),
                    "enum": json_values,
                    "default": json_values,
                    "description": json_values,
                    "items": json_values,
                    "properties": json_values,
                },
            ),
            max_size=4,
        ),
        "required": json_values,
        "anyOf": json_values,
        "$ref": json_values,
    },
)


@pytest.mark.slow
@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=60), schemas, schemas)
def test_whatever_a_server_lists_is_data(
    name: str, server: str, description: str, takes: Any, gives: Any
) -> None:
    tool = tool_of(name, server, description=description, inputSchema=takes, outputSchema=gives)
    assert is_data(signature_of(tool))


@pytest.mark.parametrize(
    "schema",
    [
        taking(**{f"p{n}": {"enum": ["x" * 50] * 90} for n in range(150)}),
        taking(**{f"p{n}": {"type": "string"} for n in range(10_000)}),
        taking(**{f"p{'x' * 50}{n}": {"type": "string"} for n in range(199)}),
        taking(a=taking(**{f"p{n}": taking(b={"type": "string"}) for n in range(900)})),
    ],
)
def test_a_signature_is_bounded_however_large_a_schema_is(schema: Any) -> None:
    text = signature_of(tool_of(inputSchema=schema, description="x" * 100_000))
    assert len(text) <= 20_000
    assert is_data(text)


def test_names_are_those_that_scripts_call() -> None:
    tool = tool_of("get-weather", "os", inputSchema=taking(**{"for": {"type": "string"}}))
    text = signature_of(tool)
    assert f"async def {spell('get-weather')}(*, {spell('for')}: str = ...)" in text
    assert "class os:" not in text
    assert json.dumps(text).isascii()
