"""Threads that wait to write to a log are written for together, in order and without loss."""

from __future__ import annotations

import os
import pickle
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mcp_client import AuditLog, StateError, verify_audit
from mcp_client.audit.group_commit import GroupCommit

BOUND = 120.0


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + BOUND
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


class Writer:
    """Writes into ``writes``, and waits in the first write until ``go_on`` is set."""

    def __init__(self) -> None:
        self.writes: list[list[Any]] = []
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.is_busy = False
        self.bad: set[Any] = set()
        self.lost = False

    def __call__(self, records: Any) -> bool:
        if not self.begun.is_set():
            self.begun.set()
            assert self.go_on.wait(BOUND)
        numbers = [record["n"] for record in records]
        if self.lost and len(numbers) > 1:
            raise StateError(f"the database is gone: {numbers}")
        if self.bad & set(numbers):
            raise ValueError(f"cannot write {numbers}")
        if not self.is_busy:
            self.writes.append(numbers)
        return not self.is_busy


Append = Callable[..., "Future[None]"]


class Appending:
    """A first append that is being written, and others that wait, one after another."""

    def __init__(self, patience: float = BOUND, most: int = 10_000) -> None:
        self.writer = Writer()
        self.commit = GroupCommit(self.writer, self.busy, patience=patience, most=most)
        self._threads = ThreadPoolExecutor(16)
        self.first = self._threads.submit(self.commit.append, [{"n": 0}])
        assert self.writer.begun.wait(BOUND)

    def busy(self) -> Exception:
        return TimeoutError("busy")

    def add(self, *numbers: Any) -> Future[None]:
        """From another thread, and not before that thread has stood in the line."""
        waiting = self.commit._waiting
        before = len(waiting)
        future = self._threads.submit(self.commit.append, [{"n": number} for number in numbers])
        _until(lambda: len(waiting) > before or future.done())
        return future

    def close(self) -> None:
        self.writer.go_on.set()
        self._threads.shutdown()


@pytest.fixture
def line() -> Iterator[Appending]:
    appending = Appending()
    yield appending
    appending.close()


def test_what_waits_is_written_at_once_and_in_order(line: Appending) -> None:
    others = [line.add(1), line.add(2, 3), line.add(4)]
    line.writer.go_on.set()
    assert [future.result(BOUND) for future in (line.first, *others)] == [None] * 4
    assert line.writer.writes == [[0], [1, 2, 3, 4]]


def test_a_record_that_cannot_be_written_costs_the_others_nothing(line: Appending) -> None:
    line.writer.bad = {2}
    good, bad, last = line.add(1), line.add(2), line.add(3)
    line.writer.go_on.set()
    with pytest.raises(ValueError, match=r"cannot write \[2\]"):
        bad.result(BOUND)
    assert (good.result(BOUND), last.result(BOUND)) == (None, None)
    assert line.writer.writes == [[0], [1], [3]]


def test_where_others_hold_the_file_each_is_told(line: Appending) -> None:
    others = [line.add(1), line.add(2)]
    line.writer.is_busy = True
    line.writer.go_on.set()
    for future in (line.first, *others):
        with pytest.raises(TimeoutError, match="busy"):
            future.result(BOUND)
    assert others[0].exception() is not others[1].exception()


def test_a_thread_waits_for_its_turn_for_a_bounded_time_and_is_not_written_later() -> None:
    line = Appending(patience=0.05)
    with pytest.raises(TimeoutError, match="busy"):
        line.add(1).result(BOUND)
    line.close()
    assert line.first.result(BOUND) is None
    assert line.writer.writes == [[0]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_lost_database_is_told_to_each_that_waited_by_an_error_for_it_alone(
    line: Appending,
) -> None:
    line.writer.lost = True
    waiting = [line.add(1), line.add(2)]
    line.writer.go_on.set()
    errors = [each.exception(BOUND) for each in waiting]
    assert [str(error) for error in errors] == ["the database is gone: [1, 2]"] * 2
    assert errors[0] is not errors[1]


def test_who_must_write_alone_waits_for_a_bounded_time(line: Appending) -> None:
    line.commit._patience = 0.0
    with pytest.raises(TimeoutError, match="busy"):
        line.commit.alone(lambda: pytest.fail("another thread writes"))
    line.commit._patience = BOUND
    line.writer.go_on.set()
    line.first.result(BOUND)
    assert line.commit.alone(lambda: "done") == "done"


def test_a_process_that_was_forked_meanwhile_does_not_wait_for_the_threads_of_the_other(
    line: Appending,
) -> None:
    line.add(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        child = os.fork()
    if child == 0:
        try:
            line.commit.append([{"n": 2}])
            os._exit(0 if line.writer.writes == [[2]] else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_write_takes_no_more_than_it_should() -> None:
    line = Appending(most=4 * len(str({"n": 1})))
    others = [line.add(number) for number in range(1, 11)]
    line.close()
    assert [future.result(BOUND) for future in others] == [None] * 10
    assert line.writer.writes == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


def test_a_log_waits_for_the_disk_once_for_many_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    begun, go_on = threading.Event(), threading.Event()
    real = os.fsync

    def fsync(file: int) -> None:
        waits.append(file)
        begun.set()
        assert go_on.wait(BOUND)
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    log = AuditLog(tmp_path / "calls.jsonl", fsync=True)
    with ThreadPoolExecutor(21) as threads:
        first = threads.submit(log.append, {"event": "note", "n": 0})
        assert begun.wait(BOUND)
        others = [threads.submit(log.append, {"event": "note", "n": n}) for n in range(1, 21)]
        _until(lambda: len(log._waiting._waiting) == 20)
        go_on.set()
        for future in (first, *others):
            assert future.result(BOUND) is None
    assert len(waits) == 3, "the first line, the folder of the new file, and all the others"
    assert verify_audit(log.path).lines == 22


def test_a_copy_of_a_log_goes_on_with_the_same_file(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "calls.jsonl", max_bytes=8_192, keep=2, fsync=True, key=b"k" * 16)
    log.append({"event": "note", "n": 1})
    copy = pickle.loads(pickle.dumps(log))
    for n in range(100):
        (copy, log)[n % 2].append({"event": "note", "n": n, "text": "x" * 200})
    assert (copy.path, copy.fsync, copy.key) == (log.path, True, b"k" * 16)
    assert verify_audit(log.path, key=b"k" * 16).lines > 20
    assert len(list(tmp_path.iterdir())) == 3, "the newest file, and two that are kept"
    assert log.take_losses() == copy.take_losses() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_while_a_thread_writes_keeps_neither_process_from_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = AuditLog(tmp_path / "calls.jsonl"), AuditLog._write
    inside, written = threading.Event(), threading.Event()

    def pausing(self: AuditLog, *args: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            assert written.wait(BOUND)
        write(self, *args)

    monkeypatch.setattr(AuditLog, "_write", pausing)
    thread = threading.Thread(target=log.append, args=[{"n": 1}])
    thread.start()
    assert inside.wait(BOUND)
    gate, opens = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        child = os.fork()
    if child == 0:
        os.close(opens)
        os.read(gate, 1)  # it lives until the parent has written, and then writes as well
        try:
            log.append({"n": 3})
        finally:
            os._exit(0 if len(log.path.read_text().splitlines()) == 4 else 1)
    written.set()
    thread.join(BOUND)
    assert log.append_now({"n": 2})  # at once: the child does not hold the lock
    os.close(opens)
    os.close(gate)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert verify_audit(log.path).lines == 4
