"""Clocks and caps: finite by default, one knob each, and a wrong value is refused at once."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from mcp_client import ConfigError, Limits, Timeouts

CLOCKS = [field.name for field in fields(Timeouts) if field.name != "ping"]
CAPS = [field.name for field in fields(Limits)]


def test_every_clock_and_every_cap_is_finite_by_default() -> None:
    for name in CLOCKS:
        assert 0 < getattr(Timeouts(), name) < math.inf
    for name in CAPS:
        assert 0 < getattr(Limits(), name) < 2**31
    assert Timeouts().ping is None, "an interval, and not the end of a wait"


@pytest.mark.parametrize("name", CLOCKS)
@pytest.mark.parametrize("odd", [0, -1, True, "5", None, math.nan, -math.inf])
def test_a_clock_takes_seconds_above_zero(name: str, odd: Any) -> None:
    with pytest.raises(ConfigError, match=rf"Timeouts\({name}="):
        Timeouts(**{name: odd})


@pytest.mark.parametrize("name", CLOCKS)
@pytest.mark.parametrize("fine", [1, 0.001, math.inf])
def test_a_clock_may_be_any_such_number(name: str, fine: float) -> None:
    assert getattr(Timeouts(**{name: fine}), name) == fine


@pytest.mark.parametrize("name", CAPS)
@pytest.mark.parametrize("odd", [0, -1, True, 1.5, "5", None, math.inf])
def test_a_cap_takes_a_whole_number_above_zero(name: str, odd: Any) -> None:
    with pytest.raises(ConfigError, match=rf"Limits\({name}="):
        Limits(**{name: odd})


def test_one_number_for_a_call_sets_idle_and_total_and_leaves_the_rest() -> None:
    base = Timeouts(connect=1, idle=2, total=3, approval=4, close=5)
    assert base.for_call(9) == Timeouts(connect=1, idle=9, total=9, approval=4, close=5)
    assert base.for_call(None) is base
    other = Timeouts(idle=7)
    assert base.for_call(other) is other


@pytest.mark.parametrize("odd", [0, -2, True, "9", math.nan, [1]])
def test_a_wrong_timeout_of_a_call_is_refused(odd: Any) -> None:
    with pytest.raises(ConfigError, match="timeout is"):
        Timeouts().for_call(odd)
