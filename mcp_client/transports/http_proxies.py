"""Which proxy of the environment, or of the system, a URL is reached through."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

from ..runtime.loopback import is_loopback
from .http_server import origin_of

__all__ = ["proxy_for"]


def proxy_for(url: str) -> str | None:
    """The proxy's URL; None without a proxy, and for this machine itself.

    ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, in either case, else the
    system's settings. ``NO_PROXY`` names hosts with their subdomains, addresses, and networks
    (``10.0.0.0/8``).
    """
    from urllib.request import getproxies, proxy_bypass

    scheme, host, port = origin_of(url)
    if is_loopback(host):
        return None
    proxies: dict[str, Any] = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or proxy_bypass(host if ":" in host else f"{host}:{port}"):
        return None
    if _is_in_one_of(str(proxies.get("no", "")).split(","), host):
        return None
    return str(proxy) if "://" in proxy else f"http://{proxy}"


def _is_in_one_of(networks: list[str], host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    for network in networks:
        try:
            if address in ip_network(network.strip().strip("[]"), strict=False):
                return True
        except (TypeError, ValueError):  # a name, or the other version of IP
            continue
    return False
