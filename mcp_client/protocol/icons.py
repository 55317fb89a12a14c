"""Which icons of a server a host may show.

2026-07-28 ``basic/index`` (icons; since 2025-11-25): consumers MUST refuse schemes other than
``https`` and ``data``, and SHOULD make sure that icons come from the server's own domain. Nothing
is fetched here. A host that fetches one sends no credentials and follows no redirect to another
origin; SVG can contain scripts and is left out.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from ..runtime.safe_text import invisible

__all__ = ["Origin", "safe_icons"]

Origin = tuple[str, str, int]
"""Scheme, host and port of a server, in lower case."""

_MEDIA = {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/webp": "webp"}
_DATA = re.compile(
    r"data:(image/(?:png|jpe?g|webp));base64,[A-Za-z0-9+/]+={0,2}", re.IGNORECASE
).fullmatch
_LONGEST_DATA = 256 * 1024
"""Characters of a ``data:`` URL."""
_LONGEST_URL = 2_048
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\U0010ffff\\\"'<>^`{|}]").search
_MOST = 16
"""Icons of one object; a list with more is cut."""


def safe_icons(icons: object, origin: Origin | None) -> list[dict[str, Any]]:
    """Those of ``icons``, as they came on the wire, that may be shown: copies.

    ``src`` is an ``https`` URL of ``origin``, that of the server, where it has one; or a ``data:``
    URL of a PNG, JPEG or WebP in Base64 of at most 256 KiB. ``mimeType``, where it is given, is one
    of these three. Of other members those the specification names are kept, if they are texts.
    """
    if type(icons) is not list:
        return []
    found = [_safe(icon, origin) for icon in icons[:_MOST]]
    return [icon for icon in found if icon is not None]


def _safe(icon: object, origin: Origin | None) -> dict[str, Any] | None:
    if type(icon) is not dict:
        return None
    src, media = icon.get("src"), icon.get("mimeType")
    if type(src) is not str or (media is not None and not _is_medium(media)):
        return None
    data = _DATA(src) if len(src) <= _LONGEST_DATA else None
    if data is not None:
        if media is not None and _MEDIA[media.lower()] != _MEDIA[data[1].lower()]:
            return None
    elif not _is_of(src, origin):
        return None
    kept: dict[str, Any] = {"src": src}
    if media is not None:
        kept["mimeType"] = media
    sizes, theme = icon.get("sizes"), icon.get("theme")
    if type(sizes) is list and len(sizes) <= _MOST and all(map(_is_short, sizes)):
        kept["sizes"] = list(sizes)
    if theme in ("light", "dark"):
        kept["theme"] = theme
    return kept


def _is_medium(media: object) -> bool:
    return type(media) is str and media.lower() in _MEDIA


def _is_short(size: object) -> bool:
    return type(size) is str and len(size) <= 20 and not invisible(size)


def _is_of(url: str, origin: Origin | None) -> bool:
    """Whether ``url`` is ``https`` and of ``origin``."""
    if origin is None or len(url) > _LONGEST_URL or _FORBIDDEN(url):
        return False
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    if parts.scheme.lower() != "https" or "@" in parts.netloc or not host:
        return False
    return ("https", host.lower(), 443 if port is None else port) == origin
