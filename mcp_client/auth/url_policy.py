"""Which URLs and which addresses an authorization flow may lead to.

The documents of a flow name the next URLs to ask, and a hostile server names what only this
machine or its network can reach: a router's page, a cloud's metadata service. Two judgements stop
that. ``refused_url`` reads a URL's text before anything is looked up. ``kind_of`` says what sort of
address a name was resolved to, and only "public" is open to everybody; whoever asks decides which
other kinds are, because a server inside a network may have its authorization server there too.

An IPv6 address that carries an IPv4 one (mapped, compatible, 6to4, Teredo, NAT64) is judged as
the one it carries.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from ..runtime.safe_text import safe_text

__all__ = ["NEVER", "PUBLIC", "UNREADABLE", "is_loopback_name", "kind_of", "refused_url"]

PUBLIC = "public"
UNREADABLE = "unreadable"
NEVER = frozenset({"unspecified", "multicast", "cloud metadata", UNREADABLE})
"""Kinds at which no authorization server is, wherever the MCP server may be."""

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
"""Characters of a URL; a program takes not much more as one argument."""
_ODD = re.compile(r"[\x00-\x20\x7f\\\"'<>^`{|}]")


def is_loopback_name(host: str) -> bool:
    """Whether ``host`` names this machine by its text: ``localhost``, or a loopback address."""
    host = host.lower().strip("[]").removesuffix(".")
    return host == "localhost" or host.endswith(".localhost") or kind_of(host) == "loopback"


def kind_of(address: str) -> str:
    """``"public"``, or which sort of inner address this is; "unreadable" where it is none."""
    try:
        ip = _carried(ip_address(address.partition("%")[0]))
    except ValueError:
        return UNREADABLE
    for network, kind in _KINDS:
        if ip.version == network.version and ip in network:
            return kind
    return PUBLIC


def _carried(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
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


def refused_url(url: str) -> str | None:
    """Why nothing may be sent to ``url``, judged by its text alone; None where it may be.

    It is https, or http to this machine itself, with a host, and with no user or password. Of a
    URL that is refused no more is told than its first characters: it may hold anything.
    """
    shown = ascii(safe_text(url, 60))
    if not isinstance(url, str) or not url.isascii() or _ODD.search(url):
        return f"{shown} has characters that no URL has"
    if len(url) > _LONGEST:
        return f"{shown} is longer than {_LONGEST} characters"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return f"{shown} is not a URL"
    scheme = parts.scheme.lower()
    if scheme not in ("https", "http"):
        return f"{shown} is not https"
    if not host:
        return f"{shown} names no host"
    if "@" in parts.netloc:
        return f"a URL at {safe_text(host, 60)!r} has a user name in it"
    if scheme == "http" and not is_loopback_name(host):
        return f"{shown} is plain http, and only this machine itself may be asked that way"
    return None
