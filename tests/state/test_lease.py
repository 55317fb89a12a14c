"""Who is gone; when a process gives its sign of life, and tries again what it could not write."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_client import ConfigError
from mcp_client.errors import StateError
from mcp_client.processes.process_id import process_id
from mcp_client.state import MemoryState
from mcp_client.state import lease as module
from mcp_client.state.lease import Lease

OWN = process_id()
ELSEWHERE = f"other machine:pid:[1]:{OWN.split(':')[-2]}:1"
ENDED = ":".join([*OWN.split(":")[:-2], "999999999", "1"])


class Shared(MemoryState):
    """As others see it, too; by a clock that is set."""

    waits = True
    at = 1_000.0
    down = 0

    def now(self) -> float:
        return self.at

    def change(self, kind: str, key: str, function: Any) -> Any:
        if self.down:
            self.down -= 1
            raise StateError("down")
        return super().change(kind, key, function)


class Clock:
    """Stands for ``time`` in the module, and for the condition that its thread waits for."""

    def __init__(self, lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.waits = 50.0, list[float]()
        self.meanwhile: dict[int, Callable[[], object]] = {}
        """What happens during the n-th wait."""
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(lease, "_changed", self)
        monkeypatch.setattr(lease, "_start", lambda: None)

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...

    def notify(self) -> None: ...

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        self.meanwhile.get(len(self.waits), bool)()


@pytest.fixture
def state() -> Shared:
    return Shared()


@pytest.fixture
def lease(state: Shared) -> Lease:
    return Lease(state)


@pytest.fixture
def clock(lease: Lease, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(lease, monkeypatch)


def claim(lease: str, process: str = ELSEWHERE, mark: str = "m") -> tuple[str, str, str]:
    return mark, lease, process


def test_who_is_gone(state: Shared, lease: Lease, clock: Clock) -> None:
    lease.enter("mine")
    assert lease.has_expired(*claim(""))
    assert not lease.has_expired(*claim(lease.id, mark="mine"))
    assert lease.has_expired(*claim(lease.id, mark="other"))
    assert lease.has_expired(*claim("unknown"))
    for seconds, expired in ((45.0, False), (45.1, True)):
        state.change("callers", "other", lambda found, s=seconds: {"at": state.at - s})
        assert lease.has_expired(*claim("other")) is expired
        assert lease.has_expired(*claim("other", OWN)) is expired
        assert lease.has_expired(*claim("other", ENDED))
    state.change("callers", "other", lambda found: {"at": state.at})
    state.waits = False
    assert lease.has_expired(*claim("other")), "no one else sees this state"


def test_by_a_clock_that_is_wrong_45_seconds_of_watching_decide(
    state: Shared, lease: Lease, clock: Clock
) -> None:
    def gone_after(seconds: float) -> bool:
        clock.now += seconds
        return lease.has_expired(*claim("other"))

    state.change("callers", "other", lambda found: {"at": 9_000.0})
    assert not gone_after(0)
    assert not gone_after(45.0)
    state.change("callers", "other", lambda found: {"at": 9_015.0})
    assert not gone_after(1)
    assert not gone_after(45.0)
    assert gone_after(0.1)


def test_a_thousand_others_are_watched_at_most(state: Shared, lease: Lease, clock: Clock) -> None:
    for number in range(1_001):
        state.change("callers", f"{number}", lambda found: {"at": 9_000.0})
        lease.has_expired(*claim(f"{number}"))
        lease.has_expired(*claim(f"{number}"))
    assert len(lease._watched) == 1_000
    assert "0" not in lease._watched


def test_a_claim_renews_a_lease_of_fifteen_seconds(
    state: Shared, lease: Lease, clock: Clock
) -> None:
    renewed = []
    for seconds in (0.0, 14.9, 0.1, 15.0):
        clock.now += seconds
        state.at += seconds
        lease.enter("m")
        renewed.append(state.list("callers")[lease.id]["at"])
    assert renewed == [1_000, 1_000, 1_015, 1_030]
    (found,) = state.list("callers").values()
    assert found == {"process": OWN, "at": 1_030.0, "due": 1_030.0 + 86_400}


def test_the_first_renewal_alone_removes_what_is_old(state: Shared, lease: Lease) -> None:
    state.change("callers", "old", lambda found: {"at": 0, "due": 999.0})
    lease._renew()
    assert [*state.list("callers")] == [lease.id]
    state.change("callers", "old", lambda found: {"at": 0, "due": 999.0})
    lease._renew()
    assert "old" in state.list("callers")


def test_a_change_is_tried_again_after_a_time_that_doubles(
    state: Shared, lease: Lease, clock: Clock
) -> None:
    made: list[float] = []
    state.down = 7
    lease.later(lambda: made.append(clock.now))
    lease._run()
    assert clock.waits == [0.5, 1, 2, 4, 8, 15, 15, 15]
    assert made == [clock.now]


def test_after_a_success_the_lease_is_renewed_and_the_times_begin_again(
    state: Shared, lease: Lease, clock: Clock
) -> None:
    def last() -> None:
        tries.append(clock.now)
        if len(tries) < 2:
            raise StateError("down")
        lease.leave("m")

    tries: list[float] = []
    lease.enter("m")
    state.down = 2
    lease.later(lambda: None)
    clock.meanwhile[4] = lambda: lease.later(last)
    lease._run()
    assert clock.waits == [0.5, 1, 2, 15, 1]
    assert lease._left == []


def test_a_change_that_the_state_refuses_permanently_is_dropped(
    lease: Lease, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def refused() -> None:
        raise ConfigError("not this")

    def broken() -> None:
        broke.append(clock.now)
        if len(broke) == 1:
            raise ValueError("a bug")

    broke: list[float] = []
    for change in (refused, broken):
        lease.later(change)
    lease._run()
    assert len(broke) == 2
    assert caplog.text.count("cannot record the end of a call in the journal: not this") == 1
    assert "cannot write the journal" in caplog.text
    assert clock.waits == [0.5, 1]


def test_ten_thousand_changes_wait_at_most(
    lease: Lease, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10_000):
        lease.later(print)
    assert caplog.text == ""
    lease.later(print)
    assert "too many calls wait for it" in caplog.text
    assert len(lease._left) == 10_000
