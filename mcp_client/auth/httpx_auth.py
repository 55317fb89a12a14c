"""The one part of authorization that waits: between httpx, which sends, and the flows, which ask.

A request goes out with the token we have, if any. What the server says to it decides::

    401                          another token: the store's, a refreshed one, or that of a login
    401, its proof needs a nonce the same request again, with that nonce (RFC 9449)
    403 insufficient_scope       a login for more, the scopes we had included
    anything else                is the answer

A refusal means that the server did not act on the request, so it is sent again. How often is
bounded: a token fresh from a login that is refused is an error, and so is a scope that was asked
for already.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from dataclasses import dataclass

import httpx

from ..errors import AuthError, ConfigError
from ..protocol.www_authenticate import Challenge, parse_challenges, what_is_wanted
from ..runtime.event_loop import current
from ..runtime.pausable_clock import PausableClock
from ..transports.http_client import HttpClient, origin_of, shown
from .store import MemoryTokens
from .token_manager import Grant, RequestContext, TokenManager
from .tokens import Token, TokenStore

__all__ = ["Authorization"]

_STEP_UPS = 2
"""Logins for more scopes, for one request."""
_NONCES = 2
_TOKENS = 6
"""Tokens shown for one request, those that other processes got included."""
_APPROVAL = 3600.0
_SCHEMES = ("bearer", "dpop")
_READ = 64 * 1024
"""Bytes of a refusal that are read so that its connection can be used again."""


@dataclass(slots=True)
class _Tries:
    """What was tried for one request."""

    refreshes: int
    """How many refreshes there had been before it."""
    tokens: int = 0
    step_ups: int = 0
    nonces: int = 0


class Authorization(httpx.Auth):
    """Base of everything that gets tokens: ``grant`` says how."""

    extensions: tuple[str, ...] = ()
    """The protocol extensions this is, which servers are told of."""

    def __init__(
        self,
        grant: Grant,
        store: TokenStore | None = None,
        client: httpx.AsyncClient | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._grant = grant
        self._store = MemoryTokens() if store is None else store
        self._client = client
        self._now = now
        self._seats: dict[str, TokenManager] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def authorized_as(self, url: str) -> int:
        """Changes whenever a login may have changed what the server at ``url`` shows us."""
        seat = self._seats.get(url)
        return 0 if seat is None else seat.logins

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        raise ConfigError(f"{type(self).__name__} works with httpx.AsyncClient")

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        visit, seat = self._received(request)
        if origin_of(str(request.url)) != origin_of(seat.url):
            yield request
            return
        token = await seat.ready(visit)
        tries = _Tries(seat.refreshes)
        while True:
            _sign(request, seat, token)
            response = yield request
            new_nonce = _heard(request, response, seat, token)
            challenge = _refusal(response, token)
            if challenge is None or request.method == "DELETE":
                return
            if challenge.error == "use_dpop_nonce" and token is not None:
                tries.nonces += 1
                if not new_nonce or tries.nonces > _NONCES:
                    return
            elif _retry_is_useless(response, challenge, seat, token, tries):
                return
            else:
                seat.documents.server_answered(response)
                refresh = response.status_code == 401 and seat.refreshes == tries.refreshes
                token = await seat.better(visit, token, challenge, refresh=refresh)
            response.stream = _Rest(response.stream)

    def _received(self, request: httpx.Request) -> tuple[RequestContext, TokenManager]:
        web = request.extensions.get("mcp_client")
        revision = request.headers.get("mcp-protocol-version")
        if isinstance(web, HttpClient):
            key, context = web.given_url, web.context
            visit = RequestContext(
                web.url, context.server, web.clock, context.timeouts.approval, revision
            )
        else:
            key = str(request.url.copy_with(fragment=None))
            visit = RequestContext(
                key, request.url.host, PausableClock(current().now), _APPROVAL, revision
            )
        seat = self._seats.get(key)
        if seat is None:
            seat = TokenManager(key, self._grant, self._store, self._client, self._now)
            self._seats[key] = seat
        return visit, seat


def _sign(request: httpx.Request, seat: TokenManager, token: Token | None) -> None:
    if token is None:
        return
    request.headers["Authorization"] = token.authorization
    prover = seat.prover(token)
    if prover is None:
        request.headers.pop("DPoP", None)
    else:
        url = str(request.url)
        request.headers["DPoP"] = prover.proof(request.method, url, token.access_token)


def _heard(
    request: httpx.Request, response: httpx.Response, seat: TokenManager, token: Token | None
) -> bool:
    """Whether the response brings a nonce that the next proof has to carry."""
    prover = None if token is None else seat.prover(token)
    return prover is not None and prover.heard(str(request.url), response.headers, resource=True)


def _refusal(response: httpx.Response, token: Token | None) -> Challenge | None:
    """What the server wants instead of ``token``; None where the response is no such refusal."""
    if response.status_code not in (401, 403):
        return None
    given = parse_challenges(response.headers.get_list("www-authenticate"))
    ours = [challenge for challenge in given if challenge.scheme in _SCHEMES]
    if response.status_code == 403:
        return next((each for each in ours if each.error == "insufficient_scope"), None)
    if not given:
        return Challenge("bearer")  # some say no more than 401, and publish the rest
    scheme = "bearer" if token is None else token.token_type.lower()
    same = [challenge for challenge in ours if challenge.scheme == scheme]
    return next(iter(same or ours), None)


def _retry_is_useless(
    response: httpx.Response,
    challenge: Challenge,
    seat: TokenManager,
    token: Token | None,
    tries: _Tries,
) -> bool:
    """Whether another token is of no use. Raises ``AuthError`` where the server says no better."""
    tries.tokens += 1
    if response.status_code == 403:
        tries.step_ups += 1
        asked = seat.token is token and challenge.scopes <= seat.scopes
        return asked or tries.step_ups > _STEP_UPS
    if token is not None and token is seat.from_login and tries.tokens > 1:
        raise AuthError(
            f"{shown(seat.url)} refuses the token that its authorization server has just given "
            f"us: it wants {what_is_wanted([challenge])}",
            challenge=response.headers.get("www-authenticate", "")[:4096] or None,
            http_status=response.status_code,
        )
    return tries.tokens > _TOKENS


class _Rest(httpx.AsyncByteStream):
    """The body of a refusal, which httpx reads before it sends again: its beginning, unread."""

    def __init__(self, stream: object) -> None:
        assert isinstance(stream, httpx.AsyncByteStream)
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._pieces = self._stream.__aiter__()
        self._left = _READ
        return self

    async def __anext__(self) -> bytes:
        while self._left > 0:
            self._left -= len(await self._pieces.__anext__()) or 1
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await self._stream.aclose()
