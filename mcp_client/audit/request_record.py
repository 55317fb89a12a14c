"""The two records of what is not a call: a skill, a start, a use of the model, and a read.

As those of a call (see ``record``), but ``tool`` is null, and a member named as the kind of the
request has its subject: ``skill`` the URI of its SKILL.md, ``start`` the command line or URL, and
``sampling`` the model that is asked for. In place of what is said of arguments, ``opened`` has the
``fingerprint``, and for a skill the number of its ``files`` and their ``bytes``; null where its
content is dynamic or nothing was found out. That of a start or a use of the model covers values
that may be secret, and is there as an HMAC under the log's key, or a key of the process. Values
that a project's file has itself for variables and headers are left out, but not their names.

Loading a skill is closed when it is over: ``outcome`` is "ok" where it was verified and handed
over. Reading another file of a skill that was loaded makes no record.

A start and a use of the model are closed when they are decided, before anything is done: the
outcome "ok" says that it was allowed, and ``closed`` has nothing of what was sent, nor how long it
took. What is made of the yes is not recorded. If either record cannot be written, the answer is no,
unless ``Audit(failure="warn")``; where several places are given and one of them has the yes
already, another ``closed`` follows there, which says so.

Reading a resource and getting a prompt have such records, too, but no one is asked, so ``decision``
is null; ``resource`` is the URI that is read, or ``prompt`` the name of the prompt. ``opened`` has
the ``arguments`` of a prompt as those of a call; null for a resource. A read that cannot be
recorded is refused, unless ``Audit(failure="warn")``. Lists, completions and the files of a skill
that was loaded make no record.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal, TypeVar

from ..approval.decision import Verdict
from ..approval.gate import Gate
from ..approval.request import ApprovalRequest, RequestKind
from ..catalog.finding import Finding
from ..errors import McpError
from .call_record import MAX_FACT_CHARS, CallRecord
from .sinks import Digested, Record, Recorder

__all__ = ["ReadRecord", "RequestRecord"]

R = TypeVar("R", bound=ApprovalRequest)

_OF_WHAT_WAS_SENT = ("delivery", "running_seconds", "sent_bytes", "received_bytes")


class RequestRecord(CallRecord):
    """In order: ``open_request``, ``asking``, ``allowed``, ``sending``, and ``over`` or ``failed``.
    A step that is left out has not happened."""

    def __init__(
        self,
        audit: Recorder,
        id: str,
        kind: RequestKind,
        subject: str,
        *,
        context: Hashable = None,
    ) -> None:
        super().__init__(audit, id, subject, None, context=context)
        self._kind = kind
        self._request: ApprovalRequest | None = None

    def under(self, revision: str) -> None:
        """The revision that the session speaks."""
        self._revision = revision

    async def open_request(self, request: ApprovalRequest) -> None:
        """Write that ``request`` will be decided. Raises its refusal where that must not be."""
        self._request, self._origin = request, request.origin
        await self._open()

    def allowed(self, verdict: Verdict[R]) -> None:
        about = verdict.source, verdict.reason, verdict.by, verdict.expires_at, verdict.scope
        self._allowed(*about)

    async def over(self) -> tuple[Finding, ...]:
        """Close it. Returns what could not be recorded, for the caller to be told."""
        return self._not_recorded(await self._close("ok", "answered", None))

    async def decided_by(self, gate: Gate, request: R) -> None:
        """Open it, have ``gate`` decide, and close it. Raises what the gate does."""
        try:
            await self.open_request(request)
            self.asking()
            self.allowed(await gate.decide(request))
            failure = await self._close("ok", "not_sent", None)
            if failure is not None:
                raise self._refusal(failure)
        except BaseException as error:
            await self.failed(error)
            raise

    def _refusal(self, reason: str) -> McpError:
        if self._request is None:
            return super()._refusal(reason)
        return self._request.refusal(f"{reason} (Audit(failure=...))", reason=reason)

    def _about(self, event: str) -> Record:
        return {
            **super()._about(event),
            "tool": None,
            self._kind: self._safe(self._asked, MAX_FACT_CHARS),
        }

    def _opening(self) -> Record:
        request = self._request
        record = self._about("opened")
        if self._origin != "host":
            record["origin"] = self._origin
        record |= {
            "identity": self._audit.identity,
            "context": self._audit.shown_context(self._context),
            "revision": self._revision,
            "fingerprint": None if request is None else request.fingerprint,
        }
        if self._kind != "skill" and request is not None:  # it covers values that may be secret
            record["fingerprint"] = Digested(request.fingerprint or "", has_secrets=True)
        if request is not None:
            record |= request._recorded
        elif self._kind == "skill":
            record |= {"files": None, "bytes": None}
        record |= self._shown_findings(() if request is None else request.findings)
        if request is not None:
            record["facts"] = self._shown_facts(request._without_values())
        return record

    def _closing(self, outcome: str, delivery: str, text: str | None) -> Record:
        record = super()._closing(outcome, delivery, text)
        for name in () if self._kind == "skill" else _OF_WHAT_WAS_SENT:
            del record[name]
        return record


class ReadRecord(CallRecord):
    """In order: ``open_read``, ``sending``, and ``done_reading`` or ``failed``."""

    def __init__(
        self,
        audit: Recorder,
        id: str,
        kind: Literal["resource", "prompt"],
        name: str,
        *,
        arguments: Any,
        context: Hashable,
        revision: str | None,
    ) -> None:
        super().__init__(audit, id, name, arguments, context=context)
        self._kind = kind
        self._revision = revision

    async def open_read(self) -> None:
        """Write that it will be read. Raises ``CallDenied`` where that must not be."""
        await self._open()

    async def done_reading(self) -> None:
        await self._close("ok", "answered", None)

    def _about(self, event: str) -> Record:
        return {**super()._about(event), "tool": None, self._kind: self._name[1]}

    def _opening(self) -> Record:
        record = super()._opening()
        for name in ("trusted", "fingerprint", "findings"):
            record.pop(name, None)
        if self._kind == "resource":
            record |= {"arguments": None, "arguments_digest": None, "arguments_bytes": None}
        return record
