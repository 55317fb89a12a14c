"""Why the tools of a server are missing from those of its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StartDenied
from ..runtime.safe_text import one_line, safe_text

if TYPE_CHECKING:
    from .server import HostedServer

__all__ = ["may_become_available", "why_unavailable"]

_MAX_CHARS, _MAX_SHORT_CHARS = 500, 200


def why_unavailable(server: HostedServer, *, short: bool = False) -> str | None:
    """Return why the tools of a server are not among the host's, with the error behind it: a
    sentence, or a few words. None if they are there, or are not wanted."""
    if server.offers_tools or server.state == "disabled":
        return None
    error = server.error or server.listing.error
    reason = error.reason if isinstance(error, StartDenied) else error.message if error else ""
    most = _MAX_SHORT_CHARS if short else _MAX_CHARS
    why = f": {safe_text(one_line(reason), most)}" if error else ""
    name = repr(safe_text(server.name, 60))
    waits = f"waits to be allowed to start; host.session({name}) waits for the answer"
    whole, words = f"it is not connected{why}", f"not connected{why}"
    match server.state:
        case "connected" if server.was_closed:
            whole = words = "its session was closed"
        case "connected" if error is not None:
            whole = words = f"its tools could not be listed{why}"
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
            whole, words = f"it was not started{why}", f"not started{why}"
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
