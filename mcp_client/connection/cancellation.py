"""A call that can be called off: ``call = session.call_tool(...)``, and ``call.cancel(reason)``.

It is what an ``async def`` would have returned, a coroutine: await it, or hand it to a task, once.
``cancel`` may come from any other task of the same event loop. The server is told in the way its
era and transport want, with the reason where they have room for one (2025-11-25
``basic/utilities/cancellation``; 2026-07-28 ``basic/patterns/cancellation``), and an answer that
still comes is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import CoroutineType, TracebackType
from typing import Any, TypeVar

from anyio.lowlevel import checkpoint_if_cancelled

from ..errors import CallCancelled, CallWithdrawn, McpError
from ..runtime.event_loop import Backend, Stoppable, current

__all__ = ["Call"]

T = TypeVar("T")
_LONGEST = 500


class Call(Coroutine[Any, Any, T]):
    """A call on its way, to be awaited once."""

    __slots__ = ("_coroutine", "_server", "_stretch", "_tool", "reason", "sent")

    def __init__(
        self,
        work: Callable[[Call[T]], Coroutine[Any, Any, T]],
        server: str,
        tool: str,
        backend: Backend | None,
    ) -> None:
        self.reason: str | None = None
        """Why it was called off; None while it was not."""
        self.sent = False
        """Whether the server may know of it."""
        self._server = server
        self._tool = tool
        self._stretch: Stoppable | None = None
        self._coroutine = self._run(work, backend)

    def cancel(self, reason: str = "the caller changed their mind") -> None:
        """Call it off, and tell the server ``reason`` (at most 500 characters of it).

        Whoever awaits the call gets ``CallWithdrawn`` if nothing was sent, or ``CallCancelled``:
        then it may have run. A call that has ended stays as it ended.
        """
        if self.reason is None:
            self.reason = str(reason)[:_LONGEST]
            if self._stretch is not None:
                self._stretch.stop()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # anyio's ``start_soon`` took nothing, until 4.14, that does not give itself out for one.
        return CoroutineType

    def __getattr__(self, name: str) -> Any:
        # cr_frame and the like, for who looks at it as one. Not by self._coroutine: a call that
        # was never made (copy, pickle) has none, and would look for it here without end.
        return getattr(object.__getattribute__(self, "_coroutine"), name)

    def __repr__(self) -> str:
        return f"<Call {self._server}/{self._tool}>"

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
        self, work: Callable[[Call[T]], Coroutine[Any, Any, T]], backend: Backend | None
    ) -> T:
        if self.reason is None:
            self._stretch = (backend or current()).stoppable()
            with self._stretch:
                return await work(self)
            await checkpoint_if_cancelled()  # who cancels the task goes before who cancels the call
        raise self.error()

    def error(self) -> McpError:
        """What whoever awaits it gets once it was called off."""
        kind, when = (
            (CallCancelled, f"cancelled: {self.reason}; it may have run")
            if self.sent
            else (CallWithdrawn, f"cancelled before it was sent: {self.reason}")
        )
        return kind(
            f"the call was {when}",
            reason=self.reason or "",
            server=self._server,
            tool=self._tool,
        )
