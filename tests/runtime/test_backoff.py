"""When a server that failed is started again: tables, on a clock that the test turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.runtime.backoff import STABLE_SECONDS, Backoff, doubled, spread


def starts_in(seconds: float, lives: float | None, jitter: float) -> int:
    """How often a server is started that lives so long each time; None: it never comes up."""
    backoff, now, starts = Backoff(lambda: jitter), 0.0, 0
    while now < seconds:
        backoff.started()
        starts += 1
        if lives is not None:
            backoff.up(now)
            now += lives
        now += 0.01
        backoff.down(now)
        now += backoff.wait(now)
    return starts


@pytest.mark.parametrize("lives", [None, 0.0, 0.5, 3.0])
@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_a_crash_loop_costs_two_to_six_attempts_in_its_first_eight_seconds(
    lives: float | None, jitter: float
) -> None:
    # An attempt may take two starts: the first is lost to the probe of some old servers.
    assert 2 <= starts_in(8, lives, jitter) <= 6


@given(st.floats(0, 1), st.one_of(st.none(), st.floats(0, STABLE_SECONDS - 1)))
def test_a_crash_loop_comes_to_about_a_start_a_minute(jitter: float, lives: float | None) -> None:
    assert starts_in(3600, lives, jitter) <= 10 + 3600 / 30


def test_a_server_that_was_up_for_long_is_started_again_at_once() -> None:
    backoff = Backoff(lambda: 1.0)
    for _ in range(5):
        backoff.started()
        backoff.down(0)
    backoff.up(100)
    backoff.down(100 + STABLE_SECONDS)
    assert backoff.wait(100 + STABLE_SECONDS) == 0


def test_a_server_that_died_for_the_first_time_is_started_again_at_once() -> None:
    backoff = Backoff(lambda: 1.0)
    backoff.started()
    backoff.up(1)
    backoff.down(2)
    assert backoff.wait(2) == 0
    backoff.started()
    backoff.up(3)
    backoff.down(4)
    assert backoff.wait(4) == 1.0


def test_the_pause_is_at_least_what_the_server_asks_for() -> None:
    backoff = Backoff(lambda: 0.0)
    backoff.started()
    backoff.down(0, at_least=17)
    assert backoff.wait(0) == 17
    assert backoff.wait(10) == 7


def test_a_server_cannot_ask_for_more_than_an_hour() -> None:
    backoff = Backoff(lambda: 0.0)
    backoff.started()
    backoff.down(0, at_least=1e9)
    assert backoff.wait(0) == 3600


def test_a_reset_forgets_the_failures() -> None:
    backoff = Backoff(lambda: 1.0)
    backoff.started()
    backoff.down(0)
    backoff.reset()
    assert backoff.wait(0) == 0


def test_a_pause_doubles_up_to_a_limit_and_is_spread() -> None:
    assert [doubled(0.5, times, 3) for times in (-1, 0, 1, 2, 3, 10**9)] == [0.5, 0.5, 1, 2, 3, 3]
    pauses = [spread(2.0) for _ in range(200)]
    assert 1.0 <= min(pauses) < 1.5
    assert 2.5 < max(pauses) <= 3.0
