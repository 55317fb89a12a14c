"""The end of a consent: a page on this machine that the browser is sent back to.

Any program here and any page in the browser can ask it too, so it takes one answer and is picky:
a GET of its own path, addressed by its own name (a page elsewhere that had its name point here has
another ``Host``), with the ``state`` of this login, and with a code or an error, each once. What is
anything else gets a plain refusal and changes nothing. What is shown holds nothing of what was
sent, runs no script and is kept nowhere.

RFC 8252 (7.3, 8.3); 2026-07-28 ``basic/authorization/security-considerations``.
"""

from __future__ import annotations

import errno
import hmac
import logging
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream

from ..errors import ConfigError
from .url_policy import is_loopback_name

__all__ = ["AuthorizationResponse", "Redirects", "judge", "listens_at", "read_redirect"]

_log = logging.getLogger("mcp_client")
_HEAD = 32 * 1024
_SECONDS = 10.0
"""For one request of a browser, from its connection on."""
_CONNECTIONS = 64
_FIELDS = 64
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
_ARRIVED = "Your answer has arrived. You can close this window and go back to the application."
_SAID_NO = "You were not logged in. You can close this window and go back to the application."


@dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """What one request is answered with; ``params`` where it is the one that was waited for."""

    status: int
    text: str
    params: Mapping[str, str] | None = field(default=None, repr=False)


def read_redirect(query: str, state: str) -> Mapping[str, str] | str:
    """The parameters in a redirect's query, or why it is not the answer to this login.

    RFC 6749 (3.1): no parameter may be there twice.
    """
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError:
        return "its query cannot be read"
    params = dict(pairs)
    if len(params) != len(pairs):
        return "a parameter is there twice"
    if not hmac.compare_digest(params.get("state", "").encode("utf-8", "replace"), state.encode()):
        return "it belongs to another login"
    if ("code" in params) == ("error" in params):
        return "it holds neither a code nor an error, or both"
    return params


def judge(head: bytes, redirect_uri: str, state: str) -> AuthorizationResponse:
    """What a request is answered with, by its first line and headers."""
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
        return AuthorizationResponse(421, "This page has another name.")
    path, _, query = words[1].partition("?")
    if path != (own.path or "/"):
        return AuthorizationResponse(404, "There is nothing here.")
    if words[0] != "GET":
        return AuthorizationResponse(405, "This page can only be fetched.")
    found = read_redirect(query, state)
    if isinstance(found, str):
        return AuthorizationResponse(400, f"This is not the answer that is waited for: {found}.")
    return AuthorizationResponse(200, _SAID_NO if "error" in found else _ARRIVED, found)


class Redirects:
    """The page at ``uri``, from ``listen`` to ``aclose``; ``wait`` for the answer in between."""

    def __init__(self, uri: str, listeners: list[Listener[SocketStream]]) -> None:
        self.uri = uri
        self._listeners = listeners
        self._answer: Mapping[str, str] | None = None
        self._answered = anyio.Event()

    @classmethod
    async def listen(cls, uri: str | None = None) -> Self:
        """Listen at ``uri``, or on a free port. Raises ``OSError`` where the port is taken."""
        if uri is None:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
            port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no Django
            return cls(f"http://127.0.0.1:{port}{_PATH}", [listener])
        if not listens_at(uri):
            raise ConfigError(f"nobody can listen at {uri!r}: it is not http to this machine")
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port or 80
        named = host.endswith("localhost")
        redirects = cls(uri, [await _listener("127.0.0.1" if named else host, port)])
        if named:
            try:
                redirects._listeners.append(await _listener("::1", port))
            except OSError as error:
                # This machine need not have ::1. But a browser may take "localhost" for it, and
                # nobody else may wait for the answer there.
                if error.errno == errno.EADDRINUSE:
                    await redirects.aclose()
                    raise
        return redirects

    async def wait(self, state: str) -> Mapping[str, str]:
        """Serve until the answer with this ``state`` is there."""
        room = anyio.Semaphore(_CONNECTIONS)

        async def connection(stream: SocketStream) -> None:
            async with room, stream:
                with anyio.move_on_after(_SECONDS):
                    await self._serve(stream, state)

        async with anyio.create_task_group() as tasks:
            for listener in self._listeners:
                tasks.start_soon(listener.serve, connection)
            await self._answered.wait()
            tasks.cancel_scope.cancel()
        assert self._answer is not None
        return self._answer

    async def _serve(self, stream: SocketStream, state: str) -> None:
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
                if len(head) > _HEAD:
                    return
            answer = judge(head.partition(b"\r\n\r\n")[0], self.uri, state)
            if self._answer is not None:
                return
            self._answer = answer.params
            try:
                await stream.send(_page(answer))
                await stream.send_eof()
            finally:
                if answer.params is not None:
                    self._answered.set()
        except Exception as error:  # noqa: BLE001 - however somebody goes away, the login goes on
            _log.debug("a request to the redirect URI was left: %s", type(error).__name__)

    async def aclose(self) -> None:
        for listener in self._listeners:
            with anyio.CancelScope(shield=True):
                await listener.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


async def _listener(host: str, port: int) -> Listener[SocketStream]:
    # anyio 4.9 leaves its socket open where it cannot bind it, so this is found out without it.
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
    return await anyio.create_tcp_listener(local_host=host, local_port=port)


def listens_at(uri: str) -> bool:
    """Whether a redirect to ``uri`` comes to this machine, over http."""
    try:
        parts = urlsplit(uri)
        return parts.scheme == "http" and is_loopback_name(parts.hostname or "")
    except ValueError:
        return False


def _page(answer: AuthorizationResponse) -> bytes:
    body = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Log in</title></head>'
        f"<body><p>{answer.text}</p></body></html>\n"
    ).encode()
    head = f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
    return f"{head}{_HEADERS}Content-Length: {len(body)}\r\n\r\n".encode() + body
