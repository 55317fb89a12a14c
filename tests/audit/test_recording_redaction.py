"""The record of a session is without secrets in every part of every message."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Handlers, MemoryServer, allow_all, connect
from mcp_client.audit import Redaction
from mcp_client.audit.redacted_content import SessionRecord
from mcp_client.errors import McpError
from mcp_client.handlers import Accept
from mcp_client.testing import Recording, ReplayServer

SECRET = "Quiet-Zebra-5518"
TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"

SHAPES: dict[str, Any] = {
    "member": {"password": SECRET},
    "member of a member": {"a": [{"db": {"dbPassword": SECRET}}]},
    "number": {"a": 1, "pin": 66031827},
    "all of an object": {"credentials": {"user": SECRET, "of": [SECRET]}},
    "name of a member": {"a": {TOKEN: 1}},
    "name that is JSON": {json.dumps({"password": SECRET}): True},
    "pair": {"fields": [{"name": "Password", "value": SECRET}]},
    "words": {"args": ["login", "--token", SECRET]},
    "JSON in text": {"body": json.dumps({"password": SECRET})},
    "JSON in JSON in text": json.dumps({"body": json.dumps({"password": SECRET})}),
    "JSON within a text": f"sent {json.dumps({'a': 1, 'password': SECRET})} to it",
    "assignment": f"password={SECRET}",
    "header": f"Cookie: sid={SECRET}",
    "URL": f"postgres://app:{SECRET}@db/x",
    "percent": f"a%20b&password%3D{SECRET}",
    "base64 of JSON": base64.b64encode(json.dumps({"password": SECRET}).encode()).decode(),
    "look": f"use {TOKEN} here",
    "a long text": "x " * 5_000 + f"password={SECRET} " + "y " * 5_000,
    "long JSON": json.dumps({"a": ["x" * 9_000] * 9, "password": SECRET}),
}
GONE = (SECRET, TOKEN, "66031827", base64.b64encode(SECRET.encode()).decode()[:16])


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"said": value}


class Speaker:
    """A server that sends ``shape`` in one place, as a test chooses."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape
        self.place = ""

    def __call__(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        match message.get("method"):
            case "initialize":
                return {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}},
                    "serverInfo": {"name": "s", "version": "1"},
                    "instructions": as_text(self.shape),
                }
            case "tools/list":
                schema = {"type": "object", "properties": {"password": {"type": "string"}}}
                about = as_text(self.shape)
                more = {"_meta": as_object(self.shape)}
                return {
                    "tools": [{"name": "t", "description": about, "inputSchema": schema, **more}]
                }
            case "resources/list":
                return {"resources": [{"uri": "a:b", "name": as_text(self.shape)}]}
            case "resources/read":
                return {"contents": [{"uri": "a:b", "text": as_text(self.shape)}]}
            case "prompts/list":
                return {"prompts": [{"name": "p", "description": as_text(self.shape)}]}
            case "prompts/get":
                block = {"type": "text", "text": as_text(self.shape)}
                return {"messages": [{"role": "user", "content": block}]}
            case "tools/call":
                return self.called(message, send)
        return NotImplemented if "method" in message else None

    def called(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        shape, id = self.shape, message["id"]
        text = {"type": "text", "text": as_text(shape)}
        resource = {"uri": "a:b", "text": as_text(shape), "_meta": as_object(shape)}
        error = {"code": -32000, "message": as_text(shape), "data": shape}
        match self.place:
            case "text block":
                return {"content": [text]}
            case "structured content":
                return {"content": [], "structuredContent": as_object(shape)}
            case "embedded resource":
                return {"content": [{"type": "resource", "resource": resource}]}
            case "link":
                return {"content": [{"type": "resource_link", "uri": "a:b", "name": text["text"]}]}
            case "_meta":
                return {"content": [{**text, "_meta": as_object(shape)}], "_meta": as_object(shape)}
            case "error of a tool":
                return {"content": [text], "isError": True}
            case "error":
                return send({"jsonrpc": "2.0", "id": id, "error": error})
            case "notices":
                token = message["params"]["_meta"]["progressToken"]
                log = {"level": "info", "data": shape}
                progress = {"progressToken": token, "progress": 1, "message": as_text(shape)}
                for method, params in [("message", log), ("progress", progress)]:
                    send({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params})
                send({"jsonrpc": "2.0", "method": "x/y", "params": as_object(shape)})
            case "question":
                asked = {
                    "message": as_text(shape),
                    "_meta": as_object(shape),
                    "requestedSchema": {"type": "object", "properties": {}},
                }
                question = {"method": "elicitation/create", "params": asked}
                send({"jsonrpc": "2.0", "id": "q", **question})
        return {"content": []}


PLACES = [
    *("text block", "structured content", "embedded resource", "link", "_meta", "error of a tool"),
    *("error", "notices", "question", "arguments"),
]


@pytest.mark.one_backend
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_secret_is_in_no_part_of_any_message(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    server = Speaker(SHAPES[shape])
    handlers = Handlers(elicitation=lambda request: Accept(as_object(SHAPES[shape])))
    async with connect(
        Recording(MemoryServer(server), path),
        approval=allow_all,
        handlers=handlers,
        revision="2025-11-25",
        validation="off",
    ) as session:
        await session.list_tools()
        await session.list_resources()
        await session.read_resource("a:b")
        await session.list_prompts()
        await session.get_prompt("p", {"password": as_text(SHAPES[shape])})
        for server.place in PLACES:
            arguments = as_object(SHAPES[shape]) if server.place == "arguments" else {}
            try:
                await session.call_tool("t", arguments)
            except McpError:
                assert server.place == "error"
    found = [
        line[:300] for line in path.read_text().splitlines() if any(each in line for each in GONE)
    ]
    assert not found


@pytest.mark.one_backend
async def test_what_is_replayed_has_the_shape_that_the_schema_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    members = {"password": {"type": "string"}, "pin": {"type": "integer"}, "n": {"type": "number"}}
    output = {"type": "object", "properties": members, "required": list(members)}
    reported = {"password": SECRET, "pin": 66031827, "n": 1.5}

    def server(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            schema = {"type": "object"}
            return {"tools": [{"name": "t", "inputSchema": schema, "outputSchema": output}]}
        if message["method"] == "tools/call":
            return {"content": [], "structuredContent": reported}
        return NotImplemented

    async with connect(Recording(MemoryServer(server), path), approval=allow_all) as session:
        await session.call_tool("t")
    async with connect(ReplayServer(path), approval=allow_all) as session:
        result = await session.call_tool("t")
        tool = await session.get_tool("t")
    assert result.structured_content == {"password": "[redacted]", "pin": 0, "n": 1.5}
    assert tool.output_schema == output


@pytest.mark.one_backend
async def test_nothing_is_cut_off_and_arguments_of_any_size_are_distinguished(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.jsonl"

    def server(message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            return {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        if message["method"] == "tools/call":
            text = message["params"]["arguments"]["text"]
            return {
                "content": [{"type": "text", "text": text}],
                "structuredContent": {"n": 1 << 300},
            }
        return NotImplemented

    texts = ["x" * 20_000 + "1", "x" * 20_000 + "2"]
    async with connect(Recording(MemoryServer(server), path), approval=allow_all) as session:
        for text in texts:
            await session.call_tool("t", {"text": text, "many": list(range(5_000))})
    async with connect(ReplayServer(path), approval=allow_all) as session:
        for text in reversed(texts):
            result = await session.call_tool("t", {"text": text, "many": list(range(5_000))})
            assert result.text == text
            assert result.structured_content == {"n": 1 << 300}


@pytest.mark.one_backend
async def test_a_function_decides_for_arguments_and_the_default_for_all_else(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.jsonl"

    def hide_iban(arguments: Any) -> Any:
        return {key: "-" if key == "iban" else value for key, value in arguments.items()}

    server = Speaker({"password": SECRET})
    server.place = "structured content"
    async with connect(
        Recording(MemoryServer(server), path, redaction=hide_iban), approval=allow_all
    ) as session:
        await session.call_tool("t", {"iban": "DE02120300000000202051", "password": "shown by it"})
    text = path.read_text()
    assert "DE02120300000000202051" not in text
    assert SECRET not in text
    assert "shown by it" in text
    async with connect(ReplayServer(path), approval=allow_all) as session:
        arguments = {"iban": "DE02120300000000202051", "password": "shown by it"}
        assert (await session.call_tool("t", arguments)).structured_content


def test_a_value_is_shown_whole_whatever_its_size() -> None:
    value: Mapping[str, Any] = {"a": ["x" * 5_000] * 20, "b": {str(n): n for n in range(3_000)}}
    assert Redaction().whole(value).value == value


def test_the_id_of_a_task_is_in_no_part_of_the_record() -> None:
    record = SessionRecord(Redaction())
    made = record.result("tools/call", {"task": {"taskId": "task-7c1e", "status": "working"}})
    assert made == {"task": {"taskId": "[task 1]", "status": "working"}}
    asked = record.placeholders({"taskId": "task-7c1e", "of": ["task-7c1e", 7], "task-7c1e": None})
    assert asked == {"taskId": "[task 1]", "of": ["[task 1]", 7], "[task 1]": None}
    notice = {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "task-99ab"}}}
    assert "task-99ab" not in json.dumps(record.value({**notice, "said": "about task-99ab"}))
    assert record.placeholders("task-99ab and task-7c1e") == "[task 2] and [task 1]"


def test_a_short_id_is_not_a_secret_and_spoils_no_text() -> None:
    record = SessionRecord(Redaction())
    assert record.result("tasks/get", {"taskId": "abc", "said": "abcabc"})["said"] == "abcabc"
    assert record.placeholders("abc") == "abc"


def test_what_a_server_asks_back_is_clean_and_its_schemas_are_as_they_came() -> None:
    record = SessionRecord(Redaction())
    schema = {"type": "object", "properties": {"password": {"type": "string"}}}
    asks = {"method": "elicitation/create", "params": {"requestedSchema": schema, "pin": 7_123}}
    displayed = record.value({"inputRequests": {"one": asks}})
    params = displayed["inputRequests"]["one"]["params"]
    assert params == {"requestedSchema": schema, "pin": 0}


@pytest.mark.parametrize(
    "expected", [None, [], "x", {"tools": None}, {"tools": [None, {"name": 7}]}]
)
def test_a_list_that_is_not_one_is_recorded_as_it_came(expected: Any) -> None:
    record = SessionRecord(Redaction())
    assert record.result("tools/list", expected) == expected
    assert record.request("tools/call", {"name": "t", "arguments": {"pin": 1}})["arguments"] == {
        "pin": "[redacted]"
    }
