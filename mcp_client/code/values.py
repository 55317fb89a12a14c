"""The values that pass between a script and the host: plain JSON, within bounds.

A value of a script can share its parts, so that a few bytes become more than a host can write. They
are counted as they are written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import InvalidArguments

__all__ = ["as_plain", "as_text", "parsed_arguments", "sendable"]

_MAX_ARGUMENT_CHARS = 4_000_000
_MAX_VALUES = 200_000
_MAX_LEVELS = 128
_LISTS = (list, tuple, set, frozenset)


class _TooLong(Exception):
    """An error: the value has more characters than are left."""


class _Budget:
    """Copies values into plain JSON, until that takes more than ``chars``."""

    def __init__(self, chars: int, *, exactly: bool) -> None:
        """Create a writer. ``exactly``: nothing but JSON.

        Otherwise a text replaces any other value.
        """
        self._left, self._values = chars, _MAX_VALUES
        self._exactly = exactly

    def plain(self, value: Any, level: int = 0) -> Any:
        self._left -= 2 + (len(value) if type(value) is str else 0)
        self._values -= 1
        if self._left < 0 or self._values < 0 or level > _MAX_LEVELS:
            raise _TooLong
        kind = type(value)
        if isinstance(value, Mapping):
            return dict(self._members(value, level))
        if kind is list or kind is tuple or (kind in _LISTS and not self._exactly):
            return [self.plain(item, level + 1) for item in value]
        if self._exactly or kind in (str, bool, type(None)):
            return value
        if kind is int:
            return value if value.bit_length() <= 1_024 else "<int>"
        if kind is float:
            return value if math.isfinite(value) else str(value)
        return f"<{getattr(value, 'name', None) or kind.__name__}>"

    def _members(self, value: Mapping[Any, Any], level: int) -> Iterator[tuple[Any, Any]]:
        for key, item in value.items():
            name = key if type(key) is str or self._exactly else str(self.plain(key, level + 1))
            self._left -= len(name) if type(name) is str else 0
            yield name, self.plain(item, level + 1)


def parsed_arguments(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, with lists for tuples.

    Raises ``InvalidArguments`` for those that are too long; what else is not JSON is for the call
    to refuse.
    """
    try:
        plain: dict[str, Any] = _Budget(_MAX_ARGUMENT_CHARS, exactly=True).plain(value)
        return plain
    except _TooLong:
        raise InvalidArguments(
            f"the arguments take more than {_MAX_ARGUMENT_CHARS:,} characters, or have more than "
            f"{_MAX_VALUES:,} values or {_MAX_LEVELS} levels"
        ) from None


def as_plain(value: Any, chars: int) -> Any:
    """Return a script's last expression as plain JSON, with texts for what JSON does not have.

    Raises ``ValueError`` if that takes more than ``chars`` characters.
    """
    try:
        return _Budget(chars, exactly=False).plain(value)
    except _TooLong:
        raise ValueError(f"it takes more than {chars:,} characters") from None


def as_text(value: Any, chars: int) -> tuple[str, bool]:
    """Return a script's last expression for a model, and whether it is too long.

    A text is unchanged; anything else is JSON. It is empty if it has more than ``chars``
    characters.
    """
    try:
        plain = as_plain(value, chars)
    except ValueError:
        return "", True
    text = plain if type(plain) is str else json.dumps(plain, ensure_ascii=False)
    return (text, False) if len(text) <= chars else ("", True)


def sendable(value: Any) -> Any:
    """Return ``value``, plain JSON of a server, without lone surrogates."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=False)
        return json.loads(text.encode("utf-8", "replace"))
    return value
