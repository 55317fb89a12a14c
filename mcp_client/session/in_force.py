"""What a call is made with: the definition and the connection in force."""

from __future__ import annotations

from dataclasses import dataclass

from ..catalog.finding import Finding
from ..catalog.tool import Tool
from ..catalog.tools import Catalog
from ..connection.connection import Connection, session_ended
from ..connection.rpc import RpcConnection
from ..errors import (
    CallTimeout,
    ConnectError,
    McpError,
    NotSent,
    OutcomeUnknown,
    ServerError,
)
from ..protocol.era import Era
from ..protocol.headers import HEADER_MISMATCH
from .tool_validation import ToolPlan

__all__ = [
    "InForce",
    "changes",
    "is_task",
    "not_fetched",
    "not_for",
]


def not_for(tool: Tool) -> NotSent:
    """What a call raises of a tool that is not for who calls it (2026-01-26 ``apps``, visibility):
    models and the host itself, or views."""
    if tool.is_for_apps:
        why = "the server offers the tool to its views only (_meta.ui.visibility), not to models"
    elif tool.is_for_models:
        why = "the server does not offer the tool to its views (_meta.ui.visibility)"
    else:
        why = "the tool's _meta.ui.visibility names neither model nor app, so nothing may call it"
    return NotSent(f"{why}; the call was not sent", server=tool.server, tool=tool.name)


def is_task(plan: ToolPlan, era: Era, on_request: bool) -> bool:
    """Whether to ask that a call is made a task (2025-11-25 ``basic/utilities/tasks``, tool-level
    negotiation): where the tool requires it, or allows it and the caller wants a task.

    Raises ``NotSent`` where the tool requires it and the server does not declare tasks.
    """
    support, tool = plan.task_support, plan.tool
    if era.takes_tasks:
        return support == "required" or (on_request and support == "optional")
    if support == "required":
        raise NotSent(
            "the tool has to be called as a task (execution.taskSupport), and the server does not "
            "declare tasks.requests.tools.call; the call was not sent",
            server=tool.server,
            tool=tool.name,
        )
    return False


def was_out_of_date(error: McpError, connection: Connection, tools: Catalog) -> bool:
    """Whether the server refused a call because what we knew of it was out of date.

    It had ended our session, so that a new one will be opened (2025-11-25 ``basic/transports``,
    session management); or it missed headers that a newer definition of the tool asks for,
    which will be fetched (2026-07-28 ``basic/transports/streamable-http``).
    """
    if isinstance(error, ServerError):
        if error.code != HEADER_MISMATCH or not connection.rpc.mirrors:
            return False
        tools.mark_outdated()
        return True
    return isinstance(error, ConnectError) and session_ended(error)


def not_fetched(error: OutcomeUnknown) -> ConnectError:
    """What a call raises where the list of tools that it needs did not come: it was not sent."""
    if isinstance(error, CallTimeout):
        why = f"tools/list was not answered in time ({error.clock} clock)"
    else:
        why = "the connection was lost while tools/list was under way"
    return ConnectError(
        f"the definition of the tool could not be fetched, and the call was not sent: {why}",
        exit_code=getattr(error, "exit_code", None),
        stderr_tail=getattr(error, "stderr_tail", ""),
        server=error.server,
        retryable=True,
    )


@dataclass(slots=True)
class InForce:
    """A definition, the connection on which it is in force, and how to see that it is no longer."""

    tool: Tool
    rpc: RpcConnection
    version: int
    """Of the list the definition is from."""
    fresh: bool
    """Whether that list was known to be current. A call may use one that is not."""


def changes(then: InForce, now: InForce) -> tuple[Finding, ...]:
    """What is not the same any more; nothing where the approval still holds."""
    found: list[Finding] = []
    if now.tool != then.tool:
        from ..catalog.drift import differences  # only now: few calls need it

        found += differences(then.tool._definition, now.tool._definition)
        old, new, about = then.tool.hints, now.tool.hints, now.tool.fingerprint
        found += [
            Finding(
                "definition_changed",
                f"{hint} was {getattr(old, hint)} and is now {getattr(new, hint)}",
                about,
            )
            for hint in ("read_only", "destructive", "idempotent", "open_world")
            if getattr(old, hint) is not getattr(new, hint)
        ]
    if found or now.tool.trusted is not then.tool.trusted:
        text = "the definition of the tool changed while approval was asked for"
        return (Finding("definition_changed", text, now.tool.fingerprint), *found)
    if now.rpc is not then.rpc:
        text = "the connection was lost and made again while approval was asked for"
        return (Finding("reconnected", text),)
    return ()
