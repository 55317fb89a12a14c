"""Every async test runs on asyncio and on trio, ends in bounded time and leaves no process.

One that only computes is marked ``one_backend`` and runs on asyncio alone. ``pytestmark`` sets this
for a file, and there ``both_backends`` marks the tests that wait, cancel or run tasks side by side.

On asyncio it runs as in a program started with ``asyncio.run`` beside ``sniffio``, and creates no
anyio object in a loop callback: see ``tests.support.runners``.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import inspect
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import HealthCheck, settings
from trio.testing import MockClock

from mcp_client.connection import establish
from tests.programs import IN_CI, closing_lines, need, unlisted
from tests.support.ledger import Ledger
from tests.support.properties import EXAMPLES
from tests.support.runners import as_in_plain_asyncio, watch_loop_callbacks
from tests.support.selection import (
    CONFINED_WAYS,
    WAYS,
    begin_with_long_ones,
    is_twice_the_same,
    leave_products_to_ci,
    use_way,
)
from tests.support.timing import Clock, clock_of_the_loop

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer
    from tests.support.terminal import Desk

BOUND = 300.0
"""Seconds an async test may take, on a busy machine too; a test that waits longer has hung."""

COMPILED = "MCP_CLIENT_TESTS_COMPILED"
SKIPS_ARE_LISTED = "MCP_CLIENT_TESTS_SKIPS_ARE_LISTED"
"""If this variable is set, the run fails if a test is skipped for a reason of its own."""
LEFT_OUT = pytest.StashKey[int]()

gc.disable()  # until all tests are collected: a third of that time is looking for garbage

settings.register_profile(
    "default",  # no deadline: the machine may be busy; in CI the examples are the same each time
    deadline=None,
    derandomize=IN_CI,
    max_examples=EXAMPLES,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("default")

# The stories' own assertions are shown in full, as those of tests are.
for story in ("asking_story", "library_story", "story"):
    pytest.register_assert_rewrite(f"tests.journeys.{story}")


def pytest_configure(config: pytest.Config) -> None:
    """Let this process, and those that tests start, store what they compile apart from the sources
    where they must not store it beside them."""
    if "PYTHONDONTWRITEBYTECODE" not in os.environ:
        return
    if COMPILED not in os.environ:
        os.environ[COMPILED] = tempfile.mkdtemp(prefix="compiled-")
        atexit.register(shutil.rmtree, os.environ[COMPILED], ignore_errors=True)
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        del os.environ["PYTHONDONTWRITEBYTECODE"]
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = os.environ[COMPILED]
        sys.dont_write_bytecode = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """More workers than processors: these tests wait for a third of their time, and on a machine
    that is busy with other things each worker has a share of its own."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    processors = getattr(os, "process_cpu_count", os.cpu_count)() or 1
    return min(3 * processors, processors + 4)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import the files of tests in shares: pytest compiles each of them, which takes most of the
    time of a first collection, and otherwise every worker would compile all of them."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or not all(map(os.path.isdir, session.config.args)):
        return
    root = session.config.rootpath
    directories = (root / directory for directory in session.config.args)
    files = sorted(file for directory in directories for file in directory.rglob("test_*.py"))
    for file in files[int(worker["workerid"][2:]) :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # reported when the file is collected
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, as CI does")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if not is_twice_the_same(item)]
    if IN_CI or config.getoption("--slow"):
        begin_with_long_ones(items, getattr(config, "workerinput", {}).get("workercount", 1))
        return
    leave_products_to_ci(items)
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow and len(slow) < len(items):
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.stash[LEFT_OUT] = len(slow)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left out"] = session.config.stash.get(LEFT_OUT, 0)
    elif SKIPS_ARE_LISTED in os.environ and unlisted(_skipped(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _skipped(config: pytest.Config) -> list[Any]:
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    reports: list[Any] = terminal.stats.get("skipped", [])
    return reports


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    left_out = getattr(node, "workeroutput", {}).get("left out", 0)
    node.config.stash[LEFT_OUT] = max(left_out, node.config.stash.get(LEFT_OUT, 0))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    skipped = _skipped(config)
    for line in closing_lines(skipped):
        terminalreporter.write_line(line)
    if SKIPS_ARE_LISTED in os.environ:
        for line in unlisted(skipped):
            terminalreporter.write_line(f"FAILED {line} (tests/programs.py does not list it)")
    if left_out := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(
            f"{left_out} tests marked slow were left out; run them too with --slow, as CI does"
        )


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()  # tests that look for leaks need not look through these
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: Any) -> None:
    if name.startswith("test") and inspect.iscoroutinefunction(obj):
        pytest.mark.anyio(obj)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    test = metafunc.definition
    if (
        "anyio_backend" in metafunc.fixturenames
        and test.get_closest_marker("one_backend")
        and not test.get_closest_marker("both_backends")
    ):
        test.add_marker(pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            need(name)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):
        bound = 2 * BOUND if "clock" in pyfuncitem.fixturenames else BOUND

        @functools.wraps(test)
        async def bounded(*args: Any, **kwargs: Any) -> None:
            as_in_plain_asyncio()
            with watch_loop_callbacks() as created, anyio.fail_after(bound):
                await test(*args, **kwargs)
            assert not created, created

        pyfuncitem.obj = bounded


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str | tuple[str, dict[str, Any]]:
    backend: str = request.param
    if backend == "trio" and "clock" in request.fixturenames:
        return backend, {"clock": MockClock(rate=1.0)}
    return backend


@pytest.fixture
async def clock(anyio_backend: Any) -> AsyncIterator[Clock]:
    clock = clock_of_the_loop()
    yield clock
    clock.resume()


@pytest.fixture
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """``time.sleep`` returns at once, and ``time.monotonic`` advances as if it had not."""
    slept = [0.0]
    monotonic = time.monotonic

    def sleep(seconds: float) -> None:
        slept[0] += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + slept[0])


@pytest.fixture(params=["pool", "httpx"])
def http_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """HTTP through our own pool of connections, and through httpx, as where h11 is missing.

    A module whose tests use HTTP runs all of them both ways by ``usefixtures("http_way")``.
    """
    import httpcore  # imports h11 itself, before it is hidden

    assert httpcore
    way: str = request.param
    if way == "httpx":
        monkeypatch.setitem(sys.modules, "h11", None)
    return way


@pytest.fixture(params=WAYS)
def stdio_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module whose tests start servers runs all of them each way by
    ``usefixtures("stdio_way")``."""
    way: str = request.param
    use_way(way, monkeypatch)
    return way


@pytest.fixture(params=[*WAYS, *CONFINED_WAYS])
def process_way(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> str:
    """The same, and in a sandbox of each engine."""
    way: str = request.param
    use_way(way, monkeypatch, tmp_path)
    return way


@pytest.fixture(params=["by descriptor", "by path"])
def directory_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Files of our own by their directory's descriptor, and by path (as on Windows)."""
    way: str = request.param
    if way == "by path":
        monkeypatch.setattr(os, "supports_dir_fd", set())
    return way


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A terminal with a person at it, without an editor."""
    from tests.support.terminal import Desk  # needs a system with pseudo-terminals

    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    with monkeypatch.context() as patch:
        desk = Desk(patch)
        yield desk
    desk.close()


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Path]:
    from tests.support.postgres import new_cluster  # needs the extra postgres, as few tests do

    directory = new_cluster()
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(postgres_cluster: Path) -> Iterator[PostgresServer]:
    """A server that all tests share, each with databases of its own."""
    from tests.support.postgres import PostgresServer

    with PostgresServer(postgres_cluster) as server:
        _permanent.update(map(str, server.pids[:1]))
        yield server


_permanent: set[str] = set()
"""Processes that no test has to end."""


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database of PostgreSQL."""
    url = postgres.new_database()
    yield url
    postgres.take_back(url)


@pytest.fixture
def own_postgres(postgres_cluster: Path) -> Iterator[PostgresServer]:
    """A server of PostgreSQL that the test may stop, kill and suspend."""
    from tests.support.postgres import PostgresServer

    with PostgresServer(postgres_cluster) as server:
        yield server


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
    until = time.monotonic() + 60
    while (left := _children() - before - _permanent) and time.monotonic() < until:
        time.sleep(0.01)
    assert not left, f"processes left behind: {[_described(pid) for pid in sorted(left)]}"


def _described(pid: str) -> str:
    """The state (Z: no one has waited for it) and the command of a process."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")[-300:]
    except OSError:
        return f"{pid} has ended meanwhile"
    return f"{pid} {state} {command!r}"


def _children() -> set[str]:
    tasks = Path("/proc/self/task")
    found: set[str] = set()
    for task in tasks.iterdir() if tasks.is_dir() else ():
        try:
            found.update((task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that ended while we looked
    return found
