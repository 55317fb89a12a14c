"""Private keys, and DPoP (RFC 9449): a request proves possession of the key of its token.

Keys are read, generated and used with PyJWT and cryptography (the extra ``auth``). Both are
imported when the first key is needed, and only here. Keys do not appear in reprs or errors.

A ``Prover`` is one key and the nonces that servers asked for. Nonces of the authorization server
and of the MCP server are stored apart, even for one origin, because each accepts only its own. The
key is stored with the token: the token cannot be used without it.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ..errors import AuthError, ConfigError
from ..runtime.safe_text import safe_text
from ..transports.http_client import origin_of

__all__ = ["PrivateKey", "Prover", "base64_sha256"]

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_RSA = ("RS256", "PS256", "RS384", "PS384", "RS512", "PS512")
_MIN_RSA_BITS = 2048
_NONCE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,1024}")


def _jwt() -> ModuleType:
    try:
        import cryptography.hazmat.primitives  # noqa: F401 - PyJWT alone has no private keys
        import jwt
    except ImportError:
        raise ConfigError(
            "signing needs PyJWT and cryptography: install mcp-client-host[auth]"
        ) from None
    return jwt


class PrivateKey:
    """A private key and the algorithms it can sign with, the preferred one first."""

    __slots__ = ("_key", "algorithms", "key_id")

    def __init__(self, key: Any, algorithms: tuple[str, ...], key_id: str | None = None) -> None:
        self._key = key
        self.algorithms: tuple[str, ...] = algorithms
        self.key_id: str | None = key_id

    def __repr__(self) -> str:
        return f"<PrivateKey {self.algorithms[0]}>"

    @classmethod
    def read(cls, text: str | bytes, *, key_id: str | None = None) -> PrivateKey:
        """Return a key from PEM (PKCS#8, PKCS#1 or SEC1, without a password) or from a JWK's JSON.

        Raises ``ConfigError`` if it cannot be read or is too weak.
        """
        jwt = _jwt()
        data = text.encode() if isinstance(text, str) else text
        try:
            if data.lstrip().startswith(b"{"):
                jwk = json.loads(data)
                key_id = key_id or jwk.get("kid")
                key = jwt.PyJWK(jwk).key
            else:
                from cryptography.hazmat.primitives.serialization import load_pem_private_key

                key = load_pem_private_key(data, password=None)
        except Exception:  # noqa: BLE001 - its text may quote the key
            raise ConfigError(
                "the private key cannot be read: give PEM text without a password, or a JWK"
            ) from None
        return cls(key, _algorithms(key), key_id)

    @classmethod
    def generate(cls) -> PrivateKey:
        """Return a new key on the curve P-256."""
        _jwt()
        from cryptography.hazmat.primitives.asymmetric import ec

        return cls(ec.generate_private_key(ec.SECP256R1()), ("ES256",))

    def algorithm(self, accepted: Iterable[str] | None, wanted: str | None = None) -> str:
        """Return the algorithm to sign with, if a server accepts ``accepted`` (None: not stated).

        Raises ``AuthError`` if the key supports none of them, and ``ConfigError`` if it does not
        support ``wanted``.
        """
        if wanted is not None and wanted not in self.algorithms:
            raise ConfigError(
                f"this private key cannot sign with {safe_text(wanted, 20)!r}; it supports "
                + ", ".join(self.algorithms)
            )
        able = self.algorithms if wanted is None else (wanted,)
        offered = None if accepted is None else list(accepted)
        for name in able:
            if offered is None or name in offered:
                return name
        names = ", ".join(safe_text(name, 20) for name in (offered or [])[:12]) or "nothing"
        raise AuthError(
            f"the server accepts signatures with {names}; this key can sign with {', '.join(able)}"
        )

    def sign(self, claims: Mapping[str, Any], algorithm: str, header: Mapping[str, Any]) -> str:
        """Return a JWT (RFC 7515, compact)."""
        token: str = _jwt().encode(dict(claims), self._key, algorithm, headers=dict(header))
        return token

    def public_jwk(self) -> dict[str, str]:
        """Return the public key, with the required members only (RFC 7638 section 3.2)."""
        whole = self._as_jwk(self._key.public_key())
        return {name: whole[name] for name in ("crv", "e", "kty", "n", "x", "y") if name in whole}

    def text(self) -> str:
        """Return the key as a JWK's JSON, for ``read``. It is a secret."""
        return json.dumps(self._as_jwk(self._key))

    def _as_jwk(self, key: Any) -> dict[str, Any]:
        algorithms = _jwt().algorithms.get_default_algorithms()
        jwk: dict[str, Any] = algorithms[self.algorithms[0]].to_jwk(key, as_dict=True)
        return jwk


def _algorithms(key: Any) -> tuple[str, ...]:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        return (_CURVES[key.curve.name],)
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return ("EdDSA",)
    if isinstance(key, rsa.RSAPrivateKey):
        if key.key_size < _MIN_RSA_BITS:
            raise ConfigError(
                f"the private key has {key.key_size} bits: RSA needs at least {_MIN_RSA_BITS}"
            )
        return _RSA
    raise ConfigError(
        "unsupported kind of private key: give RSA, Ed25519, or EC on P-256, P-384 or P-521"
    )


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
        return base64_sha256(json.dumps(self._public, sort_keys=True, separators=(",", ":")))

    def check(self, accepted: Iterable[str] | None) -> None:
        """Raise ``AuthError`` if a server accepts none of the algorithms of this key."""
        self._key.algorithm(accepted)

    def proof(self, method: str, url: str, access_token: str | None = None) -> str:
        """Return a proof for one request; it must not be sent twice.

        With ``access_token`` it is for the MCP server, without it for the authorization server.
        """
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": urlunsplit((*urlsplit(url)[:3], "", "")),
            "iat": int(self._clock()),
        }
        if access_token is not None:
            claims["ath"] = base64_sha256(access_token)
        nonce = self._nonces.get(_nonce_owner(url, access_token is not None))
        if nonce is not None:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "jwk": self._public}
        return self._key.sign(claims, self._key.algorithms[0], header)

    def accept_nonce(self, url: str, headers: Mapping[str, str], *, resource: bool = False) -> bool:
        """Store the nonce of a response (header names in lower case), whatever its status.

        ``resource`` means that the MCP server sent it. Returns whether the nonce is a new one, so
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


def base64_sha256(text: str) -> str:
    """Return the digest of ``text`` as JOSE and PKCE write it: URL-safe, without padding."""
    import hashlib

    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
