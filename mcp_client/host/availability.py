"""Whether the tools of a server are among those of its host, and why not.

They are if it is connected, and for ``Host(keep_listed=)`` seconds after it went down. Those of a
lazy server that was not started are, too, if the lock file has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.finding import Finding
from ..errors import AuthError, ConnectError, StartDenied
from ..runtime.event_loop import Backend, Handle
from ..runtime.limits import seconds_text
from ..runtime.safe_text import one_line, safe_text
from .status import ServerState, StatusEvents, after_login

if TYPE_CHECKING:
    from .server import HostedServer

__all__ = ["Downtime", "how_listed", "how_to_list", "offers_tools", "refusal_of"]

_MAX_CHARS = 500


class Downtime:
    """Since when a server is down, and whether its tools stay listed."""

    def __init__(self, keep: float, events: StatusEvents) -> None:
        self.keep = keep
        """Seconds for which they do."""
        self._events = events
        self._since: float | None = None
        self._timer: Handle | None = None
        self._was_started = self._has_failed = False

    def is_now(self, state: ServerState, backend: Backend) -> None:
        """Note the state of the server."""
        if state == "disabled" or (state == "idle" and not self._was_started):
            return
        self._was_started = True
        if state in ("connected", "closed"):
            self._since, self._has_failed = None, False
            if self._timer is not None:
                self._timer.cancel()
        elif self._since is None:
            self._since = backend.now()
            if self.keep:
                self._timer = backend.call_at(self._since + self.keep, self._over)
        self._has_failed = self._has_failed or state in ("failed", "needs_login", "idle")
        self._now = backend.now

    def _over(self) -> None:
        self._timer = None
        self._events.changed()

    def is_short(self, state: ServerState) -> bool:
        """Whether it is not down, or not for long; ``state`` is that of the server."""
        if self._since is None or (state == "connecting" and not self._has_failed):
            return True
        return self._now() < self._since + self.keep


def offers_tools(server: HostedServer) -> bool:
    """Whether the tools of a server are among the host's."""
    if server.listing.current is None or server.was_closed:
        return False
    if server.state == "connected":
        return True
    if server.state in ("disabled", "closed") or isinstance(server.error, StartDenied):
        return False
    return server.downtime.is_short(server.state)


def how_listed(server: HostedServer) -> Finding | None:
    """Return a finding about a server whose tools are listed although it is not connected."""
    name = safe_text(server.name, 60)
    if server.listing.pinned_at is not None and server.state in ("idle", "connecting"):
        since = server.listing.pinned_at
        when = f", written on {since}" if since else ""
        text = f"server '{name}' is not started: its tools are listed from the lock file{when}"
        return Finding("not_started", text, server.name, note=True)
    if server.state in ("connected", "connecting"):
        return None
    why = f": {safe_text(one_line(server.error.message), _MAX_CHARS)}" if server.error else ""
    keep = seconds_text(server.downtime.keep)
    text = f"server '{name}' is down, and its tools stay listed for {keep}{why}"
    return Finding("stale_list", text, server.name)


def how_to_list(server: HostedServer) -> str | None:
    """Return how to list the tools of a lazy server before it is started; None if they are."""
    if server.state != "idle" or server.listing.current is not None or not server.config.lazy:
        return None
    name, pins = safe_text(server.name, 60), server.pins
    if pins is None:
        return (
            "its tools are unknown until its first use; to list them from a lock file, write that "
            f"with 'mcp-client pins TARGET --name {name} --pins mcp.lock', and give "
            "pins='mcp.lock'"
        )
    return (
        f"its tools are unknown until its first use, because {pins} does not have this server; to "
        f"write them down, run 'mcp-client pins TARGET --name {name} --pins {pins}'"
    )


def refusal_of(server: HostedServer, *, final: bool = False) -> ConnectError:
    """Return what a use of a server raises now; ``final``: it will not be connected."""
    error = server.error
    if error is None:
        why = "not started: it waits to be allowed" if server.is_asking else server.state
        return ConnectError(f"the server is {why}", server=server.name)
    kind = type(error) if isinstance(error, ConnectError) else ConnectError
    fields = dict(vars(error)) if isinstance(error, ConnectError) else {}
    fields.pop("__notes__", None)  # a note, as of an audit that failed, is of that error alone
    retry_in = None if final else server.retry_in
    message = error.args[0] if "advice" in fields else error.message  # advice is the last word
    text = message if isinstance(error, StartDenied) else f"the server is not connected: {message}"
    if isinstance(error, AuthError):
        fields["advice"] = after_login(server.name, error.advice)
    elif retry_in is not None:
        text += f"; it is tried again in {retry_in:.1f} s"
        fields = {**fields, "retryable": True, "retry_after": retry_in}
    return kind(text, **{**fields, "server": server.name, "tool": None, "attempts": 1})
