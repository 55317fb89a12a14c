"""What we are to one MCP server: our token, where it came from, and how the next one is got.

The token is looked for in this order: what we hold, what another process put into the store, a
refresh, a login. Each of the last two is one job, whoever needs it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..errors import AuthError, ConfigError, McpError
from ..protocol.www_authenticate import Challenge
from ..runtime.pausable_clock import PausableClock
from .browser import Browser
from .flow import Login, LoginRequest
from .job import SharedTask
from .refresh import SPENT, renewed
from .safe_fetch import Documents
from .steps import Consent, Fetch, Flow, Forget, Listen, Recall, Remember, Supply
from .tokens import Source, Token, TokenStore

if TYPE_CHECKING:
    import httpx

    from .dpop import Prover

__all__ = ["Grant", "RequestContext", "TokenManager"]

_log = logging.getLogger("mcp_client")
_PAUSE = 30.0
"""Seconds a token that is still good is used, after it could not be refreshed."""


class Grant(Protocol):
    """One way to get tokens, whoever the server is."""

    @property
    def silent(self) -> bool:
        """Whether nobody is asked, so that a token may be got before it is missed."""

    def owns(self, source: Source) -> bool:
        """Whether a token from there is one that this grant would get."""

    def obtain(self, want: LoginRequest) -> Flow[Login]: ...

    def refresh(
        self, token: Token, source: Source, prover: Prover | None, now: Callable[[], float]
    ) -> Flow[Token]: ...

    def browser(self, seconds: float) -> Browser | None:
        """Who asks people; None where nobody is asked."""

    def trusted(self) -> Iterable[str]:
        """URLs the host named itself."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request that needs a token."""

    url: str
    server: str
    watch: PausableClock
    approval: float
    revision: str | None = None


class TokenManager:
    def __init__(
        self,
        url: str,
        grant: Grant,
        store: TokenStore,
        client: httpx.AsyncClient | None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.url = url
        self.token: Token | None = None
        self.from_login: Token | None = None
        """What the last login got."""
        self.logins = 0
        self.refreshes = 0
        self.scopes: frozenset[str] = frozenset()
        """What was asked for or granted so far."""
        self.documents = Documents(url, client, trusted=grant.trusted())
        self._grant = grant
        self._store = store
        self._now = now
        self._source: Source | None = None
        self._prover: Prover | None = None
        self._challenge: Challenge | None = None
        self._loaded = False
        self._pause = -math.inf
        self._job: SharedTask | None = None

    # -------------------------------------------------------------- before a request

    async def ready(self, visit: RequestContext) -> Token | None:
        """The token to send: refreshed if its time is nearly over, None if there is none."""
        if not self._loaded:
            await self._load(visit)
        token, now = self.token, self._now()
        if token is None or token.fresh(now):
            return token
        still_good = token.fresh(now, early=0)
        if still_good and (now < self._pause or not (token.refresh_token or self._grant.silent)):
            return token
        try:
            await self._share(visit, token, lambda job: self._keep_fresh(visit, token))
        except AuthError as error:
            if not still_good:
                raise
            self._pause = now + _PAUSE
            _log.debug("%s: the token could not be refreshed yet: %s", visit.server, error)
        return self.token

    async def _load(self, visit: RequestContext) -> None:
        try:
            await self._take_stored(None, stale=True)
        except McpError:
            raise
        except Exception as error:
            raise AuthError(
                f"the token store raised {type(error).__name__}; nothing was sent",
                server=visit.server,
            ) from error
        self._loaded = True

    async def _keep_fresh(self, visit: RequestContext, token: Token) -> None:
        if await self._take_stored(token) or await self._refreshed(token):
            return
        if self._grant.silent and self._challenge is not None:
            await self._log_in(visit, None, self._challenge)
        elif not token.fresh(self._now(), early=0):
            self.token = None  # the server's answer to no token says how to get one

    def prover(self, token: Token) -> Prover | None:
        """Who signs the proofs for ``token``."""
        if token.dpop_key is None:
            return None
        if self._prover is None or self._prover.text != token.dpop_key:
            from .dpop import Prover

            self._prover = Prover(token.dpop_key)
        return self._prover

    # ---------------------------------------------------------------- after a refusal

    async def better(
        self, visit: RequestContext, used: Token | None, challenge: Challenge, *, refresh: bool
    ) -> Token:
        """Another token than ``used``, which the server refused. Raises ``AuthError``."""
        self._challenge = challenge

        async def work(job: SharedTask) -> None:
            if await self._take_stored(used):
                return
            if refresh and used is not None and await self._refreshed(used):
                return
            await self._log_in(visit, job, challenge)

        while True:
            await self._share(visit, used, work)
            if self.token is not None:
                return self.token
            used = None  # it was found to be over meanwhile, and nothing came in its place

    async def _share(
        self, visit: RequestContext, used: Token | None, work: Callable[[SharedTask], Any]
    ) -> None:
        """Have ``work`` done, unless somebody has done it, or is at it."""
        while self.token is used:
            job = self._job
            if job is None or not job.joinable:
                self._job = job = SharedTask(visit.server)
                job.begin(work)
                await job.joined(visit.watch)
                return
            await job.joined(visit.watch)

    # ------------------------------------------------------------------- three sources

    async def _take_stored(self, used: Token | None, *, stale: bool = False) -> bool:
        """Whether the store has a good token other than ``used``, which is ours then."""
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

    async def _refreshed(self, token: Token) -> bool:
        source = self._source
        if source is None or token.refresh_token is None:
            return False

        async def ask(stale: Token) -> Token:
            flow = self._grant.refresh(stale, source, self.prover(stale), self._now)
            return cast(Token, await self._driven(flow, None, None))

        try:
            self.token = await renewed(self._store, source.key, token, ask)
        except AuthError as error:
            if error.oauth_error not in SPENT:
                raise
            _log.info("the token for %s can no longer be refreshed: %s", self.url, error)
            return False
        self.refreshes += 1
        return True

    async def _log_in(
        self, visit: RequestContext, job: SharedTask | None, challenge: Challenge
    ) -> None:
        want = LoginRequest(
            url=visit.url,
            server=visit.server,
            challenge=challenge,
            held=self.scopes,
            last=self._source,
            revision=visit.revision,
            prover=_new_prover,
            now=self._now,
        )
        browser = self._grant.browser(visit.approval)
        try:
            login = await self._driven(self._grant.obtain(want), browser, job)
        finally:
            if browser is not None:
                await browser.aclose()
        self.token, self._source, self._prover = login.token, login.source, login.prover
        self.scopes = login.scopes | login.token.scope
        self.from_login = login.token
        self.logins += 1
        try:
            await self._store.save(login.source.key, login.token)
            await self._store.remember(self.url, login.source)
        except ConfigError as error:
            _log.warning("the login at %s is good for this run only: %s", visit.server, error)

    # ------------------------------------------------------------------------- steps

    async def _driven(
        self, flow: Flow[Any], browser: Browser | None, job: SharedTask | None
    ) -> Any:
        """Carry out what a flow asks for, and return its result."""
        outcome: Any = None
        try:
            while True:
                step = flow.send(outcome)
                outcome = await self._carried_out(step, browser, job)
        except StopIteration as done:
            return done.value
        finally:
            flow.close()

    async def _carried_out(self, step: Any, browser: Browser | None, job: SharedTask | None) -> Any:
        match step:
            case Fetch():
                return await self.documents.fetch(step)
            case Recall(issuer=issuer):
                return await self._store.load_registration(issuer)
            case Remember(registration=registration):
                return await self._store.save_registration(registration)
            case Forget(issuer=issuer):
                return await self._store.delete_registration(issuer)
            case Supply():
                return await step.carry_out()
        assert browser is not None
        assert job is not None
        if isinstance(step, Listen):
            return await browser.listen(step)
        assert isinstance(step, Consent)
        with job.asking():
            return await browser.consent(step)


def _new_prover() -> Prover:
    from .dpop import Prover

    return Prover()
