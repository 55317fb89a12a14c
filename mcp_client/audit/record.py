"""The record of every call: opened before approval is asked for, closed on every way out.

```python
connect(server, audit="calls.jsonl")              # a path, or AuditLog(path, ...)
connect(server, audit=PostgresState(dsn).audit)   # a chain of lines in a database
connect(server, audit=records.append)             # a callable, sync or async
connect(server, audit=Audit(["calls.jsonl", tell_the_auditor], failure="warn"))
```

A call has two records with the same ``call``. In a file each is a line, with the members that
``hash_chain`` adds::

    {"time": "2026-07-28T09:00:00.000000Z", "event": "opened", "process": 4711,
     "call": "9f3a41c2-1",
     "arguments": {"location": "Oslo", "api_key": "[redacted]"}, "redacted": ["/api_key"],
     "arguments_digest": "hmac-sha256:...", "arguments_bytes": 52,
     "server": "weather", "tool": "get_weather", "context": "ana",
     "identity": "python hmac-sha256:...", "revision": "2026-07-28",
     "trusted": false, "fingerprint": "sha256:...", "findings": [],
     "facts": {"description": "The weather now.", "read_only": "no (assumed, ...)", ...}}
    {"time": "2026-07-28T09:00:04.100000Z", "event": "closed", "process": 4711,
     "call": "9f3a41c2-1", "asking_seconds": 3.9, "running_seconds": 0.2,
     "sent_bytes": 180, "received_bytes": 96,
     "server": "weather", "tool": "get_weather", "context": "ana",
     "decision": {"answer": "allow", "source": "person", "reason": null, "by": "bo",
                  "scope": "once"},
     "outcome": "ok", "delivery": "answered"}

The members that the calls of a tool mostly have alike come last: they are encoded once, and again
only when one of them changes.

``identity`` identifies the server: a command or a URL, and an HMAC of what may be secret in it,
under the key of the log, so that servers differ in all of it; without one under a key of this
process, so that they differ only among the records of one process. ``context`` is what the caller
gave as ``call_tool(context=...)``, and both records have its ``tag`` if ``call_tool(tag=...)`` was
given one. ``findings`` have ``kind`` and ``text``, and ``about`` if a value distinguishes two of a
kind (``Finding``); beyond 32, ``more_findings`` counts the rest. ``facts`` are the other things
that the approver is shown, by kind: a text, or a list of several (``ApprovalRequest.facts``).
``redacted`` are the JSON pointers of arguments that were left out. ``opened`` also has ``repeats``,
the attempt that this one follows, and ``origin``, "app" if a tool's view made the call and not the
host, "code" if a script did: then with ``script``, the id of its run, and which of its calls
(``script_call``) on which line of it (``script_line``) this is. Members that were not found out
(the tool is unknown, the arguments are not JSON) are null.

A call of which the server made a task (``start_tool``) is closed by whatever sees its end, which
may be another process: then ``closed`` has ``opened_by``, the process that opened it, and no
``decision``. A task whose end was not asked for stays open.

``closed`` has ``changed`` where the definition of the tool changed while approval was asked for:
its new ``fingerprint``, ``trusted`` and ``findings``; and ``edited`` where the approver changed the
arguments: the digests ``from`` and ``to``, the ``paths`` that differ, the new ``arguments``, and
``findings``, those that an approver who was asked about the edit was shown. It is there too if the
edited call was then refused. ``outcome`` is "ok", "tool_error" (the tool reports that it failed),
"Cancelled" (the task of the call was cancelled) or the class of the error, whose text is in
``error``. ``delivery`` is "not_sent" (nothing can have happened), "answered" or "unknown" (it may
have run). ``decision`` is null where there was no answer, and has ``by`` where the answer names a
person: with the source "memory", the one whose yes is remembered. An approval has its ``scope``,
how far it goes: "once", "script", "session" or "always". It has ``expires_at`` where the yes is for
more calls than this one, and ends then. An ``opened`` without its ``closed`` is a call that runs,
or whose process was killed.

Loading a skill, starting a server of a config file and using the host's model have two such
records, too, of which the second of a start and of a use reports what was decided: see
``entry_members``. So have reading a resource, getting a prompt and the run of a script. A call that
a model asked for and that was not made, because no tool has that name or its arguments are not
JSON, has them as a call that fails.

A third event, ``revoked``, is a remembered decision that was forgotten: its ``tool``,
``fingerprint``, ``scope``, ``context``, perhaps ``origin``, the time it was ``given`` and by whom
(``given_by``), and ``by`` whom it was revoked.

The first record is made once it is known which definition and which arguments the approver will be
asked about, for only the definition tells which arguments are secret. If it cannot be written, the
call is refused before approval is asked for (``CallDenied``, source "gate"); with
``Audit(failure="warn")`` it goes on and the failure is logged. A second record that cannot be
written takes nothing from the caller: the result is returned with a finding about it, and no call
is let through until that record could be written after all.

Arguments, reasons and error texts are shown as ``Audit(redaction=...)`` allows; texts that quote a
value which breaks a schema are replaced by its place. Results, and a server's requests for input,
are not recorded. ``arguments_digest`` is of the true arguments in canonical form: an HMAC under the
key of the log; without a key SHA-256, but where something was left out an HMAC under a key of this
process, for a short secret could be found by trying. A sync callable is called in place and must
not wait; an async one is awaited for at most ten seconds.

2026-07-28 ``server/tools`` (security): clients SHOULD log tool usage for audit purposes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import anyio

from ..catalog.call_values import CallOrigin
from ..runtime.safe_text import safe_text
from ..runtime.session_context import KnownSecrets
from .entry import AuditEntry
from .entry_members import About, EntryKind
from .hash_chain import now, timestamp
from .redaction import Redaction
from .sinks import Identity, Known, Members, Record, Sink

if TYPE_CHECKING:
    from ..approval.decisions import Decision
    from ..approval.gate import Gate
    from ..approval.request import ApprovalRequest
    from ..approval.script import Script

__all__ = ["SessionAudit"]

_CLOSING_SECONDS = 10.0
_MAX_NAME_CHARS = 256
_MAX_NAMES = 1_024


class SessionAudit:
    """A session's audit: the places of the records, and what they may show."""

    def __init__(
        self,
        server: str,
        sinks: Sequence[Sink],
        *,
        refuses: bool = True,
        redaction: Redaction | None = None,
        identity: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``refuses``: whether a call that cannot be recorded is refused.

        ``identity`` is asked once, when the first call is made: it costs a digest.
        """
        self.server = server
        self.sinks = sinks
        self.refuses = refuses
        self.redaction: Redaction = Redaction() if redaction is None else redaction
        self.clock = clock
        self.secrets: KnownSecrets = KnownSecrets()
        """The secrets that the server was given; ``connect`` sets it."""
        self._find_identity: Callable[[], str | None] | None = identity
        self._identity: Identity | None = None
        self._known: dict[str, Known] = {}
        self._under_way: set[object] = set()
        self._none_left: anyio.Event | None = None

    @property
    def identity(self) -> Identity | None:
        """The server's identity: a command or a URL, without secrets. None if unknown."""
        if self._find_identity is not None:
            found, self._find_identity = self._find_identity(), None
            self._identity = None if found is None else Identity(found)
        return self._identity

    def entry(
        self,
        id: str,
        name: str,
        arguments: Any,
        context: Hashable = None,
        origin: CallOrigin = "host",
        script: Script | None = None,
        tag: Any = None,
    ) -> AuditEntry:
        """Return the entry of one call. Nothing is written before ``open`` or its end."""
        return AuditEntry(self, About(id, "call", name, arguments, context, tag, origin, script))

    def entry_of(
        self,
        kind: EntryKind,
        id: str,
        subject: str,
        arguments: Any = None,
        context: Hashable = None,
        revision: str | None = None,
    ) -> AuditEntry:
        """Return the entry of something else. Nothing is written before ``open`` or its end."""
        return AuditEntry(self, About(id, kind, subject, arguments, context, revision=revision))

    def run(self, script: Script, context: Hashable, tag: Any = None) -> AuditEntry:
        """Return the entry of a script's run. Nothing is written before ``AuditEntry.open``."""
        about = About(script.id, "script", script.id, None, context, tag, "code", script)
        run = AuditEntry(self, about)
        run.counts = {"calls": 0, "output_chars": 0}
        run.sending()
        return run

    async def decide(self, gate: Gate, request: ApprovalRequest) -> None:
        """Have ``gate`` decide a start or a use of the model, and record it.

        Raises what ``gate`` does, and the request's refusal if it cannot be recorded.
        """
        kind, id, subject = request.kind, request.id, request.subject
        await self.entry_of(kind, id, subject, None, request.context).decided_by(gate, request)

    def known(self, subject: str) -> Known:
        """Return the shared part of the records about ``subject``: a tool, or something else."""
        known = self._known.get(subject)
        if known is None:
            known = Known(Redaction.text(self.redaction, str(subject), _MAX_NAME_CHARS), {})
            if len(self._known) < _MAX_NAMES:
                self._known[subject] = known
        return known

    def redacted_context(self, context: Hashable) -> Any:
        """Return a call's context as a record may show it; an object of the host is its type."""
        return None if context is None else Redaction.show(self.redaction, context).value

    def whose(self, context: Hashable, tag: Any) -> Members:
        """Return the members of records for the host's own words on a call."""
        whose = {"context": self.redacted_context(context)}
        return whose if tag is None else {**whose, "tag": self.redacted_context(tag)}

    def revoked(self, decisions: Iterable[Decision], by: str | None = None) -> None:
        """Record that decisions were forgotten, by ``by``. From any thread.

        The record is written at once if that needs no waiting, else before the next record.
        """
        records = [
            Record(
                f'"time":"{now()}","event":"revoked","process":{os.getpid()}',
                {
                    "server": self.server,
                    "tool" if decision.kind == "call" else decision.kind: self.known(
                        decision.subject
                    ).name,
                    "identity": self.identity,
                    "fingerprint": decision.fingerprint,
                    "scope": decision.scope,
                    "context": self.redacted_context(decision.context),
                    **({} if decision.origin == "host" else {"origin": decision.origin}),
                    "given": timestamp(decision.decided_at),
                    "given_by": self._redacted_person(decision.by),
                    "by": self._redacted_person(by),
                },
            )
            for decision in decisions
            if decision.server == self.server
        ]
        for sink in self.sinks if records else ():
            sink.offer(records)

    def _redacted_person(self, name: str | None) -> str | None:
        return None if name is None else Redaction.text(self.redaction, safe_text(name, 200), 220)

    def began(self, entry: object) -> None:
        """Note an entry that is open."""
        self._under_way.add(entry)

    def ended(self, entry: object) -> None:
        """Note an entry that is closed."""
        self._under_way.discard(entry)
        if self._none_left is not None and not self._under_way:
            self._none_left.set()

    async def closed(self) -> None:
        """Wait until the entries of calls that the session ended are closed, at most 10 seconds."""
        if not self._under_way:
            return
        if self._none_left is None or self._none_left.is_set():  # others may wait for it
            self._none_left = anyio.Event()
        with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
            await self._none_left.wait()

    async def flush(self) -> None:
        """Try to write what is pending when the session ends, and close all files.

        Pending are records that could not be written, and revocations.
        """
        for sink in self.sinks:
            if sink.has_pending:
                await sink.write()
            sink.close()
