"""A directory of this package's files, held open if the system supports it.

If it does (``os.supports_dir_fd``: POSIX), everything is done by the directory's descriptor, so a
caller that checked the directory need not trust its path again. On Windows it is done by path.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from ..errors import ConfigError

__all__ = [
    "BINARY",
    "CLOSED_IN_CHILDREN",
    "NO_FOLLOW",
    "NO_WAIT",
    "Directory",
    "checked_path",
    "open_directory",
]

NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
"""Flags of ``os.open`` that Windows does not have."""
NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)
CLOSED_IN_CHILDREN: int = getattr(os, "O_CLOEXEC", 0)
_DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
BINARY: int = getattr(os, "O_BINARY", 0)
"""Without it, what is written to a descriptor on Windows gets a carriage return at each newline."""
_IN_USE_SECONDS = 1.0
_POLL_SECONDS = 0.01


def open_directory(path: str | os.PathLike[str], *, follow: bool = True) -> Directory:
    """Open a directory. Raises ``OSError``: without ``follow`` also for a symbolic link."""
    if os.open in os.supports_dir_fd:
        return _ByDescriptor(Path(path), follow)
    return _ByPath(Path(path), follow)


class Directory:
    """A directory. Every method raises ``OSError``."""

    def stat(self, name: str | None = None) -> os.stat_result:
        """Return the status of the directory, or of a file in it, which may be a symbolic link."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """Return the names in it."""
        raise NotImplementedError

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file, never a symbolic link."""
        raise NotImplementedError

    def remove(self, name: str) -> None:
        """Remove a file."""
        raise NotImplementedError

    def rename(self, old: str, new: str) -> None:
        """Rename a file to a name that another may have, which it replaces."""
        raise NotImplementedError

    def sync(self) -> None:
        """Wait until the names in it are on the disk, if the system supports that."""

    def close(self) -> None:
        """Close the descriptor."""
        raise NotImplementedError


class _ByDescriptor(Directory):
    def __init__(self, path: Path, follow: bool) -> None:
        self._fd = os.open(path, os.O_RDONLY | _DIRECTORY | (0 if follow else NO_FOLLOW))

    def stat(self, name: str | None = None) -> os.stat_result:
        if name is None:
            return os.fstat(self._fd)
        return os.stat(name, dir_fd=self._fd, follow_symlinks=False)

    def names(self) -> list[str]:
        return os.listdir(self._fd)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        return os.open(name, flags | NO_FOLLOW | CLOSED_IN_CHILDREN, mode, dir_fd=self._fd)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._fd)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def sync(self) -> None:
        with suppress(OSError):  # some file systems cannot
            os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class _ByPath(Directory):
    def __init__(self, path: Path, follow: bool) -> None:
        found = path.stat(follow_symlinks=follow)
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "it is not a directory")
        self._path = path.absolute()

    def stat(self, name: str | None = None) -> os.stat_result:
        return os.stat(self._path) if name is None else os.lstat(self._path / name)

    def names(self) -> list[str]:
        return os.listdir(self._path)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        path = self._path / name
        if path.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link")
        return os.open(path, flags | NO_FOLLOW | CLOSED_IN_CHILDREN | BINARY, mode)

    def remove(self, name: str) -> None:
        os.unlink(self._path / name)

    def rename(self, old: str, new: str) -> None:
        until = time.monotonic() + _IN_USE_SECONDS
        while True:
            try:
                os.replace(self._path / old, self._path / new)
                return
            except PermissionError:  # on Windows, while another process reads it
                if time.monotonic() >= until:
                    raise
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        pass


def checked_path(path: object, option: str) -> str:
    """``path`` as text.

    Raises ``ConfigError``, which begins with ``option``, for what is not the path of a file:
    neither text nor a path, empty, or of characters that no path has.
    """
    if isinstance(path, str | os.PathLike):
        text = os.fspath(path)
        if isinstance(text, str) and text and "\0" not in text:
            try:
                os.fsencode(text)
                return text
            except UnicodeEncodeError:
                pass
    raise ConfigError("give the path of a file", option=option)
