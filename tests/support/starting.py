"""Start the servers of this directory, and find a free port for a server in another process."""

from __future__ import annotations

import itertools
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp_client import MemoryServer, StdioServer
from tests.support.library import Library

__all__ = ["free_port", "in_memory", "library", "scripted", "views"]


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
    return StdioServer(sys.executable, ["-m", "tests.support.views", era], cwd=root)


def in_memory(books: Library) -> MemoryServer:
    """A library without a process of its own."""

    def handler(message: dict[str, Any], send: Callable[[Any], None]) -> None:
        response = books.reply(message, send)
        if response is not None:
            send(response)

    return MemoryServer(handler)


_FIRST, _LAST, _EACH = 10_000, 30_000, 50
"""Below the ports that systems give to connections and to listeners that ask for any. There,
another process could be given a port between the moment it was found and the server's start."""
_starts = itertools.count(os.getpid() * _EACH)


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on, and that processes find in turn."""
    for offset in itertools.islice(_starts, _LAST - _FIRST):
        port = _FIRST + offset % (_LAST - _FIRST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError("no port is free")
