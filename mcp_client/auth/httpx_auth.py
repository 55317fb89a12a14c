"""Authorization inside httpx: adds the token to each request, and replaces a refused one.

A request is sent with the token we have, if any. The response decides::

    401                        send again with another token: stored, refreshed, or from a login
    401 with use_dpop_nonce    send again with that nonce in the proof (RFC 9449)
    403 insufficient_scope     log in for more scopes, including those we have, and send again
    anything else              it is the response

A refusal means that the server did not act on the request, so it can be sent again. The number of
times is limited: it is an error if the server refuses a token that a login has just got, or asks
for a scope that was already requested.

``BearerToken`` is for a token that the host looks after itself (RFC 6750; 2026-07-28
``basic/authorization``, access token usage).
"""

from __future__ import annotations

import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import httpx

from ..errors import AuthError, ConfigError
from ..protocol.headers import Challenge, parse_challenges, what_is_wanted
from ..runtime.event_loop import current
from ..runtime.masking import mask, secrets_sent
from ..runtime.pausable_clock import PausableClock
from ..runtime.storage import Storage
from ..transports.http_client import HttpClient
from ..transports.http_options import origin_of, shown
from .steps import AskHost
from .store import MemoryTokens, TokenStore
from .token_manager import Grant, RequestContext, TokenManager
from .tokens import SENDABLE, Token

__all__ = ["Authorization", "BearerToken"]

TokenSource: TypeAlias = Callable[[], str | Awaitable[str]]

_MAX_STEP_UPS = 2
"""Logins for more scopes, per request."""
_MAX_NONCES = 2
_MAX_TOKENS = 6
"""Tokens tried per request, including those that other processes got."""
_APPROVAL_SECONDS = 3600.0
_PATIENCE_SHARE = 0.8
"""The share of a call's shortest clock that another process may take to refresh a token."""
_SCHEMES = ("bearer", "dpop")
_REFUSAL_BYTES = 64 * 1024
"""The bytes of a refusal that are read, so that its connection can be used again."""


@dataclass(slots=True)
class _Tries:
    """The attempts that were made for one request."""

    refreshes: int
    """The number of refreshes before it."""
    tokens: int = 0
    step_ups: int = 0
    nonces: int = 0


class Authorization(httpx.Auth):
    """A base class of everything that gets tokens; ``grant`` defines how.

    Its tokens belong to one person or service. It may be used for several servers, and for several
    sessions at a time.
    """

    extensions: tuple[str, ...] = ()
    """The protocol extensions that it implements, which are declared to servers."""

    def __init__(
        self,
        grant: Grant,
        store: TokenStore | Storage | None = None,
        client: httpx.AsyncClient | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._grant = grant
        self._keeps = store is not None
        self._store = MemoryTokens() if store is None else TokenStore.of(store)
        self._client = client
        self._now = now
        self._managers: dict[str, TokenManager] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def asks_person(self) -> bool:
        """Whether a person may be asked to log in."""
        return self._grant.browser is not None

    def store_tokens_in(self, store: TokenStore) -> None:
        """Store tokens in ``store`` if no store was given: a state is known only to the session."""
        if not self._keeps and not self._managers:
            self._store, self._keeps = store, True

    def authorized_as(self, url: str) -> int:
        """Return a number that changes when a login may change what the server offers."""
        manager = self._managers.get(url)
        return 0 if manager is None else manager.logins

    def stable_authorization(self, url: str) -> str:
        """Return a text that identifies whose tokens are used for ``url``, equal in every process.

        It names the authorization server and the client that the tokens are issued to. It also
        names the person, if the tokens are JSON Web Tokens that name one.
        """
        manager = self._managers.get(url)
        return f"{type(self).__name__} {'' if manager is None else manager.issued_to}"

    def secrets(self) -> Iterable[str]:
        """Return the texts that must be hidden if a server repeats them."""
        yield from self._grant.secrets
        for manager in self._managers.values():
            yield from manager.secrets()

    async def logout(self, url: str) -> bool:
        """Log out of the MCP server at ``url``, the URL given to ``HttpServer``.

        The token is revoked if the authorization server offers that (RFC 7009), and the stored
        token and client registration are deleted in any case. The next request of a session logs
        in again. So does another MCP server that uses the same registration with a client secret,
        when its token expires. Returns whether the authorization server
        confirmed the revocation. Raises ``ConfigError`` if the store cannot be used.
        """
        return await self._manager(url).log_out()

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        """Raise ``ConfigError``: blocking httpx clients are not supported."""
        raise ConfigError(f"{type(self).__name__} works with httpx.AsyncClient")

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Send ``request`` with a token, and again with another one if the server requires it.

        httpx calls this.
        """
        context, manager = self._context(request)
        if origin_of(str(request.url)) != origin_of(manager.url):
            yield request
            return
        token = await manager.ready(context)
        tries = _Tries(manager.refreshes)
        while True:
            _sign(request, manager, token)
            response = yield request
            new_nonce = _accept_nonce(request, response, manager, token)
            challenge = _refusal(response, token)
            if challenge is None or request.method == "DELETE":
                manager.gave_up_for = manager.gave_up_for if challenge else None
                return
            if challenge.error == "use_dpop_nonce" and token is not None:
                tries.nonces += 1
                if not new_nonce or tries.nonces > _MAX_NONCES:
                    return
            elif self._retry_is_useless(response, challenge, manager, token, tries, context):
                manager.gave_up_for = context.connection
                return
            else:
                manager.fetcher.server_answered(response)
                refresh = response.status_code == 401 and manager.refreshes == tries.refreshes
                quietly = token is not None and self._spares_login(request, response)
                newer = await manager.replace(
                    context, token, challenge, refresh=refresh, quietly=quietly
                )
                if newer is token:
                    return
                token = newer
            response.stream = _BoundedBody(response.stream)

    def _spares_login(self, request: httpx.Request, response: httpx.Response) -> bool:
        """Whether no person is to be asked because of this refusal."""
        spares = getattr(request.stream, "spares_login", None)
        asks = self.asks_person and response.status_code == 401
        return asks and spares is not None and spares()

    def _manager(self, url: str) -> TokenManager:
        manager = self._managers.get(url)
        if manager is None:
            manager = TokenManager(url, self._grant, self._store, self._client, now=self._now)
            self._managers[url] = manager
        return manager

    def _context(self, request: httpx.Request) -> tuple[RequestContext, TokenManager]:
        http = request.extensions.get("mcp_client")
        revision = request.headers.get("mcp-protocol-version")
        if not isinstance(http, HttpClient):
            url = str(request.url.copy_with(fragment=None))
            clock = PausableClock(current().now)
            context = RequestContext(
                url, request.url.host, clock, _APPROVAL_SECONDS, revision=revision
            )
            return context, self._manager(url)
        timeouts = http.context.timeouts
        # Less than any clock of the call, so that the error names what was waited for.
        patience = _PATIENCE_SHARE * min(timeouts.connect, timeouts.idle)
        context = RequestContext(
            http.url,
            http.context.server,
            http.clock,
            timeouts.approval,
            patience,
            revision,
            http.context.stats,
            weakref.ref(http),
        )
        return context, self._manager(http.configured_url)

    def _retry_is_useless(
        self,
        response: httpx.Response,
        challenge: Challenge,
        manager: TokenManager,
        token: Token | None,
        tries: _Tries,
        context: RequestContext,
    ) -> bool:
        """Whether another token would not help. Raises ``AuthError`` if a new one was refused."""
        tries.tokens += 1
        # A connection asks in two ways how the server speaks, but not a person twice.
        before = context.connection is not None and manager.gave_up_for == context.connection
        if response.status_code == 403:
            tries.step_ups += 1
            requested = manager.token is token and challenge.scopes <= manager.scopes
            return before or requested or tries.step_ups > _MAX_STEP_UPS
        new = token is not None and token is manager.from_login
        if not new or (tries.tokens == 1 and not before):
            return tries.tokens > _MAX_TOKENS
        manager.gave_up_for = context.connection
        request = response.request
        secrets = {*self.secrets(), *secrets_sent(str(request.url), request.headers.multi_items())}
        raise AuthError(
            f"{shown(manager.url)} refuses the token that its authorization server has just "
            f"issued: it requires {mask(what_is_wanted([challenge]), secrets)}",
            challenge=mask(response.headers.get("www-authenticate", ""), secrets)[:4096] or None,
            http_status=response.status_code,
        )


def _sign(request: httpx.Request, manager: TokenManager, token: Token | None) -> None:
    if token is None:
        return
    request.headers["Authorization"] = token.authorization
    prover = manager.prover(token)
    if prover is None:
        request.headers.pop("DPoP", None)
    else:
        url = str(request.url)
        request.headers["DPoP"] = prover.proof(request.method, url, token.access_token)


def _accept_nonce(
    request: httpx.Request, response: httpx.Response, manager: TokenManager, token: Token | None
) -> bool:
    """Whether the response has a new nonce for the next proof."""
    prover = None if token is None else manager.prover(token)
    return prover is not None and prover.accept_nonce(
        str(request.url), response.headers, resource=True
    )


def _refusal(response: httpx.Response, token: Token | None) -> Challenge | None:
    """Return the challenge of a response that refuses ``token``; None for any other response."""
    if response.status_code not in (401, 403):
        return None
    challenges = parse_challenges(response.headers.get_list("www-authenticate"))
    usable = [challenge for challenge in challenges if challenge.scheme in _SCHEMES]
    if response.status_code == 403:
        return next((each for each in usable if each.error == "insufficient_scope"), None)
    if not challenges:
        return Challenge("bearer")  # some servers only send 401, and publish their metadata
    scheme = "bearer" if token is None else token.token_type.lower()
    same = [challenge for challenge in usable if challenge.scheme == scheme]
    return next(iter(same or usable), None)


class _BoundedBody(httpx.AsyncByteStream):
    """The body of a refusal, which httpx reads before it sends again, cut off after 64 KiB."""

    def __init__(self, stream: object) -> None:
        assert isinstance(stream, httpx.AsyncByteStream)
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._pieces = self._stream.__aiter__()
        self._left = _REFUSAL_BYTES
        return self

    async def __anext__(self) -> bytes:
        while self._left > 0:
            self._left -= len(await self._pieces.__anext__()) or 1
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await self._stream.aclose()


# ------------------------------------------------------ a token of the host's own


class BearerToken(httpx.Auth):
    """A token that you have already: ``HttpServer(url, auth=BearerToken("..."))``.

    Instead of the token, pass a function, sync or async, that returns one. It is called before each
    request, and again if the server responds 401. If it then returns another token, the request is
    sent again. The token does not appear in reprs, logs or errors.

    Raises:
        ConfigError: If the token is malformed.
        AuthError: If the function raises, when a request is sent.

    Example:
        >>> HttpServer("https://mcp.example.com/mcp", auth=BearerToken(read_token))
    """

    def __init__(self, token: str | TokenSource) -> None:
        if not callable(token):
            _check(token, "BearerToken(...)")
        self._token = token
        self._last = ""

    def secrets(self) -> Iterable[str]:
        """Return the texts that must be hidden if a server repeats them."""
        return [self._last] if callable(self._token) else [self._token]

    def __repr__(self) -> str:
        return "BearerToken(<function>)" if callable(self._token) else "BearerToken('***')"

    def authorized_as(self, url: str) -> int | None:
        """Return a value that is equal for the same token.

        None if only a request shows the token.
        """
        return None if callable(self._token) else 0

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Send ``request`` with the token, and again with another after 401; httpx calls this."""
        sent = await self.authorization()
        request.headers["Authorization"] = sent
        response = yield request
        if response.status_code == 401 and callable(self._token):
            newer = await self.authorization()
            if newer != sent:
                request.headers["Authorization"] = newer
                yield request

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        """Raise ``ConfigError``: blocking httpx clients are not supported."""
        raise ConfigError("BearerToken works with httpx.AsyncClient")

    async def authorization(self) -> str:
        """Return the ``Authorization`` header of the next request.

        This calls the function, if any.
        """
        if not callable(self._token):
            return f"Bearer {self._token}"
        token = await AskHost(self._token, "BearerToken(...)").carry_out()
        _check(token, "the function given to BearerToken")
        self._last = token
        return f"Bearer {token}"


def _check(token: object, what: str) -> None:
    if not isinstance(token, str) or not SENDABLE.fullmatch(token):
        raise ConfigError(
            f"{what} is not a bearer token: give the token alone, a string without spaces, line "
            "ends or the word Bearer"
        )
