"""The last steps of a call that became a task, after the end of the task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ..catalog.result import ToolResult

if TYPE_CHECKING:
    from ..audit.entry import AuditEntry
    from ..connection.rpc import Traffic

__all__ = ["StartedCall"]


class StartedCall:
    """The last steps of a call whose task this session started."""

    def __init__(
        self,
        entry: AuditEntry | None,
        checked: Callable[[dict[str, Any]], Awaitable[ToolResult]],
        failed: Callable[[BaseException], Awaitable[None]],
    ) -> None:
        self.traffic: Traffic | None = None if entry is None else entry.traffic
        self.failed = failed
        self.entry = entry
        self._checked = checked

    async def admit(self) -> None:
        """Accept the task: this session started it, so nothing has to be compared."""

    async def result(self, raw: dict[str, Any]) -> ToolResult:
        """Return the validated result of the task."""
        try:
            result = await self._checked(raw)
        except Exception as error:  # not a cancellation: the result may be asked for again
            await self.failed(error)
            raise
        return result if self.entry is None else await self.entry.done(result)
