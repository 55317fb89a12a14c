"""How the time that a piece of work takes grows with its size, told on a busy machine too.

The work on one large input is compared with the work on as many small ones as make up its size.
Both take equally long where the time is linear, so that what else runs on the machine, and the
caches it empties, slow both alike; and one try without disturbance out of many is enough. Time
that grows with the square of the size is longer by the whole factor in every try.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["grows_linearly"]

_TRIES = 8


def grows_linearly(prepare: Callable[[int], Callable[[], Any]], small: int, times: int) -> bool:
    """Whether the work that ``prepare(small * times)`` returns takes less than a quarter of
    ``times`` as long as the work of ``times`` calls of ``prepare(small)``."""
    assert times >= 12
    large_seconds = small_seconds = float("inf")
    for _ in range(_TRIES):
        small_seconds = min(small_seconds, _seconds([prepare(small) for _ in range(times)]))
        large_seconds = min(large_seconds, _seconds([prepare(small * times)]))
        if large_seconds < times / 4 * small_seconds:
            return True
    return False


def _seconds(works: Sequence[Callable[[], Any]]) -> float:
    gc.disable()
    try:
        began = time.thread_time()
        for work in works:
            work()
        return time.thread_time() - began
    finally:
        gc.enable()
