"""The forms in which a secret may come back, and the forms in which a text may hide one."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus

__all__ = ["decodings", "echoes", "spellings", "texts_of"]

_SHORTEST = 4
_RECOGNIZED = 12
"""Characters of a secret by which it is recognized though the rest of it was cut off."""
_LINE = 8
_BITS = 256
_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{20,}+={0,2}")
_PERCENT = re.compile(r"[^\s%]*+%[0-9A-Fa-f]{2}\S*+")
_CANDIDATES = 16


def texts_of(value: Any, most: int) -> list[str]:
    """The texts in a secret value, by which it is found again in a text about it."""
    found: list[str] = []
    rest = [value]
    while rest and len(found) < most:
        item = rest.pop()
        if isinstance(item, Mapping):
            rest += list(item.values())[:most]
        elif isinstance(item, list | tuple):
            rest += list(item)[:most]
        elif isinstance(item, str) and len(item) >= 4:
            found.append(item)
        elif isinstance(item, int | float) and abs(item) > 999:
            found += [str(item)] if abs(item) < 2**_BITS else []
    return found


def echoes(text: str, secret: str) -> Iterator[tuple[int, int]]:
    """Where ``text`` repeats ``secret``, as it is or escaped, to its end or only its beginning."""
    for spelled in spellings(secret):
        start = spelled[:_RECOGNIZED]
        at = text.find(start)
        while at >= 0:
            end = at + len(start)
            while end < len(text) and end - at < len(spelled) and text[end] == spelled[end - at]:
                end += 1
            yield at, end
            at = text.find(start, end)


def spellings(secret: str) -> list[str]:
    """``secret`` as it is and in the usual escapes: of JSON, Python, URLs, HTML, base64, hex."""
    dumped = json.dumps(secret)[1:-1]
    plain = json.dumps(secret, ensure_ascii=False)[1:-1]
    forms = [
        secret,
        dumped,
        plain,
        dumped.replace("/", "\\/"),
        json.dumps(dumped)[1:-1],
        json.dumps(plain, ensure_ascii=False)[1:-1],
        re.sub(r"\\u[0-9a-f]{4}", lambda match: "\\u" + match[0][2:].upper(), dumped),
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        html.escape(secret),
        html.escape(secret, quote=False),
        secret.replace("'", "'\\''"),
    ]
    raw = secret.encode("utf-8", "surrogatepass")
    for encode in (quote, quote_plus):
        forms += (encode(raw), encode(raw, safe=""))
    forms += (forms[-1].lower(), raw.hex(), raw.hex().upper(), *_base64_of(raw))
    if "\n" in secret:
        forms += (line.strip() for line in secret.splitlines() if len(line.strip()) >= _LINE)
    return [form for form in dict.fromkeys(forms) if len(form) >= _SHORTEST]


def _base64_of(raw: bytes) -> Iterator[str]:
    """What is the same in base64 wherever ``raw`` stands in the bytes that are encoded."""
    for offset in range(3):
        text = base64.b64encode(b"\0" * offset + raw).decode()
        start = (offset * 8 + 5) // 6
        end = (offset + len(raw)) * 8 // 6
        if end - start >= _LINE:
            yield text[start:end]
            yield text[start:end].replace("+", "-").replace("/", "_")


def decodings(text: str) -> Iterator[tuple[int, int, str]]:
    """Parts of ``text`` that are another text in an encoding: start, end, and that text."""
    if "%" in text:
        yield 0, len(text), _PERCENT.sub(lambda match: unquote_plus(match[0]), text)
    if "&" in text and ";" in text:
        decoded = html.unescape(text)
        if decoded != text:
            yield 0, len(text), decoded
    if "\\u00" in text or "\\x" in text:
        decoded = re.sub(
            r"\\+(?:u00|x)([0-9a-fA-F]{2})", lambda match: chr(int(match[1], 16)), text
        )
        yield 0, len(text), decoded
    for count, match in enumerate(_BASE64.finditer(text)):
        if count >= _CANDIDATES:
            break
        inner = _text_in(match[0])
        if inner is not None:
            yield match.start(), match.end(), inner


def _text_in(encoded: str) -> str | None:
    """The text in base64, or None where it is not base64 of a text."""
    body = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        text = base64.b64decode(body + "=" * (-len(body) % 4), validate=True).decode()
    except (ValueError, binascii.Error):
        return None
    return (
        text if text.isprintable() or all(c.isprintable() or c in "\r\n\t" for c in text) else None
    )
