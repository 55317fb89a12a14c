"""What follows the end of a task that was handed over by ``start_tool``.

The call that became a task was approved once and has one audit entry, which is closed by whatever
sees the end: the session that made the call (``StartedCall``), or one that resumed the task,
perhaps in another process (``ResumedCall``). Either judges the result by the definition that was
approved. Where several sessions see the end, the first of them closes the entry (``TaskLedger``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..catalog.finding import Finding
from ..catalog.result import ToolResult
from ..catalog.tool import Tool
from ..connection.call_options import Strictness
from ..connection.rpc import Traffic
from ..errors import InvalidResult, InvalidSchema, McpError
from ..runtime.limits import Timeouts
from .tool_validation import ToolValidation

if TYPE_CHECKING:
    from ..audit import CallRecord
    from .saved_task import SavedTask

__all__ = ["ResumedCall", "StartedCall"]

_SECONDS = Timeouts().validation


class StartedCall:
    """After the end of a task of this session."""

    def __init__(
        self,
        entry: CallRecord | None,
        checked: Callable[[dict[str, Any]], Awaitable[ToolResult]],
        failed: Callable[[BaseException], Awaitable[None]],
    ) -> None:
        self.traffic = None if entry is None else entry.traffic
        self.failed = failed
        self.entry = entry
        self._checked = checked

    async def admit(self) -> None:
        """Nothing has to be compared: this session started the task itself."""

    async def result(self, raw: dict[str, Any]) -> ToolResult:
        try:
            result = await self._checked(raw)
        except Exception as error:  # not a cancellation: the result may be asked for again
            await self.failed(error)
            raise
        return result if self.entry is None else await self.entry.done(result)


class ResumedCall:
    """After the end of a task that another session, or process, has started."""

    def __init__(
        self,
        saved: SavedTask,
        entry: CallRecord | None,
        *,
        server: str,
        admit: Callable[[], Awaitable[None]],
        find: Callable[[str], Awaitable[Tool]],
        read: Callable[[dict[str, Any], str], ToolResult],
        validation: ToolValidation,
    ) -> None:
        """``find`` gives the tool as it is now; ``read`` a result from the wire."""
        self.traffic: Traffic | None = None if entry is None else entry.traffic
        self._saved = saved
        self._entry = entry
        self._server = server
        self._admit = admit
        self._find = find
        self._read = read
        self._validation = validation
        self._admitted = False

    async def admit(self) -> None:
        if not self._admitted:
            await self._admit()
            self._admitted = True

    async def result(self, raw: dict[str, Any]) -> ToolResult:
        try:
            result = self._read(raw, self._saved.tool)
            if not (result.is_error or self._validation.results == "off"):
                result = await self._check(result)
        except Exception as error:  # not a cancellation: the result may be asked for again
            await self.failed(error)
            raise
        return result if self._entry is None else await self._entry.done(result)

    async def failed(self, error: BaseException) -> None:
        if isinstance(error, McpError):
            error.server = error.server or self._server
            error.tool = error.tool or self._saved.tool
        if self._entry is not None:
            await self._entry.failed(error)

    async def _check(self, result: ToolResult) -> ToolResult:
        try:
            tool = await self._find(self._saved.tool)
        except McpError:
            tool = None
        if tool is None or tool.fingerprint != self._saved.definition:
            return self._unchecked(result, self._validation.results)
        try:
            plan = tool._plan or self._validation.plan(tool)
            await self._validation.prepare_results(plan, _SECONDS)
        except InvalidSchema:  # which would say that nothing was sent
            return self._unchecked(result, self._validation.results)
        return await self._validation.checked(plan, result, self._validation.results, _SECONDS)

    def _unchecked(self, result: ToolResult, strictness: Strictness) -> ToolResult:
        text = (
            "its result cannot be checked, because the server no longer lists the tool as it was "
            "approved"
        )
        if strictness == "strict":
            raise InvalidResult(
                f"the tool ran, but {text}; the whole result is in .result", result=result
            )
        finding = Finding("unchecked_result", text)
        return replace(result, findings=(*result.findings, finding))
