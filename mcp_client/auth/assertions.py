"""Client assertions: a client says who it is with a signature (RFC 7523 section 2.2).

The extension is https://github.com/modelcontextprotocol/ext-auth, "OAuth Client Credentials".
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable

from .keys import PrivateKey
from .token_endpoint import ClientAuthentication

__all__ = ["private_key_jwt"]

_GOOD_FOR = 120
"""Seconds: an assertion is for the request it is made for."""


def private_key_jwt(
    client_id: str,
    key: PrivateKey,
    audience: str,
    *,
    algorithm: str | None = None,
    accepted: Iterable[str] | None = None,
    clock: Callable[[], float] = time.time,
) -> ClientAuthentication:
    """Authentication by assertions for ``audience``, the issuer of the authorization server.

    ``accepted`` is the server's ``token_endpoint_auth_signing_alg_values_supported``. Raises
    ``AuthError`` where it has no algorithm for this key.
    """
    chosen = key.algorithm(accepted, algorithm)
    header = {} if key.key_id is None else {"kid": key.key_id}

    def sign() -> str:
        now = int(clock())
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "iat": now,
            "exp": now + _GOOD_FOR,
            "jti": secrets.token_urlsafe(16),
        }
        return key.sign(claims, chosen, header)

    return ClientAuthentication(client_id, "private_key_jwt", sign=sign)
