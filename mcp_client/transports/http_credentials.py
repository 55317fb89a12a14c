"""The authorization of requests as a digest: is this still the user a list was fetched for?

2026-07-28 ``server/utilities/caching``: a response that is private may be used again only for the
same authorization context. Compared are the headers, for which the host's functions are called
again, the login of ``mcp_client.auth``, and the headers and cookies of the host's own client. The
additions of the host's own ``httpx.Auth`` are known only once a request is sent, so a list that was
fetched with one is never used again. The digest is keyed with a secret of this process, so that a
token cannot be found from it by trying.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any

import anyio
import httpx

from ..errors import AuthError
from .http_options import Headers, HttpServer

__all__ = ["HttpCredentials"]

_KEY = os.urandom(32)

_recorder: ContextVar[_Recorder | None] = ContextVar("recorder", default=None)


class _Recorder:
    def __init__(self) -> None:
        self.digests: set[Hashable] = set()
        self.over = False


class HttpCredentials:
    """The credentials of one ``HttpClient``; see ``Transport.credentials``."""

    def __init__(
        self, server: HttpServer, user_headers: Callable[[], Awaitable[Headers]], seconds: float
    ) -> None:
        """``seconds``: how long the host's functions may take."""
        self._server = server
        self._user_headers = user_headers
        self._seconds = seconds
        self._server_cookies: dict[str, str] = {}

    @property
    def _auth(self) -> Any:
        """The authorization of the host's own, or of ``mcp_client.auth``."""
        auth, client = self._server.auth, self._server.client
        return auth if isinstance(auth, httpx.Auth) else client and client.auth

    async def current(self) -> Hashable:
        """Return a digest for the next request of this task. Raises ``AuthError``."""
        return await self._next("authorized_as", _KEY) or object()  # which is equal to nothing

    async def stable_digest(self, key: bytes) -> bytes:
        """Return a digest that is comparable in other processes.

        See ``Transport.stable_authorization``.
        """
        return await self._next("stable_authorization", key) or b""

    async def _next(self, method: str, key: bytes) -> bytes | None:
        """Return a digest; ``method`` of ``mcp_client.auth`` returns who is logged in."""
        with anyio.move_on_after(self._seconds):
            headers_of_user = await self._user_headers()
            login = self._login(method)
            if login is None and hasattr(self._auth, "authorization"):
                login = await self._auth.authorization()
            return self._digest(headers_of_user, login, key)
        raise AuthError(
            "HttpServer(auth=...) or HttpServer(headers=...) did not return credentials within "
            f"{self._seconds:g} s (connect timeout); nothing was sent"
        )

    @contextmanager
    def recorded(self) -> Iterator[set[Hashable]]:
        """Collect a digest of what authorizes each request that this task sends.

        The set is complete at the end of the block.
        """
        recorder = _Recorder()
        token = _recorder.set(recorder)
        try:
            yield recorder.digests
        finally:
            recorder.over = True
            _recorder.reset(token)

    def note(self, headers_of_user: Headers, response: httpx.Response) -> None:
        """Note a request that was sent with these headers of the host, and its response."""
        if self._server.client is not None and "set-cookie" in response.headers:
            self._server_cookies.update(response.cookies.items())
        recorder = _recorder.get()
        if recorder is None or recorder.over:
            return
        login = self._login("authorized_as")
        if login is None and hasattr(self._auth, "authorization"):
            login = response.request.headers.get("authorization")
        recorder.digests.add(self._digest(headers_of_user, login, _KEY) or object())

    def _login(self, method: str) -> object:
        known = getattr(self._auth, method, None)
        return None if known is None else known(self._server.url)

    def _digest(self, headers_of_user: Headers, login: object, key: bytes) -> bytes | None:
        """Return the digest; None if it cannot be known what is sent."""
        if login is None and self._auth is not None:
            return None
        client = self._server.client
        cookies = None if client is None else sorted(self._own_cookies(client))
        headers = {} if client is None else dict(client.headers)
        headers.update((name.lower(), headers_of_user[name]) for name in headers_of_user)
        identity = repr((login, sorted(headers.items()), cookies))
        return blake2b(identity.encode(), key=key, digest_size=16).digest()

    def _own_cookies(self, client: httpx.AsyncClient) -> Iterator[tuple[str, str]]:
        """Yield the cookies of the host.

        A load balancer renews its own cookie with each response, which does not make another user.
        """
        for cookie in client.cookies.jar:
            value = cookie.value or ""
            if self._server_cookies.get(cookie.name) != value:
                yield cookie.name, value
