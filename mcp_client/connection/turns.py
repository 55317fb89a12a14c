"""The calls of one server that are under way at once (``Limits.in_flight``).

More wait for their turn, in the order in which they ask. A call whose server waits for the host's
answer to a question does not count meanwhile: the handler may call the same server itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from ..runtime.event_loop import Waiter, current

__all__ = ["Turns"]


class Turns:
    """A number of turns, each held by one call from before it is sent until it ends."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._waiting: list[Waiter] = []  # an empty deque takes ten times the memory
        self._granted: set[Waiter] = set()
        """Waiters that have a turn, and whose tasks did not run since."""

    def take(self) -> bool:
        """Take a turn, if one is free and no call waits for it."""
        if self._taken >= self._most:
            return False
        self._taken += 1
        return True

    async def wait(self, seconds: float) -> bool:
        """Wait for a turn; return whether it came within ``seconds``."""
        backend = current()
        waiter = backend.waiter()

        def expire() -> None:
            if not waiter.done():
                waiter.set_result(None)

        self._waiting.append(waiter)
        until = backend.now() + seconds
        timer = None if until == math.inf else backend.call_at(until, expire)
        try:
            await waiter
        except BaseException:
            if waiter in self._granted:  # cancelled before it ran
                self._granted.remove(waiter)
                self.give_back()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        if waiter not in self._granted:
            return False
        self._granted.remove(waiter)
        return True

    def give_back(self) -> None:
        """End a turn: the call that waits longest has the next one."""
        self._taken -= 1
        if self._waiting:
            self._hand_out()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let one more call be under way, while the server waits for an answer."""
        self._most += 1
        self._hand_out()
        try:
            yield
        finally:
            self._most -= 1

    def _hand_out(self) -> None:
        while self._waiting and self._taken < self._most:
            waiter = self._waiting.pop(0)
            if not waiter.done():  # else its time is over, or its task is being cancelled
                self._taken += 1
                self._granted.add(waiter)
                waiter.set_result(None)
