"""What the host gave to ``connect``, checked."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ..approval.gate import Gate
from ..approval.memory import ApprovalMemory
from ..catalog.tool import Trust
from ..connection.call_options import Retry, Strictness
from ..protocol.capabilities import ClientDeclaration
from ..runtime.frozen import frozen_dataclass
from ..runtime.limits import Limits, Timeouts
from ..runtime.session_context import KnownSecrets
from .task_ledger import PROCESS_LEDGER, TaskLedger

if TYPE_CHECKING:
    from ..audit import Audit
    from ..catalog.pins import Pins
    from ..handlers.handlers import Handlers

__all__ = ["Setup"]


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
    tasks: TaskLedger = PROCESS_LEDGER
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    """What the server is given to keep secret; known where records of the session are made."""
