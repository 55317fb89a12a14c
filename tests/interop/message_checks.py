"""Prompts, resources and what is read of a large result, as the providers' own packages take them;
run by the Python that has these packages, see ``provider_checks``."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from mcp_client import ToolResult
from mcp_client.adapters import anthropic, gemini, openai_chat, openai_responses
from mcp_client.catalog.tool import Tool
from mcp_client.content import PromptResult, ResourceResult
from mcp_client.protocol.offers import PromptMessage
from tests.support.worlds import IMAGE

__all__ = ["CHECKS"]

_PDF = base64.b64encode(b"%PDF-1.7 ...").decode()
_WAV = base64.b64encode(b"RIFF....WAVEfmt ").decode()
_CONTENTS: tuple[dict[str, Any], ...] = (
    {"type": "text", "text": "Review this."},
    {"type": "image", "data": IMAGE, "mimeType": "image/png"},
    {"type": "audio", "data": _WAV, "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "file:///n", "text": "a note"}},
    {"type": "resource", "resource": {"uri": "file:///p", "blob": _PDF}},
    {"type": "resource_link", "uri": "file:///l", "name": "log"},
)
_ROLES = ("user", "assistant")


def _adapter(module: str, name: str) -> Any:
    return import_module("pydantic").TypeAdapter(getattr(import_module(module), name))


def _prompt(module: Any) -> list[dict[str, Any]]:
    found = [{"role": role, "content": content} for content in _CONTENTS for role in _ROLES]
    messages = tuple(PromptMessage.from_wire(one, "desk") for one in found)
    displayed: list[dict[str, Any]] = module.toolset([]).prompt(
        PromptResult(messages, None, "desk", "review", {})
    )
    assert len(displayed) == len(found)
    return displayed


def _resource(module: Any) -> list[dict[str, Any]]:
    blobs = [
        {"uri": f"file:///{n}", "blob": blob}
        for n, blob in enumerate((IMAGE, _PDF, base64.b64encode(b"PK..").decode()))
    ]
    contents = [{"uri": "file:///n", "text": "a note"}, *blobs]
    result = ResourceResult.from_wire({"contents": contents}, "desk", "file:///")
    displayed: list[dict[str, Any]] = module.toolset([]).resource(result)
    return displayed


def _judged(kind: Any, value: Any) -> None:
    """``value`` is of ``kind``, and none of its members is one that the package does not know."""
    passed = kind.validate_python(value, strict=True)
    assert kind.dump_python(passed) == value, value


def messages_and_content_are_those_of_the_openai_package_for_chat() -> None:
    for message in _prompt(openai_chat):
        name = "User" if message["role"] == "user" else "Assistant"
        kind = _adapter("openai.types.chat", f"ChatCompletion{name}MessageParam")
        kind.validate_python(message, strict=True)
        for block in message["content"] if name == "User" else ():
            _judged(_adapter("openai.types.chat", "ChatCompletionContentPartParam"), block)
    blocks = _resource(openai_chat)
    assert [one["type"] for one in blocks] == ["text", "image_url", "text", "file", "text"]
    for block in blocks:
        _judged(_adapter("openai.types.chat", "ChatCompletionContentPartParam"), block)


def messages_and_content_are_those_of_the_openai_package_for_responses() -> None:
    for message in _prompt(openai_responses):
        _judged(_adapter("openai.types.responses", "EasyInputMessageParam"), message)
    blocks = _resource(openai_responses)
    types = ["input_text", "input_image", "input_text", "input_file", "input_text"]
    assert [one["type"] for one in blocks] == types
    for block in blocks:
        _judged(_adapter("openai.types.responses", "ResponseInputContentParam"), block)


def messages_and_content_are_those_of_the_anthropic_package() -> None:
    for message in _prompt(anthropic):
        kind = _adapter("anthropic.types", "MessageParam")
        kind.validate_python(message)
        for block in message["content"]:
            _judged(_adapter("anthropic.types", "ContentBlockParam"), block)
    blocks = _resource(anthropic)
    assert [one["type"] for one in blocks] == ["text", "image", "text", "document", "text"]
    for block in blocks:
        _judged(_adapter("anthropic.types", "ContentBlockParam"), block)


def messages_and_content_are_those_of_the_google_genai_package() -> None:
    types = import_module("google.genai.types")
    for message in _prompt(gemini):
        content = types.Content.model_validate(message)
        assert content.role in ("user", "model")
        assert len(content.parts) == len(message["parts"])
    parts = [types.Part.model_validate(one) for one in _resource(gemini)]
    assert [one.inline_data and one.inline_data.mime_type for one in parts] == [
        None,
        "image/png",
        None,
        "application/pdf",
        None,
    ]


def what_is_read_of_a_large_result_is_what_each_package_takes() -> None:
    tool = Tool("log", "server", False, {"name": "log", "inputSchema": {"type": "object"}})
    wire = {"content": [{"type": "text", "text": "line\n" * 5_000}]}
    result = ToolResult.from_wire(wire, "server", "log")
    judges: dict[Any, Callable[[dict[str, Any]], object]] = {
        openai_chat: _adapter(
            "openai.types.chat", "ChatCompletionToolMessageParam"
        ).validate_python,
        openai_responses: _adapter(
            "openai.types.responses.response_input_item_param", "FunctionCallOutput"
        ).validate_python,
        anthropic: _adapter("anthropic.types", "MessageParam").validate_python,
        gemini: import_module("google.genai.types").Content.model_validate,
    }
    for module, judge in judges.items():
        kit = module.toolset([tool], large_results="keep")
        (message,) = kit.results([(_call(module, kit, "log", {}), result)], max_chars=1_000)
        judge(message)
        handle = re.search(r'handle=\\*"(\w+)', str(message))
        assert handle is not None
        asked = {"handle": handle[1], "find": "line"}
        (message,) = kit.results([(_call(module, kit, "read_result", asked), None)])
        judge(message)
        assert "[at 45]" in str(message)


def _call(module: Any, kit: Any, name: str, arguments: dict[str, Any]) -> Any:
    passed: dict[Any, Any] = {
        openai_chat: {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {"name": name, "arguments": arguments},
                }
            ],
        },
        openai_responses: {
            "output": [
                {"type": "function_call", "call_id": "1", "name": name, "arguments": arguments}
            ]
        },
        anthropic: [{"type": "tool_use", "id": "1", "name": name, "input": arguments}],
        gemini: [{"function_call": {"id": "1", "name": name, "args": arguments}}],
    }
    (call,) = kit.calls(passed[module])
    return call


CHECKS: dict[str, Callable[[], None]] = {
    check.__name__: check
    for check in (
        messages_and_content_are_those_of_the_openai_package_for_chat,
        messages_and_content_are_those_of_the_openai_package_for_responses,
        messages_and_content_are_those_of_the_anthropic_package,
        messages_and_content_are_those_of_the_google_genai_package,
        what_is_read_of_a_large_result_is_what_each_package_takes,
    )
}
