"""The measure of the tests that bound how the time of a piece of work grows."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.timing import grows_linearly


def _looping(steps: int) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(steps):
            pass

    return loop


def test_time_that_grows_with_the_square_is_distinguished_from_time_that_grows_with_the_size() -> (
    None
):
    assert grows_linearly(lambda size: _looping(100 * size), 20, 32)
    assert not grows_linearly(lambda size: _looping(size * size), 20, 32)
