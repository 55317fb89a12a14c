"""Encryption of what is secret in a ``PostgresState``, under a key that the host gives.

An object is replaced by ``{"sealed": <base64>}``: a nonce and the AES-256-GCM of its JSON. That
also authenticates its kind and its key, so a row that is moved to another key cannot be decrypted.
"""

from __future__ import annotations

import base64
import json
import os
from typing import Any

from ..errors import ConfigError
from ..runtime.storage import Object

__all__ = ["Seal"]

_LABEL = b"mcp_client tokens"
_NONCE_BYTES = 12


class Seal:
    """A seal that encrypts objects of some ``kinds``.

    Without a ``key``, it only recognizes them.
    """

    def __init__(self, key: bytes | None, kinds: frozenset[str]) -> None:
        self._kinds = kinds
        self._cipher = None if key is None else _cipher(key)

    def sealed(self, kind: str, key: str, found: Object) -> Object:
        """Return the stored form of ``found``."""
        if self._cipher is None or kind not in self._kinds:
            return found
        nonce = os.urandom(_NONCE_BYTES)
        text = json.dumps(found, allow_nan=False).encode()
        secret = self._cipher.encrypt(nonce, text, _place(kind, key))
        return {"sealed": base64.b64encode(nonce + secret).decode()}

    def opened(self, kind: str, key: str, stored: Object) -> Object:
        """Return the object that was stored. Raises ``ValueError``, with a sentence for people."""
        if kind not in self._kinds:
            return stored
        text = stored.get("sealed")
        if self._cipher is None:
            if text is not None:
                raise ValueError("they are encrypted: give PostgresState(key=...)")
            return stored
        try:
            secret = base64.b64decode(text or "", validate=True)
            nonce, secret = secret[:_NONCE_BYTES], secret[_NONCE_BYTES:]
            found: Object = json.loads(self._cipher.decrypt(nonce, secret, _place(kind, key)))
        except Exception:  # noqa: BLE001 - cryptography's own errors, imported with it
            found = {}
        if not found:
            raise ValueError(
                "they were not encrypted with this key= and under this name: give the key they "
                "were written with, or delete these rows and log in again"
            )
        return found


def _place(kind: str, key: str) -> bytes:
    return f"{kind}\0{key}".encode("utf-8", "surrogatepass")


def _cipher(key: bytes) -> Any:
    if not isinstance(key, bytes) or len(key) < 16:
        raise ConfigError("PostgresState(key=...): give at least 16 bytes, such as os.urandom(32)")
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise ConfigError(
            "PostgresState(key=...) needs the package cryptography: install mcp-client-host[auth]"
        ) from None
    import hmac

    # Not the key itself, which may sign the audit, too.
    return AESGCM(hmac.digest(key, _LABEL, "sha256"))
