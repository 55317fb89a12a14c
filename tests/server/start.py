"""Starting the servers of this folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp_client import MemoryServer, StdioServer

from .library import Library

__all__ = ["in_memory", "library", "scripted", "views"]


def scripted(*options: str, **rest: Any) -> StdioServer:
    """The server of ``scripted.py`` with ``options`` on its command line."""
    path = Path(__file__).with_name("scripted.py")
    return StdioServer(sys.executable, ["-IS", str(path), *options], **rest)


def library(era: str) -> StdioServer:
    """The server of ``library.py``; ``era`` is "handshake" or "stateless"."""
    path = Path(__file__).with_name("library.py")
    return StdioServer(sys.executable, ["-IS", str(path), era])


def views(era: str = "stateless") -> StdioServer:
    """The server of ``views.py``; ``era`` as for ``library``."""
    root = Path(__file__).parents[2]
    return StdioServer(sys.executable, ["-m", "tests.server.views", era], cwd=root)


def in_memory(books: Library) -> MemoryServer:
    """A library without a process of its own."""

    def handler(message: dict[str, Any], send: Callable[[Any], None]) -> None:
        said = books.reply(message, send)
        if said is not None:
            send(said)

    return MemoryServer(handler)
