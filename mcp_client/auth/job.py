"""Work that several requests wait for, and that belongs to none of them.

Ten calls that meet an expired token want one refresh, and one login, not ten. The first begins the
job, the others join it; it ends early only when nobody waits for it any more. While a person is
asked, the clock of everybody who waits stands still.
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
    """Begun by ``begin``; its outcome is whatever the work left behind, or an error to all."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._over = anyio.Event()
        self._loop = current_token()
        self._error: McpError | None = None
        self._waiting: Counter[PausableClock] = Counter()
        self._people = 0

    def begin(self, work: Callable[[SharedTask], Awaitable[None]]) -> None:
        self._scope = BackgroundTasks(current(), self._server).start(lambda: self._run(work))

    @property
    def joinable(self) -> bool:
        """Whether it is under way, in the loop we are in: one of a loop that ended never ends."""
        over = self._over.is_set() or self._scope.cancel_called
        return not over and self._loop == current_token()

    async def _run(self, work: Callable[[SharedTask], Awaitable[None]]) -> None:
        self._error = AuthError("the login was given up", server=self._server, retryable=True)
        try:
            await work(self)
            self._error = None
        except McpError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - a store or a callback of the host's
            _log.debug("%s: the login failed", self._server, exc_info=True)
            self._error = AuthError(f"the login failed: {type(error).__name__}")
        finally:
            self._over.set()

    async def joined(self, watch: PausableClock) -> None:
        """Wait until it is over. Raises what it raised, as an error of the caller's own."""
        self._waiting[watch] += 1
        for _ in range(self._people):
            watch.stop()
        try:
            await self._over.wait()
        finally:
            self._waiting[watch] -= 1
            self._waiting += Counter()
            for _ in range(self._people):
                watch.go()
            if not self._waiting:
                self._scope.cancel()
        if self._error is not None:
            raise copy.copy(self._error) from None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """A person is asked meanwhile."""
        self._people += 1
        for watch in self._waiting.elements():
            watch.stop()
        try:
            yield
        finally:
            self._people -= 1
            for watch in self._waiting.elements():
                watch.go()
