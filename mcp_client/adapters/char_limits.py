"""The maximum length of a response for a model: one limit for all tools, or one for each."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..approval.constraints import glob
from ..errors import ConfigError
from ..runtime.safe_text import safe_text

__all__ = ["MAX_CHARS", "MaxChars", "char_limits"]

_log = logging.getLogger("mcp_client")
MAX_CHARS = 100_000
MaxChars: TypeAlias = int | Mapping[str, int] | Callable[[str], int]
"""The maximum length of one response, in characters.

A number; or numbers by globs of qualified names, of which the first match counts, with
``MAX_CHARS`` for other tools; or a function of the qualified name. ``MAX_CHARS`` also applies if
the function raises or returns no number.
"""


def char_limits(max_chars: MaxChars) -> Callable[[str], int]:
    """A function of a qualified name. Raises ``ConfigError`` unless it is a ``MaxChars``."""
    given: Any = max_chars
    if _is_limit(given):
        return lambda name: given
    if isinstance(given, Mapping):
        for pattern, chars in given.items():
            if not isinstance(pattern, str) or not _is_limit(chars):
                raise ConfigError(
                    f"max_chars={{{pattern!r}: {chars!r}}}: give globs of qualified names, each "
                    "with a whole number above 0"
                )
        globs = [(glob(pattern), chars) for pattern, chars in given.items()]
        return lambda name: next((chars for matches, chars in globs if matches(name)), MAX_CHARS)
    if callable(given) and not inspect.iscoroutinefunction(given):
        return lambda name: _asked(given, name)
    raise ConfigError(
        f"max_chars={given!r}: give a whole number above 0, a mapping of globs to such numbers, or "
        "a function of the qualified name"
    )


def _is_limit(chars: object) -> bool:
    return type(chars) is int and chars > 0


def _asked(max_chars: Callable[[str], Any], name: str) -> int:
    try:
        chars = max_chars(name)
    except Exception as error:  # noqa: BLE001 - the call was made: its answer is due
        shown = safe_text(name, 128)
        _log.error("max_chars failed for %s: using %d", shown, MAX_CHARS, exc_info=error)
        return MAX_CHARS
    if _is_limit(chars):
        return int(chars)
    kind = type(chars).__name__
    _log.error("max_chars returned a %s for %s: using %d", kind, safe_text(name, 128), MAX_CHARS)
    return MAX_CHARS
