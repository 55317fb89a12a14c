"""The calls that scripts of a model make through a host (code mode)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from ..catalog.result import ToolResult
from ..connection.call_options import CallOptions
from ..errors import McpError
from ..runtime.limits import Timeouts
from .options import SharedOptions
from .tools import HostTools

if TYPE_CHECKING:
    from ..approval.script import Script
    from ..audit.entry import AuditEntry
    from ..session.session import Session
    from .directory import Entry

__all__ = ["ScriptsOfHost"]


class ScriptsOfHost(ABC):
    """The part of ``Host`` that scripts use."""

    _tools: HostTools
    _options: SharedOptions

    @property
    def _timeouts(self) -> Timeouts:
        return self._options.timeouts

    @property
    def _has_journal(self) -> bool:
        return self._options.has_state

    @property
    @abstractmethod
    def sessions(self) -> Mapping[str, Session]: ...

    @abstractmethod
    async def _find_or_record(
        self, name: str, arguments: Any, options: CallOptions
    ) -> tuple[Entry, Session]: ...

    def _end_run(self, script: str) -> None:
        """A run of a script is over."""
        for session in self.sessions.values():
            session._end_run(script)

    def _run_record(self, script: Script, context: Hashable, tag: Any = None) -> AuditEntry | None:
        """The record of a script's run, where there is an audit. It is of no one server."""
        audit = self._options.audit_of("")
        return None if audit is None else audit.run(script, context, tag)

    async def _call_as_code(
        self, name: str, arguments: Mapping[str, Any] | None, options: CallOptions, script: Script
    ) -> ToolResult:
        """A call that a script of a model makes, of the tool of that qualified name."""
        entry, session = await self._find_or_record(name, arguments, options)
        try:
            return await session._call_as_code(entry.tool_name, arguments, options, script)
        except McpError as error:
            await self._tools.failed(name, entry, error)
            raise
