"""Return the words in which a provider refuses a request, without secrets.

RFC 6749 section 5.2 defines a JSON object with ``error`` and ``error_description``. Other providers
send an array, an object of their own, plain text or a page. The user needs these words to find the
cause, so errors quote up to 300 characters of them, in one line.

A provider may repeat secrets that it was sent, or include a token. Only members of JSON that hold
words for people are used, and what looks like a credential is hidden. Text in a response of success
is not quoted at all, because it may be a token, and of its JSON only members about an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..runtime.masking import MASK, mask
from ..runtime.safe_text import safe_text
from ..runtime.strict_json import read_json
from .steps import Fetched

__all__ = ["words_of"]

_MAX_CHARS = 300
_MAX_READ_CHARS = 16_384
_MAX_DEPTH = 32
_MAX_WORDS_DEPTH = 4
_WORDS = (
    "error",
    "error_code",
    "error_description",
    "error_message",
    "errors",
    "code",
    "title",
    "message",
    "msg",
    "description",
    "detail",
    "details",
    "reason",
    "hint",
)
"""The members that hold a text for people, in the order in which they are shown."""
_OF_ERRORS = frozenset({"error", "error_description", "error_message", "errors", "message", "msg"})
_TITLE = re.compile(r"(?i)<title[^<>]{0,200}>([^<]{1,300})")
_CREDENTIAL = re.compile(
    r"(?i)((?:token|secret|code|assertion|verifier|password|credential|key)\w{0,20}"
    r"(?:[\"']\s{0,4}:|\s?=)\s{0,4}[\"']?)[^\s\"'&,;<>]{6,}"
)
_LONG_WORD = re.compile(r"\beyJ[\w.-]{10,}|[\w+/=~-]{32,}")


def words_of(response: Fetched, secrets: Iterable[str] = (), *, code: str | None = None) -> str:
    """Return the server's words in a response that refuses a request; empty if it has none.

    ``secrets`` are what was sent, and are hidden. ``code`` is what the caller shows already.
    """
    try:
        value = read_json(response.body, max_depth=_MAX_DEPTH)
    except ValueError:
        text = "" if response.is_success else _plain(response.body)
    else:
        if response.is_success:  # only what describes an error
            known = value if isinstance(value, dict) else {}
            value = {name: known[name] for name in known if name in _OF_ERRORS}
        text = ", ".join(each for each in dict.fromkeys(_texts(value, 0)) if each != code)
    text = mask(" ".join(text[:_MAX_READ_CHARS].split()), secrets)
    text = _LONG_WORD.sub(MASK, _CREDENTIAL.sub(rf"\1{MASK}", text))
    return safe_text(text, _MAX_CHARS)


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, list) and depth < _MAX_WORDS_DEPTH:
        for item in value[:5]:
            yield from _texts(item, depth + 1)
    elif isinstance(value, dict) and depth < _MAX_WORDS_DEPTH:
        for name in _WORDS:
            yield from _texts(value.get(name), depth + 1)


def _plain(body: bytes) -> str:
    """Return the text of a body that is not JSON; of a page its title."""
    text = body[: 4 * _MAX_READ_CHARS].decode("utf-8", "replace").strip()
    if not text.startswith("<"):
        return text
    title = _TITLE.search(text)
    return "" if title is None else title[1]
