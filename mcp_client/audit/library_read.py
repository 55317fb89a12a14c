"""The two records of reading a resource or getting a prompt.

As those of a call (see ``record``), but nobody is asked, so ``decision`` is null; ``tool`` is null
as well, and ``resource`` is the URI that is read, or ``prompt`` the name of the prompt. ``opened``
has the ``arguments`` of a prompt as those of a call; null for a resource. A read that cannot be
recorded is refused, unless ``audit_failure="warn"``. Lists, completions and the files of a skill
that was loaded make no record.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

from .entry import Entry, Recorder
from .sinks import Record

__all__ = ["LibraryRead"]


class LibraryRead(Entry):
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
