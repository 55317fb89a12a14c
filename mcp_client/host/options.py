"""The options of a ``Host``: for each of its servers, and for all of them.

The options of a host are those of ``connect``; a ``ServerConfig`` overrides some of them. Shared
objects are made once: the state, the audit log, the lock file of pins, the decisions.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from ..approval.constraints import glob
from ..config.server_config import ServerConfig
from ..errors import ConfigError, McpError
from ..runtime.limits import Limits, Timeouts
from ..runtime.option_names import check_names
from ..runtime.storage import Storage
from ..transports.servers import confined

if TYPE_CHECKING:  # who reads a config file needs no session
    from ..approval.decision import ApprovalHook, Policy
    from ..approval.decisions import Decisions
    from ..approval.managed_policy import ManagedPolicy
    from ..audit import Audit, AuditTo
    from ..audit.record import SessionAudit
    from ..catalog.pins import Pins
    from ..catalog.tools import Trust
    from ..connection.call_options import CallOptions, Retry
    from ..extensions.extension import ClientInfo
    from ..handlers.handlers import Handlers
    from ..sandbox.sandbox import Sandbox
    from ..session.binding import Bind
    from ..session.connect import Connecting
    from ..state import State
    from ..validation.strictness import Strictness, Validation
    from .naming import Naming

ELSEWHERE = {
    "include": "give it to ServerConfig(server, include=[...])",
    "exclude": "give it to ServerConfig(server, exclude=[...])",
    "lazy": "give it to ServerConfig(server, lazy=True)",
    "confirm": "it is an option of Host.from_config()",
}
"""The advice for an option that a host does not have, in addition to that of ``connect``."""

__all__ = ["HostOptions", "SharedOptions", "ToolFilter", "names_of"]

KEEP_LISTED = 300.0
"""The default of ``keep_listed`` in seconds: most providers cache a prompt for as long."""


class ToolFilter:
    """A filter of a server's tools, by its own names for them."""

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = [(pattern, glob(pattern)) for pattern in include]
        self._exclude = [(pattern, glob(pattern)) for pattern in exclude]

    def __bool__(self) -> bool:
        return bool(self._include or self._exclude)

    def why_left_out(self, tool: str) -> str | None:
        """Return the option that leaves the tool out; None if the tool may be used."""
        for pattern, matches in self._exclude:
            if matches(tool):
                return f"the host leaves it out: exclude={pattern!r}"
        if self._include and not any(matches(tool) for _, matches in self._include):
            patterns = ", ".join(repr(pattern) for pattern, _ in self._include[:5])
            return f"the host leaves it out: it is not among include=[{patterns}]"
        return None


def names_of(option: str, value: object) -> frozenset[str]:
    """Return the names in ``value``. Raises ``ConfigError`` for what is not a list of names."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ConfigError(f"{option}={value!r}: give a list of names")
    return frozenset(value)


class HostOptions(TypedDict, total=False):
    """The options of a host. Those without a comment are options of ``connect``.

    ``naming`` defines the names of its tools. Entering the host raises if a server of ``required``
    is missing. ``keep_listed`` is the number of seconds for which the tools of a server that is
    down stay listed. ``sandbox`` confines the servers that are started.
    """

    naming: Naming
    required: Iterable[str]
    keep_listed: float
    sandbox: Sandbox | bool | None
    trusted: Trust
    approval: ApprovalHook | Policy | None
    handlers: Handlers | None
    state: State | Decisions | str | os.PathLike[str] | None
    pins: Pins | str | os.PathLike[str] | None
    audit: Audit | AuditTo | None
    timeouts: Timeouts | None
    limits: Limits | None
    validation: Validation | Strictness
    retry: Retry | None
    bind: Bind | None
    policy: ManagedPolicy | None
    revision: str
    client_info: ClientInfo | None


def _keep_listed(seconds: object) -> float:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not seconds >= 0:  # type: ignore[operator]
        raise ConfigError(f"Host(keep_listed={seconds!r}): give seconds; 0 turns it off")
    return float(min(seconds, 1e9))  # type: ignore[call-overload]  # which no clock is too small for


class SharedOptions:
    """The checked options of a host, with its stores made once."""

    def __init__(self, options: HostOptions) -> None:
        from ..session.session_options import ELSEWHERE as OF_CONNECT
        from ..session.session_options import stores_in

        known = HostOptions.__annotations__
        check_names("Host()", options, known, {**OF_CONNECT, **ELSEWHERE})
        self._options: dict[str, Any] = {**options}
        self._call_prefix, self._numbers = os.urandom(4).hex(), itertools.count(1)
        self.timeouts: Timeouts = options.get("timeouts") or Timeouts()
        self.limits: Limits = options.get("limits") or Limits()
        stores = stores_in(*map(options.get, ("state", "pins", "audit")))
        self.state: State | None = stores.state
        self.decisions: Decisions | None = stores.decisions
        self.policy: ManagedPolicy | None = options.get("policy")
        self.keep_listed: float = _keep_listed(self._options.pop("keep_listed", KEEP_LISTED))
        self.sandbox: Sandbox | None = None
        if self._options.pop("sandbox", None) is not None:
            from ..sandbox.sandbox import sandbox_of

            self.sandbox = sandbox_of(options["sandbox"])
        self._options |= {"timeouts": self.timeouts, "limits": self.limits}
        state = stores.decisions if stores.state is None else stores.state
        self._options |= {"state": state, "audit": stores.audit}
        self.pins: Pins | None = None
        if stores.pins is not None:
            from ..catalog.pins import Pins

            self.pins = self._options["pins"] = Pins._of(stores.pins)

    def connecting(self, name: str, server: Any, config: ServerConfig) -> Connecting:
        """Return a session that is not open yet. Raises ``ConfigError``, which names the server."""
        from ..approval.rules import Rules
        from ..session.connect import connect
        from .naming import server_part

        options = {**self._options, **config.options}
        sandbox = self.sandbox if config.sandbox is None else config.sandbox
        try:
            if isinstance(rules := options.get("approval"), Rules):
                rules.check_tools(name, f"{server_part(name)}__")
            return connect(confined(server, sandbox), name=name, **options)
        except ConfigError as error:
            error.server = error.server or name
            raise

    @property
    def has_state(self) -> bool:
        """Whether the host has a state."""
        return self.state is not None

    def paused_in(self, configs: Iterable[ServerConfig]) -> Storage | None:
        """Return the store of model responses while their calls wait for approval.

        It is None without one.
        """
        from ..session.session_options import paused_in

        hooks = (config.approval for config in configs)
        return paused_in(self.state, self._options.get("approval"), *hooks)

    async def record(
        self, name: str, arguments: Any, options: CallOptions, error: McpError
    ) -> None:
        """Record a call that was not made because its tool or its session is missing."""
        audit = self.audit_of(error.server or "")
        if audit is not None:
            number = f"{self._call_prefix}-{next(self._numbers)}"
            context, tag = options.get("context"), options.get("tag")
            await audit.entry(number, name, arguments, context, tag=tag).failed(error)

    def audit_of(self, server: str) -> SessionAudit | None:
        """Return the audit of a server's sessions, if there is one."""
        audit: Audit | None = self._options["audit"]
        return None if audit is None else audit._of_server(server)
