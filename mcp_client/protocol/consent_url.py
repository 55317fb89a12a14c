"""A URL that a server asks a person to open: its host, and warnings about it.

2025-11-25 and 2026-07-28 ``client/elicitation`` (safe URL handling): the complete URL is shown
before consent, its domain is highlighted, and ambiguous URLs have warnings. Nothing here fetches.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from ..runtime.urls import is_loopback

__all__ = ["Address", "NotOpenable", "address_of", "host_warnings"]

_MAX_URL_CHARS = 8_192
_NAME = re.compile(r"[^\x00-\x20\x7f!-,/:-@\[-^`{-~]+")
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
    if not host or not (":" in host or _NAME.fullmatch(host)):
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
