"""From what a ``Host`` is given to the session of one of its servers.

The options are those of ``connect``, for all servers; a ``ServerConfig`` overrides some of them.
What is one for all is made once: the state, the audit log, the lock file of pins, the decisions.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import quote

from ..approval.decision import ApprovalHook, Policy
from ..approval.decisions import Decisions
from ..catalog.tool import Trust
from ..connection.call_options import Retry, Strictness
from ..errors import ConfigError, McpError
from ..extensions.extension import Extension
from ..protocol.capabilities import Implementation
from ..runtime.folder import given_path
from ..runtime.limits import Limits, Timeouts
from ..session.connect import connect
from ..session.kept import kept_in
from ..session.session import Session
from .naming import Naming
from .server_config import ServerConfig

if TYPE_CHECKING:
    from ..audit import Audit, AuditTo, OnAuditFailure, Redaction
    from ..catalog.pins import Pins
    from ..handlers.handlers import Handlers
    from ..state import State

__all__ = ["HostOptions", "SharedOptions", "audit_of"]


class HostOptions(TypedDict, total=False):
    """The options of a host: ``naming`` is how its tools are called, ``required`` names the servers
    without which entering raises, ``record`` is a folder with a file for each server's session. The
    others are those of ``connect``, for all servers: see there."""

    naming: Naming
    required: Iterable[str]
    record: str | os.PathLike[str] | None
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

    def __init__(self, options: HostOptions) -> None:
        for name in options:
            if name not in HostOptions.__annotations__:
                advice = "give it to ServerConfig(...)" if name == "revision" else "see connect"
                raise TypeError(f"Host() has no option {name!r}: {advice}")
        self._options: dict[str, Any] = {**options}
        self._folder = _folder(self._options.pop("record", None))
        self._origin, self._numbers = os.urandom(4).hex(), itertools.count(1)
        given = map(options.get, ("state", "decisions", "pins", "audit"))
        kept = kept_in(*given)
        self._options |= {"state": kept.state, "decisions": kept.decisions}
        if kept.audit is not None:
            self._options["audit"] = _logs_of(kept.audit)
        self.pins: Pins | None = None
        if kept.pins is not None:
            from ..catalog.pins import Pins

            self.pins = self._options["pins"] = Pins.of(kept.pins)

    @property
    def decisions(self) -> Decisions | None:
        kept: Decisions | None = self._options["decisions"]
        return kept

    @property
    def limits(self) -> Limits:
        return self._options.get("limits") or Limits()

    def timeouts(self, config: ServerConfig) -> Timeouts:
        return config.timeouts or self._options.get("timeouts") or Timeouts()

    def session(self, name: str, server: Any, config: ServerConfig) -> Session:
        """A session that is not open yet. Raises ``ConfigError``, which names the server."""
        options = {**self._options, **config.options}
        if server is not config.server:  # one that was made for it before, which records already
            options.pop("record", None)
        elif self._folder is not None:
            options.setdefault(
                "record", os.path.join(self._folder, f"{quote(name, safe='')}.jsonl")
            )
        try:
            return connect(server, name=name, **options)._session
        except ConfigError as error:
            error.server = error.server or name
            raise

    async def record(self, name: str, arguments: Any, context: Hashable, error: McpError) -> None:
        """Record a call that was not made because its tool or its session is missing."""
        audit = self.audit_of(error.server or "")
        if audit is not None:
            number = f"{self._origin}-{next(self._numbers)}"
            await audit.entry(number, name, arguments, context).failed(error)

    def audit_of(self, server: str) -> Audit | None:
        return audit_of(server, self._options)


def audit_of(server: str, options: Mapping[str, Any]) -> Audit | None:
    """The audit of one server, from the options of ``connect``; None where there is none."""
    if options.get("audit") is None:
        return None
    from ..audit import Audit

    failure = options.get("audit_failure", "refuse")
    return Audit.of(server, options["audit"], failure, options.get("redaction"))


def _folder(record: Any) -> str | None:
    """The folder of records, which is made."""
    if record is None:
        return None
    folder = given_path(record, f"record={record!r}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"record={folder!r} is no folder: {error.strerror or error}") from None
    return folder


def _logs_of(audit: Any) -> Any:
    """``audit`` with one ``AuditLog`` for each path: sessions that share it write one chain."""
    from ..audit import AuditLog

    if isinstance(audit, str | os.PathLike):
        return AuditLog(audit)
    if isinstance(audit, Sequence) and not callable(audit):
        return [AuditLog(one) if isinstance(one, str | os.PathLike) else one for one in audit]
    return audit
