"""The two records of loading a skill.

As those of a call (see ``record``), but ``tool`` is null, and ``skill`` is the URI of its SKILL.md.
``opened`` has the ``fingerprint`` of the skill (``SkillRequest.digest``), the number of its
``files`` and their ``bytes``, in place of what is said of arguments; null where its content is
dynamic or nothing was found out. ``outcome`` is "ok" where the skill was verified and handed over.
Reading another file of a skill that was loaded makes no record.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..approval.skill_request import SkillRequest
from ..catalog.finding import Finding
from ..connection.rpc import Traffic
from .entry import Entry, Recorder
from .sinks import Record

__all__ = ["SkillLoad"]


class SkillLoad(Entry):
    """In order: ``open_load``, ``asking``, ``allowed``, ``sending``, and ``loaded`` or ``failed``.
    A step that is left out has not happened."""

    def __init__(self, audit: Recorder, id: str, uri: str, *, context: Hashable = None) -> None:
        super().__init__(audit, id, uri, None, context=context)
        self._request: SkillRequest | None = None

    @property
    def counted(self) -> Traffic:
        """Counts what is sent and received for the load."""
        return self.traffic

    def under(self, revision: str) -> None:
        """The revision that the session speaks."""
        self._revision = revision

    async def open_load(self, request: SkillRequest) -> None:
        """Write that ``request`` will be decided. Raises ``CallDenied`` where that must not be."""
        self._request = request
        await self._open()

    def allowed(
        self, source: str, reason: str | None, by: str | None, expires_at: float | None
    ) -> None:
        self._allowed(source, reason, by, expires_at)

    async def loaded(self) -> tuple[Finding, ...]:
        """Close it. Returns what could not be recorded, for the caller to be told."""
        return self._not_recorded(await self._close("ok", "answered", None))

    def _about(self, event: str) -> Record:
        return {**super()._about(event), "tool": None, "skill": self._name[1]}

    def _opening(self) -> Record:
        request = self._request
        return self._about("opened") | {
            "identity": self._audit.identity,
            "context": self._audit.shown_context(self._context),
            "revision": self._revision,
            "fingerprint": None if request is None else request.digest,
            "files": None if request is None or request.dynamic else len(request.files),
            "bytes": None if request is None else request.size,
            **self._shown_findings(() if request is None else request.findings),
            **({} if request is None else {"facts": self._shown_facts(request)}),
        }
