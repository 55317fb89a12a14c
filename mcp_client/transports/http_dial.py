"""The connections of the HTTP pool: opened, and asked for what their streams do not report.

The simulation of ``tests/`` replaces ``dial``, so that the pool runs over a network of its own.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import anyio
from anyio.abc import ByteStream, SocketAttribute

from ..runtime.daemon_thread import NoThread
from .http_stock import SIGNS_OF_LIFE

__all__ = ["Dialled", "close", "dial"]


class Dialled(NamedTuple):
    """A TCP connection, and what is asked of its socket past the stream."""

    stream: ByteStream
    write: Callable[[bytes], int]
    """Return how many bytes the socket takes now. Raises ``OSError`` if it takes none."""
    has_input: Callable[[], bool]
    """Whether there is anything to read, the end of the stream included."""


async def dial(host: str, port: int) -> Dialled:
    """Open a TCP connection."""
    try:
        stream = await anyio.connect_tcp(host, port)
    except RuntimeError as error:  # the name is looked up in a thread
        raise NoThread(error) from None
    try:
        raw = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in SIGNS_OF_LIFE:
            raw.setsockopt(*option)
    except BaseException:
        await close(stream)
        raise
    return Dialled(stream, partial(_write, raw), partial(_is_readable, raw))


async def close(stream: ByteStream) -> None:
    """Close it, also while the caller is being cancelled."""
    with anyio.CancelScope(shield=True):  # without a closing handshake nothing is waited for
        try:
            await stream.aclose()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass


def _write(raw: socket.socket, data: bytes) -> int:
    if sys.platform == "win32":  # where ``os.write`` does not write to sockets
        raise BlockingIOError
    return os.write(raw.fileno(), data)


def _is_readable(raw: socket.socket) -> bool:
    try:
        if sys.platform == "win32" or not hasattr(select, "poll"):
            return bool(select.select([raw], [], [], 0)[0])
        poll = select.poll()
        poll.register(raw.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    except (OSError, ValueError):  # it is closed
        return True
