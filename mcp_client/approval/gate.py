"""The gate: every tool call is decided here before it is sent.

A policy decides first, where there is one; then remembered answers; then the approval hook.

Loading a skill is decided here, too: the same policy, remembered answers and hook are asked with a
``SkillRequest``.

A hook is a callable from ``ToolCall`` to ``Allow`` or ``Deny``, async or sync. An async hook runs
in the caller's task, a sync one in a thread. Calls made side by side are asked about side by side:
``one_at_a_time(hook)`` wraps a hook that cannot do that, and the terminal takes one dialogue at a
time in any case. An exception, a timeout or any other answer means no.

Everything a call waits for here has one clock, ``Timeouts(approval=...)``: the file of remembered
answers, a thread, the hook. Closing the session ends the wait.

2026-07-28 ``server/tools`` (security): clients SHOULD prompt for confirmation on sensitive
operations, and show the inputs before calling.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from ..connection.cancellation import stop_if_cancelled
from ..errors import CallDenied, CallPending, ConfigError, InvalidArguments, McpError
from ..protocol.canonical_json import NotJson
from ..runtime.event_loop import being_cancelled, cancel_requests
from ..runtime.safe_text import safe_text
from .decision import (
    IN_PLACE,
    Allow,
    Answer,
    ApprovalHook,
    Deny,
    Policy,
    Remember,
    Verdict,
    allow_all,
    deny_all,
    not_an_answer,
    not_arguments,
)
from .memory import ApprovalMemory
from .one_call import OneCallApproval
from .questions import Question, current_question, in_thread, invoke_hook, write_down
from .request import ApprovalRequest
from .skill_request import SkillRequest
from .tool_call import ToolCall

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

_log = logging.getLogger("mcp_client.approval")
_Asked: TypeAlias = ToolCall | SkillRequest
_MOST_KINDS = 100
_TICKS = 3
"""Turns of the event loop after a hook has answered, so that what the server said by then is known
when it is checked whether the call is still the one that was approved: one for the loop to see that
there is something to read, one to read it, one for the task that listens for changes."""


class Gate:
    """Decides the calls of one session. ``connect`` makes one, and no call is sent without it."""

    def __init__(
        self,
        hook: ApprovalHook | Policy | None,
        seconds: float,
        fallback: ApprovalHook = deny_all,
        memory: ApprovalMemory | None = None,
    ) -> None:
        """``fallback`` is the hook where neither ``hook`` nor a policy names one."""
        self.memory = ApprovalMemory() if memory is None else memory
        self._policy = hook if isinstance(hook, Policy) else None
        named = hook.ask if isinstance(hook, Policy) else hook
        self._hook = fallback if named is None else named
        self._in_place = any(self._hook is one for one in IN_PLACE)
        self._seconds = seconds
        self._questions: set[Question] = set()
        self._closed = False
        self._failures: set[tuple[str, str]] = set()

    async def approve(self, call: ToolCall, once: OneCallApproval | None = None) -> Verdict:
        """The yes to ``call``, or to the call the approver made of it. Raises ``CallDenied``, and
        ``CallPending`` where the hook does.

        ``once`` keeps a yes to this one call, for when the same call has to be made again.
        """
        answer, who = self._at_once(call, once)
        waited = answer is None
        if waited:
            answer, who = await self._wait(call)
        kind = type(answer)
        if kind is Allow:
            approved = call if answer.arguments is None else _edited(call, answer.arguments)
            for_good, expires = False, answer.expires
            if answer.remember is not None:
                remember = _remember(call, answer.remember)
                await self._keep(call, answer, remember, approved, once)
                for_good = remember.scope == "always" and not approved.edited
                if expires is None and remember.seconds is not None:
                    expires = time.time() + remember.seconds
            for _ in range(_TICKS if waited else 0):
                await checkpoint()
            return Verdict(approved, answer.source, answer.reason, for_good, answer.by, expires)
        if kind is Deny:
            reason = safe_text(answer.reason, 500)
            raise _denied(
                call, f"not approved: {reason}", reason, answer.source, answer.by, answer.rule
            )
        raise _wrong_answer(call, who, answer)

    def refuse(self, call: ToolCall) -> None:
        """Raises ``CallDenied`` where the policy denies a call that the approver edited."""
        if self._policy is None:
            return
        try:
            answer: Any = self._policy.decide(call)
        except Exception as error:
            raise self._failed(call, "the policy", error) from error
        if type(answer) is Deny:
            reason = safe_text(answer.reason, 500)
            message = f"not approved, as the approver edited it: {reason}"
            raise _denied(call, message, reason, answer.source, answer.by, answer.rule)
        if answer is not None and type(answer) is not Allow:
            raise _wrong_answer(call, "the policy", answer)

    async def approve_skill(self, request: SkillRequest) -> Allow:
        """The yes to loading a skill. Raises ``CallDenied``, and ``CallPending`` where the hook
        does."""
        answer, who = self._at_once(request, None)
        if answer is None:
            answer, who = await self._wait(request)
        if type(answer) is Deny:
            reason = safe_text(answer.reason, 500)
            raise _denied(
                request, f"not approved: {reason}", reason, answer.source, answer.by, answer.rule
            )
        if type(answer) is not Allow:
            raise _wrong_answer(request, who, answer)
        if answer.arguments is not None:
            reason = f"{who} answered Allow with arguments, and a skill has none"
            raise _denied(request, reason, reason)
        if answer.remember is None:
            return answer
        remember = _remember(request, answer.remember)
        expires = answer.expires
        if remember.scope != "call":
            await self._keep_skill(request, answer, remember)
            if expires is None and remember.seconds is not None:
                expires = time.time() + remember.seconds
        return replace(answer, remember=remember, expires=expires)

    async def recall(self, call: _Asked) -> Allow | None:
        """The remembered answer that covers ``call``."""
        if self.memory.waits:
            return await in_thread(self.memory.recall, call)
        return self.memory.recall(call)

    def close(self) -> None:
        """Refuse the calls that wait for an answer, and every later one that would have to."""
        self._closed = True
        for question in list(self._questions):
            question.close()

    # ------------------------------------------------------------------- asking

    def _at_once(self, call: Any, once: OneCallApproval | None) -> tuple[Any, str]:
        """The answer that needs no waiting, and who gave it; None if it has to be asked for."""
        who = "the policy"
        answer: Any = None
        memory = self.memory
        try:
            if self._policy is not None:
                answer = self._policy.decide(call)
            if answer is None:
                who = "memory"
                if once is not None and once.asked is not None:
                    answer = once.recall(call)
                if answer is None and not memory.waits:
                    if memory.session.kept or memory.store is not None:
                        answer = memory.recall(call)
                    if answer is None and self._in_place:
                        who = "the approval hook"
                        answer = self._hook(call)
        except Exception as error:  # any failure means no
            raise self._failed(call, who, error) from error
        return answer, who

    async def _wait(self, call: _Asked) -> tuple[Any, str]:
        """The answer from the file of answers or the hook, and which of the two gave it."""
        who = "memory"
        before = cancel_requests()
        try:
            with self._question() as question:
                answer: Any = await self.recall(call) if self.memory.waits else None
                if answer is None:
                    who = "the approval hook"
                    answer = await self._ask(question, call)
                    # A hook may swallow a cancellation: by a timeout, a closing session, a caller.
                    await stop_if_cancelled(None, before)
        except CallPending:
            raise
        except BaseException as error:  # any failure means no
            is_cancellation = isinstance(error, anyio.get_cancelled_exc_class())
            hook_alone = is_cancellation and not being_cancelled(before)
            if not isinstance(error, Exception) and not hook_alone:
                raise
            raise self._failed(call, who, error) from error
        return answer, who

    @contextmanager
    def _question(self) -> Iterator[Question]:
        """The approval timeout, over everything that is waited for inside."""
        with anyio.move_on_after(self._seconds) as scope:
            question = Question(self, scope)
            self._questions.add(question)
            try:
                if self._closed:
                    raise _SessionClosed
                yield question
            finally:
                question.is_open = False
                self._questions.discard(question)
        if scope.cancelled_caught:
            raise _SessionClosed if question.closed else _NoAnswer

    async def _ask(self, question: Question, call: Any) -> Any:
        if question.is_nested:
            raise _Nested
        token = current_question.set(question)
        try:
            return self._hook(call) if self._in_place else await invoke_hook(self._hook, call)
        finally:
            current_question.reset(token)

    def _failed(self, call: _Asked, who: str, error: BaseException) -> CallDenied:
        reason = self._failure_reason(error)
        self._log_failure(call, who, error)
        return _denied(call, f"{who} gave no answer ({reason})", reason)

    def _failure_reason(self, error: BaseException) -> str:
        match error:
            case _NoAnswer():
                return f"none within {self._seconds:g} s, Timeouts(approval=...)"
            case _SessionClosed():
                return "the session was closed"
            case _Nested():
                return (
                    "the hook itself made this call while it was deciding another call of the same "
                    "session, and would have to decide this one too; use another session in the "
                    "hook, or let Rules allow the call"
                )
            case ConfigError():
                return safe_text(error, 500)
            case McpError():
                return f"it raised {type(error).__name__}: {safe_text(error, 500)}"
            case AttributeError(obj=ApprovalRequest()):
                return f"it raised AttributeError: {error}"
        return f"it raised {type(error).__name__}"

    def _log_failure(self, call: _Asked, who: str, error: BaseException) -> None:
        """Each kind of failure with its traceback once, for a mistake in a hook to be found."""
        if isinstance(error, _NoAnswer | _SessionClosed | _Nested | ConfigError):
            return
        kind = who, _kind_of(error)
        first = kind not in self._failures and len(self._failures) < _MOST_KINDS
        self._failures.add(kind)
        _log.log(
            logging.ERROR if first else logging.DEBUG,
            "%s/%s is refused: %s raised %s",
            call.server,
            safe_text(_name_of(call), 128),
            who,
            type(error).__name__,
            exc_info=error if first else None,
        )

    # -------------------------------------------------------------- remembering

    async def _keep(
        self,
        call: ToolCall,
        answer: Allow,
        remember: Remember,
        approved: ToolCall,
        once: OneCallApproval | None,
    ) -> None:
        """Remember a yes as far as it goes. One that cannot be written down is still a yes."""
        if remember.scope == "call":
            if once is not None:
                once.keep(call, approved, answer.by)
            return
        if answer.arguments is not None:
            _log.warning("%s: an answer that edits the arguments is not remembered", call.server)
            return
        await self._write(call, answer, remember)

    async def _keep_skill(self, request: SkillRequest, answer: Allow, remember: Remember) -> None:
        why = "its content is dynamic" if request.dynamic else ""
        why = why or ("a skill has no arguments" if remember.where else "")
        if why:
            _log.warning("%s: the answer about a skill is not remembered: %s", request.server, why)
            return
        await self._write(request, answer, remember)

    async def _write(self, call: _Asked, answer: Allow, remember: Remember) -> None:
        try:
            if self.memory.waits and remember.scope == "always":
                what = f"{call.server}: the answer"
                await write_down(what, self.memory.keep, call, remember, answer.by)
            else:
                self.memory.keep(call, remember, answer.by)
        except ConfigError as error:
            _log.warning("%s: the answer is not remembered: %s", call.server, error)
        except Exception as error:
            raise self._failed(call, "memory", error) from error


class _NoAnswer(Exception):
    """The approval timeout ran out."""


class _SessionClosed(Exception):
    """The gate was closed while the call waited."""


class _Nested(Exception):
    """The hook made this call while it decided another."""


def _edited(call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
    if not isinstance(arguments, Mapping):
        reason = f"the approval hook answered {not_arguments(arguments)}"
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


def _remember(call: _Asked, remember: Any) -> Remember:
    try:
        return remember if type(remember) is Remember else Remember(remember)
    except ConfigError as error:
        reason = f"the approval hook answered Allow with {safe_text(error, 300)}"
        raise _denied(call, reason, reason) from None


def _wrong_answer(call: _Asked, who: str, answer: object) -> CallDenied:
    reason = f"{who} answered {not_an_answer(answer)}"
    _log.warning("%s/%s is refused: %s", call.server, safe_text(_name_of(call), 128), reason)
    return _denied(call, reason, reason)


def _name_of(call: _Asked) -> str:
    return call.uri if isinstance(call, SkillRequest) else call.tool.name


def _denied(
    call: _Asked,
    message: str,
    reason: str,
    source: str = "gate",
    by: str | None = None,
    rule: str = "",
) -> CallDenied:
    if isinstance(call, SkillRequest):
        message = f"the skill {safe_text(call.uri, 200)!r} is not loaded: {message}"
        return CallDenied(
            message, reason=reason, source=source, by=by, rule=rule, server=call.server
        )
    return CallDenied(
        message,
        reason=reason,
        source=source,
        by=by,
        rule=rule,
        server=call.server,
        tool=call.tool.name,
    )


def _kind_of(error: BaseException) -> str:
    """The type of ``error``, and the line of code that raised it."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    line = traceback and f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
    return f"{type(error).__qualname__} {line}"
