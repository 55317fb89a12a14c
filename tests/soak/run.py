"""One soak: twenty servers, fifty callers, faults by a seed, and a report of what held."""

from __future__ import annotations

import gc
import random
import sys
import time
from pathlib import Path

import anyio

from mcp_client import AuditLog, Handlers, Host, Timeouts

from .callers import Callers, Hook, answer
from .measure import KINDS, Samples, settled_counts
from .verdict import Report, judge, judge_use
from .world import Faults, servers

__all__ = ["TASKS", "soak"]

TASKS = 50


async def soak(seed: int, calls: int, seconds: float, directory: Path) -> Report:
    """``directory`` is empty, and stores what happened."""
    report, samples = Report(), Samples()
    audit = directory / "audit.jsonl"
    hook = Hook(directory / "approved", seed)
    began = time.monotonic()
    async with servers(directory) as world:
        before = await settled_counts()
        async with Host(
            world.servers,
            approval=hook,
            audit=AuditLog(audit, max_bytes=None),
            timeouts=Timeouts(connect=30, idle=10, total=20, approval=5, close=1),
            handlers=Handlers(elicitation=answer),
        ) as host:
            callers = Callers(world, host, directory / "seen", seed)
            await callers.learn_names()
            faults = Faults(world, host, audit, random.Random(f"{seed} faults"))
            until = anyio.current_time() + seconds
            async with anyio.create_task_group() as background:
                background.start_soon(samples.take)
                background.start_soon(faults.go_on)
                async with anyio.create_task_group() as tasks:
                    for number in range(TASKS):
                        tasks.start_soon(callers.one, number, calls, until)
                background.cancel_scope.cancel()
            states = host.status()
        callers.close()
        hook.close()
        gc.collect()
        after = await settled_counts()
    took = time.monotonic() - began
    real = ", ".join(world.real) or "none installed"
    report.write(
        f"Soak with seed {seed}: {callers.count} calls in {took:.0f} s from {TASKS} tasks to "
        f"{len(world.servers)} servers ({len(world.over_http)} over HTTP; real ones: {real}), "
        f"Python {sys.version.split()[0]}"
    )
    report.write("Outcomes: " + ", ".join(f"{k} {n}" for k, n in callers.outcomes.most_common()))
    report.write("Faults: " + ", ".join(f"{kind} {n}" for kind, n in faults.done.most_common()))
    for name, status in states.items():
        if status.state != "connected":
            report.write(f"At the end {name} is {status.state}: {str(status.error)[:200]}")
    report.write("Promises:")
    report.check("nothing was raised but McpError", callers.foreign)
    judge(directory, world, audit, faults.full, report)
    judge_use(samples, report)
    report.write("Left after closing (before, after):")
    for kind in KINDS:
        report.write(f"  {kind:12} {before[kind]} {after[kind]}")
        if kind != "memory_kib" and after[kind] > before[kind] + _SPARE[kind]:
            report.wrong.append(f"{kind} left after closing: {before[kind]} before, {after[kind]}")
    report.write(f"Again: python -m tests.soak --seed {seed} --calls {calls} --seconds {seconds:g}")
    return report


_SPARE = {"descriptors": 2, "tasks": 0, "threads": 8, "processes": 0}
"""Threads of the pool that anyio keeps for later are not a leak."""
