"""What waits to be decided, what was decided, and how that changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from anyio.lowlevel import checkpoint

from ..runtime.callbacks import in_thread
from ..runtime.watch import Notifier, Watch
from .decision import Answer
from .request import ApprovalRequest

__all__ = ["DecidedApproval", "PendingApproval", "PendingChanges"]


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A request that waits to be decided. Times are seconds since the beginning of 1970, UTC."""

    id: str
    """Random, and used for no other call; ``request.id`` is the one in the audit."""
    request: ApprovalRequest
    """What is asked about."""
    asked_at: float
    """When it was asked about."""
    expires_at: float | None
    """When it will be refused if it is not decided; None where nothing limits that."""


@dataclass(frozen=True, slots=True)
class DecidedApproval:
    """A request that was decided lately. Whether a call was then sent and ran is in the audit."""

    id: str
    request: ApprovalRequest
    asked_at: float
    decided_at: float
    answer: Answer
    """With ``answer.by``, who decided."""


All: TypeAlias = tuple[PendingApproval, ...]


class PendingChanges(Watch[All]):
    """What ``ApprovalQueue.changes()`` returns; see there."""

    def __init__(self, look: Callable[[], All], notifier: Notifier, seconds: float | None) -> None:
        """``look`` gives what is pending, ``notifier`` tells of changes; where these may come from
        another process, ``look`` waits, and ``seconds`` are those after which it is called again.
        """
        super().__init__(notifier)
        self._look = look
        self._look_again_after = seconds
        self._last: All = ()

    async def _begin(self) -> None:
        await checkpoint()

    async def _take(self) -> All | None:
        waits = self._look_again_after is not None
        return self._new(await in_thread(self._look) if waits else self._look())

    def _take_in_thread(self) -> All | None:
        return self._new(self._look())

    def _new(self, now: All) -> All | None:
        if self._closed or now == self._last:
            return None
        self._last = now
        return now
