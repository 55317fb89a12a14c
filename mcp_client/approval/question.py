"""A request that a gate waits to have decided: its timeout, and what code inside the hook sees.

``current_question`` has it for code inside the hook, child tasks and threads of the hook included.
Two things need it. A call that the hook makes on the same session is refused: the same hook would
have to decide it. A hook whose calls take turns checks again whether a decision that was remembered
in the meantime covers its call.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from ..runtime.event_loop import Backend, Handle, current
from ..runtime.pausable_clock import script_clock

if TYPE_CHECKING:
    import anyio

    from .decision import Allow, Policy
    from .request import ApprovalRequest

__all__ = ["Closed", "Nested", "NoAnswer", "Question", "Questions", "current_question"]
__all__ += ["remembered_meanwhile"]


class NoAnswer(Exception):
    """The approval timeout ran out."""


class Closed(Exception):
    """The gate was closed while the request waited."""


class Nested(Exception):
    """The hook made this call while it decided another."""


class Asker(Protocol):
    """The part of a gate that its questions use."""

    @property
    def questions(self) -> Questions:
        """The open questions of the gate."""

    @property
    def policy(self) -> Policy | None:
        """The policy that decides first, if there is one."""

    async def recall(self, request: ApprovalRequest) -> Allow | None:
        """Return the remembered approval that covers ``request``."""


class Questions:
    """The open questions of one gate."""

    __slots__ = ("_alarm", "_loop", "is_closed", "open")

    def __init__(self) -> None:
        self.is_closed: bool = False
        self.open: dict[Question, None] = {}
        self._loop: Backend | None = None
        self._alarm: _Alarm | None = None

    def loop(self) -> Backend:
        """Return the event loop that runs."""
        loop = self._loop
        if loop is None or loop.running_loop() is not loop.loop:
            loop = self._loop = current()
        return loop

    def alarm(self) -> _Alarm:
        """Return the timer for questions of the event loop that runs."""
        loop, alarm = self.loop(), self._alarm
        if alarm is None or alarm.loop is not loop:
            alarm = self._alarm = _Alarm(loop, self.open)
        return alarm

    def close(self) -> None:
        """Refuse the questions that are open, and every later one."""
        self.is_closed = True
        if self._alarm is not None:
            self._alarm.stop()
        for question in list(self.open):
            question.closed = True
            question.scope.cancel()


class _Alarm:
    """The timer for all open questions of a gate in one event loop.

    On asyncio, each scope of anyio's sets a timer of its own. That takes an eighth of a call (the
    row "a call with an async approval hook"). Scopes of ``kind`` have a deadline and no timer.
    """

    __slots__ = ("_handle", "_open", "at", "kind", "loop")

    def __init__(self, loop: Backend, open: Iterable[Question]) -> None:
        import anyio

        kind: Any = type(anyio.CancelScope())
        has_timers = hasattr(kind, "_timeout")  # not on trio, where a deadline costs little
        self.loop: Backend = loop
        self.kind: type[anyio.CancelScope] = _without_timer(kind) if has_timers else kind
        self.at: float = math.inf if has_timers else -math.inf
        """The time when it rings; infinity if it is not set."""
        self._open = open
        self._handle: Handle | None = None

    def set(self, when: float) -> None:
        """Ring at ``when`` and not at the time that was set before."""
        self.stop()
        self.at, self._handle = when, self.loop.call_at(when, self._ring)

    def stop(self) -> None:
        """Do not ring."""
        if self._handle is not None:
            self._handle.cancel()
            self.at, self._handle = math.inf, None

    def _ring(self) -> None:
        self.at, self._handle = math.inf, None
        now, nearest = self.loop.now(), math.inf
        for question in [each for each in self._open if each.alarm is self]:
            if question.until <= now:
                question.scope.cancel()
            else:
                nearest = min(nearest, question.until)
        if nearest < math.inf:
            self.set(nearest)


@functools.cache
def _without_timer(kind: Any) -> Any:
    """Return a class of anyio's scopes that wait for other code to cancel them."""
    return type(kind.__name__, (kind,), {"__slots__": (), "_timeout": lambda scope: None})


class Question:
    """The approval timeout over everything that is waited for inside: a context manager.

    It raises ``NoAnswer`` once ``seconds`` have passed, and ``Closed`` if the gate is closed.
    """

    __slots__ = (
        *("_script", "_seconds"),
        *("alarm", "closed", "gate", "is_open", "outer", "scope", "until"),
    )

    def __init__(self, gate: Asker, seconds: float) -> None:
        self.gate: Asker = gate
        self.outer: Question | None = current_question.get()
        """The question whose hook made this call, if one did."""
        self.is_open: bool = True
        self.closed: bool = False
        """Whether the gate was closed before there was an answer."""
        self.alarm: _Alarm = gate.questions.alarm()
        self._seconds = seconds

    def __enter__(self) -> Question:
        questions, alarm = self.gate.questions, self.alarm
        if questions.is_closed:
            raise Closed
        self.until: float = alarm.loop.now() + self._seconds
        self.scope: anyio.CancelScope = alarm.kind(deadline=self.until)
        self._script = script_clock.get()
        if self._script is not None:
            self._script.stop()
        self.scope.__enter__()
        questions.open[self] = None
        if self.until < alarm.at:
            alarm.set(self.until)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.is_open = False
        self.gate.questions.open.pop(self, None)
        if self._script is not None:
            self._script.go()
        scope = self.scope
        scope.__exit__(kind, error, traceback)
        # A hook that holds up the event loop answers before its cancellation comes.
        late = error is None and self.alarm.loop.now() >= self.until
        if late or scope.cancelled_caught:
            raise Closed if self.closed else NoAnswer(self._seconds)

    @property
    def is_nested(self) -> bool:
        """Whether the call was made by the hook of the same gate while it decides another call."""
        return self.outer is not None and self.outer.is_of(self.gate)

    def is_of(self, gate: Asker) -> bool:
        """Whether this question, or one around it, is an open one of ``gate``."""
        question: Question | None = self
        while question is not None:
            # A task the hook left behind outlives its question and may make calls of its own.
            if question.gate is gate and question.is_open:
                return True
            question = question.outer
        return False


current_question: ContextVar[Question | None] = ContextVar("mcp_client.approval", default=None)


async def remembered_meanwhile(call: ApprovalRequest) -> Allow | None:
    """Return the remembered answer that covers ``call`` by now, for a hook that waited its turn."""
    question = current_question.get()
    if question is None or not question.is_open:
        return None
    return await question.gate.recall(call)
