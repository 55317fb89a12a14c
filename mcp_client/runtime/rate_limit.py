"""At most so many events within a minute."""

from __future__ import annotations

from collections import deque

__all__ = ["RateLimit"]

_MINUTE = 60.0


class RateLimit:
    def __init__(self, most: int) -> None:
        self.most = most
        self._times: deque[float] = deque()

    def allows(self, now: float, number: int = 1) -> bool:
        """Whether ``number`` more may happen ``now``, in seconds of any clock that goes forward."""
        times = self._times
        while times and now - times[0] >= _MINUTE:
            times.popleft()
        return len(times) + number <= self.most

    def count(self, now: float, number: int = 1) -> None:
        """They have happened."""
        self._times.extend([now] * number)
