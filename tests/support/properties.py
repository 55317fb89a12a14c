"""How many examples a property is tested with: few by default, all of them in CI."""

from __future__ import annotations

from hypothesis import settings

from tests.programs import IN_CI

__all__ = ["EXAMPLES", "examples"]

EXAMPLES = 60 if IN_CI else 20
"""For a property that states no number."""


def examples(number: int) -> settings:
    """``number`` of them in CI, and a fifth of that, ten at least, by default."""
    return settings(max_examples=number if IN_CI else max(10, number // 5))
