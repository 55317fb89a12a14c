"""What a tool's answer is made of: content blocks.

2026-07-28 ``server/tools`` (tool result); the same blocks since 2024-11-05 (text, image, embedded
resource), 2025-03-26 (audio) and 2025-06-18 (resource link). A block of an unknown kind, or one
that lacks what its kind must have, is kept as it came: one bad block spoils one block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = [
    "AudioContent",
    "ContentBlock",
    "EmbeddedResource",
    "ImageContent",
    "ResourceLink",
    "TextContent",
    "UnknownContent",
    "content_block",
]


@dataclass(frozen=True, slots=True)
class TextContent:
    text: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The block as it came, ``_meta`` and ``annotations`` included; the same for every kind."""

    type = "text"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ImageContent:
    data: str
    """Base64, as it came."""
    mime_type: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    type = "image"

    def __str__(self) -> str:
        return f"[image, {self.mime_type}, {len(self.data) * 3 // 4} bytes]"


@dataclass(frozen=True, slots=True)
class AudioContent:
    data: str
    """Base64, as it came."""
    mime_type: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    type = "audio"

    def __str__(self) -> str:
        return f"[audio, {self.mime_type}, {len(self.data) * 3 // 4} bytes]"


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """A pointer to a resource. It is data: nothing is read until the caller asks."""

    uri: str
    name: str
    title: str | None
    description: str | None
    mime_type: str | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    type = "resource_link"

    def __str__(self) -> str:
        return f"[resource link: {self.name}, {self.uri}]"


@dataclass(frozen=True, slots=True)
class EmbeddedResource:
    """A resource's contents: ``text``, or ``blob`` in base64; one of them is None."""

    uri: str
    mime_type: str | None
    text: str | None
    blob: str | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    type = "resource"

    def __str__(self) -> str:
        if self.text is not None:
            return f"[resource: {self.uri}]\n{self.text}"
        return f"[resource: {self.uri}, {len(self.blob or '') * 3 // 4} bytes]"


@dataclass(frozen=True, slots=True)
class UnknownContent:
    """A block that is of no kind we know, or not what its kind must be."""

    type: str
    raw: Any

    def __str__(self) -> str:
        return f"[content of unknown kind {self.type!r}]"


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
)


def content_block(block: Any) -> ContentBlock:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and type(text := block.get("text")) is str:  # the usual case, first and fast
        return TextContent(text, block)
    match block:
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            return ImageContent(data, mime_type, block)
        case {"type": "audio", "data": str(data), "mimeType": str(mime_type)}:
            return AudioContent(data, mime_type, block)
        case {"type": "resource_link", "uri": str(uri), "name": str(name)}:
            title, about = _text(block.get("title")), _text(block.get("description"))
            media = _text(block.get("mimeType"))
            return ResourceLink(uri, name, title, about, media, block)
        case {"type": "resource", "resource": {"uri": str(uri)} as resource}:
            inline, blob = _text(resource.get("text")), _text(resource.get("blob"))
            if (inline is None) != (blob is None):
                return EmbeddedResource(uri, _text(resource.get("mimeType")), inline, blob, block)
    return UnknownContent(kind if isinstance(kind, str) else "", block)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
