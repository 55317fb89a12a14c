"""The two records of a call, or of anything else that is recorded: opened, decided, closed.

``record`` describes the records of a call, and ``entry_members`` those of other kinds.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import anyio

from ..approval.request import ApprovalRequest
from ..approval.tool_call import ToolCall
from ..catalog.call_values import NotAnObject, ToolResult
from ..catalog.finding import Finding
from ..catalog.tool import Tool
from ..errors import (
    CallDenied,
    InvalidArguments,
    InvalidResult,
    InvalidSchema,
    McpError,
    NotSent,
    OutcomeUnknown,
    StartDenied,
    StateError,
    UnknownTool,
)
from ..runtime.safe_text import safe_text
from .entry_members import About, EntryMembers
from .hash_chain import timestamp
from .sinks import Members, Record, Recorder, Sink, Within, failure_reason

if TYPE_CHECKING:
    from ..approval.decision import Verdict
    from ..approval.gate import Gate

__all__ = ["AuditEntry"]

R = TypeVar("R", bound=ApprovalRequest)
_log = logging.getLogger("mcp_client")
_WITHOUT_TEXT = InvalidSchema, CallDenied, StartDenied
"""The reason is in the decision, or may quote what is secret."""
_CANCELLED = "Cancelled"
"""The outcome if the caller's task was cancelled, on every event loop."""


class AuditEntry(EntryMembers):
    """The two records of one call, skill, start, use of the model, read or run of a script.

    They are filled in while that is made, in this order: ``found``, ``breaks`` (only if the
    arguments break the schema), ``open``, ``asking``, ``decided``, perhaps ``changed`` and both
    again, ``sending``, and then ``done``, ``over`` or ``failed``; ``again`` makes the entry of
    another attempt. A step that is left out has not happened. ``traffic`` counts the bytes.
    """

    def __init__(self, audit: Recorder, about: About) -> None:
        super().__init__(audit, about)
        self._first: Record | None = None
        self._opened: list[Sink] = []
        self.is_first: Callable[[], Awaitable[bool]] | None = None
        """Asked before it is closed, where several sessions may see the end of the call: whether
        this is the first that does. The others close nothing."""

    @classmethod
    def resumed(cls, audit: Recorder, about: About, process: int) -> AuditEntry:
        """Return the entry of a call that another session has opened, in ``process``."""
        entry = cls(audit, about)
        entry._opened_by, entry._first, entry._opened = process, Record("", {}), list(audit.sinks)
        return entry

    def again(self, id: str) -> AuditEntry:
        """Return the entry of another attempt at the same call."""
        return AuditEntry(self._audit, self.about._replace(id=id, repeats=self.id))

    # ------------------------------------------------------ on the way of the call

    def begin(self) -> None:
        """Note that the call has begun, so that its session closes after this entry."""
        self._audit.began(self)

    def hand_over(self) -> None:
        """Leave the end of the call to the code that sees it: the server made a task of it."""
        self._audit.ended(self)

    def found(self, tool: Tool | None, revision: str) -> None:
        """Note the definition in force, and the revision that the session speaks."""
        self._tool, self._revision = tool, revision

    def not_found(self, error: BaseException) -> None:
        """Leave out the arguments if ``error`` hides which of them the tool's schema marks."""
        self._is_unread = not isinstance(error, UnknownTool | InvalidArguments)

    def breaks(self, finding: Finding, path: str) -> None:
        """Note a finding about the arguments at ``path``: the record has the place alone."""
        self._wrong, self._place = finding, path or "the whole value"

    async def open(self, request: ApprovalRequest | None = None, *, resumed: bool = False) -> None:
        """Write that ``request`` will be decided, or that a read or a run begins.

        Raises the refusal of the request, or ``CallDenied``, if that must not be. ``resumed``: the
        run goes on.
        """
        self._request, self._is_resumed = request, resumed
        self._audit.began(self)
        self._first = self._opening()
        for sink in self._audit.sinks:
            failure = await sink.write(self._first)
            if failure is None:
                self._opened.append(sink)
                continue
            reason = f"the audit record cannot be opened: {failure_reason(sink, failure)}"
            _log.error("%s/%s: %s", *self._name, reason)
            if self._audit.refuses:
                raise failure if isinstance(failure, StateError) else self._refusal(reason)

    def _refusal(self, reason: str) -> McpError:
        text, request = f"{reason} (Audit(failure=...))", self._request
        if request is None or request.kind == "call":
            return CallDenied(f"refused: {text}", reason=reason)
        return request.refusal(text, reason=reason)

    def changed(self, call: ToolCall) -> None:
        """Note that the definition changed before sending: ``call`` is decided instead."""
        self._request = call
        self._changed = {
            "fingerprint": call.tool.fingerprint,
            "trusted": call.trusted,
            **self._redacted_findings(call.findings),
        }

    def edited(self, call: ToolCall) -> None:
        """Record the approver's arguments and what was found about them, whatever is decided.

        An approver who is asked about an edit again sees its findings; those of every edit stay.
        """
        before = self._digest
        after = self._redacted_arguments(call.arguments_json, None)
        earlier = [] if self._edited is None else self._edited["findings"]
        found = self._redacted_findings(call.findings)
        found["findings"] = [
            *(one for one in earlier if one not in found["findings"]),
            *found["findings"],
        ]
        self._edited = {
            "from": before,
            "to": after.pop("arguments_digest"),
            "paths": self._paths(None if before is None else before.text, call.arguments_json),
            **after,
            **found,
        }

    def asking(self) -> None:
        """Note that approval is asked for now."""
        if self._asked_at is None:
            self._asked_at = self._audit.clock()
        self._answered_at = None

    def decided(self, verdict: Verdict[R]) -> None:
        """Record the approval. The call may have other arguments, which the approver gave."""
        self.allowed(verdict.source, verdict.reason, verdict.by, verdict.scope)
        if verdict.expires_at is not None and self._decision is not None:
            self._decision["expires_at"] = timestamp(verdict.expires_at)
        request = verdict.request
        if isinstance(request, ToolCall) and request.edited:
            self._request = request
            self.edited(request)

    def allowed(self, source: str, reason: str | None, by: str | None, scope: str = "once") -> None:
        """Note an approval."""
        self._decide("allow", source, reason, by)["scope"] = scope

    def sending(self) -> None:
        """Note that the call is sent now."""
        self._sent_at = self._audit.clock()

    def is_stored_in(self, storage: object) -> bool:
        """Whether its records are stored in ``storage``."""
        return any(sink.storage is storage for sink in self._audit.sinks)

    async def done(
        self, result: ToolResult, delivery: str = "answered", within: Within | None = None
    ) -> ToolResult:
        """Close it with a result, which is returned even if the record cannot be written.

        ``within`` is a change of the storage of the record, if it has one.
        """
        outcome = "tool_error" if result.is_error else "ok"
        findings = await self.over(outcome, delivery, within=within)
        return replace(result, findings=(*result.findings, *findings)) if findings else result

    async def over(
        self,
        outcome: str = "ok",
        delivery: str = "answered",
        error: str | None = None,
        within: Within | None = None,
    ) -> tuple[Finding, ...]:
        """Close it, and return findings about what could not be recorded, for the caller.

        ``error`` is a short text, such as the type of an exception.
        """
        text = None if error is None else self._safe(error)
        failure = await self._close(outcome, delivery, text, within)
        texts = [loss for sink in self._audit.sinks for loss in sink.losses()]
        if failure is not None:
            texts.append(failure)
        return tuple([Finding("not_recorded", text) for text in texts])

    async def decided_by(self, gate: Gate, request: R) -> None:
        """Open it, have ``gate`` decide, and close it. Raises what the gate does."""
        try:
            await self.open(request)
            self.asking()
            self.decided(await gate.decide(request))
            failure = await self._close("ok", "not_sent", None)
            if failure is not None:
                raise self._refusal(failure)
        except BaseException as error:
            await self.failed(error)
            raise

    async def failed(self, error: BaseException, cancelled: McpError | None = None) -> None:
        """Close it with what was raised, which is the caller's to raise again.

        ``cancelled`` is what the caller gets instead of the cancellation of a task.
        """
        if cancelled is not None and _is_cancelled(error):
            error = cancelled
        if isinstance(error, CallDenied | StartDenied):
            self._decide("deny", error.source, error.reason, error.by, error.rule)
        elif self._asked_at is not None and self._answered_at is None:
            self._answered_at = self._audit.clock()
        if isinstance(error, GeneratorExit):  # the coroutine is being closed and cannot wait
            name, delivery = type(error).__name__, self._delivery(error)
            closing = self._close(name, delivery, None)
            try:
                closing.send(None)
            except StopIteration:
                return
            closing.close()
            _log.error("%s/%s: the audit record could not be closed in time", *self._name)
            return
        name = _CANCELLED if _is_cancelled(error) else type(error).__name__
        failure = await self._close(name, self._delivery(error), self._text(error))
        if failure is not None:
            error.add_note(failure)

    # ------------------------------------------------------------------ records

    def _decide(
        self, answer: str, source: str, reason: str | None, by: str | None, rule: str = ""
    ) -> Members:
        if self._asked_at is not None and self._answered_at is None:
            self._answered_at = self._audit.clock()
        text = None if reason is None else self._safe(reason)
        self._decision = {"answer": answer, "source": self._safe(source, 32), "reason": text}
        if by is not None:
            self._decision["by"] = self._safe(safe_text(by, 200), 220)
        if rule:
            self._decision["rule"] = self._safe(rule)
        return self._decision

    async def _close(
        self, outcome: str, delivery: str, text: str | None, within: Within | None = None
    ) -> str | None:
        """Write the second record, and the first if it is missing. Returns the failure, or None."""
        audit, failures = self._audit, list[str]()
        try:
            if self.is_first is not None and not await self.is_first():
                return None
            first = self._first if self._first is not None else self._opening()
            last = self._closing(outcome, delivery, text)
            for sink in audit.sinks:
                was_open = sink in self._opened
                records = (last,) if was_open else (first, last)
                failure = await sink.write(*records, shield=True, within=within)
                if failure is None:
                    continue
                failures.append(failure_reason(sink, failure))
                if was_open and audit.refuses:
                    sink.keep((last,))
        finally:
            audit.ended(self)
        if not failures:
            return None
        message = f"the audit record of this call could not be closed: {'; '.join(failures)}"
        _log.error("%s/%s: %s", *self._name, message)
        return message if audit.refuses else None

    def _delivery(self, error: BaseException) -> str:
        traffic = self.traffic
        if not traffic.sent or (isinstance(error, NotSent) and not traffic.answers):
            return "not_sent"
        answered = isinstance(error, McpError) and not isinstance(error, OutcomeUnknown | NotSent)
        return "answered" if answered else "unknown"

    def _text(self, error: BaseException) -> str | None:
        if isinstance(self.about.arguments, NotAnObject):
            return "the arguments are not a JSON object"
        if isinstance(error, InvalidArguments | InvalidResult):
            return f"at {self._safe(error.path, 200) or 'the whole value'}"
        if not isinstance(error, McpError) or isinstance(error, _WITHOUT_TEXT):
            return None
        return self._safe(error.message)


def _is_cancelled(error: BaseException) -> bool:
    return not isinstance(error, Exception | GeneratorExit) and isinstance(
        error, anyio.get_cancelled_exc_class()
    )
