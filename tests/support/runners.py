"""Running a function under each event loop that a host may use, in a process of its own.

A program may be started with ``anyio.run``, ``asyncio.run`` (with or without eager tasks), uvloop
or trio, and ``sniffio`` may be installed or not. anyio finds out which loop is running in another
way in each of these cases, and pytest's runner is only one of them. ``run_apart`` starts this file
as a script, which needs no pytest: it runs each journey, one after the other, in one loop, and
prints the outcome of each.

``watch_loop_callbacks`` notices anyio objects that are created where no task runs (see
``mcp_client.runtime.event_loop``). ``as_in_plain_asyncio`` makes a test's own loop callbacks see
what those of a program see that was started with ``asyncio.run``.
"""

from __future__ import annotations

import faulthandler
import functools
import importlib
import importlib.util
import json
import logging
import subprocess
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

__all__ = ["CASES", "Case", "Outcome", "as_in_plain_asyncio", "run_apart", "watch_loop_callbacks"]

ROOT = Path(__file__).parents[2]
BOUND = 300.0
"""Seconds one journey may take."""

Journey: TypeAlias = Callable[[], Awaitable[None]]


class Case(NamedTuple):
    """An event loop, and whether ``sniffio`` can be imported."""

    runner: str
    sniffio: bool

    def __str__(self) -> str:
        return f"{self.runner}-{'with' if self.sniffio else 'without'}-sniffio"

    @property
    def missing(self) -> str | None:
        """Why this case cannot be run here."""
        if self.runner == "eager" and sys.version_info < (3, 12):
            return "eager tasks came with Python 3.12"
        for module in ("uvloop", "trio"):
            if self.runner == module and importlib.util.find_spec(module) is None:
                return f"{module} is not installed for this Python"
        if self.sniffio and importlib.util.find_spec("sniffio") is None:
            return "sniffio is not installed"
        if not self.sniffio and _sniffio_is_needed():
            return "the versions of anyio and httpx that are installed need sniffio"
        return None


CASES = (
    Case("anyio", True),
    Case("anyio", False),
    Case("asyncio", True),
    Case("asyncio", False),
    Case("eager", True),
    Case("uvloop", True),
    Case("uvloop", False),
    Case("trio", True),  # and never without: trio itself imports sniffio
)


@functools.cache
def _sniffio_is_needed() -> bool:
    hidden = "import sys; sys.modules['sniffio'] = None; import anyio, httpx"
    return subprocess.run([sys.executable, "-c", hidden], capture_output=True).returncode != 0


class Outcome(NamedTuple):
    journey: str
    seconds: float
    problem: str
    """Empty where all went well."""
    skipped: str


def run_apart(case: Case, catalogue: str, journeys: Sequence[str]) -> list[Outcome]:
    """Run ``journeys``, keys of the mapping ``catalogue`` ("package.module:NAME"), under ``case``.

    Raises ``AssertionError`` where the process ends before it has run all of them.
    """
    words = [sys.executable, "-X", "dev", "-m", "tests.support.runners", case.runner]
    words += ["with" if case.sniffio else "without", catalogue, *journeys]
    bound = 30 + BOUND * len(journeys)
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=bound)
    outcomes = [Outcome(*json.loads(line)) for line in done.stdout.splitlines()]
    assert [outcome.journey for outcome in outcomes] == list(journeys), done.stderr[-4000:]
    return outcomes


# ------------------------------------------------------------------ anyio outside of tasks


def as_in_plain_asyncio() -> None:
    """Forget, for the current task and what it starts, that anyio or pytest started the loop."""
    sniffio = sys.modules.get("sniffio")
    if sniffio is not None:
        sniffio.current_async_library_cvar.set(None)


_watching: list[list[str]] = []


@contextmanager
def watch_loop_callbacks() -> Iterator[list[str]]:
    """The anyio objects created meanwhile by a loop callback, each with where that was."""
    created: list[str] = []
    _watching.append(created)
    try:
        with _watched_constructors() if len(_watching) == 1 else nullcontext():
            yield created
    finally:
        _watching.remove(created)


@contextmanager
def _watched_constructors() -> Iterator[None]:
    import anyio

    kinds: tuple[Any, ...] = (
        anyio.CancelScope,
        anyio.CapacityLimiter,
        anyio.Event,
        anyio.Lock,
        anyio.Semaphore,
    )
    originals = [kind.__new__ for kind in kinds]

    def watched(kind: Any, original: Any) -> Any:
        def new(cls: Any, *args: Any, **options: Any) -> Any:
            if _in_loop_callback():
                where = "".join(traceback.format_stack(limit=4)[:-1])
                what = f"anyio.{kind.__name__} was created outside a task:\n{where}"
                _watching[-1].append(what)
            return original(cls, *args, **options)

        return new

    for kind, original in zip(kinds, originals, strict=True):
        kind.__new__ = watched(kind, original)
    try:
        yield
    finally:
        for kind, original in zip(kinds, originals, strict=True):
            kind.__new__ = staticmethod(original)


def _in_loop_callback() -> bool:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        return asyncio.current_task() is None
    except RuntimeError:
        return False  # no loop of asyncio's runs here


# ---------------------------------------------------------------------- the other process


class _Errors(logging.Handler):
    """What is logged as an error: asyncio does that with an exception in a callback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("mcp_client.server."):  # what a server reports of itself
            self.found.append(self.format(record))


async def _run_all(journeys: Mapping[str, Journey]) -> None:
    import anyio

    errors = _Errors()
    logging.getLogger().addHandler(errors)
    for name, journey in journeys.items():
        began, problem, skipped = time.monotonic(), "", ""
        errors.found.clear()
        with watch_loop_callbacks() as created:
            try:
                with anyio.fail_after(BOUND):
                    await journey()
            except BaseException as error:
                if type(error).__name__ == "Skipped":  # of pytest: a peer that is not installed
                    skipped = str(error)
                elif isinstance(error, Exception):
                    problem = traceback.format_exc()
                else:
                    raise
        problem = "\n".join(filter(None, [problem, *created, *errors.found]))
        outcome = Outcome(name, round(time.monotonic() - began, 2), problem, skipped)
        print(json.dumps(outcome), flush=True)


def _run(runner: str, main: Callable[[], Any]) -> None:
    match runner:
        case "anyio":
            import anyio

            anyio.run(main)
        case "asyncio":
            import asyncio  # noqa: TID251 - as a host starts it

            asyncio.run(main())
        case "eager":
            import asyncio  # noqa: TID251 - as a host starts it

            with asyncio.Runner() as loop:
                factory: Any = asyncio.eager_task_factory  # type: ignore[attr-defined,unused-ignore]
                loop.get_loop().set_task_factory(factory)
                loop.run(main())
        case "uvloop":
            import asyncio  # noqa: TID251 - as a host starts it

            import uvloop

            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
                loop.run(main())
        case "trio":
            import trio

            trio.run(main)
        case _:
            raise SystemExit(f"no runner {runner!r}")


def main(runner: str, sniffio: str, catalogue: str, *names: str) -> None:
    faulthandler.dump_traceback_later(20 + BOUND * len(names), exit=True)
    if sniffio == "without":
        sys.modules["sniffio"] = None  # type: ignore[assignment]
    module, _, attribute = catalogue.partition(":")
    journeys = getattr(importlib.import_module(module), attribute)
    _run(runner, lambda: _run_all({name: journeys[name] for name in names}))


if __name__ == "__main__":
    main(*sys.argv[1:])
