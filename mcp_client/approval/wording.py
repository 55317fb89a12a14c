"""The words for hints, where these come from, and what a yes covers, wherever people decide."""

from __future__ import annotations

from collections.abc import Mapping

from .decision import Remember
from .skill_request import SkillRequest
from .tool_call import ToolCall

__all__ = ["HINTS", "ORIGINS", "SOURCES", "choices", "coverage", "skill_facts"]

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
_OF_CALLS = {
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
_OF_SKILLS = {
    "call": ("This load only", Remember("call")),
    "hour": ("These files, for one hour", Remember("session", seconds=3_600)),
    "session": ("These files, until the session ends", Remember("session")),
    "always": ("These files, always", Remember("always")),
}


def choices(call: ToolCall | SkillRequest) -> Mapping[str, tuple[str, Remember]]:
    """How far a yes may go, by a short name: as a person reads it, and as it is answered."""
    if not isinstance(call, SkillRequest):
        return _OF_CALLS
    return {"call": _OF_SKILLS["call"]} if call.dynamic else _OF_SKILLS


def skill_facts(request: SkillRequest) -> list[tuple[str, str]]:
    """What a skill consists of, as labels and texts that are not made safe."""
    count = len(request.files)
    size = "dynamic: what the server sends cannot be verified"
    if request.size is not None:
        size = f"{count:,} file{'' if count == 1 else 's'}, {request.size:,} bytes"
    facts = [("Content", size)]
    if request.ignored:
        facts.append(("No effect", f"{', '.join(request.ignored)} (a yes does not grant these)"))
    return facts


def coverage(call: ToolCall | SkillRequest, remember: Remember) -> str:
    """What a yes to ``call`` would cover, as sentences. The names in it are not made safe."""
    if isinstance(call, SkillRequest):
        return _coverage_of_skill(call, remember)
    if remember.scope == "call":
        return "This call only, also if the server is restarted before it is sent."
    what = "Calls with exactly these arguments" if remember.exact else "Calls with any arguments"
    whose = "" if call.context is None else " of the same context"
    whose += "" if call.origin == "host" else ", made by its view"
    until = _until(remember)
    found = " or something more is found about a call" if call.findings else ""
    found = found or " or something is found about a call"
    return (
        f"{what} of {call.tool.name} on {call.server}{whose}, {until}. You are asked again if the "
        f"definition of the tool changes{found}."
    )


def _coverage_of_skill(request: SkillRequest, remember: Remember) -> str:
    if remember.scope == "call":
        return "This load only. Its other files are read when they are needed."
    whose = "" if request.context is None else " for the same context"
    return (
        f"Loading {request.uri} from {request.server}{whose} with exactly these files, "
        f"{_until(remember)}. You are asked again if a file is changed, added or removed."
    )


def _until(remember: Remember) -> str:
    until = "until the session ends"
    if remember.seconds is not None:
        return f"for {remember.seconds / 60:g} minutes, at most {until}"
    if remember.scope == "always":
        return f"until it is revoked, where the host keeps answers; else {until}"
    return until
