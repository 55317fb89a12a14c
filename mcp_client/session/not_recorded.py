"""What stands for the audit entry of a call in a session without ``audit``."""

from __future__ import annotations

from ..approval.tool_call import ToolCall
from ..catalog.finding import Finding
from ..catalog.result import ToolResult
from ..catalog.tool import Tool
from ..connection.rpc import Traffic
from ..errors import McpError

__all__ = ["NotRecorded"]


class NotRecorded:
    """The audit entry of a call in a session without ``audit``: it does nothing."""

    traffic: Traffic | None = None

    def again(self, id: str) -> NotRecorded:
        return self

    def found(self, tool: Tool, revision: str) -> None: ...

    def breaks(self, finding: Finding, path: str) -> None: ...

    async def open(self, call: ToolCall) -> None: ...

    def changed(self, call: ToolCall) -> None: ...

    def asking(self) -> None: ...

    def decided(self, call: ToolCall, *verdict: object) -> None: ...

    def sending(self) -> None: ...

    async def done(self, result: ToolResult) -> ToolResult:
        return result

    async def failed(self, error: BaseException, cancelled: McpError | None) -> None: ...
