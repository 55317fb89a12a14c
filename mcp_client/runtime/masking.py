"""Hides secrets in text from outside: a server may repeat the credentials that it was sent.

The functions here know values, not messages: the caller says what was sent (``secrets_sent``) and
passes every text that came back through ``mask`` before it is shown, logged or put into an error.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

__all__ = ["MASK", "mask", "mask_json", "secrets_sent"]

MASK = "***"
_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "dpop"})
_HARMLESS = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "connection",
        "content-length",
        "content-type",
        "host",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "origin",
        "traceparent",
        "tracestate",
        "transfer-encoding",
        "user-agent",
    }
)
_SHORTEST = 4
"""Characters of a credential: masking shorter ones would spoil every text and hide nothing."""
_SHORTEST_VALUE = 6
"""The same for a header or a query parameter that may be no secret."""
_BEGINNING = 12
"""A text that was cut off may end within a secret: this much of its beginning is hidden as well."""


def mask(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every occurrence of a secret replaced by ``***``.

    Each is found as it is and percent-encoded, escaped as in JSON or in HTML. Of a long secret the
    first characters are enough, because servers and excerpts cut texts off.
    """
    return _without(text, _forms_of(secrets)) if text else text


def mask_json(value: Any, secrets: Iterable[str]) -> Any:
    """A JSON value with the secrets in its strings and names hidden."""
    forms = _forms_of(secrets)
    return _masked(value, forms) if forms else value


def secrets_sent(url: str, headers: Iterable[tuple[str, str]]) -> set[str]:
    """What is secret in a request: credentials, cookies, proofs, unknown headers, the URL's query.

    Header values of the protocol itself, such as ``Content-Type`` and ``Mcp-Param-*``, are not.
    """
    found: set[str] = set()
    for name, value in headers:
        name = name.lower()
        if name in _CREDENTIALS:
            found.update(_credentials(value))
        elif name not in _HARMLESS and not name.startswith("mcp-param-"):
            found.update(word for word in (value, value.rpartition(" ")[2]) if _long(word))
    return found | _secrets_of_url(url)


def _credentials(value: str) -> Iterator[str]:
    """Of an ``Authorization`` or ``Cookie`` header: all of it, and each value within."""
    yield value
    scheme, _, rest = value.partition(" ")
    if rest and "=" not in scheme:
        yield rest.strip()
        if scheme.lower() == "basic":
            yield from _basic(rest)
    for pair in value.split(";"):
        name, equals, secret = pair.strip().partition("=")
        if equals and " " not in name and secret.strip("="):
            yield secret.strip('"')


def _basic(encoded: str) -> Iterator[str]:
    try:
        pair = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return
    yield pair
    password = pair.partition(":")[2]
    yield from (password, unquote(password))


def _secrets_of_url(url: str) -> set[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return set()
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    found = {text for word in (user, password) for text in (word, unquote(word))}
    found = {text for text in found if len(text) >= _SHORTEST}
    if _long(parts.query):
        found.add(parts.query)
    pairs = parse_qsl(parts.query, max_num_fields=None)
    return found | {value for _, value in pairs if _long(value)}


def _long(value: str) -> bool:
    return len(value) >= _SHORTEST_VALUE


def _forms_of(secrets: Iterable[str]) -> list[str]:
    """How the secrets may be written, the longest first."""
    forms = {form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)}
    return sorted(forms, key=len, reverse=True)


def _forms(secret: str) -> set[str]:
    return {
        secret,
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        html.escape(secret),
    }


def _without(text: str, forms: list[str]) -> str:
    # A server may send a text of any length, made of our secrets: the time must be linear in it.
    for form in forms:
        if form in text:
            text = text.replace(form, MASK)
        if len(form) >= 2 * _BEGINNING and form[:_BEGINNING] in text:
            text = _without_beginnings(text, form)
    return text


def _without_beginnings(text: str, secret: str) -> str:
    start, rest = secret[:_BEGINNING], secret[_BEGINNING:]
    pieces: list[str] = []
    at = 0
    while (found := text.find(start, at)) >= 0:
        pieces += text[at:found], MASK
        at = found + len(start)
        for char in rest:
            if at >= len(text) or text[at] != char:
                break
            at += 1
    return "".join([*pieces, text[at:]])


def _masked(value: Any, forms: list[str]) -> Any:
    if isinstance(value, str):
        return _without(value, forms) if len(value) >= _SHORTEST else value
    if isinstance(value, dict):
        return {_masked(name, forms): _masked(item, forms) for name, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, forms) for item in value]
    return value
