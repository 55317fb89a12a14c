"""Tokens in the system's keyring (the extra ``keyring``).

Each token is an entry of its own. A keyring has no atomic "write if absent", so the marks by which
processes take turns at refreshing, which are not secret, are kept in a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import anyio.to_thread

from ..errors import ConfigError
from ..runtime.safe_text import safe_text
from ..runtime.strict_json import read_json_object
from .store import FileTokens, default_directory
from .tokens import Key, Registration, Source, Token

__all__ = ["KeyringTokens", "keyring_secret"]

Value = TypeVar("Value")


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


class KeyringTokens:
    """Keeps tokens in the system's keyring: Keychain, Secret Service, Credential Locker.

    ``service`` is the service name of the entries. ``claims`` is the file in which processes note
    that they are refreshing a token; it contains no secrets. Every method raises ``ConfigError``
    without a keyring, or if it stays locked. If the keyring has to be unlocked, the first use
    waits for the person.
    """

    def __init__(
        self, service: str = "mcp-client", *, claims: str | os.PathLike[str] | None = None
    ) -> None:
        self._service = service
        self._keyring = _keyring("KeyringTokens")
        path = default_directory() / "claims.json" if claims is None else Path(claims)
        self._claims = FileTokens(path)

    def __repr__(self) -> str:
        return f"KeyringTokens({self._service!r})"

    async def load(self, key: Key) -> Token | None:
        return await self._get(_entry(key), Token.from_wire)

    async def save(self, key: Key, token: Token) -> None:
        await self._set(_entry(key), token.to_wire())

    async def delete(self, key: Key) -> None:
        await self._delete(_entry(key))

    async def load_registration(
        self, issuer: str, client_id: str | None = None
    ) -> Registration | None:
        newest = await self._get(_name("client", issuer), Registration.from_wire)
        if client_id is None or (newest is not None and newest.client_id == client_id):
            return newest
        return await self._get(_name("client", issuer, client_id), Registration.from_wire)

    async def save_registration(self, registration: Registration) -> None:
        issuer, entry = registration.issuer, registration.to_wire()
        await self._set(_name("client", issuer, registration.client_id), entry)
        await self._set(_name("client", issuer), entry)

    async def delete_registration(self, issuer: str, client_id: str | None = None) -> None:
        newest = await self.load_registration(issuer)
        if newest is not None and client_id in (None, newest.client_id):
            await self._delete(_name("client", issuer))
            client_id = newest.client_id
        if client_id is not None:
            await self._delete(_name("client", issuer, client_id))

    async def recall(self, server: str) -> Source | None:
        return await self._get(_name("server", server), Source.from_wire)

    async def remember(self, server: str, source: Source) -> None:
        if await self.recall(server) != source:
            await self._set(_name("server", server), source.to_wire())

    async def claim(self, key: Key, seconds: float) -> str | None:
        return await self._claims.claim(key, seconds)

    async def release(self, key: Key, mark: str) -> None:
        await self._claims.release(key, mark)

    async def _get(self, name: str, read: Callable[[Any], Value]) -> Value | None:
        text: str | None = await self._call(self._keyring.get_password, name)
        if text is None:
            return None
        try:
            return read(read_json_object(text))
        except ValueError as error:
            raise ConfigError(
                f"the entry {safe_text(name, 300)} of the system's keyring cannot be used: {error};"
                " delete it, and log in again"
            ) from None

    async def _set(self, name: str, wire: dict[str, Any]) -> None:
        await self._call(self._keyring.set_password, name, json.dumps(wire, allow_nan=False))

    async def _delete(self, name: str) -> None:
        def delete(service: str, name: str) -> None:
            if self._keyring.get_password(service, name) is not None:
                self._keyring.delete_password(service, name)

        await self._call(delete, name)

    async def _call(self, function: Callable[..., Value], *arguments: str) -> Value:
        """Call it in a thread: it may ask a person. Its errors may quote secrets."""
        try:
            return await anyio.to_thread.run_sync(function, self._service, *arguments)
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


def _entry(key: Key) -> str:
    return _name("token", key.issuer, key.resource, key.client)


def _name(*parts: str) -> str:
    return json.dumps(parts, ensure_ascii=False)
