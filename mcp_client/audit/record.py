"""The record of every call: opened before anybody is asked, closed on every way out.

```python
connect(server, audit="calls.jsonl")              # a path, or AuditLog(path, ...)
connect(server, audit=records.append)             # a callable, sync or async
connect(server, audit=["calls.jsonl", tell_the_auditor], audit_failure="warn")
```

A call has two records with the same ``call``. In a file each is a line, with the members that
``chain`` adds::

    {"time": "2026-07-28T09:00:00.000000Z", "event": "opened", "process": 4711,
     "call": "9f3a41c2-1", "server": "weather", "tool": "get_weather", "revision": "2026-07-28",
     "trusted": false, "fingerprint": "sha256:...",
     "arguments": {"location": "Oslo", "api_key": "[redacted]"},
     "arguments_digest": "sha256:...", "arguments_bytes": 52, "findings": []}
    {"time": "2026-07-28T09:00:04.100000Z", "event": "closed", "process": 4711,
     "call": "9f3a41c2-1", "server": "weather", "tool": "get_weather",
     "decision": {"answer": "allow", "source": "person", "reason": null},
     "outcome": "ok", "delivery": "answered", "asking_seconds": 3.9, "running_seconds": 0.2,
     "sent_bytes": 180, "received_bytes": 96}

``opened`` also has ``repeats``, the call it makes again, where the server had ended the session;
members that were not found out (the tool is unknown, the arguments are no JSON) are null.
``closed`` also has ``edited``, where the approver changed the arguments: the digests ``from`` and
``to``, and the new ``arguments``. ``outcome`` is "ok", "tool_error" (the tool says that it failed)
or the class of the error, whose text is in ``error``. ``delivery`` is "not_sent" (nothing can have
happened), "answered" or "unknown" (it may have run). ``decision`` is null where nobody answered.
An ``opened`` without its ``closed`` is a call that runs, or whose process was killed.

The first record is made once it is known which definition and which arguments the approver will
be asked about, for only the definition tells which arguments are secret. If it cannot be
written, the call is refused before anybody is asked (``CallDenied``, source "gate"); with
``audit_failure="warn"`` it goes on and the log is told. A second record that cannot be written
takes nothing from the caller: the result is handed over with a finding that says so, and no call
is let through until that record could be written after all.

Arguments, reasons and error texts are shown as ``redaction`` allows. A secret argument of four
characters or more is also left out of what others say of it; texts that quote a value which breaks
a schema are left out for its place. The caller's ``_meta``, results, and what a server asked back
are not recorded. A digest is of the true arguments: who knows all of them but a short secret can
find it by trying. A sync callable is called in place and must not wait; an async one is awaited
for at most ten seconds.

2026-07-28 ``server/tools`` (security): clients SHOULD log tool usage for audit purposes.
"""

from __future__ import annotations

import inspect
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import anyio
from anyio.lowlevel import RunVar

from ..catalog.result import ToolResult
from ..catalog.tool import Tool, ToolCall
from ..connection.rpc import Traffic
from ..errors import (
    AuditError,
    CallDenied,
    ConfigError,
    InvalidArguments,
    InvalidResult,
    InvalidSchema,
    McpError,
    NotSent,
    OutcomeUnknown,
)
from ..protocol.canonical_json import NotJson, canonical, sha256
from ..runtime.event_loop import being_cancelled
from .hash_chain import now
from .log_file import AuditLog
from .redaction import Redaction, Shown, marked, redaction_of

__all__ = ["Audit", "AuditSink", "AuditTo", "Entry", "OnAuditFailure"]

Record: TypeAlias = dict[str, Any]
AuditSink: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None] | None]
_Place: TypeAlias = "str | os.PathLike[str] | AuditLog | AuditSink"
AuditTo: TypeAlias = "_Place | Sequence[_Place]"
OnAuditFailure: TypeAlias = Literal["refuse", "warn"]

_log = logging.getLogger("mcp_client")
_PATIENCE = 10.0
_LARGE = 256 * 1024
_FINDINGS = 32
_threads: RunVar[anyio.CapacityLimiter] = RunVar("mcp_client.audit")


@dataclass(slots=True)
class _Sink:
    """One place that records go to, and the closings it could not take yet."""

    name: str
    put: Callable[[Sequence[Record], bool], Coroutine[Any, Any, None]]
    """Takes records; with True, even when the caller is being cancelled."""
    pending: list[Record] = field(default_factory=list)


class Audit:
    """Where the records of a session's calls go, and what they may show."""

    def __init__(
        self,
        server: str,
        sinks: Sequence[_Sink],
        failure: OnAuditFailure,
        redaction: Redaction,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server = server
        self.sinks = sinks
        self.refuses = failure == "refuse"
        self.redaction = redaction
        self.clock = clock

    @classmethod
    def of(
        cls,
        server: str,
        audit: AuditTo,
        failure: OnAuditFailure,
        redaction: Redaction | Callable[[Any], Any] | None,
    ) -> Audit:
        """Raises ``ConfigError`` for an option that is none."""
        several = isinstance(audit, Sequence) and not isinstance(audit, str) and not callable(audit)
        sinks = [_sink(each) for each in (audit if several else [audit])]  # type: ignore[union-attr]
        if not sinks:
            raise ConfigError("audit=[]: give at least one place for records, or None for none")
        return cls(
            server, sinks, failure, Redaction() if redaction is None else redaction_of(redaction)
        )

    def entry(self, id: str, name: str, arguments: Any, context: Hashable = None) -> Entry:
        """The entry of one call. Nothing is written before ``Entry.open`` or its end."""
        return Entry(self, id, name, arguments, context=context)

    async def settle(self) -> None:
        """Try once more to write the closings that could not be written."""
        for sink in self.sinks:
            if sink.pending:
                await self.flush_pending(sink)

    async def flush_pending(self, sink: _Sink, shield: bool = False) -> Exception | None:
        """Write what ``sink`` is owed. Why it could not be written, or None."""
        pending, sink.pending = sink.pending, []
        try:
            failure = await _tried(sink, pending, shield) if pending else None
        except BaseException:
            sink.pending[:0] = pending
            raise
        if failure is not None:
            sink.pending[:0] = pending
        return failure


def _sink(to: Any) -> _Sink:
    if isinstance(to, str | os.PathLike):
        to = AuditLog(to)
    if isinstance(to, AuditLog):
        return _Sink(to.path.name, lambda *what: _append(to, *what))
    if callable(to):
        name = str(getattr(to, "__qualname__", type(to).__qualname__))
        return _Sink(name, lambda *what: _tell(to, *what))
    raise ConfigError(
        f"audit={to!r}: give the path of a file, an AuditLog, a callable that takes a record, or a "
        "list of those"
    )


async def _append(log: AuditLog, records: Sequence[Record], shield: bool) -> None:
    if log.fsync or not log.append_now(*records):
        # Waits for the thread even when cancelled: what is under way must not be written later.
        # Threads of our own, for the usual ones may all be with people who are being asked.
        try:
            threads = _threads.get()
        except LookupError:
            threads = anyio.CapacityLimiter(4)
            _threads.set(threads)
        with anyio.CancelScope(shield=shield):
            await anyio.to_thread.run_sync(log.append, *records, limiter=threads)


async def _tell(sink: AuditSink, records: Sequence[Record], shield: bool) -> None:
    for record in records:
        told = sink(dict(record))
        if inspect.isawaitable(told):
            try:
                with anyio.fail_after(_PATIENCE, shield=shield):
                    await told
            finally:
                if inspect.iscoroutine(told):
                    told.close()  # where there was no loop any more to run it


async def _tried(sink: _Sink, records: Sequence[Record], shield: bool = False) -> Exception | None:
    """What kept ``sink`` from taking ``records``, or None."""
    try:
        await sink.put(records, shield)
    except Exception as error:  # noqa: BLE001 - a sink may be anybody's; what follows is decided above
        return error
    except anyio.get_cancelled_exc_class() as error:
        if being_cancelled():
            raise
        return RuntimeError(f"it was cancelled ({type(error).__name__})")
    return None


class Entry:
    """The two records of one call, filled in while ``session/call.py`` makes the call.

    In order: ``found``, ``breaks`` (only where the arguments break the schema), ``open``,
    ``asking``, ``decided``, ``sending``, and then ``done`` or ``failed``; ``again`` for an attempt
    that follows. Whatever is left out has not happened. ``traffic`` counts the bytes of the call.
    """

    def __init__(
        self,
        audit: Audit,
        id: str,
        name: str,
        arguments: Any,
        *,
        context: Hashable = None,
        repeats: str | None = None,
    ) -> None:
        self.id = id
        self.traffic = Traffic()
        self._audit = audit
        self._asked = name
        self._name = (audit.server, audit.redaction.text(str(name), 256))
        self._given = arguments
        self._context = context
        self._repeats = repeats
        self._tool: Tool | None = None
        self._revision: str | None = None
        self._call: ToolCall | None = None
        self._wrong: dict[str, str] = {}
        self._hidden: list[str] = []
        self._first: Record | None = None
        self._opened: list[_Sink] = []
        self._decision: Record | None = None
        self._edited: Record | None = None
        self._marks: dict[str, float] = {}

    def again(self, id: str) -> Entry:
        """The entry of another attempt at the same call."""
        return Entry(
            self._audit, id, self._asked, self._given, context=self._context, repeats=self.id
        )

    # ------------------------------------------------------ on the way of the call

    def found(self, tool: Tool, revision: str) -> None:
        """The definition in force, and the revision it will be called under."""
        self._tool, self._revision = tool, revision

    def breaks(self, finding: str, path: str) -> None:
        """``finding`` quotes an argument: the record has its place instead."""
        self._wrong[finding] = (
            f"the arguments break the tool's input schema at {path or 'the root'}"
        )

    async def open(self, call: ToolCall) -> None:
        """Write that ``call`` will be decided. Raises ``CallDenied`` where that must not be."""
        self._call = call
        self._first = self._opening()
        for sink in self._audit.sinks:
            failure = await self._audit.flush_pending(sink) or await _tried(sink, [self._first])
            if failure is None:
                self._opened.append(sink)
                continue
            reason = f"the audit record cannot be opened: {_why(sink, failure)}"
            _log.error("%s/%s: %s", *self._name, reason)
            if self._audit.refuses:
                raise CallDenied(f"refused, for {reason} (audit_failure)", reason=reason)

    def asking(self) -> None:
        self._marks["asking"] = self._audit.clock()

    def decided(
        self, call: ToolCall, source: str, reason: str | None, by: str | None = None
    ) -> None:
        """The gate approved ``call``, which may have the approver's arguments."""
        self._decide("allow", source, reason, by)
        if call.edited:
            self._call = call
            self._edited = {
                "from": None if self._first is None else self._first["arguments_digest"],
                "to": _digest(call.arguments_json),
                **self._shown(call.arguments_json, None),
            }

    def sending(self) -> None:
        self._marks["running"] = self._audit.clock()

    async def done(self, result: ToolResult) -> ToolResult:
        """Close it with a result, which is handed over whatever becomes of the record."""
        failure = await self._close("tool_error" if result.is_error else "ok", "answered", None)
        if failure is None:
            return result
        return replace(result, findings=(*result.findings, failure))

    async def failed(self, error: BaseException, cancelled: McpError | None = None) -> None:
        """Close it with what was raised, which is the caller's to raise again.

        ``cancelled`` is what the caller gets instead of the cancellation of a task.
        """
        if cancelled is not None and _is_cancelled(error):
            error = cancelled
        if isinstance(error, CallDenied):
            self._decide("deny", error.source, error.reason, error.by)
        elif "asking" in self._marks and "answered" not in self._marks:
            self._marks["answered"] = self._audit.clock()
        if isinstance(error, GeneratorExit):  # nobody is left to wait
            name, delivery = type(error).__name__, self._delivery(error)
            closing = self._close(name, delivery, None)
            try:
                closing.send(None)
            except StopIteration:
                return
            closing.close()
            _log.error("%s/%s: the audit record could not be closed in time", *self._name)
            return
        failure = await self._close(type(error).__name__, self._delivery(error), self._text(error))
        if failure is not None:
            error.add_note(failure)

    # ------------------------------------------------------------------ records

    def _decide(self, answer: str, source: str, reason: str | None, by: str | None) -> None:
        if "asking" in self._marks:
            self._marks.setdefault("answered", self._audit.clock())
        text = None if reason is None else self._safe(reason)
        self._decision = {"answer": answer, "source": self._safe(source, 32), "reason": text}
        if by is not None:
            self._decision["by"] = self._safe(by, 200)

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
        text = _text_of(self._given) if call is None else call.arguments_json
        record |= {
            "context": Redaction.show(self._audit.redaction, self._context).value,
            "revision": self._revision,
            "trusted": None if tool is None else tool.trusted,
            "fingerprint": None if tool is None else tool.fingerprint,
            **self._shown(text, self._given),
            "arguments_digest": None if text is None else _digest(text),
            "arguments_bytes": None if text is None else _size(text),
        }
        findings = list(self._wrong.values()) if call is None else call.findings
        told = [self._safe(self._wrong.get(each, each)) for each in findings[:_FINDINGS]]
        if len(findings) > _FINDINGS:
            told.append(f"{len(findings) - _FINDINGS} more findings")
        return {**record, "findings": told}

    def _shown(self, text: str | None, given: Any) -> Record:
        """``arguments`` as they may be shown: of the text that is sent, or of what was given."""
        if text is not None and len(text) > _LARGE:
            return {"arguments": f"[left out: {len(text)} characters]"}
        try:
            value = given if text is None else _loads(text)
            shown = self._audit.redaction.show(value, _marks_of(self._tool))
        except Exception as error:  # noqa: BLE001 - an object of the caller's own may do anything
            shown = Shown(f"[unreadable: {type(error).__name__}]")
        self._hidden += shown.hidden
        return {"arguments": shown.value}

    def _closing(self, outcome: str, delivery: str, text: str | None) -> Record:
        marks, end = self._marks, self._audit.clock()
        asking, running = marks.get("asking"), marks.get("running")
        record = self._about("closed")
        record["decision"] = self._decision
        if self._edited is not None:
            record["edited"] = self._edited
        record["outcome"] = outcome
        if text is not None:
            record["error"] = text
        return {
            **record,
            "delivery": delivery,
            "asking_seconds": None
            if asking is None
            else round(marks.get("answered", end) - asking, 6),
            "running_seconds": None if running is None else round(end - running, 6),
            "sent_bytes": self.traffic.sent,
            "received_bytes": self.traffic.received,
        }

    async def _close(self, outcome: str, delivery: str, text: str | None) -> str | None:
        """Write the second record, and the first where it is missing. What went wrong, or None."""
        first = self._first if self._first is not None else self._opening()
        last = self._closing(outcome, delivery, text)
        failures = []
        for sink in self._audit.sinks:
            was_open = sink in self._opened
            records = [last] if was_open else [first, last]
            failure = await self._audit.flush_pending(sink, True) or await _tried(
                sink, records, True
            )
            if failure is None:
                continue
            failures.append(_why(sink, failure))
            if was_open and self._audit.refuses:
                sink.pending.append(last)
        if not failures:
            return None
        told = f"the audit record of this call could not be closed: {'; '.join(failures)}"
        _log.error("%s/%s: %s", *self._name, told)
        return told if self._audit.refuses else None

    def _delivery(self, error: BaseException) -> str:
        traffic = self.traffic
        if not traffic.sent or (isinstance(error, NotSent) and not traffic.answers):
            return "not_sent"
        answered = isinstance(error, McpError) and not isinstance(error, OutcomeUnknown | NotSent)
        return "answered" if answered else "unknown"

    def _text(self, error: BaseException) -> str | None:
        if isinstance(error, InvalidArguments | InvalidResult):
            return f"at {self._safe(error.path, 200) or 'the root'}"
        if not isinstance(error, McpError) or isinstance(error, InvalidSchema | CallDenied):
            return None
        return self._safe(error.message)

    def _safe(self, text: str, limit: int = 500) -> str:
        return self._audit.redaction.about(str(text), limit, self._hidden)


def _is_cancelled(error: BaseException) -> bool:
    return not isinstance(error, Exception | GeneratorExit) and isinstance(
        error, anyio.get_cancelled_exc_class()
    )


def _why(sink: _Sink, error: Exception) -> str:
    # Its class and not its text: an exception of somebody's own may quote what it was given.
    return error.reason if isinstance(error, AuditError) else f"{sink.name}: {type(error).__name__}"


def _digest(text: str) -> str:
    return "sha256:" + sha256(text)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _text_of(given: Any) -> str | None:
    try:
        return canonical({} if given is None else given)
    except NotJson:
        return None
    except Exception:  # noqa: BLE001 - an object of the caller's own may do anything
        return None


def _loads(text: str) -> Any:
    import json

    return json.loads(text)


def _marks_of(tool: Tool | None) -> Any:
    """The tool's input schema where it marks secrets, else None: looked for once."""
    return None if tool is None else tool.derived(_marked_schema, None)


def _marked_schema(tool: Tool, context: None) -> Any:
    schema = tool._definition["inputSchema"]
    return schema if marked(schema) else None
