"""The revisions of the specification, and the one place their dates are written as code."""

from __future__ import annotations

__all__ = ["HANDSHAKE", "LATEST_HANDSHAKE", "LATEST_STATELESS", "STATELESS", "VERSION_HEADER"]
__all__ += ["CORE_TASKS", "DECLARES_TOOLS", "ELICITS", "ERAS", "FULL_FORMS", "is_known"]

HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions opened by ``initialize``, newest first."""

STATELESS = ("2026-07-28",)
"""Revisions without a handshake, newest first."""

ERAS: dict[str, tuple[str, ...]] = {"handshake": HANDSHAKE, "stateless": STATELESS}
"""The revisions of each era, by the name that a host gives to speak the newest of them."""

VERSION_HEADER = (*STATELESS, "2025-11-25", "2025-06-18")
"""Revisions that have the HTTP header ``MCP-Protocol-Version``."""

DECLARES_TOOLS = (*STATELESS, "2025-11-25", "2025-06-18")
"""The revisions in which a feature may be used only if it is declared.

Servers of older revisions often omit the declaration.
"""

ELICITS = (*STATELESS, "2025-11-25", "2025-06-18")
"""Revisions that have elicitation."""

FULL_FORMS = (*STATELESS, "2025-11-25")
"""The revisions with URLs to open, titled choices and multiple choice.

In sampling, they have tools, and several content blocks in a message.
"""

CORE_TASKS = ("2025-11-25",)
"""Revisions in which a call may ask to be made a task, without an extension."""

LATEST_HANDSHAKE = HANDSHAKE[0]
LATEST_STATELESS = STATELESS[0]


def is_known(revision: str) -> bool:
    """Whether ``revision`` is a revision, or the name of an era."""
    return revision in ERAS or revision in HANDSHAKE or revision in STATELESS
