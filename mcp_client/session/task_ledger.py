"""What sessions share about tasks that are handed over: a key, and which records are closed."""

from __future__ import annotations

import secrets
from typing import Protocol

__all__ = ["PROCESS_LEDGER", "ProcessLedger", "TaskLedger"]

_MOST = 10_000


class TaskLedger(Protocol):
    """Shared by the sessions that may resume each other's tasks."""

    @property
    def key(self) -> bytes:
        """Under which saved tasks are authenticated: a secret."""

    async def close(self, task: str) -> bool:
        """Whether the audit record of ``task`` (``SavedTask.digest``) is the caller's to close:
        True once."""


class ProcessLedger:
    """For the sessions of one process."""

    def __init__(self) -> None:
        self.key = secrets.token_bytes(32)
        self._closed: dict[str, None] = {}

    async def close(self, task: str) -> bool:
        if task in self._closed:
            return False
        self._closed[task] = None
        if len(self._closed) > _MOST:
            del self._closed[next(iter(self._closed))]
        return True


PROCESS_LEDGER = ProcessLedger()
