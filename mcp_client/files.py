"""Small files that several processes write: in turns, and each file as a whole.

The lock is on the directory, by its descriptor: a file that is replaced cannot carry its own.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

try:
    import fcntl
except ImportError:  # pragma: no cover - where there is none, processes do not take turns
    fcntl = None  # type: ignore[assignment]

__all__ = ["in_turn", "replace"]

PATIENCE = 10.0
"""Seconds to wait for one's turn; whoever has it only reads and writes a small file."""


@contextmanager
def in_turn(directory: int) -> Iterator[None]:
    """One at a time, threads and processes alike, until ``directory`` is closed.

    Raises ``TimeoutError`` where the turn does not come, else ``OSError``.
    """
    until = time.monotonic() + PATIENCE
    while fcntl is not None:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= until:
                raise TimeoutError from None
            time.sleep(0.005)
    try:
        yield
    finally:
        if fcntl is not None:
            fcntl.flock(directory, fcntl.LOCK_UN)


def replace(directory: int, name: str, data: bytes, mode: int) -> os.stat_result:
    """Put ``data`` on the disk and then in place of the file ``name``, at once. Raises ``OSError``.

    Until then it lies beside it as ``.NAME.`` and more, which nobody but the owner can read.
    """
    draft = f".{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(draft, flags, 0o600, dir_fd=directory)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(file, mode)
            os.fsync(file)
            written = os.fstat(file)
        os.replace(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(draft, dir_fd=directory)
        raise
    with suppress(OSError):  # some file systems cannot, and the file is in its place already
        os.fsync(directory)
    return written
