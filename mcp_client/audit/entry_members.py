"""The members of the audit records ``opened`` and ``closed``, by the kind of the entry.

``record`` describes the records of a call; those of another kind differ in this. ``tool`` is null,
and a member named as the kind has the subject.

A **skill** (the URI of its SKILL.md), a **start** (the command line or URL) and a use of the host's
model (**sampling**: the model that is asked for): in place of what is reported of arguments,
``opened`` has the ``fingerprint``, and for a skill the number of its ``files`` and their ``bytes``;
null where its content is dynamic or nothing was found out. The fingerprint of a start or a use of
the model covers values that may be secret, and is an HMAC under the log's key, or a key of the
process. Values that a project's file has itself for variables and headers are left out, but not
their names.

Loading a skill is closed when it is over: ``outcome`` is "ok" if it was verified and returned.
Reading another file of a skill that was loaded makes no record.

A start and a use of the model are closed when they are decided, before anything is done: the
outcome "ok" means that it was allowed, and ``closed`` has nothing of what was sent, nor how long it
took. What is made of the approval is not recorded. If either record cannot be written, the request
is denied, unless ``Audit(failure="warn")``; if several places are given and one of them has the
approval already, another ``closed`` follows there, which reports the denial.

Reading a **resource** (its URI) and getting a **prompt** (its name): no one is asked, so
``decision`` is null. ``opened`` has the ``arguments`` of a prompt as those of a call; null for a
resource. A read that cannot be recorded is refused, unless ``Audit(failure="warn")``. Lists,
completions and the files of a skill that was loaded make no record.

The run of a **script** (code mode; the id of the run, as in the records of its calls): ``opened``
has ``code_digest`` and ``code_bytes``; ``code`` itself, redacted as any text is, only if the log is
an ``AuditLog(code=True)``. A run that was paused and goes on is opened again, with ``resumed``.
``closed`` has the ``outcome``: "ok", "script_error" for an exception that the script did not catch,
"paused", the name of the limit that ended it ("script_calls", "script_memory", "script_output",
"script"), or the class of the error; ``calls``, how many it made, ``output_chars``, and
``running_seconds``. What a script prints and returns is not recorded. A run that cannot be recorded
is refused, unless ``Audit(failure="warn")``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable
from functools import partial
from json.encoder import encode_basestring_ascii
from typing import Any, Literal, NamedTuple, TypeAlias

from ..approval.request import ApprovalRequest, Fact, RequestKind
from ..approval.script import Script
from ..approval.tool_call import ToolCall
from ..catalog.call_values import CallOrigin
from ..catalog.finding import Finding
from ..catalog.tool import Tool
from ..connection.rpc import Traffic
from .hash_chain import now
from .redacted_content import (
    MAX_ARGUMENTS_CHARS,
    differing_paths,
    need_no_redaction,
    redacted_arguments,
    text_of,
)
from .sinks import Digested, Members, Record, Recorder, Shared

__all__ = ["About", "EntryKind", "EntryMembers"]

EntryKind: TypeAlias = RequestKind | Literal["resource", "prompt", "script"]
"""The kind of an entry: a request for approval, a read, or the run of a script."""

_MAX_FACT_CHARS = 10_000
_MAX_FACTS = 200  # of one kind
_MAX_FACTS_BYTES = 256 * 1024
"""Bytes of all facts of a record, as JSON: a line of a log has a limit, too."""
_MAX_CODE_CHARS = 256 * 1024
_MAX_FINDINGS = 32
_IN_OTHER_MEMBERS = frozenset(
    (
        *("server", "subject", "arguments", "finding", "fingerprint"),
        *("script", "script_line", "script_calls"),
    )
)
"""Facts that are members of a record already."""
_SOURCES = frozenset({"hook", "person", "rule", "memory", "gate"})


class About(NamedTuple):
    """The subject of an entry, known when it is made."""

    id: str
    kind: EntryKind
    subject: str
    """The name of the tool or the prompt, a URI, a command line, a model or the id of a run."""
    arguments: Any = None
    """The arguments that the caller gave."""
    context: Hashable = None
    tag: Any = None
    origin: CallOrigin = "host"
    script: Script | None = None
    """The script that makes the call, or whose run this is."""
    repeats: str | None = None
    """The id of the attempt that this one follows."""
    revision: str | None = None


class EntryMembers:
    """The data of one entry so far, and its two records made of them."""

    _request: ApprovalRequest | None = None
    _tool: Tool | None = None
    _is_resumed = False
    _is_unread = False
    _wrong: Finding | None = None
    _place = "the whole value"
    _opened_by: int | None = None
    _decision: Members | None = None
    _edited: Members | None = None
    _changed: Members | None = None
    _digest: Digested | None = None
    _asked_at: float | None = None
    _answered_at: float | None = None
    _sent_at: float | None = None
    counts: Members = {}  # noqa: RUF012 - replaced, never changed
    """The additional members of ``closed``, for a script's run."""

    def __init__(self, audit: Recorder, about: About) -> None:
        self.about: About = about
        self.id: str = about.id
        self.traffic: Traffic = Traffic()
        self._audit = audit
        self._known = audit.known(about.subject)
        self._revision = about.revision
        self._hidden: list[str] = []

    @property
    def _name(self) -> tuple[str, str]:
        """The names of the server and of the subject, for a log."""
        return self._audit.server, self._known.name

    def _opening(self) -> Record:
        about, audit = self.about, self._audit
        request = self._request
        own: Members = {}
        if about.repeats is not None:
            own["repeats"] = about.repeats
        origin = about.origin if request is None else request.origin
        if origin != "host":
            own["origin"] = origin
        if about.kind == "call":
            if about.script is not None:
                own |= about.script.recorded()
            return self._opening_of_call(own)
        own |= self._subject()
        own["identity"] = audit.identity
        own |= audit.whose(about.context, about.tag)
        for part in _OPENED[about.kind]:
            own |= part(self)
        return Record(self._head("opened"), own)

    def _opening_of_call(self, own: Members) -> Record:
        request, head, digest = self._request, self._head("opened"), None
        text = "" if request is None else request.arguments_json
        if text and need_no_redaction(self._audit.redaction, self._audit.secrets, text, self._tool):
            digest = self._digest = Digested(text, has_secrets=False)
            head = f'{head},"arguments":{text},"redacted":[],"arguments_bytes":{len(text)}'
        else:
            own |= self._arguments()
            self._digest = own["arguments_digest"]
        return Record(head, own, self._of_definition(), digest)

    def _closing(self, outcome: str, delivery: str, text: str | None) -> Record:
        about, end = self.about, self._audit.clock()
        own: Members = {}
        if self._changed is not None:
            own["changed"] = self._changed
        if self._edited is not None:
            own["edited"] = self._edited
        if text is not None:
            own["error"] = text
        answered = end if self._answered_at is None else self._answered_at
        head = _CLOSED.get(about.kind, _ALL_CLOSED) % {
            "head": self._head("closed"),
            "asking": _seconds(self._asked_at, answered),
            "running": _seconds(self._sent_at, end),
            "sent": self.traffic.sent,
            "received": self.traffic.received,
        }
        ended = self._decision, self._opened_by, outcome, delivery
        if about.kind == "call":
            return Record(head, own, self._shared("closed", ended, partial(self._of_end, *ended)))
        own |= {**self._subject(), **self._audit.whose(about.context, about.tag)}
        own |= self._of_end(*ended)
        for name in _NOT_CLOSED.get(about.kind, ()):
            del own[name]
        return Record(head, own | self.counts)

    def _head(self, event: str) -> str:
        """Return the members that all records have, as JSON text."""
        id = encode_basestring_ascii(self.id)
        return f'"time":"{now()}","event":"{event}","process":{os.getpid()},"call":{id}'

    def _subject(self) -> Members:
        kind, name = self.about.kind, self._known.name
        if kind in _REQUESTS:
            name = self._safe(self.about.subject, _MAX_FACT_CHARS)
        return {"server": self._audit.server, "tool": None, kind: name}

    def _of_definition(self) -> Shared:
        """Return the members of ``opened`` that most calls of a tool have alike."""
        request = self._request
        key: Any = None
        if (
            isinstance(request, ToolCall)
            and not (self._hidden or self._wrong or request.meta_json or request.drift)
            and not (request.edited or request.origin != "host")
        ):
            key = self._tool, self._revision, request.findings, self._audit.secrets.count
        return self._shared("opened", key, self._of_tool)

    def _shared(self, event: str, key: Any, members: Callable[[], Members]) -> Shared:
        """Return members of a call's record: the last ones if ``key`` and context are the same."""
        shared, about = self._known.shared, self.about
        is_cached = key is not None and about.tag is None and type(about.context) in _COMPARED
        key = key, about.context
        if is_cached and event in shared:
            before, found = shared[event]
            if before == key:
                return found
        names = {"server": self._audit.server, "tool": self._known.name}
        whose = self._audit.whose(about.context, about.tag)
        found = Shared({**names, **whose, **members()})
        if is_cached:
            shared[event] = key, found
        return found

    def _of_end(
        self, decision: Members | None, opened_by: int | None, outcome: str, delivery: str
    ) -> Members:
        decided = {"decision": decision} if opened_by is None else {"opened_by": opened_by}
        return {**decided, "outcome": outcome, "delivery": delivery}

    # -------------------------------------------------------- the parts of ``opened``

    def _in_force(self) -> Members:
        return {"revision": self._revision}

    def _of_tool(self) -> Members:
        tool = self._tool
        return {
            "identity": self._audit.identity,
            "revision": self._revision,
            "trusted": None if tool is None else tool.trusted,
            "fingerprint": None if tool is None else tool.fingerprint,
            **self._seen(),
        }

    def _arguments(self) -> Members:
        request, arguments = self._request, self.about.arguments
        text = text_of(arguments) if request is None else request.arguments_json
        size = None if text is None else _size(text)
        return {**self._redacted_arguments(text, arguments), "arguments_bytes": size}

    def _no_arguments(self) -> Members:
        nothing = dict.fromkeys(("arguments", "arguments_digest", "arguments_bytes"))
        return {**nothing, "redacted": []}

    def _content(self) -> Members:
        """Return the version of a skill that is asked about."""
        request = self._request
        if request is None:
            return dict.fromkeys(("fingerprint", "files", "bytes"))
        return {"fingerprint": request.fingerprint, **request._recorded}

    def _secret_fingerprint(self) -> Members:
        request = self._request
        if request is None:
            return {"fingerprint": None}
        digested = Digested(request.fingerprint or "", has_secrets=True)
        return {"fingerprint": digested, **request._recorded}

    def _seen(self) -> Members:
        """Return the part that the approver is shown."""
        request = self._request
        if request is None:
            return self._redacted_findings(() if self._wrong is None else (self._wrong,))
        return {**self._redacted_findings(request.findings), "facts": self._facts(request)}

    def _code(self) -> Members:
        script = self.about.script
        code = "" if script is None else script.code
        record = {
            "code_digest": Digested(code, has_secrets=False),
            "code_bytes": _size(code),
            "code": self._safe(code, _MAX_CODE_CHARS),
        }
        return {**record, "resumed": True} if self._is_resumed else record

    # ------------------------------------------------------------ what may be shown

    def _facts(self, request: ApprovalRequest) -> Members:
        """Return the facts of it that other members do not have."""
        found: dict[str, list[str]] = {}
        left = _MAX_FACTS_BYTES
        for fact in request._without_values().facts():
            if fact.kind in _IN_OTHER_MEMBERS:
                continue
            texts = found.setdefault(fact.kind, [])
            if len(texts) < _MAX_FACTS:
                redacted = self._redacted_fact(fact)
                left -= (size := len(json.dumps(redacted)))
                if left < 0:
                    left, redacted = left + size, f"[left out: {len(fact.text)} characters]"
                texts.append(redacted)
            elif len(texts) == _MAX_FACTS:
                texts.append("and more")
        return {kind: texts if texts[1:] else texts[0] for kind, texts in found.items()}

    def _redacted_fact(self, fact: Fact) -> str:
        if not fact.is_json:
            return self._safe(fact.text, _MAX_FACT_CHARS)
        redacted = self._audit.redaction.show(json.loads(fact.text))
        self._hidden += redacted.hidden
        return self._safe(json.dumps(redacted.value, ensure_ascii=False), _MAX_FACT_CHARS)

    def _redacted_findings(self, findings: tuple[Finding, ...]) -> Members:
        record: Members = {"findings": list(map(self._redacted_finding, findings[:_MAX_FINDINGS]))}
        if len(findings) > _MAX_FINDINGS:
            record["more_findings"] = len(findings) - _MAX_FINDINGS
        return record

    def _redacted_finding(self, finding: Finding) -> Members:
        about, text = self._safe(finding.about, 200), finding.text
        if finding.kind == "broken_arguments":  # the sentence quotes an argument
            text = f"the arguments break the tool's input schema at {self._place}"
        elif finding.kind == "unchecked_arguments" and not finding.about:  # of these arguments
            text = "the arguments could not be checked against the tool's input schema"
        redacted = {"kind": finding.kind, "text": self._safe(text)}
        return {**redacted, "about": about} if about else redacted

    def _redacted_arguments(self, text: str | None, arguments: Any) -> Members:
        """Return the arguments as a record may show them.

        They are of ``text`` if there is one, else of ``arguments``.
        """
        audit = self._audit
        about = self._tool, self._is_unread
        redacted = redacted_arguments(audit.redaction, audit.secrets, text, arguments, *about)
        self._hidden += redacted.hidden
        has_secrets = bool(redacted.hidden or redacted.pointers)
        return {
            "arguments": redacted.value,
            "redacted": redacted.pointers,
            "arguments_digest": None if text is None else Digested(text, has_secrets),
        }

    def _paths(self, before: str | None, after: str) -> list[str]:
        """Return JSON pointers to the arguments that the approver changed."""
        if before is None or len(before) + len(after) > MAX_ARGUMENTS_CHARS:
            return [""]
        paths = differing_paths(json.loads(before), json.loads(after))
        return [self._safe(path, 200) for path in paths]

    def _safe(self, text: str, limit: int = 500) -> str:
        if text in _SOURCES:
            return text
        return self._audit.redaction.about(self._audit.secrets.text(str(text)), limit, self._hidden)


_REQUESTS = "skill", "start", "sampling"
_Part: TypeAlias = Callable[[EntryMembers], Members]
_every = EntryMembers
_OPENED: dict[EntryKind, tuple[_Part, ...]] = {
    "skill": (_every._in_force, _every._content, _every._seen),
    "start": (_every._in_force, _every._secret_fingerprint, _every._seen),
    "sampling": (_every._in_force, _every._secret_fingerprint, _every._seen),
    "resource": (_every._in_force, _every._no_arguments),
    "prompt": (_every._in_force, _every._arguments),
    "script": (_every._code,),
}
"""The parts of ``opened`` that follow those which all kinds have."""
_NOT_CLOSED: dict[str, tuple[str, ...]] = {
    "start": ("delivery",),
    "sampling": ("delivery",),
    "script": ("decision", "delivery"),
}
"""The members that ``closed`` of a kind does not have."""
_ALL_CLOSED = (
    '%(head)s,"asking_seconds":%(asking)s,"running_seconds":%(running)s'
    ',"sent_bytes":%(sent)d,"received_bytes":%(received)d'
)
_CLOSED = {
    "start": '%(head)s,"asking_seconds":%(asking)s',
    "sampling": '%(head)s,"asking_seconds":%(asking)s',
    "script": '%(head)s,"running_seconds":%(running)s',
}
"""The JSON text that ``closed`` of a kind begins with, if it is not ``_ALL_CLOSED``."""
_COMPARED = frozenset({str, int, type(None)})
"""The types of a context by which members of records are found again."""


def _seconds(began: float | None, end: float) -> str:
    return "null" if began is None else f"{end - began:.6f}"


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
