"""The two records of one call: ``record`` describes them."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from ..approval.request import ApprovalRequest, Fact
from ..approval.script import Script
from ..approval.tool_call import ToolCall
from ..catalog.call_context import CallOrigin, NotAnObject
from ..catalog.finding import Finding
from ..catalog.result import ToolResult
from ..catalog.tool import Tool
from ..connection.rpc import Traffic
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
from .hash_chain import now, timestamp
from .shown_arguments import MAX_ARGUMENTS_CHARS, differing_paths, shown_arguments, text_of
from .sinks import Digested, Record, Recorder, Sink, Within, failure_reason

__all__ = ["MAX_FACT_CHARS", "CallRecord"]

_log = logging.getLogger("mcp_client")
MAX_FACT_CHARS = 10_000
"""Characters of one fact."""
_MAX_FACTS = 200  # of one kind
_MAX_FACTS_BYTES = 256 * 1024
"""Bytes of all facts of a record, as JSON: a line of a log has a limit, too."""
_IN_OTHER_MEMBERS = frozenset(
    (
        *("server", "subject", "arguments", "finding", "fingerprint"),
        *("script", "script_line", "script_calls"),
    )
)
"""Facts that are members of a record already."""
_WITHOUT_TEXT = InvalidSchema, CallDenied, StartDenied
"""The reason is in the decision, or may quote what is secret."""
_MAX_FINDINGS = 32
_CANCELLED = "Cancelled"
"""The outcome if the caller's task was cancelled, on every event loop."""
_SOURCES = frozenset({"hook", "person", "rule", "memory", "gate"})


class CallRecord:
    """The two records of one call, filled in while ``session/call.py`` makes the call.

    In order: ``found``, ``breaks`` (only where the arguments break the schema), ``open``,
    ``asking``, ``decided``, perhaps ``changed`` and both again, ``sending``, and then ``done`` or
    ``failed``; ``again`` makes the entry of another attempt. A step that is left out has not
    happened. ``traffic`` counts the bytes of the call.
    """

    def __init__(
        self,
        audit: Recorder,
        id: str,
        name: str,
        arguments: Any,
        *,
        context: Hashable = None,
        origin: CallOrigin = "host",
        script: Script | None = None,
        repeats: str | None = None,
    ) -> None:
        self.id = id
        self.traffic: Traffic = Traffic()
        self._audit = audit
        self._asked = name
        self._name = (audit.server, audit.shown_name(name))
        self._given = arguments
        self._context = context
        self._origin = origin
        self._script = script
        self.tag: Any = None
        self._repeats = repeats
        self._tool: Tool | None = None
        self._is_unread = False
        self._revision: str | None = None
        self._call: ToolCall | None = None
        self._wrong: Finding | None = None
        self._place = "the whole value"
        self._hidden: list[str] = []
        self._first: Record | None = None
        self._opened: list[Sink] = []
        self._opened_by: int | None = None
        self._decision: Record | None = None
        self._edited: Record | None = None
        self._changed: Record | None = None
        self._marks: dict[str, float] = {}
        self.is_first: Callable[[], Awaitable[bool]] | None = None
        """Asked before it is closed, where several sessions may see the end of the call: whether
        this is the first that does. The others close nothing."""

    @classmethod
    def resumed(
        cls, audit: Recorder, id: str, name: str, process: int, context: Any, tag: Any
    ) -> CallRecord:
        """The entry of a call that another session has opened, in ``process``."""
        entry = cls(audit, id, name, None, context=context)
        entry.tag = tag
        entry._opened_by, entry._first, entry._opened = process, {}, list(audit.sinks)
        return entry

    def again(self, id: str) -> CallRecord:
        """The entry of another attempt at the same call."""
        entry = CallRecord(
            self._audit,
            id,
            self._asked,
            self._given,
            context=self._context,
            origin=self._origin,
            script=self._script,
            repeats=self.id,
        )
        entry.tag = self.tag
        return entry

    # ------------------------------------------------------ on the way of the call

    def begin(self) -> None:
        """Note that the call has begun, so that its session closes after this entry."""
        self._audit.began(self)

    def hand_over(self) -> None:
        """Leave the end of the call, of which the server made a task, to what sees it."""
        self._audit.ended(self)

    def found(self, tool: Tool, revision: str) -> None:
        """The definition in force, and the revision it will be called under."""
        self._tool, self._revision = tool, revision

    def not_found(self, error: BaseException) -> None:
        """Leave out the arguments if ``error`` hides which of them the tool's schema marks."""
        self._is_unread = not isinstance(error, UnknownTool | InvalidArguments)

    def breaks(self, finding: Finding, path: str) -> None:
        """What is wrong with the arguments, at ``path``: the record has the place alone."""
        self._wrong, self._place = finding, path or "the whole value"

    async def open(self, call: ToolCall) -> None:
        """Write that ``call`` will be decided. Raises ``CallDenied`` where that must not be."""
        self._call = call
        await self._open()

    async def _open(self) -> None:
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
        return CallDenied(f"refused, for {reason} (Audit(failure=...))", reason=reason)

    def changed(self, call: ToolCall) -> None:
        """The definition changed before the call was sent: ``call`` is decided instead."""
        self._call = call
        self._changed = {
            "fingerprint": call.tool.fingerprint,
            "trusted": call.trusted,
            **self._shown_findings(call.findings),
        }

    def edited(self, call: ToolCall) -> None:
        """Record the approver's arguments and what was found about them, whatever is decided.

        An approver who is asked about an edit again sees its findings; those of every edit stay.
        """
        before = None if self._first is None else self._first["arguments_digest"]
        after = self._shown_arguments(call.arguments_json, None)
        earlier = [] if self._edited is None else self._edited["findings"]
        found = self._shown_findings(call.findings)
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
        self._marks["asking"] = self._audit.clock()

    def decided(
        self,
        call: ToolCall,
        source: str,
        reason: str | None,
        by: str | None = None,
        expires_at: float | None = None,
        scope: str = "once",
    ) -> None:
        """The gate approved ``call``, which may have the approver's arguments."""
        self._allowed(source, reason, by, expires_at, scope)
        if call.edited:
            self._call = call
            self.edited(call)

    def sending(self) -> None:
        self._marks["running"] = self._audit.clock()

    def is_kept_in(self, storage: object) -> bool:
        return any(sink.storage is storage for sink in self._audit.sinks)

    async def done(
        self, result: ToolResult, delivery: str = "answered", within: Within | None = None
    ) -> ToolResult:
        """Close it with a result, which is handed over even if the record cannot be written;
        ``within`` a change of a storage that it is kept in."""
        outcome = "tool_error" if result.is_error else "ok"
        failure = await self._close(outcome, delivery, None, within)
        findings = self._not_recorded(failure)
        return replace(result, findings=(*result.findings, *findings)) if findings else result

    async def failed(self, error: BaseException, cancelled: McpError | None = None) -> None:
        """Close it with what was raised, which is the caller's to raise again.

        ``cancelled`` is what the caller gets instead of the cancellation of a task.
        """
        if cancelled is not None and _is_cancelled(error):
            error = cancelled
        if isinstance(error, CallDenied | StartDenied):
            self._decide("deny", error.source, error.reason, error.by, error.rule)
        elif "asking" in self._marks and "answered" not in self._marks:
            self._marks["answered"] = self._audit.clock()
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

    def _allowed(
        self, source: str, reason: str | None, by: str | None, expires_at: float | None, scope: str
    ) -> None:
        decision = self._decide("allow", source, reason, by)
        decision["scope"] = scope
        if expires_at is not None:
            decision["expires_at"] = timestamp(expires_at)

    def _decide(
        self, answer: str, source: str, reason: str | None, by: str | None, rule: str = ""
    ) -> Record:
        if "asking" in self._marks:
            self._marks.setdefault("answered", self._audit.clock())
        text = None if reason is None else self._safe(reason)
        self._decision = {"answer": answer, "source": self._safe(source, 32), "reason": text}
        if by is not None:
            self._decision["by"] = self._safe(safe_text(by, 200), 220)
        if rule:
            self._decision["rule"] = self._safe(rule)
        return self._decision

    def _about(self, event: str) -> Record:
        return {
            "time": now(),
            "event": event,
            "process": os.getpid(),
            "call": self.id,
            "server": self._name[0],
            "tool": self._name[1],
        }

    def _opening(self) -> Record:
        call, tool = self._call, self._tool
        record = self._about("opened")
        if self._repeats is not None:
            record["repeats"] = self._repeats
        if self._origin != "host":
            record["origin"] = self._origin
        if self._script is not None:
            record |= self._script.recorded()
        text = text_of(self._given) if call is None else call.arguments_json
        record |= {
            "identity": self._audit.identity,
            **self._audit.whose(self._context, self.tag),
            "revision": self._revision,
            "trusted": None if tool is None else tool.trusted,
            "fingerprint": None if tool is None else tool.fingerprint,
            **self._shown_arguments(text, self._given),
            "arguments_bytes": None if text is None else _size(text),
        }
        if call is None:
            record |= self._shown_findings(() if self._wrong is None else (self._wrong,))
        else:
            record |= self._shown_findings(call.findings)
            record["facts"] = self._facts_of_call(call)
        return record

    def _facts_of_call(self, call: ToolCall) -> Record:
        """Those of the tool alone are looked through once."""
        if self._hidden or call.meta_json or call.drift or call.origin != "host" or call.edited:
            return self._shown_facts(call)
        known = call.tool._derive(_shown_by_audit)
        facts = known.get(self._audit)
        if facts is None:
            facts = known[self._audit] = self._shown_facts(call)
        return facts

    def _shown_facts(self, request: ApprovalRequest) -> Record:
        """What a person is shown of it, besides what other members have."""
        found: dict[str, list[str]] = {}
        left = _MAX_FACTS_BYTES
        for fact in request.facts():
            if fact.kind in _IN_OTHER_MEMBERS:
                continue
            texts = found.setdefault(fact.kind, [])
            if len(texts) < _MAX_FACTS:
                shown = self._shown_fact(fact)
                left -= (size := len(json.dumps(shown)))
                if left < 0:
                    left, shown = left + size, f"[left out: {len(fact.text)} characters]"
                texts.append(shown)
            elif len(texts) == _MAX_FACTS:
                texts.append("and more")
        return {kind: texts if texts[1:] else texts[0] for kind, texts in found.items()}

    def _shown_fact(self, fact: Fact) -> str:
        if not fact.is_json:
            return self._safe(fact.text, MAX_FACT_CHARS)
        shown = self._audit.redaction.show(json.loads(fact.text))
        self._hidden += shown.hidden
        return self._safe(json.dumps(shown.value, ensure_ascii=False), MAX_FACT_CHARS)

    def _shown_findings(self, findings: tuple[Finding, ...]) -> Record:
        record: Record = {"findings": list(map(self._shown_finding, findings[:_MAX_FINDINGS]))}
        if len(findings) > _MAX_FINDINGS:
            record["more_findings"] = len(findings) - _MAX_FINDINGS
        return record

    def _shown_finding(self, finding: Finding) -> Record:
        about, text = self._safe(finding.about, 200), finding.text
        if finding.kind == "broken_arguments":  # the sentence quotes an argument
            text = f"the arguments break the tool's input schema at {self._place}"
        elif finding.kind == "unchecked_arguments" and not finding.about:  # of these arguments
            text = "the arguments could not be checked against the tool's input schema"
        shown = {"kind": finding.kind, "text": self._safe(text)}
        return {**shown, "about": about} if about else shown

    def _not_recorded(self, failure: str | None) -> tuple[Finding, ...]:
        """What of this record and of earlier ones the sinks do not have."""
        losses = [loss for sink in self._audit.sinks for loss in sink.losses()]
        texts = losses if failure is None else [*losses, failure]
        return tuple(Finding("not_recorded", text) for text in texts)

    def _shown_arguments(self, text: str | None, given: Any) -> Record:
        """The arguments as they may be shown: of the text that is sent, or of what was given."""
        audit = self._audit
        about = self._tool, self._is_unread
        shown = shown_arguments(audit.redaction, audit.secrets, text, given, *about)
        self._hidden += shown.hidden
        has_secrets = bool(shown.hidden or shown.pointers)
        return {
            "arguments": shown.value,
            "redacted": shown.pointers,
            "arguments_digest": None if text is None else Digested(text, has_secrets),
        }

    def _paths(self, before: str | None, after: str) -> list[str]:
        """JSON pointers to the arguments that the approver changed."""
        if before is None or len(before) + len(after) > MAX_ARGUMENTS_CHARS:
            return [""]
        paths = differing_paths(json.loads(before), json.loads(after))
        return [self._safe(path, 200) for path in paths]

    def _closing(self, outcome: str, delivery: str, text: str | None) -> Record:
        marks, end = self._marks, self._audit.clock()
        asking, running = marks.get("asking"), marks.get("running")
        record = self._about("closed")
        record |= self._audit.whose(self._context, self.tag)
        if self._opened_by is None:
            record["decision"] = self._decision
        else:
            record["opened_by"] = self._opened_by
        if self._changed is not None:
            record["changed"] = self._changed
        if self._edited is not None:
            record["edited"] = self._edited
        record["outcome"] = outcome
        if text is not None:
            record["error"] = text
        asked = None if asking is None else round(marks.get("answered", end) - asking, 6)
        record |= {
            "delivery": delivery,
            "asking_seconds": asked,
            "running_seconds": None if running is None else round(end - running, 6),
            "sent_bytes": self.traffic.sent,
            "received_bytes": self.traffic.received,
        }
        return record

    async def _close(
        self, outcome: str, delivery: str, text: str | None, within: Within | None = None
    ) -> str | None:
        """Write the second record, and the first where it is missing: what failed, or None."""
        try:
            return await self._written(outcome, delivery, text, within)
        finally:
            self._audit.ended(self)

    async def _written(
        self, outcome: str, delivery: str, text: str | None, within: Within | None
    ) -> str | None:
        if self.is_first is not None and not await self.is_first():
            return None
        first = self._first if self._first is not None else self._opening()
        last = self._closing(outcome, delivery, text)
        failures = []
        for sink in self._audit.sinks:
            was_open = sink in self._opened
            records = (last,) if was_open else (first, last)
            failure = await sink.write(*records, shield=True, within=within)
            if failure is None:
                continue
            failures.append(failure_reason(sink, failure))
            if was_open and self._audit.refuses:
                sink.keep((last,))
        if not failures:
            return None
        message = f"the audit record of this call could not be closed: {'; '.join(failures)}"
        _log.error("%s/%s: %s", *self._name, message)
        return message if self._audit.refuses else None

    def _delivery(self, error: BaseException) -> str:
        traffic = self.traffic
        if not traffic.sent or (isinstance(error, NotSent) and not traffic.answers):
            return "not_sent"
        answered = isinstance(error, McpError) and not isinstance(error, OutcomeUnknown | NotSent)
        return "answered" if answered else "unknown"

    def _text(self, error: BaseException) -> str | None:
        if isinstance(self._given, NotAnObject):
            return "the arguments are not a JSON object"
        if isinstance(error, InvalidArguments | InvalidResult):
            return f"at {self._safe(error.path, 200) or 'the whole value'}"
        if not isinstance(error, McpError) or isinstance(error, _WITHOUT_TEXT):
            return None
        return self._safe(error.message)

    def _safe(self, text: str, limit: int = 500) -> str:
        if text in _SOURCES:
            return text
        return self._audit.redaction.about(self._audit.secrets.text(str(text)), limit, self._hidden)


def _is_cancelled(error: BaseException) -> bool:
    return not isinstance(error, Exception | GeneratorExit) and isinstance(
        error, anyio.get_cancelled_exc_class()
    )


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _shown_by_audit(tool: Tool) -> WeakKeyDictionary[Recorder, Record]:
    return WeakKeyDictionary()
