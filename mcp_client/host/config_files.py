"""The files that a config file puts in: environment files, and ``${file:PATH}``.

A project's file chooses their paths, so they are read when somebody is about to be asked whether
its server may be started, and not before; each once, and all of them within one budget. Only those
below the project's folder or the person's home are: anywhere else a path may lead to another
machine, to a device or to somebody else's files.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ..runtime.safe_text import safe_text

__all__ = ["Files", "Unset", "file_text", "followed", "is_within", "resolved"]

_MOST_LINKS = 40


class Unset(Exception):
    """Something that cannot be put in: ``args[0]`` says what, why and what to do."""


class Files:
    """What is put into the servers of one config file. For any number of threads."""

    def __init__(self, below: Iterable[Path] | None, most: int, *, reads: bool) -> None:
        """``below``: the folders that files may lie in; None for any. ``most``: bytes of all of
        them. ``reads``: False where none is opened, because nobody is asked yet."""
        self.reads = reads
        self._below = None if below is None else tuple(map(str, below))
        self._left = most
        self._read: dict[str, str] = {}
        self._values: dict[str, Mapping[str, str] | Unset] = {}
        self._lock = threading.Lock()

    def text(self, path: Path, most: int, shown: str) -> str | None:
        """The text of a file; None where nothing is read. Raises ``Unset``, which calls it
        ``shown``."""
        place: str | None = os.path.abspath(path)
        if self._below is not None:
            place = resolved(str(path), self._below)
        if place is None:
            raise Unset(
                f"{safe_text(shown, 200)} is not in the folder of the project, nor in your home: "
                "a project's file may have no other one read"
            )
        if not self.reads:
            if self._below is not None and not os.path.lexists(place):
                raise Unset(
                    f"{safe_text(shown, 200)} cannot be read ({os.strerror(errno.ENOENT)}): check "
                    "the path"
                )
            return None
        with self._lock:
            if place not in self._read:
                text = file_text(Path(place), min(most, self._left), shown=shown)
                self._left -= len(text.encode())
                self._read[place] = text
            return self._read[place]

    def values(
        self, path: Path, most: int, shown: str, read: Callable[[str], Mapping[str, str]]
    ) -> Mapping[str, str] | None:
        """What ``read`` makes of a file's text, once for all servers; None where nothing is read.
        Raises ``Unset``, as ``read`` may."""
        text = self.text(path, most, shown)
        if text is None:
            return None
        with self._lock:
            if text not in self._values:
                try:
                    self._values[text] = read(text)
                except Unset as error:
                    self._values[text] = error
            found = self._values[text]
        if isinstance(found, Unset):
            raise Unset(*found.args)
        return found


def file_text(path: Path, most: int, *, shown: str | None = None) -> str:
    """The text of a small file. Raises ``Unset``, which calls it ``shown``; waits for no pipe and
    no device."""
    shown = safe_text(path if shown is None else shown, 200)
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(file, "rb") as stream:
            if not _is_regular(stream.fileno()):
                raise Unset(f"{shown} is not a regular file")
            content = stream.read(most + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its path is not one"
        raise Unset(f"{shown} cannot be read ({why}): check the path") from None
    if len(content) > most:
        raise Unset(f"{shown} has more than {most:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unset(f"{shown} is not UTF-8 text") from None


def _is_regular(file: int) -> bool:
    from stat import S_ISREG

    return S_ISREG(os.fstat(file).st_mode)


def resolved(path: str, below: Iterable[str]) -> str | None:
    """``path`` with its links followed; None where it leads out of the folders ``below``. Nothing
    outside of them is looked at."""
    found, is_below = followed(path, below)
    return found if is_below else None


def followed(path: str, below: Iterable[str]) -> tuple[str, bool]:
    """``path`` with its links followed as long as it stays below, and whether it did."""
    tops = {top for each in below for top in (os.path.abspath(each), os.path.realpath(each))}
    tops.discard(os.sep)
    path = os.path.abspath(path)
    for _ in range(_MOST_LINKS):
        top = max((top for top in tops if is_within(path, top)), key=len, default=None)
        if top is None:
            return path, False
        link = _first_link(top, path[len(top) :].strip(os.sep).split(os.sep))
        if link is None:
            return path, True
        path = link
    return path, False


def _first_link(here: str, parts: list[str]) -> str | None:
    """Where the path leads once the first link in it is followed; None where there is none."""
    for number, part in enumerate(parts):
        here = os.path.join(here, part)
        try:
            target = os.readlink(here)
        except OSError as error:
            if error.errno != errno.EINVAL:  # it is not there, so nothing below it is
                return None
        except ValueError:
            return None
        else:
            folder = os.path.dirname(here)
            return os.path.abspath(os.path.join(folder, target, *parts[number + 1 :]))
    return None


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
