"""Observers of a call: the audit, the journal, pins, bound arguments, a trace.

``Caller._attempt`` makes a call in five steps and does not know these parts. Each is an
``Observer``: its methods are called for the steps in the order below, and it overrides those it
needs. Most calls have no observers. If a step raises, the call ends there, and ``failed`` is the
last method called.

``began`` -> ``found`` -> ``freezing`` -> ``opening`` -> ``asking`` -> (``edited``) -> ``decided``
-> ``sending`` -> ``writing`` -> ``done`` or ``handed_over``
"""

from __future__ import annotations

import json
from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..approval.remembered import write_down
from ..connection.call_options import CallSteps
from ..connection.rpc import Traffic
from .call_state import CallState, InForce, Observer

if TYPE_CHECKING:
    from ..approval.decision import Allow, Verdict
    from ..approval.gate import Gate
    from ..approval.tool_call import ToolCall
    from ..audit.entry import AuditEntry
    from ..audit.record import SessionAudit
    from ..catalog.call_values import ToolResult
    from ..catalog.finding import Finding
    from ..catalog.pins import Pins
    from ..connection.telemetry import CallSpan
    from ..errors import McpError
    from ..state import State
    from .binding import Binding
    from .journal import Maker
    from .session_options import Setup

__all__ = ["Traced", "observe", "observers_of"]


class Recorded(Observer):
    """The audit records of one call."""

    __slots__ = ("entry",)

    def __init__(self, entry: AuditEntry) -> None:
        self.entry: AuditEntry = entry

    def began(self, call: CallState) -> None:
        """Open the record of an attempt."""
        if self.entry.id != call.id:
            self.entry = call.entry = self.entry.again(call.id)
            call.traffic = self.entry.traffic
        self.entry.begin()

    def found(self, call: CallState, now: InForce) -> None:
        """Add the definition in force."""
        self.entry.found(now.tool, now.rpc.era.revision)

    def broken(self, call: CallState, finding: Finding, path: str) -> None:
        """Add the finding about invalid arguments."""
        self.entry.breaks(finding, path)

    async def opening(self, call: CallState, frozen: ToolCall, *, again: bool) -> None:
        """Write the record before the decision."""
        if again:
            self.entry.changed(frozen)
        else:
            await self.entry.open(frozen)

    def asking(
        self, call: CallState, frozen: ToolCall, deciding: Awaitable[Verdict[ToolCall]]
    ) -> Awaitable[Verdict[ToolCall]]:
        """Measure the time of the decision."""
        self.entry.asking()
        return deciding

    def edited(self, call: CallState, edited: ToolCall, refused: Allow | None) -> None:
        """Add the approver's edit, or the approval whose edit is not valid."""
        if refused is not None:
            self.entry.allowed(refused.source, refused.reason, refused.by)
        self.entry.edited(edited)

    async def decided(self, call: CallState, frozen: ToolCall, verdict: Verdict[ToolCall]) -> None:
        """Add the decision."""
        self.entry.decided(verdict)

    def writing(self, call: CallState) -> None:
        """Add that the request is written."""
        self.entry.sending()

    async def done(self, call: CallState, result: ToolResult) -> ToolResult:
        """Close the record with the result."""
        if call.keyed is not None:  # the journal closes the record, in one transaction with the row
            return result
        return await self.entry.done(result)

    def handed_over(self, call: CallState) -> None:
        """Leave the record to the task."""
        self.entry.hand_over()

    async def failed(
        self, call: CallState, error: BaseException, cancelled: McpError | None
    ) -> None:
        """Close the record with the error."""
        if call.attempt.now is None:
            self.entry.not_found(error)
        await self.entry.failed(error, cancelled)


class Recurring(Observer):
    """The approval of a call that ``Retry`` may make again: the gate recalls it for that call."""

    __slots__ = ()

    async def decided(self, call: CallState, frozen: ToolCall, verdict: Verdict[ToolCall]) -> None:
        """Remember the approval for the next attempt."""
        call.once.keep(frozen, verdict.request, verdict.by)


class Stepped(Observer):
    """An ``on_progress`` of ``Toolset.run`` that also receives the steps of its call."""

    __slots__ = ("_steps",)

    def __init__(self, steps: CallSteps) -> None:
        self._steps = steps

    def asking(
        self, call: CallState, frozen: ToolCall, deciding: Awaitable[Verdict[ToolCall]]
    ) -> Awaitable[Verdict[ToolCall]]:
        """Report that approval is requested."""
        self._steps.step("asked")
        return deciding

    def writing(self, call: CallState) -> None:
        """Report that the call is sent."""
        self._steps.step("sent")


class _CheckedPins(Observer):
    """The lock file: a definition that differs from it is a finding, or refused."""

    __slots__ = ("_pins",)

    def __init__(self, pins: Pins) -> None:
        self._pins = pins

    async def freezing(self, call: CallState, frozen: ToolCall) -> ToolCall:
        drift = await self._pins._drift_of(frozen.tool)
        if drift is None:
            return frozen
        changes = len(call.attempt.findings)
        before, others = frozen.findings[:changes], frozen.findings[changes:]
        findings = (*before, *drift.findings(self._pins.name), *others)
        return replace(frozen, drift=drift, findings=findings)

    async def opening(self, call: CallState, frozen: ToolCall, *, again: bool) -> None:
        self._pins._check_policy(frozen.tool, frozen.drift)

    async def decided(self, call: CallState, frozen: ToolCall, verdict: Verdict[ToolCall]) -> None:
        if verdict.is_permanent and frozen.drift is not None:
            what = f"{frozen.server}: the definition"
            await write_down(what, self._pins._accept_tool, frozen.tool)


class _BoundArguments(Observer):
    """The arguments that the host sets with ``bind=``."""

    __slots__ = ("_binding", "_gate")

    def __init__(self, binding: Binding, gate: Gate) -> None:
        self._binding = binding
        self._gate = gate

    async def freezing(self, call: CallState, frozen: ToolCall) -> ToolCall:
        arguments = json.loads(frozen.arguments_json)
        text = await self._binding.complete(call, frozen.tool, arguments, self._gate)
        return replace(frozen, arguments_json=text)

    def editing(self, call: CallState, edited: ToolCall) -> ToolCall:
        return self._binding.restored(call, edited)


class Traced(Observer):
    """The span of a call, with the approval in a span below it."""

    __slots__ = ("_span",)

    def __init__(self, span: CallSpan) -> None:
        self._span = span

    def asking(
        self, call: CallState, frozen: ToolCall, deciding: Awaitable[Verdict[ToolCall]]
    ) -> Awaitable[Verdict[ToolCall]]:
        """Open a span for the approval."""
        return self._span.approval(frozen, deciding)

    async def done(self, call: CallState, result: ToolResult) -> ToolResult:
        """Close the span with the result."""
        self._span.done(result)
        return result

    def handed_over(self, call: CallState) -> None:
        """Close the span: the call became a task."""
        self._span.done(None)


def observe(call: CallState, maker: Maker, audit: SessionAudit | None, state: State | None) -> None:
    """Add the observers that ``call`` has besides those of every call, in order.

    Args:
        call: The call.
        maker: The maker of the session's calls.
        audit: The audit of the session, if there is one.
        state: The state of the session, if there is one.
    """
    spec, others = call.spec, call.observers
    if isinstance(spec.on_progress, CallSteps):
        others = (*others, Stepped(spec.on_progress))
    if spec.retry is not None:
        others = (*others, Recurring())
    if audit is not None:
        about = spec.name, spec.arguments, spec.context, spec.origin, spec.script, spec.tag
        call.entry = audit.entry(call.id, *about)
        call.traffic = call.entry.traffic
        others = (Recorded(call.entry), *others)
    if spec.idempotency_key is not None:
        from .journal import KeyedCall

        call.keyed = KeyedCall.of(maker, call, spec.idempotency_key, state)
        call.traffic = call.traffic or Traffic()
        others = (call.keyed, *others)
    call.observers = others


def observers_of(setup: Setup) -> tuple[Observer, ...]:
    """Return the observers of every call of a session with these options."""
    bound = () if setup.bind is None else (_BoundArguments(setup.bind, setup.gate),)
    pins = () if setup.pins is None else (_CheckedPins(setup.pins),)
    return (*bound, *pins)
