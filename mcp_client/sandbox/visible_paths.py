"""The parts of the file system that a sandbox of mounts has to show, and their paths."""

from __future__ import annotations

import os
from collections.abc import Iterator
from stat import S_ISREG

from ..runtime.directory import CLOSED_IN_CHILDREN, NO_WAIT

__all__ = ["VisiblePaths", "beginning", "inside"]

_MAX_LINKS = 40


class VisiblePaths:
    """The visible paths of a sandbox, each at its real path.

    The symbolic links on the way to a path are included, so that it is also found under the name
    that was given.
    """

    def __init__(self) -> None:
        self._writable: dict[str, bool] = {}
        self._links: dict[str, str] = {}

    def grant(self, real: str, *, write: bool = False) -> None:
        """Show the file or directory at this real path, which is not followed.

        Of what contains another, the inner one holds.
        """
        self._writable[real] = write or self._writable.get(real, False)

    def find(self, path: str) -> None:
        """Show it, to be read, as far as nothing that contains it is granted already."""
        real = self.follow(path)
        if not self.covers(real):
            self._writable[real] = False

    def follow(self, path: str) -> str:
        """Return the real path, and note the links on the way to it."""
        done, rest, links = "/", [part for part in path.split("/") if part][::-1], 0
        while rest:
            part = rest.pop()
            if part == "..":
                done = os.path.dirname(done)
            elif part != ".":
                next = os.path.join(done, part)
                try:
                    target = os.readlink(next)
                except OSError:  # no link, or not there
                    done = next
                    continue
                links += 1
                if links > _MAX_LINKS:
                    return path
                self._links[next] = target
                rest += [each for each in target.split("/") if each][::-1]
                done = "/" if target.startswith("/") else done
        return done

    def mounts(self) -> Iterator[tuple[str, bool]]:
        """Yield each path that has to be mounted, and whether it is writable; parents come first.

        A directory between one that can be written and one in it that cannot is mounted, too: a
        mount cannot be renamed.
        """
        for path in [*self._writable]:
            if not self._writable[path]:
                for between in self._between(path):
                    self._writable.setdefault(between, True)
        for path in sorted(self._writable):
            around = [each for each in self._writable if each != path and inside(path, each)]
            write = self._writable[path]
            guards = write and any(
                not self._writable[each] and inside(each, path) for each in self._writable
            )
            if not around or guards or self._writable[max(around, key=len)] != write:
                yield path, write

    def _between(self, path: str) -> Iterator[str]:
        """Yield the directories between the nearest that can be written and ``path`` in it."""
        around = [each for each in self._writable if each != path and inside(path, each)]
        nearest = max(around, key=len, default=path)
        if self._writable[nearest]:
            path = os.path.dirname(path)
            while inside(path, nearest) and path != nearest:
                yield path
                path = os.path.dirname(path)

    def links(self) -> Iterator[tuple[str, str]]:
        """Yield each symbolic link that no mount shows, and its target."""
        for link, target in sorted(self._links.items()):
            if not self.covers(link):
                yield link, target

    def covers(self, path: str) -> bool:
        """Whether what is shown contains this real path."""
        return any(inside(path, visible) for visible in self._writable)

    def unused(self, path: str) -> str:
        """Return a path like this one that has nothing to do with what is shown."""
        while any(inside(visible, path) or inside(path, visible) for visible in self._writable):
            path += "_"
        return path


def inside(path: str, directory: str) -> bool:
    """Whether ``path`` is ``directory`` or lies in it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def beginning(path: str, size: int) -> bytes:
    """Return the first ``size`` bytes of a regular file; empty for anything else.

    A pipe in a server's project could make its reader wait.
    """
    try:
        with open(os.open(path, os.O_RDONLY | NO_WAIT | CLOSED_IN_CHILDREN), "rb") as file:
            return file.read(size) if S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""
