"""Which of the collected tests run, and in what order: pairs by default, all products in CI.

``WAYS`` are the ways of running a server's process that tests use on one system.
"""

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

__all__ = [
    "CONFINED",
    "CONFINED_WAYS",
    "WAYS",
    "begin_with_long_ones",
    "is_twice_the_same",
    "leave_products_to_ci",
    "process_here",
    "use_way",
]

PRODUCTS = ("tests/journeys/", "tests/transports/test_contract.py")
"""Where each transport is tried on each backend, by default too."""
OF_LOGINS = "tests/auth/"
BY_ITSELF = "tests/auth/test_httpx_auth.py"


def is_twice_the_same(item: pytest.Item) -> bool:
    """Servers in a sandbox are tried on one backend: what they are to it, the others are too."""
    chosen = getattr(item, "callspec", None)
    return chosen is not None and (
        chosen.params.get("process_way") == CONFINED
        and chosen.params.get("anyio_backend") == "trio"
    )


def begin_with_long_ones(items: list[pytest.Item], workers: int) -> None:
    """Let each worker begin with its share of the tests that take or wait long: one that began last
    would keep all other workers waiting. xdist gives each worker a part of this list, in order."""
    is_long = [any(map(item.get_closest_marker, ("slow", "interop"))) for item in items]
    others = [item for item, long in zip(items, is_long, strict=True) if not long]
    longs = [item for item, long in zip(items, is_long, strict=True) if long]
    items.clear()
    for left in range(workers, 0, -1):
        size = (len(longs) + len(others)) // left
        count = len(longs) // left
        items += longs[:count] + others[: size - count]
        del longs[:count], others[: size - count]


def leave_products_to_ci(items: list[pytest.Item]) -> None:
    """Of ways that do not depend on one another, try pairs by default: a test with parameters has
    all of them on asyncio and the first on trio, and a login, which does not know how its requests
    travel, goes through the pool. All products are tried in CI."""
    on_trio: set[str] = set()
    for item in items:
        chosen = getattr(item, "callspec", None)
        if chosen is None or item.get_closest_marker("slow"):
            continue
        name = item.nodeid.partition("[")[0]
        if chosen.params.get("anyio_backend") == "trio" and not name.startswith(PRODUCTS):
            if name in on_trio:
                item.add_marker(pytest.mark.slow)
            on_trio.add(name)
        is_of_a_login = name.startswith(OF_LOGINS) and not name.startswith(BY_ITSELF)
        if chosen.params.get("http_way") == "httpx" and is_of_a_login:
            item.add_marker(pytest.mark.slow)


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
