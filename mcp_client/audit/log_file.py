"""A file that lines are only ever added to, by any number of threads and processes at once.

```python
log = AuditLog("calls.jsonl", max_bytes=16 * 1024 * 1024, keep=30)
async with connect(server, audit=log) as session: ...
verify_audit("calls.jsonl")
```

Each append waits for the lock of the file, reads the last line if another process wrote it, and
writes its lines at once; so a log may be shared by sessions, threads and processes. ``hash_chain``
describes the lines. The file stays open between appends (not on Windows), until the session is
closed or the log is no longer used. Each append checks that the file still has its name. A line
that a crash cut off is left as it is, and the next line describes it. The file is for its owner
alone (0600). It is refused if it is a symbolic link, or if others may write to it.

An ``AuditLog`` remembers the last line it wrote. If that line is gone when the next one is written,
because the log was deleted, moved away, cut or replaced while the host ran, three things report it:
the logger ``mcp_client`` (an error), a member or line of the log (``lost``, with the number and
hash of the missing line), and the chain, which continues from the missing line. Rotation by another
process that writes the same log is not a loss.

What was appended survives the end of the process. To survive the end of the machine as well it has
to be on the disk: ``fsync=True``, which costs what the disk costs, and waits in a thread: one call
after the other.

On Windows, where an open file cannot be renamed, a log is one file however long it grows.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import AuditError, ConfigError
from ..runtime.atomic_file import access_problem, lock, unlock, wait_for_disk
from ..runtime.directory import checked_path
from ..runtime.option_names import with_option_names
from .hash_chain import (
    MAX_LINE_BYTES,
    NOTHING,
    NewRecord,
    Position,
    key_of,
    now,
    rotated,
    seal,
    unseal,
)
from .opened_file import OpenedFile, Turn

__all__ = ["AuditLog"]

_log = logging.getLogger("mcp_client")
_FORMAT = 1
_LOCK_SECONDS = 10.0
_LEAST_MAX_BYTES = 4_096
_MAX_QUOTED_BYTES = 1_024
_MAX_TRIES = 100
_MAX_RECORD_BYTES = MAX_LINE_BYTES // 2
_END_BYTES = len(b',"hash":""}\n') + len(NOTHING)
_CHUNK_BYTES = 1024 * 1024
_CLOSED_IN_CHILDREN = getattr(os, "O_CLOEXEC", 0)
_OWN_FILE_MODE = stat.S_IFREG | 0o600


class _Written(NamedTuple):
    """The state of the log when this object last wrote to it."""

    place: tuple[int, int]
    """The device and the inode of the file."""
    size: int
    last: Position
    end: bytes
    """The end of that line: its hash, and the newline."""


class _Busy(Exception):
    """Another thread or process holds the lock, and there was no time left to wait."""


@with_option_names()
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
        code: bool = False,
    ) -> None:
        """Create a log. Nothing is opened before the first line is written.

        Args:
            path: The file.
            max_bytes: The size at which a file is renamed to ``calls.jsonl.000001`` and so on; None
                for never.
            keep: The number of renamed files that stay; None for all.
            fsync: Whether each append waits for the disk.
            key: At least 16 secret bytes, stored in another place. Without it lines cannot be
                forged.
            code: Whether the record of a script's run has its code, redacted, and not only the
                digest.

        Raises:
            ConfigError: If an option is wrong.
        """
        path = checked_path(path, f"AuditLog({path!r})")
        if max_bytes is not None and (type(max_bytes) is not int or max_bytes < _LEAST_MAX_BYTES):
            raise ConfigError(
                f"AuditLog(max_bytes={max_bytes!r}): give at least {_LEAST_MAX_BYTES}, or None"
            )
        if keep is not None and (type(keep) is not int or keep < 1):
            raise ConfigError(f"AuditLog(keep={keep!r}): give a whole number above 0, or None")
        if type(code) is not bool:
            raise ConfigError(f"AuditLog(code={code!r}): give True or False")
        self.path: Path = Path(path).absolute()
        """The file that is written to now; those before it have a number in their names."""
        self._file = str(self.path)
        self.fsync: bool = fsync
        """Whether each line waits for the disk."""
        self.code: bool = code
        """Whether the record of a script's run has its code."""
        self._max_bytes = max_bytes
        self._keep = keep
        self._key = key_of(key)
        self._written: _Written | None = None
        self._idle: list[OpenedFile] = []
        """The files for the next append: one, or those that several threads leave."""
        self._losses: list[str] = []
        self._turn = Turn(_LOCK_SECONDS, self._busy)

    def __repr__(self) -> str:
        return f"AuditLog({str(self.path)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy, which another process may get, is a log of its own over the same file.
        options: dict[str, Any] = {"max_bytes": self._max_bytes, "keep": self._keep}
        options |= {"fsync": self.fsync, "key": self._key, "code": self.code}
        return partial(type(self), self._file, **options), ()

    def append(self, *records: NewRecord) -> None:
        """Add a line for each of ``records``, all of them or none. Blocks.

        Raises ``AuditError`` if the file cannot be written, does not end with a line of this log,
        or is being written by others for ten seconds.
        """
        with self._turn.taken():
            if not self.append_now(*records, patience=_LOCK_SECONDS):
                raise self._busy()

    def append_now(self, *records: NewRecord, patience: float = 0.0) -> bool:
        """Append, or return False after waiting ``patience`` seconds for other processes."""
        until = time.monotonic() + patience if patience else 0.0
        try:
            for _ in range(_MAX_TRIES):
                if self._appended(records, until):
                    return True
        except _Busy:
            return False
        except OSError as error:
            raise self._error(error.strerror or type(error).__name__) from None
        raise self._error("it is renamed or deleted again and again")

    def _busy(self) -> AuditError:
        return self._error(
            f"other processes have been writing to it for more than {_LOCK_SECONDS:g} s"
        )

    @property
    def key(self) -> bytes | None:
        """The secret bytes that lines are signed with, or None."""
        return self._key

    def take_losses(self) -> list[str]:
        """Return the losses since the last time: a sentence for each missing last line."""
        losses, self._losses = self._losses, []
        return losses

    # ------------------------------------------------------------------ one try

    def _appended(self, records: tuple[NewRecord, ...], until: float) -> bool:
        """Append. Returns False if the file was rotated, so that the new one must be opened."""
        try:
            opened = self._idle.pop()
        except IndexError:
            opened = OpenedFile(self._file)
        file, keeps = opened.number, False
        if file < 0:  # closed when this process was forked
            return False
        try:
            if not lock(file, until - time.monotonic() if until else 0.0):
                raise _Busy
            here = self._newest(opened)
            if here is None:
                return False
            size, known, cut, loss = here.st_size, self._written, None, None
            if here.st_mode != _OWN_FILE_MODE or not size:
                self._check_access(file, here)
            if known is not None and known.size == size and self._is_intact(known, opened, size):
                text, last = self._sealed(records, [], known.last, known.last.file)
            else:
                last, cut = self._end(file, here)
                loss = self._loss(opened, here, last)
                text, last = self._lines(records, last, cut, size == 0, loss)
            if cut is None and loss is None and self._is_full(size, len(text)):
                self._rotate(last.file)
                return False
            self._write(file, size, text)
            if loss is not None:
                self._losses.append(self._report(loss))
            end = text[-_END_BYTES:]
            self._written = _Written(opened.place, size + len(text), last, end)
            keeps = sys.platform != "win32"  # there a file that is open cannot be renamed
            return True
        finally:
            try:
                unlock(file)  # a process forked since then may have the file open, too
            except OSError:
                pass  # on Windows, where it was not locked
            if keeps:
                self._idle.append(opened)
            else:
                opened.close()

    def _close(self) -> None:
        """Close the open file; the next append opens it again."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    def _newest(self, opened: OpenedFile) -> os.stat_result | None:
        """Return the status of the open file; None if the name is another file's by now."""
        try:
            there = os.lstat(self._file)
        except FileNotFoundError:
            return None
        return there if (there.st_dev, there.st_ino) == opened.place else None

    def _check_access(self, file: int, here: os.stat_result) -> None:
        if not stat.S_ISREG(here.st_mode):
            raise self._error("it is not a regular file")
        if here.st_mode & 0o077 or not here.st_size:
            # What others wrote looks like what we wrote; what they read, they have read.
            problem = access_problem(here, private=False) if here.st_size else None
            if problem is not None:
                raise self._error(problem)
            if sys.platform != "win32":
                os.fchmod(file, 0o600)  # the umask may have changed it, or a chmod since

    def _lines(
        self,
        records: tuple[NewRecord, ...],
        last: Position,
        cut: bytes | None,
        new: bool,
        loss: Mapping[str, Any] | None,
    ) -> tuple[bytes, Position]:
        """Return the lines to write, and the position after them."""
        first: list[NewRecord] = []
        if cut:
            first.append({"event": "repaired", **_about(), **_traces(cut)})
        if loss is not None and self._written is not None:
            known = self._written.last
            if known.line > last.line:
                last = Position(known.line, max(known.file, last.file), known.hash)
            if not new:
                first.append({"event": "lost", **_about(), **loss})
        number = last.file + 1 if new else last.file
        if new:
            first = [{"event": "begun", **_about(), **({} if loss is None else {"lost": loss})}]
        return self._sealed((*first, *records), [] if cut is None else [b"\n"], last, number)

    def _sealed(
        self, records: Sequence[NewRecord], lines: list[bytes], last: Position, file: int
    ) -> tuple[bytes, Position]:
        """Return ``lines`` and those of ``records``, and the position after them."""
        for record in records:
            line, last = seal(record, last, self._key, file)
            if len(line) > _MAX_RECORD_BYTES:
                raise self._error(f"a record of more than {_MAX_RECORD_BYTES} bytes")
            lines += line, b"\n"
        return b"".join(lines), last

    def _write(self, file: int, size: int, text: bytes) -> None:
        written = 0
        try:
            while written < len(text):
                written += os.write(file, text[written:])
            if self.fsync:
                wait_for_disk(file)
                if size == 0:
                    _fsync_directory(self.path)
        except OSError:
            # Half a line must not stay; where even this fails, the next append repairs it.
            os.ftruncate(file, size)
            raise

    # ------------------------------------------------------------ what is there

    def _end(self, file: int, here: os.stat_result) -> tuple[Position, bytes | None]:
        """Return the last line, and the rest after a crash: None, or bytes without a newline."""
        if here.st_size == 0:
            return self._before(), None
        return self._last_line(file, here.st_size, self.path)

    def _is_intact(self, known: _Written, opened: OpenedFile, size: int) -> bool:
        """Whether this is the file we last wrote to, with our last line where we wrote it."""
        if known.place != opened.place or size < known.size:
            return False
        end = known.end
        return _read_at(opened.number, len(end), known.size - len(end)) == end

    def _loss(
        self, opened: OpenedFile, here: os.stat_result, last: Position
    ) -> dict[str, Any] | None:
        """Return the record about the loss of the last line, if it is gone, else None."""
        known = self._written
        if known is None or self._is_intact(known, opened, here.st_size):
            return None
        if self._is_somewhere(known, here):
            return None
        how = "cut, changed or replaced" if here.st_size else "deleted, moved away or emptied"
        return {"how": how, "last_line": known.last.line, "last_hash": known.last.hash}

    def _is_somewhere(self, known: _Written, here: os.stat_result) -> bool:
        """Whether our last line is in a file of the log, or older than all that are left."""
        files = [path for _, path in rotated(self.path)]
        if here.st_size:
            files.append(self.path)
        if any(_contains(path, known.end) for path in reversed(files)):
            return True
        first = _first_line(files[0], self._key) if files else None
        return first is not None and first.line > known.last.line

    def _report(self, loss: Mapping[str, Any]) -> str:
        message = (
            f"the audit log {self.path} was {loss['how']} while it was written: its line "
            f"{loss['last_line']} with the hash {loss['last_hash']} is gone"
        )
        _log.error("%s", message)
        return message

    def _before(self) -> Position:
        """Return the last line of the newest earlier file."""
        older = rotated(self.path)
        if not older:
            return Position(0, 0, NOTHING)
        number, path = older[-1]
        file = os.open(path, os.O_RDONLY | _CLOSED_IN_CHILDREN | getattr(os, "O_NONBLOCK", 0))
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
            if start == 0 or block >= MAX_LINE_BYTES:
                break
            block *= 8
        # A file whose very first line was cut off is still ours; any other is not.
        beginning = data.strip(b"\0")[:8]
        if start == 0 and not data.endswith(b"\n") and b'{"line":'.startswith(beginning):
            last = self._before()
            return Position(last.line, last.file + 1, last.hash), data
        raise self._error(
            f"{path.name} does not end with a line of this log, written with this key; "
            "use verify_audit"
        )

    def _found(self, data: bytes, whole: bool) -> tuple[Position, bytes | None] | None:
        """Return the last good line in the end of a file; None if there is none."""
        end = len(data)
        if not data.endswith(b"\n"):
            begin = data.rfind(b"\n") + 1
            position = self._position(data[begin:]) if begin or whole else None
            if position is not None:
                return position, b""  # only its newline is missing
        while (end := data.rfind(b"\n", 0, end)) >= 0:
            begin = data.rfind(b"\n", 0, end) + 1
            if begin == 0 and not whole:
                return None
            position = self._position(data[begin:end])
            if position is not None:
                return position, data[end + 1 :] or None
            if data.endswith(b"\n"):
                return None  # a crash cannot leave a complete line with a wrong hash
        return None

    def _position(self, line: bytes) -> Position | None:
        try:
            return unseal(line, self._key)[1]
        except ValueError:
            return None

    # ---------------------------------------------------------------- rotating

    def _is_full(self, size: int, more: int) -> bool:
        most = self._max_bytes
        if sys.platform == "win32":  # an open file cannot be renamed there, and the lock needs it
            return False
        return most is not None and size > _MAX_QUOTED_BYTES and size + more > most

    def _rotate(self, number: int) -> None:
        """Rename the file to its number; the next append begins a new one."""
        target = self.path.with_name(f"{self.path.name}.{number:06d}")
        if os.path.lexists(target):
            raise self._error(f"{target.name}, to which it should be renamed, exists already")
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
            reason=f"{self.path}: {reason}",
        )


def _about() -> dict[str, Any]:
    return {"time": now(), "process": os.getpid(), "format": _FORMAT}


def _traces(cut: bytes) -> dict[str, Any]:
    import hashlib

    return {"bytes": len(cut), "sha256": hashlib.sha256(cut).hexdigest()}


def _read(file: int, start: int, end: int) -> bytes:
    data = b""
    while len(data) < end - start:
        piece = _read_at(file, end - start - len(data), start + len(data))
        if not piece:
            break
        data += piece
    return data


def _read_at(file: int, size: int, start: int) -> bytes:
    if sys.platform != "win32":
        return os.pread(file, size, start)
    os.lseek(file, start, os.SEEK_SET)  # what is written goes to the end in any case
    return os.read(file, size)


def _contains(path: Path, end: bytes) -> bool:
    """Whether a line of the file ends in ``end``, which no text within a line can be."""
    try:
        with open(path, "rb") as file:
            data = b""
            while piece := file.read(_CHUNK_BYTES):
                data = data[-len(end) :] + piece
                if end in data:
                    return True
    except FileNotFoundError:
        pass
    return False


def _first_line(path: Path, key: bytes | None) -> Position | None:
    try:
        with open(path, "rb") as file:
            return unseal(file.readline(MAX_LINE_BYTES).removesuffix(b"\n"), key)[1]
    except (OSError, ValueError):
        return None


def _fsync_directory(path: Path) -> None:
    if sys.platform == "win32":  # a directory cannot be opened there
        return
    directory = os.open(path.parent, os.O_RDONLY | _CLOSED_IN_CHILDREN)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
