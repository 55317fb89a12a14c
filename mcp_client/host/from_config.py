"""``Host.from_config``: a host of a config file's servers, each started only once that is allowed.

2026-07-28 and 2025-11-25 ``basic/security_best_practices`` (local server compromise), SEP-1024.
What decides, in this order: a yes that is remembered for exactly this; ``confirm``; without one,
the place of the file: a person's own settings are started, and nothing of a project's file is.

Entering the host waits for an answer as long as a remembered one takes, a second at most. A server
that waits for an answer is "idle"; it is connected as soon as there is a yes. After a no its status
says why, and ``host.session(name)`` and ``host.reconnect(name)`` ask again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

import anyio

from ..approval.questions import invoke_hook
from ..approval.start_request import StartRequest
from ..errors import ConfigError, McpError, StartDenied
from ..runtime.limits import Timeouts
from ..runtime.safe_text import safe_text
from .config import Config, load_config
from .config_places import Scope
from .config_problem import ConfigProblem
from .config_start import Start
from .confirmations import Confirmations, ConfirmationStore
from .server_config import ServerConfig, StartGate

__all__ = ["Confirm", "check_start", "host_from_config"]

Confirm: TypeAlias = "Callable[[StartRequest], bool | Awaitable[bool]]"
"""Asked before a server is started for the first time. Only True means yes."""

_log = logging.getLogger("mcp_client")
_MOST_TOLD = 3
_ADVICE = (
    "give Host.from_config(confirm=confirm_on_terminal), or a function from StartRequest to True "
    "or False, and confirmations=FILE to keep the answer"
)


class _GatedHost(Protocol):
    """What a ``Host`` lets be set before it is entered."""

    problems: tuple[ConfigProblem, ...]

    def _set_start_gate(self, name: str, gate: StartGate) -> None: ...


H = TypeVar("H", bound=_GatedHost)


def host_from_config(
    kind: Callable[..., H],
    path: str | os.PathLike[str],
    confirm: Confirm | None,
    confirmations: ConfirmationStore | str | os.PathLike[str] | None,
    *,
    scope: Scope | None,
    inputs: Mapping[str, str] | None,
    only: Collection[str] | None,
    options: dict[str, Any],
) -> H:
    if confirm is not None and not callable(confirm):
        raise ConfigError(
            f"confirm={confirm!r}: give a function from StartRequest to True or False"
        )
    store = Confirmations.of(confirmations)
    config = load_config(path, scope=scope, inputs=inputs)
    if not config.servers and config.problems:
        raise ConfigError(f"no server can be used: {_main_problems(config)}")
    if only is not None:
        config = config.only(only)
    timeouts = options.get("timeouts") or Timeouts()
    if not isinstance(timeouts, Timeouts):
        raise ConfigError(f"timeouts={timeouts!r}: give Timeouts(idle=30, ...)")
    starts = config._starts
    host = kind({name: start.first.config(timeouts) for name, start in starts.items()}, **options)
    host.problems = config.problems
    for name, start in starts.items():
        if confirm is not None or config.scope == "project":
            gate = partial(_gated, start, confirm, store, timeouts)
            host._set_start_gate(name, gate)
    return host


async def _gated(
    start: Start, confirm: Confirm | None, store: ConfirmationStore, timeouts: Timeouts
) -> McpError | ServerConfig | None:
    """The files and programs that the file names are looked at now, because somebody is asked."""
    try:
        request = await anyio.to_thread.run_sync(start.request)
    except ConfigError as error:
        name = start.first.name
        text = f"the server was not started: {error.message}"
        return StartDenied(text, server=name, reason=error.message, source="gate")
    refused = await _Gate(request, confirm, store, timeouts.approval).answer()
    return refused or (None if start.is_read else start.config(timeouts))


async def check_start(
    config: Config,
    name: str,
    confirm: Confirm | None,
    confirmations: ConfirmationStore | str | os.PathLike[str] | None,
    seconds: float,
) -> ServerConfig:
    """Ask, as ``Host.from_config`` does, whether this server of the file may be started, and return
    it. Raises ``StartDenied`` where it may not."""
    start = config._starts[name]
    if confirm is not None or config.scope == "project":
        store = Confirmations.of(confirmations)
        answer = await _gated(start, confirm, store, Timeouts(approval=seconds))
        if isinstance(answer, McpError):
            raise answer
    return start.config()


def _main_problems(config: Config) -> str:
    """Those for which servers were left out before the others: three, and how many more."""
    problems = sorted(config.problems, key=lambda one: not one.left_out)
    more = len(problems) - _MOST_TOLD
    text = "; ".join(map(str, problems[:_MOST_TOLD]))
    return text if more <= 0 else f"{text}; and {more} more: load_config(path).problems"


class _Gate:
    """Whether one server may be started. A ``StartGate`` of the host."""

    def __init__(
        self,
        request: StartRequest,
        confirm: Confirm | None,
        store: ConfirmationStore,
        seconds: float,
    ) -> None:
        self._request = request
        self._confirm = confirm
        self._store = store
        self._seconds = seconds

    async def answer(self) -> McpError | None:
        request = self._request
        if await self._store.is_confirmed(request):
            return None
        if self._confirm is None:
            return self._denied(
                f"it has not been confirmed, and {request.path} is not one of your own settings "
                f"but may have come with a project: {_ADVICE}",
                "gate",
            )
        answer: Any = None
        with anyio.move_on_after(self._seconds) as scope:
            try:
                answer = await invoke_hook(self._confirm, request)  # type: ignore[arg-type]
            except StartDenied as error:
                return error
            except Exception as error:  # noqa: BLE001 - any failure of the host's hook means no
                _log.warning("%s: confirm raised", request.server, exc_info=True)
                return self._denied(f"confirm raised {type(error).__name__}", "gate")
        if scope.cancelled_caught:
            return self._denied(f"there was no answer within {self._seconds:g} s", "gate")
        if answer is not True:
            if answer is not False:
                kind = type(answer).__name__
                return self._denied(f"confirm returned a {kind}, not True or False", "gate")
            return self._denied("the answer was no", "hook")
        try:
            await self._store.confirm(request)
        except Exception:  # noqa: BLE001 - a yes is a yes, whether it can be kept or not
            _log.warning(
                "%s: the confirmation cannot be kept, and is asked for again next time",
                request.server,
                exc_info=True,
            )
        return None

    def _denied(self, why: str, source: str) -> StartDenied:
        name = safe_text(self._request.server, 60)
        done = "started" if self._request.command is not None else "connected to"
        return StartDenied(
            f"the server was not {done}: {why}", server=name, reason=why, source=source
        )
