"""Whether a host is this machine, judging by its text: no name is looked up."""

from __future__ import annotations

__all__ = ["is_loopback"]


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
