"""What validating costs beside a bare prepared ``jsonschema`` validator.

    python -m tests.bench.validation

CPU time of this process unless marked wall; the best of five rounds. Ratios hold from machine to
machine, the figures do not.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import jsonschema
from jsonschema.exceptions import best_match

from mcp_client import Limits
from mcp_client.validation.checker import Checker, checker_for
from mcp_client.validation.worker_pool import WorkerPool

FIELDS: dict[str, Any] = {
    **{f"text{i}": {"type": "string"} for i in range(8)},
    **{f"count{i}": {"type": "integer", "minimum": 0} for i in range(6)},
    **{f"share{i}": {"type": "number"} for i in range(4)},
    "flag": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
}
OBJECT = {
    "type": "object",
    "properties": FIELDS,
    "required": list(FIELDS),
    "additionalProperties": False,
}
VALUE: dict[str, Any] = {
    **{f"text{i}": f"some text {i}" for i in range(8)},
    **{f"count{i}": i for i in range(6)},
    **{f"share{i}": i + 0.5 for i in range(4)},
    "flag": True,
    "tags": ["a", "b", "c"],
}
WITH_A_PATTERN = {
    **OBJECT,
    "properties": {**FIELDS, "text0": {"type": "string", "pattern": "^[a-z0-9 ]+$"}},
}
BROKEN = {**VALUE, "count3": "three"}
ROW = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "price": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "ok": {"type": "boolean"},
    },
    "required": ["id", "name"],
}
ROWS = {"type": "array", "items": ROW}
ROWS_BEYOND_QUICK = {"type": "array", "items": {**ROW, "not": {"type": "string"}}}
ROW_VALUES = [
    {"id": i, "name": f"row {i}", "price": i / 3, "tags": ["x", "y"], "ok": True}
    for i in range(10_000)
]


def bare(schema: Any) -> Callable[[Any], Any]:
    validator = jsonschema.Draft202012Validator(schema)
    return lambda value: best_match(validator.iter_errors(value))


async def ours(checker: Checker, value: Any, workers: WorkerPool, budget: float = 1.0) -> Any:
    if checker.is_known_valid(value):
        return None
    return await checker.problem(value, workers, budget)


async def per_call(function: Callable[[], Awaitable[Any]], times: int) -> float:
    await function()
    rounds = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(times):
            await function()
        rounds.append((time.process_time() - start) / times)
    return min(rounds)


async def beside_bare(what: str, schema: Any, value: Any, workers: WorkerPool, times: int) -> None:
    checker, judge = checker_for(schema, Limits()), bare(schema)

    async def floor() -> Any:
        return judge(value)

    base = await per_call(floor, times)
    mine = await per_call(lambda: ours(checker, value, workers), times)
    print(
        f"{what:42} {base * 1e6:9.1f} us bare {mine * 1e6:9.1f} us ours   ratio {mine / base:.2f}"
    )


async def first_use(workers: WorkerPool) -> None:
    checker = checker_for({"pattern": "^(a+)+$"}, Limits())
    for what in ("worker, first use", "worker, used again"):
        start = time.perf_counter()
        await ours(checker, "a" * 64, workers)
        print(f"{what:42} {(time.perf_counter() - start) * 1e3:9.1f} ms wall")


async def longest_stop(what: str, schema: Any, workers: WorkerPool) -> None:
    stops: list[float] = []

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await anyio.sleep(0.001)
            stops.append(time.perf_counter() - before - 0.001)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        await anyio.sleep(0.01)
        start = time.perf_counter()
        found = await ours(checker_for(schema, Limits()), ROW_VALUES, workers, 10.0)
        took = time.perf_counter() - start
        await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert found is None, found
    print(f"{what:42} {took * 1e3:9.1f} ms wall, loop stopped {max(stops) * 1e3:.1f} ms at most")


async def main() -> None:
    workers = WorkerPool()
    await beside_bare("20 fields, valid", OBJECT, VALUE, workers, 500)
    await beside_bare("20 fields with a pattern, valid", WITH_A_PATTERN, VALUE, workers, 500)
    await beside_bare("20 fields, one broken", OBJECT, BROKEN, workers, 500)
    await beside_bare("10,000 rows, valid", ROWS, ROW_VALUES, workers, 2)
    await first_use(workers)
    await longest_stop("10,000 rows, by the quick check", ROWS, workers)
    await longest_stop("10,000 rows, by jsonschema in the worker", ROWS_BEYOND_QUICK, workers)
    await workers.aclose()


if __name__ == "__main__":
    anyio.run(main)
