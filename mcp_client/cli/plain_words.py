"""Words that a shell takes as they are."""

from __future__ import annotations

from ..runtime.safe_text import is_invisible

__all__ = ["is_plain"]


def is_plain(word: str) -> bool:
    """Whether a shell takes the word as it is: no quotes, no expansion, nothing invisible.

    Nor is it one that we would read as an option or a file: ``--trust``, ``@notes``.
    """
    return word[:1] not in ("", *"-@=+:,") and all(
        char in "_.,:/@=+-" or (char.isalnum() and not is_invisible(char)) for char in word
    )
