"""A refresh or login that several requests wait for, and that belongs to none of them.

Ten calls that meet an expired token need one refresh, and one login. The first starts the task and
the others join it; it is cancelled only when the last waiter has left. While a person is asked,
the clocks of all who wait are paused.
"""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio
from anyio.lowlevel import current_token

from ..errors import AuthError, McpError
from ..runtime.background import BackgroundTasks
from ..runtime.event_loop import current
from ..runtime.pausable_clock import PausableClock

__all__ = ["SharedTask"]

_log = logging.getLogger("mcp_client")


class SharedTask:
    """Work under way; ``join`` waits for its outcome."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._done = anyio.Event()
        self._loop = current_token()
        self._error: McpError | None = None
        self._waiting: Counter[PausableClock] = Counter()
        self._people = 0

    def start(self, work: Callable[[SharedTask], Awaitable[None]]) -> None:
        self._scope = BackgroundTasks(current(), self._server).start(lambda: self._run(work))

    @property
    def joinable(self) -> bool:
        """Whether it runs, in the current event loop: one of a loop that ended never finishes."""
        over = self._done.is_set() or self._scope.cancel_called
        return not over and self._loop == current_token()

    @property
    def waiting(self) -> int:
        """How many requests wait for it."""
        return self._waiting.total()

    async def _run(self, work: Callable[[SharedTask], Awaitable[None]]) -> None:
        self._error = AuthError("the login was given up", server=self._server, retryable=True)
        try:
            await work(self)
            self._error = None
        except McpError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - a store or a callback of the host
            # Without the traceback: the texts of a store may have tokens in them.
            _log.debug("%s: the login failed: %s", self._server, type(error).__name__)
            self._error = AuthError(f"the login failed: {type(error).__name__}")
        finally:
            self._done.set()

    async def join(self, clock: PausableClock) -> None:
        """Wait until it is over. Raises a copy of its error."""
        self._waiting[clock] += 1
        for _ in range(self._people):
            clock.stop()
        try:
            await self._done.wait()
        finally:
            self._waiting[clock] -= 1
            self._waiting += Counter()
            for _ in range(self._people):
                clock.go()
            if not self._waiting:
                self._scope.cancel()
        if self._error is not None:
            raise copy.copy(self._error) from None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A person is asked meanwhile, so the clocks are paused."""
        self._people += 1
        for clock in self._waiting.elements():
            clock.stop()
        try:
            yield
        finally:
            self._people -= 1
            for clock in self._waiting.elements():
                clock.go()
