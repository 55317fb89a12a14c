"""How many questions a server may ask, and which call they are about.

2025-11-25 ``client/elicitation`` and ``client/sampling`` want rate limits. There are two:
``Limits.questions_per_minute`` for the session, and ``Limits.questions_per_call``, which also
bounds a tool that keeps asking a model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..runtime.limits import Limits

if TYPE_CHECKING:
    from ..catalog.tool import ToolCall

__all__ = ["LIMIT_EXCEEDED", "QuestionLimits"]

LIMIT_EXCEEDED = -32000
_MINUTE = 60.0


class _Counted:
    __slots__ = ("call", "questions")

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.questions = 0


class QuestionLimits:
    """The calls of one session that are under way, and the questions that were asked."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._calls: dict[str, _Counted] = {}
        self._times: deque[float] = deque()

    def start(self, call: ToolCall) -> None:
        """From here on, a question may be about this call."""
        self._calls[call.id] = _Counted(call)

    def end(self, call: ToolCall) -> None:
        self._calls.pop(call.id, None)

    @property
    def only_call(self) -> ToolCall | None:
        """What a question of the handshake era is about, which does not say: known if exactly one
        call is under way."""
        if len(self._calls) != 1:
            return None
        return next(iter(self._calls.values())).call

    def count(self, number: int, now: Callable[[], float], call: ToolCall | None = None) -> None:
        """Count ``number`` questions about ``call``, or about any call that is under way.

        Raises ``RequestRefused`` where that is too many in the last minute, or for that call. A
        question that may be about several calls is one too many once it is so for all of them.
        """
        from .wire_format import RequestRefused

        limits, times, time = self._limits, self._times, now()
        while times and time - times[0] >= _MINUTE:
            times.popleft()
        if len(times) + number > limits.questions_per_minute:
            raise RequestRefused(
                LIMIT_EXCEEDED,
                f"more than {limits.questions_per_minute} questions within a minute "
                "(Limits.questions_per_minute)",
            )
        counted = [one for one in self._calls.values() if call is None or one.call.id == call.id]
        most = limits.questions_per_call
        if counted and all(one.questions + number > most for one in counted):
            raise RequestRefused(
                LIMIT_EXCEEDED,
                f"more than {most} questions during one call (Limits.questions_per_call)",
            )
        times.extend([time] * number)
        for one in counted:
            one.questions += number
