"""The reasons why requests are no longer pending, as far as this process knows."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol

from ..errors import NotPending
from ..runtime.safe_text import safe_text

__all__ = ["EndedRequests", "not_pending"]

_MOST = 1_000
"""Requests that are remembered; the oldest are forgotten."""
_UNKNOWN = "it was decided, or its caller has gone"
_WHY = {
    "decided": "it was decided",
    "withdrawn": "it was withdrawn",
    "expired": "no one decided it in time",
    "gone": "its caller has gone",
}


class _Expiring(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def expires_at(self) -> float | None: ...


class EndedRequests:
    """How the requests of one queue ended. Any thread may use it: each step is atomic."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[str, str | None]] = {}
        self._expire_at: dict[str, float] = {}

    def note(self, id: str, reason: str, by: str | None = None) -> None:
        """Store how a request ended; the first reason counts.

        Args:
            id: The id of the request.
            reason: "decided", "withdrawn", "expired", or "gone" (its caller).
            by: The person who decided.
        """
        self._ends.setdefault(id, (reason, by))
        _trim(self._ends)

    def saw(self, pending: Iterable[_Expiring]) -> None:
        """Store when requests in a store expire, because they are deleted there."""
        for one in pending:
            if one.expires_at is not None:
                self._expire_at[one.id] = one.expires_at
        _trim(self._expire_at)

    def error(self, missing: tuple[str, ...], wanted: int, decided: int = 0) -> NotPending:
        """Return the error for requests that are not pending.

        Args:
            missing: The ids that are not pending.
            wanted: The number of requests to decide.
            decided: The number of requests that were decided.
        """
        reason, by = self._ends.get(missing[0], ("", None))
        if not reason and self._expire_at.get(missing[0], float("inf")) <= time.time():
            reason = "expired"
        why = _WHY.get(reason, _UNKNOWN) + (f" by {safe_text(by, 200)}" if by else "")
        error = not_pending(missing, wanted, decided, why)
        error.reason, error.by = reason, by
        return error


def not_pending(
    missing: tuple[str, ...], wanted: int, decided: int = 0, why: str = _UNKNOWN
) -> NotPending:
    """Return the error for requests that are not pending.

    Args:
        missing: The ids that are not pending.
        wanted: The number of requests to decide.
        decided: The number of requests that were decided.
        why: The reason for the first of ``missing``.
    """
    if wanted == 1:
        return NotPending(f"the request is not pending: {why}", ids=missing)
    several = f"{len(missing)} of the {wanted} requests are not pending (of the first: {why})"
    then = f"the other {decided} are decided" if decided else "so none is decided"
    return NotPending(f"{several}, {then}", ids=missing)


def _trim(found: dict[str, object] | dict[str, float] | dict[str, tuple[str, str | None]]) -> None:
    while len(found) > _MOST:
        found.pop(next(iter(found)), None)
