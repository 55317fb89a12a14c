"""The two records of the run of a script (code mode), beside those of each call that it makes.

As those of a call (see ``record``), but ``tool`` is null, and ``script`` is the id of the run, as
in the records of its calls. ``opened`` has ``code_digest`` and ``code_bytes``; ``code`` itself,
redacted as any text is, only where the log is an ``AuditLog(code=True)``. A run that was paused and
goes on is opened once more, with ``resumed``. ``closed`` has the ``outcome``: "ok", "script_error"
for an exception that the script did not catch, "paused", the name of the limit that ended it
("script_calls", "script_memory", "script_output", "script"), or the class of the error; ``calls``,
how many it made, ``output_chars``, and ``running_seconds``.

What a script prints and returns is not recorded. A run that cannot be recorded is refused, unless
``Audit(failure="warn")``.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ..approval.script import Script
from ..catalog.finding import Finding
from .call_record import CallRecord
from .sinks import Digested, Record, Recorder

__all__ = ["RunRecord"]

_MAX_CODE_CHARS = 256 * 1024
_OF_ONE_CALL = ("decision", "delivery", "asking_seconds", "sent_bytes", "received_bytes")


class RunRecord(CallRecord):
    """In order: ``open_run``, and ``over`` or ``failed``."""

    def __init__(self, audit: Recorder, script: Script, context: Hashable, tag: Any = None) -> None:
        super().__init__(audit, script.id, script.id, None, context=context, origin="code")
        self.tag = tag
        self._of = script
        self._is_resumed = False
        self.calls = 0
        """How many it has made."""
        self.output_chars = 0
        """Characters of what it printed and returned."""

    async def open_run(self, *, resumed: bool = False) -> None:
        """Write that it begins, or goes on. Raises ``CallDenied`` where that must not be."""
        self._is_resumed = resumed
        self.sending()
        await self._open()

    async def over(self, outcome: str = "ok", error: str | None = None) -> tuple[Finding, ...]:
        """Close it; ``error`` is a short text, such as the type of an exception. Returns what could
        not be recorded."""
        text = None if error is None else self._safe(error)
        return self._not_recorded(await self._close(outcome, "answered", text))

    def _about(self, event: str) -> Record:
        return {**super()._about(event), "tool": None, "script": self._name[1]}

    def _opening(self) -> Record:
        code = self._of.code
        record = self._about("opened") | {
            "origin": "code",
            "identity": self._audit.identity,
            **self._audit.whose(self._context, self.tag),
            "code_digest": Digested(code, has_secrets=False),
            "code_bytes": len(code.encode("utf-8", "surrogatepass")),
            "code": self._safe(code, _MAX_CODE_CHARS),
        }
        return record | ({"resumed": True} if self._is_resumed else {})

    def _closing(self, outcome: str, delivery: str, text: str | None) -> Record:
        record = super()._closing(outcome, delivery, text)
        for name in _OF_ONE_CALL:
            del record[name]
        return record | {"calls": self.calls, "output_chars": self.output_chars}
