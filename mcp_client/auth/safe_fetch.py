"""Send the requests of an authorization flow, and only to addresses that may be used.

The URLs come from documents of untrusted servers, so each is checked here before anything is sent,
and again after each redirect. A name is resolved once, and all of its addresses must be of an
allowed kind. The connection is made to one of exactly these addresses, with the name used for TLS
and the ``Host`` header. A DNS response that changes a moment later has no effect. Public addresses
are allowed. An address inside this machine or its network needs a reason: the MCP server itself has
an address of the same kind, or the host named that origin.

A proxy of the environment resolves names itself, and so does a ``client`` of the host. Then only
the text of the URL is checked, and the result of a lookup here if there is one. The address that is
connected to cannot be checked.

Each request has a connection of its own. They are few, and a connection made for one name must not
serve another name with the same address.

The text of a URL is judged by ``refused_url`` before its name is looked up, and an address by
``kind_of``. An IPv6 address that embeds an IPv4 address (mapped, compatible, 6to4, Teredo, NAT64)
is classified as that IPv4 address.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import urljoin, urlsplit

import anyio
import httpx

from ..errors import ConnectionLost, McpError
from ..protocol.jsonrpc import InvalidFrame
from ..runtime.daemon_thread import NoThread
from ..runtime.limits import Limits
from ..runtime.masking import mask, secrets_sent
from ..runtime.safe_text import safe_text
from ..runtime.urls import is_loopback
from ..transports.http_options import origin_of, shown
from ..transports.http_response import HttpResponse
from ..transports.http_stock import (
    USER_AGENT,
    RequestBody,
    proxy_for,
    proxy_named,
    send_logged_safely,
    tls_context,
)
from .steps import Fetch, Fetched, Unreachable

__all__ = [
    "NEVER",
    "PUBLIC",
    "FetchPolicy",
    "Resolve",
    "SafeFetcher",
    "is_url",
    "kind_of",
    "refused_url",
]

_log = logging.getLogger("mcp_client")
_MAX_RESPONSE_BYTES = 1024 * 1024
_TOTAL_SECONDS = 30.0
_CONNECT_SECONDS = 10.0
_MAX_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LOOKUP_SECONDS = 3.0
"""The limit in seconds for a lookup that does not decide which address is connected to."""
_MAX_ADDRESSES = 4
"""The number of a name's addresses that are tried."""

_UNKNOWN = ""
"""The address of an MCP server that has responded, if its address is not known."""

PUBLIC = "public"
_UNREADABLE = "unreadable"
NEVER = frozenset({"unspecified", "multicast", "cloud metadata", _UNREADABLE})
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
        *("192.0.0.0/24", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4"),
        *("::/96", "100::/64", "2001:db8::/32", "3fff::/20", "5f00::/16"),
    ),
}
_KINDS = [(ip_network(text), kind) for kind, texts in _NETWORKS.items() for text in texts]
_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")
_MAX_URL_CHARS = 16 * 1024
"""Browsers and command lines do not take much longer URLs."""
_ABSOLUTE = re.compile(r"(?i)https?://[^/?#]|(?!https?:)[a-z][a-z0-9+.-]*://")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\\"'<>^`{|}]")

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""A function that returns the addresses of a host's name and a port."""


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """Exceptions that the host made."""

    trusted: tuple[str, ...] = ()
    """URLs the host gave, such as its identity provider's: at their origins every kind of address
    is allowed, except those that are never used."""
    http_hosts: frozenset[str] = frozenset()
    """Hosts that may be asked with plain http."""


class _Refused(Exception):
    """An exception that ends a request; its text is the reason.

    ``answered``: because of a response. ``unsafe``: because it must not be sent, and not because it
    cannot be.
    """

    def __init__(self, reason: str, *, answered: bool = False, unsafe: bool = True) -> None:
        super().__init__(reason)
        self.answered = answered
        self.unsafe = unsafe


async def _addresses(host: str, port: int) -> list[str]:
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except RuntimeError as error:
        raise NoThread(error) from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class SafeFetcher:
    """Carries out ``Fetch`` for the authorization of one MCP server.

    A response may have 1 MiB after decompression, and may take 30 s including redirects.
    ``client`` is an ``httpx.AsyncClient`` of the host; it is not closed here. ``resolve`` looks a
    name up.
    """

    def __init__(
        self,
        server_url: str,
        client: httpx.AsyncClient | None = None,
        *,
        policy: FetchPolicy = FetchPolicy(),
        resolve: Resolve = _addresses,
        seconds: float = _TOTAL_SECONDS,
    ) -> None:
        self._server_url = server_url
        self._client = client
        self._trusted = {origin_of(url) for url in policy.trusted}
        self._http_hosts = policy.http_hosts
        self._resolve = resolve
        self._seconds = seconds
        host = origin_of(server_url)[1]
        self._kinds = {PUBLIC, "loopback" if is_loopback(host) else kind_of(host)} - NEVER
        self._peer: str | None = None

    def server_answered(self, response: httpx.Response) -> None:
        """Learn the MCP server's address from its own response.

        The peer may be a proxy, so its address counts only if a lookup of the server's name gives
        it as well. Before the first call a lookup alone decides: what is fetched then, to refresh
        a token, is known from an earlier run and not from this server.
        """
        stream = response.extensions.get("network_stream")
        address = None if stream is None else stream.get_extra_info("server_addr")
        self._peer = str(address[0]) if isinstance(address, tuple) else _UNKNOWN

    async def fetch(self, step: Fetch) -> Fetched | Unreachable:
        """Carry ``step`` out. Raises only cancellation; an error becomes the reason."""
        target, reason, answered = shown(step.url), f"no response in {self._seconds:g} s", False
        with anyio.move_on_after(self._seconds):
            try:
                return await self._fetch(step)
            except _Refused as error:
                reason = mask(str(error), secrets_sent(step.url, step.headers.items()))
                why = f"refused to fetch {step.what}: {reason}"
                return Unreachable(why, error.answered, error.unsafe)
            except InvalidFrame as error:
                reason, answered = error.reason, True
            except McpError as error:
                reason = str(error)
            except Exception as error:  # noqa: BLE001 - httpx, sockets, TLS, DNS, a host's client
                reason = _message(error)
                if self._client is None and isinstance(error, httpx.TransportError):
                    proxy = proxy_named(step.url)
                    reason += f"; check {proxy}, or set NO_PROXY" if proxy else ""
        return Unreachable(f"cannot fetch {step.what} from {target}: {reason}", answered)

    # ----------------------------------------------------------------- one step

    async def _fetch(self, step: Fetch) -> Fetched:
        # The host may have given its server's URL with an international name.
        url = step.url if step.url.isascii() else str(httpx.URL(step.url))
        for hop in range(_MAX_REDIRECTS + 1):
            async with self._open(step, url) as response:
                if not step.follow or response.status not in _REDIRECTS:
                    return await self._read(response, url)
                location = response.headers.get("location")
            if hop < _MAX_REDIRECTS:
                url = _redirected(step, url, location, response.status, self._http_hosts)
        raise _Refused(
            f"{shown(step.url)} redirects more than {_MAX_REDIRECTS} times",
            answered=True,
            unsafe=False,
        )

    async def _read(self, response: HttpResponse, url: str) -> Fetched:
        body = await response.body(_MAX_RESPONSE_BYTES)
        if len(body) > _MAX_RESPONSE_BYTES or not response.ended:
            raise InvalidFrame(f"it is longer than {_MAX_RESPONSE_BYTES} bytes")
        headers: dict[str, str] = {}
        for name, value in response.headers.multi_items():
            known = headers.get(name.lower())
            headers[name.lower()] = value if known is None else f"{known}, {value}"
        return Fetched(response.status, headers, body, url)

    @asynccontextmanager
    async def _open(self, step: Fetch, url: str) -> AsyncIterator[HttpResponse]:
        hosts = self._http_hosts
        if reason := refused_url(url, hosts) or refused_url(str(httpx.URL(url)), hosts):
            raise _Refused(reason)
        target, proxy = httpx.URL(url), proxy_for(url)
        direct = self._client is None and proxy is None
        addresses = await self._allowed_addresses(target, direct=direct)
        async with nullcontext(self._client) if self._client else _client(proxy) as client:
            response = await self._send_to_any(client, step, target, addresses if direct else [])
            try:
                yield response
            finally:
                await response.aclose()

    async def _send_to_any(
        self, client: httpx.AsyncClient, step: Fetch, url: httpx.URL, addresses: list[str]
    ) -> HttpResponse:
        """Send to the first of the addresses that can be connected to."""
        candidates: list[str | None] = [*addresses[:_MAX_ADDRESSES]] or [None]
        for address in candidates[:-1]:
            try:
                return await self._send(client, step, url, address)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                _log.debug("%s: %s", address, type(error).__name__)
        return await self._send(client, step, url, candidates[-1])

    async def _send(
        self, client: httpx.AsyncClient, step: Fetch, url: httpx.URL, address: str | None = None
    ) -> HttpResponse:
        # Not client.build_request: a client of the host may add headers for the MCP server.
        headers = {**USER_AGENT, "Accept": "application/json", **step.headers}
        timeout = httpx.Timeout(self._seconds, connect=min(_CONNECT_SECONDS, self._seconds))
        request = httpx.Request(
            step.method,
            url,
            headers={**headers, "Accept-Encoding": "gzip, deflate"},
            content=step.body,
            extensions={"timeout": timeout.as_dict()},
        )
        request.stream = RequestBody(step.body or b"")
        if address is not None:
            request.extensions["sni_hostname"] = url.raw_host.decode("ascii")
            request.url = url.copy_with(host=address)
        response = await send_logged_safely(client, request)
        return HttpResponse(response, Limits(message_bytes=_MAX_RESPONSE_BYTES), ConnectionLost)

    # ------------------------------------------------------------- address checks

    async def _allowed_addresses(self, url: httpx.URL, *, direct: bool) -> list[str]:
        """Return the addresses of a URL's host, each of an allowed kind. Raises ``_Refused``.

        ``direct``: the connection is made to one of them. Otherwise a proxy resolves the name, and
        it may be unknown here.
        """
        host, origin = url.raw_host.decode("ascii"), origin_of(str(url))
        named = safe_text(host, 80)
        addresses = [host] if kind_of(host) != _UNREADABLE else []
        if not addresses:
            with anyio.move_on_after(self._seconds if direct else _LOOKUP_SECONDS):
                addresses = await self._lookup(host, origin[2])
        if not addresses and direct:
            raise _Refused(f"the name {named!r} cannot be resolved", unsafe=False)
        for address in addresses:
            kind = kind_of(address)
            if not (await self._allows(kind) or (origin in self._trusted and kind not in NEVER)):
                at = named if address == host else f"{named}, which is {safe_text(address, 50)},"
                article = "an" if kind[0] in "aeiou" else "a"
                advice = ""
                if kind not in NEVER:
                    advice = (
                        "; if your authorization server is there, name it: "
                        f"issuer='{url.scheme}://{safe_text(url.netloc.decode('ascii'), 90)}'"
                    )
                raise _Refused(
                    f"{at} is {article} {kind} address, and the MCP server is not at such an "
                    f"address{advice}"
                )
            if url.scheme == "http" and kind != "loopback" and host not in self._http_hosts:
                raise _Refused(
                    f"{named} is not this machine, and plain http is used for this machine only; "
                    f"to allow this host, give Deviations(allow_http_hosts=[{named!r}])"
                )
        return addresses

    async def _allows(self, kind: str) -> bool:
        if kind in self._kinds or kind in NEVER or self._peer == _UNKNOWN:
            return kind in self._kinds
        if proxy_for(self._server_url) is not None:
            return False
        _, host, port = origin_of(self._server_url)
        found: list[str] = []
        with anyio.move_on_after(_LOOKUP_SECONDS):
            found = await self._lookup(host, port)
        if self._peer is None:
            return bool(found) and all(kind_of(address) == kind for address in found)
        if self._peer in found:
            self._kinds |= {kind_of(self._peer)} - NEVER
        self._peer = _UNKNOWN
        return kind in self._kinds

    async def _lookup(self, host: str, port: int) -> list[str]:
        try:
            return await self._resolve(host, port)
        except (OSError, UnicodeError):
            return []


def _message(error: BaseException) -> str:
    """Return the text of an error, or of the first one behind it that has a text."""
    at: BaseException | None = error
    while at is not None:
        if text := safe_text(str(at), 200):
            return text
        at = at.__cause__ or at.__context__
    return type(error).__name__


def _client(proxy: str | None) -> httpx.AsyncClient:
    return httpx.AsyncClient(verify=tls_context(certificates=True), proxy=proxy, trust_env=False)


def _redirected(
    step: Fetch, url: str, location: str | None, status: int, http_hosts: frozenset[str]
) -> str:
    """Return the target of a redirect.

    A request with a body or credentials must stay at its origin.
    """
    if not location:
        why = f"{shown(url)} redirects without a location"
        raise _Refused(why, answered=True, unsafe=False)
    target = urljoin(url, location)
    reason = refused_url(target, http_hosts)
    if reason is None and origin_of(url)[0] == "https" and origin_of(target)[0] != "https":
        reason = "from https to http"
    if reason is not None:
        raise _Refused(f"{shown(url)} redirects: {reason}", answered=True)
    secret = step.method != "GET" or any(
        name.lower() in ("authorization", "dpop") for name in step.headers
    )
    if secret and origin_of(target) != origin_of(url):
        raise _Refused(
            f"{shown(url)} redirects to {shown(target)!r}, another origin, which must not see what "
            "is sent",
            answered=True,
        )
    if step.method != "GET" and status not in (307, 308):
        raise _Refused(
            f"{shown(url)} responded to a {step.method} with a redirect to a GET", answered=True
        )
    return target


# ------------------------------------------------------ which URLs and addresses


def kind_of(address: str) -> str:
    """Return "public", the kind of internal address, or "unreadable" if it is not an address."""
    try:
        ip = _embedded(ip_address(address.partition("%")[0]))
    except ValueError:
        return _UNREADABLE
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


def is_url(text: str) -> bool:
    """Whether ``text`` is an absolute URL at all, which may be used or not."""
    return text.isascii() and not _FORBIDDEN.search(text) and bool(_ABSOLUTE.match(text))


def refused_url(url: str, http_hosts: Collection[str] = ()) -> str | None:
    """Return the reason why nothing may be sent to ``url``, judging by its text; else None.

    A URL must be https, or http to this machine or to one of ``http_hosts``. It must have a host,
    and no user name or password. The reason quotes the URL without its query.
    """
    if not isinstance(url, str):
        return "it is not a string"
    quoted = ascii(safe_text(shown(url), 60))
    if not url.isascii() or _FORBIDDEN.search(url):
        return f"{quoted} has characters that are not allowed in a URL"
    if len(url) > _MAX_URL_CHARS:
        return f"{quoted} is longer than {_MAX_URL_CHARS} characters"
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
            f"give Deviations(allow_http_hosts=[{safe_text(host, 60)!r}])"
        )
    return None
