"""A bearer token that the host looks after (RFC 6750).

2026-07-28 ``basic/authorization`` (access token usage).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from typing import TypeAlias

import httpx

from ..errors import ConfigError
from .steps import AskHost
from .tokens import SENDABLE

__all__ = ["BearerToken"]

TokenSource: TypeAlias = Callable[[], str | Awaitable[str]]


class BearerToken(httpx.Auth):
    """``HttpServer(url, auth=BearerToken("..."))``, or a function, sync or async, that returns one.

    A function is called before each request, and again if the server answers 401: if it then
    returns another token, the request is sent again. Raises ``ConfigError`` if the token is
    malformed, ``AuthError`` if the function raises. The token does not appear in reprs, logs or
    errors.
    """

    def __init__(self, token: str | TokenSource) -> None:
        if not callable(token):
            _check(token, "BearerToken(...)")
        self._token = token
        self._last = ""

    def secrets(self) -> Iterable[str]:
        """What must be hidden where a server repeats it."""
        return [self._last] if callable(self._token) else [self._token]

    def __repr__(self) -> str:
        return "BearerToken(<function>)" if callable(self._token) else "BearerToken('***')"

    def authorized_as(self, url: str) -> int | None:
        """Equal while the same token is sent; None where only a request tells which that is."""
        return None if callable(self._token) else 0

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        token = await self._current()
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == 401 and callable(self._token):
            newer = await self._current()
            if newer != token:
                request.headers["Authorization"] = f"Bearer {newer}"
                yield request

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        raise ConfigError("BearerToken works with httpx.AsyncClient")

    async def _current(self) -> str:
        if not callable(self._token):
            return self._token
        token = await AskHost(self._token, "BearerToken(...)").carry_out()
        _check(token, "the function given to BearerToken")
        self._last = token
        return token


def _check(token: object, what: str) -> None:
    if not isinstance(token, str) or not SENDABLE.fullmatch(token):
        raise ConfigError(
            f"{what} is not a bearer token: give the token alone, a string without spaces, line "
            "ends or the word Bearer"
        )
