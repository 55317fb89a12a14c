"""What waits to be decided, what was decided, and how that changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeAlias

from anyio.lowlevel import checkpoint

from ..errors import ConfigError
from ..runtime.event_loop import in_event_loop
from ..runtime.signal import Signal
from .decision import Answer
from .questions import in_thread
from .request import ApprovalRequest

__all__ = ["DecidedApproval", "PendingApproval", "PendingChanges"]


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A request that waits to be decided. Times are seconds since the beginning of 1970, UTC."""

    id: str
    """Random, and used for no other call; ``request.id`` is the one in the audit."""
    request: ApprovalRequest
    asked_at: float
    expires_at: float | None
    """When it will be refused if it is not decided; None where nothing limits that."""


@dataclass(frozen=True, slots=True)
class DecidedApproval:
    """A request that was decided lately. Whether a call was then sent and ran is in the audit."""

    id: str
    request: ApprovalRequest
    asked_at: float
    decided_at: float
    answer: Answer
    """With ``answer.by``, who decided."""


All: TypeAlias = tuple[PendingApproval, ...]


class PendingChanges:
    """What is pending, each time it is another than this iterator gave last.

    The first is what is pending now, as soon as that is something. For ``async for`` in any event
    loop, and for ``for`` in a thread. A reader that is slow misses what lies between, never the
    last state. It holds nothing that has to be released; ``close`` ends it, from any task or
    thread, as ``with`` and ``async with`` do.
    """

    def __init__(self, look: Callable[[], All], signal: Signal, seconds: float | None) -> None:
        """``look`` gives what is pending, ``signal`` tells of changes; where these may come from
        another process, ``look`` waits, and ``seconds`` are those after which it is called again.
        """
        self._look = look
        self._signal = signal
        self._seconds = seconds
        self._last: All = ()
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> All:
        await checkpoint()
        while not self._closed:
            with self._signal.task_listener() as listener:
                now = self._look() if self._seconds is None else await in_thread(self._look)
                if self._is_new(now):
                    return now
                if not self._closed:
                    await listener.wait(self._seconds)
        raise StopAsyncIteration

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> All:
        while not self._closed:
            with self._signal.thread_listener() as listener:
                now = self._look()
                if self._is_new(now):
                    return now
                if in_event_loop():
                    raise ConfigError("'for' would block this event loop: use 'async for'")
                if not self._closed:
                    listener.wait(self._seconds)
        raise StopIteration

    def close(self) -> None:
        """End the iteration, also for a task that waits for the next state."""
        self._closed = True
        self._signal.notify()

    async def aclose(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _is_new(self, now: All) -> bool:
        if self._closed or now == self._last:
            return False
        self._last = now
        return True
