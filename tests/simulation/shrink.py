"""Making a life that fails smaller: without the faults and the calls that it fails without, too."""

from __future__ import annotations

import re
from dataclasses import replace

from .life import Options, live
from .world import World

__all__ = ["shrink"]


def shrink(seed: int, options: Options) -> tuple[int, Options]:
    """The options of the smallest life of ``seed`` in which the same promise is broken."""
    world = live(seed, options)
    if not world.wrong:
        return seed, options
    wanted = _kind(world)
    while True:
        parts = [*world.rates, *sorted(world.parts - options.dropped)]
        for part in parts:
            fewer = replace(options, dropped=options.dropped | {part})
            tried = live(seed, fewer)
            if wanted & _kind(tried):
                options, world = fewer, tried
                break
        else:
            return seed, options


def _kind(world: World) -> set[str]:
    """What was broken, without which call it was."""
    return {re.sub(r"\w*\d\w*", "", what)[:60] for what in world.wrong}
