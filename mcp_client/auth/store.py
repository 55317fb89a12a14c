"""Where tokens are kept: in memory, in a file of the user, or in the system's keyring.

```python
OAuth(store=FileTokens())                    # ~/.local/share/mcp-client/tokens.json
OAuth(store=KeyringTokens())                 # needs mcp-client-host[keyring]
```

A token file must be protected like a password. It has mode 0600, its directory must not be
writable by others, both must belong to the user, and neither may be a symbolic link; otherwise it
is refused, because somebody else may have read or placed it. (On Windows, only links are refused:
a file is as private as its folder.) The file is replaced atomically.
Processes that change it take turns, and a turn only lasts for reading and writing the file. What
one process saves the others find.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread

from ..runtime.atomic_file import OwnFile
from ..runtime.given_path import given_path
from ..runtime.process_id import is_alive, process_id
from ..runtime.strict_json import read_json_object
from .tokens import Key, Registration, Source, Token

__all__ = ["FileTokens", "MemoryTokens", "TokenFile", "default_directory"]

Result = TypeVar("Result")
_VERSION = 1
_REMEDY = "delete it, and log in again"
_MAX_CLAIM = 600.0
"""Seconds. A mark that ends later was made while the clock was wrong, and is ignored."""


@dataclass(slots=True)
class TokenFile:
    """The contents of a store, and their form as JSON."""

    tokens: dict[Key, Token] = field(default_factory=dict)
    registrations: dict[tuple[str, str], Registration] = field(default_factory=dict)
    """By issuer and client id; of one issuer the last one is current."""
    sources: dict[str, Source] = field(default_factory=dict)
    """By the MCP server's URL."""
    claims: dict[Key, tuple[str, float]] = field(default_factory=dict)
    """Who is refreshing a token, and the Unix time at which that mark becomes void."""

    def registration(self, issuer: str, client_id: str | None) -> Registration | None:
        if client_id is not None:
            return self.registrations.get((issuer, client_id))
        found = [each for (of, _), each in self.registrations.items() if of == issuer]
        return found[-1] if found else None

    def save_registration(self, registration: Registration) -> None:
        """Make it the current one of its issuer; drop doubtful ones that no token needs."""
        issuer, client_id = registration.issuer, registration.client_id
        needed = {key.client for key in self.tokens if key.issuer == issuer}
        self.registrations = {
            key: each
            for key, each in self.registrations.items()
            if key != (issuer, client_id)
            and not (each.issuer == issuer and each.doubtful and each.client_id not in needed)
        }
        self.registrations[issuer, client_id] = registration

    def delete_registration(self, issuer: str, client_id: str | None) -> None:
        for key in list(self.registrations):
            if key == (issuer, client_id) or (client_id is None and key[0] == issuer):
                del self.registrations[key]

    def claim(self, key: Key, seconds: float, now: float) -> str | None:
        mark, until = self.claims.get(key, ("", 0.0))
        if now < until <= now + _MAX_CLAIM and is_alive(mark.rpartition(" ")[0]):
            return None
        mark = f"{process_id()} {secrets.token_hex(8)}"
        self.claims[key] = mark, now + min(seconds, _MAX_CLAIM)
        return mark

    def release(self, key: Key, mark: str) -> None:
        if self.claims.get(key, ("", 0.0))[0] == mark:
            del self.claims[key]

    def to_json(self) -> bytes:
        document = {
            "version": _VERSION,
            "tokens": [
                {**_key_to_wire(key), "token": token.to_wire()}
                for key, token in self.tokens.items()
            ],
            "registrations": [each.to_wire() for each in self.registrations.values()],
            "sources": [
                {"server": server, **source.to_wire()} for server, source in self.sources.items()
            ],
            "claims": [
                {**_key_to_wire(key), "mark": mark, "until": until}
                for key, (mark, until) in self.claims.items()
            ],
        }
        return json.dumps(document, indent=1, allow_nan=False).encode() + b"\n"

    @classmethod
    def from_json(cls, text: bytes) -> TokenFile:
        """Raises ``ValueError``, without a secret in its text, if ``text`` is not a token file."""
        document = read_json_object(text)
        if document.get("version") != _VERSION:
            raise ValueError(f"it is not a token file of version {_VERSION}")
        contents = cls()
        for entry in _entries(document, "tokens"):
            contents.tokens[_key_from_wire(entry)] = Token.from_wire(entry.get("token"))
        for entry in _entries(document, "registrations"):
            registration = Registration.from_wire(entry)
            contents.registrations[registration.issuer, registration.client_id] = registration
        for entry in _entries(document, "sources"):
            contents.sources[_text(entry, "server")] = Source.from_wire(entry)
        for entry in _entries(document, "claims"):
            until = entry.get("until")
            if isinstance(until, bool) or not isinstance(until, (int, float)):
                raise ValueError("a claim has no end")
            contents.claims[_key_from_wire(entry)] = _text(entry, "mark"), float(until)
        return contents


def _entries(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    entries = document.get(name, [])
    if type(entries) is not list or not all(type(entry) is dict for entry in entries):
        raise ValueError(f"{name!r} is not a list of objects")
    return entries


def _text(entry: dict[str, Any], name: str) -> str:
    value = entry.get(name)
    if type(value) is not str:
        raise ValueError(f"an entry has no {name}")
    return value


def _key_to_wire(key: Key) -> dict[str, str]:
    return {"issuer": key.issuer, "resource": key.resource, "client": key.client}


def _key_from_wire(entry: dict[str, Any]) -> Key:
    return Key(_text(entry, "issuer"), _text(entry, "resource"), _text(entry, "client"))


class _TokenFileStore:
    """The methods of a ``TokenStore`` over a ``TokenFile`` that is read or changed as a whole."""

    _clock: Callable[[], float] = time.time

    async def _read(self) -> TokenFile:
        raise NotImplementedError

    async def _change(self, change: Callable[[TokenFile], Result]) -> Result:
        raise NotImplementedError

    async def load(self, key: Key) -> Token | None:
        return (await self._read()).tokens.get(key)

    async def save(self, key: Key, token: Token) -> None:
        await self._change(lambda contents: contents.tokens.update({key: token}))

    async def delete(self, key: Key) -> None:
        await self._change(lambda contents: contents.tokens.pop(key, None))

    async def load_registration(
        self, issuer: str, client_id: str | None = None
    ) -> Registration | None:
        return (await self._read()).registration(issuer, client_id)

    async def save_registration(self, registration: Registration) -> None:
        await self._change(lambda contents: contents.save_registration(registration))

    async def delete_registration(self, issuer: str, client_id: str | None = None) -> None:
        await self._change(lambda contents: contents.delete_registration(issuer, client_id))

    async def recall(self, server: str) -> Source | None:
        return (await self._read()).sources.get(server)

    async def remember(self, server: str, source: Source) -> None:
        if await self.recall(server) != source:
            await self._change(lambda contents: contents.sources.update({server: source}))

    async def claim(self, key: Key, seconds: float) -> str | None:
        return await self._change(lambda contents: contents.claim(key, seconds, self._clock()))

    async def release(self, key: Key, mark: str) -> None:
        await self._change(lambda contents: contents.release(key, mark))


class MemoryTokens(_TokenFileStore):
    """Keeps tokens for as long as this object lives. Sessions that are given it share them."""

    def __init__(self) -> None:
        self._contents = TokenFile()

    def __repr__(self) -> str:
        return f"<MemoryTokens: {len(self._contents.tokens)} tokens>"

    async def _read(self) -> TokenFile:
        return self._contents

    async def _change(self, change: Callable[[TokenFile], Result]) -> Result:
        return change(self._contents)


class FileTokens(_TokenFileStore):
    """Keeps tokens in a file, for later runs and for other processes.

    ``path`` is ``mcp-client/tokens.json`` under ``$XDG_DATA_HOME`` or ``~/.local/share`` unless
    given; its directory is created if it is missing. Every method raises ``ConfigError``, and
    changes nothing, if others can read or write the file or write to its directory, if either
    belongs to another user, or if the file is not a token file.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        if path is None:
            path = default_directory() / "tokens.json"
        self.path = Path(given_path(path, f"FileTokens({path!r})")).expanduser()
        self._file = OwnFile(self.path, "token file", _REMEDY, private=True, own_folder=True)

    def __repr__(self) -> str:
        return f"FileTokens({str(self.path)!r})"

    async def _read(self) -> TokenFile:
        return await anyio.to_thread.run_sync(self._read_now)

    async def _change(self, change: Callable[[TokenFile], Result]) -> Result:
        return await anyio.to_thread.run_sync(self._change_now, change)

    def _read_now(self) -> TokenFile:
        found = self._file.read()
        return TokenFile() if found is None else self._parsed(found[1])

    def _change_now(self, change: Callable[[TokenFile], Result]) -> Result:
        with self._file.locked():
            found = self._file.read()
            contents = TokenFile() if found is None else self._parsed(found[1])
            result = change(contents)
            after = contents.to_json()
            if found is None or after != found[1]:
                self._file.replace(after.decode())
            return result

    def _parsed(self, text: bytes) -> TokenFile:
        try:
            return TokenFile.from_json(text)
        except ValueError as error:
            raise self._file.unusable(str(error)) from None


def default_directory() -> Path:
    """``mcp-client`` in the user's data directory."""
    base = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    if not base.is_absolute():  # the XDG specification says to ignore a relative path
        base = Path("~/.local/share").expanduser()
    return base / "mcp-client"
