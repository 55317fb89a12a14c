"""The end of a login: a page on this machine to which the browser is redirected.

Any program on this machine and any page in the browser can request it as well. It therefore accepts
one request only: a GET of its own path with all of these:

- its own ``Host``: a foreign name that was made to resolve to this machine has another one
- the ``state`` of this login
- either a code or an error, each once

Every other request is refused and changes nothing. The pages contain nothing of the request, run no
scripts and are not cached.

Connections that send nothing are cheap to open, for any program here. So none has to wait for
another: beyond a limit the oldest is closed, and a browser sends its request at once.

RFC 8252 (7.3, 8.3); 2026-07-28 ``basic/authorization/security-considerations``.
"""

from __future__ import annotations

import errno
import hmac
import logging
import socket
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, urlsplit

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream

from ..runtime.urls import is_loopback

__all__ = ["AuthorizationResponse", "RedirectPage", "listens_at", "read_redirect", "response_to"]

_log = logging.getLogger("mcp_client")
_MAX_HEAD_BYTES = 32 * 1024
_REQUEST_SECONDS = 10.0
"""The time limit for one request in seconds, from the opening of its connection."""
_MAX_CONNECTIONS = 64
_MAX_FIELDS = 64
_PATH = "/callback"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    421: "Misdirected Request",
}
_HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\n"
    "Content-Security-Policy: default-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "Cache-Control: no-store\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Connection: close\r\n"
)
_LOGGED_IN = "The login is complete. You can close this window and go back to the application."
_REFUSED = "You were not logged in. You can close this window and go back to the application."


@dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """The response to one request, with its ``params`` if it is the redirect of this login."""

    status: int
    text: str
    params: Mapping[str, str] | None = field(default=None, repr=False)


def read_redirect(query: str, state: str) -> Mapping[str, str] | str:
    """Return the parameters in a redirect's query, or why it is not the redirect of this login.

    RFC 6749 section 3.1: a parameter must not be repeated.
    """
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"
        )
    except ValueError:
        return "its query cannot be read"
    params = dict(pairs)
    if len(params) != len(pairs):
        return "a parameter is repeated"
    if not hmac.compare_digest(params.get("state", "").encode("utf-8", "replace"), state.encode()):
        return "it belongs to another login"
    if bool(params.get("code")) == ("error" in params):
        return "it has neither a code nor an error, or both"
    return params


def response_to(head: bytes, redirect_uri: str, state: str) -> AuthorizationResponse:
    """Return the response to a request with this first line and these headers."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return AuthorizationResponse(400, "This is not HTTP/1.1.")
    hosts = [
        value.strip().lower()
        for name, colon, value in (line.partition(":") for line in lines)
        if name.lower() == "host"
    ]
    own = urlsplit(redirect_uri)
    if hosts != [own.netloc.lower()]:
        return AuthorizationResponse(421, "This page is not served for that host.")
    path, _, query = words[1].partition("?")
    if path != (own.path or "/"):
        return AuthorizationResponse(404, "This address has no page.")
    if words[0] != "GET":
        return AuthorizationResponse(405, "This page accepts only GET.")
    found = read_redirect(query, state)
    if isinstance(found, str):
        return AuthorizationResponse(400, f"This is not the redirect of this login: {found}.")
    return AuthorizationResponse(200, _REFUSED if "error" in found else _LOGGED_IN, found)


class RedirectPage:
    """The page at ``uri``, from ``listen`` to ``aclose``; ``wait`` for the redirect in between."""

    def __init__(self, uri: str, listeners: list[Listener[SocketStream]]) -> None:
        self.uri = uri
        self._listeners = listeners
        self._params: Mapping[str, str] | None = None
        self._answered = anyio.Event()

    @classmethod
    async def listen(cls, uri: str | None = None) -> Self:
        """Listen at ``uri``, for which ``listens_at`` is true, or on a free port.

        Raises ``OSError`` if the port is taken.
        """
        if uri is None:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
            port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no Django
            return cls(f"http://127.0.0.1:{port}{_PATH}", [listener])
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port or 80
        named = host.endswith("localhost")
        page = cls(uri, [await _listener("127.0.0.1" if named else host, port)])
        if named:
            try:
                page._listeners.append(await _listener("::1", port))
            except OSError as error:
                # The machine may have no ::1. But if it has, a browser may resolve "localhost" to
                # it, and another program must not receive the redirect there.
                if error.errno == errno.EADDRINUSE:
                    await page.aclose()
                    raise
        return page

    async def wait(self, state: str) -> Mapping[str, str]:
        """Serve until the redirect with this ``state`` has come."""
        open_connections: deque[anyio.CancelScope] = deque()

        async def connection(stream: SocketStream) -> None:
            if len(open_connections) >= _MAX_CONNECTIONS:
                open_connections.popleft().cancel()
            async with stream:
                with anyio.move_on_after(_REQUEST_SECONDS) as scope:
                    open_connections.append(scope)
                    await self._serve(stream, state)
                with suppress(ValueError):  # it may have been dropped as the oldest
                    open_connections.remove(scope)

        async with anyio.create_task_group() as tasks:
            for listener in self._listeners:
                tasks.start_soon(listener.serve, connection)
            await self._answered.wait()
            tasks.cancel_scope.cancel()
        assert self._params is not None
        return self._params

    async def _serve(self, stream: SocketStream, state: str) -> None:
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
                if len(head) > _MAX_HEAD_BYTES:
                    return
            response = response_to(head.partition(b"\r\n\r\n")[0], self.uri, state)
            if self._params is not None:
                return
            self._params = response.params
            try:
                await stream.send(_page(response))
                await stream.send_eof()
            finally:
                if response.params is not None:
                    self._answered.set()
        except Exception as error:  # noqa: BLE001 - a broken connection must not end the login
            _log.debug("a request to the redirect URI failed: %s", type(error).__name__)

    async def aclose(self) -> None:
        """Stop listening."""
        for listener in self._listeners:
            with anyio.CancelScope(shield=True):
                await listener.aclose()


async def _listener(host: str, port: int) -> Listener[SocketStream]:
    # anyio 4.9 does not close its socket if it cannot bind it, so the port is tried first.
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
    return await anyio.create_tcp_listener(local_host=host, local_port=port)


def listens_at(uri: str) -> bool:
    """Whether a redirect to ``uri`` comes to this machine, over http."""
    try:
        parts = urlsplit(uri)
        return parts.scheme == "http" and is_loopback(parts.hostname or "")
    except ValueError:
        return False


def _page(response: AuthorizationResponse) -> bytes:
    body = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Log in</title></head>'
        f"<body><p>{response.text}</p></body></html>\n"
    ).encode()
    head = f"HTTP/1.1 {response.status} {_REASONS[response.status]}\r\n"
    return f"{head}{_HEADERS}Content-Length: {len(body)}\r\n\r\n".encode() + body
