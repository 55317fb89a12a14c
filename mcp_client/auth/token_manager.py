"""The token for one MCP server: its source, and how the next one is obtained.

A token is looked for in this order: the present one, one that another process stored, a refresh, a
login. A refresh or login is a task that all requests in need of a token share.
"""

from __future__ import annotations

import logging
import math
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio.lowlevel import RunVar

from ..errors import AuthError, ConfigError, McpError
from ..protocol.headers import Challenge
from ..runtime.pausable_clock import PausableClock
from ..runtime.session_context import Stats
from ..transports.http_client import shown
from .browser import Browser
from .code_flow import Login, LoginRequest
from .safe_fetch import FetchPolicy, SafeFetcher
from .signing import Prover
from .single_flight import SharedTask, refresh_once
from .steps import (
    Accepted,
    AskHost,
    Consent,
    Fetch,
    Fetched,
    Flow,
    FlowStep,
    InStore,
    Listen,
    Redirected,
    Remember,
    ShowCode,
    TakeTurn,
    Wait,
)
from .store import TokenStore
from .token_endpoint import Authenticate, Refresh, accepted_deviations, revoke
from .tokens import Source, Token

if TYPE_CHECKING:
    import httpx


__all__ = ["Grant", "RequestContext", "TokenManager"]

_log = logging.getLogger("mcp_client")
_RETRY_REFRESH_SECONDS = 30.0
"""The seconds for which a token that is still valid is used after a refresh failed."""
_CLEANUP_SECONDS = 15.0
_turns: RunVar[dict[tuple[str, int], anyio.Lock]] = RunVar("mcp_client.logins")


_NO_POLICY = FetchPolicy()


@dataclass(frozen=True, slots=True)
class Grant:
    """A way to get tokens, independent of the MCP server.

    What it does on the network is in generators: see ``steps``.
    """

    obtain: Callable[[LoginRequest], Flow[Login]] = field(repr=False)
    authenticate: Authenticate = field(repr=False)
    """A function that returns how the client that got a token authenticates, to revoke it."""
    owns: Callable[[Source], bool] = field(repr=False)
    """Whether a token from that source is one that this grant would get."""
    refresh: Refresh | None = field(default=None, repr=False)
    """The refresh; None if the grant is repeated instead."""
    browser: Callable[[float], Browser] | None = field(default=None, repr=False)
    """A function that returns the browser for a login of so many seconds; None for a grant without
    a person, whose tokens may be obtained before they are needed."""
    shares_browser: bool = False
    """Whether its logins open pages in the browser of this machine, as others' do."""
    policy: FetchPolicy = _NO_POLICY
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """The texts that must be hidden if a server repeats them."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The request that needs a token."""

    url: str
    server: str
    clock: PausableClock
    approval: float
    """Seconds that a person may take."""
    patience: float | None = None
    """Seconds to wait while another process refreshes the token."""
    revision: str | None = None
    stats: Stats | None = None
    """The counters of accepted deviations."""
    connection: weakref.ref[object] | None = None
    """The connection that the request belongs to."""

    def accept(self, deviation: str) -> None:
        """Count a deviation that was accepted."""
        (self.stats or Stats()).accept(self.server, deviation)


class TokenManager:
    """A manager that obtains, stores and replaces the token for the MCP server at ``url``."""

    def __init__(
        self,
        url: str,
        grant: Grant,
        store: TokenStore,
        client: httpx.AsyncClient | None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.url = url
        self.token: Token | None = None
        self.from_login: Token | None = None
        """The token that the last login got."""
        self.logins: int = 0
        self.refreshes: int = 0
        self.scopes: frozenset[str] = frozenset()
        """The scopes requested or granted so far."""
        self.gave_up_for: weakref.ref[object] | None = None
        """The connection whose last request was refused with every token that could be got."""
        self.fetcher: SafeFetcher = SafeFetcher(url, client, policy=grant.policy)
        self.task: SharedTask | None = None
        """The refresh or login under way, or the last one."""
        self._grant = grant
        self._store = store
        self._now = now
        self._source: Source | None = None
        self._prover: Prover | None = None
        self._challenge: Challenge | None = None
        self._proven_client: str | None = None
        self._loaded = False
        self._paused_until = -math.inf
        self._subject = ""
        """Whose the last token was."""
        self._unrefreshable: str | None = None
        """A refresh token that was refused."""

    @property
    def issued_to(self) -> str:
        """The issuer, the client and, if the tokens name one, the person. Empty before a token."""
        if self.token is not None:
            self._subject = self.token.subject
        if self._source is None:
            return ""
        key = self._source.key
        return f"{key.issuer} {key.client}{self._subject and f' {self._subject!r}'}"

    # -------------------------------------------------------------- before a request

    async def ready(self, context: RequestContext) -> Token | None:
        """Return the token to send, refreshed if it is about to expire, or None."""
        if not self._loaded:
            await self._load(context)
        token, now = self.token, self._now()
        if token is None or token.fresh(now):
            return token
        renewable = self._can_refresh(token) or self._grant.browser is None
        if token.lifetime == 0 and not renewable:
            return token  # it expired when it was issued, so only a 401 shows that it has expired
        still_valid = token.fresh(now, early=0)
        if still_valid and (now < self._paused_until or not renewable):
            return token
        try:
            await self._share(context, token, lambda task: self._keep_fresh(context, task, token))
        except AuthError as error:
            if not still_valid:
                raise
            self._paused_until = now + _RETRY_REFRESH_SECONDS
            _log.debug("%s: the token could not be refreshed yet: %s", context.server, error)
        return self.token

    def _can_refresh(self, token: Token) -> bool:
        used_up = token.refresh_token in (None, self._unrefreshable)
        return self._grant.refresh is not None and not used_up

    async def _load(self, context: RequestContext) -> None:
        try:
            await self._take_stored(None, stale=True)
        except McpError:
            raise
        except Exception as error:
            raise AuthError(
                f"the token store raised {type(error).__name__}; nothing was sent",
                server=context.server,
            ) from error
        self._loaded = True

    async def _keep_fresh(self, context: RequestContext, task: SharedTask, token: Token) -> None:
        if await self._take_stored(token) or await self._refresh(context, token):
            return
        if self._grant.browser is None and self._challenge is not None:
            await self._log_in(context, task, None, self._challenge)
        elif not token.fresh(self._now(), early=0):
            self.token = (
                None  # the server's challenge to a request without it names the way to get one
            )

    def prover(self, token: Token) -> Prover | None:
        """Return the prover that signs for ``token``; None if the token is not bound to a key."""
        if token.dpop_key is None:
            return None
        if self._prover is None or self._prover.text != token.dpop_key:
            self._prover = Prover(token.dpop_key)
        return self._prover

    def secrets(self) -> Iterator[str]:
        """Yield the texts that must be hidden if a server repeats them."""
        for token in (self.token, self.from_login):
            if token is not None:
                for text in (token.access_token, token.refresh_token, token.dpop_key):
                    if text is not None:
                        yield text

    # ---------------------------------------------------------------- after a refusal

    async def replace(
        self,
        context: RequestContext,
        used: Token | None,
        challenge: Challenge,
        *,
        refresh: bool,
        quietly: bool = False,
    ) -> Token:
        """Return another token than ``used``, which the server refused.

        Args:
            context: The request that needs the token.
            used: The refused token; None if the request had none.
            challenge: The challenge of the refusal.
            refresh: Whether the token may be refreshed.
            quietly: Whether no person is asked. Then it may be the same token.

        Raises:
            AuthError: If no other token can be obtained.
        """
        self._challenge = challenge

        async def work(task: SharedTask) -> None:
            if await self._take_stored(used):
                return
            if refresh and used is not None and await self._refresh(context, used):
                return
            if not quietly:
                await self._log_in(context, task, used, challenge)

        while True:
            await self._share(context, used, work)
            if self.token is not None:
                return self.token
            used = None  # the token expired and could not be refreshed: now a login is needed

    async def _share(
        self, context: RequestContext, used: Token | None, work: Callable[[SharedTask], Any]
    ) -> None:
        """Have ``work`` done, unless the token has been replaced or the work is under way."""
        while self.token is used:
            task = self.task
            if task is None or not task.joinable:
                self.task = task = SharedTask(context.server)
                task.start(work)
                await task.join(context.clock)
                return
            await task.join(context.clock)

    # ------------------------------------------------------------------- three sources

    async def _take_stored(self, used: Token | None, *, stale: bool = False) -> bool:
        """Use the stored token if there is a valid one other than ``used``."""
        source = await self._store.recall(self.url)
        if source is None or not self._grant.owns(source):
            return False
        self._source = source
        token = await self._store.load(source.key)
        if token is None or (used is not None and token.access_token == used.access_token):
            return False
        if not stale and not token.fresh(self._now(), early=0):
            return False
        self.token = token
        self.scopes |= token.scope
        return True

    async def _refresh(self, context: RequestContext, token: Token) -> bool:
        """Whether the token was refreshed; False if it never can be. Raises ``AuthError``."""
        source, refresh = self._source, self._grant.refresh
        if source is None or refresh is None or not self._can_refresh(token):
            return False

        async def send(stale: Token) -> Token:
            flow = refresh(stale, source, self._now, self.prover(stale))
            return cast(Token, await self._run(flow, context))

        try:
            self.token = await refresh_once(
                self._store, source.key, token, send, patience=context.patience
            )
        except AuthError as error:
            if error.retryable:
                raise
            # In whatever words it was refused: asking again would be refused again, and only a
            # login helps.
            _log.info("the token for %s cannot be refreshed any more: %s", shown(self.url), error)
            self._unrefreshable = token.refresh_token
            return False
        self.refreshes += 1
        return True

    async def _log_in(
        self, context: RequestContext, task: SharedTask, used: Token | None, challenge: Challenge
    ) -> None:
        request = LoginRequest(
            url=context.url,
            server=context.server,
            challenge=challenge,
            held=self.scopes,
            last=self._source,
            revision=context.revision,
            refused_token=None if used is None else used.access_token,
            proven_client=self._proven_client,
            now=self._now,
        )
        async with AsyncExitStack() as stack:
            person = None
            if self._grant.browser is not None:
                browser = self._grant.browser(context.approval)
                stack.push_async_callback(browser.aclose)
                owner = 0 if self._grant.shares_browser else id(self._store)
                person = _Person(context, task, browser, stack, self._store, owner)
            login = cast(Login, await self._run(self._grant.obtain(request), context, person))
        self.token, self._source, self._prover = login.token, login.source, login.prover
        self.scopes = login.scopes | login.token.scope
        self.from_login = None if login.stored else login.token
        self._proven_client = login.source.key.client
        self.logins += 1
        try:
            if not login.stored:
                await self._store.save(login.source.key, login.token)
            await self._store.remember(self.url, login.source)
        except ConfigError as error:
            _log.warning("the login at %s is lost at exit: %s", context.server, error)

    async def log_out(self) -> bool:
        """Revoke the token if that is offered, and delete it and our client from the store.

        Returns whether the authorization server confirmed the revocation.
        """
        source = await self._store.recall(self.url)
        if source is not None and not self._grant.owns(source):
            source = None
        source = source or self._source
        token, self.token, self.from_login = self.token, None, None
        self.scopes, self._challenge, self._loaded = frozenset(), None, True
        self._proven_client = None
        self.logins += 1
        if source is None:
            return False
        try:
            token = await self._store.load(source.key) or token
            if token is None:
                return False
            grant = self._grant
            flow = revoke(token, source, grant.authenticate, self._now, grant.policy.http_hosts)
            return cast(bool, await self._run(flow))
        except AuthError as error:
            _log.warning("the token for %s was not revoked: %s", shown(self.url), error)
            return False
        finally:
            with anyio.move_on_after(_CLEANUP_SECONDS, shield=True):
                await self._store.delete(source.key)
                await self._store.delete_registration(source.key.issuer, source.key.client)

    # ------------------------------------------------------------------------- steps

    async def _run(
        self, flow: Flow[Any], context: RequestContext | None = None, person: _Person | None = None
    ) -> Any:
        """Carry out the steps of a flow, and return its result."""
        outcome: Any = None
        try:
            while True:
                outcome = await self._carry_out(flow.send(outcome), context, person)
        except StopIteration as done:
            return done.value
        finally:
            flow.close()

    async def _carry_out(
        self, step: FlowStep, context: RequestContext | None, person: _Person | None
    ) -> Any:
        match step:
            case Fetch():
                response = await self.fetcher.fetch(step)
                if context is not None and isinstance(response, Fetched):
                    for deviation in accepted_deviations(step, response):
                        context.accept(deviation)
                return response
            case Accepted(deviation=deviation):
                return None if context is None else context.accept(deviation)
            case Remember(source=source):
                self._source = source
                return await self._store.remember(self.url, source)
            case InStore(use=use):
                return await use(self._store)
            case AskHost():
                return await step.carry_out()
        assert person is not None
        return await person.carry_out(step)


@dataclass(frozen=True, slots=True)
class _Person:
    """Carries out the steps of a login that need a person."""

    context: RequestContext
    task: SharedTask
    browser: Browser
    stack: AsyncExitStack
    store: TokenStore
    owner: int
    """Whose logins at one issuer take turns."""

    async def carry_out(self, step: Listen | TakeTurn | Consent | ShowCode | Wait) -> Any:
        match step:
            case Listen():
                return await self.browser.listen(step)
            case ShowCode(login=login):
                self.stack.enter_context(self.task.paused())  # until the login ends
                self.stack.callback(self.browser.hide_code)
                return await self.browser.show_code(login)
            case Wait(login=login, seconds=seconds):
                return await self.browser.wait(login, seconds)
        with self.task.paused():
            if isinstance(step, TakeTurn):
                return await self._take_turn(step.issuer)
            return await self._consent(step)

    async def _take_turn(self, issuer: str) -> None:
        """Wait until the owner has no other login at ``issuer``. The turn ends with the stack."""
        with anyio.move_on_after(self.context.approval) as scope:
            await self.stack.enter_async_context(_turn(issuer, self.owner))
        if scope.cancelled_caught:
            raise AuthError(
                f"another login at {shown(issuer)} was not finished within "
                f"{self.context.approval:g} s",
                server=self.context.server,
                retryable=True,
            )

    async def _consent(self, step: Consent) -> Redirected:
        try:
            return await self.browser.consent(step)
        except BaseException:
            if step.registration is not None:
                # The person may have seen an error page about an unknown client.
                with anyio.move_on_after(_CLEANUP_SECONDS, shield=True):
                    await self.store.save_registration(replace(step.registration, doubtful=True))
            raise


@asynccontextmanager
async def _turn(issuer: str, owner: int) -> AsyncIterator[None]:
    try:
        locks = _turns.get()
    except LookupError:
        locks = {}
        _turns.set(locks)
    lock = locks.setdefault((issuer, owner), anyio.Lock())
    try:
        async with lock:
            yield
    finally:
        if not lock.locked() and not lock.statistics().tasks_waiting:
            locks.pop((issuer, owner), None)
