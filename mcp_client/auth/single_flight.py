"""Run one refresh or login at a time, shared by requests (``SharedTask``) and by processes.

Ten calls that meet an expired token need one refresh, and one login. The first starts the task and
the others join it. The task belongs to none of them, and is cancelled only when the last has left.
While a person is asked, the clocks of all who wait are paused.

A rotating refresh token can be used once; using it twice ends the grant. So a process that
refreshes (``refresh_once``) first puts a mark into the store, and checks again whether the token
has just been refreshed. It sends the request, stores the new token and removes the mark. It holds
no lock during the request. A process that finds another's mark waits for the new token. It
refreshes itself if the mark becomes void: the other has ended, or has taken longer than a request
can take.
"""

from __future__ import annotations

import copy
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeGuard

import anyio
from anyio.lowlevel import checkpoint_if_cancelled, current_token

from ..errors import AuthError, ConfigError, McpError, StateError
from ..runtime.background import BackgroundTasks
from ..runtime.event_loop import current
from ..runtime.pausable_clock import PausableClock
from .store import TokenStore
from .tokens import Key, Token

__all__ = ["SharedTask", "refresh_once"]

_log = logging.getLogger("mcp_client")
_CLAIM_SECONDS = 45.0
"""The seconds for which a mark is valid: a token request is given up after 30."""
_FIRST_POLL_SECONDS = 0.05
_LAST_POLL_SECONDS = 0.5
_CLEANUP_SECONDS = 15.0
_GRACE_SECONDS = 5.0
"""The seconds for which a refresh continues after its last caller was cancelled."""


class SharedTask:
    """Work under way; ``join`` waits for its outcome."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._done = anyio.Event()
        self._loop = current_token()
        self._error: McpError | None = None
        self._waiting: Counter[PausableClock] = Counter()
        self._people = 0

    def start(self, work: Callable[[SharedTask], Awaitable[None]]) -> None:
        """Start the task that does ``work``."""
        self._scope = BackgroundTasks(current(), self._server).start(lambda: self._run(work))

    @property
    def joinable(self) -> bool:
        """Whether it runs, in the current event loop: one of a loop that ended never finishes."""
        over = self._done.is_set() or self._scope.cancel_called
        return not over and self._loop == current_token()

    @property
    def waiting(self) -> int:
        """The number of requests that wait for the task."""
        return self._waiting.total()

    async def _run(self, work: Callable[[SharedTask], Awaitable[None]]) -> None:
        self._error = AuthError("the login was cancelled", server=self._server, retryable=True)
        try:
            await work(self)
            self._error = None
        except McpError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - a store or a callback of the host
            # Without the traceback: the texts of a store may have tokens in them.
            _log.debug("%s: the login failed: %s", self._server, type(error).__name__)
            self._error = AuthError(f"the login failed: {type(error).__name__}")
        finally:
            self._done.set()

    async def join(self, clock: PausableClock) -> None:
        """Wait until it is over. Raises a copy of its error."""
        self._waiting[clock] += 1
        for _ in range(self._people):
            clock.stop()
        try:
            await self._done.wait()
        finally:
            self._waiting[clock] -= 1
            self._waiting += Counter()
            for _ in range(self._people):
                clock.go()
            if not self._waiting:
                self._scope.cancel()
        if self._error is not None:
            raise copy.copy(self._error) from None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the clocks while a person is asked."""
        self._people += 1
        for clock in self._waiting.elements():
            clock.stop()
        try:
            yield
        finally:
            self._people -= 1
            for clock in self._waiting.elements():
                clock.go()


# ---------------------------------------------------------------- one in all processes


async def refresh_once(
    store: TokenStore,
    key: Key,
    stale: Token,
    refresh: Callable[[Token], Awaitable[Token]],
    *,
    claim: float = _CLAIM_SECONDS,
    patience: float | None = None,
    clock: Callable[[], float] = time.time,
) -> Token:
    """Return the token that replaces ``stale``: from another process, or from ``refresh``.

    Args:
        store: The store that all processes share.
        key: The token's key in the store.
        stale: The token that must be replaced.
        refresh: Called with the token to refresh. Its errors are passed on.
        claim: The seconds for which this process's mark is valid.
        patience: The seconds to wait for another process; by default three times ``claim``.
        clock: Returns the Unix time in seconds.

    Raises:
        AuthError: If another process has been refreshing for ``patience`` seconds (retryable), or
            has found that the token cannot be refreshed (not retryable). After an error that is not
            retryable the token is deleted from the store.
    """
    patience = 3 * claim if patience is None else patience
    until = anyio.current_time() + patience
    pause = _FIRST_POLL_SECONDS
    waited = False
    while True:
        mark = await store.claim(key, claim)
        try:
            stored = await store.load(key)
            if _replaces(stored, stale, clock()):
                return stored
            if mark is not None and stored is None and waited:
                raise AuthError(
                    "another process found that this token can no longer be refreshed",
                    oauth_error="invalid_grant",
                )
            if mark is not None:
                # The stored token may be newer than the caller's, and expired as well.
                return await _finish(
                    partial(_exchanged, store, key, stored, stored or stale, refresh)
                )
        finally:
            if mark is not None:
                # Without that the mark becomes void by itself, and the token must not be lost.
                with anyio.move_on_after(_CLEANUP_SECONDS, shield=True), suppress(McpError):
                    await store.release(key, mark)
        if anyio.current_time() >= until:
            raise AuthError(
                f"another process is refreshing this token, and has not finished in {patience:g} s",
                retryable=True,
            )
        await anyio.sleep(pause)
        waited, pause = True, min(pause * 1.5, _LAST_POLL_SECONDS)


async def _exchanged(
    store: TokenStore,
    key: Key,
    stored: Token | None,
    stale: Token,
    refresh: Callable[[Token], Awaitable[Token]],
) -> Token:
    try:
        token = await refresh(stale)
    except AuthError as error:
        if stored is not None and not error.retryable:
            await store.delete(key)
        raise
    try:
        await store.save(key, token)
    except (ConfigError, StateError) as error:
        # The old refresh token may be spent, so at least this run must have the new one.
        _log.warning("a refreshed token could not be stored; it is lost at exit: %s", error)
    return token


async def _finish(work: Callable[[], Awaitable[Token]]) -> Token:
    """Do ``work``, and continue for a few seconds if the caller is cancelled.

    A refresh token may be spent when it has been sent. If the response was not read, the login
    would be lost.
    """
    shield = anyio.CancelScope(shield=True)
    outcome: Token | Exception | None = None

    async def watch() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            shield.deadline = anyio.current_time() + _GRACE_SECONDS

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        with shield:
            try:
                outcome = await work()
            except Exception as error:  # noqa: BLE001 - raised below, outside the task group
                outcome = error
        tasks.cancel_scope.cancel()
    await checkpoint_if_cancelled()
    if isinstance(outcome, Token):
        return outcome
    raise outcome or AuthError("the refresh was cancelled", retryable=True)


def _replaces(stored: Token | None, stale: Token, now: float) -> TypeGuard[Token]:
    return (
        stored is not None
        and stored.access_token != stale.access_token
        and stored.fresh(now, early=0)
    )
