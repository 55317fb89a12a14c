"""The ways of running a server's process, which tests go through on one system."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from pathlib import Path

import pytest

from mcp_client import Sandbox, StdioServer
from mcp_client.transports.stdio import StdioTransport
from tests.programs import need

__all__ = ["CONFINED", "CONFINED_WAYS", "WAYS", "process_here", "use_way"]

WAYS = [
    "loop",
    pytest.param("threads", marks=pytest.mark.slow),
    pytest.param("no pidfd", marks=pytest.mark.slow),
]
"""By the event loop, by threads (as on Windows), and as on macOS; only the first by default."""


CONFINED = "in a sandbox"
CONFINED_WAYS = [pytest.param(CONFINED, marks=pytest.mark.slow)]
"""In a sandbox: to the host all is as without."""


def use_way(way: str, monkeypatch: pytest.MonkeyPatch, writable: Path | None = None) -> None:
    """In a sandbox, servers may write ``writable``."""
    if way == CONFINED:
        need("bubblewrap")
        _confine_all(Sandbox(write=[writable or Path.cwd()]), monkeypatch)
    if way == "threads":
        monkeypatch.setenv("MCP_CLIENT_STDIO", "threads")
    if way == "no pidfd":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
        monkeypatch.delattr(os, "waitid", raising=False)  # macOS before Python 3.13


def _confine_all(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    made = StdioTransport.__init__

    def make(self: StdioTransport, server: StdioServer) -> None:
        made(self, dataclasses.replace(server, sandbox=sandbox))

    monkeypatch.setattr(StdioTransport, "__init__", make)


def process_here(number: int) -> int:
    """The process that calls itself so, by the number it has here; -1 where it is gone.

    In a sandbox with numbers of its own, another one.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            status = (process / "status").read_text()
            numbers = re.search(r"^NSpid:(.*)", status, re.M)
            if numbers and numbers[1].split()[-1] == str(number) and _is_ours(int(process.name)):
                return int(process.name)
    return -1


def _is_ours(pid: int) -> bool:
    """Whether this process started it, or what did."""
    while pid > 1:
        if pid == os.getpid():
            return True
        found = re.search(r"^PPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
        pid = int(found[1]) if found else 0
    return False
