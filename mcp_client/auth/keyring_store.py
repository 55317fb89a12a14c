"""Tokens in the system's keyring (the extra ``keyring``).

Each token is an entry of its own. The marks by which processes take turns at refreshing, which are
not secret, are kept in a file.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Hashable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from ..errors import ConfigError
from ..runtime.json_file import JsonFile
from ..runtime.storage import Change, Object, Storage
from ..runtime.strict_json import read_json_object
from .store import CLAIMS, KINDS, TokenStore, default_directory

__all__ = ["KeyringTokens", "keyring_secret"]

Value = TypeVar("Value")
_REMEDY = "delete it, and log in again"


def keyring_secret(service: str, user: str) -> str | None:
    """What the system's keyring holds for ``user`` of ``service``; None where it holds nothing.

    May wait for a person who unlocks the keyring, so an event loop calls it in a thread. Raises
    ``ConfigError`` without a keyring, or if it stays locked.
    """
    keyring = _keyring("a secret of the keyring")
    try:
        found: str | None = keyring.get_password(service, user)
    except Exception as error:  # noqa: BLE001 - keyring backends raise anything, maybe with secrets
        raise ConfigError(
            f"the system's keyring cannot be used ({type(error).__name__}): unlock it or set one up"
        ) from None
    return found


class KeyringTokens(TokenStore):
    """Keeps tokens in the system's keyring: Keychain, Secret Service, Credential Locker.

    ``service`` is the service name of the entries. ``claims`` is the file in which processes note
    which entries there are and that they are refreshing a token; it contains no secrets. Every
    method raises ``ConfigError`` without a keyring, or if it stays locked. If the keyring has to be
    unlocked, the first use waits for the person.
    """

    def __init__(
        self, service: str = "mcp-client", *, claims: str | os.PathLike[str] | None = None
    ) -> None:
        path = default_directory() / "claims.json" if claims is None else Path(claims)
        super().__init__(_KeyringStorage(service, path))
        self._service = service

    def __repr__(self) -> str:
        return f"KeyringTokens({self._service!r})"


class _KeyringStorage(Storage):
    """An entry of the keyring for each object, and a file that says which there are.

    The file is also what writers of an entry lock: a keyring has no way to change one atomically.
    """

    def __init__(self, service: str, index: Path) -> None:
        self._service = service
        self._keyring = _keyring("KeyringTokens")
        self._index = JsonFile(index, "token claims", [*KINDS, "keys"], _REMEDY, own_folder=True)

    def __repr__(self) -> str:
        return f"<the keyring entries of {self._service!r}>"

    def get(self, kind: str, key: str) -> Object | None:
        if kind == CLAIMS:
            return self._index.get(kind, key)
        text: str | None = self._call(self._keyring.get_password, _name(kind, key))
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
                self._call(self._keyring.delete_password, _name(kind, key))
            elif changed is not None and changed != before:
                text = json.dumps(changed, allow_nan=False)
                self._call(self._keyring.set_password, _name(kind, key), text)
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

    def _call(self, function: Callable[..., Value], *arguments: str) -> Value:
        """What it raises may quote secrets."""
        try:
            return function(self._service, *arguments)
        except Exception as error:  # noqa: BLE001 - keyring backends raise anything
            raise ConfigError(
                f"the system's keyring cannot be used ({type(error).__name__}): unlock it or set "
                "one up, or keep tokens in FileTokens()"
            ) from None


def _keyring(wanted: str) -> ModuleType:
    try:
        import keyring
    except ImportError:
        raise ConfigError(
            f"{wanted} needs the package keyring: install mcp-client-host[keyring]"
        ) from None
    return keyring


def _name(kind: str, key: str) -> str:
    return json.dumps([kind, key])
