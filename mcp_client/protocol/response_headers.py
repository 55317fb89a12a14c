"""The headers of an HTTP response: ``WWW-Authenticate`` and ``Retry-After``.

``WWW-Authenticate`` (RFC 9110 section 11.6.1, RFC 6750, RFC 9449) may hold several challenges, and
commas separate both challenges and parameters. It is parsed from its beginning, so that a scheme's
name in a quoted string is not taken for a challenge.

``Retry-After`` (RFC 9110, section 10.2.3) is seconds, or a date.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ..runtime.safe_text import safe_text

__all__ = ["Challenge", "parse_challenges", "retry_after_seconds", "scopes_of", "what_is_wanted"]

_MAX_CHARS = 16_384
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|$))")
_PARAMETER = re.compile(r'([!#$%&\'*+.^_`|~0-9A-Za-z-]+)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s,"]+)')
_BETWEEN = re.compile(r"[\s,]*")
_SPACE = re.compile(r"[ \t]+")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@dataclass(frozen=True, slots=True)
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
