"""Standard input, read so that a signal ends the command while nothing comes."""

from __future__ import annotations

import os
import stat
import sys
from functools import partial

import anyio
import anyio.to_thread

from .exits import UsageError

__all__ = ["standard_input", "stdin_bytes"]

_MAX_STDIN_BYTES = 64 * 1024 * 1024


async def standard_input() -> str:
    """All of it. Raises ``UsageError``."""
    data = await stdin_bytes(_MAX_STDIN_BYTES + 1)
    if len(data) > _MAX_STDIN_BYTES:
        raise UsageError(f"standard input has more than {_MAX_STDIN_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8") from None


async def stdin_bytes(most: int = sys.maxsize) -> bytes:
    """At least ``most`` bytes of standard input, or all. The event loop goes on meanwhile."""
    data = bytearray()
    try:
        fd = sys.stdin.fileno()
        mode = os.fstat(fd).st_mode
        if sys.platform == "win32":
            read = partial(sys.stdin.buffer.read, most)
            return await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
        while len(data) < most:
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd):
                await anyio.wait_readable(fd)
            more = os.read(fd, 65_536)
            if not more:
                break
            data += more
    except (OSError, AttributeError, ValueError) as error:
        raise UsageError(f"standard input cannot be read: {error}") from None
    return bytes(data)
