"""The revisions of the specification, and the one place their dates are written as code."""

from __future__ import annotations

__all__ = ["HANDSHAKE", "LATEST_HANDSHAKE", "LATEST_STATELESS", "STATELESS", "VERSION_HEADER"]
__all__ += ["is_known"]

HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions opened by ``initialize``, newest first."""

STATELESS = ("2026-07-28",)
"""Revisions in which every request stands alone, newest first."""

VERSION_HEADER = (*STATELESS, "2025-11-25", "2025-06-18")
"""Revisions that have the HTTP header ``MCP-Protocol-Version``."""

LATEST_HANDSHAKE = HANDSHAKE[0]
LATEST_STATELESS = STATELESS[0]


def is_known(revision: str) -> bool:
    return revision in HANDSHAKE or revision in STATELESS
