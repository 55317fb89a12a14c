"""Where what a session keeps is kept: by options of their own, or in the state."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..approval.decisions import Decisions
from ..state import State, state_of
from .task_ledger import PROCESS_LEDGER, StateLedger, TaskLedger

if TYPE_CHECKING:
    from ..audit import AuditTo
    from ..catalog.pins import Pins

__all__ = ["Kept", "kept_in"]


@dataclass(frozen=True, slots=True)
class Kept:
    state: State | None
    decisions: Decisions | None
    pins: Pins | str | os.PathLike[str] | None
    audit: AuditTo | None
    tasks: TaskLedger


def kept_in(state: Any, decisions: Any, pins: Any, audit: Any, server: object = None) -> Kept:
    """From the options of ``connect`` and ``Host``; the tokens of an ``OAuth()`` without ``store=``
    are kept in the state. Raises ``ConfigError``."""
    state = state_of(state)
    if state is None:
        return Kept(None, Decisions.of(decisions), pins, audit, PROCESS_LEDGER)
    keep = getattr(getattr(server, "auth", None), "keep_tokens_in", None)
    if callable(keep):
        keep(state.tokens)
    return Kept(
        state,
        state.decisions if decisions is None else Decisions.of(decisions),
        state.pins if pins is None else pins,
        state.audit if audit is None else audit,
        StateLedger(state),
    )
