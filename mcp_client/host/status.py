"""The status of each server of a host, its changes, and waiting for many servers.

The slowest server does not delay the others.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, TypeVar

from ..errors import Advice, McpError
from ..runtime.safe_text import one_line, safe_text
from ..runtime.watch import Notifier, Watch

__all__ = ["ServerState", "ServerStatus", "StatusEvents", "StatusWatch", "after_login"]

ServerState: TypeAlias = Literal[
    "idle", "connecting", "connected", "failed", "needs_login", "disabled", "closed"
]
T = TypeVar("T")
_log = logging.getLogger("mcp_client")
_MAX_LOGGED_CHARS = 500
_POLL_SECONDS = 60.0
_MAX_WAITING = 1_000
"""Changes that wait to be taken; then the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A server's status at one moment: data, which can be copied and pickled.

    ``host.session(name)`` returns the session of the server, and ``host.sessions`` all of them.
    """

    name: str
    """The name the host gave the server."""
    state: ServerState
    """"idle": it is started at its first use, or waits to be allowed. "connecting": for the first
    time, or again. "failed": it is tried again, see ``retry_in``, unless a policy refuses it.
    "needs_login": a person has to log in, then ``host.reconnect(name)``. "disabled" by its
    ``ServerConfig``. "closed": the host is."""
    error: McpError | None = None
    """The error why it is not connected, or why its tools could not be listed."""
    retry_in: float | None = None
    """The seconds until it is tried again; None if nothing is planned."""
    tools: int | None = None
    """The number of its tools as last listed, without those the host leaves out; None before. Of a
    lazy server that was not started, the number in the lock file; see ``pinned_at``."""
    description: str | None = None
    """The description in its ``ServerConfig``."""
    pinned_at: str | None = None
    """The time of the lock file from which the tools are listed, if the server was not started;
    else None."""
    how_to_list: str | None = None
    """The advice to list the tools of a lazy server before it is started, if they are unknown."""

    def to_json(self) -> dict[str, Any]:
        """Return the status as JSON values, with the text of ``error``: for a health page."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return values | {"error": None if self.error is None else str(self.error)}


class StatusEvents:
    """A source of status changes, which notifies every watch."""

    def __init__(self, gather: float) -> None:
        """``gather`` is ``Timeouts.gather`` of the host."""
        self.gather = gather
        self.notifier: Notifier = Notifier()
        """Notified of these changes, and of whatever else a host may wait for."""
        self.closing = self.closed = False
        self.version: int = 0
        """Another number after each change."""
        self.watches: set[StatusWatch] = set()
        self._logged: dict[str, type[McpError]] = {}
        """The kind of the error that was logged of a server that is down, by its name."""

    def changed(self) -> None:
        """Notify of a change without a status."""
        self.version += 1
        self.notifier.notify()

    def publish(self, status: ServerStatus) -> None:
        """Notify every watch of a status, and log why a server is down."""
        self.version += 1
        self._log(status)
        for watch in self.watches:
            watch._add(status)
        self.notifier.notify()

    def _log(self, status: ServerStatus) -> None:
        """Log why a server is down, once for each kind of error until it is connected again."""
        error = status.error
        if status.state == "connected":
            self._logged.pop(status.name, None)
        elif status.state in ("failed", "needs_login") and error is not None:
            logged, self._logged[status.name] = self._logged.get(status.name), type(error)
            if logged is not type(error):
                why = safe_text(one_line(error.message), _MAX_LOGGED_CHARS)
                _log.warning("%s: not connected: %s", status.name, why, extra={"is_listed": True})


class StatusWatch(Watch[ServerStatus]):
    """A watch of ``ServerStatus``, from the moment it is entered or first waited for.

    It ends when the host is closed.
    """

    def __init__(self, events: StatusEvents) -> None:
        super().__init__(events.notifier)
        self._events = events
        self._waiting: deque[ServerStatus] = deque(maxlen=_MAX_WAITING)

    def _add(self, status: ServerStatus) -> None:
        self._waiting.append(status)

    @property
    def _is_over(self) -> bool:
        return self._closed or (self._events.closed and not self._waiting)

    async def _begin(self) -> None:
        self._events.watches.add(self)

    def _end(self) -> None:
        self._events.watches.discard(self)

    async def _take(self) -> ServerStatus | None:
        return self._waiting.popleft() if self._waiting else None


def after_login(name: str, advice: Advice | None) -> Advice:
    """Return what can be done about the server of that name, which needs a login."""
    first = f"log in, then reconnect({name!r})"
    return advice._replace(text=f"{first}; {advice.text}") if advice else Advice(first)


async def wait_for_most(
    events: StatusEvents,
    now: Callable[[], float],
    pending: Callable[[], Collection[T]],
    since: Callable[[T], float],
    must: Callable[[T], bool] = lambda one: False,
) -> None:
    """Wait until all are done, or only slow ones are left.

    Args:
        events: Its notifier is notified when one is done.
        now: Returns the time in seconds.
        pending: Returns those that are not done.
        since: Returns the time at which one began.
        must: Whether one is waited for in any case; it must be bounded by itself.

    On a busy machine, where all are slow, all are waited for as long as some become done.
    """
    began = progress = now()
    left = len(pending())
    while left:
        waited_for = pending()
        at = now()
        if len(waited_for) < left:
            progress = at
        left = len(waited_for)
        if not left:
            return
        if any(must(one) for one in waited_for):
            await events.notifier.wait(_POLL_SECONDS)
            continue
        latest = [since(one) + events.gather for one in waited_for]
        if any(since(one) >= began - 0.1 for one in waited_for):
            latest.append(progress + events.gather)
        until = max(latest)
        if at >= until:
            return
        await events.notifier.wait(until - at)
