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
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..catalog.tool import Tool
from .definitions import Definition, Dialect
from .model_calls import RawCall, entries, member
from .rendering import Media
from .schema_subset import Profile
from .toolset import Answer, declared
from .toolset import Toolset as _Toolset

__all__ = ["Toolset", "toolset"]

_MEDIA_BYTES = 10 * 1024 * 1024
_IMAGES = ("image/png", "image/jpeg", "image/webp")
_SOUNDS = (
    *("audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg"),
    "audio/flac",
)


class Toolset(_Toolset):
    """Tools, calls and answers of ``generate_content``.

    ``calls`` and ``run`` take a response, the content of its first candidate, that content's parts,
    or ``response.function_calls``, with the names of either Python or JSON. The answers are one
    content of ``function_response`` parts; images and sounds are in the ``parts`` of a response, as
    bytes.
    """

    dialect = Dialect(
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
    media_types = dict.fromkeys((*_IMAGES, *_SOUNDS), _MEDIA_BYTES)
    letter_first = True

    def _all_declared(self) -> list[dict[str, Any]]:
        declared = super()._all_declared()
        return [{"function_declarations": declared}] if declared else []

    def _declared(self, name: str, about: str, definition: Definition) -> dict[str, Any]:
        return declared(name, about, parameters_json_schema=definition.schema)

    def _found(self, response: Any) -> Iterator[RawCall]:
        candidate = next(entries(member(response, "candidates")), None)
        content = response if candidate is None else member(candidate, "content")
        for part in entries(member(content, "parts") or content):
            call = member(part, "function_call", "functionCall")
            if call is None and member(part, "args") is not None:
                call = part  # of ``response.function_calls``
            if call is not None:
                id, name = member(call, "id") or "", member(call, "name") or ""
                yield RawCall(str(id), str(name), member(call, "args"))

    def _messages(self, answers: Sequence[Answer]) -> list[dict[str, Any]]:
        parts = [{"function_response": _response(answer)} for answer in answers]
        return [{"role": "user", "parts": parts}]


def _response(answer: Answer) -> dict[str, Any]:
    key = "error" if answer.is_error else "output"
    found: dict[str, Any] = {
        "name": answer.call.shown_name or answer.call.name,
        "response": {key: answer.text},
    }
    if answer.call.id:
        found["id"] = answer.call.id
    media = [_inline(part) for part in answer.media]
    return {**found, "parts": media} if media else found


def _inline(media: Media) -> dict[str, Any]:
    return {"inline_data": {"mime_type": media.mime_type, "data": media.data}}


def toolset(tools: Iterable[Tool], *, strict: bool = False, search: bool = False) -> Toolset:
    """``tools``, the list of a host or a session, for ``config={"tools": ...}``.

    ``strict`` changes nothing: Gemini has no strict mode for one tool (``.changes`` says so).
    ``search``: two tools in place of all, to search these and to call what was found.
    """
    return Toolset(tools, strict=strict, search=search)
