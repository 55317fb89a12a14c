"""The time of a connection stops while a person is asked."""

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest

from mcp_client.runtime.pausable_clock import PausableClock
from mcp_client.transports.http_base import receive_by


class Loop:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_it_goes_with_the_loop_until_a_person_is_asked() -> None:
    watch = PausableClock(loop := Loop())
    loop.time = 130.0
    assert watch.now() == 130.0
    with watch.stopped():
        loop.time = 190.0
        assert watch.now() == 130.0
    loop.time = 191.0
    assert watch.now() == 131.0


def test_it_goes_on_when_the_last_person_has_answered() -> None:
    watch = PausableClock(loop := Loop())
    with watch.stopped():
        loop.time = 110.0
        with watch.stopped():
            loop.time = 120.0
        loop.time = 130.0
        assert watch.now() == 100.0
    assert watch.now() == 100.0
    loop.time = 131.0
    assert watch.now() == 101.0


def test_a_deadline_is_later_on_the_loop_by_what_people_took() -> None:
    watch = PausableClock(loop := Loop())
    assert watch.on_the_loop(105.0) == 105.0
    with watch.stopped():
        loop.time = 160.0
        assert watch.on_the_loop(105.0) == 165.0
        assert watch.on_the_loop(100.0) > 160.0, "a wait that has run out is not a busy loop"
    assert watch.on_the_loop(105.0) == 165.0


@pytest.mark.parametrize("stopped_before", [False, True])
async def test_a_scope_has_no_deadline_while_a_person_is_asked(stopped_before: bool) -> None:
    watch = PausableClock(loop := Loop())
    if stopped_before:
        watch.stop()
        loop.time = 150.0
    with watch.scope(105.0) as scope:
        timer: Any = watch._timer
        if not stopped_before:
            assert timer.at == 105.0
            watch.stop()
            loop.time = 150.0
        assert timer.at == math.inf
        watch.go()
        assert timer.at == 155.0
        timer.stop()  # the loop of this test is not the one of the watch
        assert not scope.cancel_called
    with watch.stopped():
        pass
    assert timer.at == math.inf, "nothing rings for a scope that was left"


async def test_a_scope_whose_time_is_over_is_cancelled() -> None:
    watch = PausableClock(anyio.current_time)
    with watch.scope(watch.now()) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_wait_that_knows_the_loop_alone_looks_again_whether_its_time_is_over() -> None:
    watch = PausableClock(loop := Loop())
    waits: list[float] = []

    class Line:
        async def receive(self, until: float) -> str:
            waits.append(until)
            loop.time = until
            if len(waits) == 3:
                watch.go()
            assert len(waits) < 10
            raise TimeoutError

    line: Any = Line()
    watch.stop()
    with pytest.raises(TimeoutError):
        await receive_by(watch, line, 105.0)
    assert waits == [105.0, 110.0, 115.0, 120.0], "three looks, and then the five seconds it has"
