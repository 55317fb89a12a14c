"""Digests under a key: of possible secrets, in files; and marks that end a foreign text."""

from __future__ import annotations

import os
import re

__all__ = ["digest_with", "end_mark", "keyed"]

_PROCESS_KEY = os.urandom(32)
_PLAIN = re.compile(r"(.* )?sha256:[0-9a-f]{64}", re.DOTALL)


def keyed(text: str, key: bytes | None, label: str = "") -> str:
    """Return ``text`` with a digest at its end replaced by one that ``key`` makes.

    It follows ``label``. So a short secret cannot be guessed from a file.
    """
    match = _PLAIN.fullmatch(text)
    if match is None or key is None:
        return text
    return (match[1] or "") + label + digest_with(key, text)


def digest_with(key: bytes, text: str) -> str:
    """Return a digest of ``text`` that no one can make without ``key``."""
    import hmac  # only now: it loads OpenSSL, and most sessions remember no decisions

    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()


def end_mark(*texts: str, key: bytes = _PROCESS_KEY) -> str:
    """Return eight hexadecimal digits of ``texts``, by which a program or a model knows their end.

    The author of the text does not know the mark, so nothing in it can seem to end it, or to begin
    another text under another name. The same text has the same mark whenever this process shows it
    again, which preserves a provider's prompt cache.
    """
    import hmac

    digest = hmac.new(key, digestmod="sha256")
    for text in texts:
        part = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()[:8]
