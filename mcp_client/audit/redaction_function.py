"""A redaction that is a function of the host's, from arguments to what may be shown of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..errors import ConfigError
from ..runtime.masking import texts_of
from .redaction import Redaction, Shown

__all__ = ["RedactionFunction", "redaction_of"]

_MAX_SECRETS = 256
"""The texts of one call whose redaction is observed."""


class RedactionFunction(Redaction):
    """A function of the host's decides; what it lets through is shown as it is, and bounded.

    It is called with the arguments, and with each text about them. What it left out of the
    arguments is left out of those texts, too. The rest of a session's record, which is not for it
    to decide, is shown as ``Redaction()`` does.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function
        self._bounds = Redaction(keys=(), patterns=())

    def show(self, value: Any, schema: Any = None) -> Shown:
        """Return what the host's function shows of ``value``."""
        return self._decided(value, self._bounds.show)

    def whole(self, value: Any, schema: Any = None, *, answer: bool = False) -> Shown:
        """Return what the host's function shows of all of ``value``."""
        if answer:
            return super().whole(value, schema, answer=True)
        return self._decided(value, self._bounds.whole)

    def _decided(self, value: Any, show: Callable[[Any], Shown]) -> Shown:
        before = texts_of(value, _MAX_SECRETS)
        try:
            shown = show(self._function(value))
            after = texts_of(shown.value, 4 * _MAX_SECRETS)
        except Exception as error:  # noqa: BLE001 - the host's function may raise anything
            return Shown(f"[unreadable: {type(error).__name__}]", before)
        shown.hidden = [text for text in before if not any(text in other for other in after)]
        return shown

    def about(self, text: str, limit: int, hidden: Iterable[str]) -> str:
        """Return ``text`` without the hidden secrets."""
        try:
            own = self._function(text)
        except Exception:  # noqa: BLE001 - many functions take arguments only
            own = None
        return super().about(own if isinstance(own, str) else text, limit, hidden)


def redaction_of(redaction: Any) -> Redaction:
    """Return a ``Redaction``, a function or None as a ``Redaction``.

    Raises ``ConfigError`` for anything else.
    """
    if redaction is None:
        return Redaction()
    if isinstance(redaction, Redaction):
        return redaction
    if callable(redaction):
        return RedactionFunction(redaction)
    raise ConfigError(f"redaction={redaction!r}: give Redaction(keys=..., patterns=...)")
