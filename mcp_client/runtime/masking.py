"""Hide secrets in text from outside: a server may repeat the secrets that it was given.

The functions here know values, not messages. The caller passes what was sent: ``secrets_sent`` of
an HTTP request, ``secrets_passed`` of a process. Every text of the server passes ``mask`` before it
is shown, logged, stored or put into an error.

A secret is found as it is and in its ``spellings``: escaped as in JSON, Python, HTML and shells,
percent-encoded, in base64 and in hexadecimal. In any other form (reversed, compressed, encrypted,
in pieces, base32) it is not recognized.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus, urlsplit

from .secret_names import KEYS, SecretNames, SecretText
from .urls import path_keys

__all__ = [
    "MASK",
    "Masker",
    "decodings",
    "echoes",
    "is_harmless",
    "mask",
    "mask_json",
    "secrets_passed",
    "secrets_sent",
    "spellings",
    "texts_of",
]

MASK = "***"
_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "dpop"})
_HARMLESS = frozenset(
    """
    accept accept-encoding accept-language connection content-length content-type host last-event-id
    mcp-method mcp-name mcp-protocol-version origin traceparent tracestate transfer-encoding
    user-agent
    """.split()  # noqa: SIM905 - a list of words is read as words
)
_MIN_SECRET_CHARS = 4
"""Masking shorter ones would spoil every text and hide nothing."""
_MIN_VALUE_CHARS = 6
"""The characters of a header, a query parameter or a variable that may not be secret."""
_BEGINNING_CHARS = 12
"""A text that was cut off may end within a secret: this much of its beginning is found as well."""
_MIN_LINE_CHARS = 8
"""The characters of a line, or of a run of base64, by which a longer secret is recognized."""
_MAX_INTEGER_BITS = 256
_MAX_BASE64_RUNS = 16
_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{20,}+={0,2}")
_PERCENT = re.compile(r"[^\s%]*+%[0-9A-Fa-f]{2}\S*+")
_NOTHING = frozenset(
    "true false null none nil undefined default auto enabled disabled yes no".split()  # noqa: SIM905
)
_SETTING = re.compile(r"(?:[A-Za-z]+|[0-9]{1,5})?(?:[-_./\\:,~](?:[A-Za-z]+|[0-9]{1,5})?)*")
_PATH = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.+ -]{0,24})+")
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]{0,20}://[\w.-]+(?::\d{1,5})?(?:/[\w.~-]{0,24})*")
_PAIR = re.compile(r"(?:^|[;&\s])([\w-]{1,60})=([^;&\s]+)")
_names = SecretNames(KEYS)


class Masker:
    """A masker that hides the same secrets in any number of texts; ``mark`` replaces each."""

    def __init__(self, secrets: Iterable[str] = (), mark: str = MASK) -> None:
        self._mark = mark
        self._secrets: set[str] = set()
        self._forms: list[str] = []
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Hide these secrets, too."""
        new = {each for each in secrets if len(each) >= _MIN_SECRET_CHARS} - self._secrets
        self._secrets |= new
        forms = {form for secret in new for form in spellings(secret)}
        self._forms = sorted({*self._forms, *forms}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """``text`` with every occurrence of a secret replaced.

        Of a long secret the first characters are enough, because servers and excerpts cut texts
        off.
        """
        return _without(text, self._forms, self._mark) if len(text) >= _MIN_SECRET_CHARS else text

    def json(self, value: Any) -> Any:
        """Return a JSON value with the secrets in its strings, numbers and names hidden."""
        return self._masked(value) if self._forms else value

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self._masked(name): self._masked(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._masked(item) for item in value]
        if (
            type(value) is int
            and value.bit_length() <= _MAX_INTEGER_BITS
            and str(value) in self._secrets
        ):
            return self._mark
        return value


def mask(text: str, secrets: Iterable[str]) -> str:
    """``Masker(secrets).text(text)``."""
    return Masker(secrets).text(text) if text else text


def mask_json(value: Any, secrets: Iterable[str]) -> Any:
    """``Masker(secrets).json(value)``."""
    return Masker(secrets).json(value)


def is_harmless(header: str) -> bool:
    """Whether an HTTP header of that name reveals nothing about the user.

    Those are headers of the protocol and those that every client sends. Any unknown name counts as
    one of a secret.
    """
    name = header.lower()
    return name in _HARMLESS or name.startswith("mcp-param-")


def secrets_sent(url: str, headers: Iterable[tuple[str, str]]) -> set[str]:
    """Return the secrets in a request.

    They are credentials, cookies, proofs, unknown headers, and of the URL user, password, query and
    keys in the path. Header values of the protocol itself, such as ``Content-Type`` and
    ``Mcp-Param-*``, are not.
    """
    found: set[str] = set()
    for name, value in headers:
        name = name.lower()
        if name in _CREDENTIALS:
            found.update(_credentials(value))
        elif not is_harmless(name):
            found.update(word for word in (value, value.rpartition(" ")[2]) if _long(word))
    return found | _secrets_of_url(url)


def _credentials(value: str) -> Iterator[str]:
    """Yield an ``Authorization`` or ``Cookie`` header, and each value in it."""
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
    found = {text for text in found if len(text) >= _MIN_SECRET_CHARS}
    found |= path_keys(parts.path)
    if _long(parts.query):
        found.add(parts.query)
    pairs = parse_qsl(parts.query, max_num_fields=None)
    return found | {value for _, value in pairs if _long(value)}


def _long(value: str) -> bool:
    return len(value) >= _MIN_VALUE_CHARS


def secrets_passed(env: Mapping[str, str], words: Sequence[str] = ()) -> set[str]:
    """Return the secrets in the variables and the words of a command that starts a process.

    - The value of a variable whose name ends as that of a secret (``DB_PASSWORD``, ``API_KEY``;
      see ``secret_names``), from 4 characters on; ``true``, ``none`` and the like never.
    - Any other value of at least 6 characters that is not plainly a setting: words of letters and
      numbers of up to 5 digits joined by punctuation (``production``, ``eu-west-1``,
      ``http://localhost:8080/mcp``), or a path. If the name has the word of a secret elsewhere
      (``PASSWORD_FOR_CI``), one word alone is not plainly a setting.
    - A ``SecretText``, and the secrets in it, from 4 characters on.
    - In each: user, password, query and path keys of a URL, and ``name=value`` by the same names.
    - Words of the command by the same names: ``--token X``, ``--token=X``, ``-e TOKEN=X``.

    So a secret that reads like a word, in a variable with a neutral name, is not known.
    """
    pairs = list(env.items())
    before = ""
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if equals:
            pairs.append((name, value))
        elif before.startswith("-") and not word.startswith("-") and _names.is_secret(before):
            pairs.append((before, word))
        before = "" if equals else word
        if "://" in word:
            pairs.append(("", word))
    return {secret for name, value in pairs for secret in _secrets_of_value(name, value)}


def _secrets_of_value(name: str, value: str) -> Iterator[str]:
    if isinstance(value, SecretText):
        yield from (each for each in (value, *value.secrets) if len(each) >= _MIN_SECRET_CHARS)
    value = value.strip()
    if len(value) < _MIN_SECRET_CHARS or value.lower() in _NOTHING:
        return
    if _names.ends_as_secret(name):
        yield value
    elif _long(value):
        word = value.isalpha() and _names.is_secret(name)
        if word or not any(each.fullmatch(value) for each in (_SETTING, _PATH, _ADDRESS)):
            yield value
    if "://" in value:
        yield from _secrets_of_url(value)
    yield from (found for key, found in _PAIR.findall(value) if _names.ends_as_secret(key))


def _without(text: str, forms: list[str], mark: str) -> str:
    # A server may send a text of any length, made of our secrets: the time must be linear in it.
    for form in forms:
        if form in text:
            text = text.replace(form, mark)
    for form in forms:  # not before: two forms may begin alike
        if len(form) >= 2 * _BEGINNING_CHARS and form[:_BEGINNING_CHARS] in text:
            text = _without_beginnings(text, form, mark)
    return text


def _without_beginnings(text: str, secret: str, mark: str) -> str:
    start, rest = secret[:_BEGINNING_CHARS], secret[_BEGINNING_CHARS:]
    pieces: list[str] = []
    at = 0
    while (found := text.find(start, at)) >= 0:
        pieces += text[at:found], mark
        at = found + len(start)
        for char in rest:
            if at >= len(text) or text[at] != char:
                break
            at += 1
    return "".join([*pieces, text[at:]])


# ---------------------------------------------- the forms in which a secret may be repeated


def texts_of(value: Any, most: int) -> list[str]:
    """Return the texts in a secret value, by which it is found again in a text about it."""
    found: list[str] = []
    rest = [value]
    while rest and len(found) < most:
        item = rest.pop()
        if isinstance(item, Mapping):
            rest += list(item.values())[:most]
        elif isinstance(item, list | tuple):
            rest += list(item)[:most]
        elif isinstance(item, str) and len(item) >= _MIN_SECRET_CHARS:
            found.append(item)
        elif isinstance(item, int | float) and abs(item) > 999:
            found += [str(item)] if abs(item) < 2**_MAX_INTEGER_BITS else []
    return found


def echoes(text: str, secret: str) -> Iterator[tuple[int, int]]:
    """Yield the places at which ``text`` repeats ``secret``.

    It may be plain or escaped, to its end or only its beginning.
    """
    for spelled in spellings(secret):
        start = spelled[:_BEGINNING_CHARS]
        at = text.find(start)
        while at >= 0:
            end = at + len(start)
            while end < len(text) and end - at < len(spelled) and text[end] == spelled[end - at]:
                end += 1
            yield at, end
            at = text.find(start, end)


def spellings(secret: str) -> list[str]:
    """``secret`` as it is and in the usual escapes: of JSON, Python, URLs, HTML, base64, hex."""
    import html  # only for a secret: its table of entities takes as long as this module

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
        forms += (
            line.strip() for line in secret.splitlines() if len(line.strip()) >= _MIN_LINE_CHARS
        )
    return [form for form in dict.fromkeys(forms) if len(form) >= _MIN_SECRET_CHARS]


def _base64_of(raw: bytes) -> Iterator[str]:
    """Yield the common base64 of ``raw`` wherever it is in the encoded bytes."""
    for offset in range(3):
        text = base64.b64encode(b"\0" * offset + raw).decode()
        start = (offset * 8 + 5) // 6
        end = (offset + len(raw)) * 8 // 6
        if end - start >= _MIN_LINE_CHARS:
            yield text[start:end]
            yield text[start:end].replace("+", "-").replace("/", "_")


def decodings(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield parts of ``text`` that are another text in an encoding: start, end, and that text."""
    if "%" in text:
        yield 0, len(text), _PERCENT.sub(lambda match: unquote_plus(match[0]), text)
    if "&" in text and ";" in text:
        import html

        decoded = html.unescape(text)
        if decoded != text:
            yield 0, len(text), decoded
    if "\\u00" in text or "\\x" in text:
        decoded = re.sub(
            r"\\+(?:u00|x)([0-9a-fA-F]{2})", lambda match: chr(int(match[1], 16)), text
        )
        yield 0, len(text), decoded
    for count, match in enumerate(_BASE64.finditer(text)):
        if count >= _MAX_BASE64_RUNS:
            break
        inner = _text_in(match[0])
        if inner is not None:
            yield match.start(), match.end(), inner


def _text_in(encoded: str) -> str | None:
    """Return the text in base64, or None if it is not base64 of a text."""
    body = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        text = base64.b64decode(body + "=" * (-len(body) % 4), validate=True).decode()
    except (ValueError, binascii.Error):
        return None
    return (
        text if text.isprintable() or all(c.isprintable() or c in "\r\n\t" for c in text) else None
    )
