"""DPoP: each request proves possession of the key that the token is bound to (RFC 9449).

A ``Prover`` is one key and the nonces that servers asked for. Nonces of the authorization server
and of the MCP server are kept apart even if both have the same origin, because each accepts only
its own. The key is stored with the token: the token cannot be used without it.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ..transports.http_client import origin_of
from .keys import PrivateKey

__all__ = ["Prover"]

_NONCE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,1024}")


class Prover:
    """Makes the values of the ``DPoP`` header.

    ``text`` is a stored key (``Token.dpop_key``); without it a key is generated. Raises
    ``ConfigError`` if the extra ``auth`` is not installed.
    """

    def __init__(self, text: str | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._key = PrivateKey.generate() if text is None else PrivateKey.read(text)
        self._public = self._key.public_jwk()
        self._text = self._key.text() if text is None else text
        self._nonces: dict[tuple[str, str, int, bool], str] = {}
        self._clock = clock

    def __repr__(self) -> str:
        return f"<Prover {self.thumbprint}>"

    @property
    def text(self) -> str:
        """The private key, to be stored with the token that is bound to it. It is a secret."""
        return self._text

    @property
    def thumbprint(self) -> str:
        """The key's thumbprint (RFC 7638), as in ``dpop_jkt`` and in a token's ``cnf.jkt``."""
        return _hash(json.dumps(self._public, sort_keys=True, separators=(",", ":")))

    def check(self, accepted: Iterable[str] | None) -> None:
        """Raises ``AuthError`` if a server accepts none of the algorithms of this key."""
        self._key.algorithm(accepted)

    def proof(self, method: str, url: str, access_token: str | None = None) -> str:
        """A proof for one request; it must not be sent twice.

        With ``access_token`` it is for the MCP server, without it for the authorization server.
        """
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": urlunsplit((*urlsplit(url)[:3], "", "")),
            "iat": int(self._clock()),
        }
        if access_token is not None:
            claims["ath"] = _hash(access_token)
        nonce = self._nonces.get(_nonce_owner(url, access_token is not None))
        if nonce is not None:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "jwk": self._public}
        return self._key.sign(claims, self._key.algorithms[0], header)

    def accept_nonce(self, url: str, headers: Mapping[str, str], *, resource: bool = False) -> bool:
        """Remember the nonce of a response (header names in lower case), whatever its status.

        ``resource`` says that the MCP server sent it. Returns whether the nonce is a new one, so
        that a request that was refused for its nonce can be sent again.
        """
        nonce = headers.get("dpop-nonce")
        if nonce is None or not _NONCE.fullmatch(nonce):
            return False
        owner = _nonce_owner(url, resource)
        new = self._nonces.get(owner) != nonce
        self._nonces[owner] = nonce
        return new


def _nonce_owner(url: str, resource: bool) -> tuple[str, str, int, bool]:
    return (*origin_of(url), resource)


def _hash(text: str) -> str:
    import hashlib

    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
