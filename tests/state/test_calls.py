"""The journal by itself: claims, who holds them, and who is gone."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from mcp_client import ConfigError, FileState, NotSent, ToolResult
from mcp_client.errors import InvalidArguments, NotPending, StateError
from mcp_client.processes.process_id import process_id
from mcp_client.state import MemoryState, PostgresState
from mcp_client.state import calls as calls_module
from mcp_client.state import lease as module
from mcp_client.state.calls import MAX_RESULT_BYTES, Calls, Claim

ABOUT = {"digest": "d", "server": "s", "tool": "t", "context": None}


@pytest.fixture
def state(tmp_path: Path) -> FileState:
    return FileState(tmp_path / "s")


def take(calls: Calls, mark: str, *, repeats: bool = False, **about: Any) -> Claim:
    return calls.take("k", {**ABOUT, **about}, mark, repeats=repeats)[0]


def elsewhere(state: FileState, calls: Calls, seconds_ago: float = 0.0) -> None:
    """Have what ``calls`` claimed be a process of another machine, which last gave a sign of life
    so long ago."""
    name = f"other machine:pid:[1]:{process_id().split(':')[-2]}:1"
    for key in state.list("calls"):
        state.change("calls", key, lambda row: {**(row or {}), "process": name})
    for key in state.list("callers"):
        state.change("callers", key, lambda row: {**(row or {}), "at": time.time() - seconds_ago})
    calls._lease._under_way.clear()


def test_a_key_has_one_holder_until_it_ends(state: FileState) -> None:
    calls = state.calls
    assert take(calls, "a") is Claim.MINE
    assert take(calls, "b") is Claim.BUSY
    assert take(Calls(state), "c") is Claim.BUSY, "as another session of this process has it"
    calls.sending("k", "a")
    assert take(calls, "b") is Claim.BUSY
    assert take(calls, "b", repeats=True) is Claim.BUSY, "it is under way"
    calls.end("k", "a", {"result": {}}, may_have_run=True)
    assert take(calls, "b") is Claim.SETTLED
    with pytest.raises(InvalidArguments):
        take(calls, "b", digest="other")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_what_a_forked_child_claims_is_not_its_parents(state: FileState) -> None:
    calls = state.calls
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        child = os.fork()
    if not child:
        try:
            os.write(writer, b"1" if take(calls, "child") is Claim.MINE else b"0")
            signal.pause()  # until its parent kills it
        finally:
            os._exit(1)
    os.close(writer)
    try:
        assert os.read(reader, 1) == b"1"
        assert take(calls, "parent") is Claim.BUSY
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
    assert take(calls, "parent") is Claim.MINE
    calls.end("k", "parent", None, may_have_run=False)


def test_who_has_lost_the_claim_sends_nothing_and_writes_nothing(state: FileState) -> None:
    """As a process does that was suspended until the others took it for gone."""
    late, other = state.calls, Calls(FileState(state.path))
    assert take(late, "late") is Claim.MINE
    elsewhere(state, late, seconds_ago=100)
    assert take(other, "other") is Claim.MINE
    with pytest.raises(NotSent, match="another process has taken over") as caught:
        late.sending("k", "late")
    assert caught.value.retryable
    late.end("k", "late", None, may_have_run=False)
    assert take(late, "again") is Claim.BUSY
    other.sending("k", "other")
    late.end("k", "late", {"result": {"late": True}}, may_have_run=True)
    other.end("k", "other", {"result": {}}, may_have_run=True)
    assert state.list("calls")["k"]["outcome"] == {"result": {}}


@pytest.mark.parametrize("sent", [False, True])
def test_a_process_of_another_machine_counts_as_gone_within_a_minute(
    state: FileState, sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, other = state.calls, Calls(FileState(state.path))
    take(calls, "a")
    if sent:
        calls.sending("k", "a")
    then = Claim.LOST if sent else Claim.MINE
    elsewhere(state, calls, seconds_ago=40)
    assert take(other, "b") is Claim.BUSY
    elsewhere(state, calls, seconds_ago=46)
    assert len(other.unsettled()) == sent
    assert take(other, "b") is then


def test_a_clock_that_is_ahead_holds_up_no_one_for_long(
    state: FileState, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, other = state.calls, Calls(FileState(state.path))
    take(calls, "a")
    elsewhere(state, calls, seconds_ago=-3_600)
    began = time.monotonic()
    assert take(other, "b") is Claim.BUSY
    monkeypatch.setattr(time, "monotonic", lambda: began + 44)
    assert take(other, "b") is Claim.BUSY
    monkeypatch.setattr(time, "monotonic", lambda: began + 60)
    assert take(other, "b") is Claim.MINE


def test_a_claim_whose_writer_was_informed_that_it_failed_is_held_by_no_one(tmp_path: Path) -> None:
    """As where the connection ends while a database commits."""

    class Uncertain(FileState):
        def change(self, kind: str, key: str, function: Any) -> Any:
            changed = super().change(kind, key, function)
            if kind == "calls" and len(failed) < 1:
                failed.append(key)
                raise StateError("the connection was lost")
            return changed

    failed: list[str] = []
    state = Uncertain(tmp_path / "s")
    with pytest.raises(StateError):
        take(state.calls, "a")
    assert state.list("calls")["k"]["mark"] == "a"
    assert take(state.calls, "b") is Claim.MINE


def test_a_process_that_never_renewed_its_lease_is_gone(state: FileState) -> None:
    calls = state.calls
    take(calls, "a")
    elsewhere(state, calls)
    state.remove("callers", list(state.list("callers")))
    assert take(Calls(FileState(state.path)), "b") is Claim.MINE


def test_one_thread_renews_the_lease_while_calls_are_under_way(
    state: FileState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RENEW_SECONDS", 0.01)
    calls, before = state.calls, threading.active_count()
    for number in range(5):
        calls.take(str(number), ABOUT, f"mark {number}", repeats=False)
    assert threading.active_count() == before + 1
    (first,) = state.list("callers").values()
    until = time.monotonic() + 20
    while state.list("callers") == {calls._lease.id: first}:
        assert time.monotonic() < until
    for number in range(5):
        calls.end(str(number), f"mark {number}", None, may_have_run=False)
    until = time.monotonic() + 20
    while threading.active_count() > before:
        assert time.monotonic() < until, "the thread ends with the last call"
    assert state.list("calls") == {}


def test_a_state_in_memory_needs_no_thread_and_no_lease() -> None:
    state, before = MemoryState(), threading.active_count()
    take(state.calls, "a")
    assert threading.active_count() == before
    assert state.list("callers") == {}


class Down(MemoryState):
    waits = True
    down = False

    def change(self, kind: str, key: str, function: Any) -> Any:
        if self.down:
            raise StateError("down")
        return super().change(kind, key, function)


def test_what_could_not_be_written_is_written_when_the_state_is_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_FIRST_RETRY_SECONDS", 0.01)
    state = Down()
    calls = state.calls
    for key in "abc":
        calls.take(key, ABOUT, key, repeats=False)
        calls.sending(key, key)
    state.down = True
    for key in "abc":
        calls.end_later(key, key, {"result": {"n": key}}, may_have_run=True)
    until = time.monotonic() + 20
    while "cannot write the journal now" not in caplog.text:
        assert time.monotonic() < until
    state.down = False
    while any(row["state"] != "settled" for row in state.list("calls").values()):
        assert time.monotonic() < until
    assert [row["outcome"] for row in state.list("calls").values()] == [
        {"result": {"n": key}} for key in "abc"
    ]
    while calls._lease._thread is not None:
        assert time.monotonic() < until


def left_by(state: Down, seconds: float, patch: pytest.MonkeyPatch) -> Calls:
    """The journal of a state that is down, with one change that is left and a thread that will
    not try it again for ``seconds``."""
    patch.setattr(module, "_FIRST_RETRY_SECONDS", seconds)
    patch.setattr(module, "_RENEW_SECONDS", seconds)
    calls = state.calls
    calls.take("k", ABOUT, "mark", repeats=False)
    calls.sending("k", "mark")
    state.down = True
    calls.end_later("k", "mark", {"result": {}}, may_have_run=True)
    return calls


def test_closing_ends_the_thread_after_one_more_try(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = Down()
    calls = left_by(state, 3600, monkeypatch)
    thread = calls._lease._thread
    assert thread is not None
    calls.close()
    assert not thread.is_alive()
    assert calls._lease._thread is None
    assert "the journal lacks the end of 1 call(s)" in caplog.text
    calls.close()

    state.down = False
    claim, _ = calls.take("next", ABOUT, "other", repeats=False)
    assert claim is Claim.MINE, "a later use goes on"
    calls.close()
    assert state.list("calls")["k"]["state"] == "settled"
    assert calls._lease._thread is None


def test_closing_writes_what_is_left_if_that_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Down()
    calls = left_by(state, 3600, monkeypatch)
    state.down = False
    calls.close()
    assert state.list("calls")["k"]["state"] == "settled"


def test_closing_a_state_in_a_database_closes_its_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    state = PostgresState("postgresql://user@127.0.0.1:1/none")
    closed: list[str] = []
    monkeypatch.setattr(state.calls, "close", lambda: closed.append("journal"))
    state.close()
    assert closed == ["journal"]


def test_a_storage_that_hangs_holds_no_close(monkeypatch: pytest.MonkeyPatch) -> None:
    state, hangs = Down(), threading.Event()
    calls = left_by(state, 3600, monkeypatch)
    monkeypatch.setattr(module, "_CLOSE_SECONDS", 0.01)
    monkeypatch.setattr(state, "change", lambda *args: hangs.wait(30))
    thread = calls._lease._thread
    assert thread is not None
    calls.close()
    assert thread.is_alive()
    hangs.set()
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize("row", [{}, {"state": "sent"}, {"state": "sent", "digest": "d"}], ids=str)
def test_a_row_that_is_not_valid_is_reported_and_left(
    row: dict[str, Any], state: FileState
) -> None:
    state.change("calls", "k", lambda found: {**row, "due": 0})
    for use in (lambda: take(state.calls, "a"), state.calls.unsettled):
        with pytest.raises(ConfigError, match="a call cannot be read"):
            use()
    assert state.list("calls")["k"] == {**row, "due": 0}


class StoppedClock:
    """Stands for ``time`` in the module."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def time(self) -> float:
        return self.now

    monotonic = time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StoppedClock:
    clock = StoppedClock()
    monkeypatch.setattr(calls_module, "time", clock)
    return clock


def test_a_row_from_the_claim_to_its_end(clock: StoppedClock) -> None:
    """Each field of it, and that what was written once stays."""
    state = MemoryState()
    calls = Calls(state, keep=10)

    def row() -> dict[str, Any]:
        found: dict[str, Any] = state.list("calls")["k"]
        assert {key: found.pop(key) for key in ABOUT} == ABOUT
        return found

    owner = {"mark": "a", "lease": calls._lease.id, "process": process_id()}
    assert take(calls, "a") is Claim.MINE
    claimed = {**owner, "state": "claimed", "claimed_at": 1_000.0, "due": 1_000.0 + 30 * 86_400}
    assert row() == claimed
    clock.now += 1
    calls.sending("k", "a")
    sent = {**claimed, "state": "sent", "sent_at": 1_001.0, "due": 0}
    assert row() == sent
    clock.now += 1
    calls.sending("k", "a")
    assert row() == sent, "it is sent again, and may have run since the first time"
    assert calls.unsettled() == ()
    calls.end("k", "a", None, may_have_run=True)
    assert row() == {**sent, "mark": "", "lease": ""}
    (lost,) = calls.unsettled()
    assert (lost.key, lost.server, lost.tool, lost.context) == ("k", "s", "t", None)
    assert (lost.sent_at, lost.process) == (1_001.0, process_id())
    assert take(calls, "b") is Claim.LOST
    assert take(calls, "b", repeats=True) is Claim.MINE
    assert row() == {**sent, **owner, "mark": "b"}
    calls.end("k", "b", {"result": 1}, may_have_run=True)
    settled = {**sent, "mark": "b", "state": "settled", "settled_at": 1_002.0}
    assert row() == {**settled, "outcome": {"result": 1}, "due": 1_012.0}
    with pytest.raises(NotSent):
        calls.sending("k", "b")
    calls.end("k", "b", {"result": 2}, may_have_run=True)
    assert row()["outcome"] == {"result": 1}
    clock.now = 1_011.9
    assert take(calls, "c") is Claim.SETTLED
    clock.now = 1_012.0
    assert take(calls, "c", digest="another") is Claim.MINE


@pytest.mark.parametrize(("sent", "may_have_run"), [(False, False), (False, True), (True, False)])
def test_what_did_not_run_leaves_no_row(sent: bool, may_have_run: bool) -> None:
    calls = MemoryState().calls
    take(calls, "a")
    if sent:
        calls.sending("k", "a")
    calls.end("k", "other", None, may_have_run=may_have_run)
    assert take(calls, "b") is Claim.BUSY
    calls.end("k", "a", None, may_have_run=may_have_run)
    assert calls.storage.list("calls") == {}


def test_a_person_settles_what_is_unsettled_and_nothing_else(clock: StoppedClock) -> None:
    state = MemoryState()
    calls = Calls(state, keep=10)
    content = {"content": [{"type": "text", "text": "done"}]}

    def refused() -> None:
        with pytest.raises(NotPending, match="the key 'k' is not unsettled: it is under") as caught:
            calls.settle("k", content)
        assert caught.value.ids == ("k",)

    refused()
    take(calls, "a")
    refused()
    calls.sending("k", "a")
    refused()
    calls.end("k", "a", None, may_have_run=True)
    calls.settle("k", ToolResult.from_wire(content, "", ""))
    found = state.list("calls")["k"]
    assert (found["outcome"], found["due"]) == ({"result": content}, 1_010.0)
    refused()
    clock.now += 10
    take(calls, "a")
    calls.sending("k", "a")
    calls.end("k", "a", None, may_have_run=True)
    calls.settle("k")
    assert state.list("calls")["k"]["outcome"] == {"by_person": True}
    assert "due" not in state.list("calls")["k"], "it is stored permanently"
    clock.now += 1e9
    assert take(calls, "b") is Claim.SETTLED
    assert calls.unsettled() == ()


def test_who_settles_late_takes_nothing_from_another_caller() -> None:
    class Between(MemoryState):
        def change(self, kind: str, key: str, function: Any) -> Any:
            if settling:
                settling.clear()
                take(calls, "b", repeats=True)
            return super().change(kind, key, function)

    settling: list[bool] = []
    calls = Between().calls
    take(calls, "a")
    calls.sending("k", "a")
    calls.end("k", "a", None, may_have_run=True)
    settling.append(True)
    with pytest.raises(NotPending):
        calls.settle("k")
    assert calls.storage.list("calls")["k"]["mark"] == "b"


@pytest.mark.parametrize(
    "result", [{}, [], 5, "text", {"content": 5}, {"content": {1, 2}}], ids=str
)
def test_what_is_not_a_result_settles_nothing(result: Any) -> None:
    calls = MemoryState().calls
    with pytest.raises(ConfigError, match=r"settle\(\): not a valid tool result"):
        calls.settle("k", result)
    with pytest.raises(ConfigError, match=r"settle\(5\): give the key of a call, a str"):
        calls.settle(5, result)  # type: ignore[arg-type]


def test_a_result_of_32_megabytes_is_the_largest_that_settles() -> None:
    def result(size: int) -> dict[str, Any]:
        spare = len('{"content":[{"text":"","type":"text"}]}')
        return {"content": [{"type": "text", "text": "x" * (size - spare)}]}

    calls = MemoryState().calls
    with pytest.raises(NotPending):
        calls.settle("k", result(MAX_RESULT_BYTES))
    with pytest.raises(ConfigError, match="more than 33554432 bytes"):
        calls.settle("k", result(MAX_RESULT_BYTES + 1))


def test_another_caller_is_the_same_until_its_mark_or_its_state_changes() -> None:
    calls = MemoryState().calls
    take(calls, "a")
    claim, row = calls.take("k", ABOUT, "b", repeats=False)
    assert claim is Claim.BUSY
    assert calls.is_same("k", row)
    assert not calls.is_same("other", row)
    calls.sending("k", "a")
    assert not calls.is_same("k", row)
    _, row = calls.take("k", ABOUT, "b", repeats=False)
    assert calls.is_same("k", row)
    calls._lease.leave("a")
    assert not calls.is_same("k", row), "it is gone"


def test_old_rows_are_removed_every_five_seconds(clock: StoppedClock) -> None:
    state = MemoryState()
    calls = state.calls
    for second, left in ((0.0, []), (5.0, ["old"]), (5.1, [])):
        clock.now = 1_000 + second
        state.change("calls", "old", lambda found: {"state": "settled", "due": 5.0})
        calls.take(f"{second}", ABOUT, "m", repeats=False)
        assert [key for key in state.list("calls") if key == "old"] == left


def test_what_has_expired_is_removed_in_small_steps(
    state: FileState, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(150):
        state.change("calls", str(number), lambda found: {"state": "settled", "due": 5.0})
    calls = state.calls
    for left in (51, 2):
        calls._swept = -1e9
        calls.take(f"new {left}", ABOUT, "a", repeats=False)
        assert len(state.list("calls")) == left
    calls.end("new 51", "a", None, may_have_run=False)
    calls.end("new 2", "a", None, may_have_run=False)


def test_a_machine_whose_clock_is_wrong_takes_no_caller_for_gone(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = PostgresState(database), PostgresState(database)
    monkeypatch.setattr(module, "is_alive", lambda name: True)  # another machine
    one.calls.take("k", ABOUT, "mark", repeats=False)
    one.calls.sending("k", "mark")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3_600)
    assert other.calls.unsettled() == ()
    assert other.calls.take("k", ABOUT, "other", repeats=True)[0] is Claim.BUSY
    one.calls.end("k", "mark", None, may_have_run=True)
    assert [call.key for call in other.calls.unsettled()] == ["k"]
    one.close()
    other.close()
