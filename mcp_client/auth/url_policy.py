"""Which URLs and addresses an authorization flow may use.

The documents of a flow name the next URLs to fetch, and a hostile server can name what only this
machine or its network can reach: a router's page, a cloud's metadata service. Two checks prevent
that. ``refused_url`` reads the text of a URL before its name is looked up. ``kind_of`` classifies
the address that a name was resolved to. Only "public" is always allowed; the caller decides about
the other kinds, because an authorization server may be inside a private network.

An IPv6 address that embeds an IPv4 address (mapped, compatible, 6to4, Teredo, NAT64) is classified
as that IPv4 address.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from ..runtime.loopback import is_loopback
from ..runtime.safe_text import safe_text
from ..transports.http_client import shown

__all__ = ["NEVER", "PUBLIC", "UNREADABLE", "kind_of", "refused_url"]

PUBLIC = "public"
UNREADABLE = "unreadable"
NEVER = frozenset({"unspecified", "multicast", "cloud metadata", UNREADABLE})
"""Kinds of address that are never used, wherever the MCP server is."""

_NETWORKS = {
    "cloud metadata": (
        "169.254.169.254/32",
        "169.254.170.2/32",
        "168.63.129.16/32",
        "100.100.100.200/32",
        "fd00:ec2::254/128",
    ),
    "loopback": ("127.0.0.0/8", "::1/128"),
    "unspecified": ("0.0.0.0/8", "::/128"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "carrier-grade NAT": ("100.64.0.0/10",),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "local NAT64": ("64:ff9b:1::/48",),
    "benchmarking": ("198.18.0.0/15", "2001:2::/48"),
    "reserved": (
        "192.0.0.0/24",
        "192.0.2.0/24",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "240.0.0.0/4",
        "::/96",
        "100::/64",
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",
    ),
}
_KINDS = [(ip_network(text), kind) for kind, texts in _NETWORKS.items() for text in texts]
_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")
_LONGEST = 16 * 1024
"""Characters. Browsers and command lines do not take much longer URLs."""
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\\"'<>^`{|}]")


def kind_of(address: str) -> str:
    """``"public"``, or the kind of internal address; "unreadable" for what is not an address."""
    try:
        ip = _embedded(ip_address(address.partition("%")[0]))
    except ValueError:
        return UNREADABLE
    for network, kind in _KINDS:
        if ip.version == network.version and ip in network:
            return kind
    return PUBLIC


def _embedded(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(ip, IPv4Address):
        return ip
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    if ip in _NAT64 or (ip in _COMPATIBLE and int(ip) > 0xFFFF):
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip


def refused_url(url: str, http_hosts: Collection[str] = ()) -> str | None:
    """Why nothing may be sent to ``url``, judging by its text; None if it may be used.

    A URL must be https, or http to this machine or to one of ``http_hosts``, must have a host, and
    must have no user name or password. The reason quotes the URL without its query.
    """
    if not isinstance(url, str):
        return "it is not a string"
    quoted = ascii(safe_text(shown(url), 60))
    if not url.isascii() or _FORBIDDEN.search(url):
        return f"{quoted} has characters that are not allowed in a URL"
    if len(url) > _LONGEST:
        return f"{quoted} is longer than {_LONGEST} characters"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return f"{quoted} is not a URL"
    scheme = parts.scheme.lower()
    if scheme not in ("https", "http"):
        return f"{quoted} is not https"
    if not host:
        return f"{quoted} has no host"
    if "@" in parts.netloc:
        return f"a URL at {safe_text(host, 60)!r} has a user name in it"
    if scheme == "http" and not (is_loopback(host) or host in http_hosts):
        return (
            f"{quoted} is plain http, which is used for this machine only; to allow this host, "
            f"give OAuth(allow_http_hosts=[{safe_text(host, 60)!r}])"
        )
    return None
