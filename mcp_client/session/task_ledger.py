"""What sessions share about tasks that are handed over: a key, and which records are closed."""

from __future__ import annotations

import logging
import os
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ..errors import McpError

if TYPE_CHECKING:
    from ..state import State

__all__ = ["PROCESS_LEDGER", "ProcessLedger", "StateLedger", "TaskLedger"]

_log = logging.getLogger("mcp_client")
_MOST = 10_000
_KIND = "tasks"
_KEPT = 90 * 86_400.0
"""Seconds after which a task that has ended is forgotten."""
_CLEARED = 16
"""One of so many ends of tasks looks for those that are to be forgotten."""


class TaskLedger(ABC):
    """Shared by the sessions that may resume each other's tasks."""

    async def prepare(self) -> None:  # noqa: B027 - most have nothing to do
        """Called before a task is started: from then on ``key`` takes no wait."""

    @abstractmethod
    def key(self) -> bytes:
        """Under which saved tasks are authenticated: a secret."""

    @abstractmethod
    async def close(self, task: str) -> bool:
        """Whether the audit record of ``task`` (``SavedTask.digest``) is the caller's to close:
        True once."""


class ProcessLedger(TaskLedger):
    """For the sessions of one process."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._closed: dict[str, None] = {}

    def key(self) -> bytes:
        return self._key

    async def close(self, task: str) -> bool:
        if task in self._closed:
            return False
        self._closed[task] = None
        if len(self._closed) > _MOST:
            del self._closed[next(iter(self._closed))]
        return True


class StateLedger(TaskLedger):
    """For the sessions of every process that shares a state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._key: bytes | None = None

    async def prepare(self) -> None:
        if self._key is None:
            from ..runtime.callbacks import in_thread

            await in_thread(self.key)

    def key(self) -> bytes:
        if self._key is None:
            self._key = self._state.secret(_KIND)
        return self._key

    async def close(self, task: str) -> bool:
        from ..runtime.callbacks import in_thread

        try:
            return await in_thread(self._close, task)
        except McpError as error:  # a record that is closed twice is better than one left open
            _log.warning("whether a task has been recorded already cannot be told: %s", error)
            return True

    def _close(self, task: str) -> bool:
        mine = {"closed_by": os.urandom(16).hex(), "at": time.time()}
        won = self._state.change(_KIND, task, lambda found: found or mine) == mine
        if won and os.urandom(1)[0] % _CLEARED == 0:
            self._clear()
        return won

    def _clear(self) -> None:
        before = time.time() - _KEPT
        for task, row in self._state.list(_KIND).items():
            if not row.get("at", 0) > before:
                self._state.change(_KIND, task, lambda found: None)


PROCESS_LEDGER = ProcessLedger()
