"""Every async test runs on asyncio and on trio, ends in bounded time and leaves no process."""

from __future__ import annotations

import functools
import inspect
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, settings

from mcp_client.connection import establish
from tests.ledger import Ledger

BOUND = 60.0
"""Seconds an async test may take; a test that waits longer has hung."""

settings.register_profile(
    "patient",  # a machine may have other things to do; in CI, what passed once passes again
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "below_the_gate: drives a transport or a wire by hand, so that no gate can have been asked",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: Any) -> None:
    if name.startswith("test") and inspect.iscoroutinefunction(obj):
        pytest.mark.anyio(obj)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):

        @functools.wraps(test)
        async def bounded(*args: Any, **kwargs: Any) -> None:
            with anyio.fail_after(BOUND):
                await test(*args, **kwargs)

        pyfuncitem.obj = bounded


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    """A port is used again by another server, which is not what an earlier test's server was."""
    establish._wants_initialize.clear()


@pytest.fixture(autouse=True)
def ledger(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    ledger = Ledger()
    ledger.listen(monkeypatch)
    yield ledger
    if request.node.get_closest_marker("below_the_gate") is None:
        assert not ledger.wrong, ledger.wrong


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    before = _children()
    yield
    until = time.monotonic() + 2
    while (left := _children() - before) and time.monotonic() < until:
        time.sleep(0.01)
    assert not left, f"processes left behind: {left}"


def _children() -> set[str]:
    tasks = Path("/proc/self/task")
    found: set[str] = set()
    for task in tasks.iterdir() if tasks.is_dir() else ():
        try:
            found.update((task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that ended while we looked
    return found
