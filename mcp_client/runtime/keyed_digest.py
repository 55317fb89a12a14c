"""Digests in files of what may be secret, keyed so that short secrets cannot be guessed."""

from __future__ import annotations

import re

__all__ = ["digest_with", "keyed"]

_PLAIN = re.compile(r"(.* )?sha256:[0-9a-f]{64}", re.DOTALL)


def keyed(text: str, key: bytes | None, label: str = "") -> str:
    """``text`` with the SHA-256 digest it ends with, if any, replaced by one that ``key`` makes,
    after ``label``."""
    match = _PLAIN.fullmatch(text)
    if match is None or key is None:
        return text
    return (match[1] or "") + label + digest_with(key, text)


def digest_with(key: bytes, text: str) -> str:
    """A digest of ``text`` that nobody can make without ``key``."""
    import hmac  # only now: it loads OpenSSL, and most sessions remember no answers

    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()
