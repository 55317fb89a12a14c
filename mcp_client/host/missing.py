"""Why the tools of a server are not among the host's, for people and models to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import McpError, StartDenied
from ..runtime.safe_text import safe_text

if TYPE_CHECKING:
    from .server import HostedServer

__all__ = ["may_come", "why_missing", "why_missing_in_short"]


def why_missing(server: HostedServer) -> str | None:
    """One sentence with the error behind it; None where its tools are there, or are not wanted."""
    if server.offers_tools or server.state == "disabled":
        return None
    error = server.error or server.listing.error
    why = "" if error is None else f": {safe_text(_once(error), 500)}"
    match server.state:
        case "connected" if server.was_closed:
            return "its session was closed"
        case "connected":
            return f"its tools could not be listed{why}" if why else "its tools are not listed"
        case "connecting":
            return "it is still being connected"
        case "needs_login":
            return f"it needs a login{why}"
        case "idle" if error is not None:
            return f"it was not started{why}"
        case "idle" if server.is_asking:
            return f"it was not started: it {_waits(server)}"
        case "idle":
            return "it is not started yet: it is lazy, and starts at its first use"
        case _:
            return f"it is not connected{why}"


def why_missing_in_short(server: HostedServer) -> str | None:
    """A few words without the text of an error; None as above."""
    if server.offers_tools or server.state == "disabled":
        return None
    error = server.error or server.listing.error
    match server.state:
        case "connected" if server.was_closed:
            return "its session was closed"
        case "connected":
            return "its tools could not be listed" if error else "its tools are not listed yet"
        case "connecting":
            return "still being connected"
        case "needs_login":
            return f"needs a login, then reconnect({_quoted(server)})"
        case "idle" if isinstance(error, StartDenied):
            return f"was not allowed to start; session({_quoted(server)}) asks again"
        case "idle" if error is None and server.is_asking:
            return _waits(server)
        case "idle" if error is None:
            return f"not started yet; session({_quoted(server)}) starts it"
        case "idle":
            return "not started"
        case _:
            return "not connected"


def may_come(server: HostedServer) -> bool:
    """Whether its tools may be there soon without anything being done: it is being connected or
    listed, or somebody is being asked whether it may start."""
    wanted = not server.offers_tools and server.state != "disabled"
    return wanted and (server.busy or server.is_asking)


def _once(error: McpError) -> str:
    """Its text without what the sentence around it says already."""
    return error.reason if isinstance(error, StartDenied) else error.message


def _waits(server: HostedServer) -> str:
    return f"waits to be allowed to start; host.session({_quoted(server)}) waits for the answer"


def _quoted(server: HostedServer) -> str:
    return repr(safe_text(server.name, 60))
