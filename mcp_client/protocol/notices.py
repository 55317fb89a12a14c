"""What a server tells unasked: the names of its notices, and what was agreed on for them.

2026-07-28 ``basic/patterns/subscriptions``; 2025-11-25 ``server/tools`` (list changed),
``client/elicitation`` (completion), ``server/utilities/logging``.
"""

from __future__ import annotations

from typing import Any

from .jsonrpc import Notice

__all__ = ["ACKNOWLEDGED", "CANCELLED", "COMPLETED", "LISTEN", "LOGGED", "LOG_LEVELS", "PROGRESS"]
__all__ += ["TOOLS_CHANGED", "TOOLS_FILTER", "honours_tools"]

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS_CHANGED = "notifications/tools/list_changed"
PROGRESS = "notifications/progress"
CANCELLED = "notifications/cancelled"
COMPLETED = "notifications/elicitation/complete"
"""2025-11-25 only: what a person was sent to a URL for is done."""
LOGGED = "notifications/message"
LOG_LEVELS = (*("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"),)
"""From the least to the most severe, as in RFC 5424."""
TOOLS_FILTER: dict[str, Any] = {"notifications": {"toolsListChanged": True}}
"""The parameters of a ``subscriptions/listen`` for changes of the tools, and of nothing else."""


def honours_tools(acknowledged: Notice) -> bool:
    """Whether the server agreed to tell that its tools changed."""
    agreed = acknowledged.params.get("notifications")
    return isinstance(agreed, dict) and agreed.get("toolsListChanged") is True
