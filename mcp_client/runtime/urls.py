"""Judge the text of a URL: keys in its path, and whether its host is this machine.

No name is looked up.

Many services put the key of a user into the path, so that a URL is all that has to be copied:
``https://example.com/s/<key>/mcp``. Nothing marks such a segment as a secret. ``path_keys`` goes by
its form: letters mixed with digits or of mixed case, for 8 characters or more, and runs that are
too long for words. After a segment that is called as a secret is (``/token/<key>``), 4 characters
are enough.

Keys that look like words are not found: ``streamable-http``, ``v1``, ``2025-06-18``,
``gmailServer2``.
"""

from __future__ import annotations

import re
from functools import lru_cache

from .secret_names import usual_names

__all__ = ["is_loopback", "path_keys", "without_path_keys"]

_MARK = "***"
_MIN_CHARS, _MIN_NAMED_CHARS = 8, 4
"""Characters of a segment that are in no word, from which on it is a key."""
_MAX_SEGMENTS = 64
_MAX_CACHED = 256
"""Paths: those of the same servers are judged again and again."""
# Compiled by ``re`` when they are first needed, as every session imports this module.
_PART = r"[^\W_]+"
_WORD = (
    r"(?:[A-Z]?[a-z]{1,20}|[A-Z]{1,10}|[A-Z]?[a-z]{2,15}(?:[A-Z][a-z]{2,15}){1,4})\d{0,3}"
    r"|[vV]?\d{1,12}"
)
_NO_WORD = r"(?i)[bcdfghjklmnpqrstvwxz]{7,}"
_PREFIX = r"(?:sk|pk|rk|zpk|pat|tok|key|token|secret|gh[opsu]|xox[a-z])[-_](?=.*\d).{4}"


def path_keys(path: str) -> frozenset[str]:
    """Return the segments of ``path`` that look like keys, as they are and decoded."""
    keys = _keys(path)
    return keys | {_decoded(key) for key in keys} if keys else keys


def without_path_keys(path: str) -> str:
    """Return ``path`` with ``***`` in place of the segments that look like keys."""
    keys = _keys(path)
    if not keys:
        return path
    return "/".join(_MARK if segment in keys else segment for segment in path.split("/"))


def _decoded(segment: str) -> str:
    from urllib.parse import unquote  # 3 ms that a session over stdio does not need

    return unquote(segment)


@lru_cache(_MAX_CACHED)
def _keys(path: str) -> frozenset[str]:
    found: set[str] = set()
    before = ""
    for number, segment in enumerate(path.split("/")):
        least = _MIN_NAMED_CHARS if before and usual_names().ends_as_secret(before) else _MIN_CHARS
        if len(segment) >= least and (number >= _MAX_SEGMENTS or _is_key(segment, least)):
            found.add(segment)
        before = segment
    return frozenset(found)


def _is_key(segment: str, least: int) -> bool:
    name, equals, value = segment.partition("=")
    if equals and value and usual_names().ends_as_secret(name):
        return True
    if re.match(_PREFIX, segment):
        return True
    parts = re.findall(_PART, _decoded(segment))
    odd = [part for part in parts if not re.fullmatch(_WORD, part) or re.search(_NO_WORD, part)]
    return sum(map(len, odd)) >= least


def is_loopback(host: str) -> bool:
    """Whether ``host``, as a URL has it, is ``localhost``, below it, or a loopback address.

    Names below ``localhost`` never leave the machine (RFC 6761 section 6.3). Of the IPv6 addresses
    that contain an IPv4 address only a mapped one (``::ffff:127.0.0.1``) is one of this machine:
    what is sent to the others goes to a gateway.
    """
    host = host.lower().strip("[]").removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    import ipaddress

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
