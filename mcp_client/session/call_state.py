"""The values of one call: what the caller wants, what is in force, and how far it has come."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..approval.one_call import OneCallApproval
from ..catalog.result import ToolResult
from ..catalog.tool import Tool, ToolCall
from ..connection.cancellation import CancelToken
from ..connection.rpc import OnProgress, RpcConnection, Traffic
from ..connection.tracing import CallSpan
from ..errors import McpError
from ..runtime.limits import Timeouts
from .retry import Retry
from .tool_validation import Strictness

if TYPE_CHECKING:
    from ..audit import Entry

__all__ = ["CallRequest", "CallState", "InForce", "NotRecorded"]


class CallRequest(NamedTuple):
    """One call as the caller wants it: what ``call_tool`` was given."""

    name: str
    arguments: Mapping[str, Any] | None
    timeouts: Timeouts
    on_progress: OnProgress | None = None
    meta: Mapping[str, Any] | None = None
    validation: Strictness | None = None
    cancel: CancelToken | None = None
    context: Hashable = None
    retry: Retry | None = None


class InForce(NamedTuple):
    """A definition, the connection on which it is in force, and how to see that it is no longer."""

    tool: Tool
    wire: RpcConnection
    version: int
    """Of the list the definition is from."""
    fresh: bool
    """Whether that list was known to be current. A call may use one that is not."""


class NotRecorded:
    """The audit entry of a call in a session without ``audit``: it does nothing."""

    traffic: Traffic | None = None

    def again(self, id: str) -> NotRecorded:
        return self

    def found(self, tool: Tool, revision: str) -> None: ...

    def breaks(self, finding: str, path: str) -> None: ...

    async def open(self, call: ToolCall) -> None: ...

    def changed(self, call: ToolCall) -> None: ...

    def asking(self) -> None: ...

    def decided(
        self,
        call: ToolCall,
        source: str,
        reason: str | None,
        by: str | None = None,
        expires: float | None = None,
    ) -> None: ...

    def sending(self) -> None: ...

    async def done(self, result: ToolResult) -> ToolResult:
        return result

    async def failed(self, error: BaseException, cancelled: McpError | None) -> None: ...


class CallState:
    """One call while it is made."""

    __slots__ = (
        "cancel_requests",
        "entry",
        "findings",
        "frozen",
        "id",
        "may_have_run",
        "once",
        "request",
        "retry",
        "seconds",
        "span",
        "traffic",
        "validation",
    )

    def __init__(
        self,
        request: CallRequest,
        entry: Entry | NotRecorded,
        validation: Strictness,
        retry: Retry | None,
    ) -> None:
        self.request = request
        self.retry = retry
        self.seconds = 0.0
        """Those of the total timeout that earlier attempts have used, pauses included."""
        self.span: CallSpan | None = None
        self.may_have_run = False
        """Whether an earlier attempt may have run."""
        self.validation = validation
        self.once = OneCallApproval()
        self.frozen: tuple[dict[str, Any], str] | None = None
        """The arguments and their canonical text, taken once from what the caller gave."""
        self.cancel_requests: int | None = None
        """Those to cancel the caller's task that were open before any callback could run."""
        # The rest belongs to one attempt.
        self.id = ""
        self.entry = entry
        self.traffic: Traffic | None = None
        """Counts bytes, where there is an audit or a token that has to know whether any left."""
        self.findings: tuple[str, ...] = ()
        """How the definition changed while approval was asked for."""
