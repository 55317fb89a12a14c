"""The iterator that ``ApprovalQueue.changes()`` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyio.lowlevel import checkpoint

from ..runtime.callbacks import in_thread
from ..runtime.watch import Notifier, Watch

__all__ = ["PendingChanges"]


class PendingChanges(Watch[Any]):
    """An iterator over the states of a queue: see ``ApprovalQueue.changes()``."""

    def __init__(self, look: Callable[[], Any], notifier: Notifier, seconds: float | None) -> None:
        """Set ``look``, which returns the pending requests, and ``notifier`` for changes."""
        super().__init__(notifier)
        self._look = look
        self._look_again_after = seconds
        self._last: Any = ()

    async def _begin(self) -> None:
        await checkpoint()

    async def _take(self) -> Any:
        waits = self._look_again_after is not None
        return self._new(await in_thread(self._look) if waits else self._look())

    def _take_in_thread(self) -> Any:
        return self._new(self._look())

    def _new(self, now: Any) -> Any:
        if self._closed or now == self._last:
            return None
        self._last = now
        return now
