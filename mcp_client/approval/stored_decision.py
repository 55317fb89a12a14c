"""A stored decision, as a value."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import KW_ONLY, field, fields
from typing import TYPE_CHECKING, Any, Literal

from ..catalog.call_values import CallOrigin, context_from_json, context_to_json, is_storable
from ..errors import ConfigError
from ..protocol.canonical_json import plain
from ..runtime.frozen import frozen_dataclass
from ..runtime.safe_text import safe_text
from .request import KINDS, ApprovalRequest, RequestKind

if TYPE_CHECKING:
    from .constraints import Constraints

__all__ = ["Decision"]

_MAX_TIME_SECONDS = 1e11


@frozen_dataclass
class Decision:
    """A stored decision. Times are seconds since the beginning of 1970, UTC."""

    _: KW_ONLY
    id: str
    """The argument for ``Decisions.revoke``, complete or its first characters."""
    kind: RequestKind
    """The kind of the requests that the decision covers."""
    server: str
    """The name the host gave the server."""
    subject: str
    """The tool's name, or the skill's URI; for a start the program or the origin of the URL."""
    scope: Literal["once", "script", "session", "always"]
    """The reach of the decision; "once" for a decided ticket whose request was not repeated yet."""
    allowed: bool = True
    """Whether the request was allowed; False for a ticket that was denied."""
    where: Mapping[str, Any] | None = field(default=None, hash=False)
    """The constraints on the arguments; None for any arguments, unless ``exact`` is set."""
    exact: str | None = None
    """The keyed digest of the only arguments and ``_meta`` covered; None if ``where`` applies."""
    context: Hashable = None
    """The context of the covered requests."""
    origin: CallOrigin = "host"
    """The origin of the covered requests, as in ``ToolCall.origin``."""
    script: str | None = None
    """The script run whose calls are covered; None for all."""
    code: str | None = None
    """The SHA-256 of that run's script, as in ``Script.digest``."""
    by: str | None = None
    """The person who decided, if known."""
    decided_at: float
    """The time of the decision."""
    expires_at: float | None = None
    """The end of the decision; None if only its scope limits it."""
    findings: tuple[tuple[str, str], ...] = ()
    """The findings at the time of the decision: the kind and ``about`` of each."""
    trusted: bool = False
    """Whether the server's annotations were trusted."""
    fingerprint: str | None = None
    """The fingerprint of the definition; for a start a keyed digest."""
    identity: str = field(default="", repr=False)
    """The command or address of the server; for a start, the config file."""
    topic: str = field(default="", repr=False)
    """The key by which a newer decision replaces an older one."""
    _constraints: Constraints | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.where is not None:
            from .constraints import Constraints

            constraints = Constraints(self.where)
            object.__setattr__(self, "where", constraints.wanted or None)
            object.__setattr__(self, "_constraints", constraints)

    @classmethod
    def about(cls, request: ApprovalRequest, **members: Any) -> Decision:
        """Return a decision on ``request``; the other fields are ``members``."""
        return cls(
            kind=request.kind,
            server=request.server,
            subject=request._stored_as().subject,
            context=request.context,
            origin=request.origin,
            findings=tuple(sorted({finding.known_as for finding in request.findings})),
            trusted=request.trusted,
            **members,
        )

    @property
    def has_expired(self) -> bool:
        """Return whether ``expires_at`` has passed, so that the decision covers nothing."""
        return self.expires_at is not None and time.time() >= self.expires_at

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain JSON; a context that is not storable becomes its type name."""
        members = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        where = None if self.where is None else plain(self.where)
        known = is_storable(self.context)
        members["context"] = (
            context_to_json(self.context) if known else f"<{type(self.context).__name__}>"
        )
        return {**members, "where": where, "findings": [list(each) for each in self.findings]}

    @classmethod
    def from_json(cls, value: Any) -> Decision:
        """Parse the result of ``to_json``. Raises ``ValueError`` for anything else."""
        try:
            findings = tuple((str(kind), str(about)) for kind, about in value["findings"])
            context = context_from_json(value["context"])
            found = cls(**{**value, "context": context, "findings": findings})
        except (LookupError, TypeError, ConfigError) as error:
            raise ValueError(f"an entry is not a decision ({safe_text(error, 200)})") from None
        for name, types in _TYPES.items():
            if type(getattr(found, name)) not in types:
                raise ValueError(f"a decision has a {name} of the wrong type")
        for at in (found.decided_at, found.expires_at):
            if at is not None and not 0 <= at < _MAX_TIME_SECONDS:
                raise ValueError("a decision has an invalid time")
        if found.kind not in KINDS or found.scope not in ("once", "script", "session", "always"):
            raise ValueError("a decision has an unknown kind or scope")
        return found


_TEXT, _MAYBE_TEXT, _TIME = (str,), (str, type(None)), (int, float)
_TYPES: dict[str, tuple[type, ...]] = {
    "id": _TEXT,
    "server": _TEXT,
    "subject": _TEXT,
    "allowed": (bool,),
    "exact": _MAYBE_TEXT,
    "by": _MAYBE_TEXT,
    "decided_at": _TIME,
    "expires_at": (*_TIME, type(None)),
    "trusted": (bool,),
    "fingerprint": _TEXT,
    "identity": _TEXT,
    "topic": _TEXT,
    "origin": _TEXT,
    "script": _MAYBE_TEXT,
    "code": _MAYBE_TEXT,
}
