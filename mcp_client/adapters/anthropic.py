"""Anthropic's Messages.

```python
kit = anthropic.toolset(await host.list_tools())
response = client.messages.create(..., tools=kit.tools, messages=messages)
messages.append({"role": "assistant", "content": response.content})
messages += await kit.run(host, response)
```
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Unpack

from ..catalog.tool import Tool
from .calls import Answer, RawCall, has, member, typed_entries, unusable
from .definitions import Definition, Dialect, RequestLimits
from .model_tools import ToolsetOptions
from .parts import Media, Part
from .schema_subset import Profile
from .toolset import Toolset as _Toolset
from .toolset import declared

__all__ = ["Toolset", "toolset"]

_IMAGE_BYTES = 5 * 1024 * 1024 * 3 // 4  # 5 MB as Base64
_DOCUMENT_BYTES = 32 * 1024 * 1024 * 3 // 4  # a request has 32 MB


_FOREIGN = frozenset(
    {*("function_call", "function", "tool_call", "message", "reasoning", "output_text"), "custom"}
)


class Toolset(_Toolset):
    """Tools, calls and their responses in Anthropic's Messages.

    ``calls`` and ``run`` accept a message or its ``content``. ``run`` returns one user message of
    ``tool_result`` blocks, with images as images.

    Anthropic limits the number of strict tools in one request, and their optional members and
    unions. ``strict=True`` makes as many strict as possible, those with the lowest cost first;
    ``updated`` does not change strict ones. ``.changes`` has a sentence for each of the others. If
    Anthropic still refuses a request as too complex, omit some tools, or ``strict``.
    """

    dialect: ClassVar[Dialect] = Dialect(
        "Anthropic",
        strict=Profile(
            "Anthropic's strict mode",
            keeps=frozenset({"minItems"}),
            formats=frozenset(
                {
                    *("date-time", "time", "date", "duration", "email", "hostname", "uri"),
                    *("ipv4", "ipv6", "uuid"),
                }
            ),
            any_enum=True,
            strict=True,
            optional=True,
        ),
        member_names=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
        in_request=RequestLimits(tools=20, optional=24, unions=16),
    )
    native_search: ClassVar[dict[str, Any] | None] = {
        "type": "tool_search_tool_bm25_20251119",
        "name": "tool_search_tool_bm25",
    }
    media_types: ClassVar[dict[str, int]] = dict.fromkeys(
        ("image/png", "image/jpeg", "image/gif", "image/webp"), _IMAGE_BYTES
    )
    message_media: ClassVar[dict[str, int]] = media_types | {"application/pdf": _DOCUMENT_BYTES}

    def _declared(self, name: str, about: str, definition: Definition) -> dict[str, Any]:
        tool = declared(name, about, input_schema=definition.schema)
        if definition.strict:
            tool["strict"] = True
        return tool

    def _found(self, response: Any) -> list[RawCall]:
        blocks = _blocks(response)
        if blocks is None:
            raise unusable(response, "a message of Messages, or its content")
        calls = []
        for block in blocks:
            if member(block, "type") == "tool_use":
                id, name = member(block, "id") or "", member(block, "name") or ""
                calls.append(RawCall(str(id), str(name), member(block, "input")))
        return calls

    def _messages(self, answers: Sequence[Answer]) -> list[dict[str, Any]]:
        return [{"role": "user", "content": [_result(response) for response in answers]}]

    def _content(self, part: Part) -> dict[str, Any]:
        return _block(part)


def _blocks(response: Any) -> list[Any] | None:
    """The blocks of content, None where it is not a response of Messages."""
    if not has(response, "content"):
        return typed_entries(response, _FOREIGN)
    is_foreign = has(response, "tool_calls", "choices", "candidates", "parts", "output")
    kind, role = member(response, "type"), member(response, "role")
    if is_foreign or kind not in (None, "message") or role not in (None, "", "assistant"):
        return None
    content = member(response, "content")
    return [] if isinstance(content, str) else typed_entries(content, _FOREIGN)


def _result(response: Answer) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": response.call.id,
        "content": [_block(part) for part in response.parts],
    }
    if response.is_error:
        block["is_error"] = True
    return block


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Media):
        source = {"type": "base64", "media_type": part.mime_type, "data": part.base64()}
        kind = "document" if part.mime_type == "application/pdf" else "image"
        return {"type": kind, "source": source}
    return {"type": "text", "text": part}


def toolset(tools: Iterable[Tool], **options: Unpack[ToolsetOptions]) -> Toolset:
    """Return ``tools``, the list of a host or a session, for ``tools=`` of Messages.

    The options are those of ``ToolsetOptions``.
    """
    return Toolset(tools, **options)
