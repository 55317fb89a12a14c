"""Google's Gemini.

```python
kit = gemini.toolset(await host.list_tools())
config = {"tools": kit.tools, "automatic_function_calling": {"disable": True}}
response = client.models.generate_content(model=..., contents=contents, config=config)
contents.append(response.candidates[0].content)
contents += await kit.run(host, response)
```

Schemas are given as ``parameters_json_schema``, with no keyword that the older ``parameters`` does
not take.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Unpack

from ..catalog.tool import Tool
from .calls import Answer, RawCall, has, listed, member, unusable
from .definitions import Definition, Dialect
from .model_tools import ToolsetOptions
from .parts import Media, Part
from .schema_subset import Profile
from .toolset import Toolset as _Toolset
from .toolset import declared

__all__ = ["Toolset", "toolset"]

_MEDIA_BYTES = 10 * 1024 * 1024
_IMAGES = ("image/png", "image/jpeg", "image/webp")
_SOUNDS = (
    *("audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg"),
    "audio/flac",
)


_NAMELESS = "unknown"
"""The name in the response to a call without a name.

The API refuses a response without a name, together with all others.
"""
_WANTED = (
    "a response of generate_content, the content of its first candidate, that content's parts, or "
    "the list response.function_calls"
)
_BESIDE_CANDIDATES = (
    *("promptFeedback", "prompt_feedback", "usageMetadata", "usage_metadata"),
    *("modelVersion", "model_version", "responseId", "response_id"),
)
"""The members of a response without candidates, because its prompt was blocked."""
_PART = (
    *("text", "inline_data", "inlineData", "function_call", "functionCall", "thought"),
    *("executable_code", "executableCode", "code_execution_result", "codeExecutionResult"),
    *("function_response", "functionResponse", "file_data", "fileData"),
)


class Toolset(_Toolset):
    """Tools, calls and their responses in ``generate_content``.

    ``calls`` and ``run`` accept a response, the content of its first candidate, that content's
    parts, or ``response.function_calls`` if that is not None, with the names of either Python or
    JSON. ``run`` returns one content of ``function_response`` parts; images and sounds are in the
    ``parts`` of a response, as bytes.
    """

    dialect: ClassVar[Dialect] = Dialect(
        "Gemini",
        plain=Profile(
            "Gemini",
            keeps=frozenset(
                {
                    *("minimum", "maximum", "minLength", "maxLength", "pattern", "minItems"),
                    *("maxItems", "minProperties", "maxProperties"),
                }
            ),
            formats=frozenset({"date-time", "int32", "int64", "float", "double"}),
        ),
        member_names=re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"),
    )
    media_types: ClassVar[dict[str, int]] = dict.fromkeys((*_IMAGES, *_SOUNDS), _MEDIA_BYTES)
    message_media: ClassVar[dict[str, int]] = media_types | {"application/pdf": _MEDIA_BYTES}
    letter_first = True

    def _request(self, declared: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"function_declarations": declared}] if declared else []

    def _declared(self, name: str, about: str, definition: Definition) -> dict[str, Any]:
        return declared(name, about, parameters_json_schema=definition.schema)

    def _found(self, response: Any) -> list[RawCall]:
        parts = _parts(response)
        if parts is None or not all(map(_is_part, parts)):
            raise unusable(response, _WANTED)
        calls = []
        for part in parts:
            call = member(part, "function_call", "functionCall")
            if call is None and _is_function_call(part):
                call = part  # of ``response.function_calls``
            if call is not None:
                id, name = member(call, "id") or "", member(call, "name") or ""
                calls.append(RawCall(str(id), str(name), member(call, "args")))
        return calls

    def _messages(self, answers: Sequence[Answer]) -> list[dict[str, Any]]:
        parts = [{"function_response": _response(response)} for response in answers]
        return [{"role": "user", "parts": parts}]

    def _content(self, part: Part) -> dict[str, Any]:
        return _inline(part) if isinstance(part, Media) else {"text": part}

    def _message(self, role: str, parts: Sequence[Part]) -> dict[str, Any]:
        named = "model" if role == "assistant" else role
        return {"role": named, "parts": list(map(self._content, parts))}


def _parts(response: Any) -> list[Any] | None:
    """The parts of the first candidate, None where it is not a response of ``generate_content``."""
    if has(response, "candidates"):
        if member(response, "candidates") is None:
            return []  # the prompt was blocked
        candidates = listed(member(response, "candidates"))
        if not candidates:
            return candidates
        first = candidates[0]
        return [] if first == {} else _parts_of_candidate(first)
    if has(response, *_BESIDE_CANDIDATES):
        return []
    if has(response, "content"):
        return _parts_of_candidate(response)
    return _parts_of_content(response)


def _parts_of_candidate(candidate: Any) -> list[Any] | None:
    content = member(candidate, "content")
    if content is not None:
        if content == {}:
            return []  # as JSON without members that have their default values
        return _parts_of_content(content) if listed(content) is None else None
    return [] if has(candidate, "finish_reason", "finishReason", "index") else None


def _parts_of_content(content: Any) -> list[Any] | None:
    if has(content, "parts"):
        parts = member(content, "parts")
        return [] if parts is None else listed(parts)
    return [] if member(content, "role") == "model" else listed(content)


def _is_part(part: Any) -> bool:
    if member(part, "function_call", "functionCall") is not None or _is_function_call(part):
        return True
    if isinstance(part, Mapping):
        return not has(part, "type", "role", "function", "candidates", "name")
    return has(part, *_PART)


def _is_function_call(part: Any) -> bool:
    if not isinstance(member(part, "name"), str) or has(part, "type"):
        return False
    return has(part, "args") or (isinstance(part, Mapping) and part.keys() <= {"id", "name"})


def _response(response: Answer) -> dict[str, Any]:
    key = "error" if response.is_error else "output"
    found: dict[str, Any] = {
        "name": response.call.shown_name.strip() or response.call.name.strip() or _NAMELESS,
        "response": {key: response.text},
    }
    if response.call.id:
        found["id"] = response.call.id
    media = [_inline(part) for part in response.media]
    return {**found, "parts": media} if media else found


def _inline(media: Media) -> dict[str, Any]:
    return {"inline_data": {"mime_type": media.mime_type, "data": media.data}}


def toolset(tools: Iterable[Tool], **options: Unpack[ToolsetOptions]) -> Toolset:
    """Return ``tools``, the list of a host or a session, for ``config={"tools": ...}``.

    The options are those of ``ToolsetOptions``. ``strict`` has no effect: Gemini has no strict mode
    for one tool (``.changes`` reports it).
    """
    return Toolset(tools, **options)
