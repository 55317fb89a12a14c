"""The common members of a server's objects: ``_meta``, annotations, icons, and binary data.

2026-07-28 ``server/resources`` (annotations) and ``basic/index`` (``_meta``, icons); annotations
since 2024-11-05, their ``lastModified`` since 2025-06-18, icons since 2025-11-25. All of it is
the server's claim: a hint for display and order, never a reason to trust.

*Which icons a host may show.* Consumers MUST refuse schemes other than ``https`` and ``data``, and
SHOULD make sure that icons come from the server's own domain. Nothing is fetched here. A host that
fetches one sends no credentials and follows no redirect to another origin; SVG can contain scripts
and is omitted.
"""

from __future__ import annotations

import re
from binascii import Error as BadBase64
from binascii import a2b_base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import ConfigError, ProtocolViolation
from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import invisible, safe_text

__all__ = [
    "RELATED_TASK",
    "Annotations",
    "Metadata",
    "Origin",
    "brief",
    "brief_text",
    "check_meta",
    "decoded",
    "decoded_size",
    "related_task",
    "safe_icons",
    "shown",
    "size_or_none",
    "texts_in",
]

RELATED_TASK = "io.modelcontextprotocol/related-task"
"""The key of the task that a message belongs to (2025-11-25 ``basic/utilities/tasks``)."""
_MAX_TASK_ID_CHARS = 4_096
_ROLES = ("user", "assistant")
_BRIEF_CHARS = 80
_MAX_BRIEF_VALUES = 8

_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
# Strings, because compiling them at import would cost every program a millisecond.
_META_KEY = rf"(?:{_LABEL}(?:\.{_LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
# W3C Trace Context, level 2: a version above 00 may append fields that are not known here.
_TRACEPARENT = (
    r"(?:00-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})-[0-9a-f]{2}"
    r"|(?!00|ff)[0-9a-f]{2}-(?P<trace2>[0-9a-f]{32})-(?P<parent2>[0-9a-f]{16})-[0-9a-f]{2}"
    r"(?:-[\x21-\x7e]*)?)"
)
_STATE = (
    r"(?P<key>[a-z0-9][a-z0-9_\-*/@]{0,255})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_MAX_STATES = 32
_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_BAGGAGE = (
    rf"{_WORD}[ \t]*=[ \t]*{_VALUE}[ \t]*"
    rf"(?:;[ \t]*{_WORD}[ \t]*(?:=[ \t]*{_VALUE}[ \t]*)?)*"
)
_MAX_BAGGAGES = 180


@frozen_dataclass
class Annotations:
    """The audience and importance of an object, as the server states them.

    A member that breaks the specification is ignored.
    """

    audience: tuple[str, ...] = ()
    """The audience: "user" and "assistant", or either; empty if the server does not state it."""
    priority: float | None = None
    """The importance, from 0 (optional) to 1 (required)."""
    last_modified: str | None = None
    """An ISO 8601 time, as it came."""

    @classmethod
    def from_wire(cls, value: object) -> Annotations | None:
        """Parse annotations; None if ``value`` is not a JSON object."""
        if type(value) is not dict:
            return None
        audience = value.get("audience")
        return cls(
            tuple(role for role in _ROLES if type(audience) is list and role in audience),
            _share(value.get("priority")),
            _text_or_none(value.get("lastModified")),
        )


class Metadata:
    """Members that every kind of object may have, read from its ``raw`` form when asked for."""

    __slots__ = ()

    raw: Mapping[str, Any]

    @property
    def meta(self) -> Mapping[str, Any]:
        """The ``_meta`` member; empty if it is absent."""
        meta = self.raw.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def annotations(self) -> Annotations | None:
        """The audience and importance, as the server states them."""
        return Annotations.from_wire(self.raw.get("annotations"))

    @property
    def icons(self) -> list[Mapping[str, Any]]:
        """The icons, each with ``src`` and perhaps ``mimeType``, ``sizes`` and ``theme``.

        They are never fetched. Show ``safe_icons`` to people.
        """
        icons = self.raw.get("icons")
        return [icon for icon in icons if type(icon) is dict] if type(icons) is list else []

    @property
    def safe_icons(self) -> list[dict[str, Any]]:
        """The icons that a host may show; never fetched.

        ``https`` URLs of the server's own origin, and ``data:`` URLs of PNG, JPEG or WebP images of
        at most 256 KiB.
        """
        return safe_icons(self.raw.get("icons"), getattr(self, "_origin", None))


def related_task(message: Mapping[str, Any]) -> str | None:
    """Return the id of the task that the params of a request, or a result, belong to."""
    meta = message.get("_meta")
    related = meta.get(RELATED_TASK) if type(meta) is dict else None
    id = related.get("taskId") if type(related) is dict else None
    return id if type(id) is str and 0 < len(id) <= _MAX_TASK_ID_CHARS else None


def check_meta(meta: Mapping[str, Any]) -> None:
    """Check the ``_meta`` that a caller gives for a request, before anything is sent.

    Its keys are an optional prefix of dotted labels with a slash, and a name; ``traceparent``,
    ``tracestate`` and ``baggage`` are in the W3C's formats (2026-07-28 ``basic/index``,
    ``_meta``). Raises ``ConfigError`` with the key and the rule.
    """
    for key, value in meta.items():
        if not isinstance(key, str):
            continue  # not JSON: refused where the rest of it is
        if not re.fullmatch(_META_KEY, key):
            raise ConfigError(
                f"meta key {safe_text(key, 80)!r}: give a name that begins and ends with a letter "
                "or digit, with '-', '_' and '.' between, after an optional prefix of labels such "
                "as 'com.example/'"
            )
        check = _W3C.get(key)
        if check is not None and not (isinstance(value, str) and check(value)):
            raise ConfigError(f"meta[{key!r}] is not in the format of W3C {_W3C_PAGE[key]}")


def _is_traceparent(value: str) -> bool:
    found = re.fullmatch(_TRACEPARENT, value)
    return found is not None and all(
        part.strip("0") for part in found.groupdict().values() if part is not None
    )


def _is_tracestate(value: str) -> bool:
    # Empty members are allowed, and a key may come once.
    members = [member.strip(" \t") for member in value.split(",")]
    found = [re.fullmatch(_STATE, member) for member in members if member]
    keys = [one["key"] for one in found if one is not None]
    return len(keys) == len(found) <= _MAX_STATES and len(set(keys)) == len(keys)


def _is_baggage(value: str) -> bool:
    members = [member.strip(" \t") for member in value.split(",")]
    if len(members) > _MAX_BAGGAGES:
        return False
    return all(re.fullmatch(_BAGGAGE, member) for member in members)


_W3C = {"traceparent": _is_traceparent, "tracestate": _is_tracestate, "baggage": _is_baggage}
_W3C_PAGE = {"traceparent": "Trace Context", "tracestate": "Trace Context", "baggage": "Baggage"}


def decoded(text: str, what: str, raw: Any) -> bytes:
    """The bytes of strict Base64 (RFC 4648, section 4: padded, and nothing between).

    Raises ``ProtocolViolation`` with ``raw``, for it is the server that broke it.
    """
    if len(text) % 4 or "=" in text[:-2]:  # which strict mode alone lets pass
        raise ProtocolViolation(f"the {what} is not Base64: its padding is wrong", result=raw)
    try:
        return a2b_base64(text.encode("ascii"), strict_mode=True)
    except (BadBase64, UnicodeEncodeError) as error:
        reason = "it is not ASCII" if isinstance(error, UnicodeEncodeError) else error
        raise ProtocolViolation(f"the {what} is not Base64: {reason}", result=raw) from None


def decoded_size(text: str) -> int:
    """Return the number of bytes that ``text`` encodes, if it is Base64."""
    return len(text) * 3 // 4 - text[-2:].count("=")


def shown(text: str, limit: int = 200) -> str:
    """A server's text within one line of ours: nothing in it can end the line or hide."""
    return safe_text(text, limit)


def brief_text(text: str) -> str:
    """A text for a ``repr``: in quotes, its beginning only, and then how long it is."""
    if len(text) <= _BRIEF_CHARS:
        return repr(safe_text(text, lines=True))
    return f"{safe_text(text[:_BRIEF_CHARS], lines=True) + '…'!r}, {len(text)} characters"


def brief(values: Sequence[object]) -> str:
    """Many values for a ``repr``: the first few, and how many more there are."""
    first = ", ".join([repr(value) for value in values[:_MAX_BRIEF_VALUES]])
    left = len(values) - _MAX_BRIEF_VALUES
    return f"[{first}, and {left} more]" if left > 0 else f"[{first}]"


def _text_or_none(value: Any) -> str | None:
    """Return ``value`` if it is a str, else None."""
    return value if isinstance(value, str) else None


def size_or_none(entry: Mapping[str, Any]) -> int | None:
    """Return the size in bytes that a server states, or None."""
    size = entry.get("size")
    return size if type(size) is int and size >= 0 else None


def texts_in(entry: Mapping[str, Any], *names: str) -> Iterator[str | None]:
    """The members of these names that are texts; None for each that is not."""
    return (_text_or_none(entry.get(name)) for name in names)


def _share(value: object) -> float | None:
    if (type(value) is int or type(value) is float) and 0 <= value <= 1:
        return float(value)
    return None


Origin = tuple[str, str, int]
"""Scheme, host and port of a server, in lower case."""

_MEDIA = {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/webp": "webp"}
_DATA = r"(?i)data:(image/(?:png|jpe?g|webp));base64,[A-Za-z0-9+/]+={0,2}"
_MAX_DATA_CHARS = 256 * 1024
"""Characters of a ``data:`` URL."""
_MAX_URL_CHARS = 2_048
_FORBIDDEN = r"[\x00-\x20\x7f-\U0010ffff\\\"'<>^`{|}]"
_MAX_ICONS = 16
"""Icons of one object; a list with more is cut."""


def safe_icons(icons: object, origin: Origin | None) -> list[dict[str, Any]]:
    """Return copies of those ``icons`` of the wire format that may be shown.

    ``src`` is an ``https`` URL of the server's ``origin``, if it has one; or a ``data:`` URL of a
    PNG, JPEG or WebP in Base64 of at most 256 KiB. ``mimeType``, if set, is one of these three.
    Other members that the specification defines are copied if they are str.
    """
    if type(icons) is not list:
        return []
    found = [_safe(icon, origin) for icon in icons[:_MAX_ICONS]]
    return [icon for icon in found if icon is not None]


def _safe(icon: object, origin: Origin | None) -> dict[str, Any] | None:
    if type(icon) is not dict:
        return None
    src, media = icon.get("src"), icon.get("mimeType")
    if type(src) is not str:
        return None
    if media is not None and (type(media) is not str or media.lower() not in _MEDIA):
        return None
    data = re.fullmatch(_DATA, src) if len(src) <= _MAX_DATA_CHARS else None
    if data is not None:
        if media is not None and _MEDIA[media.lower()] != _MEDIA[data[1].lower()]:
            return None
    elif not _is_of(src, origin):
        return None
    fields: dict[str, Any] = {"src": src}
    if media is not None:
        fields["mimeType"] = media
    sizes, theme = icon.get("sizes"), icon.get("theme")
    if type(sizes) is list and len(sizes) <= _MAX_ICONS and all(map(_is_short, sizes)):
        fields["sizes"] = list(sizes)
    if theme in ("light", "dark"):
        fields["theme"] = theme
    return fields


def _is_short(size: object) -> bool:
    return type(size) is str and len(size) <= 20 and not invisible(size)


def _is_of(url: str, origin: Origin | None) -> bool:
    """Whether ``url`` is ``https`` and of ``origin``."""
    if origin is None or len(url) > _MAX_URL_CHARS or re.search(_FORBIDDEN, url):
        return False
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    if parts.scheme.lower() != "https" or "@" in parts.netloc or not host:
        return False
    return ("https", host.lower(), 443 if port is None else port) == origin
