"""Content blocks: the parts of a tool's result.

2026-07-28 ``server/tools`` (tool result); the same blocks since 2024-11-05 (text, image, embedded
resource), 2025-03-26 (audio) and 2025-06-18 (resource link). Missing members are derived: the MIME
type from the first bytes, the name of a link from its address, the kind of a block from its main
member. A block of an unknown kind, or without its main member, is ``UnknownContent`` with the
reason; the other blocks are not affected.

``str(block)`` is its text for a model: a text as it is, and for any other block a line in brackets
with its kind, MIME type and size. ``repr(block)`` has sizes instead of data, so that a result can
be logged. ``block.type`` is a literal, by which a type checker narrows the union.
"""

from __future__ import annotations

from binascii import Error as BadBase64
from binascii import a2b_base64
from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal, TypeAlias

from ..runtime.frozen import frozen_dataclass
from .metadata import Metadata, brief_text, decoded, decoded_size, shown, size_or_none, texts_in

__all__ = [
    "SIGNATURES",
    "AudioContent",
    "ContentBlock",
    "Contents",
    "EmbeddedResource",
    "ImageContent",
    "ResourceLink",
    "TextContent",
    "UnknownContent",
    "content_block",
]

_BINARY = "application/octet-stream"
_HEAD_CHARS = 64
"""The number of Base64 characters that are decoded to detect the type; a multiple of four."""
SIGNATURES = (
    ("image/png", b"\x89PNG\r\n\x1a\n", 0),
    ("image/jpeg", b"\xff\xd8\xff", 0),
    ("image/gif", b"GIF8", 0),
    ("image/webp", b"WEBP", 8),
    ("application/pdf", b"%PDF-", 0),
)
"""MIME types, the bytes that show them, and where these are."""
_MORE_SIGNATURES = (
    ("image/bmp", b"BM", 0),
    ("image/svg+xml", b"<svg", 0),
    ("audio/wav", b"WAVE", 8),
    ("audio/mpeg", b"ID3", 0),
    ("audio/mpeg", b"\xff\xfb", 0),
    ("audio/ogg", b"OggS", 0),
    ("audio/flac", b"fLaC", 0),
    ("audio/mp4", b"ftypM4A", 4),
)
_NEEDED = {
    "text": "text",
    "image": "data",
    "audio": "data",
    "resource_link": "uri",
    "resource": "text or blob",
}
"""The required member of each kind of block."""


class Encoded(Metadata):
    """Binary data, in the Base64 of the wire until ``bytes`` is read."""

    __slots__ = ()

    type: ClassVar[str]
    data: str
    mime_type: str

    @property
    def bytes(self) -> bytes:
        """The decoded data, at most three quarters of ``Limits.message_bytes``.

        Raises ``ProtocolViolation`` where ``data`` is not strict Base64.
        """
        return decoded(self.data, f"{self.type}'s data", self.raw)

    @property
    def size(self) -> int:
        """The number of bytes, which is known without decoding."""
        return decoded_size(self.data)

    def __str__(self) -> str:
        return f"[{self.type}, {shown(self.mime_type)}, {self.size} bytes]"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self.mime_type)!r}, {self.size} bytes)"


class Contents(Metadata):
    """The contents of a resource: ``text``, or ``blob`` in Base64; one of them is None."""

    __slots__ = ()

    uri: str
    mime_type: str | None
    text: str | None
    blob: str | None

    @property
    def bytes(self) -> bytes:
        """The decoded blob, or the text in UTF-8.

        At most three quarters of ``Limits.message_bytes``. Raises ``ProtocolViolation`` if the blob
        is not strict Base64.
        """
        if self.blob is None:
            return (self.text or "").encode("utf-8", "surrogatepass")
        return decoded(self.blob, "resource's blob", self.raw)

    @property
    def size(self) -> int:
        """The number of bytes; a blob is not decoded for it."""
        return len(self.bytes) if self.blob is None else decoded_size(self.blob)

    def __str__(self) -> str:
        label = f"resource: {shown(self.uri)}" if self.uri else "resource without an address"
        media = "" if self.mime_type is None else f", {shown(self.mime_type)}"
        if self.text is not None:
            return f"[{label}{media}]\n{self.text}"
        return f"[{label}{media}, {self.size} bytes]"

    def __repr__(self) -> str:
        held = brief_text(self.text) if self.text is not None else f"{self.size} bytes"
        media = "" if self.mime_type is None else f"{shown(self.mime_type)!r}, "
        return f"{type(self).__name__}({shown(self.uri)!r}, {media}{held})"


@frozen_dataclass
class TextContent(Metadata):
    """Text of a tool result, a prompt or a message of sampling; ``type`` is "text"."""

    text: str
    """The text, as the server sent it."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The block as it came; the same for every kind."""

    type: ClassVar[Literal["text"]] = "text"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"TextContent({brief_text(self.text)})"


@frozen_dataclass
class ImageContent(Encoded):
    """An image, in the Base64 of the wire until ``bytes`` is read; ``type`` is "image"."""

    data: str
    """Base64, as it came."""
    mime_type: str
    """The MIME type that the server states."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The block as it came."""

    type: ClassVar[Literal["image"]] = "image"

    def __repr__(self) -> str:
        return Encoded.__repr__(self)


@frozen_dataclass
class AudioContent(Encoded):
    """A recording, in the Base64 of the wire until ``bytes`` is read; ``type`` is "audio"."""

    data: str
    """Base64, as it came."""
    mime_type: str
    """The MIME type that the server states."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The block as it came."""

    type: ClassVar[Literal["audio"]] = "audio"

    def __repr__(self) -> str:
        return Encoded.__repr__(self)


@frozen_dataclass
class ResourceLink(Metadata):
    """A link to a resource, which is not read before ``Session.follow`` is called.

    It is read through the server whose result has the link. Its ``uri``, ``name``, ``title``,
    ``description`` and ``mime_type`` are the server's claims; ``type`` is "resource_link".
    """

    uri: str
    name: str
    title: str | None
    description: str | None
    mime_type: str | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The block as it came."""
    server: str = ""
    """The name the host gave the server whose result has the link."""
    _origin: str = field(default="", repr=False, compare=False)
    """Identifies the session of that result: two servers may have the same name."""

    type: ClassVar[Literal["resource_link"]] = "resource_link"

    @property
    def size(self) -> int | None:
        """The size of the resource in bytes, if the server states it."""
        return size_or_none(self.raw)

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
class EmbeddedResource(Contents):
    """The contents of a resource: ``text``, or ``blob`` in Base64; one of them is None.

    ``uri`` and ``mime_type`` are the server's; ``type`` is "resource".
    """

    uri: str
    mime_type: str | None
    text: str | None
    blob: str | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The block as it came."""

    type: ClassVar[Literal["resource"]] = "resource"

    def __repr__(self) -> str:
        return Contents.__repr__(self)


@frozen_dataclass
class UnknownContent:
    """A block of an unknown kind, or one that lacks what its kind is for; ``type`` is "unknown"."""

    kind: str
    """The block's own ``type``; empty where that is missing or not a string."""
    raw: Any
    """The block as it came."""

    type: ClassVar[Literal["unknown"]] = "unknown"

    def __str__(self) -> str:
        lacking = _NEEDED.get(self.kind)
        if lacking is None:
            return f"[content of unknown kind {shown(self.kind, 40)!r}]"
        found = self.raw if isinstance(self.raw, dict) else {}
        inner = found.get("resource")
        found = {**found, **inner} if isinstance(inner, dict) else found
        texts = zip(_LABELS, texts_in(found, *_LABELS), strict=True)
        rest = "".join(f", {name} {shown(text)!r}" for name, text in texts if text)
        return f"[{self.kind.replace('_', ' ')} without a usable {lacking}{rest}]"

    def __repr__(self) -> str:
        return f"UnknownContent({shown(self.kind, 40)!r})"


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
)
"""One part of a tool's result or of a prompt: distinguish them by class, or by ``type``."""


def content_block(block: Any, server: str = "", origin: str = "") -> ContentBlock:
    """A block as it came, as what it is. ``origin`` is the session's, for its links."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and type(text := block.get("text")) is str:  # the most common kind first
        return TextContent(text, block)
    typed = block
    if kind is None and isinstance(block, dict) and (kind := _kind_by_members(block)):
        typed = {**block, "type": kind}
    match typed:
        case {"type": "text", "text": str(text)}:
            return TextContent(text, block)
        case {"type": "image" | "audio", "data": str(data)}:
            data, media_type = _encoded(data, block)
            make = ImageContent if kind == "image" else AudioContent
            return make(data, media_type, block)
        case {"type": "resource_link", "uri": str(uri)}:
            title, about, media = texts_in(block, "title", "description", "mimeType")
            name = block.get("name")
            name = name if isinstance(name, str) and name else _name_of(uri)
            return ResourceLink(uri, name, title, about, media, block, server, origin)
        case {"type": "resource"}:
            inner = block.get("resource", block)  # some have its members beside ``type``
            if isinstance(inner, dict):
                address, media, inline, blob = texts_in(inner, "uri", "mimeType", "text", "blob")
                if (inline is None) != (blob is None):
                    return EmbeddedResource(address or "", media, inline, blob, block)
    return UnknownContent(kind if isinstance(kind, str) else "", block)


def _kind_by_members(block: Mapping[str, Any]) -> str | None:
    """Return the kind of a block that does not state it; None if its members do not show it."""
    match block:
        case {"resource": dict()}:
            return "resource"
        case {"data": str(data)}:
            kind = _encoded(data, block)[1].partition("/")[0]
            return kind if kind in ("image", "audio") else None
        case {"uri": str()}:
            return "resource" if "text" in block or "blob" in block else "resource_link"
        case {"text": str()}:
            return "text"
    return None


def _encoded(data: str, block: Mapping[str, Any]) -> tuple[str, str]:
    """Return the Base64 of an image or sound, and its MIME type.

    The MIME type is the server's, else that of the first bytes.
    """
    media = block.get("mimeType")
    if data.startswith("data:") and ";base64," in data[:200]:
        head, _, data = data.partition(";base64,")
        media = media or head.removeprefix("data:")
    if isinstance(media, str) and media:
        return data, media
    try:
        start = a2b_base64(data[:_HEAD_CHARS])
    except (BadBase64, ValueError):
        return data, _BINARY
    known = (*SIGNATURES, *_MORE_SIGNATURES)
    return data, next((kind for kind, sign, at in known if start.startswith(sign, at)), _BINARY)


def _name_of(uri: str) -> str:
    """Return the last meaningful part of an address."""
    parts = [part for part in uri.partition("?")[0].partition("#")[0].split("/") if part]
    return parts[-1] if len(parts) > 1 else uri


_LABELS = ("name", "title", "uri", "url", "mimeType")
"""The text for a block that cannot be used."""
