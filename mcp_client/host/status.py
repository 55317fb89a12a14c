"""How each server of a host is doing, and the stream of its changes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..errors import McpError
from ..runtime.watch import Notifier, Watch
from ..session.session import Session

__all__ = ["ServerState", "ServerStatus", "StatusEvents", "StatusWatch"]

ServerState: TypeAlias = Literal[
    "idle", "connecting", "connected", "failed", "needs_login", "disabled", "closed"
]
_MAX_WAITING = 1_000
"""Changes that wait to be taken; then the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server, at the moment the host was asked."""

    name: str
    """The name the host gave the server."""
    state: ServerState
    """"idle": it is started at its first use, or waits to be allowed. "connecting": for the first
    time, or again. "failed": it is tried again, see ``retry_in``. "needs_login": a person has to
    log in, then ``host.reconnect(name)``. "disabled" by its ``ServerConfig``. "closed": the host
    is."""
    error: McpError | None = None
    """Why it is not connected, where there is a reason; or why its tools could not be listed."""
    retry_in: float | None = None
    """Seconds until it is tried again; None where nothing is planned."""
    tools: int | None = None
    """How many tools it has, as listed last, without those the host leaves out; None before."""
    session: Session | None = field(default=None, repr=False)
    """Its session while it is connected."""
    description: str | None = None
    """What its ``ServerConfig`` says it is for."""


class StatusEvents:
    """Tells every watch of each change."""

    def __init__(self) -> None:
        self.notifier = Notifier()
        """Notified of these changes, and of whatever else a host may wait for."""
        self.closing = self.closed = False
        self.version = 0
        """Another number after each change."""
        self.watches: set[StatusWatch] = set()

    def changed(self) -> None:
        self.version += 1
        self.notifier.notify()

    def tell(self, status: ServerStatus) -> None:
        self.version += 1
        for watch in self.watches:
            watch.add(status)
        self.notifier.notify()


class StatusWatch(Watch[ServerStatus]):
    """One ``ServerStatus`` after another, as servers come and go, from the moment it is entered or
    first waited for. It ends when the host is closed."""

    def __init__(self, events: StatusEvents) -> None:
        super().__init__(events.notifier)
        self._events = events
        self._waiting: deque[ServerStatus] = deque(maxlen=_MAX_WAITING)

    def add(self, status: ServerStatus) -> None:
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
