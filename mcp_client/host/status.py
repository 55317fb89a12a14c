"""How each server of a host is doing, the stream of its changes, why its tools are not among the
host's, and waiting for many servers without being held up by the slowest."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from ..errors import McpError, StartDenied
from ..runtime.safe_text import safe_text
from ..runtime.watch import Notifier, Watch
from ..session.session import Session

if TYPE_CHECKING:
    from .server import HostedServer

__all__ = ["ServerState", "ServerStatus", "StatusEvents", "StatusWatch"]

ServerState: TypeAlias = Literal[
    "idle", "connecting", "connected", "failed", "needs_login", "disabled", "closed"
]
T = TypeVar("T")
GRACE_SECONDS = 10.0
"""That the slowest are waited for, after they began and after another one was done."""
_POLL_SECONDS = 60.0
_MAX_WAITING = 1_000
"""Changes that wait to be taken; then the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server, at the moment the host was asked."""

    name: str
    """The name the host gave the server."""
    state: ServerState
    """"idle": it is started at its first use, or waits to be allowed. "connecting": for the first
    time, or again. "failed": it is tried again, see ``retry_in``, unless a policy refuses it.
    "needs_login": a person has to log in, then ``host.reconnect(name)``. "disabled" by its
    ``ServerConfig``. "closed": the host is."""
    error: McpError | None = None
    """Why it is not connected, where there is a reason; or why its tools could not be listed."""
    retry_in: float | None = None
    """Seconds until it is tried again; None where nothing is planned."""
    tools: int | None = None
    """How many tools it has, as listed last, without those the host leaves out; None before."""
    session: Session | None = field(default=None, repr=False)
    """The session of the server while that is connected."""
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

    def publish(self, status: ServerStatus) -> None:
        self.version += 1
        for watch in self.watches:
            watch._add(status)
        self.notifier.notify()


class StatusWatch(Watch[ServerStatus]):
    """One ``ServerStatus`` after another, as servers come and go, from the moment it is entered or
    first waited for. It ends when the host is closed."""

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


def why_unavailable(server: HostedServer, *, short: bool = False) -> str | None:
    """Why the tools of a server are not among the host's: a sentence with the error behind it, or a
    few words without. None where they are there, or are not wanted."""
    if server.offers_tools or server.state == "disabled":
        return None
    error = server.error or server.listing.error
    reason = error.reason if isinstance(error, StartDenied) else error.message if error else ""
    why = f": {safe_text(reason, 500)}" if error else ""
    name = repr(safe_text(server.name, 60))
    waits = f"waits to be allowed to start; host.session({name}) waits for the answer"
    whole, words = f"it is not connected{why}", "not connected"
    match server.state:
        case "connected" if server.was_closed:
            whole = words = "its session was closed"
        case "connected" if error is not None:
            whole, words = f"its tools could not be listed{why}", "its tools could not be listed"
        case "connected":
            whole, words = "its tools are not listed", "its tools are not listed yet"
        case "connecting":
            whole, words = "it is still being connected", "still being connected"
        case "needs_login":
            whole, words = f"it needs a login{why}", f"needs a login, then reconnect({name})"
        case "idle" if isinstance(error, StartDenied):
            whole = f"it was not started{why}"
            words = f"was not allowed to start; session({name}) asks again"
        case "idle" if error is not None:
            whole, words = f"it was not started{why}", "not started"
        case "idle" if server.is_asking:
            whole, words = f"it was not started: it {waits}", waits
        case "idle":
            whole = "it is not started yet: it is lazy, and starts at its first use"
            words = f"not started yet; session({name}) starts it"
    return words if short else whole


def may_become_available(server: HostedServer) -> bool:
    """Whether its tools may be there soon without anything being done: it is being connected or
    listed, or somebody is being asked whether it may start."""
    wanted = not server.offers_tools and server.state != "disabled"
    return wanted and (server.busy or server.is_asking)


async def wait_for_most(
    notifier: Notifier,
    now: Callable[[], float],
    pending: Callable[[], Collection[T]],
    since: Callable[[T], float],
    must: Callable[[T], bool] = lambda one: False,
) -> None:
    """Wait until all are done, or only slow ones are left.

    ``pending`` tells which are not done, ``since`` when one began, ``must`` which are waited for
    in any case: each of those must be bounded by itself. ``notifier`` is notified when one is done.
    So on a busy machine, where all are slow, all are waited for as long as some become done.
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
            await notifier.wait(_POLL_SECONDS)
            continue
        latest = [since(one) + GRACE_SECONDS for one in waited_for]
        if any(since(one) >= began - 0.1 for one in waited_for):
            latest.append(progress + GRACE_SECONDS)
        until = max(latest)
        if at >= until:
            return
        await notifier.wait(until - at)
