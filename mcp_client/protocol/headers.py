"""The HTTP headers of requests and responses.

*Of requests*: the parts of a message that headers repeat, so that proxies can route it by them.
2026-07-28 ``basic/transports/streamable-http`` (request metadata). ``Mcp-Method`` and ``Mcp-Name``
repeat the method and the name or URI; ``Mcp-Param-*`` repeat the arguments of a tool whose schema
in ``inputSchema`` has ``x-mcp-header``. An ``x-mcp-header`` that breaks a rule makes the tool
unusable over HTTP, because the server would not get the headers that it expects.

*Of responses*: ``WWW-Authenticate`` (RFC 9110 section 11.6.1, RFC 6750, RFC 9449) may hold several
challenges, and commas separate both challenges and parameters. It is parsed from its beginning, so
that a scheme's name in a quoted string is not taken for a challenge. ``Retry-After`` (RFC 9110,
section 10.2.3) is seconds, or a date.
"""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, NamedTuple

from ..errors import InvalidArguments
from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import safe_text
from .json_paths import Role, walk

__all__ = [
    "HEADER_MISMATCH",
    "METHOD",
    "NAMED_BY",
    "PROTOCOL_VERSION",
    "Challenge",
    "HeaderParam",
    "InvalidHeaderParam",
    "header_params_of",
    "header_value",
    "mirrored",
    "name_header",
    "parse_challenges",
    "request_headers",
    "retry_after_seconds",
    "scopes_of",
    "what_is_wanted",
]

HEADER_MISMATCH = -32020
METHOD = "Mcp-Method"
PROTOCOL_VERSION = "MCP-Protocol-Version"

NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that ``Mcp-Name`` repeats, by method."""

_KEYWORD = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_START, _END = "=?base64?", "?="
_PRIMITIVE = frozenset({"string", "integer", "boolean"})
_SAFE = 2**53 - 1


class InvalidHeaderParam(ValueError):
    """An ``x-mcp-header`` breaks a rule; the text names it."""


class HeaderParam(NamedTuple):
    """An argument that a header repeats: its path in the arguments, and the header's name."""

    path: tuple[str, ...]
    header: str


@lru_cache(maxsize=256)
def request_headers(method: str, name: str | None = None) -> tuple[tuple[str, str], ...]:
    """Return ``Mcp-Method``, and ``Mcp-Name`` if the request names something."""
    named = () if name is None else (("Mcp-Name", header_value(name)),)
    return (METHOD, method), *named


def name_header(name: object) -> Mapping[str, str]:
    """Return ``Mcp-Name`` of an extension's request; it may be a secret, and is not cached."""
    return {"Mcp-Name": header_value(name)} if type(name) is str else {}


def mirrored(mirrors: Sequence[HeaderParam], arguments: str) -> dict[str, str]:
    """The ``Mcp-Param-*`` of a call; ``arguments`` is the JSON text that is sent.

    Raises ``InvalidArguments`` for an integer beyond 2**53 - 1, which JavaScript cannot hold.
    """
    if not mirrors:
        return {}
    values = json.loads(arguments)
    headers = {}
    for path, header in mirrors:
        value: Any = values
        for step in path:
            value = value.get(step) if type(value) is dict else None
        text = _text(value, path)
        if text is not None:
            headers[header] = header_value(text)
    return headers


def header_value(text: str) -> str:
    """Return ``text`` as a header's value: unchanged, or in Base64 (``=?base64?...?=``)."""
    is_encoded = text.startswith(_START) and text.endswith(_END)
    if not text or (_PLAIN.fullmatch(text) and not is_encoded):
        return text
    return _START + b64encode(text.encode("utf-8", "surrogatepass")).decode() + _END


def _text(value: Any, path: tuple[str, ...]) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float() if value.is_integer():
            value = int(value)
        case int():
            pass
        case _:
            return None  # null, absent, or of another type: the server checks the arguments
    if abs(value) > _SAFE:
        raise InvalidArguments(
            f"{'.'.join(path)} is repeated in an HTTP header, where integers end at 2**53 - 1",
            path="/" + "/".join(path),
        )
    return str(value)


def header_params_of(schema: Any) -> tuple[HeaderParam, ...]:
    """The arguments that headers repeat, by an ``inputSchema``. Raises ``InvalidHeaderParam``."""
    if not _mentioned(schema):
        return ()
    found: list[HeaderParam] = []
    taken: dict[str, str] = {}
    for part, role, _, path, _ in walk(schema):
        if role is not Role.SCHEMA or type(part) is not dict or _KEYWORD not in part:
            continue
        name = part[_KEYWORD]
        where = "a part of the schema" if path is None else ".".join(path) or "the schema itself"
        _check(name, where, part, bool(path))
        if name.lower() in taken:
            raise InvalidHeaderParam(
                f"{_KEYWORD} {name!r} of {where} is already used by {taken[name.lower()]}"
            )
        taken[name.lower()] = where
        found.append(HeaderParam(path or (), "Mcp-Param-" + name))
    return tuple(found)


def _mentioned(schema: Any) -> bool:
    """Whether any object in ``schema`` has the keyword: most have it nowhere."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if type(part) is dict:
            if _KEYWORD in part:
                return True
            part = part.values()
        elif type(part) is not list:
            continue
        waiting += [item for item in part if type(item) is dict or type(item) is list]
    return False


def _check(name: Any, where: str, place: Mapping[str, Any], reachable: bool) -> None:
    if not isinstance(name, str):
        raise InvalidHeaderParam(f"{_KEYWORD} of {where} is not a string")
    if not name:
        raise InvalidHeaderParam(f"{_KEYWORD} of {where} is empty")
    if not _TOKEN.fullmatch(name):
        raise InvalidHeaderParam(f"{_KEYWORD} {name[:40]!r} of {where} is not an HTTP field name")
    if not reachable:
        raise InvalidHeaderParam(f"{_KEYWORD} {name!r} is not reached by 'properties' alone")
    kind = place.get("type")
    kinds = [one for one in kind if one != "null"] if isinstance(kind, list) else [kind]
    if not kinds or not all(isinstance(one, str) and one in _PRIMITIVE for one in kinds):
        raise InvalidHeaderParam(
            f"{_KEYWORD} {name!r} of {where} is not on a string, integer or boolean"
        )


_MAX_CHARS = 16_384
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|$))")
_PARAMETER = re.compile(r'([!#$%&\'*+.^_`|~0-9A-Za-z-]+)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s,"]+)')
_BETWEEN = re.compile(r"[\s,]*")
_SPACE = re.compile(r"[ \t]+")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@frozen_dataclass
class Challenge:
    """One authentication scheme that a server offers, with its parameters."""

    scheme: str
    """The scheme in lower case: "bearer", "dpop", "basic"."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case, values without their quotes. Of duplicate names the first counts."""

    @property
    def scopes(self) -> frozenset[str]:
        """The required scopes."""
        return scopes_of(self.params.get("scope"))

    @property
    def resource_metadata(self) -> str | None:
        """The URL of the resource metadata."""
        return self.params.get("resource_metadata") or None

    @property
    def error(self) -> str | None:
        """The error code."""
        return self.params.get("error")


def scopes_of(text: object) -> frozenset[str]:
    """The scopes in a space-separated string; malformed ones are left out."""
    if not isinstance(text, str):
        return frozenset()
    return frozenset(word for word in text.split() if _SCOPE.fullmatch(word))


def parse_challenges(headers: Iterable[str]) -> list[Challenge]:
    """The challenges in the ``WWW-Authenticate`` headers of one response, in their order.

    Never raises: a header is read up to its first malformed part.
    """
    return [challenge for header in headers for challenge in _parse(header[:_MAX_CHARS])]


def _parse(text: str) -> list[Challenge]:
    found: list[Challenge] = []
    at = 0
    while (at := _end(_BETWEEN, text, at)) < len(text):
        scheme = _TOKEN.match(text, at)
        if scheme is None:
            break
        at = scheme.end()
        params: dict[str, str] = {}
        if (space := _SPACE.match(text, at)) is not None:
            at = _parameters(text, space.end(), params)
        found.append(Challenge(scheme.group().lower(), params))
        if at < len(text) and text[at] != ",":
            break
    return found


def _parameters(text: str, at: int, params: dict[str, str]) -> int:
    """Read parameters, or a token68, up to the next challenge. Returns where it begins."""
    while True:
        parameter = _PARAMETER.match(text, at)
        if parameter is None:
            token68 = None if params else _TOKEN68.match(text, at)
            return token68.end() if token68 is not None else at
        name, value = parameter.groups()
        value = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        params.setdefault(name.lower(), value)
        end = _end(_SPACE, text, parameter.end())
        at = _end(_BETWEEN, text, end)  # some servers separate parameters by spaces
        if at == parameter.end() or _PARAMETER.match(text, at) is None:
            return end


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def what_is_wanted(challenges: Iterable[Challenge]) -> str:
    """The challenges in words, for an error text; empty without any."""
    return " or ".join(_in_words(challenge) for challenge in list(challenges)[:4])


def _in_words(challenge: Challenge) -> str:
    words = "DPoP" if challenge.scheme == "dpop" else safe_text(challenge.scheme, 30).title()
    if challenge.scopes:
        words += f" with scope {safe_text(' '.join(sorted(challenge.scopes)), 200)!r}"
    if challenge.error:
        words += f" ({safe_text(challenge.error, 60)})"
    return words


def retry_after_seconds(value: str | None, now: Callable[[], float] = time.time) -> float | None:
    """The seconds to wait; None where the header is absent or cannot be read."""
    if not value:
        return None
    value = value.strip()
    if value.isascii() and value.isdecimal():
        return float(value[:9])
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now())
    except (ValueError, OverflowError):
        return None
