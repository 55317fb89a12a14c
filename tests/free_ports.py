"""Ports for servers that have to be told one, in other processes."""

from __future__ import annotations

import itertools
import os
import socket

__all__ = ["free_port"]

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
