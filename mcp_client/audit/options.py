"""``Audit``: the places of records, their redaction, and the policy if they cannot be written.

``connect(audit=...)`` and ``Host(audit=...)`` take one, or the argument of ``Audit(to)``.
``verify_audit`` verifies such a place; ``hash_chain`` and ``database_log`` document what it proves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..errors import ConfigError
from ..runtime.directory import checked_path
from ..runtime.frozen import frozen_dataclass
from ..runtime.masking import texts_of
from ..runtime.option_names import with_option_names
from ..runtime.session_context import KnownSecrets
from .hash_chain import Check, Verified, key_of, opened_files
from .log_file import AuditLog
from .record import SessionAudit
from .redaction import Redacted, Redaction
from .sinks import AuditSink, place_of, sink_of

if TYPE_CHECKING:
    from ..runtime.storage import Storage
    from .database_log import DatabaseLog
    from .redacted_content import SpanContent

__all__ = ["Audit", "AuditTo", "OnAuditFailure", "RedactionFunction", "redaction_of"]
__all__ += ["verify_audit"]

_MAX_SECRETS = 256
"""The texts of one call whose redaction is observed."""
_Place: TypeAlias = "str | os.PathLike[str] | AuditLog | AuditSink"
AuditTo: TypeAlias = "_Place | Sequence[_Place]"
"""A place for records, or a list of them: the path of a file, an ``AuditLog`` or a function."""
OnAuditFailure: TypeAlias = Literal["refuse", "warn"]


@with_option_names()
@frozen_dataclass
class Audit:
    """An audit of calls: where its records go and what they show.

    Sessions that share one write one chain in each file. Raises ``ConfigError`` for a wrong value.
    """

    to: AuditTo | None = None
    """The path of a file, ``AuditLog(path, ...)``, a callable that takes each record, or a list of
    those. None is the audit of ``connect(state=...)``; without a state nothing is recorded."""
    _: KW_ONLY
    failure: OnAuditFailure = "refuse"
    """The treatment of a call that cannot be recorded: "refuse" refuses it, "warn" logs a warning
    and makes it."""
    redaction: Redaction | Callable[[Any], Any] | None = None
    """The redaction: ``Redaction(keys=..., patterns=...)``, or a function from the arguments to
    what may be shown. None is ``Redaction()``."""
    trace_content: bool = False
    """Whether the OpenTelemetry span of a call has its arguments and its result, as far as
    ``redaction`` lets a record show them: see ``mcp_client.connection.telemetry``."""

    def __post_init__(self) -> None:
        if self.failure not in ("refuse", "warn"):
            raise ConfigError(f"Audit(failure={self.failure!r}): give 'refuse' or 'warn'")
        if type(self.trace_content) is not bool:
            raise ConfigError(f"Audit(trace_content={self.trace_content!r}): give True or False")
        redaction_of(self.redaction)
        if self.to is not None:
            to: Any = self.to
            several = isinstance(to, Sequence) and not isinstance(to, str) and not callable(to)
            object.__setattr__(self, "to", tuple(map(place_of, to if several else [to])))
            if not self.to:
                raise ConfigError("audit=[]: give at least one place for records, or None")

    @classmethod
    def _of(cls, given: Audit | AuditTo | None, state: Any = None) -> Audit | None:
        """Return what ``connect`` was given as an ``Audit``; None if there is nothing to record.

        Without a place of its own, its records go to the audit of ``state``.
        """
        place = None if state is None else state.audit
        if given is None:
            return None if place is None else cls(place)
        audit = given if isinstance(given, Audit) else cls(given)
        return replace(audit, to=place) if audit.to is None and place is not None else audit

    def _of_server(
        self, server: str, identity: Callable[[], str | None] = lambda: None
    ) -> SessionAudit | None:
        """Return the audit of the calls of ``server``; None without a place for records."""
        if self.to is None:
            return None
        places: Any = self.to
        return SessionAudit(
            server,
            [sink_of(place) for place in places],
            refuses=self.failure == "refuse",
            redaction=redaction_of(self.redaction),
            identity=identity,
        )

    def _span_content(self, secrets: KnownSecrets) -> SpanContent | None:
        """Return what spans show of calls, without ``secrets``; None if they show nothing."""
        if not self.trace_content:
            return None
        from .redacted_content import SpanContent

        return SpanContent(redaction_of(self.redaction), secrets)


class RedactionFunction(Redaction):
    """A function of the host's decides; what it lets through is shown as it is, and bounded.

    It is called with the arguments, and with each text about them. What it left out of the
    arguments is left out of those texts, too. The rest of a session's record, which is not for it
    to decide, is shown as ``Redaction()`` does.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function
        self._bounds = Redaction(keys=(), patterns=())

    def show(self, value: Any, schema: Any = None) -> Redacted:
        """Return what the host's function shows of ``value``."""
        return self._decided(value, self._bounds.show)

    def whole(self, value: Any, schema: Any = None, *, answer: bool = False) -> Redacted:
        """Return what the host's function shows of all of ``value``."""
        if answer:
            return super().whole(value, schema, answer=True)
        return self._decided(value, self._bounds.whole)

    def shows(self, text: str) -> bool:
        """Return False: only the host's function knows."""
        return False

    def _decided(self, value: Any, show: Callable[[Any], Redacted]) -> Redacted:
        before = texts_of(value, _MAX_SECRETS)
        try:
            redacted = show(self._function(value))
            after = texts_of(redacted.value, 4 * _MAX_SECRETS)
        except Exception as error:  # noqa: BLE001 - the host's function may raise anything
            return Redacted(f"[unreadable: {type(error).__name__}]", before)
        redacted.hidden = [text for text in before if not any(text in other for other in after)]
        return redacted

    def about(self, text: str, limit: int, hidden: Iterable[str]) -> str:
        """Return ``text`` without the hidden secrets."""
        try:
            own = self._function(text)
        except Exception:  # noqa: BLE001 - many functions take arguments only
            own = None
        return super().about(own if isinstance(own, str) else text, limit, hidden)


def redaction_of(redaction: Any) -> Redaction:
    """Return a ``Redaction``, a function or None as a ``Redaction``.

    Raises ``ConfigError`` for anything else.
    """
    if redaction is None:
        return Redaction()
    if isinstance(redaction, Redaction):
        return redaction
    if callable(redaction):
        return RedactionFunction(redaction)
    raise ConfigError(f"redaction={redaction!r}: give Redaction(keys=..., patterns=...)")


def verify_audit(
    log: str | os.PathLike[str] | AuditLog | DatabaseLog | Storage,
    *,
    key: bytes | None = None,
    noted: str | None = None,
) -> Verified:
    """Verify an audit log with all files it was rotated into, and find the open calls.

    It may be called while the log is written, and reads what is there when it begins.

    Args:
        log: The path of a file, a log, or a state with an audit; of a ``PostgresState`` all chains
            are verified.
        key: The key of the log, if it is not the log's own.
        noted: A ``last_hash`` of an earlier verification. Its line must still exist, else the log
            was cut before it.

    Returns:
        The content of the intact log.

    Raises:
        AuditError: With ``.path``, ``.line`` (in that file, from 1) and ``.reason``, for the first
            line that was changed, removed, inserted or moved, and for the first at which a host
            found its own last line gone.
        ConfigError: If the log is missing.
        StateError: If the database cannot be reached.
    """
    of: Any = getattr(log, "audit", log)
    if of is None:
        raise ConfigError(f"verify_audit({log!r}): this state has no audit")
    if hasattr(of, "verify"):
        found: Verified = of.verify(key, noted)
        return found
    key = getattr(of, "key", None) if key is None else key
    path = checked_path(getattr(of, "path", of), f"verify_audit({log!r})")
    check = Check(key_of(key), noted)
    try:
        with closing(opened_files(Path(path))) as files:
            for file, name, size in files:
                with file:
                    check.file(name, file, size)
    except OSError as error:
        raise ConfigError(f"the audit log {path} cannot be read: {error.strerror}") from None
    return check.done(Path(path))
