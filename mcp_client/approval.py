"""Asking: the approval hook, and what may be plugged in as one.

A hook is a callable from ``ToolCall`` to ``Allow`` or ``Deny``, async or sync. It decides every
call, and it fails closed: an exception, a timeout, a wrong answer or nobody to ask all mean no.
An async hook runs in the caller's task, a sync one in a thread; both are asked one question at a
time, across all sessions that share the hook, unless the hook has a true attribute
``concurrent``. A sync hook with a true attribute ``immediate`` promises not to wait, and is called
in place.

2026-07-28 ``server/tools`` (security): clients SHOULD prompt for confirmation on sensitive
operations, and show the inputs before calling.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.lowlevel import RunVar, checkpoint_if_cancelled

from .backend import being_cancelled
from .decision import Allow, Answer, ApprovalHook, Deny, Remember, Verdict, allow_all, deny_all
from .display import safe_text
from .errors import CallDenied, ConfigError, InvalidArguments
from .protocol.canonical import NotJson
from .tool import ToolCall

__all__ = [
    "Allow",
    "Answer",
    "ApprovalHook",
    "Deny",
    "Gate",
    "Remember",
    "Verdict",
    "allow_all",
    "deny_all",
]


class Gate:
    """The one place where calls are approved. ``session`` makes one; nothing goes round it."""

    def __init__(self, hook: ApprovalHook, seconds: float) -> None:
        self._hook = hook
        self._seconds = seconds
        self._immediate = bool(getattr(self._hook, "immediate", False))
        self._async = _is_async(self._hook)

    async def approve(self, call: ToolCall) -> Verdict:
        """Yes, to ``call`` or to the call the approver made of it. Raises ``CallDenied``."""
        try:
            answer: Any = self._hook(call) if self._immediate else await self._ask(call)
        except BaseException as error:  # whatever befalls the hook, the answer is no
            if not isinstance(error, Exception) and not _cancelled_within(error):
                raise
            reason = _what_befell(error, self._seconds)
            raise _denied(call, f"the approval hook gave no answer ({reason})", reason) from error
        kind = type(answer)
        if kind is Allow:
            _scope(call, answer.remember)
            if answer.arguments is not None:
                call = _edited(call, answer.arguments)
            return Verdict(call, answer.source, answer.reason)
        if kind is Deny:
            reason = safe_text(answer.reason, 500)
            raise _denied(call, f"not approved: {reason}", reason, answer.source)
        reason = f"the approval hook answered {kind.__name__}, neither Allow nor Deny"
        raise _denied(call, reason, reason)

    async def _ask(self, call: ToolCall) -> Any:
        if self._immediate:
            return self._hook(call)
        async with _turn(self._hook):
            with anyio.move_on_after(self._seconds) as clock:
                answer = await self._answer(call)
                # A yes that comes as the caller leaves is a yes to nobody.
                await checkpoint_if_cancelled()
                return answer
            assert clock.cancelled_caught
            raise _NoAnswer

    async def _answer(self, call: ToolCall) -> Any:
        if self._async:
            return await self._hook(call)  # type: ignore[misc]
        (answer,) = await anyio.to_thread.run_sync(
            _in_a_list, self._hook, call, abandon_on_cancel=True
        )
        return await answer if inspect.isawaitable(answer) else answer


def _in_a_list(hook: ApprovalHook, call: ToolCall) -> list[Any]:
    return [hook(call)]  # trio refuses threads that return a bare coroutine


class _NoAnswer(Exception):
    """The clock of the question ran out."""


def _edited(call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
    if not isinstance(arguments, Mapping):
        reason = "the approval hook answered Allow with arguments that are no mapping"
        raise _denied(call, reason, reason)
    try:
        return call.with_arguments(arguments)
    except NotJson as error:
        raise InvalidArguments(
            f"the arguments the approval hook answered with are not JSON: {error}",
            path=error.path,
            server=call.server,
            tool=call.tool.name,
        ) from None


def _scope(call: ToolCall, remember: Any) -> Remember | None:
    try:
        return Remember.of(remember)
    except ConfigError as error:
        reason = f"the approval hook answered Allow with {safe_text(error, 300)}"
        raise _denied(call, reason, reason) from None


def _denied(call: ToolCall, message: str, reason: str, source: str = "gate") -> CallDenied:
    return CallDenied(
        message, reason=reason, source=source, server=call.server, tool=call.tool.name
    )


def _cancelled_within(error: BaseException) -> bool:
    """Whether the hook alone was cancelled, and not the caller."""
    return isinstance(error, anyio.get_cancelled_exc_class()) and not being_cancelled()


def _what_befell(error: BaseException, seconds: float) -> str:
    if isinstance(error, _NoAnswer):
        return f"none within {seconds:g} s, Timeouts(approval=...)"
    return f"it raised {type(error).__name__}"


def _is_async(hook: Any) -> bool:
    while isinstance(hook, functools.partial):
        hook = hook.func
    call = getattr(type(hook), "__call__", None)  # noqa: B004 - the method is wanted, not a test
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(call)


@dataclass(slots=True)
class _Turn:
    lock: anyio.Lock
    wanted: int = 0


_turns: RunVar[dict[Any, _Turn]] = RunVar("mcp_client.approval")


@asynccontextmanager
async def _turn(hook: Any) -> AsyncIterator[None]:
    """One question at a time per hook, in order, in every session of this event loop."""
    if getattr(hook, "concurrent", False):
        yield
        return
    try:
        turns = _turns.get()
    except LookupError:
        turns = {}
        _turns.set(turns)
    # By identity, which every callable has: a bound method is made anew each time it is named, and
    # an object may be neither hashable nor weakly referenced. Kept only while somebody asks.
    key = id(getattr(hook, "__self__", hook)), id(getattr(hook, "__func__", None))
    turn = turns.setdefault(key, _Turn(anyio.Lock()))
    turn.wanted += 1
    try:
        async with turn.lock:
            yield
    finally:
        turn.wanted -= 1
        if not turn.wanted:
            del turns[key]
