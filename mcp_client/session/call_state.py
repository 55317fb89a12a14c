"""The state of one call while it is made.

That is the options of ``call_tool``, the facts found so far, and the definition and connection in
force. Observers of a call override the methods of ``Observer`` (see ``observers``). ``StartedCall``
is the end of a call that became a task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ..approval.remembered import OneCallApproval
from ..catalog.call_values import CallOrigin, ToolResult
from ..catalog.finding import Finding
from ..catalog.tool import Tool
from ..catalog.tools import Catalog
from ..connection.call_options import CancelToken, OnProgress
from ..connection.connection import Connection, session_ended
from ..connection.rpc import RpcConnection, Traffic
from ..errors import (
    CallTimeout,
    ConnectError,
    McpError,
    NotSent,
    OutcomeUnknown,
    ProtocolViolation,
    ServerError,
)
from ..protocol.canonical_json import object_of
from ..protocol.era import Era
from ..protocol.headers import HEADER_MISMATCH
from ..runtime.limits import Timeouts
from .tool_validation import ToolPlan

if TYPE_CHECKING:
    from ..approval.decision import Allow, Verdict
    from ..approval.script import Script
    from ..approval.tool_call import ToolCall
    from ..audit.entry import AuditEntry
    from ..connection.call_options import Retry
    from ..connection.rpc import Traffic
    from ..extensions.task_run import TaskRun
    from ..validation.strictness import Strictness

__all__ = ["Attempt", "Attempts", "CallSpec", "CallState", "InForce", "KeyObserver", "Observer"]
__all__ += ["Outcome", "StartedCall", "changes", "is_task", "not_fetched", "not_for"]
__all__ += ["was_out_of_date"]

_UNAVAILABLE = 503


Outcome: TypeAlias = "ToolResult | StartedCall"
"""The result of a call, or the task that ``start_tool`` returns."""
Attempts: TypeAlias = "Callable[[CallState], Coroutine[Any, Any, Outcome]]"


class CallSpec(NamedTuple):
    """The options of one call: those of ``call_tool``, or else the session's own."""

    name: str
    arguments: Mapping[str, Any]
    origin: CallOrigin
    """The kind of caller. This and ``script`` are set internally, never by ``call_tool``."""
    script: Script | None
    timeouts: Timeouts
    validation: Strictness
    retry: Retry | None
    on_progress: OnProgress | None = None
    meta: Mapping[str, Any] | None = None
    cancel: CancelToken | None = None
    context: Hashable = None
    tag: Any = None
    idempotency_key: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class Attempt:
    """One attempt at a call, with the facts found so far."""

    id: str
    findings: tuple[Finding, ...] = ()
    """The changes of the definition while approval was requested."""
    plan: ToolPlan = field(init=False)
    """The validation plan for the definition in force."""
    now: InForce | None = None
    """The definition in force; None until it is resolved."""
    as_task: bool = False
    """Whether the server is asked to run the call as a task."""
    is_written: bool = False
    """Whether an error that the server sends from here on answers the call, not the list."""


@dataclass(slots=True, eq=False, repr=False)
class CallState:
    """One call while it is made, over all its attempts."""

    spec: CallSpec
    attempt: Attempt
    observers: tuple[Observer, ...] = ()
    hands_over: bool = False
    """Whether a task is returned instead of awaited."""
    ttl: float | None = None
    """Seconds for which the server is to keep the task; None for as long as the call may take."""
    keyed: KeyObserver | None = None
    """The call's row in the journal, if it has a key."""
    entry: AuditEntry | None = None
    """The audit entry of this attempt, if there is an audit."""
    traffic: Traffic | None = None
    """The bytes of this attempt, if an audit or a token needs to know whether any were sent."""
    once: OneCallApproval = field(default_factory=OneCallApproval)
    arguments: tuple[dict[str, Any], str] | None = None
    """The arguments and their canonical text, copied once from the caller's."""
    bound: dict[str, Any] | None = None
    """The arguments that the host sets, each computed once for all attempts."""
    cancel_requests: int = 0
    """Requests to cancel the caller's task that were open before any callback could run."""
    logins: int = 0
    """The number of logins requested before the call could be sent."""
    attempts: int = 1
    """The number of attempts that ``retry`` counts, including this one."""
    seconds: float = 0.0
    """Seconds of the total timeout that earlier attempts used, pauses included."""
    is_repetition: bool = False
    """Whether this attempt repeats one that the server refused because of outdated facts."""
    may_have_run: bool = False
    """Whether an earlier attempt may have run."""
    run: TaskRun | None = None
    """The task that the server created for the call."""

    @property
    def id(self) -> str:
        """The id of this attempt."""
        return self.attempt.id

    @property
    def follows(self) -> bool:
        """Whether an earlier call under its key may have run."""
        return self.keyed is not None and self.keyed.follows

    @property
    def may_repeat(self) -> bool:
        """Whether it may be made again if the client's knowledge of the server was out of date."""
        return not self.is_repetition and self.run is None

    def freeze_arguments(self) -> tuple[dict[str, Any], str]:
        """Return the arguments and their canonical text. Raises ``InvalidArguments``."""
        self.arguments = self.arguments or object_of("arguments", self.spec.arguments)
        return self.arguments

    def complete(self, error: McpError) -> None:
        """Name the tool in ``error``, and set whether a repetition is harmless.

        A trusted server states this by the hints of its tool. They count if the call may have run,
        or if the server was busy.
        """
        if self.attempt.now is None:
            return
        tool = self.attempt.now.tool
        error.tool = error.tool or tool.name
        harmless = tool.hints.read_only or tool.hints.idempotent
        if isinstance(error, OutcomeUnknown):
            error.retryable = harmless
        elif isinstance(error, ServerError) and error.http_status == _UNAVAILABLE:
            error.retryable = error.retryable or harmless

    def next_attempt(self, error: McpError, outdated: bool) -> float | None:
        """Return the seconds until the next attempt, or None if this was the last.

        If the client's knowledge of the server was ``outdated``, all steps are repeated at once.
        The approval was for that connection and definition, unless the approver granted it to this
        call for as long as it stays the same (``Allow(remember="call")``).
        """
        retry = self.spec.retry
        if outdated:
            self.is_repetition = True
            if retry is None and self.keyed is None:
                self.arguments = None
            return 0.0
        if retry is None:
            return None
        left = self.spec.timeouts.total - self.seconds
        pause = retry.next_pause(error, self.attempts, left)
        if pause is not None:
            is_sent = self.traffic is None or self.traffic.sent > 0  # else its list was not fetched
            self.may_have_run |= is_sent and not isinstance(error, NotSent)
            self.is_repetition = False
            self.attempts += 1
            self.seconds += pause
        return pause


def not_for(tool: Tool) -> NotSent:
    """Return the error for a tool that its caller may not use (2026-01-26 ``apps``, visibility).

    The callers are models and the host itself, or views.
    """
    if tool.is_for_apps:
        why = "the server offers the tool only to its views (_meta.ui.visibility), not to models"
    elif tool.is_for_models:
        why = "the server does not offer the tool to its views (_meta.ui.visibility)"
    else:
        why = "the tool's _meta.ui.visibility names neither model nor app, so nothing may call it"
    return NotSent(f"{why}; the call was not sent", server=tool.server, tool=tool.name)


def is_task(plan: ToolPlan, era: Era, on_request: bool) -> bool:
    """Return whether to ask the server to run a call as a task.

    That is so if the tool requires it, or allows it and the caller wants a task (2025-11-25
    ``basic/utilities/tasks``, tool-level negotiation).

    Args:
        plan: The plan for the tool.
        era: The era of the connection.
        on_request: Whether the caller wants a task.

    Raises:
        NotSent: The tool requires a task, and the server does not declare tasks.
    """
    support, tool = plan.task_support, plan.tool
    if era.takes_tasks:
        return support == "required" or (on_request and support == "optional")
    if support == "required":
        raise NotSent(
            "the tool requires a task (execution.taskSupport), and the server does not "
            "declare tasks.requests.tools.call; the call was not sent",
            server=tool.server,
            tool=tool.name,
        )
    return False


def was_out_of_date(error: McpError, connection: Connection, tools: Catalog) -> bool:
    """Return whether the server refused a call because the client's facts were outdated.

    Either the server had ended the session, so a new one is opened (2025-11-25
    ``basic/transports``, session management). Or it missed headers that a newer definition of the
    tool requires, so the list is fetched (2026-07-28 ``basic/transports/streamable-http``).

    Args:
        error: The error of the call.
        connection: The session's connection.
        tools: The session's tools.
    """
    if isinstance(error, ServerError):
        if error.code != HEADER_MISMATCH or not connection.rpc.mirrors:
            return False
        tools.mark_outdated()
        return True
    return isinstance(error, ConnectError) and session_ended(error)


def not_fetched(error: OutcomeUnknown | ProtocolViolation) -> NotSent:
    """Return the error for a call whose list of tools was not received: the call was not sent."""
    text = "the definition of the tool could not be fetched, and the call was not sent"
    if isinstance(error, ProtocolViolation):
        return NotSent(f"{text}: {error.message}", server=error.server)
    if isinstance(error, CallTimeout):
        why = f"the server did not respond to tools/list in time ({error.clock} timeout)"
    else:
        lost = getattr(error, "why", "") or "the connection was lost"
        why = f"{lost}, while tools/list was under way"
    return ConnectError(
        f"{text}: {why}",
        exit_code=getattr(error, "exit_code", None),
        stderr_tail=getattr(error, "stderr_tail", ""),
        server=error.server,
        retryable=True,
    )


@dataclass(slots=True, eq=False, repr=False)
class InForce:
    """A definition, the connection on which it is in force, and a check that it still is."""

    tool: Tool
    rpc: RpcConnection
    version: int
    """The version of the list that contains the definition: each fetched list has another."""
    fresh: bool
    """Whether that list was known to be current. A call may use one that is not."""


def changes(then: InForce, now: InForce) -> tuple[Finding, ...]:
    """Return the differences since the approval; empty if the approval still applies."""
    found: list[Finding] = []
    if now.tool != then.tool:
        from ..catalog.drift import differences  # only now: few calls need it

        found += differences(then.tool._definition, now.tool._definition)
        old, new, about = then.tool.hints, now.tool.hints, now.tool.fingerprint
        found += [
            Finding(
                "definition_changed",
                f"{hint} was {getattr(old, hint)} and is now {getattr(new, hint)}",
                about,
            )
            for hint in ("read_only", "destructive", "idempotent", "open_world")
            if getattr(old, hint) is not getattr(new, hint)
        ]
    if found or now.tool.trusted is not then.tool.trusted:
        text = "the definition of the tool changed while approval was requested"
        return (Finding("definition_changed", text, now.tool.fingerprint), *found)
    if now.rpc is not then.rpc:
        text = "the session reconnected while approval was requested"
        return (Finding("reconnected", text),)
    return ()


class Observer:
    """An observer of calls. Every method does nothing unless it is overridden."""

    __slots__ = ()

    def began(self, call: CallState) -> None:
        """Note that an attempt begins."""

    def found(self, call: CallState, now: InForce) -> None:
        """Note the definition in force."""

    async def freezing(self, call: CallState, frozen: ToolCall) -> ToolCall:
        """Return the call with this observer's additions, before anyone decides about it."""
        return frozen

    def broken(self, call: CallState, finding: Finding, path: str) -> None:
        """Note that the arguments are not valid for the input schema.

        Args:
            call: The call.
            finding: The finding about the arguments.
            path: A JSON pointer to the invalid value.
        """

    async def opening(self, call: CallState, frozen: ToolCall, *, again: bool) -> None:
        """Note the call to decide; ``again`` if its definition changed meanwhile.

        Args:
            call: The call.
            frozen: The call as the approver sees it.
            again: Whether the definition changed meanwhile.
        """

    def asking(
        self, call: CallState, frozen: ToolCall, deciding: Awaitable[Verdict[ToolCall]]
    ) -> Awaitable[Verdict[ToolCall]]:
        """Return ``deciding``, the wait for the decision, or an awaitable in its place.

        Args:
            call: The call.
            frozen: The call as the approver sees it.
            deciding: The wait for the decision.
        """
        return deciding

    def editing(self, call: CallState, edited: ToolCall) -> ToolCall:
        """Return the approver's call with this observer's additions."""
        return edited

    def edited(self, call: CallState, edited: ToolCall, refused: Allow | None) -> None:
        """Note the approver's edit.

        Args:
            call: The call.
            edited: The edited call.
            refused: The approval whose edit is not valid, or None.
        """

    async def decided(self, call: CallState, frozen: ToolCall, verdict: Verdict[ToolCall]) -> None:
        """Note the approval.

        Args:
            call: The call.
            frozen: The call as the approver sees it.
            verdict: The decision.
        """

    async def sending(self, call: CallState) -> None:
        """Store that the approved call will be sent. Nothing is sent if this raises."""

    def writing(self, call: CallState) -> None:
        """Note that the request is written now."""

    async def done(self, call: CallState, result: ToolResult) -> ToolResult:
        """Note the result, and return it or a copy with findings."""
        return result

    def handed_over(self, call: CallState) -> None:
        """Leave the end of the call, which became a task, to the observer of that task."""

    async def failed(
        self, call: CallState, error: BaseException, cancelled: McpError | None
    ) -> None:
        """Note the exception that ended the call.

        Args:
            call: The call.
            error: The exception.
            cancelled: The error that the caller of a token gets instead, or None.
        """


class KeyObserver(Observer, ABC):
    """An observer of one call with an ``idempotency_key``: a ``journal.KeyedCall``."""

    follows: bool
    """Whether an earlier call under the key may have run, according to the claim."""

    @abstractmethod
    async def run(self, attempts: Attempts) -> Outcome:
        """Make the call, or return its stored outcome."""


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
