"""The parts that go along with a call: the audit, the journal, pins, bound arguments, a trace.

``Caller._attempt`` makes a call in five steps and knows none of these parts. Each is an
``Observer``: it is told of the steps in the order below, and overrides those that it takes part in.
Most calls have no observers. If a step raises, the call ends there, and ``failed`` is the last.

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

if TYPE_CHECKING:
    from ..approval.decision import Allow, Verdict
    from ..approval.gate import Gate
    from ..approval.tool_call import ToolCall
    from ..audit.entry import AuditEntry
    from ..audit.record import SessionAudit
    from ..catalog.finding import Finding
    from ..catalog.pins import Pins
    from ..catalog.result import ToolResult
    from ..connection.tracing import CallSpan
    from ..errors import McpError
    from ..state import State
    from .binding import Binding
    from .call_state import CallState, InForce
    from .journal import Maker
    from .session_options import Setup

__all__ = ["Observer", "Traced", "observe", "observers_of"]


class Observer:
    """A part that goes along with calls. Every step does nothing unless it is overridden."""

    __slots__ = ()

    def began(self, call: CallState) -> None:
        """Note that an attempt begins."""

    def found(self, call: CallState, now: InForce) -> None:
        """Note the definition in force."""

    async def freezing(self, call: CallState, frozen: ToolCall) -> ToolCall:
        """Return the call with what this part adds to it, before anyone decides about it."""
        return frozen

    def broken(self, call: CallState, finding: Finding, path: str) -> None:
        """Note that the arguments break the input schema at ``path``."""

    async def opening(self, call: CallState, frozen: ToolCall, *, again: bool) -> None:
        """Note the call that will be decided; ``again`` if its definition changed meanwhile."""

    def asking(
        self, call: CallState, frozen: ToolCall, deciding: Awaitable[Verdict[ToolCall]]
    ) -> Awaitable[Verdict[ToolCall]]:
        """Return ``deciding``, the wait for the decision, or what to wait for in its place."""
        return deciding

    def editing(self, call: CallState, edited: ToolCall) -> ToolCall:
        """Return the approver's call with what this part adds to it."""
        return edited

    def edited(self, call: CallState, edited: ToolCall, refused: Allow | None) -> None:
        """Note the approver's edit; ``refused`` is the approval whose edit is not valid."""

    async def decided(self, call: CallState, frozen: ToolCall, verdict: Verdict[ToolCall]) -> None:
        """Note the approval."""

    async def sending(self, call: CallState) -> None:
        """Store that the approved call will be sent. Nothing is sent if this raises."""

    def writing(self, call: CallState) -> None:
        """Note that the request is written now."""

    async def done(self, call: CallState, result: ToolResult) -> ToolResult:
        """Note the result, and return it or a copy with findings."""
        return result

    def handed_over(self, call: CallState) -> None:
        """Leave the end of the call, which became a task, to what sees the end."""

    async def failed(
        self, call: CallState, error: BaseException, cancelled: McpError | None
    ) -> None:
        """Note what was raised; ``cancelled`` is what the caller of a token gets instead."""


class Recorded(Observer):
    """The audit records of one call."""

    __slots__ = ("entry",)

    def __init__(self, entry: AuditEntry) -> None:
        self.entry: AuditEntry = entry

    def began(self, call: CallState) -> None:
        if self.entry.id != call.id:
            self.entry = call.entry = self.entry.again(call.id)
            call.traffic = self.entry.traffic
        self.entry.begin()

    def found(self, call: CallState, now: InForce) -> None:
        self.entry.found(now.tool, now.rpc.era.revision)

    def broken(self, call: CallState, finding: Finding, path: str) -> None:
        self.entry.breaks(finding, path)

    async def opening(self, call: CallState, frozen: ToolCall, *, again: bool) -> None:
        if again:
            self.entry.changed(frozen)
        else:
            await self.entry.open(frozen)

    def asking(
        self, call: CallState, frozen: ToolCall, deciding: Awaitable[Verdict[ToolCall]]
    ) -> Awaitable[Verdict[ToolCall]]:
        self.entry.asking()
        return deciding

    def edited(self, call: CallState, edited: ToolCall, refused: Allow | None) -> None:
        if refused is not None:
            self.entry.allowed(refused.source, refused.reason, refused.by)
        self.entry.edited(edited)

    async def decided(self, call: CallState, frozen: ToolCall, verdict: Verdict[ToolCall]) -> None:
        self.entry.decided(verdict)

    def writing(self, call: CallState) -> None:
        self.entry.sending()

    async def done(self, call: CallState, result: ToolResult) -> ToolResult:
        if call.keyed is not None:  # the journal closes the record, in one transaction with the row
            return result
        return await self.entry.done(result)

    def handed_over(self, call: CallState) -> None:
        self.entry.hand_over()

    async def failed(
        self, call: CallState, error: BaseException, cancelled: McpError | None
    ) -> None:
        if call.attempt.now is None:
            self.entry.not_found(error)
        await self.entry.failed(error, cancelled)


class Recurring(Observer):
    """The approval of a call that ``Retry`` may make again: the gate recalls it for that call."""

    __slots__ = ()

    async def decided(self, call: CallState, frozen: ToolCall, verdict: Verdict[ToolCall]) -> None:
        call.once.keep(frozen, verdict.request, verdict.by)


class Stepped(Observer):
    """An ``on_progress`` of ``Toolset.run``, which is told the steps of its call, too."""

    __slots__ = ("_told",)

    def __init__(self, told: CallSteps) -> None:
        self._told = told

    def asking(
        self, call: CallState, frozen: ToolCall, deciding: Awaitable[Verdict[ToolCall]]
    ) -> Awaitable[Verdict[ToolCall]]:
        self._told.step("asked")
        return deciding

    def writing(self, call: CallState) -> None:
        self._told.step("sent")


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
        if verdict.for_good and frozen.drift is not None:
            what = f"{frozen.server}: the definition"
            await write_down(what, self._pins._accept_tool, frozen.tool)


class _BoundArguments(Observer):
    """The arguments that the host sets with ``bind=``."""

    __slots__ = ("_binding", "_gate")

    def __init__(self, binding: Binding, gate: Gate) -> None:
        self._binding = binding
        self._gate = gate

    async def freezing(self, call: CallState, frozen: ToolCall) -> ToolCall:
        given = json.loads(frozen.arguments_json)
        text = await self._binding.complete(call, frozen.tool, given, self._gate)
        return replace(frozen, arguments_json=text)

    def editing(self, call: CallState, edited: ToolCall) -> ToolCall:
        return self._binding.kept(call, edited)


class Traced(Observer):
    """The span of a call, with the approval in a span below it."""

    __slots__ = ("_span",)

    def __init__(self, span: CallSpan) -> None:
        self._span = span

    def asking(
        self, call: CallState, frozen: ToolCall, deciding: Awaitable[Verdict[ToolCall]]
    ) -> Awaitable[Verdict[ToolCall]]:
        return self._span.approval(frozen, deciding)

    async def done(self, call: CallState, result: ToolResult) -> ToolResult:
        self._span.done(result)
        return result

    def handed_over(self, call: CallState) -> None:
        self._span.done(None)


def observe(call: CallState, maker: Maker, audit: SessionAudit | None, state: State | None) -> None:
    """Add the observers that ``call`` has besides those of every call, in order."""
    given, others = call.given, call.observers
    if isinstance(given.on_progress, CallSteps):
        others = (*others, Stepped(given.on_progress))
    if given.retry is not None:
        others = (*others, Recurring())
    if audit is not None:
        about = given.name, given.arguments, given.context, given.origin, given.script, given.tag
        call.entry = audit.entry(call.id, *about)
        call.traffic = call.entry.traffic
        others = (Recorded(call.entry), *others)
    if given.idempotency_key is not None:
        from .journal import KeyedCall

        call.keyed = KeyedCall.of(maker, call, given.idempotency_key, state)
        call.traffic = call.traffic or Traffic()
        others = (call.keyed, *others)
    call.observers = others


def observers_of(setup: Setup) -> tuple[Observer, ...]:
    """Return the observers of every call of a session with these options."""
    bound = () if setup.bind is None else (_BoundArguments(setup.bind, setup.gate),)
    pins = () if setup.pins is None else (_CheckedPins(setup.pins),)
    return (*bound, *pins)
