"""One call while it is made: what ``call_tool`` was given, and what is known of it by now."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..approval.one_call import OneCallApproval
from ..catalog.call_context import CallOrigin
from ..catalog.finding import Finding
from ..connection.call_options import Retry, Strictness
from ..connection.cancellation import CancelToken
from ..connection.rpc import OnProgress, Traffic
from ..connection.tracing import CallSpan
from ..runtime.limits import Timeouts
from .tool_validation import ToolPlan

if TYPE_CHECKING:
    from ..audit import CallRecord
    from ..extensions.task_run import TaskRun
    from .started import StartedCall

__all__ = ["CallState"]


@dataclass(slots=True, kw_only=True)
class CallState:
    """One call while it is made: at first what ``call_tool`` was given, or the session's own."""

    name: str
    arguments: Mapping[str, Any] | None
    origin: CallOrigin
    """Who makes it; this alone is not given to ``call_tool``."""
    timeouts: Timeouts
    on_progress: OnProgress | None = None
    meta: Mapping[str, Any] | None = None
    validation: Strictness
    cancel: CancelToken | None = None
    context: Hashable = None
    retry: Retry | None = None
    entry: CallRecord | None = None
    """Its record in the audit, where there is one; of this attempt, as are ``id``, ``traffic`` and
    ``findings``."""
    id: str = ""
    traffic: Traffic | None = None
    """Counts bytes, where there is an audit or a token that has to know whether any left."""
    findings: tuple[Finding, ...] = ()
    """How the definition changed while approval was asked for."""
    plan: ToolPlan = field(init=False)
    """Of the definition in force."""
    once: OneCallApproval = field(default_factory=OneCallApproval)
    frozen: tuple[dict[str, Any], str] | None = None
    """The arguments and their canonical text, taken once from what the caller gave."""
    cancel_requests: int | None = None
    """Those to cancel the caller's task that were open before any callback could run."""
    span: CallSpan | None = None
    logins: int = 0
    """Times that somebody was asked to log in before it could be sent."""
    attempts: int = 1
    """Those that ``retry`` counts, this one included."""
    seconds: float = 0.0
    """Those of the total timeout that earlier attempts have used, pauses included."""
    is_repetition: bool = False
    """Whether this attempt repeats one that the server refused to run, because what we knew of the
    server was out of date."""
    may_have_run: bool = False
    """Whether an earlier attempt may have run."""
    as_task: bool = False
    """Whether the server is asked to make it a task."""
    hands_over: bool = False
    """Whether a task is handed over, instead of waited for."""
    run: TaskRun | None = None
    """The task that the server made of the call."""
    ending: StartedCall | None = None
    """What follows its end, where it is handed over."""
