"""Files of our own: who may use them, one writer at a time, and replaced as a whole.

Three rules that every file of this package keeps, each in one place:

- **Access** (``access_problem``): a file that decides or records something is not used where other
  users may change it, and one that holds secrets not where they may read it.
- **Turns** (``lock``): writers take turns by a lock that ends with the process that holds it.
  Waiting is bounded, and readers take no lock: every user who may open a file may lock it, so a
  lock must not be able to stop those who only read.
- **Replacement** (``replace``): what is written is on the disk before it takes the old file's
  place, so a reader sees the old file or the new one, also after a crash. A draft that a killed
  writer left is removed by the next one (``sweep``). Only ``OwnFile.append`` does not replace: a
  reader may see a part of what it adds, and so may all after a crash.

Writers lock the directory, not the file: a file that is replaced takes its lock with it.

On Windows access is not checked: a file is as private as the folder that it is in, which in a
user's profile is for that user alone.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import TypeAlias

from ..errors import ConfigError
from .file_lock import lock, unlock
from .folder import NO_WAIT, Folder, open_folder
from .given_path import given_path

__all__ = [
    "MAX_BYTES",
    "OwnFile",
    "Stamp",
    "access_problem",
    "in_turn",
    "lock",
    "replace",
    "sweep",
    "unlock",
    "wait_for_disk",
]

Stamp: TypeAlias = "tuple[int, int, int]"
"""Equal while a file is the same: it is replaced, or grows, and is not changed in place."""

PATIENCE = 10.0
"""Seconds to wait for a turn; a writer only reads and writes a small file in its own."""
MAX_BYTES = 64 * 1024 * 1024
"""Of a file that is read."""
_ANY_USE = 0o077
_WRITING = 0o022


def access_problem(stat: os.stat_result, *, private: bool) -> str | None:
    """Why a file with this ``stat`` cannot be trusted, or None.

    A private one belongs to this user, and others may neither read nor write it. Any other may
    also belong to root, who could change it anyway, and others may read it.
    """
    if sys.platform == "win32":
        return None
    user = os.geteuid()
    if stat.st_uid != user and (private or stat.st_uid != 0):
        return "it belongs to another user"
    mode = stat.st_mode & 0o777
    if private and mode & _ANY_USE:
        return f"others may read or write it (mode {mode:o}, chmod it to 600)"
    if mode & _WRITING:
        return f"others may write it (mode {mode:o}, chmod it to {mode & ~_WRITING:o})"
    return None


class OwnFile:
    """A small file that is read often and replaced now and then.

    ``kind`` is what errors call it, ``remedy`` what they advise where it cannot be used. A
    ``private`` file is made for its owner alone (0600); any other keeps the mode it has. One that
    others may change (a private one: or read) raises ``ConfigError`` instead of being read.
    """

    def __init__(
        self, path: str | os.PathLike[str], kind: str, remedy: str, *, private: bool = False
    ) -> None:
        self.path = Path(given_path(path, f"the {kind} {path!r}"))
        self._kind = kind
        self._remedy = remedy
        self._private = private

    def read(self) -> tuple[Stamp, bytes] | None:
        """The file's stamp and content; None where it does not exist. Raises ``ConfigError``."""
        try:
            # A pipe in the file's place would make an ordinary open wait for a writer.
            file = os.open(self.path, os.O_RDONLY | NO_WAIT)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.unusable(f"it cannot be read ({error.strerror})") from None
        try:
            stat = os.fstat(file)
            self._check(stat)
            with open(file, "rb", closefd=False) as stream:
                content = stream.read(MAX_BYTES + 1)
        except OSError as error:
            raise self.unusable(f"it cannot be read ({error.strerror})") from None
        finally:
            os.close(file)
        if len(content) > MAX_BYTES:
            raise self.unusable(f"it has more than {MAX_BYTES} bytes")
        return _stamp_of(stat), content

    def stamp(self) -> Stamp | None:
        """The file's stamp; None where it does not exist. Raises ``ConfigError``."""
        try:
            stat = os.stat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.unusable(f"it cannot be read ({error.strerror})") from None
        self._check(stat)
        return _stamp_of(stat)

    def replace(self, text: str) -> Stamp:
        """Replace the content by ``text``, which is ASCII. Raises ``ConfigError``.

        To be called within ``locked``: two writers at once would each lose the other's change.
        """
        try:
            return self._replace(text)
        except OSError as error:
            raise self._unwritable(error) from None

    def append(self, stamp: Stamp, data: bytes) -> Stamp | None:
        """Add ``data`` to the file with this stamp, and wait until it is on the disk.

        None where the file has another stamp. To be called within ``locked``. Raises
        ``ConfigError``; then nothing was added, unless the system fails to take it back.
        """
        target = Path(os.path.realpath(self.path))
        try:
            with closing(open_folder(target.parent)) as directory:
                file = directory.open(target.name, os.O_WRONLY | os.O_APPEND | NO_WAIT)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            stat = os.fstat(file)
            self._check(stat)
            if _stamp_of(stat) != stamp:
                return None
            _append(file, stat.st_size, data)
            return _stamp_of(os.fstat(file))
        except OSError as error:
            raise self._unwritable(error) from None
        finally:
            os.close(file)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time, across processes. Raises ``ConfigError``."""
        target = Path(os.path.realpath(self.path))
        try:
            directory = open_folder(target.parent)
        except OSError as error:
            raise self._unwritable(error) from None
        with ExitStack() as stack:
            stack.callback(directory.close)
            try:
                stack.enter_context(in_turn(directory))
                sweep(directory, target.name)
            except TimeoutError:
                raise ConfigError(
                    f"the {self._kind} {self.path} is being written by another process for more "
                    f"than {PATIENCE:g} s"
                ) from None
            except OSError as error:
                raise self._unwritable(error) from None
            yield

    def unusable(self, why: str) -> ConfigError:
        return ConfigError(f"the {self._kind} {self.path} cannot be used: {why}; {self._remedy}")

    def _replace(self, text: str) -> Stamp:
        target = Path(os.path.realpath(self.path))
        mode = 0o600 if self._private else 0o644
        if not self._private and target.exists():
            mode = target.stat().st_mode & 0o777
        directory = open_folder(target.parent)
        try:
            return _stamp_of(replace(directory, target.name, text.encode("ascii"), mode))
        finally:
            directory.close()

    def _check(self, stat: os.stat_result) -> None:
        if not S_ISREG(stat.st_mode):
            raise self.unusable("it is not a regular file")
        problem = access_problem(stat, private=self._private)
        if problem is not None:
            raise self.unusable(problem)

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(f"the {self._kind} {self.path} cannot be written: {error.strerror}")


def _stamp_of(stat: os.stat_result) -> Stamp:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _append(file: int, size: int, data: bytes) -> None:
    written = 0
    try:
        while written < len(data):
            written += os.write(file, data[written:])
        wait_for_disk(file)
    except BaseException:
        os.ftruncate(file, size)
        raise


def wait_for_disk(file: int) -> None:
    """Wait until what was written to an open file is on the disk. Raises ``OSError``.

    ``fsync`` of macOS leaves it in the memory of the disk itself; its ``F_FULLFSYNC`` does not, and
    some file systems lack it.
    """
    if sys.platform == "darwin":
        import fcntl

        with suppress(OSError):
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)
            return
    os.fsync(file)


@contextmanager
def in_turn(directory: Folder) -> Iterator[None]:
    """One writer at a time, threads and processes alike, in an open directory.

    Raises ``TimeoutError`` after ``PATIENCE`` seconds, else ``OSError``.
    """
    if not directory.lock(PATIENCE):
        raise TimeoutError
    try:
        yield
    finally:
        directory.unlock()


def sweep(directory: Folder, name: str) -> None:
    """Remove the drafts of the file ``name`` that killed writers left. Only within a turn."""
    draft = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{16}}")
    for each in directory.names():
        if draft.fullmatch(each):
            with suppress(OSError):
                directory.remove(each)


def replace(directory: Folder, name: str, data: bytes, mode: int) -> os.stat_result:
    """Write ``data`` to the disk and rename it to ``name``. Raises ``OSError``.

    The draft is ``.NAME.`` and 16 hexadecimal digits, readable for its owner only.
    """
    draft = f".{name}.{secrets.token_hex(8)}"
    file = directory.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            if sys.platform != "win32":
                os.fchmod(file, mode)
            wait_for_disk(file)
            written = os.fstat(file)
        directory.rename(draft, name)
    except BaseException:
        directory.remove(draft)
        raise
    directory.sync()
    return written
