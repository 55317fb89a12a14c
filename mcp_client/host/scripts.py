"""The calls that scripts of a model make through a host (code mode)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..catalog.result import ToolResult
from ..connection.call_options import CallOptions
from ..errors import McpError
from ..session.session_options import ForScripts
from .options import SharedOptions
from .tools import HostTools

if TYPE_CHECKING:
    from ..approval.script import Script
    from ..runtime.storage import Storage
    from ..session.session import Session
    from .directory import Entry

__all__ = ["ScriptsOfHost"]


class ScriptsOfHost(ABC):
    """The part of ``Host`` that scripts use."""

    _tools: HostTools
    _options: SharedOptions

    @property
    @abstractmethod
    def sessions(self) -> Mapping[str, Session]: ...

    @abstractmethod
    async def _find_or_record(
        self, name: str, arguments: Any, options: CallOptions
    ) -> tuple[Entry, Session]: ...

    @property
    @abstractmethod
    def _paused_in(self) -> Storage | None: ...

    @property
    def _shown_instructions(self) -> dict[str, str]:
        return self._tools.instructions

    @property
    def _for_scripts(self) -> ForScripts:
        options = self._options
        audit = options.audit_of("")  # of no one server
        of_calls = audit, options.has_state, self._paused_in, self._call_as_code, self._end_run
        return ForScripts(options.limits, options.timeouts, *of_calls)

    def _end_run(self, script: str) -> None:
        for session in self.sessions.values():
            session._for_scripts.end_run(script)

    async def _call_as_code(
        self, name: str, arguments: Mapping[str, Any] | None, options: CallOptions, script: Script
    ) -> ToolResult:
        """Return a call that a script of a model makes, of the tool of that qualified name."""
        entry, session = await self._find_or_record(name, arguments, options)
        try:
            return await session._call_as_code(entry.tool_name, arguments, options, script)
        except McpError as error:
            await self._tools.failed(name, entry, error)
            raise
