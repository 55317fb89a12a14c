"""One text for equal JSON values: what is hashed, approved and sent.

Keys sorted, no spaces, no escapes beyond the necessary. Only what JSON can say passes: a number
that is no number, a key that is no string, a set, a lone surrogate are refused with their place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from .json_pointer import escape

__all__ = ["NotJson", "canonical", "canonical_of", "frozen", "json_object", "plain", "sha256"]

_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
).encode
_PLAIN = frozenset({str, int, float, bool, type(None)})
_DEEPEST = 256


class NotJson(ValueError):
    """``path`` is a JSON pointer to the part that JSON cannot say; ``reason`` says why."""

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
    except _Odd as odd:
        raise NotJson("".join(reversed(odd.steps)), odd.reason) from None


def _made_once() -> Callable[[Any], str]:
    """The same as ``_encode`` where CPython's C encoder can be made once and not at every call."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _encode

    def refuse(value: object) -> Any:
        raise TypeError(f"{type(value).__name__} is not plain")

    quote = json.encoder.encode_basestring
    # No look-out for cycles: what is plain is a copy of bounded depth.
    chunks = make(None, refuse, quote, None, ":", ",", True, False, False)
    return lambda value: "".join(chunks(value, 0))


_encode_plain = _made_once()


def canonical_of(plain: Any) -> str:
    """The canonical text of a value that is plain already. Raises ``NotJson``."""
    try:
        text = _encode_plain(plain)
        if not text.isascii():
            text.encode()
    except ValueError as error:
        raise NotJson(*_blame(plain, "", str(error))) from None
    return text


def json_object(value: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """A plain copy of ``value``, and its canonical text. Raises ``NotJson``."""
    copy: dict[str, Any] = plain(value)
    return copy, canonical_of(copy)


class _Odd(Exception):
    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.steps: list[str] = []


def _plain(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > _DEEPEST:
        raise _Odd(f"nested deeper than {_DEEPEST} levels, or within itself")
    key: Any = None
    try:
        if kind is dict or isinstance(value, Mapping):
            copy = {}
            for name, item in value.items():
                if type(name) is not str:
                    key = None  # a fault in a key is a fault of the object
                    name = _key(name)
                key = name
                copy[key] = item if type(item) in _PLAIN else _plain(item, depth + 1)
            return copy
        if isinstance(value, list | tuple):
            items = []
            for key, item in enumerate(value):  # noqa: B007 - the handler below names the place
                items.append(item if type(item) in _PLAIN else _plain(item, depth + 1))
            return items
    except _Odd as odd:
        if key is not None:
            odd.steps.append(_step("", key))
        raise
    if isinstance(value, str):
        return str.__str__(value)
    for number in (int, float):
        if isinstance(value, number):
            return number(value)
    raise _Odd(f"{kind.__name__} is not a type JSON has")


def _key(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise _Odd(f"the key {key!r} is no string")


def _blame(value: Any, path: str, otherwise: str) -> tuple[str, str]:
    """Where the first NaN, infinity or lone surrogate stands."""
    if type(value) is float and (value != value or value in (float("inf"), float("-inf"))):
        return path, f"{value} is not a number JSON has"
    if type(value) is str and any("\ud800" <= char <= "\udfff" for char in value):
        return path, "the text has a lone surrogate, which UTF-8 cannot carry"
    items = (
        value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    )
    for key, item in items:
        for part, place in ((key, path), (item, _step(path, key))):
            found = _blame(part, place, "")
            if found[1]:
                return found
    return path, otherwise


def _step(path: str, key: object) -> str:
    return f"{path}/{escape(key)}"


def frozen(value: Any) -> Any:
    """``value`` with every object and array in it made immutable."""
    if type(value) is dict:
        return FrozenObject((key, frozen(item)) for key, item in value.items())
    if type(value) is list:
        return tuple(frozen(item) for item in value)
    return value


class FrozenObject(dict[str, Any]):
    """A JSON object that cannot be changed and still is a ``dict`` to whoever looks."""

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("approved arguments cannot be changed; answer Allow(arguments=...) instead")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy (``copy``, ``deepcopy``, ``pickle``) is a plain dict, and yours to change.
        return dict, (plain(self),)


def sha256(text: str) -> str:
    import hashlib  # only now: it loads a library that a plain call does not need

    # A server's own text may hold lone surrogates (JSON escapes allow them): hashed as they are.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
