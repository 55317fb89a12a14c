"""The ways of running a server's process, which tests go through on one system."""

from __future__ import annotations

import os

import pytest

__all__ = ["WAYS", "use_way"]

WAYS = [
    "loop",
    pytest.param("threads", marks=pytest.mark.slow),
    pytest.param("no pidfd", marks=pytest.mark.slow),
]
"""By the event loop, by threads (as on Windows), and as on macOS; only the first by default."""


def use_way(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "threads":
        monkeypatch.setenv("MCP_CLIENT_STDIO", "threads")
    if way == "no pidfd":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
        monkeypatch.delattr(os, "waitid", raising=False)  # macOS before Python 3.13
