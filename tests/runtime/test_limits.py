"""Clocks and caps: finite by default, one knob each, and a wrong value is refused at once."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from mcp_client import ConfigError, Limits, Timeouts
from mcp_client.runtime.limits import seconds_text

CLOCKS = [field.name for field in fields(Timeouts) if field.name != "ping"]
CAPS = [field.name for field in fields(Limits)]


def test_every_clock_and_every_cap_is_finite_by_default() -> None:
    for name in CLOCKS:
        assert 0 < getattr(Timeouts(), name) < math.inf
    for name in CAPS:
        assert 0 < getattr(Limits(), name) < 2**31
    assert Timeouts().ping is None, "an interval, and not the end of a wait"


@pytest.mark.parametrize("odd", [0, -1, True, "5", None, math.nan, -math.inf])
def test_a_clock_takes_seconds_above_zero(odd: Any) -> None:
    for name in CLOCKS:
        with pytest.raises(ConfigError, match=rf"Timeouts\({name}="):
            Timeouts(**{name: odd})


@pytest.mark.parametrize("fine", [1, 0.001, math.inf])
def test_a_clock_may_be_any_such_number(fine: float) -> None:
    for name in CLOCKS:
        assert getattr(Timeouts(**{name: fine}), name) == fine


@pytest.mark.parametrize("odd", [0, -1, True, 1.5, "5", None, math.inf])
def test_a_cap_takes_a_whole_number_above_zero(odd: Any) -> None:
    for name in CAPS:
        with pytest.raises(ConfigError, match=rf"Limits\({name}="):
            Limits(**{name: odd})


def test_one_number_for_a_call_is_its_total_and_lifts_no_other_bound() -> None:
    base = Timeouts(connect=1, idle=2, total=3, approval=4, close=5)
    assert base.for_call(9) == Timeouts(connect=1, idle=2, total=9, approval=4, close=5)
    assert base.for_call(1) == Timeouts(connect=1, idle=1, total=1, approval=4, close=5)
    assert base.for_call(None) is base
    other = Timeouts(idle=7)
    assert base.for_call(other) is other


def test_only_a_silence_that_was_not_set_is_allowed_for_as_long_as_the_call() -> None:
    assert Timeouts(total=9).for_call(300).idle == 300
    assert Timeouts(idle=60.0).for_call(300).idle == 60
    assert Timeouts().for_call(5).idle == 5


def test_what_is_left_of_the_time_names_what_was_allowed() -> None:
    whole = Timeouts(connect=7, idle=60, total=90, approval=3, ping=4)
    left = whole.after(50).after(15.5)
    assert (left.idle, left.total, left.connect, left.approval, left.ping) == (24.5, 24.5, 7, 3, 4)
    assert left.expired("total") == ("total", 90)
    assert left.expired("idle") == ("idle", 60)
    connecting = Timeouts(idle=1, connect=20, total=600).for_connecting()
    assert (connecting.idle, connecting.total) == (20, 20)
    assert connecting.expired("idle") == connecting.expired("total") == ("connect", 20)
    assert connecting.after(5).expired("total") == ("connect", 20)


@pytest.mark.parametrize(
    ("seconds", "displayed"),
    [
        (0.5, "0.5 s"),
        (600, "600 s"),
        (86_400.0, "86400 s"),
        (1 / 3, "0.33 s"),
        (2.0, "2 s"),
        (0.0958714, "0.096 s"),
        (math.inf, "inf s"),
    ],
)
def test_times_are_rounded_for_people(seconds: float, displayed: str) -> None:
    assert seconds_text(seconds) == displayed


@pytest.mark.parametrize("odd", [0, -2, True, "9", math.nan, [1]])
def test_a_wrong_timeout_of_a_call_is_refused(odd: Any) -> None:
    with pytest.raises(ConfigError, match="timeout is"):
        Timeouts().for_call(odd)


def test_of_a_time_that_has_run_out_the_least_is_left() -> None:
    for spent in (1.0, 1.0000002, 3.0):  # time passes between a check and a request
        left = Timeouts(total=1.0).after(spent)
        assert 0 < left.total < 0.001
        assert left.expired("total") == ("total", 1.0)
