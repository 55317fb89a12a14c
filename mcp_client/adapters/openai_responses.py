"""OpenAI's Responses.

```python
kit = openai_responses.toolset(await host.list_tools())
response = client.responses.create(..., tools=kit.tools, input=items)
items += response.output
items += await kit.run(host, response)
```
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Unpack

from ..catalog.tool import Tool
from .calls import Answer, RawCall, has, member, typed_entries, unusable
from .definitions import Definition
from .model_tools import ToolsetOptions
from .openai_chat import FILENAME, OPENAI, message
from .parts import Media, Part
from .toolset import Toolset as _Toolset
from .toolset import declared

__all__ = ["Toolset", "toolset"]

_IMAGE_BYTES = 20 * 1024 * 1024


_FOREIGN = frozenset(
    {*("text", "thinking", "redacted_thinking", "tool_use"), "tool_result", "function", "tool_call"}
)


class Toolset(_Toolset):
    """Tools, calls and their responses in OpenAI's Responses.

    ``calls`` and ``run`` accept a response or its ``output``. ``run`` returns items of the type
    "function_call_output"; the output is a text, or a list with images.
    """

    dialect = OPENAI
    native_search: ClassVar[dict[str, Any] | None] = {"type": "tool_search"}
    media_types: ClassVar[dict[str, int]] = dict.fromkeys(
        ("image/png", "image/jpeg", "image/gif", "image/webp"), _IMAGE_BYTES
    )
    message_media: ClassVar[dict[str, int]] = media_types | {"application/pdf": _IMAGE_BYTES}

    def _declared(self, name: str, about: str, definition: Definition) -> dict[str, Any]:
        function = declared(name, about, parameters=definition.schema)
        # Without the member "strict", Responses would be strict.
        return {"type": "function", **function, "strict": definition.strict}

    def _found(self, response: Any) -> list[RawCall]:
        items = member(response, "output") if has(response, "output") else response
        found = typed_entries(items, _FOREIGN)
        if found is None:
            raise unusable(response, "a response of Responses, or its output")
        calls = []
        for item in found:
            if member(item, "type") == "function_call":
                id, name = member(item, "call_id") or "", member(item, "name") or ""
                calls.append(RawCall(str(id), str(name), member(item, "arguments")))
        return calls

    def _messages(self, answers: Sequence[Answer]) -> list[dict[str, Any]]:
        return [
            {
                "type": "function_call_output",
                "call_id": response.call.id,
                "output": _output(response),
            }
            for response in answers
        ]

    def _content(self, part: Part) -> dict[str, Any]:
        return _part(part)

    def _message(self, role: str, parts: Sequence[Part]) -> dict[str, Any]:
        return message(role, parts, self._content)


def _output(response: Answer) -> str | list[dict[str, Any]]:
    return list(map(_part, response.parts)) if any(response.media) else response.text


def _part(part: Part) -> dict[str, Any]:
    if not isinstance(part, Media):
        return {"type": "input_text", "text": part}
    if part.mime_type == "application/pdf":
        return {"type": "input_file", "filename": FILENAME, "file_data": part.data_url()}
    return {"type": "input_image", "image_url": part.data_url(), "detail": "auto"}


def toolset(tools: Iterable[Tool], **options: Unpack[ToolsetOptions]) -> Toolset:
    """Return ``tools``, the list of a host or a session, for ``tools=`` of Responses.

    The options are those of ``ToolsetOptions``.
    """
    return Toolset(tools, **options)
