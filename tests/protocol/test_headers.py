from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.connection import Implementation
from mcp_client.errors import InvalidArguments
from mcp_client.protocol.capabilities import ClientDeclaration, ServerFacts
from mcp_client.protocol.era import StatelessEra
from mcp_client.protocol.headers import (
    InvalidHeaderParam,
    header_params_of,
    header_value,
    mirrored,
)


def _schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _marked(name: Any, kind: Any = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": name}


def _decoded(value: str) -> str:
    if value.startswith("=?base64?") and value.endswith("?="):
        return b64decode(value[9:-2]).decode()
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("us-west1", "us-west1"),
        ("", ""),
        ("us west 1", "us west 1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("\tindented", "=?base64?CWluZGVudGVk?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?open", "=?base64?open"),
    ],
)
def test_a_value_goes_as_it_is_or_in_base64(text: str, value: str) -> None:
    assert header_value(text) == value


@given(st.text())
def test_any_text_survives_a_header(text: str) -> None:
    value = header_value(text)
    assert value.isascii() and value.strip() == value
    assert all(" " <= char <= "~" for char in value)
    assert _decoded(value) == text


@pytest.mark.parametrize(
    ("method", "fields", "name"),
    [
        ("tools/call", {"name": "get_weather"}, "get_weather"),
        ("prompts/get", {"name": "größe"}, "=?base64?Z3LDtsOfZQ==?="),
        ("resources/read", {"uri": "file:///a%20b"}, "file:///a%20b"),
        ("tools/list", {"name": "not this"}, None),
        ("tools/call", {}, None),
    ],
)
def test_method_and_name_are_repeated(method: str, fields: dict[str, Any], name: Any) -> None:
    client = ClientDeclaration(Implementation("test", "1"), {})
    headers = StatelessEra("2026-07-28", ServerFacts.from_wire({}, None), client).headers(
        method, fields
    )
    assert headers["Mcp-Method"] == method
    assert headers.get("Mcp-Name") == name


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (_schema(a=_marked("")), "empty"),
        (_schema(a=_marked(7)), "not a string"),
        (_schema(a=_marked("A B")), "field name"),
        (_schema(a=_marked("A:B")), "field name"),
        (_schema(a=_marked("é")), "field name"),
        (_schema(a=_marked("A\tB")), "field name"),
        (_schema(a=_marked("A\r\nB")), "field name"),
        (_schema(a=_marked("A", "number")), "not on a string, integer or boolean"),
        (_schema(a=_marked("A", "object")), "not on a string, integer or boolean"),
        (_schema(a=_marked("A", "array")), "not on a string, integer or boolean"),
        (_schema(a=_marked("A", "null")), "not on a string, integer or boolean"),
        (_schema(a=_marked("A", ["null"])), "not on a string, integer or boolean"),
        (_schema(a=_marked("A", ["string", "number"])), "not on a string, integer or boolean"),
        (_schema(a=_marked("A", [["string"]])), "not on a string, integer or boolean"),
        (_schema(a={"x-mcp-header": "A"}), "not on a string, integer or boolean"),
        (_schema(a=_marked("A"), b=_marked("A")), "already used by a"),
        (_schema(a=_marked("Field"), b=_marked("fIELD")), "already used by a"),
        ({"type": "string", "x-mcp-header": "A"}, "'properties' alone"),
        (_schema(a={"type": "array", "items": _marked("A")}), "'properties' alone"),
        (_schema(a={"items": {"properties": {"b": _marked("A")}}}), "'properties' alone"),
        ({"oneOf": [_schema(a=_marked("A"))]}, "'properties' alone"),
        ({"anyOf": [_schema(a=_marked("A"))]}, "'properties' alone"),
        ({"allOf": [_schema(a=_marked("A"))]}, "'properties' alone"),
        ({"not": _schema(a=_marked("A"))}, "'properties' alone"),
        ({"if": {}, "then": _schema(a=_marked("A"))}, "'properties' alone"),
        ({"else": _schema(a=_marked("A"))}, "'properties' alone"),
        ({"$defs": {"d": _schema(a=_marked("A"))}}, "'properties' alone"),
        ({"additionalProperties": _marked("A")}, "'properties' alone"),
        ({"patternProperties": {"^a": _marked("A")}}, "'properties' alone"),
    ],
)
def test_a_mark_that_breaks_a_rule_is_refused_with_its_reason(schema: Any, reason: str) -> None:
    with pytest.raises(InvalidHeaderParam, match=reason):
        header_params_of(schema)


@pytest.mark.parametrize(
    "schema",
    [
        _schema(a={"type": "string", "default": {"x-mcp-header": ""}}),
        _schema(a={"enum": [{"x-mcp-header": ""}]}),
        _schema(**{"x-mcp-header": {"type": "array"}}),
        {"type": "object"},
    ],
)
def test_what_only_looks_like_a_mark_is_none(schema: Any) -> None:
    assert header_params_of(schema) == ()


def test_marked_arguments_are_repeated_in_their_own_form() -> None:
    inner = {"type": "object", "properties": {"deep": _marked("Deep")}}
    mirrors = header_params_of(
        _schema(
            text=_marked("Text"),
            whole=_marked("Whole", "integer"),
            yes=_marked("Yes", "boolean"),
            no=_marked("No", "boolean"),
            maybe=_marked("Maybe", ["string", "null"]),
            absent=_marked("Absent"),
            inner=inner,
            float=_marked("Float", "integer"),
            wrong=_marked("Wrong"),
            plain={"type": "number"},
        )
    )
    arguments = {
        "text": "",
        "whole": -7,
        "yes": True,
        "no": False,
        "maybe": None,
        "inner": {"deep": "x"},
        "float": 42.0,
        "wrong": ["x"],
        "plain": 1.5,
    }
    assert mirrored(mirrors, json.dumps(arguments)) == {
        "Mcp-Param-Text": "",
        "Mcp-Param-Whole": "-7",
        "Mcp-Param-Yes": "true",
        "Mcp-Param-No": "false",
        "Mcp-Param-Deep": "x",
        "Mcp-Param-Float": "42",
    }


@pytest.mark.parametrize("beyond", [2**53, -(2**53), 10**400])
def test_an_integer_javascript_cannot_hold_is_not_sent(beyond: int) -> None:
    mirrors = header_params_of(_schema(n=_marked("N", "integer")))
    assert mirrored(mirrors, f'{{"n":{2**53 - 1}}}') == {"Mcp-Param-N": str(2**53 - 1)}
    with pytest.raises(InvalidArguments):
        mirrored(mirrors, f'{{"n":{beyond}}}')
