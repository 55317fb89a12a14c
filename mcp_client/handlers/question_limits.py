"""How many questions a server may ask, and which call they are about.

2025-11-25 ``client/elicitation`` and ``client/sampling`` want rate limits. There are two:
``Limits.questions_per_minute`` for the session, and ``Limits.questions_per_call``, which also
bounds a tool that keeps asking a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..runtime.limits import Limits, RateLimit

if TYPE_CHECKING:
    from ..approval.tool_call import ToolCall

__all__ = ["LIMIT_EXCEEDED", "QuestionLimits"]

LIMIT_EXCEEDED = -32000


class QuestionLimits:
    """Counts the questions of one session. ``calls`` has the tool calls under way, by their id."""

    def __init__(self, limits: Limits, calls: Mapping[str, ToolCall]) -> None:
        self._limits = limits
        self._calls = calls
        self._counts: dict[str, int] = {}
        self._rate = RateLimit(limits.questions_per_minute)

    @property
    def only_call(self) -> ToolCall | None:
        """What a question of the handshake era is about, which does not say: known if exactly one
        call is under way."""
        return next(iter(self._calls.values())) if len(self._calls) == 1 else None

    def count(self, number: int, now: Callable[[], float], call: ToolCall | None = None) -> None:
        """Count ``number`` questions about ``call``, or about any call that is under way.

        Raises ``RequestRefused`` where that is too many in the last minute, or for that call. A
        question that may be about several calls is one too many once it is so for all of them.
        """
        from .wire_format import RequestRefused

        limits, rate, time = self._limits, self._rate, now()
        if not rate.allows(time, number):
            raise RequestRefused(
                LIMIT_EXCEEDED,
                f"more than {limits.questions_per_minute} questions within a minute "
                "(Limits.questions_per_minute)",
            )
        counts = {id: self._counts.get(id, 0) for id in self._calls}
        about = list(counts) if call is None else [call.id] if call.id in counts else []
        most = limits.questions_per_call
        if about and all(counts[id] + number > most for id in about):
            raise RequestRefused(
                LIMIT_EXCEEDED,
                f"more than {most} questions during one call (Limits.questions_per_call)",
            )
        rate.count(time, number)
        for id in about:
            counts[id] += number
        self._counts = counts
