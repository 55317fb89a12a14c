"""``python -m tests.soak.crash --seed N``: what a crash of workers and of the database leaves.

Worker processes make calls by key to one server over HTTP, with one ``PostgresState``. Every key
is called by two of them, at about the same time. All the while a worker is killed with ``-9`` at
short intervals, and the database at longer ones. In the end the server's own log, the journal and
the audit are compared: no key ran twice, each is settled once or listed by ``unsettled()``, and the
audit is as it was written. Ends with 1 where that does not hold.

Keys, what the server does with each, and who is killed are drawn by the seed. When that happens is
not, so the same seed gives the same load and not the same run.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from mcp_client import HttpServer, McpError, Session, Timeouts, allow_all, connect
from mcp_client.audit import verify_audit
from mcp_client.state import PostgresState
from tests.support.postgres import PostgresServer, new_cluster
from tests.support.starting import free_port

from .verdict import Report

_PEER = Path(__file__).with_name("peer.py")
_ACTS = ["say"] * 14 + ["slow", "slow", "fail", "error", "cut", "big"]
_TASKS = 3
"""Calls of a worker at once."""
_PAUSE = 0.05
"""Seconds before a call is tried again that may be."""
_TIMEOUTS = Timeouts(connect=30, idle=20, total=30)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is drawn, and where it is stored."""

    seed: int
    calls: int
    workers: int
    directory: Path
    server: str
    database: str

    def act(self, key: str) -> str:
        return random.Random(f"{self.seed} {key}").choice(_ACTS)

    def keys(self, worker: int, life: int) -> list[str]:
        """Those of a worker that it has no outcome of, in an order of this life of it."""
        of_two = (worker, (worker + 1) % self.workers)
        mine = [f"key-{n}" for n in range(self.calls) if n % self.workers in of_two]
        over = {key for key, _ in self.seen(worker)}
        left = [key for key in mine if key not in over]
        # The two that have a key come to it at about the same time: in one order, from a place.
        random.Random(self.seed).shuffle(left)
        return left

    def seen(self, worker: int) -> Iterator[tuple[str, str]]:
        """The outcomes that callers of this worker received, by key."""
        with suppress(FileNotFoundError):
            for line in (self.directory / f"seen-{worker}").read_text().splitlines():
                key, _, outcome = line.partition(" ")
                yield key, outcome


# ---------------------------------------------------------------------------- a worker


def _fork(plan: Plan, worker: int, life: int) -> int:
    child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        anyio.run(_work, plan, worker, life)
    except* McpError:  # it cannot begin while the database is down: the next life does
        os._exit(2)
    except* BaseException:
        logging.getLogger("tests.soak").exception("worker %s", worker)
        os._exit(1)
    os._exit(0)


async def _work(plan: Plan, worker: int, life: int) -> None:
    state = PostgresState(plan.database)
    file = os.open(plan.directory / f"seen-{worker}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    keys = iter(plan.keys(worker, life))

    async def caller(session: Session) -> None:
        for key in keys:
            outcome = await _outcome(plan, session, key)
            os.write(file, f"{key} {outcome}\n".encode())

    async with (
        connect(
            HttpServer(plan.server),
            name="peer",
            approval=allow_all,
            state=state,
            timeouts=_TIMEOUTS,
        ) as session,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(_TASKS):
            tasks.start_soon(caller, session)
    state.close()


async def _outcome(plan: Plan, session: Session, key: str) -> str:
    """The outcome that its caller receives in the end."""
    while True:
        try:
            arguments = {"key": key, "act": plan.act(key)}
            result = await session.call_tool("work", arguments, idempotency_key=key)
        except McpError as error:
            if not error.retryable:
                return type(error).__name__
            await anyio.sleep(_PAUSE)
        else:
            return "tool_error" if result.is_error else "ok"


def _import_all(plan: Plan) -> None:
    """Import here what a worker does when it makes a call: its life is short."""
    names = plan.directory / "modules"
    child = os.fork()
    if not child:
        with suppress(BaseException):
            anyio.run(_work, replace(plan, calls=1), 0, 0)
            names.write_text("\n".join(sys.modules))
        os._exit(0)
    os.waitpid(child, 0)
    for name in names.read_text().splitlines():
        with suppress(Exception):
            importlib.import_module(name)


# ------------------------------------------------------------------------- the crashes


def _keep_database(directory: Path, seconds: float) -> None:
    """Run the database in this process, kill it every so many seconds, and start it again."""
    parent, is_running = os.getppid(), True

    def end(*_: object) -> None:
        nonlocal is_running
        is_running = False

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cluster = new_cluster()
    with PostgresServer(cluster) as server:
        shutil.rmtree(cluster, ignore_errors=True)
        made = directory / "database.new"
        made.write_text(server.new_database())
        made.rename(directory / "database")
        next_kill = time.monotonic() + seconds
        while is_running and os.getppid() == parent:
            time.sleep(0.02)
            if time.monotonic() >= next_kill and not (directory / "judging").exists():
                server.kill()
                server.start()
                with open(directory / "killed", "a") as file:
                    file.write("database\n")
                next_kill = time.monotonic() + seconds


@contextmanager
def _database(directory: Path, seconds: float) -> Iterator[str]:
    child = os.fork()
    if not child:
        try:
            _keep_database(directory, seconds)
        except BaseException:
            logging.getLogger("tests.soak").exception("the database")
            os._exit(1)
        os._exit(0)
    try:
        until = time.monotonic() + 60
        while not (directory / "database").exists():
            assert time.monotonic() < until, "the database did not start"
            time.sleep(0.02)
        yield (directory / "database").read_text()
    finally:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


@contextmanager
def _server(directory: Path) -> Iterator[str]:
    port = free_port()
    words = [sys.executable, str(_PEER), "http", "stateless", str(directory), "peer", str(port)]
    with subprocess.Popen(words) as process:
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def _crash(plan: Plan, kill_every: float, until: float) -> int:
    """Run all workers to their ends, and kill one every so many seconds, if the one that is drawn
    is not done. Returns how many."""
    running = {_fork(plan, worker, 0): worker for worker in range(plan.workers)}
    try:
        return _kill_some(plan, running, kill_every, until)
    finally:
        for child in running:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _kill_some(plan: Plan, running: dict[int, int], kill_every: float, until: float) -> int:
    chance = random.Random(f"{plan.seed} kills")
    lives = Counter[int]()
    killed, next_kill = 0, time.monotonic() + kill_every
    while running:
        assert time.monotonic() < until, f"not done in time: {sorted(running.values())}"
        time.sleep(0.005)
        if time.monotonic() >= next_kill:
            chosen = chance.randrange(plan.workers)
            for child in [child for child, worker in running.items() if worker == chosen]:
                os.kill(child, signal.SIGKILL)
                killed += 1
            next_kill = time.monotonic() + kill_every
        for child in list(running):
            if os.waitpid(child, os.WNOHANG)[0]:
                worker = running.pop(child)
                lives[worker] += 1
                if plan.keys(worker, 0):
                    running[_fork(plan, worker, lives[worker])] = worker
    return killed


# -------------------------------------------------------------------------- the verdict


async def _judge(plan: Plan, report: Report) -> None:
    state = PostgresState(plan.database)
    ran = Counter((plan.directory / "peer.ran").read_text().split())
    keys = [f"key-{number}" for number in range(plan.calls)]
    unsettled = {call.key for call in await anyio.to_thread.run_sync(state.calls.unsettled)}
    report.write(f"Ran: {len(ran)} of {len(keys)} keys; unsettled: {len(unsettled)}")
    reported: dict[str, set[str]] = {key: set() for key in keys}
    for worker in range(plan.workers):
        for key, outcome in plan.seen(worker):
            reported[key].add(outcome)
    report.write(
        f"Outcomes: {dict(Counter(each for outcomes in reported.values() for each in outcomes))}"
    )
    again = await _again(plan, state, keys)
    ran_again = Counter((plan.directory / "peer.ran").read_text().split())
    report.check("no key ran twice", [key for key, count in ran_again.items() if count > 1])
    report.check(
        "a key that is asked for again does not run again",
        [key for key in ran if ran_again[key] != ran[key]],
    )
    report.check("every key has an outcome", [key for key in keys if not reported[key]])
    report.check(
        "every key is settled, or listed by unsettled()",
        [key for key in keys if (again[key] == "OutcomeUnknown") != (key in unsettled)],
    )
    report.check(
        "what is settled did run, and had one end",
        [key for key in keys if again[key] != "OutcomeUnknown" and not _agrees(
            plan.act(key), again[key], reported[key], ran_again[key])],
    )  # fmt: skip
    found = verify_audit(state)
    report.write(
        f"Audit: {found.lines} lines in {len(found.files)} chains, {found.calls} calls, "
        f"{len(found.open_calls)} of killed workers open"
    )
    report.check("no chain lost a line", ["lost"] * found.lost)
    state.close()


def _agrees(act: str, outcome: str, reported: set[str], count: int) -> bool:
    wanted = {"fail": "tool_error", "error": "ServerError"}.get(act, "ok")
    return count == 1 and outcome == wanted and reported <= {wanted, "OutcomeUnknown"}


async def _again(plan: Plan, state: PostgresState, keys: list[str]) -> dict[str, str]:
    """What each key gives once all is over."""
    found: dict[str, str] = {}
    left = iter(keys)

    async def caller(session: Session) -> None:
        for key in left:
            found[key] = await _outcome(plan, session, key)

    server = HttpServer(plan.server)
    async with (
        connect(
            server, name="peer", approval=allow_all, state=state, timeouts=_TIMEOUTS
        ) as session,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(8):
            tasks.start_soon(caller, session)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.crash")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--kill-worker", type=float, default=0.05, metavar="SECONDS")
    parser.add_argument("--kill-database", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=1_800.0, help="give up after that")
    parser.add_argument("--directory", type=Path, help="an empty directory, which is left")
    options = parser.parse_args()
    logging.getLogger("mcp_client").addHandler(logging.NullHandler())
    logging.getLogger("mcp_client").propagate = False
    directory = options.directory or Path(tempfile.mkdtemp(prefix="crash-"))
    directory.mkdir(exist_ok=True)
    report, began = Report(), time.monotonic()
    with _server(directory) as server, _database(directory, options.kill_database) as database:
        plan = Plan(options.seed, options.calls, options.workers, directory, server, database)
        _import_all(plan)
        killed = _crash(plan, options.kill_worker, began + options.seconds)
        took, kills = time.monotonic() - began, directory / "killed"
        databases = len(kills.read_text().split()) if kills.exists() else 0
        report.write(
            f"Crash test with seed {options.seed}: {options.calls} keys, {options.workers} "
            f"workers, {took:.0f} s; killed: {killed} workers, the database {databases} times"
        )
        (directory / "judging").touch()
        anyio.run(_judge, plan, report)
    print("\n".join(report.lines))
    print("\n".join(["NOT RIGHT:", *report.wrong]) if report.wrong else "All promises held.")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
