"""The notifications of a server: their names, and how to subscribe to them.

2026-07-28 ``basic/patterns/subscriptions``; 2025-11-25 ``server/tools``, ``server/prompts`` and
``server/resources`` (list changed, subscriptions), ``client/elicitation`` (completion),
``server/utilities/logging``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .jsonrpc import Notification

__all__ = [
    "ACKNOWLEDGED",
    "CANCELLED",
    "COMPLETED",
    "LISTEN",
    "LOGGED",
    "LOG_LEVELS",
    "PROGRESS",
    "PROMPTS",
    "RESOURCES",
    "RESOURCE_UPDATED",
    "TOOLS",
    "Topic",
    "is_news",
    "updates_of",
]

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_TOOLS_CHANGED = "notifications/tools/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"
PROGRESS = "notifications/progress"
CANCELLED = "notifications/cancelled"
COMPLETED = "notifications/elicitation/complete"
"""2025-11-25 only: a person has finished what the URL was opened for."""
LOGGED = "notifications/message"
LOG_LEVELS = (*("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"),)
"""The log levels from the least to the most severe, as in RFC 5424."""


def is_news(message: object) -> bool:
    """Whether a message of a server is more than a ping or a log line."""
    return getattr(message, "method", None) not in ("ping", LOGGED)


class Topic(NamedTuple):
    """A kind of change that a server can be asked to announce."""

    notice: str
    feature: str
    """The capability with which a server declares it, together with ``detail``."""
    detail: str
    wanted: Mapping[str, Any]
    """The whole filter of a ``subscriptions/listen`` for it."""

    @property
    def filter(self) -> dict[str, Any]:
        """The parameters of a ``subscriptions/listen``."""
        return {"notifications": self.wanted}

    def honoured_by(self, acknowledged: Notification) -> bool:
        """Whether the server agreed to all that was asked for."""
        agreed = acknowledged.params.get("notifications")
        return isinstance(agreed, dict) and all(
            _covers(agreed.get(member), wanted) for member, wanted in self.wanted.items()
        )


TOOLS = Topic(_TOOLS_CHANGED, "tools", "listChanged", {"toolsListChanged": True})
PROMPTS = Topic(
    "notifications/prompts/list_changed", "prompts", "listChanged", {"promptsListChanged": True}
)
RESOURCES = Topic(
    "notifications/resources/list_changed",
    "resources",
    "listChanged",
    {"resourcesListChanged": True},
)


def updates_of(uri: str) -> Topic:
    """The changes of one resource."""
    return Topic(RESOURCE_UPDATED, "resources", "subscribe", {"resourceSubscriptions": [uri]})


def _covers(agreed: Any, wanted: Any) -> bool:
    if wanted is True:
        return agreed is True
    return isinstance(agreed, list) and all(item in agreed for item in wanted)
