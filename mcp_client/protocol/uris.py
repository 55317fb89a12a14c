"""URIs that a server names: templates, URLs that a person is to open, and domains of a view.

*Templates* (RFC 6570) of all four levels, with each operator of section 2.2: ``expand`` fills in
the variables. Characters that a URI must not have are percent-encoded. Braces that do not
match, invalid names and modifiers, and reserved operators raise ``BadTemplate``. One thing is
stricter than the RFC: a value must not make ``.`` or ``..`` a segment of the path, except in
``{+x}`` and ``{#x}``: correctly encoded, it would lead elsewhere when the URI is resolved.

*A URL that a server asks a person to open*: its host, and warnings about it. 2025-11-25 and
2026-07-28 ``client/elicitation`` (safe URL handling): the complete URL is shown before consent, its
domain is highlighted, and ambiguous URLs have warnings. Nothing here fetches.

*The rights of a tool's view*: its content security policy and browser permissions. 2026-01-26
``apps`` (host behavior; content security policy enforcement) of the extension
``io.modelcontextprotocol/ui``. The page joins the domains that a server declares; here each one is
checked first, because a server's text becomes part of an HTTP header. An unusable domain is
omitted, which restricts the view, and is listed in ``left_out``: a host may be stricter than the
page, but must not be looser.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from ..runtime.safe_text import safe_text
from ..runtime.urls import is_loopback

__all__ = [
    "RESTRICTIVE",
    "Address",
    "BadTemplate",
    "ContentPolicy",
    "NotOpenable",
    "address_of",
    "allow_of",
    "expand",
    "host_of",
    "host_warnings",
    "policy_of",
    "usable_domain",
    "variables",
]

_PARTS = re.compile(r"\{([^{}]*)\}|([^{}]+)|([{}])")
_VARCHAR = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_NAME = re.compile(rf"({_VARCHAR}+(?:\.{_VARCHAR}+)*)(\*|:[1-9][0-9]{{0,3}})?")
_TO_ENCODE = re.compile(r"[^A-Za-z0-9._~-]")
_TO_ENCODE_OR_TRIPLET = re.compile(r"%[0-9A-Fa-f]{2}|[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]")
_DOT_SEGMENT = re.compile(r"(?<![^/])\.\.?(?![^/])")


class BadTemplate(ValueError):
    """The text is not a URI template; the message is the reason."""


class _Operator(NamedTuple):
    first: str
    between: str
    named: bool
    if_empty: str
    reserved: bool


_OPERATORS = {
    "": _Operator("", ",", False, "", False),
    "+": _Operator("", ",", False, "", True),
    "#": _Operator("#", ",", False, "", True),
    ".": _Operator(".", ".", False, "", False),
    "/": _Operator("/", "/", False, "", False),
    ";": _Operator(";", ";", True, "", False),
    "?": _Operator("?", "&", True, "=", False),
    "&": _Operator("&", "&", True, "=", False),
}


class _Variable(NamedTuple):
    name: str
    explode: bool
    prefix: int | None


def variables(template: str) -> tuple[str, ...]:
    """The names in the template, each once, in order. Raises ``BadTemplate``."""
    found: dict[str, None] = {}
    for _, expression in _parsed(template):
        if expression is not None:
            found.update((variable.name, None) for variable in expression[1])
    return tuple(found)


def expand(template: str, values: Mapping[str, Any], *, longest: int) -> str:
    """The template with its expressions replaced. What is missing or None is left out.

    Raises ``ValueError``: ``BadTemplate``, a value that cannot be one, or a result that has more
    than ``longest`` characters.
    """
    done: list[str] = []
    size, spans = 0, []
    for literal, expression in _parsed(template):
        if expression is None:
            pieces: Iterator[str] = iter((_encoded(literal, True),))
        else:
            pieces = _expanded(*expression, values)
        began = size
        for piece in pieces:
            done.append(piece)
            size += len(piece)
            if size > longest:
                raise ValueError(f"the URI would have more than {longest} characters")
        if expression is not None and not expression[0].reserved:
            spans.append((began, size))
    uri = "".join(done)
    _check_path(uri, spans)
    return uri


def _parsed(template: str) -> Iterator[tuple[str, tuple[_Operator, list[_Variable]] | None]]:
    for match in _PARTS.finditer(template):
        inside, literal, brace = match.groups()
        if brace:
            raise BadTemplate(f"the {brace} at {match.start()} has no counterpart")
        if literal is not None:
            if not literal.isprintable():
                raise BadTemplate("it has invisible characters")
            yield literal, None
        else:
            yield "", _expression(inside)


def _expression(inside: str) -> tuple[_Operator, list[_Variable]]:
    operator = _OPERATORS.get(inside[:1])
    names = inside if operator is None else inside[1:]
    found = []
    for name in names.split(","):
        match = _NAME.fullmatch(name)
        if match is None:
            raise BadTemplate(f"{('{' + inside[:40] + '}')!r} is not an expression of RFC 6570")
        modifier = match[2] or ""
        prefix = int(modifier[1:]) if modifier.startswith(":") else None
        found.append(_Variable(match[1], modifier == "*", prefix))
    return operator or _OPERATORS[""], found


def _expanded(
    operator: _Operator, names: list[_Variable], values: Mapping[str, Any]
) -> Iterator[str]:
    before = operator.first
    for variable in names:
        value = values.get(variable.name)
        if value is None or (isinstance(value, list | tuple | Mapping) and not value):
            continue
        for text in _items(operator, variable, value):
            yield before
            yield text
            before = operator.between


def _items(operator: _Operator, variable: _Variable, value: Any) -> Iterator[str]:
    """The expansion of one variable: one text, or one for each item where it is exploded."""
    name, pairs = variable.name, isinstance(value, Mapping)
    if not pairs and not isinstance(value, list | tuple):
        text = _text(name, value)[: variable.prefix]
        yield _with_name(operator, name, _encoded(text, operator.reserved))
        return
    if variable.prefix is not None:
        raise ValueError(f"{name!r} is cut to {variable.prefix} characters: give one string")

    def ready(item: Any) -> str:
        return _encoded(_text(name, item), operator.reserved)

    if not variable.explode:
        items = [x for pair in value.items() for x in pair] if pairs else value
        yield _with_name(operator, name, ",".join(map(ready, items)))
    elif pairs:
        for key, item in value.items():
            text = ready(item)
            yield f"{ready(key)}{'=' if text or not operator.named else operator.if_empty}{text}"
    else:
        for item in value:
            yield _with_name(operator, name, ready(item))


def _with_name(operator: _Operator, name: str, text: str) -> str:
    if not operator.named:
        return text
    return f"{name}={text}" if text else name + operator.if_empty


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(
            f"{name!r} has a {type(value).__name__}: give strings, numbers, or a list or mapping "
            "of them"
        )
    return str(value)


def _encoded(text: str, reserved: bool) -> str:
    """``reserved``: whether reserved characters and percent-encoded triplets stay as they are."""
    try:
        return (_TO_ENCODE_OR_TRIPLET if reserved else _TO_ENCODE).sub(_percent, text)
    except UnicodeEncodeError:
        raise ValueError("a URI cannot have a lone surrogate") from None


def _percent(match: re.Match[str]) -> str:
    found = match[0]
    if len(found) == 3:
        return found
    return "".join(f"%{byte:02X}" for byte in found.encode())


def _check_path(uri: str, spans: list[tuple[int, int]]) -> None:
    path = re.split(r"[?#]", uri, maxsplit=1)[0]
    at = 0
    for segment in _DOT_SEGMENT.finditer(path):
        while at < len(spans) and spans[at][1] <= segment.start():
            at += 1
        if at < len(spans) and spans[at][0] < segment.end():
            raise ValueError(
                f"a value makes {segment[0]!r} a segment of the path, which changes the path"
            )


_MAX_URL_CHARS = 8_192
_HOST_NAME = re.compile(r"[^\x00-\x20\x7f!-,/:-@\[-^`{-~]+")
_ENDS_IN_NUMBER = re.compile(r"(.*\.)?(\d+|0x[0-9a-f]*)")


class NotOpenable(ValueError):
    """A person should not be asked to open the URL; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Address:
    """The destination of a URL that a person is to open."""

    host: str
    """The host of the URL, in ASCII: punycode for other letters."""
    warnings: tuple[str, ...]
    """The warnings for the person: one sentence each, safe to show."""


def address_of(url: object) -> Address:
    """Host and warnings of a URL that may be shown to a person. Raises ``NotOpenable``.

    It is ``https``, or ``http`` to this machine (loopback) alone.
    """
    if not isinstance(url, str) or not url or len(url) > _MAX_URL_CHARS:
        raise NotOpenable(f"the URL is not a string of 1 to {_MAX_URL_CHARS} characters")
    if any(char in ' \\<>"' or not _plain(char) for char in url):
        raise NotOpenable("the URL has characters that are not allowed in a URL")
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise NotOpenable("the URL cannot be parsed") from None
    if parts.scheme not in ("https", "http"):
        raise NotOpenable("the URL is neither https nor http to this machine")
    if not host or not (":" in host or _HOST_NAME.fullmatch(host)):
        raise NotOpenable("the URL has no host")
    if parts.scheme == "http" and not is_loopback(host):
        raise NotOpenable("the URL is neither https nor http to this machine")
    ascii_host = _in_ascii(host)
    return Address(ascii_host, tuple(_warnings(parts, host, ascii_host)))


def host_warnings(host: str) -> tuple[str, ...]:
    """Return the warnings about a host, as in ``Address.warnings``."""
    host = host.rstrip(".")
    try:
        return tuple(_of_host(host, _in_ascii(host)))
    except NotOpenable:
        return ("its host is not a valid host name",)


def _plain(char: str) -> bool:
    return (char.isascii() and char.isprintable()) or unicodedata.category(char)[0] in "LMNS"


def _in_ascii(host: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        raise NotOpenable("the URL's host is not a valid host name") from None


def _warnings(parts: SplitResult, host: str, ascii_host: str) -> list[str]:
    found = []
    if "@" in parts.netloc:
        found.append(f"the text before the @ is not its host: it leads to {ascii_host}")
    found += _of_host(host, ascii_host)
    if not parts.path.isascii() or not parts.query.isascii() or not parts.fragment.isascii():
        found.append("it has letters outside ASCII")
    return found


def _of_host(host: str, ascii_host: str) -> list[str]:
    found = []
    if not host.isascii() or any(label.startswith("xn--") for label in host.split(".")):
        found.append(f"its host has letters outside ASCII; in ASCII (punycode) it is {ascii_host}")
        if alike := _look_alikes(host):
            found.append(f"one word of its host has letters of several scripts: {alike}")
    if is_loopback(host):
        pass
    elif ":" in host or _ENDS_IN_NUMBER.fullmatch(host):
        found.append(f"its host is a number and not a name: {ascii_host}")
    elif "." not in host:
        found.append(f"its host is a name of the local network: {ascii_host}")
    return found


def _look_alikes(host: str) -> str:
    """The scripts in the first label that mixes them, such as Latin and Cyrillic."""
    for label in host.split("."):
        if label.startswith("xn--"):
            try:
                label = label[4:].encode().decode("punycode")
            except (UnicodeError, ValueError):
                return "unreadable punycode"
        scripts = {unicodedata.name(char, "?").split()[0] for char in label if char.isalpha()}
        if len(scripts) > 1:
            return ", ".join(sorted(scripts)).lower()
    return ""


RESTRICTIVE = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; connect-src 'none'"
)
"""The policy of a view that declares none."""

_LISTS = ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains")
_MAX_DOMAINS = 64
_MAX_NAME_CHARS = 100
_MAX_LEFT_OUT = 16
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = rf"(?P<host>{_LABEL}(?:\.{_LABEL})*)"
_ORIGIN = rf"(?P<scheme>https|wss|http|ws)://(?P<below>\*\.)?{_HOST}(?::(?P<port>[0-9]{{1,5}}))?/?"
_UNSPECIFIED = "0.0.0.0"  # noqa: S104 - connecting to it reaches this machine
_NUMBER = r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)"
_PERMISSIONS = {
    "camera": "camera",
    "microphone": "microphone",
    "geolocation": "geolocation",
    "clipboardWrite": "clipboard-write",
}
"""Features of Permissions Policy, by the member that declares each, in the page's order."""


@dataclass(frozen=True, slots=True)
class ContentPolicy:
    """The content security policy of a view."""

    header: str
    """The value of ``Content-Security-Policy``."""
    domains: tuple[str, ...] = ()
    """The outside domains that it allows, each once."""
    left_out: tuple[str, ...] = ()
    """The omitted domains with the reasons: sentences that are safe to show."""


def policy_of(declared: Any, *, local: bool = False) -> ContentPolicy:
    """Return the policy for ``_meta.ui.csp``, built of its usable domains.

    It is the restrictive policy if ``csp`` is absent or not an object. ``local`` is whether the
    server is on this machine. The view of another server reaches no address of this machine, whose
    services trust all local programs.
    """
    if declared is None:
        return ContentPolicy(RESTRICTIVE)
    if type(declared) is not dict:
        return ContentPolicy(RESTRICTIVE, (), ("_meta.ui.csp is not a JSON object: ignored",))
    left_out: list[str] = []
    connect, resource, frame, base = (_domains(declared, name, left_out, local) for name in _LISTS)
    directives = {
        "default-src": ["'none'"],
        "script-src": ["'self'", "'unsafe-inline'", *resource],
        "style-src": ["'self'", "'unsafe-inline'", *resource],
        "connect-src": ["'self'", *connect],
        "img-src": ["'self'", "data:", *resource],
        "font-src": ["'self'", *resource],
        "media-src": ["'self'", "data:", *resource],
        "frame-src": frame or ["'none'"],
        "object-src": ["'none'"],
        "base-uri": base or ["'self'"],
    }
    header = "; ".join(f"{name} {' '.join(sources)}" for name, sources in directives.items())
    allowed = tuple(dict.fromkeys([*connect, *resource, *frame, *base]))
    return ContentPolicy(header, allowed, _few(left_out))


def allow_of(declared: Any) -> tuple[str, tuple[str, ...]]:
    """Return the ``allow`` attribute of the iframe for ``_meta.ui.permissions``, and the omissions.

    Features are separated by semicolons, as browsers parse that attribute (W3C Permissions Policy).
    """
    if declared is None:
        return "", ()
    if type(declared) is not dict:
        return "", ("_meta.ui.permissions is not a JSON object: ignored",)
    asked = {name: value for name, value in declared.items() if value not in (None, False)}
    left_out = [
        f"permission {safe_text(name, _MAX_NAME_CHARS)!r} left out: "
        + ("its value is not a JSON object" if name in _PERMISSIONS else "it is unknown")
        for name, value in asked.items()
        if name not in _PERMISSIONS or type(value) is not dict
    ]
    allowed = [policy for name, policy in _PERMISSIONS.items() if type(asked.get(name)) is dict]
    return "; ".join(allowed), _few(left_out)


def host_of(domain: Any) -> str | None:
    """The host that ``_meta.ui.domain`` names, by itself or as an https origin; else None."""
    if type(domain) is not str:
        return None
    match = re.fullmatch(rf"(?:https://)?{_HOST}", domain, re.ASCII | re.IGNORECASE)
    return None if match is None or len(match["host"]) > 253 else match["host"].lower()


def usable_domain(domain: Any, *, local: bool = False) -> str | None:
    """Return why a declared domain cannot be a source of the policy; None if it can.

    It must be an origin: ``https`` or ``wss``, a host name or ``*.`` before at least two labels,
    and optionally a port. ``http`` and ``ws`` are allowed for this machine only, and this machine
    only for the views of its own servers (``local``).
    """
    if type(domain) is not str:
        return "it is not a string"
    match = re.fullmatch(_ORIGIN, domain, re.ASCII | re.IGNORECASE)
    if match is None:
        return "it is not an origin such as https://api.example.com"
    host, port = match["host"].lower(), match["port"]
    if len(host) > 253 or (port is not None and not 0 < int(port) < 65_536):
        return "its host or port is out of range"
    is_number = re.fullmatch(_NUMBER, host) is not None
    if is_number and not _is_address(host):
        return "its host is a number that is not an IPv4 address"
    if match["below"] and (is_number or "." not in host):
        return "a wildcard must precede a host name of two labels or more"
    if not local and (is_loopback(host) or host == _UNSPECIFIED):
        return "it is this machine, and the server is not on it"
    if match["scheme"].lower() in ("http", "ws") and not (is_loopback(host) and not match["below"]):
        return "it is neither https, wss, nor on this machine"
    return None


def _is_address(host: str) -> bool:
    from ipaddress import AddressValueError, IPv4Address

    try:
        IPv4Address(host)
    except AddressValueError:
        return False
    return True


def _domains(declared: dict[str, Any], name: str, left_out: list[str], local: bool) -> list[str]:
    """The domains of one list that can be used, each once, in the form browsers compare."""
    listed = declared.get(name)
    if listed is None:
        return []
    if type(listed) is not list:
        left_out.append(f"{name} left out: it is not an array")
        return []
    found: dict[str, None] = {}
    for domain in listed:
        reason = usable_domain(domain, local=local)
        if reason is None and len(found) == _MAX_DOMAINS:
            reason = f"{_MAX_DOMAINS} others precede it"
        if reason is None:
            found[domain.lower().removesuffix("/")] = None
        else:
            name_of_entry = (
                repr(safe_text(domain, _MAX_NAME_CHARS)) if type(domain) is str else "an entry"
            )
            left_out.append(f"{name}: {name_of_entry} left out: {reason}")
    return list(found)


def _few(left_out: list[str]) -> tuple[str, ...]:
    more = len(left_out) - _MAX_LEFT_OUT
    return (*left_out[:_MAX_LEFT_OUT], *_counted(more))


def _counted(more: int) -> Iterator[str]:
    if more > 0:
        yield f"{more} more were left out"
