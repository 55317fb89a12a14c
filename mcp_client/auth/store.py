"""Stores for tokens: memory, a file of the user, the system's keyring, any state.

```python
OAuth(store=FileTokens())                    # ~/.local/share/mcp-client/tokens.json
OAuth(store=KeyringTokens())                 # needs mcp-client-host[keyring]
OAuth(store=TokenStore(state))               # a State of yours; the same as state.tokens
```

A token file must be protected like a password. It has mode 0600, and its directory must not be
writable by others. Both must belong to the user, and neither may be a symbolic link. Otherwise the
file is refused, because another user may have read or placed it. (On Windows, only links are
refused: a file is as private as its directory.) See ``runtime.json_file``.

In the system's keyring (the extra ``keyring``) each token is an entry of its own. The marks by
which processes take turns at refreshing, which are not secret, are stored in a file.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ..errors import ConfigError
from ..processes.process_id import is_alive, process_id
from ..runtime.daemon_thread import run_in_thread
from ..runtime.directory import checked_path
from ..runtime.json_file import JsonFile
from ..runtime.storage import Change, MemoryStorage, Object, Storage
from ..runtime.strict_json import read_json_object
from .tokens import Key, Registration, Source, Token

__all__ = ["KINDS", "FileTokens", "KeyringTokens", "MemoryTokens", "TokenStore", "keyring_secret"]

Value = TypeVar("Value")
TOKENS, CLIENTS, SOURCES, CLAIMS = "tokens", "clients", "token_sources", "token_claims"
KINDS = (TOKENS, CLIENTS, SOURCES, CLAIMS)
_REMEDY = "delete it, and log in again"
_MAX_CLAIM_SECONDS = 600.0
"""Seconds. A mark that ends later was made while the clock was wrong, and is ignored."""


class TokenStore:
    """A store for the tokens and clients of one person in a ``State``. Raises ``ConfigError``."""

    _clock: Callable[[], float] = time.time

    def __init__(self, state: Storage) -> None:
        if not isinstance(state, Storage):
            raise ConfigError(f"TokenStore({state!r}): give a State")
        self._state = state

    @classmethod
    def of(cls, store: Any) -> TokenStore:
        """Return a store made of any value that ``OAuth(store=...)`` takes."""
        if isinstance(store, TokenStore):
            return store
        if isinstance(store, Storage):
            return TokenStore(store)
        raise ConfigError(f"store={store!r}: give FileTokens(), KeyringTokens(), or a State")

    def __repr__(self) -> str:
        return f"TokenStore({self._state!r})"

    async def load(self, key: Key) -> Token | None:
        """Return the token that is stored for this issuer, resource and client, or None."""
        return await self._get(TOKENS, _name(key), Token.from_wire)

    async def save(self, key: Key, token: Token) -> None:
        """Store ``token`` in place of the present one."""
        await self._change(TOKENS, _name(key), lambda found: token.to_wire())

    async def delete(self, key: Key) -> None:
        """Forget the token for this issuer, resource and client."""
        await self._change(TOKENS, _name(key), lambda found: None)

    async def load_registration(
        self, issuer: str, client_id: str | None = None
    ) -> Registration | None:
        """Return the registration of ``client_id`` at ``issuer``, or the one saved last."""
        found = await self._get(CLIENTS, issuer, _clients) or []
        return next((c for c in reversed(found) if client_id in (None, c.client_id)), None)

    async def save_registration(self, registration: Registration) -> None:
        """Make it the current one of its issuer; drop doubtful ones that no token needs."""
        stored = await self._call(self._state.list, TOKENS)
        needed = {_key(name).client for name in stored}

        def with_it(found: Object | None) -> Object:
            clients = self._parsed(CLIENTS, _clients, found) or []
            others = [one for one in clients if one.client_id != registration.client_id]
            left = [one for one in others if not one.doubtful or one.client_id in needed]
            return _to_wire([*left, registration])

        await self._change(CLIENTS, registration.issuer, with_it)

    async def delete_registration(self, issuer: str, client_id: str | None = None) -> None:
        """Delete the registration of ``client_id`` at ``issuer``, or all of that issuer."""

        def without_it(found: Object | None) -> Object | None:
            clients = self._parsed(CLIENTS, _clients, found) or []
            left = [client for client in clients if client_id not in (None, client.client_id)]
            return _to_wire(left) if left else None

        await self._change(CLIENTS, issuer, without_it)

    async def recall(self, server: str) -> Source | None:
        """Return the source of the last tokens of the MCP server at this URL."""
        return await self._get(SOURCES, server, Source.from_wire)

    async def remember(self, server: str, source: Source) -> None:
        """Store the source of the tokens of the MCP server at this URL."""
        if await self.recall(server) != source:
            await self._change(SOURCES, server, lambda found: source.to_wire())

    async def claim(self, key: Key, seconds: float) -> str | None:
        """Mark that the caller is about to refresh this token, for at most ``seconds``.

        Returns the mark to give to ``release``, or None while another's mark is valid. A mark is
        not a lock: nothing is held. It becomes void when its time is over, or when the process that
        made it has ended.
        """
        mark = f"{process_id()} {secrets.token_hex(8)}"
        # Machines that share a database need not agree what time it is.
        now = await self._call(self._state.now) if self._state.is_remote else self._clock()

        def put(found: Object | None) -> Object:
            if found is not None and self._is_valid(found, now):
                return found
            return {"mark": mark, "until": now + min(seconds, _MAX_CLAIM_SECONDS)}

        stored = await self._change(CLAIMS, _name(key), put)
        return mark if stored is not None and stored.get("mark") == mark else None

    async def release(self, key: Key, mark: str) -> None:
        """Remove the mark, if it is still the caller's own."""

        def remove(found: Object | None) -> Object | None:
            return None if found is not None and found.get("mark") == mark else found

        await self._change(CLAIMS, _name(key), remove)

    def _is_valid(self, claim: Object, now: float) -> bool:
        mark, until = claim.get("mark"), claim.get("until")
        if not isinstance(mark, str) or not isinstance(until, int | float):
            raise self._state.unusable(CLAIMS, "a mark in it is not one")
        return now < until <= now + _MAX_CLAIM_SECONDS and is_alive(mark.rpartition(" ")[0])

    async def _get(self, kind: str, key: str, read: Callable[[Any], Value]) -> Value | None:
        return self._parsed(kind, read, await self._call(self._state.get, kind, key))

    def _parsed(
        self, kind: str, read: Callable[[Any], Value], found: Object | None
    ) -> Value | None:
        try:
            return None if found is None else read(found)
        except ValueError as error:
            raise self._state.unusable(kind, str(error)) from None

    async def _change(self, kind: str, key: str, change: Change) -> Object | None:
        return await self._call(self._state.change, kind, key, change)

    async def _call(self, method: Callable[..., Value], *arguments: Any) -> Value:
        if not self._state.waits:
            return method(*arguments)
        return await run_in_thread(method, *arguments)


class MemoryTokens(TokenStore):
    """A store for tokens that lasts as long as this object. Sessions that use it share them."""

    def __init__(self) -> None:
        super().__init__(MemoryStorage())

    def __repr__(self) -> str:
        return f"<MemoryTokens: {len(self._state.list(TOKENS))} tokens>"


class FileTokens(TokenStore):
    """A store for tokens in a file, for later runs and for other processes.

    ``path`` is ``mcp-client/tokens.json`` under ``$XDG_DATA_HOME`` or ``~/.local/share`` unless
    given; its directory is created if it is missing. Every method raises ``ConfigError``, and
    changes nothing, if others can read or write the file or write to its directory. The same
    applies if either belongs to another user, or if the file is not a token file.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        if path is None:
            path = _default_directory() / "tokens.json"
        self.path: Path = Path(checked_path(path, f"FileTokens({path!r})")).expanduser()
        super().__init__(JsonFile(self.path, "tokens", KINDS, _REMEDY, own_directory=True))

    def __repr__(self) -> str:
        return f"FileTokens({str(self.path)!r})"


def _default_directory() -> Path:
    """Return ``mcp-client`` in the user's data directory."""
    base = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    if not base.is_absolute():  # the XDG specification ignores a relative path
        base = Path("~/.local/share").expanduser()
    return base / "mcp-client"


def _name(key: Key) -> str:
    return json.dumps([key.issuer, key.resource, key.client], ensure_ascii=False)


def _key(name: str) -> Key:
    return Key(*json.loads(name))


def _clients(wire: Object) -> list[Registration]:
    clients = wire.get("clients")
    if type(clients) is not list:
        raise ValueError("the clients of an issuer are not a list")
    return [Registration.from_wire(each) for each in clients]


def _to_wire(clients: list[Registration]) -> Object:
    return {"clients": [client.to_wire() for client in clients]}


def keyring_secret(service: str, user: str) -> str | None:
    """Return the secret of ``user`` of ``service`` in the system's keyring, or None.

    This may wait for a person who unlocks the keyring, so an event loop calls it in a thread.
    Raises ``ConfigError`` without a keyring, or if it stays locked.
    """
    keyring = _keyring("a secret of the keyring")
    found: str | None = _ask(keyring.get_password, service, user)
    return found


class KeyringTokens(TokenStore):
    """A store for tokens in the system's keyring: Keychain, Secret Service, Credential Locker.

    ``service`` is the service name of the entries. ``claims`` is the file in which processes note
    which entries there are and that they are refreshing a token; it contains no secrets. Every
    method raises ``ConfigError`` without a keyring, or if it stays locked. If the keyring has to be
    unlocked, the first use waits for the person.
    """

    def __init__(
        self, service: str = "mcp-client", *, claims: str | os.PathLike[str] | None = None
    ) -> None:
        path = _default_directory() / "claims.json" if claims is None else Path(claims)
        super().__init__(_KeyringStorage(service, path))
        self._service = service

    def __repr__(self) -> str:
        return f"KeyringTokens({self._service!r})"


class _KeyringStorage(Storage):
    """A keyring's entries, one for each object, and a file that lists them.

    Writers of an entry lock the file: a keyring has no way to change an entry atomically.
    """

    def __init__(self, service: str, index: Path) -> None:
        self._service = service
        self._keyring = _keyring("KeyringTokens")
        self._index = JsonFile(index, "token claims", [*KINDS, "keys"], _REMEDY, own_directory=True)

    def __repr__(self) -> str:
        return f"<the keyring entries of {self._service!r}>"

    def get(self, kind: str, key: str) -> Object | None:
        if kind == CLAIMS:
            return self._index.get(kind, key)
        text: str | None = _ask(self._keyring.get_password, self._service, _entry(kind, key))
        try:
            return None if text is None else read_json_object(text)
        except ValueError as error:
            raise self.unusable(kind, str(error)) from None

    def change(self, kind: str, key: str, function: Change) -> Object | None:
        if kind == CLAIMS:
            return self._index.change(kind, key, function)
        changed: Object | None = self.get(kind, key)  # before the lock: it may ask a person

        def write(entry: Object | None) -> Object | None:
            nonlocal changed
            before = self.get(kind, key)
            changed = function(before)
            if changed is None and before is not None:
                _ask(self._keyring.delete_password, self._service, _entry(kind, key))
            elif changed is not None and changed != before:
                text = json.dumps(changed, allow_nan=False)
                _ask(self._keyring.set_password, self._service, _entry(kind, key), text)
                return {"written": secrets.token_hex(8)}
            return None if changed is None else entry or {}

        self._index.change(kind, key, write)
        return None if changed is None else json.loads(json.dumps(changed))

    def list(self, kind: str) -> dict[str, Object]:
        if kind == CLAIMS:
            return self._index.list(kind)
        found = {key: self.get(kind, key) for key in self._index.list(kind)}
        return {key: value for key, value in found.items() if value is not None}

    def stamp(self, kind: str) -> Hashable:
        return self._index.stamp(kind)

    def unusable(self, kind: str, why: str) -> ConfigError:
        return ConfigError(f"an entry of the system's keyring cannot be used: {why}; {_REMEDY}")


def _ask(function: Callable[..., Value], *arguments: str) -> Value:
    """Raise ``ConfigError`` for whatever ``function`` raises, which may quote secrets."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 - keyring backends raise anything
        raise ConfigError(
            f"the system's keyring cannot be used ({type(error).__name__}). Unlock it or set one "
            "up, or store tokens in FileTokens()"
        ) from None


def _keyring(wanted: str) -> ModuleType:
    try:
        import keyring
    except ImportError:
        raise ConfigError(
            f"{wanted} needs the package keyring: install mcp-client-host[keyring]"
        ) from None
    return keyring


def _entry(kind: str, key: str) -> str:
    return json.dumps([kind, key])
