"""What travels with everything a server shows: ``_meta``, annotations, icons, and binary data.

2026-07-28 ``server/resources`` (annotations) and ``basic/index`` (``_meta``, icons); annotations
since 2024-11-05, their ``lastModified`` since 2025-06-18, icons since 2025-11-25. All of it is the
server's own word: a hint for showing and sorting, and never a reason to trust.
"""

from __future__ import annotations

from binascii import Error as BadBase64
from binascii import a2b_base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ProtocolViolation
from ..runtime.safe_text import safe_text

__all__ = ["Annotations", "Metadata", "decoded", "decoded_size", "shown", "text_or_none"]

_ROLES = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class Annotations:
    """For whom something is and how much it matters, by the server's word.

    A member that is not what the specification says is as if it were not there.
    """

    audience: tuple[str, ...] = ()
    """"user" and "assistant", or either; empty where the server does not say."""
    priority: float | None = None
    """From 0 (leave it out if you like) to 1 (needed)."""
    last_modified: str | None = None
    """An ISO 8601 time, as it came."""

    @classmethod
    def from_wire(cls, value: object) -> Annotations | None:
        if type(value) is not dict:
            return None
        audience = value.get("audience")
        return cls(
            tuple(role for role in _ROLES if type(audience) is list and role in audience),
            _share(value.get("priority")),
            text_or_none(value.get("lastModified")),
        )


class Metadata:
    """The members that every kind of thing may have, read from its ``raw`` form when asked for."""

    __slots__ = ()

    raw: Mapping[str, Any]

    @property
    def meta(self) -> Mapping[str, Any]:
        """``_meta``; empty where there is none."""
        meta = self.raw.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def annotations(self) -> Annotations | None:
        return Annotations.from_wire(self.raw.get("annotations"))

    @property
    def icons(self) -> list[Mapping[str, Any]]:
        """Each with ``src`` and perhaps ``mimeType``, ``sizes`` and ``theme``. Never fetched."""
        icons = self.raw.get("icons")
        return [icon for icon in icons if type(icon) is dict] if type(icons) is list else []


def decoded(text: str, what: str, raw: Any) -> bytes:
    """The bytes of strict Base64 (RFC 4648, section 4: padded, and nothing between).

    Raises ``ProtocolViolation`` with ``raw``, for it is the server that broke it.
    """
    if len(text) % 4 or "=" in text[:-2]:  # which strict mode alone lets pass
        raise ProtocolViolation(f"the {what} is no Base64: its padding is wrong", result=raw)
    try:
        return a2b_base64(text.encode("ascii"), strict_mode=True)
    except (BadBase64, UnicodeEncodeError) as error:
        reason = "it is not ASCII" if isinstance(error, UnicodeEncodeError) else error
        raise ProtocolViolation(f"the {what} is no Base64: {reason}", result=raw) from None


def decoded_size(text: str) -> int:
    """How many bytes ``text`` is, if it is Base64."""
    return len(text) * 3 // 4 - text[-2:].count("=")


def shown(text: str, limit: int = 200) -> str:
    """A server's text within one line of ours: nothing in it can end the line or hide."""
    return safe_text(text, limit)


def text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _share(value: object) -> float | None:
    if (type(value) is int or type(value) is float) and 0 <= value <= 1:
        return float(value)
    return None
