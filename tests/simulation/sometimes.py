"""What has to happen in some life: else the world lacks something, or a promise is about nothing.

Each kind of fault, each class of errors that can occur here, and each branch of the gate is reached
in ``MANY`` lives. Errors and audit records are what tells which branch decided a call.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from mcp_client import errors

from . import world

__all__ = ["MANY", "NOT_SIMULATED", "REACHED", "allowed_by", "refused_by", "unreached"]

MANY = 2_000
"""Lives in which each of these is reached."""
REFUSALS = (
    "none within",
    "the audit record cannot be opened",
    "the approval hook returned NoneType",
    "the approval hook returned int",
    "the approval hook made no decision (it raised ValueError)",
    "the approval hook made no decision (it raised ServerError: ",
    "the hook itself made this call while it was deciding another call",
    "the approval hook returned Allow with arguments that are not a mapping",
    "the approval hook returned Allow with remember=",
    "the arguments the approval hook returned are not JSON",
    "the approver edited the arguments 3 times",
    "the arguments broke the tool's input schema",
    "the policy made no decision (it raised LookupError)",
    "the policy returned str",
    "as the approver edited it: the policy of the seed denies it",
    "not approved: the policy of the seed denies it",
    "memory made no decision (the storage of decisions cannot be used",
    "the storage of decisions ",
    "the storage of tickets ",
    "if its context is text",
    "the session was closed",
    "not approved: the seed denies it",
    "the person denies it",
    "the request was withdrawn",
    "changed while approval was requested",
)
"""Why calls are refused, in the words of their errors."""
ALLOWED = (
    "hook once",
    "hook once, edited",
    "hook session",
    "hook always",
    "memory once",
    "memory session",
    "memory always",
    "person once",
    "person once, edited",
)
"""Who allowed calls and how far, in the words of the audit."""
OUTCOMES = (
    "AuthError",
    "CallCancelled",
    "CallDenied",
    "CallPending",
    "CallTimeout",
    "CallWithdrawn",
    "ConfigError",
    "ConnectError",
    "ConnectionLost",
    "InvalidArguments",
    "InvalidResult",
    "InvalidSchema",
    "MissingCapability",
    "NegotiationError",
    "NotSent",
    "OutcomeUnknown",
    "ProtocolViolation",
    "ResultNotStored",
    "ServerError",
    "StateError",
    "ToolChanged",
    "ToolFailed",
    "ToolResult",
    "Unanswered",
    "UnknownTool",
    "UrlElicitationRequired",
    "cancelled",
    "what a model reads",
)
"""How calls end."""
ELSEWHERE = (
    "connect: AuthError",
    "connect: ConfigError",
    "connect: ConnectError",
    "connect: NegotiationError",
    "connect: StartDenied",
    "connect: StateError",
    "decision: NotPending",
    "script: ends",
    "task: cancelled",
    "task: cancels",
    "task: completed",
    "task: failed",
    "task: saves",
    "task: waits",
    "use: NotFound",
)
REACHED = {
    *(name for name in OUTCOMES if name not in ("ToolResult", "cancelled", "what a model reads")),
    *(what.split()[1] for what in ELSEWHERE if what.split()[1] in errors.__all__),
}
"""The classes of errors that some life has."""
NOT_SIMULATED = {
    "McpError, BrokenPromise": "only the classes that are derived from them are raised",
    "AuditError": "calls never raise it, but opening or verifying a real file or database of "
    "records, which a simulated life does not have",
    "SkillError": "files of skills are verified by their digests alone: no clock, wire or order of "
    "events decides it",
}
"""The classes of errors that no life has, and why."""


def refused_by(error: Exception) -> str | None:
    """Which of ``REFUSALS`` an error is; None if it is another."""
    text = str(error)
    return next((why for why in REFUSALS if why in text), None)


def allowed_by(record: dict[str, Any]) -> str | None:
    """Who allowed a call and how far, by the audit record of its end; None if no one did."""
    decision = record.get("decision") or {}
    if decision.get("answer") != "allow":
        return None
    return f"{decision['source']} {decision['scope']}" + ", edited" * ("edited" in record)


def unreached(happened: Counter[str]) -> set[str]:
    """What did not happen, and has to in ``MANY`` lives."""
    sometimes = {
        *(f"fault: {kind}" for kind in world.FAULTS),  # all, once each module has declared its own
        *(f"refused: {why}" for why in REFUSALS),
        *(f"allowed: {who}" for who in ALLOWED),
        *(f"outcome: {kind}" for kind in OUTCOMES),
        *ELSEWHERE,
    }
    return sometimes - {*happened}
