"""Files of our own: who may use them, one writer at a time, and replaced as a whole.

Three rules that every file of this package keeps, each in one place:

- **Access** (``access_problem``): a file with decisions or records is not used if other users may
  change it. A file with secrets is not used if they may read it.
- **Turns** (``OwnFile.locked``): writers take turns by a lock that ends with the process that holds
  it. They lock a separate file (``.NAME.lock``), which is never replaced and which only its owner
  can open. Otherwise a user who may read a file could block those who write it. Waiting is bounded,
  and readers take no lock.
- **Replacement** (``OwnFile.replace``): the new content is on the disk before it replaces the old
  file. So a reader sees the old file or the new one, also after a crash. A draft that a killed
  writer left is removed by the next one.

On Windows access is not checked: a file is as private as its directory. Directories of a user's
profile are for that user alone.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import NamedTuple, TypeAlias

from ..errors import ConfigError
from .backoff import doubled
from .directory import NO_WAIT, Directory, checked_path, open_directory
from .safe_text import safe_text

__all__ = ["OwnFile", "Stamp", "access_problem", "lock", "own_directory", "unlock", "wait_for_disk"]

Stamp: TypeAlias = "tuple[int, int, int]"
"""A value that is equal while a file is the same: it is replaced and not changed in place."""

LOCK_SECONDS = 10.0
"""Seconds to wait for a turn; a writer only reads and writes a small file in its own."""
MAX_BYTES = 64 * 1024 * 1024
"""The bytes of a file that is read."""
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.0001, 0.005
"""The seconds between two attempts to lock a file."""
_ANY_USE = 0o077
_WRITING = 0o022
_LINKS = (errno.ELOOP, errno.ENOTDIR)


def access_problem(stat: os.stat_result, *, private: bool) -> str | None:
    """Return why a file with this ``stat`` cannot be trusted, or None.

    A private one belongs to this user, and others may neither read nor write it. Any other may also
    belong to root, who could change it in any case, and others may read it.
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


def _directory_problem(stat: os.stat_result) -> str | None:
    """Return the problem with a directory of this package, or None.

    It is harmless if others read the names in it; it is not if they place a file there.
    """
    if sys.platform == "win32":
        return None
    if stat.st_uid != os.geteuid():
        return "belongs to another user"
    mode = stat.st_mode & 0o7777
    return f"may be written by others (mode {mode:o}, chmod go-w)" if mode & _WRITING else None


class _Place(NamedTuple):
    directory: Directory
    name: str


class OwnFile:
    """A small file that is read often and replaced now and then. Methods raise ``ConfigError``.

    ``kind`` is its name in errors, ``remedy`` their advice if it cannot be used. A ``private`` file
    is made for its owner alone (0600); any other preserves its mode. A file that others may change
    (a private one: or read) is not read. With ``own_directory`` its directory belongs to this
    package too: it is made if it is missing, others may not write it, and no link to either is
    followed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        kind: str,
        remedy: str,
        *,
        private: bool = False,
        own_directory: bool = False,
    ) -> None:
        self.path: Path = Path(checked_path(path, f"the {kind} {path!r}"))
        self._kind = kind
        self._remedy = remedy
        self._private = private
        self._own_directory = own_directory

    def read(self) -> tuple[Stamp, bytes] | None:
        """Return the file's stamp and content; None if it does not exist."""
        with self._place("read") as place:
            if place is None:
                return None
            try:
                # A pipe in the file's place would make an ordinary open wait for a writer.
                file = place.directory.open(place.name, os.O_RDONLY | NO_WAIT)
            except FileNotFoundError:
                return None
            try:
                stat = os.fstat(file)
                self._check(stat)
                with open(file, "rb", closefd=False) as stream:
                    content = stream.read(MAX_BYTES + 1)
            finally:
                os.close(file)
        if len(content) > MAX_BYTES:
            raise self.unusable(f"it has more than {MAX_BYTES} bytes")
        return _stamp_of(stat), content

    def stamp(self) -> Stamp | None:
        """Return the file's stamp; None if it does not exist."""
        try:
            stat = os.stat(self.path, follow_symlinks=not self._own_directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", error) from None
        self._check(stat)
        return _stamp_of(stat)

    def replace(self, text: str) -> Stamp:
        """Replace the content by ``text``, which is ASCII.

        To be called within ``locked``: two writers at once would each lose the other's change.
        """
        data = text.encode("ascii")
        with self._place("written", make=True) as place:
            assert place is not None
            mode = 0o600 if self._private else 0o644
            if not self._private:
                with suppress(FileNotFoundError):
                    mode = place.directory.stat(place.name).st_mode & 0o777
            return _stamp_of(_replace(place, data, mode))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the file: one writer at a time, threads and processes alike."""
        with self._place("written", make=True) as place:
            assert place is not None
            file = self._lock(place)
        try:
            yield
        finally:
            self._unlock(file)

    def unusable(self, why: str) -> ConfigError:
        """Return the error for a file that cannot be used."""
        return ConfigError(f"{self._named} cannot be used: {why}; {self._remedy}")

    # ------------------------------------------------------------------- its place

    @property
    def _named(self) -> str:
        return f"the {self._kind} {safe_text(self.path, 300)}"

    @contextmanager
    def _place(self, purpose: str, *, make: bool = False) -> Iterator[_Place | None]:
        """The file's directory, open, and its name there; None where there is no such directory."""
        path = self.path if self._own_directory else Path(os.path.realpath(self.path))
        directory = None
        try:
            if make and self._own_directory:
                _make(path.parent)
            try:
                directory = open_directory(path.parent, follow=not self._own_directory)
            except FileNotFoundError:
                if make:
                    raise
            if directory is None:
                yield None
                return
            problem = _directory_problem(directory.stat()) if self._own_directory else None
            if problem is not None:
                raise self.unusable(f"its directory {safe_text(path.parent, 300)} {problem}")
            yield _Place(directory, path.name)
        except OSError as error:
            raise self._failed(purpose, error) from None
        finally:
            if directory is not None:
                directory.close()

    def _check(self, stat: os.stat_result) -> None:
        if S_ISLNK(stat.st_mode):
            raise self.unusable("it is a symbolic link, and links are not followed")
        if not S_ISREG(stat.st_mode):
            raise self.unusable("it is not a regular file")
        problem = access_problem(stat, private=self._private)
        if problem is not None:
            raise self.unusable(problem)

    def _failed(self, purpose: str, error: OSError) -> ConfigError:
        if self._own_directory and error.errno in _LINKS:
            return self.unusable(
                "its directory is not one, or it or its directory is a symbolic link, and links "
                "are not followed"
            )
        return ConfigError(f"{self._named} cannot be {purpose}: {error.strerror}")

    # --------------------------------------------------------------------- its lock

    def _lock(self, place: _Place) -> int:
        """Return the file that is locked, open."""
        until = time.monotonic() + LOCK_SECONDS
        name = _lock_name(place.name)
        while True:
            file = place.directory.open(name, os.O_RDWR | os.O_CREAT | NO_WAIT)
            try:
                problem = access_problem(os.fstat(file), private=True)
                if problem is not None:
                    raise self.unusable(f"its lock file {name}: {problem}")
                if not lock(file, max(0.0, until - time.monotonic())):
                    raise ConfigError(
                        f"{self._named} is locked: another process has been writing it for more "
                        f"than {LOCK_SECONDS:g} s"
                    )
                if _is_there(place.directory, name, file):
                    _sweep(place)
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)  # its holder has removed it

    def _unlock(self, file: int) -> None:
        try:
            if sys.platform == "win32":  # which removes no open file
                return
            with suppress(ConfigError, OSError), self._place("written") as place:
                if place is not None and _is_there(place.directory, _lock_name(place.name), file):
                    place.directory.remove(_lock_name(place.name))
        finally:
            os.close(file)


def _lock_name(name: str) -> str:
    return f".{name}.lock"


def _is_there(directory: Directory, name: str, file: int) -> bool:
    """Whether the open ``file`` is the one that has this name."""
    try:
        return os.path.samestat(directory.stat(name), os.fstat(file))
    except FileNotFoundError:
        return False


def own_directory(path: Path) -> None:
    """Make a directory for its owner alone if it is missing.

    Raises ``ConfigError`` for one that others may write.
    """
    try:
        _make(path)
        problem = _directory_problem(path.lstat())
    except OSError as error:
        problem = f"cannot be made ({error.strerror})"
    if problem is not None:
        raise ConfigError(f"the directory {safe_text(path, 300)} cannot be used: it {problem}")


def _make(directory: Path) -> None:
    """Create it with its parents, each with mode 0700; ``os.makedirs`` sets only the last one."""
    if not directory.is_dir():
        _make(directory.parent)
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)


def _stamp_of(stat: os.stat_result) -> Stamp:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


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


def _sweep(place: _Place) -> None:
    """Remove the drafts that killed writers left. Only within a turn."""
    draft = re.compile(rf"\.{re.escape(place.name)}\.[0-9a-f]{{16}}")
    for each in place.directory.names():
        if draft.fullmatch(each):
            with suppress(OSError):
                place.directory.remove(each)


def _replace(place: _Place, data: bytes, mode: int) -> os.stat_result:
    """Write ``data`` to the disk and rename it. Raises ``OSError``.

    The draft is ``.NAME.`` and 16 hexadecimal digits, readable for its owner only.
    """
    directory, name = place
    draft = f".{name}.{secrets.token_hex(8)}"
    file = directory.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            if sys.platform != "win32":
                os.fchmod(file, mode)
            wait_for_disk(file)
            _make_newer(file, directory, name)
            written = os.fstat(file)
        directory.rename(draft, name)
    except BaseException:
        directory.remove(draft)
        raise
    directory.sync()
    return written


def _make_newer(file: int, directory: Directory, name: str) -> None:
    """Make the file's time newer than that of the present file.

    Clocks of file systems tick every few milliseconds, and inodes are used again. Without this, the
    second of two quick changes could get the stamp of the file before the first.
    """
    with suppress(FileNotFoundError):
        before, now = directory.stat(name).st_mtime_ns, os.fstat(file).st_mtime_ns
        if now <= before and os.utime in os.supports_fd:
            os.utime(file, ns=(now, before + 1))


# -------------------------------------------------------------------- locks on open files


def lock(file: int, seconds: float, *, shared: bool = False) -> bool:
    """Lock an open file or directory, and whether that worked within ``seconds``.

    The lock belongs to this opening of the file, so threads take turns as processes do. It ends
    with ``unlock`` or when the descriptor is closed. Raises ``OSError``.
    """
    if _try(file, shared):
        return True
    until = time.monotonic() + seconds
    tries = 0
    while not _try(file, shared):
        if time.monotonic() >= until:
            return False
        time.sleep(doubled(_FIRST_PAUSE_SECONDS, tries, _MAX_PAUSE_SECONDS))
        tries += 1
    return True


if sys.platform == "win32":
    import msvcrt

    from .windows_lock import lock_byte, unlock_byte

    def _try(file: int, shared: bool) -> bool:
        return lock_byte(msvcrt.get_osfhandle(file), shared)

    def unlock(file: int) -> None:
        """Release the lock."""
        unlock_byte(msvcrt.get_osfhandle(file))

else:
    import fcntl

    def _try(file: int, shared: bool) -> bool:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(file: int) -> None:
        """Release the lock."""
        fcntl.flock(file, fcntl.LOCK_UN)
