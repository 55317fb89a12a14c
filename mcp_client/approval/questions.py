"""The question a hook is deciding, as code inside the hook can find it.

A ``ContextVar`` holds it, so child tasks and threads of the hook see it too. Two things need it: a
call that the hook makes on the same session, which would have to be decided by that hook again and
is refused instead; and a hook whose calls take turns, which looks once more whether an answer
remembered in the meantime covers its call.

Hooks and files of answers have threads of their own: sync hooks that never return would otherwise
take all of anyio's, and every later call would wait for one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import anyio
from anyio.lowlevel import RunVar

from ..runtime.callbacks import invoke_callback
from .decision import Allow, ApprovalHook
from .request import ApprovalRequest

__all__ = [
    "Question",
    "current_question",
    "in_thread",
    "invoke_hook",
    "remembered_meanwhile",
    "write_down",
]

T = TypeVar("T")

_log = logging.getLogger("mcp_client.approval")
_WRITE_SECONDS = 15.0
"""Waiting for another process that writes the same file takes at most ten."""
_HOOK_THREADS = 256
_OTHER_THREADS = 16


class Recalls(Protocol):
    """What a question needs of its gate."""

    async def recall(self, call: ApprovalRequest) -> Allow | None: ...


class Question:
    """One call that a gate is waiting to have decided."""

    __slots__ = ("closed", "gate", "is_open", "outer", "scope")

    def __init__(self, gate: Recalls, scope: anyio.CancelScope) -> None:
        self.gate = gate
        self.scope = scope
        self.outer = current_question.get()
        """The question whose hook made this call, if one did."""
        self.is_open = True
        self.closed = False
        """Whether the gate was closed before there was an answer."""

    def close(self) -> None:
        self.closed = True
        self.scope.cancel()

    @property
    def is_nested(self) -> bool:
        """Whether the call was made by the hook of the same gate while it decides another call."""
        outer = self.outer
        while outer is not None:
            # A task the hook left behind outlives its question and may make calls of its own.
            if outer.gate is self.gate and outer.is_open:
                return True
            outer = outer.outer
        return False


current_question: ContextVar[Question | None] = ContextVar("mcp_client.approval", default=None)


async def remembered_meanwhile(call: ApprovalRequest) -> Allow | None:
    """The remembered answer that covers ``call`` by now, for a hook that waited for its turn."""
    question = current_question.get()
    if question is None or not question.is_open:
        return None
    return await question.gate.recall(call)


async def invoke_hook(hook: ApprovalHook, call: ApprovalRequest) -> Any:
    """The answer of ``hook``: awaited where it is async, else from a thread of its own."""
    return await invoke_callback(hook, call, limiter=_limiter(_hook_threads, _HOOK_THREADS))


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """``function(*args)`` in a thread, which is left to itself if the caller is cancelled."""
    limiter = _limiter(_other_threads, _OTHER_THREADS)
    return await anyio.to_thread.run_sync(function, *args, abandon_on_cancel=True, limiter=limiter)


async def write_down(
    what: str, write: Callable[..., object], *args: Any, seconds: float = _WRITE_SECONDS
) -> None:
    """Call ``write(*args)``, which writes a file, in a thread and for a bounded time.

    A yes that cannot be written down in time is still a yes: that is logged, with ``what`` it was.
    """
    with anyio.move_on_after(seconds) as scope:
        await in_thread(write, *args)
    if scope.cancelled_caught:
        _log.warning("%s is not remembered: writing it hangs", what)


_hook_threads: RunVar[anyio.CapacityLimiter] = RunVar("mcp_client.approval.hooks")
_other_threads: RunVar[anyio.CapacityLimiter] = RunVar("mcp_client.approval.others")


def _limiter(variable: RunVar[anyio.CapacityLimiter], threads: int) -> anyio.CapacityLimiter:
    try:
        return variable.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(threads)
        variable.set(limiter)
        return limiter
