"""The little of HTTP and ASGI that the page needs; any framework that speaks ASGI can mount it.

ASGI 3, ``https://asgi.readthedocs.io/en/latest/specs/www.html``.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qs

import anyio

__all__ = ["Receive", "Refused", "Request", "Response", "Scope", "Send", "Stream"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_MAX_BODY = 4 * 1024 * 1024
_MAX_FIELDS = 2_000


class Refused(Exception):
    """A request that is answered with ``status`` and a sentence."""

    def __init__(self, status: int, text: str, **more: Any) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.more = more


class Request:
    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self._receive = receive
        self.method = str(scope["method"])
        self._headers: dict[bytes, bytes] = dict(scope.get("headers") or ())

    @property
    def path(self) -> str:
        """Below the place where the page is mounted; empty where only the slash is missing."""
        path, root = str(self.scope["path"]), self.root
        if root and (path == root or path.startswith(f"{root}/")):
            return path[len(root) :]
        return path

    @property
    def root(self) -> str:
        return str(self.scope.get("root_path") or "").rstrip("/")

    def header(self, name: str) -> str:
        """Its value, or an empty text."""
        return self._headers.get(name.encode(), b"").decode("latin-1")

    @property
    def query(self) -> dict[str, list[str]]:
        return _fields((self.scope.get("query_string") or b"").decode("latin-1"))

    async def form(self) -> dict[str, list[str]]:
        """The fields of the body. Raises ``Refused``."""
        kind = self.header("content-type").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise Refused(415, "Send the fields of the form.")
        body = bytearray()
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "The request ended early.")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > _MAX_BODY:
                raise Refused(413, f"That is more than {_MAX_BODY:,} bytes.")
        return _fields(body.decode("latin-1"))

    async def until_gone(self) -> None:
        """Until the one who asked has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _fields(text: str) -> dict[str, list[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError:
        raise Refused(400, "The fields cannot be read.") from None


@dataclass(frozen=True, slots=True)
class Response:
    body: bytes | str = b""
    status: int = 200
    type: str = "text/html; charset=utf-8"
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """Which scripts of the page may run: those that have it."""
    location: str | None = None
    allow: str | None = None
    cookie: str | None = None

    async def send(self, send: Send, *, head: bool = False) -> None:
        body = self.body.encode() if isinstance(self.body, str) else self.body
        headers = [*_headers(self.type, self.nonce), (b"content-length", str(len(body)).encode())]
        if self.location is not None:
            headers.append((b"location", self.location.encode("latin-1")))
        if self.allow is not None:
            headers.append((b"allow", self.allow.encode()))
        if self.cookie is not None:
            headers.append((b"set-cookie", self.cookie.encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if head else body})


@dataclass(frozen=True, slots=True)
class Stream:
    """Server-sent events (HTML Living Standard, 9.2), for at most so many seconds."""

    events: AsyncGenerator[str]
    seconds: float

    async def send(self, send: Send, request: Request) -> None:
        headers = _headers("text/event-stream; charset=utf-8", "none")
        headers.append((b"x-accel-buffering", b"no"))  # nginx would keep the events back
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with anyio.create_task_group() as tasks:

            async def end_with_the_connection() -> None:
                await request.until_gone()
                tasks.cancel_scope.cancel()

            tasks.start_soon(end_with_the_connection)
            with suppress(OSError), anyio.move_on_after(self.seconds):
                async for event in self.events:
                    data = event.replace("\n", "\ndata: ")
                    body = f"data: {data}\n\n".encode()
                    await send({"type": "http.response.body", "body": body, "more_body": True})
            await self.events.aclose()
            tasks.cancel_scope.cancel()
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b""})


def _headers(type: str, nonce: str) -> list[tuple[bytes, bytes]]:
    """Nothing from elsewhere is loaded, no script runs that is not the page's own, no other page
    can frame this one or read it, and nothing of it is kept."""
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; connect-src 'self'; "
        "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types desk"
    )
    return [
        (b"content-type", type.encode()),
        (b"content-security-policy", policy.encode()),
        (b"x-frame-options", b"DENY"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-store"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]
