"""The options of a session: how ``connect`` checks them, and where a session stores its data."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..approval.gate import Gate
from ..approval.remembered import ApprovalMemory
from ..errors import ConfigError
from ..extensions.extension import ClientInfo
from ..protocol.capabilities import ERAS, HANDSHAKE, STATELESS, ClientDeclaration, is_known
from ..runtime.frozen import frozen_dataclass
from ..runtime.limits import Limits, Timeouts
from ..runtime.session_context import KnownSecrets
from ..transports.servers import recorded_by
from ..validation.strictness import Validation, validation_of

if TYPE_CHECKING:
    from ..approval.decisions import Decisions
    from ..approval.managed_policy import ManagedPolicy
    from ..approval.script import Script
    from ..audit import Audit
    from ..audit.record import SessionAudit
    from ..audit.redacted_content import SpanContent
    from ..catalog.call_values import ToolResult
    from ..catalog.pins import Pins
    from ..catalog.tools import Trust
    from ..connection.call_options import CallOptions, Retry
    from ..handlers.handlers import Handlers
    from ..runtime.storage import Storage
    from ..state import State
    from .binding import Binding

__all__ = [
    "ELSEWHERE",
    "OF_SESSION",
    "ForScripts",
    "Setup",
    "Stores",
    "check_instance",
    "checked",
    "paused_in",
    "stores_in",
]

ELSEWHERE: Mapping[str, str] = {
    "timeout": "give timeouts=Timeouts(total=...), or timeout= to call_tool()",
    **{name: f"give it to HttpServer(url, {name}=...)" for name in ("headers", "auth")},
    **{
        name: f"give it to StdioServer(command, args, {name}=...)"
        for name in ("env", "cwd", "sandbox")
    },
    "args": "give StdioServer(command, args), or the command as a list",
    "approve": "did you mean approval?",
    "decisions": "give state=Decisions(path), or state=FileState(directory, decisions=path)",
    "argument_validation": "give validation=Validation(arguments=...)",
    "audit_failure": "give audit=Audit(to, failure=...)",
    **dict.fromkeys(("redaction", "trace_content"), "give it to audit=Audit(to, ...)"),
    "extensions": "give client_info=ClientInfo(name, version, extensions=[...])",
    "record": "give Recording(server, path) as the server",
}
"""The replacement for options that ``connect`` and ``Host`` do not have."""


@frozen_dataclass
class Setup:
    """The options of one session, checked and with their defaults."""

    name: str
    has_default_name: bool
    trusted: Trust
    gate: Gate
    memory: ApprovalMemory
    timeouts: Timeouts
    limits: Limits
    validation: Validation
    client: ClientDeclaration
    revision: str | None
    """The one revision to speak, or the one era; None agrees on one with the server."""
    pins: Pins | None = None
    handlers: Handlers | None = None
    audit: SessionAudit | None = None
    retry: Retry | None = None
    state: State | None = None
    paused: Storage | None = None
    """The store for model responses whose calls wait for approval."""
    policy: ManagedPolicy | None = None
    bind: Binding | None = None
    content: SpanContent | None = None
    """The parts of arguments and results that spans show."""
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    """The server's secrets, which records of the session must not contain."""


@frozen_dataclass
class Stores:
    """The stores of a session: each from its own option, else from the state."""

    state: State | None
    decisions: Decisions | None
    pins: Pins | str | os.PathLike[str] | None
    audit: Audit | None


def stores_in(state: Any, pins: Any, audit: Any, server: object = None) -> Stores:
    """Return the places where the options of ``connect`` and ``Host`` store data.

    The tokens of an ``OAuth()`` without ``store=`` are stored in the state.

    Args:
        state: The option ``state``.
        pins: The option ``pins``.
        audit: The option ``audit``.
        server: The server, or None for several.

    Raises:
        ConfigError: An option is wrong.
    """
    decisions: Decisions | None = None
    if state is not None:
        from ..approval.decisions import Decisions  # a session without a state loads none
        from ..state.file_state import state_of

        decisions = state if isinstance(state, Decisions) else None
        state = None if decisions is not None else state_of(state)
    if state is None:
        return Stores(None, decisions, pins, _audit(audit, None))
    keep = getattr(getattr(recorded_by(server), "auth", None), "store_tokens_in", None)
    if callable(keep):
        keep(state.tokens)
    return Stores(
        state, state.decisions, state.pins if pins is None else pins, _audit(audit, state)
    )


def _audit(audit: Any, state: State | None) -> Audit | None:
    if audit is None and (state is None or state.audit is None):
        return None
    from ..audit import Audit  # a session without one does not load it

    return Audit._of(audit, state)


def paused_in(state: State | None, *approvals: Any) -> Storage | None:
    """Return the store for model responses whose calls wait for approval.

    That is the state, else the place of an ``ApprovalQueue`` among ``approvals``; None if the
    responses stay in this process.
    """
    from ..runtime.storage import Storage

    hooks = (getattr(approval, "ask", approval) for approval in approvals)
    found = (state, *(getattr(hook, "paused", None) for hook in hooks))
    return next((one for one in found if isinstance(one, Storage)), None)


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked options of ``OF_SESSION``: those of ``options``, or their defaults.

    Raises ``ConfigError`` for a wrong one, and for a wrong ``name`` or ``client_info``.
    """
    name, info = options["name"], options["client_info"]
    if name is not None and (not isinstance(name, str) or not name):
        raise ConfigError(f"name={name!r}: give a non-empty str")
    check_instance("client_info", info, ClientInfo, "ClientInfo('my-app', '1.0')")
    return {option: check(option, options[option]) for option, check in OF_SESSION.items()}


@frozen_dataclass
class ForScripts:
    """The part of a ``Session`` or a ``Host`` that the run of a script needs."""

    limits: Limits
    timeouts: Timeouts
    audit: SessionAudit | None
    has_journal: bool
    paused: Storage | None
    """The storage of model responses while their calls wait for approval."""
    call: Callable[[str, Any, CallOptions, Script], Coroutine[Any, Any, ToolResult]]
    end_run: Callable[[str], None]
    """Forget what was approved for the run with this id."""


def check_instance(option: str, value: Any, kind: type, example: str) -> Any:
    """Return ``value``, or raise ``ConfigError`` unless it is None or an instance of ``kind``.

    Args:
        option: The name of the option, for the error.
        value: The value to check.
        kind: The expected class.
        example: A correct value, for the error.
    """
    if value is not None and not isinstance(value, kind):
        raise ConfigError(f"{option}={value!r}: give {example}")
    return value


def _revision(option: str, value: Any) -> Any:
    if value != "auto" and not (isinstance(value, str) and is_known(value)):
        known = ", ".join((*STATELESS, *HANDSHAKE))
        eras = ", ".join(map(repr, ERAS))
        raise ConfigError(f"{option}={value!r}: give one of {known}, or {eras} or 'auto'")
    return None if value == "auto" else value


def _retry(option: str, value: Any) -> Any:
    if value is None:
        return None
    from ..connection.call_options import Retry  # few hosts retry

    return check_instance(option, value, Retry, "Retry(attempts=3, ...)")


def _bind(option: str, value: Any) -> Binding | None:
    if value is None:
        return None
    from .binding import Binding

    return Binding(value)


OF_SESSION: Mapping[str, Callable[[str, Any], Any]] = {
    "trusted": lambda _, value: _trust_of(value),
    "timeouts": lambda option, value: (
        check_instance(option, value, Timeouts, "Timeouts(idle=30, ...)") or Timeouts()
    ),
    "limits": lambda option, value: (
        check_instance(option, value, Limits, "Limits(tools=100, ...)") or Limits()
    ),
    "validation": validation_of,
    "revision": _revision,
    "retry": _retry,
    "bind": _bind,
}
"""The options of ``connect`` that become the field of ``Setup`` with the same name.

Each has a function of its name and its value, which returns the value of the field. It raises
``ConfigError`` if the option is wrong."""


def _trust_of(value: Any) -> Trust:
    """Return the checked option ``connect(trusted=...)``. Raises ``ConfigError`` if invalid."""
    if inspect.iscoroutinefunction(value) or not (isinstance(value, bool) or callable(value)):
        raise ConfigError(
            f"trusted={value!r}: give True, False, or a function (not async) from a Tool to one"
        )
    trust: Trust = value
    return trust
