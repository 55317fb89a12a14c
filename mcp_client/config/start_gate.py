"""Whether a server of a config file may be started, and who decides it.

2026-07-28 and 2025-11-25 ``basic/security_best_practices`` (local server compromise), SEP-1024.
What decides, in one gate, in this order: a policy given as ``confirm``; an approval that is
remembered for exactly this; a hook given as ``confirm``; without one, the place of the file: a
person's own settings are started, and nothing of a project's file is. No one is asked about what
the policy of the machine refuses: see ``mcp_client.approval.managed_policy``. Each decision is
recorded in the audit: see ``mcp_client.audit.entry_members``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..approval.decision import Allow, Answer, ApprovalHook, Deny, Policy, check_hook
from ..approval.decisions import Decisions
from ..approval.gate import Gate
from ..approval.managed_policy import ManagedPolicy
from ..approval.remembered import ApprovalMemory
from ..approval.request import new_id
from ..approval.start_request import StartRequest
from ..approval.terminal import ask_on_terminal
from ..errors import ConfigError, StartDenied
from ..runtime.daemon_thread import run_in_thread
from ..runtime.limits import Timeouts
from ..session.connect import transport_of
from ..transports.servers import confined
from .config import Config
from .server_config import ServerConfig
from .starting import Start

if TYPE_CHECKING:
    from ..audit.record import SessionAudit
    from ..sandbox.sandbox import Sandbox

__all__ = ["Starting", "by_its_place", "gate_of", "start_of"]

_ADVICE = (
    "give Host.from_config(confirm=ask_on_terminal), or a function from StartRequest to Allow or "
    "Deny, and state=DIRECTORY to store the decision of Allow(remember='always')"
)


def start_of(
    config: Config,
    name: str,
    confirm: ApprovalHook | Policy | None,
    decisions: Decisions | None,
    audit: str | os.PathLike[str] | None,
    timeouts: Timeouts,
    sandbox: Sandbox | None = None,
) -> Starting:
    """Return the request whether this server may be started, as ``Host.from_config`` makes it."""
    policy = ManagedPolicy.system()
    gate = gate_of(policy, confirm, decisions, timeouts.approval)
    from ..audit import Audit

    recorder = None if audit is None else Audit(audit)._of_server(name)
    return Starting(config._starts[name], gate, timeouts, recorder, policy, sandbox)


@dataclass(frozen=True, slots=True)
class Starting:
    """The question whether one server of a file may be started."""

    start: Start
    gate: Gate
    timeouts: Timeouts | None
    audit: SessionAudit | None
    policy: ManagedPolicy
    sandbox: Sandbox | None
    """The host's."""

    async def config(self) -> ServerConfig:
        """Ask, and return what is to be started. Raises ``StartDenied`` if it may not."""
        return await self.ask() or self.start.config(self.timeouts)

    async def ask(self) -> ServerConfig | None:
        """Ask whether it may be started, after a look at the files and programs that it names.

        Returns the server to start if it differs from the known one. Raises ``StartDenied``.
        """
        request = await self.decide()
        if self.start.is_read and not request.confined:
            return None
        # Its secrets are read now, and the keyring may wait for a person.
        sandbox, timeouts, policy = self.sandbox, self.timeouts, self.policy
        return await run_in_thread(
            lambda: self.start.approved(request, sandbox, timeouts, policy), abandon_on_cancel=True
        )

    async def decide(self) -> StartRequest:
        """Ask, and start nothing; return what was approved. Raises ``StartDenied``."""
        try:
            request, gate = await run_in_thread(self._look)
        except ConfigError as error:
            name = self.start.first.name
            text = f"the server was not started: {error.message}"
            raise StartDenied(text, server=name, reason=error.message, source="gate") from None
        request = replace(request, id=new_id("start"))  # one for each time that it is asked
        if self.audit is None:
            await gate.decide(request)
        else:
            await self.audit.decide(gate, request)
        return request

    def _look(self) -> tuple[StartRequest, Gate]:
        """Return the request and its gate: no one is asked about what the policy refuses."""
        request = self.start.request(self.sandbox, self.policy)
        server = self.start.config(self.timeouts, secrets=False).server
        try:
            transport_of(confined(server, self.sandbox)).permit(self.policy)
        except StartDenied as error:
            return request, Gate(_Refused(error), 0.0)
        return request, self.gate


@dataclass(frozen=True, slots=True)
class _Refused:
    """A policy that denies everything, because of an error."""

    error: StartDenied
    ask: ApprovalHook | None = None

    def decide(self, request: object, /) -> Answer:
        return Deny(self.error.reason, source=self.error.source, rule=self.error.rule)


def gate_of(
    policy: ManagedPolicy,
    confirm: ApprovalHook | Policy | None,
    decisions: Decisions | None,
    seconds: float,
) -> Gate:
    """Return the gate of a start: the policy, remembered decisions, ``confirm``."""
    check_hook("confirm", confirm)
    fallback = by_its_place if confirm is None else ask_on_terminal
    return Gate(policy.over(confirm), seconds, fallback, ApprovalMemory(store=decisions))


async def by_its_place(request: StartRequest) -> Answer:
    """Allow what a person's own settings name, and nothing else without an approval."""
    if request.scope == "user":
        return Allow(reason="it is one of your own settings", source="rule")
    return Deny(
        f"it has not been confirmed, and {request.path} is not one of your own settings but may "
        f"have come with a project: {_ADVICE}",
        source="gate",
    )
