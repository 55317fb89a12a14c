"""How many examples a property is tried with: few by default, all of them in CI."""

from __future__ import annotations

import os

from hypothesis import settings

__all__ = ["EXAMPLES", "examples"]

_IN_CI = "CI" in os.environ
EXAMPLES = 60 if _IN_CI else 20
"""For a property that does not say."""


def examples(number: int) -> settings:
    """``number`` of them in CI, and a fifth of that, ten at least, by default."""
    return settings(max_examples=number if _IN_CI else max(10, number // 5))
