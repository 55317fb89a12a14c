"""A file that lines are only ever added to, by any number of threads and processes at once.

```python
log = AuditLog("calls.jsonl", max_bytes=16 * 1024 * 1024, keep=30)
async with connect(server, audit=log) as session: ...
verify_audit("calls.jsonl")
```

Each append opens the file, waits for its lock, reads the last line if another process wrote it,
and writes its lines at once. So nothing stays open between calls, a file that was rotated or
deleted under us is noticed, and a log may be shared by sessions, threads and processes; what its
lines are is said in ``chain``. A line that a crash cut off is kept as it is, and the next one tells
of it. The file is made for its owner alone (0600), is never a symbolic link, and is refused where
others may write to it.

What was appended survives the end of the process. To survive the end of the machine as well it has
to be on the disk: ``fsync=True``, which costs what the disk costs, and waits in a thread.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import AuditError, ConfigError
from .hash_chain import LONGEST, NOTHING, Position, key_of, now, rotated, seal, unseal

try:
    import fcntl
except ImportError:  # pragma: no cover - where there is none, processes do not take turns
    fcntl = None  # type: ignore[assignment]

__all__ = ["AuditLog"]

_FORMAT = 1
_PATIENCE = 10.0
_LEAST = 4_096
_BEGINNING = 1_024
_TRIES = 100
_LONGEST = LONGEST // 2
_CLOSED_IN_CHILDREN = getattr(os, "O_CLOEXEC", 0)
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | _CLOSED_IN_CHILDREN
_FLAGS |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class _Busy(Exception):
    """Another thread or process is writing, and there was no time left to wait."""


class AuditLog:
    """An audit log in a file: append to it, and check it with ``verify_audit``."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int | None = 64 * 1024 * 1024,
        keep: int | None = None,
        fsync: bool = False,
        key: bytes | None = None,
    ) -> None:
        """Nothing is opened before the first line is written.

        A file that would grow beyond ``max_bytes`` is renamed to ``calls.jsonl.000001`` and so
        on; the newest ``keep`` of those stay, or all. ``fsync``: wait for the disk. ``key``, at
        least 16 secret bytes kept elsewhere, makes lines that nobody can make without it. Raises
        ``ConfigError`` for an option that is none.
        """
        if not isinstance(path, str | os.PathLike):
            raise ConfigError(f"AuditLog({path!r}): give the path of a file")
        if max_bytes is not None and (type(max_bytes) is not int or max_bytes < _LEAST):
            raise ConfigError(f"AuditLog(max_bytes={max_bytes!r}): give at least {_LEAST}, or None")
        if keep is not None and (type(keep) is not int or keep < 1):
            raise ConfigError(f"AuditLog(keep={keep!r}): give a whole number above 0, or None")
        self.path = Path(path).absolute()
        self.fsync = fsync
        self._max_bytes = max_bytes
        self._keep = keep
        self._key = key_of(key)
        self._known: tuple[tuple[int, int, int], Position] | None = None

    def __repr__(self) -> str:
        return f"AuditLog({str(self.path)!r})"

    def append(self, *records: Mapping[str, Any]) -> None:
        """Add a line for each of ``records``, all of them or none. Blocks.

        Raises ``AuditError`` where the file cannot be written, does not end with a line of this
        log, or is being written by others for ten seconds.
        """
        if not self.append_now(*records, patience=_PATIENCE):
            raise self._error(f"others have been writing to it for more than {_PATIENCE:g} s")

    def append_now(self, *records: Mapping[str, Any], patience: float = 0.0) -> bool:
        """The same, waiting for others for ``patience`` seconds; False where that is too short."""
        until = time.monotonic() + patience
        try:
            for _ in range(_TRIES):
                if self._appended(records, until):
                    return True
        except _Busy:
            return False
        except OSError as error:
            raise self._error(error.strerror or type(error).__name__) from None
        raise self._error("it is renamed or deleted again and again")

    # ------------------------------------------------------------------ one try

    def _appended(self, records: tuple[Mapping[str, Any], ...], until: float) -> bool:
        """False where the file turned out not to be the newest one any more."""
        file = os.open(self.path, _FLAGS, 0o600)
        try:
            _lock(file, until)
            here = os.fstat(file)
            if not self._is_newest(here):
                return False
            self._refuse(here)
            if here.st_size == 0:
                os.fchmod(file, 0o600)  # whatever the umask says
            last, cut = self._end(file, here)
            text, last = self._lines(records, last, cut, here.st_size == 0)
            if cut is None and self._is_full(here.st_size, len(text)):
                self._rotate(last.file)
                return False
            self._write(file, here.st_size, text)
            self._known = (here.st_dev, here.st_ino, here.st_size + len(text)), last
            return True
        finally:
            os.close(file)

    def _is_newest(self, here: os.stat_result) -> bool:
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def _refuse(self, here: os.stat_result) -> None:
        if not stat.S_ISREG(here.st_mode):
            raise self._error("it is no regular file")
        if here.st_mode & 0o022 and here.st_size:
            raise self._error("others may write to it; chmod 600")

    def _lines(
        self, records: tuple[Mapping[str, Any], ...], last: Position, cut: bytes | None, new: bool
    ) -> tuple[bytes, Position]:
        """What to write, and where the log stands then."""
        about = {"time": now(), "process": os.getpid(), "format": _FORMAT}
        number = last.file + 1 if new else last.file
        if new:
            records = ({"event": "begun", **about}, *records)
        elif cut:
            records = ({"event": "repaired", **about, **_traces(cut)}, *records)
        lines = [] if cut is None else [b""]
        for record in records:
            line, last = seal(record, last, self._key, number)
            if len(line) > _LONGEST:
                raise self._error(f"a record of more than {_LONGEST} bytes")
            lines.append(line)
        return b"\n".join(lines) + b"\n", last

    def _write(self, file: int, size: int, text: bytes) -> None:
        written = 0
        try:
            while written < len(text):
                written += os.write(file, text[written:])
            if self.fsync:
                os.fsync(file)
                if size == 0:
                    _fsync_directory(self.path)
        except OSError:
            # Half a line is worse than none; where even this fails, the next append repairs it.
            os.ftruncate(file, size)
            raise

    # ------------------------------------------------------------ what is there

    def _end(self, file: int, here: os.stat_result) -> tuple[Position, bytes | None]:
        """The last line, and what a crash left after it: None, or bytes without a newline."""
        known = self._known
        if known is not None and known[0] == (here.st_dev, here.st_ino, here.st_size):
            return known[1], None
        if here.st_size == 0:
            return self._before(), None
        return self._last_line(file, here.st_size, self.path)

    def _before(self) -> Position:
        """Where the newest of the earlier files ends."""
        older = rotated(self.path)
        if not older:
            return Position(0, 0, NOTHING)
        number, path = older[-1]
        file = os.open(path, os.O_RDONLY | _CLOSED_IN_CHILDREN)
        try:
            last, cut = self._last_line(file, os.fstat(file).st_size, path)
        finally:
            os.close(file)
        if cut is not None:
            raise self._error(f"{path.name} does not end with a whole line")
        return Position(last.line, number, last.hash)

    def _last_line(self, file: int, size: int, path: Path) -> tuple[Position, bytes | None]:
        block = 4_096
        while True:
            start = max(0, size - block)
            data = _read(file, start, size)
            found = self._found(data, start == 0)
            if found is not None:
                return found
            if start == 0 or block >= LONGEST:
                break
            block *= 8
        # Only a file whose very first line was cut off is one of ours all the same.
        beginning = data.strip(b"\0")[:8]
        if start == 0 and not data.endswith(b"\n") and b'{"line":'.startswith(beginning):
            last = self._before()
            return Position(last.line, last.file + 1, last.hash), data
        raise self._error(
            f"{path.name} does not end with a line of this log, written with this key; "
            "verify_audit tells more"
        )

    def _found(self, data: bytes, whole: bool) -> tuple[Position, bytes | None] | None:
        """The last good line in the end of a file; None where it is not in there."""
        end = len(data)
        if not data.endswith(b"\n"):
            begin = data.rfind(b"\n") + 1
            position = self._position(data[begin:]) if begin or whole else None
            if position is not None:
                return position, b""  # nothing but its newline is missing
        while (end := data.rfind(b"\n", 0, end)) >= 0:
            begin = data.rfind(b"\n", 0, end) + 1
            if begin == 0 and not whole:
                return None
            position = self._position(data[begin:end])
            if position is not None:
                return position, data[end + 1 :] or None
            if data.endswith(b"\n"):
                return None  # no crash leaves a whole line that is not as it was written
        return None

    def _position(self, line: bytes) -> Position | None:
        try:
            return unseal(line, self._key)[1]
        except ValueError:
            return None

    # ---------------------------------------------------------------- rotating

    def _is_full(self, size: int, more: int) -> bool:
        most = self._max_bytes
        return most is not None and size > _BEGINNING and size + more > most

    def _rotate(self, number: int) -> None:
        """Give the file its number; whoever appends next begins a new one."""
        target = self.path.with_name(f"{self.path.name}.{number:06d}")
        if os.path.lexists(target):
            raise self._error(f"{target.name}, to which it should be renamed, is there already")
        os.rename(self.path, target)
        if self._keep is not None:
            for _, old in rotated(self.path)[: -self._keep]:
                os.unlink(old)
        if self.fsync:
            _fsync_directory(self.path)

    def _error(self, reason: str) -> AuditError:
        return AuditError(
            f"the audit log {self.path} cannot be written: {reason}",
            path=self.path,
            reason=f"{self.path.name}: {reason}",
        )


def _traces(cut: bytes) -> dict[str, Any]:
    import hashlib

    return {"bytes": len(cut), "sha256": hashlib.sha256(cut).hexdigest()}


def _read(file: int, start: int, end: int) -> bytes:
    data = b""
    while len(data) < end - start:
        piece = os.pread(file, end - start - len(data), start + len(data))
        if not piece:
            break
        data += piece
    return data


def _lock(file: int, until: float) -> None:
    """One writer at a time, threads included: the lock belongs to this opening of the file."""
    pause = 0.0001
    while fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise _Busy from None
        time.sleep(pause)
        pause = min(pause * 2, 0.005)


def _fsync_directory(path: Path) -> None:
    directory = os.open(path.parent, os.O_RDONLY | _CLOSED_IN_CHILDREN)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
