"""What the process uses, once a second, and the line through it."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import anyio

__all__ = ["KINDS", "Line", "Samples", "counts", "settled_counts"]

KINDS = ("memory_kib", "descriptors", "tasks", "threads", "processes")


def counts() -> dict[str, int]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "memory_kib": pages * os.sysconf("SC_PAGESIZE") // 1024,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "tasks": _tasks(),
        "threads": threading.active_count(),
        "processes": _children(),
    }


async def settled_counts() -> dict[str, int]:
    """The same once nothing ends any more, within some seconds."""
    before: dict[str, int] = {}
    for _ in range(40):
        gc.collect()
        now = counts()
        if {**now, "memory_kib": 0} == {**before, "memory_kib": 0}:
            break
        before = now
        await anyio.sleep(0.25)
    return now


def _tasks() -> int:
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return int(trio.lowlevel.current_statistics().tasks_living)
    return len(sys.modules["asyncio"].all_tasks())


def _children() -> int:
    found = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            found += len((task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@dataclass(frozen=True)
class Line:
    """The straight line that fits a quantity best."""

    start: float
    growth: float
    """By the line, from the first sample to the last."""
    least: float
    most: float

    @classmethod
    def through(cls, points: list[tuple[float, float]]) -> Line:
        count = len(points)
        mean_x = sum(x for x, _ in points) / count
        mean_y = sum(y for _, y in points) / count
        spread = sum((x - mean_x) ** 2 for x, _ in points)
        slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
        first, last = points[0][0], points[-1][0]
        values = [y for _, y in points]
        start = mean_y + slope * (first - mean_x)
        return cls(start, slope * (last - first), min(values), max(values))


@dataclass
class Samples:
    """One sample a second, and the longest time the event loop was blocked from its other work."""

    taken: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    longest_stop: float = 0.0
    """CPU seconds of the loop's own thread, which other programs do not lengthen."""

    async def take(self) -> None:
        began = before = time.monotonic()
        used = time.thread_time()
        while True:
            await anyio.sleep(0.01)
            now = time.thread_time()
            self.longest_stop = max(self.longest_stop, now - used)
            if time.monotonic() - before >= 1.0:
                before = time.monotonic()
                self.taken.append((before - began, counts()))
            used = time.thread_time()

    def line(self, kind: str, after: float = 1 / 3) -> Line:
        """Of the samples after the given part of the time, when everything has warmed up."""
        taken = self.taken[int(len(self.taken) * after) :] or [(0.0, counts())]
        return Line.through([(when, float(sample[kind])) for when, sample in taken])
