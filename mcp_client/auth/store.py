"""Where tokens are kept: in memory, in a file of one's own, or in the system's keyring.

```python
OAuth(store=FileTokens())                    # ~/.local/share/mcp-client/tokens.json
OAuth(store=KeyringTokens())                 # needs mcp-client[keyring]
```

A file of tokens is as good as a password, so it is 0600 in a directory that is 0700, both our own
and neither a link, and what is otherwise is refused: somebody else may have read it, or have put
it there. It is replaced at once and as a whole; processes that change it take turns, and no turn
is longer than reading and writing it takes. What one process saves another finds.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread

from ..errors import ConfigError
from ..runtime import atomic_file as files
from ..runtime.safe_text import safe_text
from .book import TokenFile
from .tokens import Key, Registration, Source, Token

__all__ = ["FileTokens", "MemoryTokens", "default_directory"]

Found = TypeVar("Found")
_MOST_BYTES = 16 * 1024 * 1024


class _Kept:
    """The methods of a ``TokenStore``, over a book that is read or changed as a whole."""

    _clock: Callable[[], float] = time.time

    async def _read(self) -> TokenFile:
        raise NotImplementedError

    async def _change(self, change: Callable[[TokenFile], Found]) -> Found:
        raise NotImplementedError

    async def load(self, key: Key) -> Token | None:
        return (await self._read()).tokens.get(key)

    async def save(self, key: Key, token: Token) -> None:
        await self._change(lambda book: book.tokens.update({key: token}))

    async def delete(self, key: Key) -> None:
        await self._change(lambda book: book.tokens.pop(key, None))

    async def load_registration(self, issuer: str) -> Registration | None:
        return (await self._read()).registrations.get(issuer)

    async def save_registration(self, registration: Registration) -> None:
        new = {registration.issuer: registration}
        await self._change(lambda book: book.registrations.update(new))

    async def delete_registration(self, issuer: str) -> None:
        await self._change(lambda book: book.registrations.pop(issuer, None))

    async def recall(self, server: str) -> Source | None:
        return (await self._read()).sources.get(server)

    async def remember(self, server: str, source: Source) -> None:
        if await self.recall(server) != source:
            await self._change(lambda book: book.sources.update({server: source}))

    async def claim(self, key: Key, seconds: float) -> str | None:
        return await self._change(lambda book: book.claim(key, seconds, self._clock()))

    async def release(self, key: Key, mark: str) -> None:
        await self._change(lambda book: book.release(key, mark))


class MemoryTokens(_Kept):
    """Tokens for as long as this object lives. Sessions that are given it share them."""

    def __init__(self) -> None:
        self._book = TokenFile()

    def __repr__(self) -> str:
        return f"<MemoryTokens: {len(self._book.tokens)} tokens>"

    async def _read(self) -> TokenFile:
        return self._book

    async def _change(self, change: Callable[[TokenFile], Found]) -> Found:
        return change(self._book)


class FileTokens(_Kept):
    """Tokens in a file, for the runs to come and for other processes.

    ``path`` is ``mcp-client/tokens.json`` under ``$XDG_DATA_HOME`` or ``~/.local/share`` unless
    given. Its directory is made if there is none. Every method raises ``ConfigError`` where file
    or directory may be read by others or are not ours, or what is in the file is no token file:
    nothing is changed then.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = default_directory() / "tokens.json" if path is None else Path(path).expanduser()

    def __repr__(self) -> str:
        return f"FileTokens({str(self.path)!r})"

    async def _read(self) -> TokenFile:
        return await anyio.to_thread.run_sync(self._read_now)

    async def _change(self, change: Callable[[TokenFile], Found]) -> Found:
        return await anyio.to_thread.run_sync(self._change_now, change)

    def _read_now(self) -> TokenFile:
        with self._directory(make=False) as directory:
            return TokenFile() if directory is None else self._book(self._text(directory))

    def _change_now(self, change: Callable[[TokenFile], Found]) -> Found:
        with self._directory(make=True) as directory, files.in_turn(directory):
            before = self._text(directory)
            book = self._book(before)
            found = change(book)
            after = book.to_json()
            if after != before:
                self._sweep(directory)
                files.replace(directory, self.path.name, after, 0o600)
            return found

    @contextmanager
    def _directory(self, *, make: bool) -> Iterator[Any]:
        """The directory's descriptor; None where there is none and none is to be made."""
        parent = self.path.parent
        directory = None
        try:
            if make:
                _make(parent)
            try:
                directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except FileNotFoundError:
                if make:
                    raise
            else:
                self._check(os.fstat(directory), f"its directory {parent}", "chmod 700")
            yield directory
        except TimeoutError:
            raise self._unusable(
                f"another process has been writing it for more than {files.PATIENCE:g} s"
            ) from None
        except OSError as error:
            raise self._unusable(_why(error)) from None
        finally:
            if directory is not None:
                os.close(directory)

    def _text(self, directory: int) -> bytes | None:
        """What is in the file; None where there is none."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            file = os.open(self.path.name, flags, dir_fd=directory)
        except FileNotFoundError:
            return None
        with open(file, "rb") as stream:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode):
                raise self._unusable("it is no regular file")
            self._check(about, "it", "chmod 600")
            text = stream.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise self._unusable(f"it has more than {_MOST_BYTES} bytes")
        return text

    def _book(self, text: bytes | None) -> TokenFile:
        try:
            return TokenFile() if text is None else TokenFile.from_json(text)
        except ValueError as error:
            raise self._unusable(f"{error}; delete it, and log in again") from None

    def _check(self, about: os.stat_result, what: str, remedy: str) -> None:
        if about.st_uid != os.geteuid():
            raise self._unusable(f"{what} belongs to another user")
        if about.st_mode & 0o077:
            raise self._unusable(
                f"{what} is open to other users ({stat.filemode(about.st_mode)}): {remedy} it if "
                "nobody can have read it, and else log in again"
            )

    def _sweep(self, directory: int) -> None:
        """A process that died while it wrote has left its draft, with secrets in it."""
        for name in os.listdir(directory):
            if name.startswith(f".{self.path.name}."):
                os.unlink(name, dir_fd=directory)

    def _unusable(self, why: str) -> ConfigError:
        return ConfigError(f"the token file {safe_text(self.path, 300)} cannot be used: {why}")


def _make(directory: Path) -> None:
    """With its parents, each for the owner only, which ``os.makedirs`` does for the last alone."""
    if not directory.is_dir():
        _make(directory.parent)
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)


def default_directory() -> Path:
    """``mcp-client`` where a person's programs keep what is theirs."""
    base = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    if not base.is_absolute():  # which the XDG specification wants ignored
        base = Path("~/.local/share").expanduser()
    return base / "mcp-client"


def _why(error: OSError) -> str:
    match error.errno:
        case errno.ELOOP | errno.ENOTDIR:
            return "it or its directory is a link, and links are not followed"
        case _:
            return error.strerror or type(error).__name__
