"""A file of our own: replaced at once and as a whole, by processes that take turns.

What is written is on the disk before it takes the old one's place, so whoever reads sees the old or
the new, also after a crash. Writers lock the directory, which is never replaced; where the
platform has no ``fcntl``, they do not take turns.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import TypeAlias

from ..errors import ConfigError

try:
    import fcntl
except ImportError:  # pragma: no cover - where there is none, processes do not take turns
    fcntl = None  # type: ignore[assignment]

__all__ = ["OwnFile", "Stamp", "in_turn", "replace"]

Stamp: TypeAlias = "tuple[int, int, int]"
"""Equal while a file is the same: it is replaced, and never changed in place."""

PATIENCE = 10.0
"""Seconds to wait for one's turn; whoever has it only reads and writes a small file."""
_OTHERS = 0o077


class OwnFile:
    """``kind`` is what errors call it, ``remedy`` what they advise where it cannot be used.

    A ``private`` file is made for its owner alone (0600), and one that others may read or write
    cannot be used. Any other keeps the mode it has.
    """

    def __init__(
        self, path: str | os.PathLike[str], kind: str, remedy: str, *, private: bool = False
    ) -> None:
        self.path = Path(path)
        self._kind = kind
        self._remedy = remedy
        self._private = private

    def read(self) -> tuple[Stamp, bytes] | None:
        """What the file is and says; None where there is none. Raises ``ConfigError``."""
        try:
            with open(self.path, "rb") as file:
                self._owned(os.fstat(file.fileno()))
                return _stamp(file.fileno()), file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.unusable(f"it cannot be read ({error.strerror})") from None

    def stamp(self) -> Stamp | None:
        """What the file is; None where there is none. Raises ``ConfigError``."""
        try:
            stat = os.stat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.unusable(f"it cannot be read ({error.strerror})") from None
        if not S_ISREG(stat.st_mode):
            raise self.unusable("it is no regular file")
        self._owned(stat)
        return _stamp_of(stat)

    def replace(self, text: str) -> Stamp:
        """Write ``text``, which is ASCII, in the file's place. Raises ``ConfigError``."""
        try:
            return self._replace(text)
        except OSError as error:
            raise self._unwritable(error) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time, across processes. Raises ``ConfigError``."""
        if fcntl is None:  # pragma: no cover
            yield
            return
        try:
            directory = os.open(os.path.realpath(self.path.parent), os.O_RDONLY)
        except OSError as error:
            raise self._unwritable(error) from None
        with ExitStack() as stack:
            stack.callback(os.close, directory)
            try:
                stack.enter_context(in_turn(directory))
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
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            return _stamp_of(replace(directory, target.name, text.encode("ascii"), mode))
        finally:
            os.close(directory)

    def _owned(self, stat: os.stat_result) -> None:
        if not self._private or os.name != "posix":
            return
        if stat.st_uid != os.geteuid():
            raise self.unusable("it belongs to somebody else")
        if stat.st_mode & _OTHERS:
            raise self.unusable(
                f"others may read or write it (mode {stat.st_mode & 0o777:o}, chmod it to 600)"
            )

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(f"the {self._kind} {self.path} cannot be written: {error.strerror}")


def _stamp(file: int) -> Stamp:
    return _stamp_of(os.fstat(file))


def _stamp_of(stat: os.stat_result) -> Stamp:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


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

    By the directory's descriptor, for whoever has judged that directory and trusts no path to it.
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
