"""From what a ``Host`` is given to the session of one of its servers.

The options are those of ``connect``, for all servers; a ``ServerConfig`` overrides some of them.
What is one for all is made once: the state, the audit log, the lock file of pins, the decisions.
"""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict

from ..approval.decision import ApprovalHook, Policy
from ..approval.decisions import Decisions
from ..catalog.trust import Trust
from ..errors import ConfigError, McpError
from ..extensions.extension import Extension
from ..protocol.capabilities import Implementation
from ..runtime.limits import Limits, Timeouts
from ..session.connect import connect
from ..session.kept import kept_in
from ..session.retry import Retry
from ..session.session import Session
from ..session.tool_validation import Strictness
from .server_config import ServerConfig

if TYPE_CHECKING:
    from ..audit import AuditTo, OnAuditFailure, Redaction
    from ..catalog.pins import Pins
    from ..handlers.handlers import Handlers
    from ..state import State

__all__ = ["HostOptions", "SharedOptions", "logs_of"]

_OF_ONE_SERVER = frozenset({"name", "revision", "record"})
_OVERRIDES = ("trusted", "approval", "handlers", "timeouts", "limits", "validation")


class HostOptions(TypedDict, total=False):
    """The options of ``connect`` that hold for all servers of a host; see there."""

    trusted: Trust
    approval: ApprovalHook | Policy | None
    audit: AuditTo | None
    audit_failure: OnAuditFailure
    redaction: Redaction | Callable[[Any], Any] | None
    state: State | str | os.PathLike[str] | None
    decisions: Decisions | str | os.PathLike[str] | None
    timeouts: Timeouts | None
    limits: Limits | None
    validation: Strictness
    argument_validation: Strictness | None
    pins: Pins | str | os.PathLike[str] | None
    handlers: Handlers | None
    client_info: Implementation | None
    extensions: Sequence[Extension] | None
    retry: Retry | None


class SharedOptions:
    """What a host was given, checked, with its stores made once."""

    def __init__(self, options: dict[str, Any]) -> None:
        known = _options_of_connect()
        for name in options:
            if name in _OF_ONE_SERVER or name not in known:
                advice = "give it to ServerConfig(...)" if name == "revision" else "see connect"
                raise TypeError(f"Host() has no option {name!r}: {advice}")
        self._options = dict(options)
        self._origin, self._numbers = os.urandom(4).hex(), itertools.count(1)
        given = map(options.get, ("state", "decisions", "pins", "audit"))
        kept = kept_in(*given)
        self._options |= {"state": kept.state, "decisions": kept.decisions}
        if kept.audit is not None:
            self._options["audit"] = logs_of(kept.audit)
        self.pins: Pins | None = None
        if kept.pins is not None:
            from ..catalog.pins import Pins

            self.pins = self._options["pins"] = Pins.of(kept.pins)

    @property
    def limits(self) -> Limits:
        return self._options.get("limits") or Limits()

    def timeouts(self, config: ServerConfig) -> Timeouts:
        return config.timeouts or self._options.get("timeouts") or Timeouts()

    def session(self, name: str, server: Any, config: ServerConfig) -> Session:
        """A session that is not open yet. Raises ``ConfigError``, which names the server."""
        options = {**self._options, "revision": config.revision}
        for option in _OVERRIDES:
            value = getattr(config, option)
            if value is not None:
                options[option] = value
        try:
            return connect(server, name=name, **options)._session
        except ConfigError as error:
            error.server = error.server or name
            raise

    async def record(self, name: str, arguments: Any, context: Hashable, error: McpError) -> None:
        """Record a call that was not made because its tool or its session is missing."""
        if self._options.get("audit") is None:
            return
        from ..audit import Audit

        audit = Audit.of(
            error.server or "",
            self._options["audit"],
            self._options.get("audit_failure", "refuse"),
            self._options.get("redaction"),
        )
        entry = audit.entry(f"{self._origin}-{next(self._numbers)}", name, arguments, context)
        await entry.failed(error)


@cache
def _options_of_connect() -> frozenset[str]:
    parameters = inspect.signature(connect).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)


def logs_of(audit: Any) -> Any:
    """``audit`` with one ``AuditLog`` for each path: sessions that share it write one chain."""
    from ..audit import AuditLog

    if isinstance(audit, str | os.PathLike):
        return AuditLog(audit)
    if isinstance(audit, Sequence) and not callable(audit):
        return [AuditLog(one) if isinstance(one, str | os.PathLike) else one for one in audit]
    return audit
