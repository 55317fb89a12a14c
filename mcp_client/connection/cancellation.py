"""Cancelling a call from elsewhere: ``call_tool(..., cancel=token)``, and ``token.cancel(reason)``.

A call with a token runs in a cancel scope of its own, which the token cancels. Cancelling the
caller's task or scope needs no token and works as for any coroutine. In both cases the server is
notified as its era and transport require, with the reason if there is a field for it (2025-11-25
``basic/utilities/cancellation``; 2026-07-28 ``basic/patterns/cancellation``). A late response is
dropped.

An approval hook or a handler may swallow a cancellation and return normally. So the last step
before each ``tools/call`` is written is ``stop_if_cancelled``, which no callback can follow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from ..errors import CallCancelled, CallWithdrawn, McpError
from ..runtime.event_loop import Backend, being_cancelled, cancel_requests, current

__all__ = ["CancelToken", "cancelled_by", "stop_if_cancelled"]

_MAX_REASON_CHARS = 500


class CancelToken:
    """A token that cancels the calls it was passed to, from any task or thread.

    One token may serve several calls, at once or one after the other; it can be cancelled once.
    """

    __slots__ = ("_reasons", "_stops")

    def __init__(self) -> None:
        # No lock, so that a signal handler may cancel too: each step is one atomic operation of a
        # list or dict, ``cancel`` sets the reason before it looks for calls, and a call enters
        # itself before it looks for a reason.
        self._reasons: list[str] = []
        self._stops: dict[object, Callable[[], None]] = {}

    def __repr__(self) -> str:
        return (
            f"<CancelToken, {f'cancelled: {self.reason}' if self.cancelled else 'not cancelled'}>"
        )

    @property
    def cancelled(self) -> bool:
        """Whether ``cancel`` was called."""
        return bool(self._reasons)

    @property
    def reason(self) -> str | None:
        """The first reason passed to ``cancel``; None before that."""
        return self._reasons[0] if self._reasons else None

    def cancel(self, reason: str = "the caller changed their mind") -> None:
        """Cancel all calls under way with this token, and every later call with it.

        The first 500 characters of ``reason`` are sent to the server. Each call raises
        ``CallWithdrawn`` if nothing was sent, or ``CallCancelled``: then it may have run. A call
        that has ended is not affected, nor is one that ends before it could be interrupted.
        """
        if not self._reasons:
            self._reasons.append(str(reason)[:_MAX_REASON_CHARS])
        for stop in list(self._stops.values()):
            stop()

    def _watch(self, scope: anyio.CancelScope, backend: Backend) -> Callable[[], Any]:
        """Cancel ``scope`` with this token; call what is returned when the scope is left."""
        key = object()
        self._stops[key] = partial(backend.run_soon, scope.cancel)
        if self._reasons:
            scope.cancel()
        return partial(self._stops.pop, key, None)

    def _error(self, server: str, tool: str, sent: bool, follows: bool = False) -> McpError:
        """Return the error for a call that this token cancelled."""
        kind, when = (
            (CallCancelled, f"cancelled: {self.reason}; it may have run")
            if sent
            else (CallWithdrawn, f"cancelled before it was sent: {self.reason}")
        )
        about = {"reason": self.reason or "", "server": server, "tool": tool, "follows": follows}
        return kind(f"the call was {when}", **about)


class cancelled_by:  # noqa: N801 - used as a function
    """Cancel the body if ``token`` is cancelled, and raise ``error(token)`` then.

    The body does not begin if the token is cancelled already. Cancelling the task takes precedence
    over cancelling the token.
    """

    __slots__ = ("_before", "_error", "_forget", "_scope", "_token")

    def __init__(self, token: CancelToken | None, error: Callable[[CancelToken], McpError]) -> None:
        self._token = token
        self._error = error

    async def __aenter__(self) -> None:
        token = self._token
        if token is None:
            return
        self._before = cancel_requests()
        if token.cancelled:
            raise self._error(token) from None
        self._scope = anyio.CancelScope()
        self._scope.__enter__()
        self._forget = token._watch(self._scope, current())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        token = self._token
        if token is None:
            return
        self._forget()
        was_swallowed = self._scope.__exit__(kind, error, traceback)
        if was_swallowed and kind is not None:  # on trio, no error counts as swallowed
            await stop_if_cancelled(None, self._before)
            raise self._error(token) from None


async def stop_if_cancelled(token: CancelToken | None, before: int) -> None:
    """Raise the cancellation of the current task, or of the scope that ``token`` cancels.

    ``before`` is ``cancel_requests()`` at the start of the call: a host may call a tool while it
    cleans up in a task that was cancelled earlier. asyncio delivers a cancellation once. If a
    callback suppresses it, only that count shows it.
    """
    if (token is None or not token.cancelled) and not being_cancelled(before):
        return
    await checkpoint()  # raises it if it is still pending, as on trio and in scopes of anyio
    raise anyio.get_cancelled_exc_class()("a callback suppressed the cancellation of the call")
