"""The gate: every tool call, skill, start of a server and use of the host's model is decided here.

A policy decides first, if there is one; then remembered approvals; then the approval hook.

A hook is a callable from ``ApprovalRequest`` to ``Allow`` or ``Deny``, async or sync. An async hook
runs in the caller's task, a sync one in a thread unless it is marked as ``quick``. Concurrent calls
are decided concurrently: ``one_at_a_time(hook)`` wraps a hook that cannot do that, and the terminal
shows one dialogue at a time. An exception, a timeout, a late or invalid decision is a denial.

All waits of a request have one timeout, ``Timeouts(approval=...)``. Closing the gate ends the wait.
2026-07-28 ``server/tools`` (security): clients SHOULD show the inputs and ask.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, TypeVar

import anyio

from ..connection.call_options import stop_if_cancelled
from ..errors import CallPending, ConfigError, InvalidArguments, McpError, StateError
from ..protocol.canonical_json import NotJson
from ..runtime.callbacks import in_thread, invoke_plain_hook, is_async
from ..runtime.daemon_thread import NoThread
from ..runtime.event_loop import being_cancelled
from ..runtime.limits import seconds_text
from ..runtime.safe_text import safe_text
from .decision import (
    Allow,
    ApprovalHook,
    Deny,
    Policy,
    Remember,
    Verdict,
    deny_all,
    not_a_decision,
    not_arguments,
    policy_of,
)
from .question import Closed, Nested, NoAnswer, Question, Questions, current_question
from .remembered import ApprovalMemory, OneCallApproval, write_down
from .request import ApprovalRequest, NotStorable

if TYPE_CHECKING:
    from ..connection.connection import Connection

__all__ = ["Gate", "Memory"]

R = TypeVar("R", bound=ApprovalRequest)
Check: TypeAlias = Callable[[R, Allow], Awaitable[R]]
Decided: TypeAlias = "tuple[Any, str]"
"""An ``Allow``, a ``Deny`` or an invalid value; and who returned it, as errors name them."""

_log = logging.getLogger("mcp_client.approval")
_MAX_EDITS = 3
"""How often an approver is asked about an edit of their own that has findings."""


class Memory(Protocol):
    """A store of earlier decisions for the gate."""

    @property
    def waits(self) -> bool:
        """Whether ``recall`` and ``keep`` read and write files, and therefore run in a thread."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no decisions, as far as is known without waiting."""

    def recall(self, request: ApprovalRequest) -> Allow | None:
        """Return the approval that covers ``request``, or None."""

    def keep(self, request: ApprovalRequest, remember: Remember, by: str | None) -> None:
        """Store an approval.

        Args:
            request: The approved request.
            remember: The reach of the approval.
            by: The person who decided; None if unknown.

        Raises:
            ConfigError: The approval cannot be stored.
        """


class Gate:
    """A gate for requests of one kind of caller; no call is sent without one.

    The callers are a session's calls and skills, its uses of the host's model, and the starts of a
    config file.
    """

    def __init__(
        self,
        hook: ApprovalHook | Policy | None,
        seconds: float,
        fallback: ApprovalHook = deny_all,
        memory: Memory | None = None,
    ) -> None:
        """Use ``fallback`` as the hook if neither ``hook`` nor a policy names one."""
        self.memory: Memory = ApprovalMemory() if memory is None else memory
        self.policy: Policy | None = policy_of(hook)
        named: Any = hook if self.policy is None else self.policy.ask
        self._hook = fallback if named is None else named
        self._hook_policy = policy_of(self._hook)
        self._is_async = is_async(self._hook)
        self._is_quick = not self._is_async and getattr(self._hook, "is_quick", None) is True
        self._seconds = seconds
        self.questions: Questions = Questions()
        self.connection: Connection | None = None
        """Its transport catches up after an answer that was waited for."""
        self._failures: set[tuple[str, str]] = set()

    async def decide(
        self,
        request: R,
        once: OneCallApproval | None = None,
        check: Check[R] | None = None,
        seconds: float = math.inf,
    ) -> Verdict[R]:
        """Return the approval of ``request``, or of the call as the approver edited it.

        Args:
            request: The request to decide.
            once: Stores the approval of this call for a repetition.
            check: Returns an edited call with its findings, which the approver sees first.
            seconds: The time limit, if shorter than the gate's own.

        Raises:
            CallDenied: The request was denied; for other kinds, the error of ``request.refusal``.
            CallPending: The hook raised it, as it did a ``ConfigError``.
            InvalidArguments: ``check`` refused the approver's arguments.
        """
        seconds = min(seconds, self._seconds)
        at_once = self._at_once(request, once, seconds)
        decided = at_once or await self._wait(request, seconds)
        answer, approved = decided[0], request
        if type(answer) is Allow and answer.arguments is not None:
            approved, decided = await self._edit(request, decided, check, seconds)
            answer = decided[0]
        if type(answer) is not Allow:
            self._refuse(request, decided)
        source, reason = answer.source, answer.reason
        is_plain = answer.remember is None and answer.by is None
        if at_once and is_plain:
            return Verdict(approved, source, reason, None, None, answer.expires_at, answer._scope)
        is_once = is_plain and source != "person"
        remember = None if is_once else self._remembered(request, answer)
        expires_at = answer.expires_at
        if remember is not None:
            await self._keep(request, answer, remember, approved, once)
            expires_at = expires_at or (remember.seconds and time.time() + remember.seconds)
        if not at_once and self.connection is not None:
            unread = self.connection.transport.catch_up()
            if unread is not None:
                await unread
        return Verdict(approved, source, reason, remember, answer.by, expires_at, answer._scope)

    async def recall(self, request: ApprovalRequest) -> Allow | None:
        """Return the remembered approval that covers ``request``."""
        if self.memory.waits:
            return await in_thread(self.memory.recall, request)
        return self.memory.recall(request)

    def close(self) -> None:
        """Refuse the waiting requests, and every later one that would have to wait."""
        self.questions.close()

    @property
    def asks_this_task(self) -> bool:
        """Whether the current task is a hook of this gate, while it decides."""
        question = current_question.get()
        return question is not None and question.is_of(self)

    # ------------------------------------------------------------------- asking

    def _at_once(
        self, request: Any, once: OneCallApproval | None, seconds: float
    ) -> Decided | None:
        """Return the decision that needs no wait, or None."""
        by = "the policy"
        answer: Any = None
        memory = self.memory
        try:
            if self.policy is not None:
                answer = self.policy.decide(request)
            if answer is None:
                by = "memory"
                if once is not None and once.asked is not None:
                    answer = once.recall(request)
                if answer is None and not memory.waits:
                    if not memory.is_empty:
                        answer = memory.recall(request)
                    if answer is None and self._hook_policy is not None:
                        by = "the approval hook"
                        answer = self._hook_policy.decide(request)
                    elif answer is None and self._is_quick:
                        by = "the approval hook"
                        answer = self._quickly(request, seconds)
        except Exception as error:  # any failure is a denial
            raise self._failed(request, by, error) from error
        return None if answer is None else (answer, by)

    def _quickly(self, request: Any, seconds: float) -> Any:
        now = self.questions.loop().now
        until = now() + seconds
        answer = self._hook(request)
        if now() >= until:
            raise NoAnswer(seconds)
        return answer

    async def _wait(self, request: ApprovalRequest, seconds: float) -> Decided:
        """Return the decision from the file of decisions or from the hook."""
        by = "memory"
        question = Question(self, seconds)
        loop = question.alarm.loop
        before = loop.current_task().cancelling()
        try:
            with question:
                answer: Any = await self.recall(request) if self.memory.waits else None
                if answer is None:
                    by = "the approval hook"
                    if question.outer is not None and question.is_nested:
                        raise Nested
                    hook, token = self._hook, current_question.set(question)
                    try:
                        if self._is_async:
                            answer = await hook(request)  # type: ignore[misc]
                        elif self._is_quick:
                            answer = hook(request)
                        else:
                            answer = await invoke_plain_hook(hook, request, scope=question.scope)
                    finally:
                        current_question.reset(token)
                    # A hook may swallow a cancellation: by a timeout, a closing session, a caller.
                    is_over = loop.effective_deadline() == -math.inf
                    if is_over or loop.current_task().cancelling() > before:
                        await stop_if_cancelled(None, before)
        except CallPending:
            raise
        except BaseException as error:  # any failure is a denial
            is_cancellation = isinstance(error, anyio.get_cancelled_exc_class())
            hook_alone = is_cancellation and not being_cancelled(before)
            if not isinstance(error, Exception) and not hook_alone:
                raise
            raise self._failed(request, by, error) from error
        return answer, by

    # ------------------------------------------------------------------ editing

    async def _edit(
        self, request: R, decided: Decided, check: Check[R] | None, seconds: float
    ) -> tuple[R, Decided]:
        """Return the call as the approver edited it, and the decision on it.

        The approver is asked again if the edited call has findings.
        """
        last, (answer, by), edits = request, decided, list[Allow]()
        while len(edits) < _MAX_EDITS:
            edits.append(answer)
            edited = self._with_arguments(request, answer.arguments, by)
            if check is not None:
                edited = await check(edited, answer)
            self._check_policy(edited)
            known = {one.known_as for one in last.findings}
            if edited.key == last.key or known.issuperset(one.known_as for one in edited.findings):
                return edited, (answer, by)
            last = edited
            try:
                answer, by = await self._wait(edited, seconds)
            except CallPending:  # the first approval is needed again then
                for earlier in reversed(edits):
                    if earlier._give_back is not None:
                        await earlier._give_back()
                raise
            if type(answer) is not Allow or answer.arguments is None:
                return edited, (answer, by)
        reason = f"the approver edited the arguments {_MAX_EDITS} times, and each has findings"
        raise request.refusal(reason, reason=reason, source=answer.source, by=answer.by)

    def _with_arguments(self, request: R, arguments: Any, who: str) -> R:
        try:
            edited: R = request.with_arguments(arguments)
            return edited
        except NotJson as error:
            raise InvalidArguments(
                f"the arguments {who} returned are not JSON: {error}",
                path=error.path,
                server=request.server,
                tool=request.subject,
            ) from None
        except (TypeError, AttributeError):
            what = not_arguments(arguments) if request.kind == "call" else "Allow with arguments"
            has_none = "" if request.kind == "call" else f", and a {request.kind} has none"
            reason = f"{who} returned {what}{has_none}"
            raise request.refusal(reason, reason=reason) from None

    def _check_policy(self, edited: ApprovalRequest) -> None:
        """Raises where the policy denies a call that the approver edited."""
        if self.policy is None:
            return
        try:
            answer: Any = self.policy.decide(edited)
        except Exception as error:
            raise self._failed(edited, "the policy", error) from error
        if answer is not None and type(answer) is not Allow:
            self._refuse(edited, (answer, "the policy"), "not approved, as the approver edited it")

    # ----------------------------------------------------------------- refusing

    def _refuse(
        self, request: ApprovalRequest, decided: Decided, what: str = "not approved"
    ) -> NoReturn:
        answer, by = decided
        if type(answer) is Deny:
            reason = safe_text(answer.reason, 500)
            model_reason = reason if answer.source == "gate" else ""
            fields = {
                "source": answer.source,
                "by": answer.by,
                "rule": answer.rule,
                "model_reason": model_reason,
            }
            raise request.refusal(f"{what}: {reason}", reason=reason, **fields)
        reason = f"{by} returned {not_a_decision(answer)}"
        _log.warning("%s is refused: %s", _name_of(request), reason)
        raise request.refusal(reason, reason=reason)

    def _failed(self, request: ApprovalRequest, who: str, error: BaseException) -> McpError:
        """Return the error for a failure of ``who`` to decide."""
        if isinstance(error, StateError):
            error.server = error.server or request.server
            return error
        reason = self._failure_reason(error)
        self._log_failure(request, who, error)
        if isinstance(error, NotStorable):  # a mistake of the host, which no decision can fix
            return ConfigError(error.message, server=request.server)
        model_reason = _MODEL_REASONS.get(type(error), "")
        return request.refusal(
            f"{who} made no decision ({reason})", reason=reason, model_reason=model_reason
        )

    def _failure_reason(self, error: BaseException) -> str:
        match error:
            case NoAnswer(args=(seconds,)):
                return f"none within {seconds_text(seconds)}, Timeouts(approval=...)"
            case Closed():
                return "the session was closed"
            case Nested():
                return (
                    "the hook itself made this call while it was deciding another call of the same "
                    "session, and would have to decide this one too; use another session in the "
                    "hook, or let Rules allow the call"
                )
            case ConfigError() | NoThread():
                return safe_text(error, 500)
            case McpError():
                return f"it raised {type(error).__name__}: {safe_text(error, 500)}"
            case AttributeError(obj=ApprovalRequest()):
                return f"it raised AttributeError: {error}"
        return f"it raised {type(error).__name__}"

    def _log_failure(self, request: ApprovalRequest, who: str, error: BaseException) -> None:
        """Each kind of failure with its traceback once, for a mistake in a hook to be found."""
        if isinstance(error, NoAnswer | Closed | Nested):
            return
        if isinstance(error, ConfigError) and not isinstance(error, NotStorable):
            return
        kind = who, _kind_of(error)
        first = kind not in self._failures
        self._failures.add(kind)
        _log.log(
            logging.ERROR if first else logging.DEBUG,
            "%s is refused: %s raised %s",
            _name_of(request),
            who,
            type(error).__name__,
            exc_info=error if first else None,
        )

    # -------------------------------------------------------------- remembering

    def _remembered(self, request: ApprovalRequest, answer: Allow) -> Remember | None:
        """Return the reach of an approval; a person's covers this call while it stays the same."""
        if answer.remember is None:
            return _THIS_CALL
        try:
            return Remember.of(answer.remember)
        except ConfigError as error:
            reason = f"the approval hook returned Allow with {safe_text(error, 300)}"
            raise request.refusal(reason, reason=reason) from None

    async def _keep(
        self,
        request: R,
        answer: Allow,
        remember: Remember,
        approved: R,
        once: OneCallApproval | None,
    ) -> None:
        """Remember an approval. One that cannot be stored is still valid."""
        if remember.scope == "call":
            if once is not None:
                once.keep(request, approved, answer.by)  # type: ignore[arg-type]  # only of calls
            return
        why = approved.why_not_remembered(remember)
        if why is not None:
            _log.warning("%s: the decision is not remembered: %s", _name_of(request), why)
            return
        try:
            if self.memory.waits and remember.scope != "session":
                what = f"{_name_of(request)}: the decision"
                await write_down(what, self.memory.keep, request, remember, answer.by)
            else:
                self.memory.keep(request, remember, answer.by)
        except ConfigError as error:
            _log.warning("%s: the decision is not remembered: %s", _name_of(request), error)
        except Exception as error:
            raise self._failed(request, "memory", error) from error


_THIS_CALL = Remember("call")


_MODEL_REASONS: dict[type[BaseException], str] = {
    NoAnswer: "no decision was made in time",
    Closed: "the session was closed",
}
"""The reasons in ``CallDenied.model_reason``; others concern only the program."""


def _name_of(request: ApprovalRequest) -> str:
    return f"{request.server}/{safe_text(request.subject, 128)}"


def _kind_of(error: BaseException) -> str:
    """The type of ``error``, and the line of code that raised it."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    line = traceback and f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
    return f"{type(error).__qualname__} {line}"
