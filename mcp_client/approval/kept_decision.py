"""One decision that is kept, as a value."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import KW_ONLY, field, fields
from typing import TYPE_CHECKING, Any, Literal

from ..catalog.call_context import CallOrigin, context_from_json, context_to_json, is_storable
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
    """One decision that is kept. Times are seconds since the beginning of 1970, UTC."""

    _: KW_ONLY
    id: str
    """The text that ``Decisions.revoke`` takes, whole or its beginning."""
    kind: RequestKind
    """The kind of the requests it is for."""
    server: str
    """The name the host gave the server."""
    subject: str
    """The tool's name, the skill's URI; of a start the program, or where the URL leads."""
    scope: Literal["once", "script", "session", "always"]
    """"once" for a ticket that was decided and whose request has not been made again yet."""
    allowed: bool = True
    """False for a ticket that was refused."""
    where: Mapping[str, Any] | None = field(default=None, hash=False)
    """What the arguments must be; None for any, unless ``exact`` is given."""
    exact: str | None = None
    """Keyed digest of the only arguments and ``_meta`` it is for; None where ``where`` decides."""
    context: Hashable = None
    """Whose requests it is for: those of an equal context."""
    origin: CallOrigin = "host"
    """Where these requests come from, as in ``ToolCall.origin``."""
    script: str | None = None
    """The run whose calls it is for; None for all."""
    code: str | None = None
    """The SHA-256 of that run's script, as in ``Script.digest``."""
    by: str | None = None
    """Who decided, where that was said."""
    decided_at: float
    """When it was given."""
    expires_at: float | None = None
    """When it ends; None where only its scope limits it."""
    findings: tuple[tuple[str, str], ...] = ()
    """What was found when it was given: of each finding its kind and ``about``."""
    trusted: bool = False
    """Whether the server's word on its tools was trusted."""
    fingerprint: str | None = None
    """What it is bound to: of a start a keyed digest."""
    identity: str = field(default="", repr=False)
    """What is run, or where it is; of a start, the config file."""
    topic: str = field(default="", repr=False)
    """What the newest of several decisions replaces the others for."""
    _constraints: Constraints | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.where is not None:
            from .constraints import Constraints

            constraints = Constraints(self.where)
            object.__setattr__(self, "where", constraints.wanted or None)
            object.__setattr__(self, "_constraints", constraints)

    @classmethod
    def about(cls, request: ApprovalRequest, **members: Any) -> Decision:
        """A decision on ``request``, of which the others are ``members``."""
        return cls(
            kind=request.kind,
            server=request.server,
            subject=request._kept_as().subject,
            context=request.context,
            origin=request.origin,
            findings=tuple(sorted({finding.known_as for finding in request.findings})),
            trusted=request.trusted,
            **members,
        )

    @property
    def has_expired(self) -> bool:
        """Whether its ``expires_at`` has come, so that it covers nothing any more."""
        return self.expires_at is not None and time.time() >= self.expires_at

    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON; a context that cannot be stored is its type's name."""
        members = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        where = None if self.where is None else plain(self.where)
        known = is_storable(self.context)
        members["context"] = (
            context_to_json(self.context) if known else f"<{type(self.context).__name__}>"
        )
        return {**members, "where": where, "findings": [list(each) for each in self.findings]}

    @classmethod
    def from_json(cls, value: Any) -> Decision:
        """Raises ``ValueError`` for anything that ``to_json`` does not give."""
        try:
            findings = tuple((str(kind), str(about)) for kind, about in value["findings"])
            context = context_from_json(value["context"])
            found = cls(**{**value, "context": context, "findings": findings})
        except (LookupError, TypeError, ConfigError) as error:
            raise ValueError(f"it is no decision ({safe_text(error, 200)})") from None
        for name, types in _TYPES.items():
            if type(getattr(found, name)) not in types:
                raise ValueError(f"a decision has a {name} of the wrong type")
        for at in (found.decided_at, found.expires_at):
            if at is not None and not 0 <= at < _MAX_TIME_SECONDS:
                raise ValueError("a decision has a time that is none")
        if found.kind not in KINDS or found.scope not in ("once", "script", "session", "always"):
            raise ValueError("a decision has a kind or a scope that is not known")
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
