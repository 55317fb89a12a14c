"""``Host.from_config``: a host of a config file's servers, each started only once that is allowed.

2026-07-28 and 2025-11-25 ``basic/security_best_practices`` (local server compromise), SEP-1024.
What decides, in one gate, in this order: a policy given as ``confirm``; a yes that is remembered
for exactly this; a hook given as ``confirm``; without one, the place of the file: a person's own
settings are started, and nothing of a project's file is.

Entering the host waits for an answer as long as a remembered one takes, a second at most. A server
that waits for an answer is "idle"; it is connected as soon as there is a yes. After a no its status
says why, and ``host.session(name)`` and ``host.reconnect(name)`` ask again. Each decision is in the
audit of the host: see ``mcp_client.audit.request_record``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from ..approval.decision import check_hook
from ..approval.decisions import Decisions
from ..approval.gate import Allow, Answer, ApprovalHook, Deny, Gate, Policy
from ..approval.remembered import ApprovalMemory
from ..approval.request import new_id
from ..approval.start_request import Scope, StartRequest
from ..approval.terminal import ask_on_terminal
from ..errors import ConfigError, StartDenied
from ..runtime.limits import Timeouts
from .config import Config, load_config
from .options import HostOptions, ServerConfig, audit_of
from .start_request import Start

if TYPE_CHECKING:
    from ..audit import Audit, AuditTo
    from .host import Host

__all__ = ["check_start", "host_from_config"]

_MAX_TOLD = 3
_ADVICE = (
    "give Host.from_config(confirm=ask_on_terminal), or a function from StartRequest to Allow or "
    "Deny, and decisions=FILE to keep the answer of Allow(remember='always')"
)
H = TypeVar("H", bound="Host")


def host_from_config(
    kind: type[H],
    path: str | os.PathLike[str],
    confirm: ApprovalHook | Policy | None,
    *,
    scope: Scope | None,
    inputs: Mapping[str, str] | None,
    only: Collection[str] | None,
    options: HostOptions,
) -> H:
    check_hook("confirm", confirm)
    timeouts = options.get("timeouts")
    if timeouts is not None and not isinstance(timeouts, Timeouts):
        raise ConfigError(f"timeouts={timeouts!r}: give Timeouts(idle=30, ...)")
    config = load_config(path, scope=scope, inputs=inputs)
    if not config.servers and config.problems:
        raise ConfigError(f"no server can be used: {_main_problems(config)}")
    if only is not None:
        config = config.only(only)
    starts = config._starts
    host = kind({name: one.first.config(timeouts) for name, one in starts.items()}, **options)
    host.problems = config.problems
    shared = host._options
    gate = _gate(confirm, shared.decisions, shared.timeouts.approval)
    for name, start in starts.items():
        audit = shared.audit_of(name)
        host._set_start_gate(name, partial(_decided, start, gate, timeouts, audit))
    return host


async def _decided(
    start: Start, gate: Gate, timeouts: Timeouts | None, audit: Audit | None
) -> ServerConfig | None:
    """The files and programs that the file names are looked at now, because somebody is asked.
    What is to be started instead of what was known before, if anything. Raises ``StartDenied``."""
    try:
        request = await anyio.to_thread.run_sync(start.request)
    except ConfigError as error:
        name = start.first.name
        text = f"the server was not started: {error.message}"
        raise StartDenied(text, server=name, reason=error.message, source="gate") from None
    request = replace(request, id=new_id("start"))  # one for each time that it is asked
    if audit is None:
        await gate.decide(request)
    else:
        await audit.decide(gate, request)
    return None if start.is_read else start.config(timeouts)


async def check_start(
    config: Config,
    name: str,
    confirm: ApprovalHook | Policy | None,
    decisions: Decisions | None,
    audit: AuditTo | None,
    timeouts: Timeouts,
) -> ServerConfig:
    """Ask, as ``Host.from_config`` does, whether this server of the file may be started, and return
    it. Raises ``StartDenied`` where it may not."""
    start = config._starts[name]
    gate = _gate(confirm, decisions, timeouts.approval)
    recorder = audit_of(name, {"audit": audit})
    return await _decided(start, gate, timeouts, recorder) or start.config(timeouts)


def _main_problems(config: Config) -> str:
    """Those for which servers were left out before the others: three, and how many more."""
    problems = sorted(config.problems, key=lambda one: not one.left_out)
    more = len(problems) - _MAX_TOLD
    text = "; ".join(map(str, problems[:_MAX_TOLD]))
    return text if more <= 0 else f"{text}; and {more} more: load_config(path).problems"


def _gate(
    confirm: ApprovalHook | Policy | None,
    decisions: Decisions | None,
    seconds: float,
) -> Gate:
    check_hook("confirm", confirm)
    fallback = _by_its_place if confirm is None else ask_on_terminal
    return Gate(confirm, seconds, fallback, ApprovalMemory(store=decisions))


async def _by_its_place(request: StartRequest) -> Answer:
    """What a person's own settings name may be started; nothing else, without a yes."""
    if request.scope == "user":
        return Allow(reason="it is one of your own settings", source="rule")
    return Deny(
        f"it has not been confirmed, and {request.path} is not one of your own settings but may "
        f"have come with a project: {_ADVICE}",
        source="gate",
    )
