"""Canonical JSON: equal values have one text, which is hashed, approved and sent; and digests.

Keys are sorted, without spaces, with only the necessary escapes. What JSON cannot represent
raises ``NotJson`` with its path: NaN and infinities, keys that are not strings, lone surrogates,
and types such as sets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ..errors import InvalidArguments
from .json_paths import escape

__all__ = ["NotJson", "canonical", "canonical_of", "digest_with", "frozen", "keyed", "object_of"]
__all__ += ["plain", "sha256"]

_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
).encode
_SHA256 = re.compile(r"(.* )?sha256:[0-9a-f]{64}", re.DOTALL)
_PLAIN = frozenset({str, int, float, bool, type(None)})
_MAX_DEPTH = 256


class NotJson(ValueError):
    """JSON cannot represent a value; ``path`` is a JSON pointer to it, ``reason`` explains it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the value'}: {reason}")
        self.path = path
        self.reason = reason


def canonical(value: Any) -> str:
    """The canonical text of ``value``. Raises ``NotJson``."""
    return canonical_of(plain(value))


def plain(value: Any) -> Any:
    """A copy of ``value`` in the plain types of JSON. Raises ``NotJson`` for any other type."""
    try:
        return _plain(value, 0)
    except _Unsupported as error:
        raise NotJson("".join(reversed(error.steps)), error.reason) from None


def _reusable_encoder() -> Callable[[Any, int], Iterable[str]]:
    """Return ``_encode`` with CPython's C encoder, made once instead of at every call.

    It is a function of a value and 0 that returns pieces of the text.
    """
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return lambda value, level: (_encode(value),)

    def refuse(value: object) -> Any:
        raise TypeError(f"{type(value).__name__} is not plain")

    quote = json.encoder.encode_basestring
    # Cycles are not looked for: a plain value is a copy of bounded depth.
    pieces: Callable[[Any, int], Iterable[str]]
    pieces = make(None, refuse, quote, None, ":", ",", True, False, False)
    return pieces


_pieces = _reusable_encoder()


def canonical_of(plain: Any) -> str:
    """The canonical text of a value that is plain already. Raises ``NotJson``."""
    try:
        text = "".join(_pieces(plain, 0))
        if not text.isascii():
            text.encode()
    except ValueError as error:
        raise NotJson(*_find_fault(plain, "", str(error))) from None
    return text


def object_of(what: str, value: Any) -> tuple[dict[str, Any], str]:
    """Return ``value``, a caller's ``what``, as a plain JSON object, and its canonical text.

    Raises ``InvalidArguments``.
    """
    if not isinstance(value, Mapping):
        advice = "give json.loads(...) of it" if isinstance(value, str | bytes) else "give a dict"
        raise InvalidArguments(
            f"{what} is a {type(value).__name__}: {advice}, which becomes a JSON object"
        )
    try:
        copy = plain(value)
        return copy, canonical_of(copy)
    except NotJson as error:
        raise InvalidArguments(f"{what} cannot be sent as JSON: {error}", path=error.path) from None


class _Unsupported(Exception):
    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.steps: list[str] = []


def _plain(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > _MAX_DEPTH:
        raise _Unsupported(f"nested deeper than {_MAX_DEPTH} levels, or within itself")
    key: Any = None
    try:
        if kind is dict or isinstance(value, Mapping):
            copy = {}
            for name, item in value.items():
                if type(name) is not str:
                    key = None  # what is wrong with a key is reported for the object
                    name = _key(name)
                key = name
                copy[key] = item if type(item) in _PLAIN else _plain(item, depth + 1)
            return copy
        if isinstance(value, list | tuple):
            items = []
            for key, item in enumerate(value):  # noqa: B007 - used by the handler below
                items.append(item if type(item) in _PLAIN else _plain(item, depth + 1))
            return items
    except _Unsupported as error:
        if key is not None:
            error.steps.append(_step("", key))
        raise
    if isinstance(value, str):
        return str.__str__(value)
    for number in (int, float):
        if isinstance(value, number):
            return number(value)
    raise _Unsupported(f"{kind.__name__} is not a type JSON has")


def _key(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise _Unsupported(f"the key {key!r} is not a string")


def _find_fault(value: Any, path: str, otherwise: str) -> tuple[str, str]:
    """Path and reason of the first NaN, infinity or lone surrogate."""
    if type(value) is float and (value != value or value in (float("inf"), float("-inf"))):
        return path, f"{value} is not a number JSON has"
    if type(value) is str and any("\ud800" <= char <= "\udfff" for char in value):
        return path, "the text has a lone surrogate, which UTF-8 cannot encode"
    items = (
        value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    )
    for key, item in items:
        for part, where in ((key, path), (item, _step(path, key))):
            found = _find_fault(part, where, "")
            if found[1]:
                return found
    return path, otherwise


def _step(path: str, key: object) -> str:
    return f"{path}/{escape(key)}"


def frozen(value: Any) -> Any:
    """Return ``value`` with every object and array in it made immutable."""
    if type(value) is dict:
        return FrozenObject((key, frozen(item)) for key, item in value.items())
    if type(value) is list:
        return FrozenArray(frozen(item) for item in value)
    return value


class FrozenArray(tuple[Any, ...]):
    """An immutable JSON array: a tuple that is equal to the list of the same items.

    So ``call.arguments == {"paths": ["a"]}`` works as expected.
    """

    __slots__ = ()
    __hash__: Final = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        return super().__eq__(tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (plain(self),)  # likewise a copy is plain, and yours to change


class FrozenObject(dict[str, Any]):
    """An immutable JSON object that is an instance of ``dict``."""

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "this cannot be changed: to send other arguments, return Allow(arguments=...)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy (``copy``, ``deepcopy``, ``pickle``) is a plain dict, and yours to change.
        return dict, (plain(self),)


_CHANGES = ["__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem"]
for _change in [*_CHANGES, "setdefault", "update"]:
    setattr(FrozenObject, _change, FrozenObject._refuse)


def sha256(text: str) -> str:
    """Return the SHA-256 digest of ``text`` in hexadecimal."""
    import hashlib  # imported here because a call without approval rules does not need OpenSSL

    # A server's text may have lone surrogates, as JSON escapes allow them.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def keyed(text: str, key: bytes | None, label: str = "") -> str:
    """Return ``text`` with a digest at its end replaced by one that ``key`` makes.

    It follows ``label``. So a short secret cannot be guessed from a file.
    """
    match = _SHA256.fullmatch(text)
    if match is None or key is None:
        return text
    return (match[1] or "") + label + digest_with(key, text)


def digest_with(key: bytes, text: str) -> str:
    """Return a digest of ``text`` that no one can make without ``key``."""
    import hmac  # only now: it loads OpenSSL, and most sessions remember no decisions

    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()
