"""Asking: the approval hook, and what may be plugged in as one.

A call goes to the rules, where there are any; then to what is remembered; then to the hook.

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

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.lowlevel import RunVar, checkpoint_if_cancelled

from ..catalog.tool import ToolCall
from ..errors import CallDenied, ConfigError, InvalidArguments
from ..protocol.canonical_json import NotJson
from ..runtime.callbacks import invoke_callback
from ..runtime.event_loop import being_cancelled
from ..runtime.safe_text import safe_text
from .decision import (
    Allow,
    Answer,
    ApprovalHook,
    Deny,
    Policy,
    Remember,
    Verdict,
    allow_all,
    deny_all,
)
from .remembered import ApprovalMemory, OneCallApproval

__all__ = [
    "Allow",
    "Answer",
    "ApprovalHook",
    "Deny",
    "Gate",
    "Policy",
    "Remember",
    "Verdict",
    "allow_all",
    "deny_all",
]

_log = logging.getLogger("mcp_client")


class Gate:
    """The one place where calls are approved. ``connect`` makes one; nothing goes round it.

    The policy decides first, where there is one; then what is remembered; then the hook, or the
    one the policy names, or the person at the terminal (``fallback``).
    """

    def __init__(
        self,
        hook: ApprovalHook | Policy | None,
        seconds: float,
        fallback: ApprovalHook = deny_all,
        memory: ApprovalMemory | None = None,
    ) -> None:
        self.memory = ApprovalMemory() if memory is None else memory
        self._policy = hook if isinstance(hook, Policy) else None
        asked = hook.ask if isinstance(hook, Policy) else hook
        self._hook = fallback if asked is None else asked
        self._seconds = seconds
        self._immediate = bool(getattr(self._hook, "immediate", False))

    async def approve(self, call: ToolCall, once: OneCallApproval | None = None) -> Verdict:
        """Yes, to ``call`` or to the call the approver made of it. Raises ``CallDenied``.

        ``once`` holds a yes to this one call, for when it comes again.
        """
        who = "the policy"
        answer: Any = None
        try:
            if self._policy is not None:
                answer = self._policy.decide(call)
            if answer is None:
                who = "memory"
                answer = None if once is None else once.recall(call)
                if answer is None:
                    memory = self.memory
                    answer = await self._recall(call) if memory.waits else memory.recall(call)
            if answer is None:
                who = "the approval hook"
                answer = self._hook(call) if self._immediate else await self._ask(call, once)
        except BaseException as error:  # whatever befalls them, the answer is no
            if not isinstance(error, Exception) and not _cancelled_within(error):
                raise
            raise self._refusal(call, who, error) from error
        kind = type(answer)
        if kind is Allow:
            approved = call if answer.arguments is None else _edited(call, answer.arguments)
            if answer.remember is not None:
                await self._keep(call, answer, once)
            return Verdict(approved, answer.source, answer.reason)
        if kind is Deny:
            reason = safe_text(answer.reason, 500)
            raise _denied(call, f"not approved: {reason}", reason, answer.source)
        reason = f"{who} answered {kind.__name__}, neither Allow nor Deny"
        raise _denied(call, reason, reason)

    def refuse(self, call: ToolCall) -> None:
        """Raises ``CallDenied`` where the policy denies a call that the approver edited."""
        if self._policy is None:
            return
        try:
            answer: Any = self._policy.decide(call)
        except Exception as error:
            raise self._refusal(call, "the policy", error) from error
        if answer is not None and type(answer) not in (Allow, Deny):
            reason = f"the policy answered {type(answer).__name__}, neither Allow nor Deny"
            raise _denied(call, reason, reason)
        if type(answer) is Deny:
            reason = safe_text(answer.reason, 500)
            message = f"not approved, as the approver edited it: {reason}"
            raise _denied(call, message, reason, answer.source)

    def _refusal(self, call: ToolCall, who: str, error: BaseException) -> CallDenied:
        reason = _failure_reason(error, self._seconds)
        return _denied(call, f"{who} gave no answer ({reason})", reason)

    async def _recall(self, call: ToolCall) -> Allow | None:
        memory = self.memory
        if not memory.waits:
            return memory.recall(call)
        return await anyio.to_thread.run_sync(memory.recall, call)

    async def _keep(self, call: ToolCall, answer: Allow, once: OneCallApproval | None) -> None:
        """Remember a yes as far as it goes. One that cannot be written down is still a yes."""
        remember = _scope(call, answer.remember)
        if remember is None:
            return
        if remember.scope == "call":
            if once is not None:
                once.keep(call, answer)
            return
        if answer.arguments is not None:
            _log.warning("%s: an answer that edits the arguments is not remembered", call.server)
            return
        try:
            if self.memory.waits and remember.scope == "always":
                await anyio.to_thread.run_sync(self.memory.keep, call, remember)
            else:
                self.memory.keep(call, remember)
        except ConfigError as error:
            _log.warning("%s: the answer is not remembered: %s", call.server, error)
        except Exception as error:
            raise self._refusal(call, "memory", error) from error

    async def _ask(self, call: ToolCall, once: OneCallApproval | None) -> Any:
        async with _turn(self._hook) as waited:
            # Who asked before us may have been told to ask no more.
            answer = await self._recall(call) if waited else None
            if answer is not None:
                return answer
            with anyio.move_on_after(self._seconds) as clock:
                answer = await invoke_callback(self._hook, call)
                # A yes that comes as the caller leaves is a yes to nobody.
                await checkpoint_if_cancelled()
                return answer
            assert clock.cancelled_caught
            raise _NoAnswer


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


def _failure_reason(error: BaseException, seconds: float) -> str:
    if isinstance(error, ConfigError):
        return safe_text(error, 500)
    if isinstance(error, _NoAnswer):
        return f"none within {seconds:g} s, Timeouts(approval=...)"
    return f"it raised {type(error).__name__}"


@dataclass(slots=True)
class _Turn:
    lock: anyio.Lock
    wanted: int = 0


_turns: RunVar[dict[Any, _Turn]] = RunVar("mcp_client.approval")


@asynccontextmanager
async def _turn(hook: Any) -> AsyncIterator[bool]:
    """One question at a time per hook, in order, in every session of this event loop.

    Says whether it had to be waited for.
    """
    if getattr(hook, "concurrent", False):
        yield False
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
    waited = turn.wanted > 0
    turn.wanted += 1
    try:
        async with turn.lock:
            yield waited
    finally:
        turn.wanted -= 1
        if not turn.wanted:
            del turns[key]
