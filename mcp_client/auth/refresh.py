"""One refresh at a time, across tasks and processes, with no lock while a request is on the wire.

A refresh token that rotates is good for one use; whoever uses it twice loses the grant. So who
refreshes puts a mark into the store, looks once more whether somebody has just done it, asks the
server, writes down the answer and takes the mark away. Who finds another's mark waits for the
other's token, and does it himself where the mark runs out: its owner has died.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeGuard

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from ..errors import AuthError, ConfigError
from .tokens import Key, Token, TokenStore

__all__ = ["renewed"]

_log = logging.getLogger("mcp_client")
CLAIM = 45.0
"""Seconds a mark is good for: a token request is given up after 30."""
SPENT = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
"""What an authorization server says to a refresh that will never succeed."""
_POLL = 0.05
_SLOWEST = 0.5
_TIDY = 15.0
_GRACE = 5.0
"""Seconds that a refresh goes on for after nobody wants it any more."""


async def renewed(
    store: TokenStore,
    key: Key,
    stale: Token,
    refresh: Callable[[Token], Awaitable[Token]],
    *,
    claim: float = CLAIM,
    clock: Callable[[], float] = time.time,
) -> Token:
    """The token that comes after ``stale``: another's that is in the store, or ``refresh``'s.

    ``refresh`` asks the authorization server with the token it is given, and its errors pass
    through; the mark is taken away then, too, and a token that can never be refreshed is taken out
    of the store. Raises ``AuthError`` where others hold the mark for three times ``claim`` seconds,
    or have found that out meanwhile (``oauth_error`` is "invalid_grant" then).
    """
    until = anyio.current_time() + 3 * claim
    pause = _POLL
    waited = False
    while True:
        mark = await store.claim(key, claim)
        if mark is not None:
            try:
                return await _refreshed(store, key, stale, refresh, waited, clock)
            finally:
                with anyio.move_on_after(_TIDY, shield=True):
                    await store.release(key, mark)
        if anyio.current_time() >= until:
            raise AuthError(
                "other processes have been refreshing this token for too long", retryable=True
            )
        await anyio.sleep(pause)
        waited, pause = True, min(pause * 1.5, _SLOWEST)
        kept = await store.load(key)
        if _succeeds(kept, stale, clock()):
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
    if _succeeds(kept, stale, clock()):
        return kept
    if kept is None and waited:
        raise AuthError(
            "whoever was refreshing this token found that it cannot be", oauth_error="invalid_grant"
        )
    # What is stored may be newer than what the caller has, and stale as well.
    return await _to_the_end(lambda: _exchanged(store, key, kept, kept or stale, refresh))


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
        if kept is not None and error.oauth_error in SPENT:
            await store.delete(key)
        raise
    try:
        await store.save(key, token)
    except ConfigError as error:
        # The old refresh token is spent: this run at least must have the new one.
        _log.warning("a refreshed token is good for this run only: %s", error)
    return token


async def _to_the_end(work: Callable[[], Awaitable[Token]]) -> Token:
    """Do ``work``, and go on with it for a few seconds where we are cancelled.

    A refresh token may be spent as soon as it has been sent: an answer that nobody reads would
    cost the login.
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
            except Exception as error:  # noqa: BLE001 - raised below, outside of the task group
                outcome = error
        tasks.cancel_scope.cancel()
    await checkpoint_if_cancelled()
    if isinstance(outcome, Token):
        return outcome
    raise outcome or AuthError("the refresh was given up", retryable=True)


def _succeeds(kept: Token | None, stale: Token, now: float) -> TypeGuard[Token]:
    return kept is not None and kept.access_token != stale.access_token and kept.fresh(now, early=0)
