"""``Host.from_config``: a host of a config file's servers, each started only once that is allowed.

2026-07-28 and 2025-11-25 ``basic/security_best_practices`` (local server compromise), SEP-1024.
What decides, in one gate, in this order: a policy given as ``confirm``; a yes that is remembered
for exactly this; a hook given as ``confirm``; without one, the place of the file: a person's own
settings are started, and nothing of a project's file is. No one is asked about what the policy of
the machine refuses: see ``mcp_client.approval.managed_policy``.

Entering the host waits for an answer as long as a remembered one takes, a second at most. A server
that waits for an answer is "idle"; it is connected as soon as there is a yes. After a no its status
says why, and ``host.session(name)`` and ``host.reconnect(name)`` ask again. Each decision is in the
audit of the host: see ``mcp_client.audit.request_record``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from ..approval.decision import Allow, Answer, ApprovalHook, Deny, Policy, check_hook
from ..approval.decisions import Decisions
from ..approval.gate import Gate
from ..approval.managed_policy import ManagedPolicy
from ..approval.remembered import ApprovalMemory
from ..approval.request import new_id
from ..approval.start_request import Scope, StartRequest
from ..approval.terminal import ask_on_terminal
from ..errors import ConfigError, StartDenied
from ..runtime.daemon_thread import run_in_thread
from ..runtime.limits import Timeouts
from ..session.connect import transport_of
from ..transports.servers import confined
from .config import Config, load_config
from .options import HostOptions, ServerConfig, StartGate
from .reload import ConfigSource, HostOfFile
from .start_request import Start

if TYPE_CHECKING:
    from ..audit.record import SessionAudit
    from ..sandbox.sandbox import Sandbox

__all__ = ["by_its_place", "host_from_config", "start_of"]

_MAX_TOLD = 3
_ADVICE = (
    "give Host.from_config(confirm=ask_on_terminal), or a function from StartRequest to Allow or "
    "Deny, and state=DIRECTORY to store the answer of Allow(remember='always')"
)
H = TypeVar("H", bound=HostOfFile)


def host_from_config(
    kind: Callable[..., H],
    path: str | os.PathLike[str],
    confirm: ApprovalHook | Policy | None,
    *,
    scope: Scope | None,
    inputs: Mapping[str, str] | None,
    only: Collection[str] | None,
    watch: bool,
    options: HostOptions,
) -> H:
    check_hook("confirm", confirm)
    if type(watch) is not bool:
        raise ConfigError(f"watch={watch!r}: give True or False")
    timeouts = options.get("timeouts")
    if timeouts is not None and not isinstance(timeouts, Timeouts):
        raise ConfigError(f"timeouts={timeouts!r}: give Timeouts(idle=30, ...)")
    config = load_config(path, scope=scope, inputs=inputs)
    if not config.servers and config.problems:
        raise ConfigError(f"no server can be used: {_main_problems(config)}")
    if only is not None:
        config = config.only(only)
    policy = ManagedPolicy.system()
    if options.setdefault("policy", policy) not in (None, policy):
        raise ConfigError(
            "Host.from_config(policy=...): the policy of this machine holds here; leave it out"
        )
    options["policy"] = policy
    starts = dict(config._starts)
    host = kind({name: one.first.config(timeouts) for name, one in starts.items()}, **options)
    host.problems = config.problems
    host._required |= frozenset(config.required)
    shared = host._options
    gate = _gate(policy, confirm, shared.decisions, shared.timeouts.approval)

    def read() -> Config:
        again = load_config(config.path, scope=scope, inputs=inputs)
        return (
            again if only is None else again.only([name for name in only if name in again.servers])
        )

    def asking(name: str, start: Start) -> StartGate:
        audit, sandbox = shared.audit_of(name), shared.sandbox
        return Starting(start, gate, timeouts, audit, policy, sandbox).ask

    host._source = ConfigSource(
        str(config.path),
        read,
        asking,
        lambda start: start.first.config(timeouts),
        starts,
        dict(host._servers),
        watch,
    )
    for name, start in starts.items():
        host._servers[name].gate = asking(name, start)
    return host


def start_of(
    config: Config,
    name: str,
    confirm: ApprovalHook | Policy | None,
    decisions: Decisions | None,
    audit: str | os.PathLike[str] | None,
    timeouts: Timeouts,
    sandbox: Sandbox | None = None,
) -> Starting:
    """The question whether this server of the file may be started, as ``Host.from_config`` asks
    it."""
    policy = ManagedPolicy.system()
    gate = _gate(policy, confirm, decisions, timeouts.approval)
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
        """Ask, and return what is to be started. Raises ``StartDenied`` where it may not."""
        return await self.ask() or self.start.config(self.timeouts)

    async def ask(self) -> ServerConfig | None:
        """The files and programs that the file names are looked at now, because somebody is asked.
        What is to be started instead of what was known before, if anything. Raises
        ``StartDenied``."""
        request = await self.decide()
        if self.start.is_read and not request.confined:
            return None
        # Its secrets are read now, and the keyring may wait for a person.
        sandbox, timeouts = self.sandbox, self.timeouts
        return await run_in_thread(
            lambda: self.start.approved(request, sandbox, timeouts), abandon_on_cancel=True
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
        """What is asked, and of whom: no one is asked about what the policy refuses."""
        request = self.start.request(self.sandbox)
        server = self.start.config(self.timeouts, secrets=False).server
        try:
            transport_of(confined(server, self.sandbox)).permit(self.policy)
        except StartDenied as error:
            return request, Gate(_Refused(error), 0.0)
        return request, self.gate


@dataclass(frozen=True, slots=True)
class _Refused:
    """A policy that says no, because of an error."""

    error: StartDenied
    ask: ApprovalHook | None = None

    def decide(self, request: object, /) -> Answer:
        return Deny(self.error.reason, source=self.error.source, rule=self.error.rule)


def _main_problems(config: Config) -> str:
    """Those for which servers were left out before the others: three, and how many more."""
    problems = sorted(config.problems, key=lambda one: not one.left_out)
    more = len(problems) - _MAX_TOLD
    text = "; ".join(map(str, problems[:_MAX_TOLD]))
    return text if more <= 0 else f"{text}; and {more} more: load_config(path).problems"


def _gate(
    policy: ManagedPolicy,
    confirm: ApprovalHook | Policy | None,
    decisions: Decisions | None,
    seconds: float,
) -> Gate:
    check_hook("confirm", confirm)
    fallback = by_its_place if confirm is None else ask_on_terminal
    return Gate(policy.over(confirm), seconds, fallback, ApprovalMemory(store=decisions))


async def by_its_place(request: StartRequest) -> Answer:
    """What a person's own settings name may be started; nothing else, without a yes."""
    if request.scope == "user":
        return Allow(reason="it is one of your own settings", source="rule")
    return Deny(
        f"it has not been confirmed, and {request.path} is not one of your own settings but may "
        f"have come with a project: {_ADVICE}",
        source="gate",
    )
