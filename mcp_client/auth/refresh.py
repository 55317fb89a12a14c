"""One refresh at a time, across tasks and processes, without a lock during the request.

A rotating refresh token can be used once; using it twice ends the grant. So a process that
refreshes puts a mark into the store, checks once more whether the token has just been refreshed,
sends the request, stores the new token and removes the mark. A process that finds another's mark
waits for the new token. It refreshes itself if the mark becomes void: the other has ended, or has
taken longer than a request can take.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeGuard

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from ..errors import AuthError, ConfigError
from .store import TokenStore
from .tokens import Key, Token

__all__ = ["refresh_once"]

_log = logging.getLogger("mcp_client")
CLAIM = 45.0
"""Seconds for which a mark is valid: a token request is given up after 30."""
_FIRST_POLL = 0.05
_LAST_POLL = 0.5
_CLEANUP = 15.0
_GRACE = 5.0
"""Seconds for which a refresh continues after its last caller was cancelled."""


async def refresh_once(
    store: TokenStore,
    key: Key,
    stale: Token,
    refresh: Callable[[Token], Awaitable[Token]],
    *,
    claim: float = CLAIM,
    patience: float | None = None,
    clock: Callable[[], float] = time.time,
) -> Token:
    """The token that replaces ``stale``: one that another process stored, or that ``refresh`` gets.

    ``refresh`` is called with the token to refresh, and its errors are passed on. After an error
    that is not retryable the token is deleted from the store. Raises ``AuthError`` if another
    process has been refreshing for ``patience`` seconds (by default three times ``claim``,
    retryable), or has found meanwhile that the token cannot be refreshed (not retryable).
    """
    patience = 3 * claim if patience is None else patience
    until = anyio.current_time() + patience
    pause = _FIRST_POLL
    waited = False
    while True:
        mark = await store.claim(key, claim)
        if mark is not None:
            try:
                return await _refreshed(store, key, stale, refresh, waited, clock)
            finally:
                with anyio.move_on_after(_CLEANUP, shield=True):
                    await store.release(key, mark)
        if anyio.current_time() >= until:
            raise AuthError(
                f"another process is refreshing this token, and has not finished in {patience:g} s",
                retryable=True,
            )
        await anyio.sleep(pause)
        waited, pause = True, min(pause * 1.5, _LAST_POLL)
        kept = await store.load(key)
        if _replaces(kept, stale, clock()):
            return kept


async def _refreshed(
    store: TokenStore,
    key: Key,
    stale: Token,
    refresh: Callable[[Token], Awaitable[Token]],
    waited: bool,
    clock: Callable[[], float],
) -> Token:
    kept = await store.load(key)
    if _replaces(kept, stale, clock()):
        return kept
    if kept is None and waited:
        raise AuthError(
            "another process found that this token can no longer be refreshed",
            oauth_error="invalid_grant",
        )
    # The stored token may be newer than the caller's, and expired as well.
    return await _finish(lambda: _exchanged(store, key, kept, kept or stale, refresh))


async def _exchanged(
    store: TokenStore,
    key: Key,
    kept: Token | None,
    stale: Token,
    refresh: Callable[[Token], Awaitable[Token]],
) -> Token:
    try:
        token = await refresh(stale)
    except AuthError as error:
        if kept is not None and not error.retryable:
            await store.delete(key)
        raise
    try:
        await store.save(key, token)
    except ConfigError as error:
        # The old refresh token may be spent, so at least this run must have the new one.
        _log.warning("a refreshed token could not be stored; it is lost at exit: %s", error)
    return token


async def _finish(work: Callable[[], Awaitable[Token]]) -> Token:
    """Do ``work``, and continue for a few seconds if we are cancelled.

    A refresh token may be spent as soon as it has been sent: without reading the response, the
    login would be lost.
    """
    shield = anyio.CancelScope(shield=True)
    outcome: Token | Exception | None = None

    async def watch() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            shield.deadline = anyio.current_time() + _GRACE

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


def _replaces(kept: Token | None, stale: Token, now: float) -> TypeGuard[Token]:
    return kept is not None and kept.access_token != stale.access_token and kept.fresh(now, early=0)
