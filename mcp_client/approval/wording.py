"""The words for hints, where these come from, and what a yes covers, wherever people decide."""

from __future__ import annotations

from ..catalog.tool import ToolCall
from .decision import Remember

__all__ = ["HINTS", "ORIGINS", "REMEMBER", "SOURCES", "coverage"]

HINTS = (
    ("read_only", "Read-only"),
    ("destructive", "Destructive"),
    ("idempotent", "Repeatable"),
    ("open_world", "Reaches out"),
)
SOURCES = {
    "server": "the server's word, which you trust",
    "assumed": "assumed, not stated by a trusted server",
    "contradiction": "assumed, the server contradicts itself",
}
ORIGINS = {"app": "the server's own view (MCP App), not the host"}
"""Where a call comes from, where that is not the host."""
REMEMBER = {
    "call": ("This call only", Remember("call")),
    "these-session": (
        "Exactly these arguments, until the session ends",
        Remember("session", exact=True),
    ),
    "these-always": ("Exactly these arguments, always", Remember("always", exact=True)),
    "hour": ("Any arguments, for one hour", Remember("session", seconds=3_600)),
    "session": ("Any arguments, until the session ends", Remember("session")),
    "always": ("Any arguments, always", Remember("always")),
}
"""How far a yes may go, by a short name: as a person reads it, and as it is answered."""


def coverage(call: ToolCall, remember: Remember) -> str:
    """What a yes to ``call`` would cover, as sentences. The names in it are not made safe."""
    if remember.scope == "call":
        return "This call only, also if the server is restarted before it is sent."
    what = "Calls with exactly these arguments" if remember.exact else "Calls with any arguments"
    whose = "" if call.context is None else " of the same context"
    whose += "" if call.origin == "host" else ", made by its view"
    until = "until the session ends"
    if remember.seconds is not None:
        until = f"for {remember.seconds / 60:g} minutes, at most {until}"
    elif remember.scope == "always":
        until = "until it is revoked, where the host keeps answers; else until the session ends"
    found = " or something more is found about a call" if call.findings else ""
    found = found or " or something is found about a call"
    return (
        f"{what} of {call.tool.name} on {call.server}{whose}, {until}. You are asked again if the "
        f"definition of the tool changes{found}."
    )
