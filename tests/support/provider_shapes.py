"""What the four providers send and take, written out by hand as their documentation shows it.

``unmarked`` removes the marks around a server's text, so that the rest can be compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

from mcp_client import adapters

__all__ = [
    "ANTHROPIC",
    "CHAT",
    "GEMINI",
    "MARKED",
    "PROVIDERS",
    "RESPONSES",
    "Provider",
    "Wanted",
    "every_provider",
    "strict_providers",
    "unmarked",
]

_MARK = r"\[end (?P<mark>[0-9a-f]{8})\]"
_END = r"\[end (?P=mark)\]"
MARKED = re.compile(
    rf"(?P<head>[^\n]*?instructions\)) until {_MARK}:(?P<gap>[\n ])(?P<text>.*)(?P=gap){_END}",
    re.DOTALL,
)


def unmarked(text: str) -> str:
    """Return ``text`` without the marks."""
    return MARKED.sub(lambda found: f"{found['head']}:{found['gap']}{found['text']}", text)


Wanted = tuple[str, str, Any]
"""A call: its id, the tool's name, and its arguments."""


@dataclass(frozen=True)
class Provider:
    name: str
    response: Callable[[list[Wanted]], dict[str, Any]]
    schema: Callable[[dict[str, Any]], dict[str, Any]]
    """The schema in one declaration."""
    raw_replies: Callable[[list[dict[str, Any]]], list[tuple[str, str]]]
    """The id and the text of each reply."""
    is_text: bool = False
    """Whether the arguments of a call are JSON text, and no object."""

    @property
    def module(self) -> Any:
        return import_module(f"mcp_client.adapters.{self.name}")

    @property
    def is_strict(self) -> bool:
        return self.module.Toolset.dialect.strict is not None

    @property
    def takes_media(self) -> bool:
        return bool(self.module.Toolset.media_types)

    def replies(self, messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
        """The same, without the marks around what a server wrote."""
        return [(id, unmarked(text)) for id, text in self.raw_replies(messages)]

    def toolset(self, tools: Any, **options: Any) -> Any:
        return self.module.toolset(tools, **options)

    def declarations(self, kit: Any) -> list[dict[str, Any]]:
        if self.name == "gemini":
            found: list[dict[str, Any]] = kit.tools[0]["function_declarations"] if kit.tools else []
            return found
        if self.name == "openai_chat":
            return [tool["function"] for tool in kit.tools]
        return list(kit.tools)

    def schemas(self, kit: Any) -> dict[str, dict[str, Any]]:
        return {one["name"]: self.schema(one) for one in self.declarations(kit)}

    def __str__(self) -> str:
        return self.name


def _chat(calls: list[Wanted]) -> dict[str, Any]:
    tool_calls = [
        {
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": _text(arguments)},
        }
        for id, name, arguments in calls
    ]
    message = {"role": "assistant", "content": None, "tool_calls": tool_calls}
    return {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}


def _responses(calls: list[Wanted]) -> dict[str, Any]:
    output: list[dict[str, Any]] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
    output += [
        {
            "type": "function_call",
            "id": f"fc_{id}",
            "call_id": id,
            "name": name,
            "arguments": _text(arguments),
        }
        for id, name, arguments in calls
    ]
    return {"output": output}


def _messages(calls: list[Wanted]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": "I shall look."}]
    content += [
        {"type": "tool_use", "id": id, "name": name, "input": arguments}
        for id, name, arguments in calls
    ]
    return {"role": "assistant", "content": content, "stop_reason": "tool_use"}


def _generated(calls: list[Wanted]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": "I shall look."}]
    parts += [
        {"functionCall": {"id": id, "name": name, "args": arguments}}
        for id, name, arguments in calls
    ]
    return {"candidates": [{"content": {"role": "model", "parts": parts}}]}


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _in_chat(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    assert all(message["role"] == "tool" for message in messages)
    return [(message["tool_call_id"], message["content"]) for message in messages]


def _in_responses(items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    assert all(item["type"] == "function_call_output" for item in items)
    return [(item["call_id"], _joined(item["output"])) for item in items]


def _in_messages(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    if not messages:
        return []
    (message,) = messages
    assert message["role"] == "user"
    assert all(block["type"] == "tool_result" for block in message["content"])
    return [(block["tool_use_id"], _joined(block["content"])) for block in message["content"]]


def _in_contents(contents: list[dict[str, Any]]) -> list[tuple[str, str]]:
    if not contents:
        return []
    (content,) = contents
    assert content["role"] == "user"
    found = [part["function_response"] for part in content["parts"]]
    return [(one.get("id", ""), "".join(one["response"].values())) for one in found]


def _joined(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(_texts(content))


def _texts(content: list[dict[str, Any]]) -> Iterator[str]:
    return (block["text"] for block in content if "text" in block)


CHAT = Provider("openai_chat", _chat, lambda tool: tool["parameters"], _in_chat, is_text=True)
RESPONSES = Provider(
    "openai_responses", _responses, lambda tool: tool["parameters"], _in_responses, is_text=True
)
ANTHROPIC = Provider("anthropic", _messages, lambda tool: tool["input_schema"], _in_messages)
GEMINI = Provider("gemini", _generated, lambda tool: tool["parameters_json_schema"], _in_contents)
_BY_NAME = {one.name: one for one in (CHAT, RESPONSES, ANTHROPIC, GEMINI)}
PROVIDERS = tuple(_BY_NAME[name] for name in adapters.PROVIDERS)
every_provider = pytest.mark.parametrize("provider", PROVIDERS, ids=str)
strict_providers = pytest.mark.parametrize(
    "provider", [one for one in PROVIDERS if one.is_strict], ids=str
)
