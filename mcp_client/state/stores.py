"""What stands on a state: ``state.tokens`` and its like.

The one file that imports from rooms above its own, and only when an attribute is asked for: a state
is kept below them, and hands them out.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from ..approval.decisions import Decisions
    from ..audit.log_file import AuditLog
    from ..auth.store import TokenStore
    from ..catalog.pins import Pins

__all__ = ["Stores"]


class Stores:
    """The attributes that every ``State`` has."""

    @cached_property
    def decisions(self) -> Decisions:
        """Remembered answers, confirmed starts and tickets, for ``connect(decisions=...)``."""
        from ..approval.decisions import Decisions

        state: Any = self
        return Decisions(state)

    @cached_property
    def audit(self) -> AuditLog | None:
        """The record of every call, for ``connect(audit=...)``; None where the state has no place
        for one."""
        file = self._audit_file()
        if file is None:
            return None
        from ..audit.log_file import AuditLog

        return AuditLog(file)

    def _audit_file(self) -> Path | None:
        return None

    @cached_property
    def pins(self) -> Pins:
        """Tool definitions as they were reviewed, for ``connect(pins=...)``."""
        from ..catalog.pins import Pins

        state: Any = self
        return Pins(state)

    @cached_property
    def tokens(self) -> TokenStore:
        """Tokens and clients of logins, for ``OAuth(store=...)``."""
        from ..auth.store import TokenStore

        state: Any = self
        return TokenStore(state)
