"""What a token store has written down, and its form as JSON."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from .strict_json import json_object
from .tokens import Key, Registration, Source, Token

__all__ = ["TokenFile"]

_VERSION = 1
_LONGEST = 600.0
"""Seconds a claim may last: one that ends later was made while the clock was wrong."""


@dataclass(slots=True)
class TokenFile:
    """Everything a store knows."""

    tokens: dict[Key, Token] = field(default_factory=dict)
    registrations: dict[str, Registration] = field(default_factory=dict)
    """By issuer."""
    sources: dict[str, Source] = field(default_factory=dict)
    """By the MCP server's URL."""
    claims: dict[Key, tuple[str, float]] = field(default_factory=dict)
    """Who is refreshing what, and the Unix time until which that is believed."""

    def claim(self, key: Key, seconds: float, now: float) -> str | None:
        taken = self.claims.get(key)
        if taken is not None and now < taken[1] <= now + _LONGEST:
            return None
        mark = secrets.token_hex(8)
        self.claims[key] = mark, now + min(seconds, _LONGEST)
        return mark

    def release(self, key: Key, mark: str) -> None:
        if self.claims.get(key, ("", 0.0))[0] == mark:
            del self.claims[key]

    def to_json(self) -> bytes:
        whole = {
            "version": _VERSION,
            "tokens": [
                {**_key_to_wire(key), "token": token.to_wire()}
                for key, token in self.tokens.items()
            ],
            "registrations": [each.to_wire() for each in self.registrations.values()],
            "sources": [
                {"server": server, **source.to_wire()} for server, source in self.sources.items()
            ],
            "claims": [
                {**_key_to_wire(key), "mark": mark, "until": until}
                for key, (mark, until) in self.claims.items()
            ],
        }
        return json.dumps(whole, indent=1, allow_nan=False).encode() + b"\n"

    @classmethod
    def from_json(cls, text: bytes) -> TokenFile:
        """Raises ``ValueError``, without a secret in it, where ``text`` is no book."""
        whole = json_object(text)
        if whole is None:
            raise ValueError("it is no JSON object")
        if whole.get("version") != _VERSION:
            raise ValueError(f"it is no token file of version {_VERSION}")
        book = cls()
        for entry in _entries(whole, "tokens"):
            book.tokens[_key_from_wire(entry)] = Token.from_wire(entry.get("token"))
        for entry in _entries(whole, "registrations"):
            registration = Registration.from_wire(entry)
            book.registrations[registration.issuer] = registration
        for entry in _entries(whole, "sources"):
            book.sources[_text(entry, "server")] = Source.from_wire(entry)
        for entry in _entries(whole, "claims"):
            until = entry.get("until")
            if isinstance(until, bool) or not isinstance(until, (int, float)):
                raise ValueError("a claim has no end")
            book.claims[_key_from_wire(entry)] = _text(entry, "mark"), float(until)
        return book


def _entries(whole: dict[str, Any], name: str) -> list[dict[str, Any]]:
    entries = whole.get(name, [])
    if type(entries) is not list or not all(type(entry) is dict for entry in entries):
        raise ValueError(f"its {name} are no list of objects")
    return entries


def _text(entry: dict[str, Any], name: str) -> str:
    value = entry.get(name)
    if type(value) is not str:
        raise ValueError(f"an entry has no {name}")
    return value


def _key_to_wire(key: Key) -> dict[str, str]:
    return {"issuer": key.issuer, "resource": key.resource, "client": key.client}


def _key_from_wire(entry: dict[str, Any]) -> Key:
    return Key(_text(entry, "issuer"), _text(entry, "resource"), _text(entry, "client"))
