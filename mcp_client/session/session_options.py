"""What the host gave to ``connect``, checked, and where what a session keeps is kept."""

from __future__ import annotations

import os
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..approval.decisions import Decisions
from ..approval.gate import Gate
from ..approval.remembered import ApprovalMemory
from ..protocol.capabilities import ClientDeclaration
from ..runtime.frozen import frozen_dataclass
from ..runtime.limits import Limits, Timeouts
from ..runtime.session_context import KnownSecrets
from ..runtime.storage import Storage
from ..state import State, state_of

if TYPE_CHECKING:
    from ..approval.managed_policy import ManagedPolicy
    from ..audit import Audit, AuditTo
    from ..audit.span_content import SpanContent
    from ..catalog.pins import Pins
    from ..catalog.trust import Trust
    from ..connection.retry import Retry
    from ..handlers.handlers import Handlers
    from ..validation.strictness import Strictness
    from .binding import Binding

__all__ = ["Kept", "Setup", "kept_in", "paused_in"]


@frozen_dataclass
class Setup:
    """The options of one session, checked and with their defaults."""

    name: str
    trusted: Trust
    gate: Gate
    memory: ApprovalMemory
    timeouts: Timeouts
    limits: Limits
    validation: Strictness
    argument_validation: Strictness | None
    client: ClientDeclaration
    pin: str | None
    pins: Pins | None = None
    handlers: Handlers | None = None
    audit: Audit | None = None
    retry: Retry | None = None
    state: State | None = None
    paused: Storage | None = None
    """Where a model's response is kept of which calls wait for approval."""
    policy: ManagedPolicy | None = None
    binding: Binding | None = None
    content: SpanContent | None = None
    """What spans show of arguments and results."""
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    """What the server is given to keep secret; known where records of the session are made."""


@frozen_dataclass
class Kept:
    """Where it is kept: in what was given for it, else in the state."""

    state: State | None
    decisions: Decisions | None
    pins: Pins | str | os.PathLike[str] | None
    audit: AuditTo | None


def kept_in(state: Any, decisions: Any, pins: Any, audit: Any, server: object = None) -> Kept:
    """From the options of ``connect`` and ``Host``; the tokens of an ``OAuth()`` without ``store=``
    are kept in the state. Raises ``ConfigError``."""
    state = state_of(state)
    if state is None:
        return Kept(None, Decisions.of(decisions), pins, audit)
    keep = getattr(getattr(server, "auth", None), "keep_tokens_in", None)
    if callable(keep):
        keep(state.tokens)
    return Kept(
        state,
        state.decisions if decisions is None else Decisions.of(decisions),
        state.pins if pins is None else pins,
        state.audit if audit is None else audit,
    )


def paused_in(state: State | None, *approvals: Any) -> Storage | None:
    """Where a model's response is kept of which calls wait for approval: in the state, else beside
    the tickets of an ``ApprovalQueue`` among ``approvals``; None for in this process."""
    hooks = (getattr(approval, "ask", approval) for approval in approvals)
    found = (state, *(getattr(hook, "paused", None) for hook in hooks))
    return next((one for one in found if isinstance(one, Storage)), None)
