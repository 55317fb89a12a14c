"""Tokens in the system's keyring (the extra ``keyring``).

Each token is an entry of its own, named after what it is for. A keyring cannot do two things at
once without somebody getting between, so claims, which are no secret, are kept in a file.
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
from .store import FileTokens, default_directory
from .strict_json import json_object
from .tokens import Key, Registration, Source, Token

__all__ = ["KeyringTokens"]

Value = TypeVar("Value")


class KeyringTokens:
    """Tokens in the keyring of the system: Keychain, Secret Service, Credential Locker.

    ``service`` is the name its entries go by. ``claims`` is the file in which processes tell each
    other that they are refreshing a token; it has no secrets in it. Every method raises
    ``ConfigError`` where there is no keyring, or it stays locked. On a keyring that has to be
    unlocked, the first use waits for the person.
    """

    def __init__(
        self, service: str = "mcp-client", *, claims: str | os.PathLike[str] | None = None
    ) -> None:
        self._service = service
        self._keyring = _keyring()
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

    async def load_registration(self, issuer: str) -> Registration | None:
        return await self._get(_name("client", issuer), Registration.from_wire)

    async def save_registration(self, registration: Registration) -> None:
        await self._set(_name("client", registration.issuer), registration.to_wire())

    async def delete_registration(self, issuer: str) -> None:
        await self._delete(_name("client", issuer))

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
        text: str | None = await self._asked(self._keyring.get_password, name)
        if text is None:
            return None
        try:
            return read(json_object(text.encode()))
        except ValueError as error:
            raise ConfigError(
                f"the entry {safe_text(name, 300)} of the system's keyring cannot be used: {error};"
                " delete it, and log in again"
            ) from None

    async def _set(self, name: str, wire: dict[str, Any]) -> None:
        await self._asked(self._keyring.set_password, name, json.dumps(wire, allow_nan=False))

    async def _delete(self, name: str) -> None:
        def delete(service: str, name: str) -> None:
            if self._keyring.get_password(service, name) is not None:
                self._keyring.delete_password(service, name)

        await self._asked(delete, name)

    async def _asked(self, function: Callable[..., Value], *arguments: str) -> Value:
        """In a thread: a keyring may ask a person. What it raises may quote what it was given."""
        try:
            return await anyio.to_thread.run_sync(function, self._service, *arguments)
        except Exception as error:  # noqa: BLE001 - whatever a back end of the system raises
            raise ConfigError(
                f"the system's keyring cannot be used ({type(error).__name__}): unlock it or set "
                "one up, or keep tokens in FileTokens()"
            ) from None


def _keyring() -> ModuleType:
    try:
        import keyring
    except ImportError:
        raise ConfigError(
            "KeyringTokens needs the package keyring: install mcp-client[keyring]"
        ) from None
    return keyring


def _entry(key: Key) -> str:
    return _name("token", key.issuer, key.resource, key.client)


def _name(*parts: str) -> str:
    return json.dumps(parts, ensure_ascii=False)
