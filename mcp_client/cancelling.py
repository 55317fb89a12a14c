"""A call that can be called off: ``call = session.call_tool(...)``, and ``call.cancel(reason)``.

It is what an ``async def`` would have returned, a coroutine: await it, or hand it to a task, once.
``cancel`` may come from any other task of the same event loop. The server is told in the way its
era and transport want, with the reason where they have room for one (2025-11-25
``basic/utilities/cancellation``; 2026-07-28 ``basic/patterns/cancellation``), and an answer that
still comes is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, TypeVar

import anyio

from .errors import CallCancelled, CallWithdrawn, McpError

__all__ = ["Call", "Cancelling"]

T = TypeVar("T")
_LONGEST = 500


class Cancelling:
    """What one call knows of its own end."""

    __slots__ = ("reason", "scope", "sent")

    def __init__(self) -> None:
        self.reason: str | None = None
        """Why it was called off; None while it was not."""
        self.sent = False
        """Whether the server may know of it."""
        self.scope: anyio.CancelScope | None = None

    def error(self, server: str, tool: str) -> McpError:
        if self.sent:
            return CallCancelled(
                f"the call was cancelled: {self.reason}; it may have run",
                reason=self.reason or "",
                server=server,
                tool=tool,
            )
        return CallWithdrawn(
            f"the call was cancelled before it was sent: {self.reason}",
            reason=self.reason or "",
            server=server,
            tool=tool,
        )


class Call(Coroutine[Any, Any, T]):
    """A call on its way, to be awaited once."""

    __slots__ = ("_cancelling", "_coroutine")

    def __init__(
        self,
        work: Callable[[Cancelling], Coroutine[Any, Any, T]],
        server: str,
        tool: str,
    ) -> None:
        self._cancelling = Cancelling()
        self._coroutine = _run(work, self._cancelling, server, tool)

    def cancel(self, reason: str = "the caller changed their mind") -> None:
        """Call it off, and tell the server ``reason`` (at most 500 characters of it).

        Whoever awaits the call gets ``CallWithdrawn`` if nothing was sent, or ``CallCancelled``:
        then it may have run. A call that has ended stays as it ended.
        """
        state = self._cancelling
        if state.reason is None:
            state.reason = str(reason)[:_LONGEST]
            if state.scope is not None:
                state.scope.cancel()

    def __repr__(self) -> str:
        return f"<Call {self._coroutine!r}>"

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(
        self,
        kind: Any,
        value: Any = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        if value is None and traceback is None:
            return self._coroutine.throw(kind)
        return self._coroutine.throw(kind, value, traceback)

    def close(self) -> None:
        self._coroutine.close()


async def _run(
    work: Callable[[Cancelling], Coroutine[Any, Any, T]],
    state: Cancelling,
    server: str,
    tool: str,
) -> T:
    if state.reason is None:
        with anyio.CancelScope() as scope:
            state.scope = scope
            return await work(state)
    raise state.error(server, tool)
