"""The one place that sends what an authorization flow asks for.

The URLs come from documents of servers that nobody vouched for, so each is judged here before a
byte is sent, and again at each redirect. A name is looked up once, every address it has must be of
an allowed kind, and the connection is made to one of just these addresses, with the name kept for
TLS and the ``Host`` header: an answer of DNS that changes a moment later changes nothing. Public
addresses are allowed; one inside this machine or its network only where the MCP server itself is
at an address of the same kind, or where the host named that origin itself.

What cannot be checked: behind a proxy of the environment the proxy looks names up, and with a
``client`` of the host's own that client does. Then the text of a URL is judged, and what a lookup
here says, if it says anything, but not the address that is connected to in the end.

Each request has a connection of its own. They are few, and one made for a name must not serve
another name that has the same address.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeAlias
from urllib.parse import urljoin

import anyio
import httpx

from ..errors import ConnectionLost, McpError
from ..protocol.jsonrpc import InvalidFrame
from ..runtime.limits import Limits
from ..runtime.safe_text import safe_text
from ..transports.http_client import RequestBody, origin_of, shown, tls_context
from ..transports.http_response import HttpResponse
from .steps import Fetch, Fetched, Unreachable
from .url_policy import NEVER, PUBLIC, UNREADABLE, is_loopback_name, kind_of, refused_url

__all__ = ["Documents", "Resolve"]

_log = logging.getLogger("mcp_client")
_BYTES = 1024 * 1024
_SECONDS = 30.0
_CONNECT = 10.0
_HOPS = 3
_LOOKUP = 3.0
"""Seconds for a lookup that does not decide where the connection is made."""
_ADDRESSES = 4
"""How many of a name's addresses are tried."""

_SOMEWHERE = ""
"""The address of an MCP server that has answered and cannot be placed any better."""

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""From a host's name and a port to its addresses."""


class _Refused(Exception):
    """Nothing was sent, and this is why."""


async def _addresses(host: str, port: int) -> list[str]:
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Documents:
    """Fetches for the authorization of one MCP server, within bounds.

    A document may have 1 MiB, unpacked, and may take 30 s, redirects and all. ``client`` is an
    ``httpx.AsyncClient`` of the host's own; it is not closed here. ``trusted`` are URLs which the
    host named itself, such as its identity provider's: at their origins any kind of address will
    do. ``resolve`` looks a name up.
    """

    def __init__(
        self,
        server_url: str,
        client: httpx.AsyncClient | None = None,
        *,
        trusted: Iterable[str] = (),
        resolve: Resolve = _addresses,
        seconds: float = _SECONDS,
    ) -> None:
        self._server_url = server_url
        self._client = client
        self._trusted = {origin_of(url) for url in trusted}
        self._resolve = resolve
        self._seconds = seconds
        host = origin_of(server_url)[1]
        self._kinds = {PUBLIC, "loopback" if is_loopback_name(host) else kind_of(host)} - NEVER
        self._peer: str | None = None

    def server_answered(self, response: httpx.Response) -> None:
        """Learn from the MCP server's own response which address it is at.

        What is connected to may be a proxy, so the address counts only if a lookup of the server's
        name gives it as well. Until this is called, before the server can have led anywhere, a
        lookup alone says where it is: what is asked for then is from an earlier run.
        """
        stream = response.extensions.get("network_stream")
        address = None if stream is None else stream.get_extra_info("server_addr")
        self._peer = str(address[0]) if isinstance(address, tuple) else _SOMEWHERE

    async def fetch(self, step: Fetch) -> Fetched | Unreachable:
        """Carry ``step`` out. Never raises but what cancels: what went wrong is in the reason."""
        place, reason = shown(step.url), "it took too long"
        with anyio.move_on_after(self._seconds):
            try:
                return await self._fetch(step)
            except _Refused as error:
                return Unreachable(f"refused to ask for {step.what}: {error}")
            except InvalidFrame as error:
                reason = error.reason
            except McpError as error:
                reason = str(error)
            except Exception as error:  # noqa: BLE001 - httpx, sockets, TLS, names, a user's client
                reason = _said(error)
        return Unreachable(f"cannot get {step.what} from {place}: {reason}")

    # ----------------------------------------------------------------- one step

    async def _fetch(self, step: Fetch) -> Fetched:
        # The host may write its server's URL in its own alphabet.
        url = step.url if step.url.isascii() else str(httpx.URL(step.url))
        for hop in range(_HOPS + 1):
            async with self._sent(step, url) as reply:
                if reply.status not in (301, 302, 303, 307, 308):
                    return await self._read(reply, url)
                place = reply.headers.get("location")
            if hop < _HOPS:
                url = _redirected(step, url, place, reply.status)
        raise _Refused(f"{shown(step.url)} redirects more than {_HOPS} times")

    async def _read(self, reply: HttpResponse, url: str) -> Fetched:
        body = await reply.body(_BYTES)
        if len(body) > _BYTES or not reply.ended:
            raise InvalidFrame(f"it is longer than {_BYTES} bytes")
        headers: dict[str, str] = {}
        for name, value in reply.headers.multi_items():
            known = headers.get(name.lower())
            headers[name.lower()] = value if known is None else f"{known}, {value}"
        return Fetched(reply.status, headers, body, url)

    @asynccontextmanager
    async def _sent(self, step: Fetch, url: str) -> AsyncIterator[HttpResponse]:
        if (reason := refused_url(url) or refused_url(str(httpx.URL(url)))) is not None:
            raise _Refused(reason)
        target, proxy = httpx.URL(url), _proxy_for(url)
        held = self._client is None and proxy is None
        addresses = await self._judge(target, held=held)
        async with nullcontext(self._client) if self._client else _client(proxy) as client:
            reply = await self._ask_any(client, step, target, addresses if held else [])
            try:
                yield reply
            finally:
                await reply.aclose()

    async def _ask_any(
        self, client: httpx.AsyncClient, step: Fetch, url: httpx.URL, addresses: list[str]
    ) -> HttpResponse:
        """Ask at the first of the addresses that can be connected to."""
        tried: list[str | None] = [*addresses[:_ADDRESSES]] or [None]
        for address in tried[:-1]:
            try:
                return await self._ask(client, step, url, address)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                _log.debug("%s: %s", address, type(error).__name__)
        return await self._ask(client, step, url, tried[-1])

    async def _ask(
        self, client: httpx.AsyncClient, step: Fetch, url: httpx.URL, address: str | None = None
    ) -> HttpResponse:
        # Not client.build_request: a host's own client may add headers meant for the MCP server.
        headers = {"User-Agent": "mcp-client", "Accept": "application/json", **step.headers}
        timeout = httpx.Timeout(self._seconds, connect=min(_CONNECT, self._seconds))
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
        response = await client.send(request, stream=True, auth=None, follow_redirects=False)
        return HttpResponse(response, Limits(message_bytes=_BYTES), ConnectionLost)

    # ------------------------------------------------------------- may it be asked

    async def _judge(self, url: httpx.URL, *, held: bool) -> list[str]:
        """The addresses of a URL's host, each of an allowed kind. Raises ``_Refused``.

        ``held``: the connection will be made to one of them. Otherwise somebody else looks the
        name up, and that it is unknown here says nothing.
        """
        host, origin = url.raw_host.decode("ascii"), origin_of(str(url))
        named = safe_text(host, 80)
        addresses = [host] if kind_of(host) != UNREADABLE else []
        if not addresses:
            with anyio.move_on_after(self._seconds if held else _LOOKUP):
                addresses = await self._looked_up(host, origin[2])
        if not addresses and held:
            raise _Refused(f"the name {named!r} has no address")
        for address in addresses:
            kind = kind_of(address)
            if not (await self._may_be(kind) or (origin in self._trusted and kind not in NEVER)):
                at = named if address == host else f"{named}, which is {safe_text(address, 50)},"
                article = "an" if kind[0] in "aeiou" else "a"
                raise _Refused(
                    f"{at} is {article} {kind} address, and the MCP server is at none such"
                )
            if url.scheme == "http" and kind != "loopback":
                raise _Refused(f"{named} is not this machine, and plain http is for that alone")
        return addresses

    async def _may_be(self, kind: str) -> bool:
        if kind in self._kinds or kind in NEVER or self._peer == _SOMEWHERE:
            return kind in self._kinds
        if _proxy_for(self._server_url) is not None:
            return False
        _, host, port = origin_of(self._server_url)
        found: list[str] = []
        with anyio.move_on_after(_LOOKUP):
            found = await self._looked_up(host, port)
        if self._peer is None:
            return bool(found) and all(kind_of(address) == kind for address in found)
        if self._peer in found:
            self._kinds |= {kind_of(self._peer)} - NEVER
        self._peer = _SOMEWHERE
        return kind in self._kinds

    async def _looked_up(self, host: str, port: int) -> list[str]:
        try:
            return await self._resolve(host, port)
        except (OSError, UnicodeError):
            return []


def _said(error: BaseException) -> str:
    """What an error says, or what is behind one that says nothing."""
    behind: BaseException | None = error
    while behind is not None:
        if text := safe_text(str(behind), 200):
            return text
        behind = behind.__cause__ or behind.__context__
    return type(error).__name__


def _client(proxy: str | None) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        verify=tls_context(certificates=True),
        proxy=proxy,
        trust_env=False,
    )


def _redirected(step: Fetch, url: str, place: str | None, status: int) -> str:
    """Where a redirect leads. What is sent with a body or credentials stays with its origin."""
    if not place:
        raise _Refused(f"{shown(url)} redirects to nowhere")
    target = urljoin(url, place)
    if (reason := refused_url(target)) is not None:
        raise _Refused(f"{shown(url)} redirects: {reason}")
    if origin_of(url)[0] == "https" and origin_of(target)[0] != "https":
        raise _Refused(f"{shown(url)} redirects from https to http")
    secret = step.method != "GET" or any(
        name.lower() in ("authorization", "dpop") for name in step.headers
    )
    if secret and origin_of(target) != origin_of(url):
        raise _Refused(
            f"{shown(url)} redirects to {shown(target)!r}, another origin, and what is sent is "
            "meant for this one alone"
        )
    if step.method != "GET" and status not in (307, 308):
        raise _Refused(f"{shown(url)} answers a {step.method} with a redirect to be fetched")
    return target


def _proxy_for(url: str) -> str | None:
    """The proxy of the environment for ``url``; none for this machine itself."""
    from urllib.request import getproxies, proxy_bypass

    scheme, host, port = origin_of(url)
    if is_loopback_name(host):
        return None
    proxies: dict[str, Any] = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or proxy_bypass(host if ":" in host else f"{host}:{port}"):
        return None
    return str(proxy) if "://" in proxy else f"http://{proxy}"
