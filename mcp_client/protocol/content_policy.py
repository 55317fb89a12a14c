"""The rights of a tool's view: its content security policy and browser permissions.

2026-01-26 ``apps`` (host behavior; content security policy enforcement) of the extension
``io.modelcontextprotocol/ui``. The page joins the domains that a server declares; here each one is
checked first, because a server's text becomes part of an HTTP header. An unusable domain is
omitted, which restricts the view, and is listed in ``left_out``: a host may be stricter than the
page, but must not be looser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..runtime.safe_text import safe_text
from ..runtime.urls import is_loopback

__all__ = ["RESTRICTIVE", "ContentPolicy", "allow_of", "host_of", "policy_of", "usable_domain"]

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
