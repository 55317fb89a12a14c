"""``python -m tests.simulation``: lives of a client, each repeatable by its seed.

``--seed N`` lives one and shows it as a timeline; ``--seeds A:B --jobs 2`` lives many, shrinks the
first that fails, and ends with 1 if a promise was broken in any, or if there were 2,000 or more and
something was not reached that ``sometimes`` lists. ``--drop`` leaves out kinds of
faults and calls, as a shrunk life does, and ``--calls`` all calls but the first.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from .life import Options, live, lives
from .shrink import shrink
from .sometimes import MANY, unreached

_SHOWN = 20
_BATCH = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="live this life, and show what happened")
    parser.add_argument("--seeds", default="0:1000", help="A:B, live these")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--calls", type=int, default=99, help="the most calls of one life")
    parser.add_argument("--steps", type=int, help="the most lines of the timeline to show")
    parser.add_argument("--drop", default="", help="faults and calls to leave out: 'token,c2'")
    parser.add_argument("--backend", default="", choices=["", "trio", "asyncio"])
    parser.add_argument("--trace", action="store_true", help="show the messages of servers, too")
    given = parser.parse_args()
    dropped = frozenset(each for each in given.drop.split(",") if each)
    options = Options(dropped, given.calls, given.backend, given.trace)
    if given.seed is None:
        first, last = map(int, given.seeds.split(":"))
        return many(range(first, last), options, given.jobs)
    return show(given.seed, options, given.steps)


def show(seed: int, options: Options, steps: int | None = None) -> int:
    world = live(seed, options)
    print("\n".join(world.trace[:steps]))
    print("\n".join(["BROKEN:", *world.wrong]) if world.wrong else "All promises were kept.")
    return 1 if world.wrong else 0


def batch(options: Options, seeds: range) -> tuple[Counter[str], dict[int, list[str]]]:
    """Live these: what happened, and what was broken in which."""
    happened, wrong = Counter[str](), {}
    for seed, found, broken in lives(seeds, options):
        happened.update(found)
        if broken:
            wrong[seed] = broken
    return happened, wrong


def many(seeds: range, options: Options, jobs: int) -> int:
    began, happened, failed = time.perf_counter(), Counter[str](), dict[int, list[str]]()
    parts = [seeds[start : start + _BATCH] for start in range(0, len(seeds), _BATCH)]
    with ProcessPoolExecutor(jobs) as processes:
        work = processes.map if jobs > 1 else map
        for number, (found, wrong) in enumerate(work(partial(batch, options), parts), 1):
            happened += found
            if number % _SHOWN == 0:
                print(f"... {number * _BATCH} lives, {len(failed)} failed", flush=True)
            for seed, broken in wrong.items():
                if len(failed) < _SHOWN:
                    print(f"seed {seed}:", *broken[:3], sep="\n    ", flush=True)
                failed[seed] = broken
    seconds = time.perf_counter() - began
    rate = len(seeds) / seconds
    print(f"{len(seeds)} lives in {seconds:.1f} s, {rate:.0f} a second; {len(failed)} failed")
    for what, count in sorted(happened.items()):
        print(f"  {count:8} {what}")
    if failed:
        seed, smaller = shrink(min(failed), options)
        print(f"\nThe smallest life that fails, --seed {seed} {smaller.words}:")
        show(seed, smaller)
    missed = unreached(happened) if len(seeds) >= MANY and options == Options() else set()
    for what in sorted(missed):
        print(f"NOT REACHED: {what}")
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
