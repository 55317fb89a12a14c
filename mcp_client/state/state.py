"""The protocol of a state, and the state in memory."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..runtime.storage import MemoryStorage, Storage

if TYPE_CHECKING:
    from ..approval.decisions import Decisions
    from ..audit.database_log import DatabaseLog
    from ..audit.log_file import AuditLog
    from ..auth.store import TokenStore
    from ..catalog.pins import Pins
    from .calls import Calls

__all__ = ["MemoryState", "State", "check_kind", "checked_keep"]

_KIND = re.compile(r"[a-z][a-z_]{0,60}")


class State(Storage):
    """A store of decisions, pins, tokens and the audit: JSON objects, each found by kind and key.

    A state on another engine is a class with the methods ``get``, ``change``, ``list`` and
    ``stamp``. Each may be called from any thread, and by many processes that share the state, and
    raises ``ConfigError`` if the state cannot be used.
    """

    keep: float = 7 * 86_400.0
    """The seconds for which ``calls`` stores the results of calls."""

    # Imported when they are asked for: a session with a state of its own seldom needs all five.

    @cached_property
    def decisions(self) -> Decisions:
        """The remembered decisions, confirmed starts and tickets: for ``ApprovalQueue``, too."""
        from ..approval.decisions import Decisions

        return Decisions(self)

    @cached_property
    def pins(self) -> Pins:
        """Tool definitions as they were reviewed, for ``connect(pins=...)``."""
        from ..catalog.pins import Pins

        return Pins(self)

    @cached_property
    def tokens(self) -> TokenStore:
        """Tokens and clients of logins, for ``OAuth(store=...)``."""
        from ..auth.store import TokenStore

        return TokenStore(self)

    @cached_property
    def calls(self) -> Calls:
        """The journal of calls that have an ``idempotency_key``."""
        from .calls import Calls

        return Calls(self, keep=self.keep)

    @cached_property
    def audit(self) -> AuditLog | DatabaseLog | None:
        """The record of every call, for ``connect(audit=...)``.

        None if the state has no place for one.
        """
        return None


class MemoryState(MemoryStorage, State):
    """A state in memory, without an audit. Sessions and hosts that use it share it.

    Results of calls with an ``idempotency_key`` are stored for ``keep`` seconds, a week by default.
    """

    def __init__(self, *, keep: float = State.keep) -> None:
        super().__init__()
        self.keep: float = checked_keep(keep)


def check_kind(kind: str) -> str:
    """Return ``kind``, if it is the name of a kind. Raises ``ConfigError``."""
    if not _KIND.fullmatch(kind):
        raise ValueError(f"{kind!r} is not a kind: give a word of a to z and _")
    return kind


def checked_keep(keep: float) -> float:
    """Raise ``ConfigError`` for what is not a number of seconds."""
    if type(keep) not in (int, float) or not 0 < keep < float("inf"):
        raise ConfigError(f"keep={keep!r}: give seconds above 0")
    return keep
