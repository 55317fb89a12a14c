"""Waiting for many servers at once, without being held up by the slowest."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from ..runtime.watch import Notifier

__all__ = ["GRACE", "wait_for_most"]

T = TypeVar("T")

GRACE = 10.0
"""Seconds that the slowest are waited for, after they began and after another one was done."""
_LOOK = 60.0


async def wait_for_most(
    notifier: Notifier,
    now: Callable[[], float],
    pending: Callable[[], Collection[T]],
    since: Callable[[T], float],
    must: Callable[[T], bool] = lambda one: False,
) -> None:
    """Wait until all are done, or only slow ones are left.

    ``pending`` tells which are not done, ``since`` when one began, ``must`` which are waited for
    in any case: each of those must be bounded by itself. ``notifier`` is notified when one is done.
    So on a busy machine, where all are slow, all are waited for as long as some become done.
    """
    began = progress = now()
    left = len(pending())
    while left:
        waited_for = pending()
        at = now()
        if len(waited_for) < left:
            progress = at
        left = len(waited_for)
        if not left:
            return
        if any(must(one) for one in waited_for):
            await notifier.wait(_LOOK)
            continue
        latest = [since(one) + GRACE for one in waited_for]
        if any(since(one) >= began - 0.1 for one in waited_for):
            latest.append(progress + GRACE)
        until = max(latest)
        if at >= until:
            return
        await notifier.wait(until - at)
