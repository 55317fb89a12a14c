"""The clocks of one request: when they run, when they stop, and for how long at most."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Timeouts
from mcp_client.connection.deadlines import RequestDeadline, RequestDeadlines
from tests.support.properties import examples

TIMEOUTS = Timeouts(idle=10, total=30, approval=100)


class Now:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def over(clock: RequestDeadline, now: float) -> bool:
    return clock.until(now) <= now


def test_silence_ends_a_request_and_progress_extends_it_for_a_bounded_time() -> None:
    clock = RequestDeadline(TIMEOUTS, 0.0)
    assert clock.until(0) == 10
    clock.sign(8)
    assert clock.until(8) == 18
    assert over(clock, 18)
    assert clock.ran_out(18) == "idle"
    clock.sign(29)
    assert clock.until(29) == 30
    assert clock.ran_out(30) == "total"


def test_a_question_stops_both_clocks_and_counts_as_a_sign_of_life() -> None:
    clock = RequestDeadline(TIMEOUTS, 0.0)
    clock.pause(5)
    assert not over(clock, 60)
    clock.resume(65)
    assert clock.until(65) == 75
    clock.sign(74)
    assert clock.until(74) == 84
    clock.sign(83)
    assert clock.until(83) == 90, "5 seconds before the question and 25 after it are 30"


def test_questions_that_overlap_are_not_counted_twice() -> None:
    clock = RequestDeadline(TIMEOUTS, 0.0)
    clock.pause(1)
    clock.pause(2)
    clock.resume(3)
    assert not over(clock, 50)
    clock.resume(51)
    clock.sign(79)
    assert clock.until(79) == 80


def test_a_server_that_never_stops_asking_gets_the_time_of_one_person_and_no_more() -> None:
    clock = RequestDeadline(TIMEOUTS, 0.0)
    now = 0.0
    while not over(clock, now) and now < 1_000:
        clock.pause(now)
        now += 7
        clock.resume(now)
        clock.sign(now)
    assert now == pytest.approx(100 + 30, abs=7)
    assert clock.ran_out(now) == "total"


def test_a_handler_that_never_answers_is_bounded() -> None:
    clock = RequestDeadline(TIMEOUTS, 0.0)
    clock.pause(0)
    assert not over(clock, 129)
    assert over(clock, 130)


def test_only_what_is_under_way_when_the_question_comes_is_stopped() -> None:
    now = Now()
    clocks = RequestDeadlines(now)
    first, removed, later = [RequestDeadline(TIMEOUTS, 0.0) for _ in range(3)]
    clocks.update([first, removed])
    clocks.discard(removed)
    resume = clocks.pause()
    clocks.add(later)
    assert not over(first, 50)
    assert over(removed, 50)
    assert over(later, 50)
    now.at = 50.0
    resume()
    assert over(first, 60)


@examples(200)
@given(
    st.lists(st.tuples(st.floats(0, 20), st.sampled_from(["ask", "answer", "sign"])), max_size=30)
)
def test_whatever_a_server_does_a_request_ends(steps: list[tuple[float, str]]) -> None:
    clock = RequestDeadline(TIMEOUTS, 0.0)
    now, open = 0.0, 0
    acts: dict[str, Callable[[float], None]] = {
        "ask": clock.pause,
        "answer": clock.resume,
        "sign": clock.sign,
    }
    for pause, act in steps:
        now += pause
        if act == "answer" and not open:
            continue
        open += {"ask": 1, "answer": -1, "sign": 0}[act]
        acts[act](now)
    assert over(clock, max(now, 30 + 100 + 0.001))
