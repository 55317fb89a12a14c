"""Words that a shell takes as they are."""

from __future__ import annotations

from ..runtime.safe_text import is_invisible

__all__ = ["is_plain"]


def is_plain(word: str) -> bool:
    """Whether a shell takes the word as it is: no quotes, no expansion, nothing invisible."""
    return bool(word) and all(
        char in "_.,:/@=+-" or (char.isalnum() and not is_invisible(char)) for char in word
    )
