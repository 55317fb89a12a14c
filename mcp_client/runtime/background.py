"""Work that belongs to a connection and not to a task: begun by any task, ended by any other."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from .event_loop import Backend

__all__ = ["BackgroundTasks"]

_log = logging.getLogger("mcp_client")


class BackgroundTasks:
    """The background work of one connection. What a job raises is logged and ends that job."""

    def __init__(self, backend: Backend, server: str) -> None:
        self._backend = backend
        self._server = server
        self._scopes: set[anyio.CancelScope] = set()
        self._none_left: anyio.Event | None = None

    def __len__(self) -> int:
        return len(self._scopes)

    def start(self, work: Callable[[], Awaitable[None]]) -> anyio.CancelScope:
        """Begin ``work``; cancelling what is returned ends it."""
        scope = anyio.CancelScope()
        self._scopes.add(scope)

        async def run() -> None:
            try:
                with scope:
                    await work()
            except Exception:  # noqa: BLE001 - nobody waits for it who could be told
                _log.warning("%s: background work failed", self._server, exc_info=True)
            finally:
                self._scopes.discard(scope)
                if not self._scopes and self._none_left is not None:
                    self._none_left.set()

        self._backend.spawn(run)
        return scope

    async def none_left(self) -> None:
        """Wait until every job has ended by itself."""
        if self._scopes:
            await self._emptied().wait()

    async def aclose(self, within: float) -> None:
        """End every job, and wait until they have ended, ``within`` seconds at most."""
        if not self._scopes:
            return
        emptied = self._emptied()
        for scope in list(self._scopes):
            scope.cancel()
        with anyio.move_on_after(within, shield=True):
            await emptied.wait()

    def _emptied(self) -> anyio.Event:
        if self._none_left is None or self._none_left.is_set():
            self._none_left = anyio.Event()
        return self._none_left
