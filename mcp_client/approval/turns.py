"""A wrapper for a hook that cannot decide two calls at once."""

from __future__ import annotations

from typing import Any

from ..errors import ConfigError
from ..runtime.callbacks import invoke_hook
from ..runtime.cross_loop_lock import CrossLoopLock
from .decision import Answer, ApprovalHook, policy_of
from .question import remembered_meanwhile
from .request import ApprovalRequest

__all__ = ["OneAtATime", "one_at_a_time"]


class OneAtATime:
    """The approval hook that ``one_at_a_time`` returns."""

    def __init__(self, hook: ApprovalHook) -> None:
        self._hook = hook
        self._lock = CrossLoopLock()

    def __repr__(self) -> str:
        return f"one_at_a_time({self._hook!r})"

    async def __call__(self, call: ApprovalRequest) -> Answer:
        """Decide ``request`` when it is its turn."""
        async with self._lock.turn() as waited:
            answer: Any = await remembered_meanwhile(call) if waited else None
            if answer is None:
                answer = await invoke_hook(self._hook, call)
            result: Answer = answer
            return result


def one_at_a_time(hook: ApprovalHook) -> OneAtATime:
    """Return a hook that passes one call at a time to ``hook``, in order, for all sessions.

    Without it, calls made at the same time are decided at the same time. The wait for the turn
    counts towards ``Timeouts(approval=...)``. A call that an approval given in the meantime covers
    (``Allow(remember="session")``) is not passed on. Wrap a hook once and share the result: each
    wrapper has a queue of its own. Raises ``ConfigError`` for anything that is not a hook. For
    rules, wrap the hook they ask: ``Rules(..., ask=one_at_a_time(hook))``.
    """
    policy = policy_of(hook)
    if policy is not None and policy.ask is not hook:
        raise ConfigError(
            "one_at_a_time() takes a hook, not a policy: write Rules(..., ask=one_at_a_time(hook))"
        )
    if not callable(hook):
        raise ConfigError(
            f"one_at_a_time({hook!r}): give a function from ToolCall to Allow or Deny"
        )
    return OneAtATime(hook)
