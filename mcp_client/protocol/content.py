"""Content blocks: what the result of a tool consists of.

2026-07-28 ``server/tools`` (tool result); the same blocks since 2024-11-05 (text, image, embedded
resource), 2025-03-26 (audio) and 2025-06-18 (resource link). A block of an unknown kind, or without
a member that its kind requires, is ``UnknownContent``; the other blocks are not affected.

``str(block)`` is its text for a model: a text as it is, and for any other block a line in brackets
with its kind, MIME type and size. ``repr(block)`` has sizes instead of data, so that a result can
be logged. ``block.type`` is a literal, by which a type checker narrows the union.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal, TypeAlias

from ..runtime.frozen import frozen_dataclass, maker_of
from .metadata import Metadata, brief_text, decoded, decoded_size, shown, text_or_none

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


@frozen_dataclass
class TextContent(Metadata):
    """Text of a tool result, a prompt or a message of sampling."""

    text: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The block as it came; the same for every kind."""

    type: ClassVar[Literal["text"]] = "text"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"TextContent({brief_text(self.text)})"


@frozen_dataclass
class ImageContent(Metadata):
    """An image, in the Base64 of the wire until ``bytes`` is read."""

    data: str
    """Base64, as it came."""
    mime_type: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    type: ClassVar[Literal["image"]] = "image"

    @property
    def bytes(self) -> bytes:
        """The decoded image, at most three quarters of ``Limits.message_bytes``.

        Raises ``ProtocolViolation`` where ``data`` is not strict Base64.
        """
        return decoded(self.data, "image's data", self.raw)

    @property
    def size(self) -> int:
        """The number of bytes, which is known without decoding."""
        return decoded_size(self.data)

    def __str__(self) -> str:
        return f"[image, {shown(self.mime_type)}, {self.size} bytes]"

    def __repr__(self) -> str:
        return f"ImageContent({shown(self.mime_type)!r}, {self.size} bytes)"


@frozen_dataclass
class AudioContent(Metadata):
    """A recording, in the Base64 of the wire until ``bytes`` is read."""

    data: str
    """Base64, as it came."""
    mime_type: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    type: ClassVar[Literal["audio"]] = "audio"

    @property
    def bytes(self) -> bytes:
        """The decoded audio: see ``ImageContent.bytes``."""
        return decoded(self.data, "audio's data", self.raw)

    @property
    def size(self) -> int:
        return decoded_size(self.data)

    def __str__(self) -> str:
        return f"[audio, {shown(self.mime_type)}, {self.size} bytes]"

    def __repr__(self) -> str:
        return f"AudioContent({shown(self.mime_type)!r}, {self.size} bytes)"


@frozen_dataclass
class ResourceLink(Metadata):
    """A link to a resource, which is not read before ``Session.follow`` is called.

    It is read through the server whose result has the link.
    """

    uri: str
    name: str
    title: str | None
    description: str | None
    mime_type: str | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    server: str = ""
    """The name the host gave the server whose result has the link."""
    _origin: str = field(default="", repr=False, compare=False)
    """Identifies the session of that result: two servers may have the same name."""

    type: ClassVar[Literal["resource_link"]] = "resource_link"

    @property
    def size(self) -> int | None:
        """The size of the resource in bytes, as the server says."""
        size = self.raw.get("size")
        return size if type(size) is int and size >= 0 else None

    def __str__(self) -> str:
        parts = [f"resource link: {shown(self.name)}", shown(self.uri)]
        if self.mime_type is not None:
            parts.append(shown(self.mime_type))
        if self.size is not None:
            parts.append(f"{self.size} bytes")
        return f"[{', '.join(parts)}]"

    def __repr__(self) -> str:
        size = "" if self.size is None else f", {self.size} bytes"
        return f"ResourceLink({shown(self.uri)!r}, {shown(self.name)!r}{size})"


@frozen_dataclass
class EmbeddedResource(Metadata):
    """A resource's contents: ``text``, or ``blob`` in base64; one of them is None."""

    uri: str
    mime_type: str | None
    text: str | None
    blob: str | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    type: ClassVar[Literal["resource"]] = "resource"

    @property
    def bytes(self) -> bytes:
        """The blob, or the text in UTF-8. Raises ``ProtocolViolation``: see ``ImageContent``."""
        return _bytes(self.text, self.blob, self.raw)

    @property
    def size(self) -> int:
        return len(_bytes(self.text, None, None)) if self.blob is None else decoded_size(self.blob)

    def __str__(self) -> str:
        return _contents(self.uri, self.mime_type, self.text, self.blob)

    def __repr__(self) -> str:
        return f"EmbeddedResource({_sizes(self.uri, self.mime_type, self.text, self.blob)})"


@frozen_dataclass
class UnknownContent:
    """A block of an unknown kind, or one that lacks what its kind requires."""

    kind: str
    """The block's own ``type``; empty where that is missing or not a string."""
    raw: Any
    """The block as it came."""

    type: ClassVar[Literal["unknown"]] = "unknown"

    def __str__(self) -> str:
        return f"[content of unknown kind {shown(self.kind, 40)!r}]"

    def __repr__(self) -> str:
        return f"UnknownContent({shown(self.kind, 40)!r})"


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
)


_text_content = maker_of(TextContent)


def content_block(block: Any, server: str = "", origin: str = "") -> ContentBlock:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and type(text := block.get("text")) is str:  # the most common kind first
        return _text_content(text, block)
    match block:
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            return ImageContent(data, mime_type, block)
        case {"type": "audio", "data": str(data), "mimeType": str(mime_type)}:
            return AudioContent(data, mime_type, block)
        case {"type": "resource_link", "uri": str(uri), "name": str(name)}:
            title, about = text_or_none(block.get("title")), text_or_none(block.get("description"))
            media = text_or_none(block.get("mimeType"))
            return ResourceLink(uri, name, title, about, media, block, server, origin)
        case {"type": "resource", "resource": {"uri": str(uri)} as resource}:
            inline, blob = text_or_none(resource.get("text")), text_or_none(resource.get("blob"))
            if (inline is None) != (blob is None):
                media = text_or_none(resource.get("mimeType"))
                return EmbeddedResource(uri, media, inline, blob, block)
    return UnknownContent(kind if isinstance(kind, str) else "", block)


def _bytes(text: str | None, blob: str | None, raw: Any) -> bytes:
    if blob is None:
        return (text or "").encode("utf-8", "surrogatepass")
    return decoded(blob, "resource's blob", raw)


def _contents(uri: str, mime_type: str | None, text: str | None, blob: str | None) -> str:
    media = "" if mime_type is None else f", {shown(mime_type)}"
    if text is not None:
        return f"[resource: {shown(uri)}{media}]\n{text}"
    return f"[resource: {shown(uri)}{media}, {decoded_size(blob or '')} bytes]"


def _sizes(uri: str, mime_type: str | None, text: str | None, blob: str | None) -> str:
    held = brief_text(text) if text is not None else f"{decoded_size(blob or '')} bytes"
    media = "" if mime_type is None else f"{shown(mime_type)!r}, "
    return f"{shown(uri)!r}, {media}{held}"
